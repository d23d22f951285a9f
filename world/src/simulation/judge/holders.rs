//! The holders of each key, by their own clocks, and for how long they work.

use std::collections::{BTreeMap, BTreeSet};

use lockage::locks::Loss;

use super::replies::{HolderAnswer, Replies};
use super::{Exempt, Exemptions, Fault, Kind, Oracle, Times, fault};
use crate::simulation::plan::{MILLI, Plan, SERVERS, What};
use crate::simulation::store::keys_of;

pub(in crate::simulation) struct Holders {
    permits: u64,
    holders: BTreeMap<(usize, What), Holder>,
    longest_us: Option<u64>,
    /// The time from which nothing is lost.
    well_us: Option<u64>,
    /// The jobs whose runtime was blocked while they ran on it, and since when none is.
    blocked: BTreeSet<usize>,
    sure_us: u64,
}

struct Holder {
    /// When the grant was requested.
    begun_us: u64,
    /// By when the grant was made.
    granted_us: u64,
    since_us: u64,
    until_us: u64,
    token: u64,
}

/// A grant that a job surely holds.
#[derive(Clone, Copy)]
pub(super) struct Grant {
    pub(super) job: usize,
    pub(super) what: What,
    pub(super) token: u64,
    pub(super) until_us: u64,
}

/// The store's answers and the world's events, for the checks of the judge.
pub(super) struct Known<'j, O> {
    pub(super) store: &'j O,
    pub(super) replies: &'j Replies,
    pub(super) exempt: &'j Exemptions,
    pub(super) shaken_us: Option<u64>,
}

impl<O: Oracle> Known<'_, O> {
    /// Returns when the store last told a node that this token holds one resource.
    fn known_us(&self, node: usize, what: What, token: u64) -> u64 {
        self.replies.held_us(&keys_of(what)[0], node, token).next_back().unwrap_or_default()
    }

    fn is_held(&self, what: What, token: u64, now_us: u64) -> bool {
        self.store.granted_until_us(what, token).is_some_and(|until_us| until_us > now_us)
    }
}

impl<O> Known<'_, O> {
    /// Returns whether a failover or a clock may have ended a grant that began at this time.
    pub(super) fn is_shaken(&self, begun_us: u64) -> bool {
        let is_shaken = self.shaken_us.is_some_and(|shaken_us| begun_us <= shaken_us);
        self.exempt.is(Exempt::Shaken, is_shaken)
    }
}

impl Holders {
    pub(super) fn new(plan: &Plan) -> Self {
        Holders {
            permits: plan.permits,
            holders: BTreeMap::new(),
            longest_us: plan.terms.longest_us.map(|longest_us| longest_us + longest_us / 1000 + 1),
            well_us: plan.terms.longest_us.is_none().then(|| plan.well_us()),
            blocked: BTreeSet::new(),
            sure_us: plan.sure_us(),
        }
    }

    /// The runtime of a job is blocked.
    pub(in crate::simulation) fn blocks(&mut self, job: usize) {
        self.blocked.insert(job);
    }

    /// A job holds a grant from now on.
    pub(super) fn holds(
        &mut self,
        grant: Grant,
        (begun_us, granted_us): (u64, u64),
        Times { polled_us, now_us, .. }: Times,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        let Grant { job, what, token, until_us } = grant;
        let new = Holder { begun_us, granted_us, since_us: now_us, until_us, token };
        let holder = self.holders.entry((job, what)).or_insert(new);
        (holder.until_us, holder.token) = (until_us, token);
        let is_too_long = |longest_us| until_us > holder.since_us + longest_us;
        if what != What::Quorum && self.longest_us.is_some_and(is_too_long) {
            let since_us = holder.since_us;
            let what = format!("{what:?} is held from {since_us} us until {until_us} us");
            return fault(Kind::TooLong, what);
        }
        if known.is_shaken(holder.begun_us) {
            return Ok(());
        }
        // It looked before its process stood still, and its own deadline passed meanwhile, perhaps with the lease.
        let is_past = polled_us < now_us && until_us <= now_us;
        if !known.exempt.is(Exempt::Stood, is_past) {
            outlasts(what, token, until_us, known.store)?;
        }
        self.exclusion(now_us, known.shaken_us)
    }

    /// A job works on its grant without a check that it is held: its lease in the store has not
    /// ended.
    pub(super) fn works(
        &self,
        job: usize,
        what: What,
        Times { polled_us, now_us, .. }: Times,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        let Some(holder) = self.holders.get(&(job, what)) else { return Ok(()) };
        // It is unknown afterwards whether the store held it when the process began to stand still.
        if known.exempt.is(Exempt::Stood, polled_us < now_us) {
            return Ok(());
        }
        let is_over = |longest_us| now_us > holder.since_us + longest_us;
        if what != What::Quorum && self.longest_us.is_some_and(is_over) {
            return fault(Kind::TooLong, format!("job {job} works on {what:?}"));
        }
        if known.is_shaken(holder.begun_us) {
            return Ok(());
        }
        outlasts(what, holder.token, now_us + 1, known.store)?;
        match self.holders.get(&(job, What::Other)) {
            Some(other) if what == What::Both => {
                outlasts(What::Other, other.token, now_us + 1, known.store)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn lost(
        &mut self,
        (job, what): (usize, What),
        loss: Loss,
        now_us: u64,
        node: usize,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        let held = self.holders.remove(&(job, what));
        let other = self.holders.remove(&(job, What::Other)).filter(|_| what == What::Both);
        let Some(held) = held else { return Ok(()) };
        let wrong =
            |why: &str| fault(Kind::Lost, format!("job {job} has lost {what:?}: {loss} ({why})"));
        let is_refusal = |answer: &HolderAnswer| matches!(answer, HolderAnswer::Refused { .. });
        let is_refused =
            |key: &String| known.replies.since(key, node, held.begun_us).any(is_refusal);
        let has_refusal = keys_of(what).iter().any(is_refused);
        match loss {
            // In a quorum, the last lease to be lost gives the reason.
            _ if what == What::Quorum && now_us < held.until_us && !has_refusal => {
                return wrong("the leases of a majority last yet");
            }
            Loss::Expired if what != What::Quorum && now_us < held.until_us => {
                return wrong("its lease lasts yet");
            }
            Loss::Refused(_) if !has_refusal => {
                return wrong("no store has refused it");
            }
            Loss::HeldTooLong => match self.longest_us {
                Some(longest_us)
                    if now_us + longest_us / 250 + 2 * MILLI >= held.begun_us + longest_us => {}
                _ => return wrong("it may be held for longer"),
            },
            Loss::Closed => return wrong("nothing was closed"),
            _ => {}
        }
        let sure_us = if self.blocked.contains(&job) { self.sure_us } else { 0 };
        let known_us = match other {
            None => known.known_us(node, what, held.token).max(held.granted_us),
            Some(other) => {
                let both =
                    [(What::Lock { is_fair: false }, held.token), (What::Other, other.token)];
                let is_lost = |(what, token): &(What, u64)| !known.is_held(*what, *token, now_us);
                let is_one_lost = matches!(loss, Loss::Refused(_)) && both.iter().any(is_lost);
                let lost = both.iter().filter(|one| !is_one_lost || is_lost(one));
                // The first was granted at a time of its own, and is held while its job waits for the other.
                let known_us = lost.map(|(what, token)| known.known_us(node, *what, *token));
                known_us.min().unwrap_or_default()
            }
        };
        match self.well_us {
            Some(well_us) if known_us >= well_us.max(sure_us) => wrong("all was well"),
            _ => Ok(()),
        }
    }

    pub(super) fn left(&mut self, job: usize, what: What) {
        self.holders.remove(&(job, what));
        if what == What::Both {
            self.holders.remove(&(job, What::Other));
        }
    }

    pub(super) fn cancelled(&mut self, job: usize) {
        self.holders.retain(|(of, _), _| *of != job);
    }

    fn exclusion(&self, now_us: u64, shaken_us: Option<u64>) -> Result<(), Fault> {
        let live = self.holders.iter().filter(|(_, holder)| {
            holder.until_us > now_us && shaken_us.is_none_or(|at_us| holder.begun_us > at_us)
        });
        let (mut locks, mut others, mut quorums) = (0, 0, 0);
        let (mut permits, mut readers, mut writers) = (0, 0, 0);
        for ((_, what), _) in live.clone() {
            match what {
                // `Both` counts one lock: its other lock has a report of its own.
                What::Lock { .. } | What::Both => locks += 1,
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

/// Checks that the lease of the store lasts until then (L6).
pub(super) fn outlasts(
    what: What,
    token: u64,
    until_us: u64,
    store: &impl Oracle,
) -> Result<(), Fault> {
    if what == What::Quorum {
        let servers = store.granted_by(until_us);
        if servers < SERVERS / 2 + 1 {
            let what = format!("{what:?} is held until {until_us} us, and on {servers} servers");
            return fault(Kind::Lease, what);
        }
        return Ok(());
    }
    let granted_us = store.granted_until_us(what, token);
    if granted_us.is_none_or(|granted_us| granted_us < until_us) {
        let what =
            format!("{what:?} is held until {until_us} us, in the store until {granted_us:?} us");
        return fault(Kind::Lease, what);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockage_core::{AnyOutcome, Reservation, Settlement, Timestamp, lock};

    use super::*;
    use crate::simulation::by_part::ByPart;
    use crate::simulation::store::{LOCK, OTHER};

    const WELL_US: u64 = 100;
    const LOST_US: u64 = 300;
    const LOCK_TOKEN: u64 = 7;
    const OTHER_TOKEN: u64 = 8;

    /// A store that has this lock yet, if any.
    struct Store(Option<What>);

    impl Oracle for Store {
        fn would_deny(&self, _: &str, _: ByPart) -> bool {
            unreachable!()
        }

        fn settle(&self, _: usize, _: &Reservation, _: ByPart) -> Settlement {
            unreachable!()
        }

        fn reservations(&self, _: usize) -> usize {
            unreachable!()
        }

        fn granted_until_us(&self, what: What, _: u64) -> Option<u64> {
            self.0.filter(|kept| *kept == what).map(|_| LOST_US + 1)
        }

        fn granted_by(&self, _: u64) -> usize {
            unreachable!()
        }

        fn kept_for_us(&self, _: &str) -> Option<u64> {
            unreachable!()
        }

        fn tokens(&self, _: &str) -> Vec<u64> {
            unreachable!()
        }

        fn held_since_us(&self, _: &str) -> Option<u64> {
            unreachable!()
        }
    }

    /// Returns whether the loss of a grant is a fault, which a job had by then; the store last granted or renewed each
    /// lock at its time, and has one of them yet.
    fn is_fault(
        what: What,
        granted_us: u64,
        held: &[(&str, u64, u64)],
        kept: Option<What>,
    ) -> bool {
        let mut replies = Replies::default();
        let mut gave = |key: &str, answer, at_us| {
            let reply = lock::Reply { now: Timestamp::EPOCH, answer };
            replies.gave(key, 0, &(Box::new(reply) as AnyOutcome), at_us);
        };
        for (key, token, at_us) in held {
            let hold = lock::Hold { token: *token, holds: 1, deadline: Timestamp::EPOCH };
            gave(key, lock::Answer::Held(hold), *at_us);
        }
        held.iter().for_each(|(key, ..)| gave(key, lock::Answer::Refused(None), LOST_US));
        let holder =
            |token| Holder { begun_us: 0, granted_us, since_us: granted_us, until_us: 1000, token };
        let mut holders = Holders {
            permits: 1,
            holders: BTreeMap::from([((0, what), holder(LOCK_TOKEN))]),
            longest_us: None,
            well_us: Some(WELL_US),
            blocked: BTreeSet::new(),
            sure_us: 0,
        };
        if what == What::Both {
            holders.holders.insert((0, What::Other), holder(OTHER_TOKEN));
        }
        let known = Known {
            store: &Store(kept),
            replies: &replies,
            exempt: &Exemptions::default(),
            shaken_us: None,
        };
        match holders.lost((0, what), Loss::Refused(None), LOST_US, 0, &known) {
            Ok(()) => false,
            Err(found) => {
                assert_eq!(found.kind, Kind::Lost);
                true
            }
        }
    }

    /// L6: each of two locks may be lost if the store had it last before all was well.
    #[test]
    fn each_of_two_locks_is_lost_by_its_own_grant() {
        const ONE: What = What::Lock { is_fair: false };
        let is_fault = |lock_us, other_us, kept| {
            let held = [(LOCK, LOCK_TOKEN, lock_us), (OTHER, OTHER_TOKEN, other_us)];
            is_fault(What::Both, 200, &held, kept)
        };
        // The first was granted while the other was not free, and a failover forgot it.
        assert!(!is_fault(90, 200, Some(What::Other)));
        assert!(!is_fault(200, 90, Some(ONE)));
        assert!(!is_fault(90, 200, None));
        // What was granted, or renewed, later is lost.
        assert!(is_fault(90, 200, Some(ONE)));
        assert!(is_fault(200, 90, Some(What::Other)));
        assert!(is_fault(100, 200, None));
    }

    /// L6: the store may have forgotten a lease only where its holder looked before its process stood still, and its own
    /// deadline has passed since.
    #[test]
    fn a_lease_lasts_until_its_holders_deadline() {
        let what = What::Lock { is_fair: false };
        let is_fault = |polled_us, until_us| {
            let known = Known {
                store: &Store(None),
                replies: &Replies::default(),
                exempt: &Exemptions::default(),
                shaken_us: None,
            };
            let mut holders = Holders {
                permits: 1,
                holders: BTreeMap::new(),
                longest_us: None,
                well_us: None,
                blocked: BTreeSet::new(),
                sure_us: 0,
            };
            let grant = Grant { job: 0, what, token: LOCK_TOKEN, until_us };
            let times = Times { polled_us, now_us: LOST_US, executor: None };
            holders.holds(grant, (0, 0), times, &known).is_err()
        };
        assert!(!is_fault(LOST_US - 2, LOST_US - 1));
        assert!(!is_fault(LOST_US - 2, LOST_US));
        assert!(is_fault(LOST_US - 2, LOST_US + 1), "its deadline is to come");
        assert!(is_fault(LOST_US, LOST_US), "it did not stand still");
    }

    /// L6: a renewed lock is not lost either, once all is well.
    #[test]
    fn a_lock_is_not_lost_that_the_store_had_when_all_was_well() {
        let one = What::Lock { is_fair: true };
        let is_fault =
            |granted_us, held_us| is_fault(one, granted_us, &[(LOCK, LOCK_TOKEN, held_us)], None);
        assert!(!is_fault(99, 90));
        assert!(is_fault(100, 90));
        assert!(is_fault(99, 100));
    }
}
