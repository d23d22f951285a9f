//! The judge of waiters: their order, how long the resource is free while they wait, and when they
//! give up.

use std::collections::{BTreeMap, BTreeSet};

use super::replies::{HolderAnswer, Replies};
use super::{Exempt, Exemptions, Fault, Kind, Times, fault};
use crate::simulation::plan::{MILLI, Network, Plan, What, Work};
use crate::simulation::store::{GATE, LOCK, OTHER, PLACES, TABLE, keys_of};

/// A resource that a job waits for, if one look shows whether it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::simulation) enum Need {
    Lock,
    Other,
    Permits(u64),
    Read,
    Write,
    /// An open latch.
    Latch,
}

pub(in crate::simulation) struct Waits {
    waiters: BTreeMap<usize, Waiter>,
    /// When each job began the request for its grant.
    begun: BTreeMap<usize, u64>,
    /// When the latest wait of each job ended.
    ended: BTreeMap<usize, u64>,
    /// When each awaited resource became free.
    free_since_us: BTreeMap<Need, u64>,
    bounds: Bounds,
    /// The newest token of a writer, and when the store granted it.
    wrote: Option<(u64, u64)>,
    /// A waiter could not listen: until then it may miss notifications.
    unsure_until_us: u64,
}

struct Waiter {
    /// `None` for a latch.
    what: Option<What>,
    since_us: u64,
}

/// Bounds of durations.
struct Bounds {
    has_wake_ups: bool,
    poll_us: u64,
    /// How long a resource may be free while a caller waits for it, if nothing goes wrong.
    idle_us: Option<u64>,
    shut_us: Option<u64>,
    /// When all is well, and how long a resource may be free after that.
    well: (u64, u64),
    /// How long one answer travels, and how long the last request takes.
    travel_us: u64,
    last_us: u64,
    timeout_us: u64,
    /// How far apart callers must come to be served in their order.
    apart_us: Option<u64>,
    /// Whether each waits for one permit: a waiter for more may get the notification for another
    /// one, and leaves the permit.
    is_one_permit: bool,
    /// Whether all waiters for the read-write lock want the same side.
    is_one_side: bool,
}

/// When nodes stood still.
#[derive(Default)]
pub(in crate::simulation) struct Stood(Vec<(usize, u64, u64)>);

/// The end of a wait: when it began, when it was to end, and when it did.
pub(super) struct Waited {
    pub(super) what: Option<What>,
    pub(super) since_us: u64,
    pub(super) until_us: u64,
    pub(super) at_us: u64,
}

impl Need {
    fn of(what: Option<What>) -> Option<Need> {
        Some(match what {
            None => Need::Latch,
            Some(What::Lock { .. }) => Need::Lock,
            Some(What::Other) => Need::Other,
            Some(What::Permits(count)) => Need::Permits(count),
            Some(What::Read) => Need::Read,
            Some(What::Write) => Need::Write,
            Some(What::Both | What::Quorum) => return None,
        })
    }

    pub(in crate::simulation) fn key(self) -> &'static str {
        match self {
            Need::Lock => LOCK,
            Need::Other => OTHER,
            Need::Permits(_) => PLACES,
            Need::Read | Need::Write => TABLE,
            Need::Latch => GATE,
        }
    }
}

impl Stood {
    pub(in crate::simulation) fn still(&mut self, node: usize, from_us: u64, until_us: u64) {
        self.0.push((node, from_us, until_us));
    }

    /// Returns whether the node stood still at some time between these.
    pub(super) fn has(&self, node: usize, from_us: u64, until_us: u64) -> bool {
        self.0.iter().any(|(of, from, until)| *of == node && *from <= until_us && *until >= from_us)
    }
}

impl Bounds {
    fn new(plan: &Plan) -> Self {
        let Network { least_us, most_us, late, .. } = plan.network;
        let timeout_us = plan.timeout_us;
        let poll_us = plan.terms.poll_us.filter(|_| plan.terms.wake_ups);
        let poll_us = poll_us.unwrap_or(plan.usual_poll_us());
        let calls_us = 16 * most_us + 10 * MILLI;
        let is_plain = plan.is_calm() && least_us == most_us && !plan.terms.replicas;
        let wanted = |side| {
            plan.works()
                .any(|work| matches!(work, Work::Hold { what, again, wait_us, .. } if again || what == side && wait_us > 0))
        };
        Bounds {
            has_wake_ups: plan.terms.wake_ups,
            poll_us,
            idle_us: plan.longest_idle_us(),
            shut_us: plan.longest_shut_us(),
            well: (plan.freed_us() + 4 * poll_us + 6 * timeout_us, 4 * poll_us + 6 * timeout_us),
            travel_us: if late > 0 { timeout_us } else { most_us },
            last_us: if is_plain { calls_us } else { 6 * timeout_us },
            timeout_us,
            apart_us: is_plain.then_some(calls_us),
            is_one_permit: plan.works().all(|work| {
                !matches!(work, Work::Hold { what: What::Permits(2..), wait_us: 1.., .. })
            }),
            is_one_side: !(wanted(What::Read) && wanted(What::Write)),
        }
    }
}

impl Waits {
    pub(super) fn new(plan: &Plan) -> Self {
        Waits {
            waiters: BTreeMap::new(),
            begun: BTreeMap::new(),
            ended: BTreeMap::new(),
            free_since_us: BTreeMap::new(),
            bounds: Bounds::new(plan),
            wrote: None,
            unsure_until_us: 0,
        }
    }

    /// A job begins to wait for this, or for a latch.
    pub(super) fn begins(&mut self, job: usize, what: Option<What>, times: Times) {
        let Times { polled_us, now_us, .. } = times;
        if let Some(need) = Need::of(what)
            && !self.needs(need.key()).contains(&need)
        {
            // Nothing has checked yet whether it is free.
            self.free_since_us.remove(&need);
        }
        self.waiters.insert(job, Waiter { what, since_us: now_us });
        self.begun.insert(job, polled_us);
    }

    /// A job has its answer.
    pub(super) fn answered(&mut self, job: usize, now_us: u64) {
        self.ends(job);
        self.ended.insert(job, now_us);
    }

    pub(in crate::simulation) fn ends(&mut self, job: usize) {
        self.waiters.remove(&job);
    }

    /// Returns by when a job had its grant: it may ask for the same again before it reports the
    /// grant.
    pub(super) fn granted_us(&self, job: usize) -> Option<u64> {
        self.ended.get(&job).copied()
    }

    /// Returns when a job began the request for its grant.
    pub(super) fn begun_us(&self, job: usize) -> Option<u64> {
        self.begun.get(&job).copied()
    }

    /// Returns whether a job waits for two locks, one of which it may have.
    pub(super) fn has_half(&self) -> bool {
        self.waiters.values().any(|waiter| waiter.what == Some(What::Both))
    }

    /// The store granted a write lock, whoever learns of it.
    pub(in crate::simulation) fn wrote(&mut self, token: u64, now_us: u64) {
        // A holder that acquires it again keeps its token.
        if self.wrote.is_none_or(|(newest, _)| newest < token) {
            self.wrote = Some((token, now_us));
        }
    }

    /// L9: a job got a grant. It passed no earlier waiter in line, and no reader passed a waiting
    /// writer that has asked since the latest writer was granted.
    pub(super) fn got(&self, job: usize, what: What, now_us: u64) -> Result<(), Fault> {
        let granted_us = self.granted_us(job).unwrap_or(now_us);
        let wrote_us = self.wrote.map(|(_, at_us)| at_us);
        let (Some(apart_us), Some(begun_us)) = (self.bounds.apart_us, self.begun_us(job)) else {
            return Ok(());
        };
        // A waiter asks at least once in each poll.
        let asked_by_us = wrote_us.map_or(0, |wrote_us| wrote_us + self.bounds.poll_us + apart_us);
        let has_asked = |waiter: &Waiter| {
            what != What::Read || asked_by_us < granted_us || wrote_us < Some(waiter.since_us)
        };
        let is_passed = |waiter: &Waiter| {
            matches!(
                (waiter.what, what),
                (Some(What::Lock { is_fair: true }), What::Lock { .. } | What::Both)
                    | (Some(What::Write), What::Read)
            )
        };
        let passed = self.waiters.iter().find(|(_, waiter)| {
            is_passed(waiter) && has_asked(waiter) && waiter.since_us + apart_us < begun_us
        });
        match passed {
            Some((other, Waiter { since_us, .. })) => {
                let what = format!(
                    "job {job} came at {begun_us} us and has {what:?}; job {other} waits since {since_us} us"
                );
                fault(Kind::Jumped, what)
            }
            None => Ok(()),
        }
    }

    /// A wait has ended. A failed one ends at its limit, not before, and not much later.
    pub(super) fn waited(
        &self,
        node: usize,
        waited: &Waited,
        denial: Option<&HolderAnswer>,
        replies: &Replies,
        (stood, exempt): (&Stood, &Exemptions),
    ) -> Result<(), Fault> {
        let Waited { what, since_us, until_us, at_us } = *waited;
        let span = format!("{what:?} from {since_us} us until {until_us} us, and at {at_us} us");
        if denial.is_some() && at_us < until_us {
            return fault(Kind::Early, format!("{span} it was denied"));
        }
        let stood = stood.has(node, since_us, at_us);
        let is_several = matches!(what, Some(What::Both | What::Quorum));
        let last_us = self.bounds.last_us * if is_several { 2 } else { 1 };
        let is_late = at_us > until_us.saturating_add(last_us);
        if !exempt.is(Exempt::Stood, stood) && is_late {
            return fault(Kind::TooLong, format!("{span} it ended"));
        }
        let Some(denial) = denial else { return Ok(()) };
        // It asks again when the time is over, or does not get its answer before.
        let travel_us = if is_several { 8 * self.bounds.timeout_us } else { self.bounds.travel_us };
        let last_us = if stood { 0 } else { until_us.saturating_sub(travel_us + 1) };
        let keys = what.map_or_else(|| vec![GATE.to_owned()], keys_of);
        replies.told(&keys, node, since_us.max(last_us), denial)
    }

    /// Returns the needs of the jobs that wait for this key.
    pub(in crate::simulation) fn needs(&self, key: &str) -> BTreeSet<Need> {
        let all = self.waiters.values().filter_map(|waiter| Need::of(waiter.what));
        all.filter(|need| need.key() == key).collect()
    }

    /// Takes note of whether a resource is free.
    pub(in crate::simulation) fn is_free(&mut self, need: Need, is_free: bool, now_us: u64) {
        match is_free {
            true => _ = self.free_since_us.entry(need).or_insert(now_us),
            false => _ = self.free_since_us.remove(&need),
        }
    }

    /// A waiter has left the line of a lock. Without wake-ups, the next waiter learns that the lock
    /// is free when it polls.
    pub(in crate::simulation) fn left_line(&mut self, need: Need, now_us: u64) {
        if let Some(since_us) =
            self.free_since_us.get_mut(&need).filter(|_| !self.bounds.has_wake_ups)
        {
            *since_us = now_us;
        }
    }

    /// A waiter could not listen, and learns by polls that the resource is free.
    pub(in crate::simulation) fn polls(&mut self, now_us: u64) {
        self.unsure_until_us = now_us + self.bounds.poll_us;
    }

    /// A job starts or ends a wait: the resource was not free for long meanwhile.
    pub(in crate::simulation) fn idle(
        &self,
        now_us: u64,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        let Bounds { well: (well_us, well_idle_us), poll_us, .. } = self.bounds;
        for (job, Waiter { what, since_us }) in &self.waiters {
            let Some(need) = Need::of(*what) else { continue };
            let Some(free_us) = self.free_since_us.get(&need) else { continue };
            let is_latch = need == Need::Latch;
            let idle_us = if is_latch { self.bounds.shut_us } else { self.bounds.idle_us };
            // A notification for one may wake another waiter that cannot use it.
            let is_for_one = match need {
                Need::Permits(count) => count == 1 && self.bounds.is_one_permit,
                Need::Read | Need::Write => self.bounds.is_one_side,
                _ => true,
            };
            let from_us = *free_us.max(since_us);
            let (from_us, longest_us) = match idle_us {
                Some(idle_us) if is_for_one => (from_us.max(self.unsure_until_us), idle_us),
                Some(idle_us) => (from_us.max(self.unsure_until_us), idle_us + poll_us),
                None => (from_us.max(well_us), well_idle_us),
            };
            if exempt.is(Exempt::Unwell, idle_us.is_none() && now_us <= well_us) {
                continue;
            }
            if from_us + longest_us < now_us {
                let what = format!(
                    "{need:?} is free since {free_us} us, and job {job} waits since {since_us} us"
                );
                return fault(Kind::Idle, what);
            }
        }
        Ok(())
    }
}
