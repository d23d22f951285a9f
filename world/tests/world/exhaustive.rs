//! The lock in small scopes, searched completely; and locks with a bug, each of which the search
//! finds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::lock::Lock;
use lockage_core::{Command, Record, Timestamp};
use lockage_world::exhaustive::{
    Ask, Law, Machine, Request, Scope, Shipped, Told, check, shortest,
};

fn scope(name: &str) -> Scope {
    Scope::all().into_iter().find(|scope| scope.name == name).expect("there is one of this name")
}

/// Returns the scope with fewer operations and ticks, so that a test profile searches it in a
/// second or so.
fn smaller(name: &str, operations: u8, ticks: u64) -> Scope {
    Scope { operations, ticks, ..scope(name) }
}

#[test]
fn the_lock_keeps_its_laws_in_small_scopes() {
    for (name, operations, ticks) in
        [("pair", 2, 4), ("reentry", 2, 4), ("settle", 2, 4), ("force", 2, 4), ("line", 1, 4)]
    {
        let scope = smaller(name, operations, ticks);
        let outcome = check(&scope, Arc::new(Shipped));
        if let Some((law, trace)) = outcome.broken.first() {
            panic!("{name}: {law}: {}\n{trace}", law.statement());
        }
        assert!(outcome.missing.is_empty() && outcome.states > 1000, "{name}: {outcome:?}");
    }
}

/// L11: the search finds the loss of a grant by a failover, in as few steps as possible.
#[test]
fn a_failover_that_loses_a_grant_is_found_and_breaks_nothing_else() {
    let scope = scope("failover");
    let outcome = check(&scope, Arc::new(Shipped));
    assert!(outcome.broken.is_empty(), "{:?}", outcome.broken);
    let trace = outcome.overlap.expect("two owners can be inside");
    // A grant, its answer, the failover, another grant, its answer.
    assert_eq!(trace.steps.len(), 7, "{trace}");
    assert!(trace.to_string().contains("the replica takes over"), "{trace}");
}

#[test]
fn every_name_is_one_scopes() {
    let names: BTreeSet<&str> = Scope::all().iter().map(|scope| scope.name).collect();
    assert_eq!(names.len(), Scope::all().len());
}

/// Checks that the law finds the bug of a lock, in this many steps.
fn killed(machine: impl Machine + 'static, scope: &Scope, law: Law, steps: usize) {
    let machine: Arc<dyn Machine> = Arc::new(machine);
    let trace = shortest(scope, &machine, law).unwrap_or_else(|| panic!("{law} is not broken"));
    assert_eq!(trace.steps.len(), steps, "{law}: {}\n{trace}", law.statement());
}

/// The shipped lock, with a change to each request.
struct Asked<F>(F);

impl<F> Machine for Asked<F>
where
    F: Fn(Request, &Option<Record>, u64) -> Request + Send + Sync,
{
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        Shipped.run(lock, &(self.0)(*request, slot, now), slot, now)
    }
}

fn holder(slot: &Option<Record>, now: u64) -> Option<lockage_core::lock::Holder> {
    let now = Timestamp::from_micros(now).expect("a small one");
    let any = Lock::new(Duration::from_secs(1), Duration::from_secs(1)).expect("in range");
    any.inspect().apply(&mut slot.clone(), now).expect("it is a lock's").holder
}

#[test]
fn a_release_without_an_owner_check_is_killed_by_l3() {
    let bug = |request: Request, slot: &Option<Record>, now| {
        let (Ask::Release { .. }, Some(held)) = (request.ask, holder(slot, now)) else {
            return request;
        };
        // Each owner's first operation is an acquire.
        let owner = held.owner.as_u128() as usize - 1;
        Request { owner, ask: Ask::Release { hold: 1 }, ..request }
    };
    killed(Asked(bug), &smaller("pair", 2, 6), Law::L3, 8);
}

#[test]
fn an_acquire_that_does_not_know_its_id_again_is_killed_by_l10() {
    let bug = |request: Request, slot: &Option<Record>, now| {
        let holds = holder(slot, now).map_or(0, |held| held.hold.holds);
        Request { operation: request.operation + 8 * holds as u8, ..request }
    };
    killed(Asked(bug), &smaller("pair", 1, 4), Law::L10, 3);
}

#[test]
fn an_acquire_that_may_come_at_any_time_is_killed_by_l10() {
    let bug = |request: Request, _: &Option<Record>, _| match request.ask {
        Ask::Acquire { .. } => Request { ask: Ask::Acquire { not_after: 1000 }, ..request },
        _ => request,
    };
    killed(Asked(bug), &smaller("pair", 1, 6), Law::L10, 4);
}

/// A renewal after the end of the lease has the effect of one in time.
struct Resurrects;

impl Machine for Resurrects {
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        let times = if matches!(request.ask, Ask::Renew { .. }) { 1..=now } else { now..=now };
        let mut told = Told::Refused;
        for now in times.rev() {
            told = Shipped.run(lock, request, slot, now);
            if matches!(told, Told::Done { .. }) {
                break;
            }
        }
        told
    }
}

#[test]
fn a_renewal_that_brings_a_lease_back_is_killed_by_l4() {
    killed(Resurrects, &smaller("pair", 2, 6), Law::L4, 7);
}

/// Deletes a free lock, and with it the latest token.
struct DeletesWhatIsFree;

impl Machine for DeletesWhatIsFree {
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        let told = Shipped.run(lock, request, slot, now);
        if matches!(told, Told::Done { holds: 0, .. }) {
            *slot = None;
        }
        told
    }
}

#[test]
fn a_lock_that_is_deleted_when_it_is_free_is_killed_by_l5_and_l10() {
    killed(DeletesWhatIsFree, &smaller("pair", 2, 4), Law::L5, 6);
    killed(DeletesWhatIsFree, &smaller("pair", 2, 4), Law::L10, 6);
}

/// A lease that is shorter in the store than its owner knows.
struct ShortLease;

impl Machine for ShortLease {
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        let shorter = lock.lease() - Duration::from_micros(1);
        let short = Lock::new(shorter, lock.remember()).expect("in range");
        Shipped.run(&short, request, slot, now)
    }
}

#[test]
fn a_lease_that_is_too_short_is_killed_by_l4() {
    killed(ShortLease, &smaller("pair", 1, 6), Law::L4, 2);
}

/// Any owner that asks is next.
struct ForgetsTheLine;

impl Machine for ForgetsTheLine {
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        if let Ask::LineUp { not_after, .. } = request.ask {
            for owner in 0..3 {
                let leave = Request { owner, ask: Ask::Withdraw, ..*request };
                Shipped.run(lock, &leave, slot, now);
            }
            let ask = Ask::Acquire { not_after };
            return Shipped.run(lock, &Request { ask, ..*request }, slot, now);
        }
        Shipped.run(lock, request, slot, now)
    }
}

#[test]
fn a_forgotten_queue_is_killed_by_l9() {
    killed(ForgetsTheLine, &smaller("line", 1, 4), Law::L9, 4);
}

/// Each release releases all holds.
struct ReleasesAll;

impl Machine for ReleasesAll {
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        let told = Shipped.run(lock, request, slot, now);
        if let (Ask::Release { .. }, Told::Done { token, holds: 1.. }) = (request.ask, told) {
            let ask = Ask::ForceRelease { token };
            return Shipped.run(lock, &Request { ask, ..*request }, slot, now);
        }
        told
    }
}

/// A release removes any hold of its owner, not the one that it names.
struct ReleasesAny;

impl Machine for ReleasesAny {
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        let told = Shipped.run(lock, request, slot, now);
        if let (Ask::Release { .. }, Told::Refused) = (request.ask, told) {
            let others = (1..8).map(|hold| Request { ask: Ask::Release { hold }, ..*request });
            let told = others.map(|other| {
                let before = slot.clone();
                let told = Shipped.run(lock, &other, slot, now);
                (told, *slot != before)
            });
            return told
                .into_iter()
                .find(|(_, is_new)| *is_new)
                .map_or(Told::Refused, |told| told.0);
        }
        told
    }
}

#[test]
fn a_release_that_takes_another_hold_is_killed_by_l3() {
    killed(ReleasesAny, &smaller("reentry", 3, 3), Law::L3, 8);
}

#[test]
fn a_release_of_all_holds_is_killed_by_l2() {
    killed(ReleasesAll, &smaller("reentry", 3, 3), Law::L2, 7);
}

/// Any owner that asks gets the lock.
struct TakesOver;

impl Machine for TakesOver {
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        if let (Ask::Acquire { .. }, Some(held)) = (request.ask, holder(slot, now))
            && held.owner != request.owner_id()
        {
            let ask = Ask::ForceRelease { token: held.hold.token };
            Shipped.run(lock, &Request { ask, ..*request }, slot, now);
        }
        Shipped.run(lock, request, slot, now)
    }
}

#[test]
fn an_acquire_that_takes_over_is_killed_by_l1() {
    killed(TakesOver, &smaller("pair", 1, 4), Law::L1, 4);
}

/// Refuses every caller after the first grant.
struct GrantsOnce;

impl Machine for GrantsOnce {
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        let is_acquire = matches!(request.ask, Ask::Acquire { .. });
        if is_acquire && slot.is_some() && holder(slot, now).is_none() {
            return Told::Refused;
        }
        Shipped.run(lock, request, slot, now)
    }
}

#[test]
fn a_free_lock_that_is_refused_is_killed_by_l8() {
    killed(GrantsOnce, &smaller("pair", 1, 6), Law::L8, 6);
}

/// L1, L6: an owner that counts on the whole lease, by a clock that is slower than the store's.
#[test]
fn an_owner_without_a_margin_is_inside_when_its_lease_is_over() {
    let shipped: Arc<dyn Machine> = Arc::new(Shipped);
    for (law, steps) in [(Law::L6, 5), (Law::L1, 8)] {
        let scope = smaller("pair", 1, 6);
        assert_eq!(shortest(&scope, &shipped, law), None, "{law}");
        let trace = shortest(&Scope { margin: 0, ..scope }, &shipped, law).expect("it is found");
        assert_eq!(trace.steps.len(), steps, "{law}: {trace}");
    }
}
