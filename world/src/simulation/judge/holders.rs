//! The holders of each key, by their own clocks, and its waiters.

use std::collections::{BTreeMap, BTreeSet};

use lockage::locks::Loss;

use super::{Exempt, Exemptions, Fault, Kind, Oracle, fault};
use crate::simulation::plan::{Plan, SERVERS, What, Work};
use crate::simulation::store::{LOCK, PLACES};

pub(in crate::simulation) struct Holders {
    permits: u64,
    holders: BTreeMap<(usize, What), Holder>,
    /// When each job has asked for what it holds.
    begun: BTreeMap<usize, u64>,
    /// What each waits for, since when.
    waiters: BTreeMap<usize, (What, u64)>,
    /// Since when the lock is free, and a permit, if they are.
    free_since_us: BTreeMap<&'static str, u64>,
    /// Whether each waits for one permit: one that waits for more takes the notice of another, and leaves the permit.
    is_one_permit: bool,
    longest_idle_us: Option<u64>,
    has_wake_ups: bool,
    longest_us: Option<u64>,
    /// From then on nothing is lost.
    well_us: Option<u64>,
    /// The jobs whose runtime is blocked at some time, and since when it is not.
    blocked: BTreeSet<usize>,
    sure_us: u64,
}

struct Holder {
    /// When it was asked for.
    begun_us: u64,
    since_us: u64,
    until_us: u64,
    token: u64,
}

/// What a job is sure of.
#[derive(Clone, Copy)]
pub(super) struct Grant {
    pub(super) job: usize,
    pub(super) what: What,
    pub(super) token: u64,
    pub(super) until_us: u64,
}

impl Holders {
    pub(super) fn new(plan: &Plan) -> Self {
        Holders {
            permits: plan.permits,
            holders: BTreeMap::new(),
            begun: BTreeMap::new(),
            waiters: BTreeMap::new(),
            free_since_us: [(LOCK, 0), (PLACES, 0)].into(),
            is_one_permit: plan.works().all(|work| {
                !matches!(work, Work::Hold { what: What::Permits(2..), wait_us: 1.., .. })
            }),
            longest_idle_us: plan.longest_idle_us(),
            has_wake_ups: plan.terms.wake_ups,
            longest_us: plan.terms.longest_us.map(|longest_us| longest_us + longest_us / 1000 + 1),
            well_us: plan.terms.longest_us.is_none().then(|| plan.well_us()),
            blocked: plan.blocked_jobs().collect(),
            sure_us: plan.sure_us(),
        }
    }

    pub(super) fn waits(&mut self, job: usize, what: What, now_us: u64) {
        self.waiters.insert(job, (what, now_us));
        self.begun.insert(job, now_us);
    }

    pub(super) fn waits_no_longer(&mut self, job: usize) {
        self.waiters.remove(&job);
    }

    pub(super) fn holds(
        &mut self,
        grant: Grant,
        now_us: u64,
        shaken_us: Option<u64>,
        exempt: &Exemptions,
        store: &impl Oracle,
    ) -> Result<(), Fault> {
        let Grant { job, what, token, until_us } = grant;
        let begun_us = self.begun.get(&job).copied().unwrap_or(now_us);
        let new = Holder { begun_us, since_us: now_us, until_us, token };
        let holder = self.holders.entry((job, what)).or_insert(new);
        (holder.until_us, holder.token) = (until_us, token);
        let is_too_long = |longest_us| until_us > holder.since_us + longest_us;
        if what != What::Quorum && self.longest_us.is_some_and(is_too_long) {
            let since_us = holder.since_us;
            let what = format!("{what:?} is held from {since_us} us until {until_us} us");
            return fault(Kind::TooLong, what);
        }
        // A failover or a clock may have ended it.
        let is_shaken = shaken_us.is_some_and(|shaken_us| holder.begun_us <= shaken_us);
        if exempt.is(Exempt::Shaken, is_shaken) {
            return Ok(());
        }
        if what == What::Quorum {
            let servers = store.granted_by(until_us);
            if servers < SERVERS / 2 + 1 {
                let what =
                    format!("{what:?} is held until {until_us} us, and on {servers} servers");
                return fault(Kind::Lease, what);
            }
        } else {
            let granted_us = store.granted_until_us(what, token);
            if granted_us.is_none_or(|granted_us| granted_us < until_us) {
                let what = format!(
                    "{what:?} is held until {until_us} us, in the store until {granted_us:?} us"
                );
                return fault(Kind::Lease, what);
            }
        }
        self.exclusion(now_us, shaken_us)
    }

    pub(super) fn lost(&mut self, job: usize, what: What, loss: Loss) -> Result<(), Fault> {
        let held = self.holders.remove(&(job, what));
        let sure_us = if self.blocked.contains(&job) { self.sure_us } else { 0 };
        let is_well = |held: Holder| {
            self.well_us.is_some_and(|well_us| held.since_us >= well_us.max(sure_us))
        };
        if held.is_some_and(is_well) {
            return fault(Kind::Lost, format!("job {job} has lost {what:?}: {loss}"));
        }
        Ok(())
    }

    pub(super) fn left(&mut self, job: usize, what: What) {
        self.holders.remove(&(job, what));
    }

    pub(super) fn cancelled(&mut self, job: usize) {
        self.holders.retain(|(of, _), _| *of != job);
        self.waiters.remove(&job);
    }

    /// Takes note of whether the lock of this key, or a permit, is free.
    pub(in crate::simulation) fn is_free(&mut self, key: &'static str, is_free: bool, now_us: u64) {
        match is_free {
            true => _ = self.free_since_us.entry(key).or_insert(now_us),
            false => _ = self.free_since_us.remove(key),
        }
    }

    /// A waiter has left the line of a lock. Without wake-ups, the one that the lock is free for now learns of that when
    /// it polls.
    pub(in crate::simulation) fn left_line(&mut self, key: &'static str, now_us: u64) {
        if let Some(since_us) = self.free_since_us.get_mut(key).filter(|_| !self.has_wake_ups) {
            *since_us = now_us;
        }
    }

    /// Returns this key if it is known how long what it holds may be free.
    pub(in crate::simulation) fn watched(&self, key: &str) -> Option<&'static str> {
        self.longest_idle_us?;
        [LOCK, PLACES].into_iter().find(|watched| *watched == key)
    }

    /// A waiter could not listen. Until it polls, it is unknown how long what it waits for is free.
    pub(in crate::simulation) fn polls(&mut self) {
        self.longest_idle_us = None;
    }

    /// Somebody comes to what is watched, or ends to wait for it: it was not free for long meanwhile.
    pub(in crate::simulation) fn idle(&self, now_us: u64) -> Result<(), Fault> {
        let Some(longest_us) = self.longest_idle_us else { return Ok(()) };
        for (job, (what, since_us)) in &self.waiters {
            let key = match what {
                What::Lock { .. } => LOCK,
                What::Permits(1) if self.is_one_permit => PLACES,
                _ => continue,
            };
            if let Some(free_us) = self.free_since_us.get(key)
                && *free_us.max(since_us) + longest_us < now_us
            {
                let what = format!(
                    "{key} is free since {free_us} us, and job {job} waits since {since_us} us"
                );
                return fault(Kind::Idle, what);
            }
        }
        Ok(())
    }

    fn exclusion(&self, now_us: u64, shaken_us: Option<u64>) -> Result<(), Fault> {
        let live = self.holders.iter().filter(|(_, holder)| {
            holder.until_us > now_us && shaken_us.is_none_or(|at_us| holder.begun_us > at_us)
        });
        let (mut locks, mut others, mut quorums) = (0, 0, 0);
        let (mut permits, mut readers, mut writers) = (0, 0, 0);
        for ((_, what), _) in live.clone() {
            match what {
                What::Lock { .. } => locks += 1,
                What::Both => (locks, others) = (locks + 1, others + 1),
                What::Other => others += 1,
                What::Permits(count) => permits += count,
                What::Read => readers += 1,
                What::Write => writers += 1,
                What::Quorum => quorums += 1,
            }
        }
        let is_alone = locks < 2 && others < 2 && quorums < 2 && permits <= self.permits;
        if is_alone && writers < 2 && (writers == 0 || readers == 0) {
            return Ok(());
        }
        let all: Vec<_> = live
            .map(|((job, what), Holder { token, until_us, .. })| {
                format!("job {job} has {what:?} by token {token} until {until_us} us")
            })
            .collect();
        fault(Kind::Exclusion, all.join(", "))
    }
}
