//! The flows to the nanosecond, where their own tests leave room.

use std::time::Duration;

use lockage_core::flow::{
    CircuitBreaker, CircuitBreakerConfig, Failure, Line, Look, Polling, Renewals, Retry, Route,
    Step, own_deadline,
};
use lockage_core::{Decision, Verdict};

const LEASE: Duration = Duration::from_secs(24);
/// As far along as a random number may be.
const HALF: u64 = 1 << 63;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_failed_renewal_pauses_for_growing_parts_of_the_lease() {
    let mut renewals = Renewals::new();
    renewals.watch('a', ms(0), LEASE, None);
    let mut now = ms(8_000);
    for pause in [375, 750, 1_500, 1_500] {
        assert_eq!(renewals.plan(now, 100, LEASE).renew, ['a']);
        renewals.failed(&'a', now, HALF);
        assert_eq!(renewals.plan(now, 100, LEASE).wake_at, Some(now + ms(pause)));
        now += ms(pause);
    }
    // One that is done begins anew.
    assert_eq!(renewals.plan(now, 100, LEASE).renew, ['a']);
    renewals.renewed(&'a', now);
    now += ms(8_000);
    assert_eq!(renewals.plan(now, 100, LEASE).renew, ['a']);
    renewals.failed(&'a', now, HALF);
    assert_eq!(renewals.plan(now, 100, LEASE).wake_at, Some(now + ms(375)));
}

#[test]
fn renewals_know_how_many_are_watched() {
    let mut renewals = Renewals::new();
    assert!(renewals.is_empty());
    renewals.watch('a', ms(0), LEASE, None);
    renewals.watch('b', ms(0), LEASE, None);
    assert!(renewals.len() == 2 && !renewals.is_empty());
    assert!(renewals.forget(&'a'));
    assert_eq!((renewals.len(), renewals.deadline(&'a')), (1, None));
    // Watched anew, it is watched once.
    renewals.watch('b', ms(1_000), LEASE, None);
    assert_eq!(renewals.len(), 1);
    assert_eq!(renewals.deadline(&'b'), Some(ms(24_975)));
}

/// L6: by a thousandth of the lease and a millisecond before its end.
#[test]
fn l6_the_holders_own_deadline_is_before_the_end_of_the_lease() {
    assert_eq!(own_deadline(ms(5_000), LEASE), ms(5_000 + 24_000 - 24 - 1));
    assert_eq!(own_deadline(ms(5_000), ms(1)), ms(5_000));
    assert_eq!(own_deadline(Duration::MAX, LEASE), Duration::MAX);
}

#[test]
fn a_lease_that_ends_when_it_is_due_is_not_renewed() {
    // Its own deadline is where it would be renewed: 1.5 ms, less a thousandth of it and a millisecond.
    let mut renewals = Renewals::new();
    renewals.watch('a', ms(0), Duration::from_micros(1_500), None);
    let deadline = Duration::from_nanos(498_500);
    assert_eq!(renewals.plan(ms(0), 1, LEASE).wake_at, Some(deadline));
    assert!(renewals.plan(deadline - Duration::from_nanos(1), 1, LEASE).lost.is_empty());
    assert_eq!(renewals.plan(deadline, 1, LEASE).lost, ['a']);
    // One that reaches its longest time gains nothing by being renewed.
    renewals.watch('b', ms(0), LEASE, Some(ms(23_975)));
    assert_eq!(renewals.plan(ms(0), 1, LEASE).wake_at, Some(ms(23_975)));
    renewals.watch('b', ms(0), LEASE, Some(ms(23_976)));
    assert_eq!(renewals.plan(ms(0), 1, LEASE).wake_at, Some(ms(8_000)));
}

#[test]
fn a_poll_is_asked_at_its_deadline_and_not_after() {
    let mut polling = Polling::new(ms(100), Some(ms(1_000)));
    assert_eq!(polling.after(LEASE, ms(990), HALF), Some(ms(3)));
    assert_eq!(polling.after(LEASE, ms(999), HALF), Some(ms(1)));
    assert_eq!(polling.after(LEASE, ms(1_000), HALF), None);
    let mut polling = Polling::new(ms(100), None);
    assert_eq!(polling.after(ms(0), ms(990), HALF), Some(ms(1)));
}

#[test]
fn a_call_is_repeated_as_long_as_another_one_begins_before_its_end() {
    let sleep_after = |failure, left| {
        let mut retry = Retry::new(ms(0), ms(1_000), true);
        retry.after(failure, ms(1_000 - left), 0)
    };
    let sleep = |left| sleep_after(Failure::Unknown, left);
    let first = sleep(1_000).expect("there is time");
    let left = u64::try_from(first.as_millis()).expect("a few milliseconds");
    assert_eq!(sleep(left), None);
    assert_eq!(sleep(left + 1), Some(first));
    // Without a quarter, its answer might be missed, and it would be known no longer that it did not run.
    assert_eq!(sleep_after(Failure::NotDone, left + 251), Some(first));
    assert_eq!(sleep_after(Failure::NotDone, left + 250), None);
    assert_eq!(Retry::new(ms(0), ms(1_000), true).patience(ms(0)), ms(250));
    assert_eq!(Retry::new(ms(0), ms(1_000), true).patience(ms(900)), ms(100));
    assert_eq!(Retry::new(ms(0), ms(1_000), false).patience(ms(0)), ms(1_000));
}

#[test]
fn a_wait_fits_where_the_permit_comes_at_its_deadline() {
    let line = || {
        let mut line = Line::new(ms(1_000));
        let caller = line.join(1, ms(0), ms(500));
        (line, caller)
    };
    let step_after = |decision: Decision| {
        let (mut line, caller) = line();
        assert_eq!(line.look(caller, ms(0)), Look::Ask);
        line.answered(caller, &decision, None, ms(0), 0)
    };
    let denied = |millis| Decision::new(Verdict::denied(ms(millis)), 1, 0, ms(1_000));
    assert_eq!(step_after(denied(500)), Step::Wait);
    assert_eq!(step_after(denied(501)), Step::Done);
    let (line, caller) = line();
    assert_eq!([100, 501].map(|now| line.patience(caller, ms(now))), [400, 0].map(ms));
    let in_queue = |mut decision: Decision, turn| {
        decision.turn_after = ms(turn);
        decision
    };
    let admitted = Decision::new(Verdict::Allowed, 1, 0, ms(7));
    assert_eq!(step_after(in_queue(admitted, 7)), Step::Turn(ms(7)));
    // Neither the permit nor the turn may come too late.
    assert_eq!(step_after(in_queue(denied(1), 501)), Step::Done);
}

#[test]
fn an_outage_is_probed_from_the_moment_that_is_due() {
    let config = CircuitBreakerConfig::new(1, ms(100), 2).expect("above zero");
    let mut outage = CircuitBreaker::new(config);
    outage.failed(Route::Store, ms(5));
    assert_eq!(outage.route(ms(104)), Route::Rejected);
    assert_eq!(outage.route(ms(105)), Route::Probe);
    assert_eq!(outage.route(ms(204)), Route::Rejected);
    outage.answered(Route::Probe);
    assert!(outage.is_open());
    outage.answered(Route::Probe);
    assert!(!outage.is_open());
}
