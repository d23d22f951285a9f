//! The guarantees of each flow, whatever happens to it.

use std::time::Duration;

use lockage_core::flow::{
    CircuitBreaker, CircuitBreakerConfig, Failure, Line, Look, Retry, Route, Step,
};
use lockage_core::{Decision, Verdict};
use lockage_oracle::properties::{Check, cases, property};
use lockage_oracle::subject::Failure as Broken;
use proptest::prelude::*;

/// Cases per flow when nothing is asked for: a second in all.
const DEFAULT_CASES: u32 = 2000;

const SECOND: Duration = Duration::from_secs(1);

/// How often a waiting caller asks, at most, beyond once for each 32 ms of its timeout.
const CALLS_BESIDE_TIME: u128 = 5;

/// Answers to a lone caller: each takes a while, denies for a while, and meets a random number.
type Answers = Vec<(Duration, Duration, u64)>;

#[test]
fn a_wait_sleeps_long_enough_and_never_past_its_deadline() {
    let answers = prop::collection::vec((span(), span(), random()), 1..30);
    let input = (any_time(), span(), answers);
    let check = |(began, timeout, answers): (Duration, Duration, Answers)| {
        let deadline = began + timeout;
        let (mut line, mut now) = (Line::new(SECOND), began);
        let caller = line.join(1, began, timeout);
        for (took, retry_after, random) in answers {
            let asked = now;
            ensure(line.look(caller, now) == Look::Ask, || format!("it does not ask at {now:?}"))?;
            now += took;
            let Step::Wait = line.answered(caller, &denied(retry_after), None, now, random) else {
                return Ok(());
            };
            if let Look::Sleep(time) = line.clone().look(caller, now) {
                now += time;
                ensure(now >= asked + retry_after, || format!("{time:?} of {retry_after:?}"))?;
                ensure(now <= deadline, || format!("until {now:?}"))?;
            }
        }
        Ok(())
    };
    property("wait_sleeps", cases(DEFAULT_CASES), &input, check);
}

#[test]
fn a_wait_never_spins() {
    // The worst case: a limit that is always about to have a permit, and no jitter.
    let input = (span(), prop::collection::vec(random(), 1..30));
    let check = |(timeout, randoms): (Duration, Vec<u64>)| {
        let (mut line, mut now, mut calls) = (Line::new(SECOND), Duration::ZERO, 0);
        let caller = line.join(1, now, timeout);
        let most = CALLS_BESIDE_TIME + timeout.as_millis() / 32;
        for random in randoms.iter().cycle() {
            match line.look(caller, now) {
                Look::Sleep(time) => {
                    now += time;
                    continue;
                }
                Look::Ask => calls += 1,
                Look::Denied(_) => break,
            }
            let soon = denied(Duration::from_micros(1));
            if line.answered(caller, &soon, None, now, *random) != Step::Wait {
                break;
            }
            ensure(calls <= most, || format!("{calls} calls in {now:?}"))?;
        }
        Ok(())
    };
    property("wait_never_spins", cases(DEFAULT_CASES), &input, check);
}

#[test]
fn a_wait_ends_at_once_where_the_permit_comes_too_late() {
    let input = (any_time(), span(), span(), random());
    let check = |(now, timeout, retry_after, random): (Duration, Duration, Duration, u64)| {
        let mut line = Line::new(SECOND);
        let caller = line.join(1, now, timeout);
        ensure(line.look(caller, now) == Look::Ask, || "it does not ask".to_owned())?;
        let step = line.answered(caller, &denied(retry_after), None, now, random);
        let fits = !timeout.is_zero() && retry_after <= timeout;
        ensure((step == Step::Done) != fits, || format!("{step:?}"))
    };
    property("wait_ends_early", cases(DEFAULT_CASES), &input, check);
}

#[test]
fn a_call_keeps_to_its_timeout_and_is_sent_again_only_where_that_is_safe() {
    let failures = prop::collection::vec((failure(), 0.0..=1.0, random()), 40);
    let input = (any_time(), span(), any::<bool>(), failures);
    let check = |(began, timeout, repeatable, failures): (_, _, _, Vec<(_, f64, _)>)| {
        let (mut retry, mut now) = (Retry::new(began, timeout, repeatable), began);
        for (attempt, (failure, used, random)) in failures.into_iter().enumerate() {
            // Whatever chance says: seven within half a second, then ten in each second.
            let most = 7 + (now - began).as_millis() as usize / 100;
            ensure(attempt <= most, || format!("attempt {attempt} at {:?}", now - began))?;
            let patience = retry.patience(now);
            let longest = if repeatable { timeout / 4 } else { timeout };
            ensure(patience <= longest, || format!("{patience:?} for attempt {attempt}"))?;
            now += patience.mul_f64(used).min(patience);
            let Some(sleep) = retry.after(failure, now, random) else { return Ok(()) };
            let safe = failure == Failure::NotDone || repeatable;
            ensure(safe, || "what may be done was sent again".to_owned())?;
            now += sleep;
            ensure(now < began + timeout, || format!("the next attempt begins at {now:?}"))?;
            let is_cut_off = began + timeout - now < timeout / 4;
            ensure(failure == Failure::Unknown || !is_cut_off, || {
                format!("what was not done gets {:?}", began + timeout - now)
            })?;
        }
        Ok(())
    };
    property("retry_keeps_to_its_timeout", cases(DEFAULT_CASES), &input, check);
}

/// An action of a caller of a [`CircuitBreaker`].
#[derive(Clone, Copy, Debug)]
enum Event {
    Asks,
    Answered(Route),
    Failed(Route),
}

#[test]
fn an_outage_begins_and_ends_by_counts_and_is_probed_by_one_at_a_time() {
    let route = || prop_oneof![Just(Route::Store), Just(Route::Probe), Just(Route::Rejected)];
    let event = prop_oneof![
        Just(Event::Asks),
        route().prop_map(Event::Answered),
        route().prop_map(Event::Failed)
    ];
    let events = prop::collection::vec((0u64..120, event), 1..120);
    let input = (1u32..5, 1u64..200, 1u32..5, events);
    let check = |(trip_after, probe_every, return_after, events): (_, _, _, Vec<(u64, Event)>)| {
        let probe_every = Duration::from_millis(probe_every);
        let config =
            CircuitBreakerConfig::new(trip_after, probe_every, return_after).expect("above zero");
        let (mut outage, mut now) = (CircuitBreaker::new(config), Duration::from_secs(5));
        // Failures in a row while present, answered probes in a row while away.
        let (mut failures, mut answers) = (0, 0);
        let mut next_probe = None;
        for (step, (passed, event)) in events.into_iter().enumerate() {
            now += Duration::from_millis(passed);
            match event {
                Event::Asks => {
                    let expected = match next_probe {
                        None => Route::Store,
                        Some(at) if now >= at => Route::Probe,
                        Some(_) => Route::Rejected,
                    };
                    let route = outage.route(now);
                    ensure(route == expected, || format!("{route:?} in step {step}"))?;
                    if route == Route::Probe {
                        next_probe = Some(now + probe_every);
                    }
                }
                Event::Answered(route) => outage.answered(route),
                Event::Failed(route) => outage.failed(route, now),
            }
            match (next_probe, event) {
                (None, Event::Answered(Route::Store)) => failures = 0,
                (None, Event::Failed(Route::Store)) => failures += 1,
                (Some(_), Event::Answered(Route::Probe)) => answers += 1,
                (Some(_), Event::Failed(Route::Probe)) => answers = 0,
                _ => {}
            }
            if failures == trip_after {
                (failures, next_probe) = (0, Some(now + probe_every));
            }
            if answers == return_after {
                (answers, next_probe) = (0, None);
            }
            let away = next_probe.is_some();
            ensure(outage.is_open() == away, || format!("away should be {away} in step {step}"))?;
        }
        Ok(())
    };
    property("outage_counts", cases(DEFAULT_CASES), &input, check);
}

fn ensure(held: bool, seen: impl FnOnce() -> String) -> Check {
    if held { Ok(()) } else { Err(Broken::new(seen())) }
}

fn denied(retry_after: Duration) -> Decision {
    let verdict = Verdict::denied(retry_after);
    Decision::new(verdict, 1, 0, retry_after)
}

/// Spans around all those that the flows know, from nothing to minutes.
fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        (0u64..3000).prop_map(Duration::from_micros),
        (0u64..3000).prop_map(Duration::from_millis),
        (0u64..200_000_000_000).prop_map(Duration::from_nanos),
    ]
}

fn any_time() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::ZERO), (0u64..1 << 60).prop_map(Duration::from_nanos)]
}

fn random() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), any::<u64>()]
}

fn failure() -> impl Strategy<Value = Failure> {
    prop_oneof![Just(Failure::NotDone), Just(Failure::Unknown)]
}
