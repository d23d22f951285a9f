//! Callers that wait in line, in the simulator: virtual time, one seed, one result.

use std::num::NonZeroU32;
use std::time::Duration;

use lockage_core::{Limit, Timestamp};
use lockage_oracle::config::{Config, Kind};
use lockage_oracle::envelope;
use lockage_sim::engine::EngineKind;
use lockage_sim::replay::Outcome;
use lockage_sim::trace::Trace;
use lockage_sim::traffic::Plan;
use lockage_sim::waiting::{Settled, WaitTally, Waited, Waiting, replay_waiting};

const SECOND_US: u64 = 1_000_000;
const ONE: NonZeroU32 = NonZeroU32::MIN;
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns one limit of each kind that knows seconds, each of 50 a second.
fn limits() -> impl Iterator<Item = Config> {
    // Places that nobody gives back return after up to two leases, and a warm-up begins below its rate.
    let is_steady =
        |kind: &Kind| !matches!(kind, Kind::CalendarWindow | Kind::InFlight | Kind::WarmupBucket);
    let kinds = Kind::ALL.into_iter().filter(is_steady);
    kinds.map(|kind| Config::bucket(kind, 50, SECOND_US, 50))
}

/// Returns a bucket of 50 a second that saves up nothing while no caller asks.
fn bucket_of_one() -> Config {
    Config::bucket(Kind::TokenBucket, 50, SECOND_US, 1)
}

#[test]
fn e1_to_e5_hold_with_waiters() {
    for config in limits().chain([bucket_of_one()]) {
        let trace = traffic("poisson 100/s", 5);
        let waited = wait(&trace, config.limit(), EngineKind::Model, TIMEOUT);
        let mut admitted: Vec<(u64, i128)> = settled(&trace, &waited)
            .filter(|(_, settled)| settled.outcome == Outcome::Admitted)
            .map(|(arrived, settled)| ((arrived + settled.after).as_nanos().div_ceil(1000), 1))
            .map(|(time_us, cost)| (u64::try_from(time_us).expect("a few hours"), cost))
            .collect();
        admitted.sort_unstable();
        assert!(WaitTally::of(&waited).after_waiting > 100, "{config:?}");
        assert_eq!(envelope::check(&config, &admitted, 0), Ok(()), "{config:?}");
    }
}

#[test]
fn both_engines_settle_all_requests_alike() {
    for config in limits() {
        let trace = traffic("poisson 80/s", 3);
        let with = |engine| wait(&trace, config.limit(), engine, TIMEOUT);
        assert_eq!(with(EngineKind::Lua), with(EngineKind::Model), "{config:?}");
    }
}

#[test]
fn one_seed_gives_one_result() {
    let trace = traffic("poisson 80/s", 3);
    let with = |seed| {
        let processes = NonZeroU32::new(4).expect("some");
        let waiting =
            Waiting { timeout: TIMEOUT, round_trip: Duration::ZERO, jitter: true, processes, seed };
        replay(&trace, bucket_of_one().limit(), EngineKind::Model, &waiting)
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn no_caller_waits_past_its_timeout_plus_one_round_trip() {
    let trace = traffic("poisson 100/s", 10);
    for config in limits() {
        for round_trip in [Duration::ZERO, Duration::from_millis(3)] {
            let waiting =
                Waiting { timeout: TIMEOUT, round_trip, jitter: true, processes: ONE, seed: 1 };
            let waited = replay(&trace, config.limit(), EngineKind::Model, &waiting);
            let longest = waited.settled.iter().map(|settled| settled.after).max().unwrap();
            assert!(longest <= TIMEOUT + round_trip, "{longest:?}: {config:?}");
            assert!(longest > TIMEOUT / 2, "nobody had to wait: {config:?}");
        }
    }
}

#[test]
fn callers_that_cannot_be_admitted_in_time_are_denied_at_once() {
    let limit = "fixed-window 10/min".parse().unwrap();
    let waited = wait(&traffic("burst 30 every 10s", 10), limit, EngineKind::Model, TIMEOUT);
    let denied = |settled: &&Settled| settled.outcome == Outcome::Denied;
    let denied: Vec<_> = waited.settled.iter().filter(denied).collect();
    assert_eq!(denied.len(), 20);
    assert!(denied.iter().all(|settled| settled.after.is_zero() && settled.calls <= 1));
}

#[test]
fn a_caller_asks_no_more_often_than_the_flow_says() {
    // Up to 10,000 permits a second, and still no caller asks thousands of times.
    for limit in ["token-bucket 10000/s burst 1", "token-bucket 50/s burst 1", "sliding-log 50/s"] {
        let trace = traffic("burst 300 every 10s", 10);
        let waited = wait(&trace, limit.parse().unwrap(), EngineKind::Model, TIMEOUT);
        let most = 5 + TIMEOUT.as_millis() / 32;
        let calls = waited.settled.iter().map(|settled| settled.calls).max().unwrap();
        assert!(u128::from(calls) <= most, "{calls} calls: {limit}");
    }
}

#[test]
fn a_hundred_callers_need_few_calls_for_each_permit() {
    // In line one for each; if all processes asked at every permit, it were 4 of them.
    let burst = Config::bucket(Kind::TokenBucket, 50, SECOND_US, 50);
    for (config, processes, most) in
        [(bucket_of_one(), 1, 1.0), (burst, 1, 1.0), (bucket_of_one(), 4, 2.0), (burst, 4, 2.0)]
    {
        let trace = traffic("burst 100 every 1min", 10);
        let processes = NonZeroU32::new(processes).expect("some");
        let timeout = Duration::from_secs(10);
        let waiting =
            Waiting { timeout, round_trip: Duration::ZERO, jitter: true, processes, seed: 1 };
        let waited = replay(&trace, config.limit(), EngineKind::Model, &waiting);
        let tally = WaitTally::of(&waited);
        assert_eq!((tally.at_once + tally.after_waiting, tally.gave_up), (100, 0));
        let calls = tally.calls_per_admitted().unwrap();
        assert!(calls <= most, "{calls} calls for each permit: {config:?}");
    }
}

#[test]
fn those_denied_at_one_moment_do_not_come_back_as_one_herd() {
    // 900 wait for the next window: those come back that it has room for.
    let limit = "fixed-window 100/s".parse().unwrap();
    let trace = traffic("burst 1000 every 1min", 10);
    let waited = wait(&trace, limit, EngineKind::Model, Duration::from_secs(20));
    assert_eq!(waited.calls_in_10ms, 100);
}

#[test]
fn a_limit_with_twice_its_traffic_is_used_up() {
    let seconds = 30;
    let trace = traffic("poisson 100/s", seconds);
    for (config, least) in limits().map(|config| (config, 99)).chain([
        // A token that is not taken from a bucket of one at once is lost.
        (bucket_of_one(), 95),
    ]) {
        let waited = wait(&trace, config.limit(), EngineKind::Model, TIMEOUT);
        let percent = admitted(&waited) * 100 / (50 * seconds);
        assert!(percent >= least, "{percent}%: {config:?}");
    }
}

#[test]
fn a_limit_is_used_while_simultaneous_callers_wait_for_it() {
    // At least 50 of 200 callers wait until 150 are admitted. A sliding window is left out, which itself admits
    // fewer after a burst.
    let waited_for = limits().filter(|config| config.kind != Kind::SlidingWindow);
    for config in waited_for.chain([bucket_of_one()]) {
        let trace = traffic("burst 200 every 1min", 10);
        let waited = wait(&trace, config.limit(), EngineKind::Model, Duration::from_secs(60));
        let mut times: Vec<_> = waited.settled.iter().map(|settled| settled.after).collect();
        times.sort_unstable();
        // The 150th in a queue has its turn after 149 others.
        let saved_up = if config.kind == Kind::LeakyBucket { 1 } else { config.burst };
        let at_best = Duration::from_millis((150 - saved_up) * 20);
        let percent = at_best.as_millis() * 100 / times[149].as_millis();
        assert!(percent >= 80, "{percent}%: {config:?}");
    }
}

#[test]
fn a_lone_waiter_hardly_pays_for_the_others() {
    // Two requests every 100 ms for a permit each 20 ms: the second one waits for it alone.
    let trace = traffic("burst 2 every 100ms", 10);
    let waited = wait(&trace, bucket_of_one().limit(), EngineKind::Model, TIMEOUT);
    let tally = WaitTally::of(&waited);
    // The answer to the first one has the time.
    assert_eq!((tally.at_once, tally.after_waiting, tally.calls), (100, 100, 200));
    let times = tally.times.unwrap();
    assert_eq!(times.max, Duration::from_millis(20));
}

fn traffic(shape: &str, seconds: u64) -> Trace {
    let shape = shape.parse().expect("the shapes of these tests are right");
    let plan = Plan {
        start: Timestamp::from_micros(3600 * SECOND_US).expect("an hour after the epoch"),
        duration: Duration::from_secs(seconds),
        ..Plan::new(shape)
    };
    plan.generate().expect("the shapes of these tests give requests")
}

fn wait(trace: &Trace, limit: Limit, engine: EngineKind, timeout: Duration) -> Waited {
    let waiting =
        Waiting { timeout, round_trip: Duration::ZERO, jitter: true, processes: ONE, seed: 1 };
    replay(trace, limit, engine, &waiting)
}

fn replay(trace: &Trace, limit: Limit, engine: EngineKind, waiting: &Waiting) -> Waited {
    let mut engine = engine.build().expect("there is memory for an engine");
    replay_waiting(trace, &limit, &mut *engine, waiting, || ()).expect("each request is decided")
}

fn admitted(waited: &Waited) -> u64 {
    let tally = WaitTally::of(waited);
    tally.at_once + tally.after_waiting
}

/// Returns the arrival and the outcome of each request.
fn settled<'a>(
    trace: &'a Trace,
    waited: &'a Waited,
) -> impl Iterator<Item = (Duration, Settled)> + 'a {
    let arrivals = trace.requests().iter().map(|request| request.at.as_micros());
    arrivals.map(Duration::from_micros).zip(waited.settled.iter().copied())
}
