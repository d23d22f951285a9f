use super::*;
use crate::engine::EngineKind;
use crate::trace::TraceBuilder;

const MILLI: Duration = Duration::from_millis(1);
const ONE: NonZeroU32 = NonZeroU32::MIN;

fn waited(times_us: &[u64], limit: &str, waiting: &Waiting) -> Waited {
    let mut builder = TraceBuilder::default();
    for &micros in times_us {
        let key = builder.key("a");
        builder.push(Request { at: Timestamp::from_micros(micros).unwrap(), key, cost: 1 });
    }
    let (limit, mut engine) = (limit.parse().unwrap(), EngineKind::Model.build().unwrap());
    let mut progress = 0;
    let trace = builder.finish();
    let waited = replay_waiting(&trace, &limit, &mut *engine, waiting, || progress += 1);
    assert_eq!(progress, times_us.len());
    waited.unwrap()
}

#[test]
fn a_wait_takes_the_sleep_and_each_round_trip() {
    let waiting = Waiting {
        timeout: 3000 * MILLI,
        round_trip: 10 * MILLI,
        jitter: true,
        processes: ONE,
        seed: 1,
    };
    let Waited { settled, calls_in_10ms, repeats_in_10ms } =
        waited(&[0, 0], "token-bucket 1/s burst 1", &waiting);
    let (outcome, queued) = (Outcome::Admitted, Duration::ZERO);
    let (waited, zero) = (1000 * MILLI, Duration::ZERO);
    let first = Settled { outcome, after: 10 * MILLI, waited: zero, queued, calls: 1 };
    // The decision on the first one shows when the second one is due.
    let second = Settled { after: waited + 10 * MILLI, waited, ..first };
    assert_eq!(settled, [first, second]);
    assert_eq!((calls_in_10ms, repeats_in_10ms), (1, 0));
}

#[test]
fn without_jitter_a_herd_comes_back_as_one() {
    let herd = |jitter| {
        let waiting = Waiting {
            timeout: 3000 * MILLI,
            round_trip: Duration::ZERO,
            jitter,
            processes: NonZeroU32::new(100).unwrap(),
            seed: 1,
        };
        waited(&[0; 100], "fixed-window 50/s", &waiting)
    };
    let as_one = herd(false);
    assert_eq!(as_one.repeats_in_10ms, 50);
    let after: Vec<_> = as_one.settled.iter().map(|settled| settled.after).collect();
    assert_eq!((after[49], after[50], after[99]), (Duration::ZERO, 1000 * MILLI, 1000 * MILLI));
    let spread = herd(true);
    assert_eq!(spread.repeats_in_10ms, 50, "the first time, each comes as soon as it can");
}

#[test]
fn a_wait_takes_the_way_to_the_turn() {
    let waiting = Waiting {
        timeout: 1500 * MILLI,
        round_trip: 10 * MILLI,
        jitter: true,
        processes: ONE,
        seed: 1,
    };
    let waited = waited(&[0, 0, 0], "leaky-bucket 1/s queue 5", &waiting);
    let settled = |outcome, waited: Duration, queued: Duration| Settled {
        outcome,
        after: waited + 10 * MILLI + queued,
        waited,
        queued,
        calls: 1,
    };
    // The others ask once the answer to the first shows that there is room. The third one's turn would come after its
    // timeout, so it takes none.
    let expected = [
        settled(Outcome::Admitted, Duration::ZERO, Duration::ZERO),
        settled(Outcome::Admitted, 10 * MILLI, 990 * MILLI),
        settled(Outcome::Denied, 10 * MILLI, Duration::ZERO),
    ];
    assert_eq!(waited.settled, expected);
    let tally = WaitTally::of(&waited);
    assert_eq!((tally.at_once, tally.after_waiting, tally.gave_up), (1, 1, 1));
    assert_eq!(tally.times, WaitTimes::of(vec![1010 * MILLI]));
}

#[test]
fn without_a_timeout_each_request_asks_once() {
    let waiting = Waiting {
        timeout: Duration::ZERO,
        round_trip: Duration::ZERO,
        jitter: true,
        processes: ONE,
        seed: 1,
    };
    let waited = waited(&[0, 0, 999_999, 1_000_000], "fixed-window 1/s", &waiting);
    use Outcome::{Admitted, Denied};
    assert_eq!(waited.outcomes(), [Admitted, Denied, Denied, Admitted]);
    assert!(waited.settled.iter().all(|settled| settled.calls == 1));
}

/// Each window admits one of all waiting callers.
#[test]
fn callers_ask_so_often_and_no_more() {
    let mut builder = TraceBuilder::default();
    let key = builder.key("a");
    for _ in 0..10 {
        builder.push(Request { at: Timestamp::EPOCH, key, cost: 1 });
    }
    let (trace, limit) = (builder.finish(), "fixed-window 1/s".parse().unwrap());
    let waiting = Waiting {
        timeout: 60_000 * MILLI,
        round_trip: MILLI,
        jitter: false,
        processes: NonZeroU32::new(10).unwrap(),
        seed: 1,
    };
    let asked = |most| {
        let mut engine = EngineKind::Model.build().unwrap();
        let mut arrivals = Open::new(&trace);
        run(&mut arrivals, &limit, &mut *engine, &waiting, most, &mut || ())
    };
    assert!(asked(55).is_ok(), "10 + 9 + ... + 1");
    let error = anyhow::Error::from(asked(54).unwrap_err());
    let expected = "callers that wait ask more than 54 times in all";
    assert!(format!("{error:#}").contains(expected), "{error:#}");
}

fn closed(limit: &str, timeout: Duration, round_trip: Duration) -> (Plan, Trace, Waited) {
    let shape = "closed-loop 20 clients think 1s".parse().unwrap();
    let plan = Plan { keys: "3".parse().unwrap(), ..Plan::new(shape) };
    let waiting = Waiting { timeout, round_trip, jitter: true, processes: ONE, seed: 1 };
    let (limit, mut engine) = (limit.parse().unwrap(), EngineKind::Model.build().unwrap());
    let replayed =
        replay_closed(std::slice::from_ref(&plan), &limit, &mut *engine, &waiting, || ());
    let (trace, waited) = replayed.unwrap().unwrap();
    (plan, trace, waited)
}

#[test]
fn a_closed_loop_with_instant_answers_equals_its_plan() {
    let (plan, trace, waited) = closed("fixed-window 1/s", Duration::ZERO, Duration::ZERO);
    assert_eq!(trace, plan.generate().unwrap());
    assert_eq!(waited.settled.len(), trace.requests().len());
}

#[test]
fn a_client_sends_nothing_while_it_waits() {
    // A round trip as long as the thinking: each client sends half as much, 20 * 600 / 2.
    let (_, trace, _) = closed("fixed-window 1000/s", Duration::ZERO, 1000 * MILLI);
    assert!((5600..6400).contains(&trace.requests().len()), "{}", trace.requests().len());

    // Three keys of a permit a second each, for 600 s, without timeouts.
    let (_, trace, waited) = closed("sliding-log 1/s", 3_600_000 * MILLI, Duration::ZERO);
    assert!((1500..1800).contains(&trace.requests().len()), "{}", trace.requests().len());
    assert!(waited.settled.iter().all(|settled| settled.outcome == Outcome::Admitted));
    // The law of Little: 20 clients in all, each waits or thinks.
    let waits: f64 = waited.settled.iter().map(|settled| settled.after.as_secs_f64()).sum();
    let cycle = waits / waited.settled.len() as f64 + 1.0;
    let throughput = trace.requests().len() as f64 / 600.0;
    assert!((18.0..22.0).contains(&(cycle * throughput)), "{}", cycle * throughput);
}

#[test]
fn closed_loops_and_others_come_together_and_only_loops_are_held_up() {
    let seconds = Duration::from_secs;
    let named = |name: &str, shape: &str| Plan {
        name: name.to_owned(),
        duration: seconds(60),
        ..Plan::new(shape.parse().unwrap())
    };
    let loops = named("loop", "closed-loop 5 clients think 1s");
    let later = Plan { start: loops.start.saturating_add(seconds(30)), ..loops.clone() };
    let others = named("other", "constant 10/s");
    let plans = [others, loops, Plan { name: "later".to_owned(), ..later }];
    let requests = |round_trip| {
        let waiting =
            Waiting { timeout: Duration::ZERO, round_trip, jitter: true, processes: ONE, seed: 1 };
        let (limit, mut engine) =
            ("fixed-window 1000/s".parse().unwrap(), EngineKind::Model.build().unwrap());
        let replayed = replay_closed(&plans, &limit, &mut *engine, &waiting, || ());
        let (trace, waited) = replayed.unwrap().unwrap();
        assert_eq!(waited.settled.len(), trace.requests().len());
        let of = |name: &str| {
            let all = trace.requests().iter().filter(|request| trace.key(request.key) == name);
            all.map(|request| request.at).collect::<Vec<_>>()
        };
        ["other-1", "loop-1", "later-1"].map(of)
    };
    let (at_once, slowly) = (requests(Duration::ZERO), requests(seconds(4)));
    assert_eq!(at_once, {
        let all = crate::traffic::generate_all(&plans).unwrap();
        let of = |name: &str| {
            let of_name = all.requests().iter().filter(|request| all.key(request.key) == name);
            of_name.map(|request| request.at).collect::<Vec<_>>()
        };
        ["other-1", "loop-1", "later-1"].map(of)
    });
    assert_eq!(slowly[0], at_once[0]);
    assert!(slowly[1].len() * 3 < at_once[1].len() && slowly[2].len() * 3 < at_once[2].len());
}

#[test]
fn an_open_loop_is_no_closed_one() {
    let plan = Plan::new("poisson 5/s".parse().unwrap());
    let (limit, mut engine) =
        ("fixed-window 1/s".parse().unwrap(), EngineKind::Model.build().unwrap());
    let waiting =
        Waiting { timeout: MILLI, round_trip: MILLI, jitter: true, processes: ONE, seed: 1 };
    let replayed =
        replay_closed(std::slice::from_ref(&plan), &limit, &mut *engine, &waiting, || ());
    assert_eq!(replayed.unwrap(), None);
}

#[test]
fn waiting_ends_at_the_end_of_all_time() {
    let waiting = Waiting {
        timeout: 3000 * MILLI,
        round_trip: Duration::ZERO,
        jitter: true,
        processes: ONE,
        seed: 1,
    };
    let end = Timestamp::MAX.as_micros();
    let waited = waited(&[end, end], "token-bucket 1/s burst 1", &waiting);
    assert_eq!(waited.outcomes(), [Outcome::Admitted, Outcome::Denied]);
}

#[test]
fn a_herd_is_within_less_than_its_span() {
    let mut herd = Herd::default();
    let sizes = [0, 0, 5, 9, 10, 14, 15, 40].map(|millis| {
        herd.call(millis * MILLI);
        herd.recent.len()
    });
    assert_eq!(sizes, [1, 2, 3, 4, 3, 4, 4, 1]);
    assert_eq!(herd.largest, 4);
}
