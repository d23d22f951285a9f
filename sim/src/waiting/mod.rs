//! Puts a trace through one limit with callers that wait for their permits, in virtual time.
//!
//! Callers wait by [`lockage_core::flow::Wait`], as clients of a real store do.

mod arrivals;
mod tally;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockage_core::flow::{Step, Wait};
use lockage_core::{Limit, Timestamp};

use crate::engine::{Engine, EngineError};
use crate::replay::{Outcome, ReplayError, decide};
use crate::trace::{Request, Trace};
use crate::traffic::random::{Chance, Stream};
use crate::traffic::{MAX_REQUESTS, Plan};

use arrivals::{Arrivals, Closed, Open, arrival};
pub use tally::{WaitTally, WaitTimes};

/// The most calls of all callers: each request asks a few times.
const MAX_CALLS: u64 = 4 * MAX_REQUESTS;

/// The span in which calls count as one herd.
const HERD_SPAN: Duration = Duration::from_millis(10);

/// How callers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The longest wait of a caller; with zero it asks once.
    pub timeout: Duration,
    /// The time from a question to its answer. The store decides half way.
    pub round_trip: Duration,
    /// Whether callers sleep for a random time beyond `retry_after`. Without it, callers denied in one
    /// instant come back in one instant.
    pub jitter: bool,
    /// The seed of the jitter, which has a stream of its own.
    pub seed: u64,
}

/// The outcome of a request whose caller may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The last decision.
    pub outcome: Outcome,
    /// From the request to that decision's arrival, or to its turn in a queue.
    pub after: Duration,
    /// The part of that in a queue.
    pub queued: Duration,
    /// The calls to the store.
    pub calls: u32,
}

/// The outcomes of all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// One per request, in the order of the trace.
    pub settled: Vec<Settled>,
    /// The most calls to the store within 10 ms.
    pub calls_in_10ms: u64,
    /// The most of them that had been denied before.
    pub repeats_in_10ms: u64,
}

impl Waited {
    /// Returns the outcome of each request, in the order of the trace.
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.settled.iter().map(|settled| settled.outcome).collect()
    }

    /// Returns when the store made the last decision on each of these requests.
    pub fn decided(&self, trace: &Trace, waiting: &Waiting) -> Vec<Timestamp> {
        let way_back = waiting.round_trip - waiting.round_trip / 2;
        let decided = |(request, settled): (&Request, &Settled)| {
            request.at.saturating_add(settled.after - settled.queued - way_back)
        };
        trace.requests().iter().zip(&self.settled).map(decided).collect()
    }
}

/// Puts every request of a trace through a limit, and lets denied ones wait.
///
/// Calls are decided in the order of their times; in one instant, new requests before waiting ones, and these in the
/// order of their denials. `progress` is called after each settled request.
///
/// # Errors
/// [`ReplayError`] at the first request for which the engine gives no decision, or whose call is the 20,000,001st of
/// all.
pub fn replay_waiting(
    trace: &Trace,
    limit: &Limit,
    engine: &mut dyn Engine,
    waiting: &Waiting,
    mut progress: impl FnMut(),
) -> Result<Waited, ReplayError> {
    run(&mut Open::new(trace), limit, engine, waiting, MAX_CALLS, &mut progress)
}

/// Puts synthetic requests with closed loops through a limit. A client that waits sends no other request.
///
/// Returns the requests and their outcomes; `None` if no plan is a closed loop.
///
/// # Errors
/// [`ReplayError`], as [`replay_waiting`].
pub fn replay_closed(
    plans: &[Plan],
    limit: &Limit,
    engine: &mut dyn Engine,
    waiting: &Waiting,
    mut progress: impl FnMut(),
) -> Result<Option<(Trace, Waited)>, ReplayError> {
    let Some(mut closed) = Closed::of(plans) else { return Ok(None) };
    let waited = run(&mut closed, limit, engine, waiting, MAX_CALLS, &mut progress)?;
    Ok(Some((closed.finish(), waited)))
}

fn run(
    arrivals: &mut dyn Arrivals,
    limit: &Limit,
    engine: &mut dyn Engine,
    waiting: &Waiting,
    most: u64,
    progress: &mut dyn FnMut(),
) -> Result<Waited, ReplayError> {
    let mut chance = Chance::new(waiting.seed, Stream::Jitter);
    let zero = Duration::ZERO;
    let nothing = Settled { outcome: Outcome::Denied, after: zero, queued: zero, calls: 0 };
    let mut settled = Vec::new();
    let (mut all, mut repeats, mut calls) = (Herd::default(), Herd::default(), 0);
    let mut queue =
        Queue { arrivals, timeout: waiting.timeout, waiting: BTreeMap::new(), denials: 0 };
    while let Some((asks_at, mut caller)) = queue.next() {
        all.call(asks_at);
        if caller.calls > 0 {
            repeats.call(asks_at);
        }
        caller.calls += 1;
        calls += 1;
        if calls > most {
            let error = EngineError::TooManyCalls { most };
            return Err(ReplayError::at(queue.arrivals.trace(), caller.request, error));
        }
        let decides_at = Timestamp::EPOCH.saturating_add(asks_at + waiting.round_trip / 2);
        let patience = caller.wait.patience(asks_at);
        let trace = queue.arrivals.trace();
        let decision = decide(trace, limit, engine, caller.request, decides_at, patience)?;
        let now = asks_at + waiting.round_trip;
        // The least that can be drawn is no jitter at all.
        let random = if waiting.jitter { chance.bits() } else { 0 };
        let queued = match caller.wait.after(&decision, now, random) {
            Step::Sleep(time) => {
                queue.push(now + time, caller);
                continue;
            }
            Step::Turn(time) => time,
            Step::Done => Duration::ZERO,
        };
        settled.resize(settled.len().max(caller.request + 1), nothing);
        settled[caller.request] = Settled {
            outcome: Outcome::of(decision.verdict),
            after: now + queued - arrival(queue.arrivals.trace(), caller.request),
            queued,
            calls: caller.calls,
        };
        queue.arrivals.answered(caller.request, now + queued);
        progress();
    }
    Ok(Waited { settled, calls_in_10ms: all.largest, repeats_in_10ms: repeats.largest })
}

/// Callers in the order of their next questions.
struct Queue<'a> {
    arrivals: &'a mut dyn Arrivals,
    timeout: Duration,
    /// By the time of their question, then in the order of their denials.
    waiting: BTreeMap<(Duration, u64), Caller>,
    denials: u64,
}

struct Caller {
    request: usize,
    wait: Wait,
    calls: u32,
}

impl Queue<'_> {
    fn push(&mut self, asks_at: Duration, caller: Caller) {
        self.waiting.insert((asks_at, self.denials), caller);
        self.denials += 1;
    }

    /// Returns the caller that asks next, and when.
    fn next(&mut self) -> Option<(Duration, Caller)> {
        let waits_until = self.waiting.first_key_value().map(|((asks_at, _), _)| *asks_at);
        match self.arrivals.next_at() {
            Some(now) if waits_until.is_none_or(|asks_at| now <= asks_at) => {
                let wait = Wait::new(now, self.timeout);
                Some((now, Caller { request: self.arrivals.next(), wait, calls: 0 }))
            }
            _ => self.waiting.pop_first().map(|((asks_at, _), caller)| (asks_at, caller)),
        }
    }
}

/// Counts calls within any [`HERD_SPAN`], in the order of their times.
#[derive(Default)]
struct Herd {
    recent: VecDeque<Duration>,
    largest: u64,
}

impl Herd {
    fn call(&mut self, at: Duration) {
        self.recent.push_back(at);
        while self.recent.front().is_some_and(|first| at - *first >= HERD_SPAN) {
            self.recent.pop_front();
        }
        self.largest = self.largest.max(self.recent.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineKind;
    use crate::trace::TraceBuilder;

    const MILLI: Duration = Duration::from_millis(1);

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
        let waiting =
            Waiting { timeout: 3000 * MILLI, round_trip: 10 * MILLI, jitter: true, seed: 1 };
        let waited = waited(&[0, 0], "token-bucket 1/s burst 1", &waiting);
        let [first, second] = waited.settled[..] else { panic!("two requests") };
        let (outcome, queued) = (Outcome::Admitted, Duration::ZERO);
        assert_eq!(first, Settled { outcome, after: 10 * MILLI, queued, calls: 1 });
        assert_eq!((second.outcome, second.calls), (Outcome::Admitted, 2));
        // A second and two round trips, and the jitter of a quarter of a second.
        let expected = 1020 * MILLI..1270 * MILLI;
        assert!(expected.contains(&second.after), "{:?}", second.after);
        assert_eq!((waited.calls_in_10ms, waited.repeats_in_10ms), (2, 1));
    }

    #[test]
    fn without_jitter_a_herd_comes_back_as_one() {
        let herd = |jitter| {
            let waiting =
                Waiting { timeout: 3000 * MILLI, round_trip: Duration::ZERO, jitter, seed: 1 };
            waited(&[0; 100], "fixed-window 50/s", &waiting)
        };
        let as_one = herd(false);
        assert_eq!(as_one.repeats_in_10ms, 50);
        let after: Vec<_> = as_one.settled.iter().map(|settled| settled.after).collect();
        assert_eq!((after[49], after[50], after[99]), (Duration::ZERO, 1000 * MILLI, 1000 * MILLI));
        assert!(herd(true).repeats_in_10ms < 15);
    }

    #[test]
    fn a_wait_takes_the_way_to_the_turn() {
        let waiting =
            Waiting { timeout: 1500 * MILLI, round_trip: 10 * MILLI, jitter: true, seed: 1 };
        let waited = waited(&[0, 0, 0], "leaky-bucket 1/s queue 5", &waiting);
        let settled = |outcome, queued: Duration| Settled {
            outcome,
            after: queued + 10 * MILLI,
            queued,
            calls: 1,
        };
        // The third one's turn would come after its timeout, so it takes none.
        let expected = [
            settled(Outcome::Admitted, Duration::ZERO),
            settled(Outcome::Admitted, 1000 * MILLI),
            settled(Outcome::Denied, Duration::ZERO),
        ];
        assert_eq!(waited.settled, expected);
        let tally = WaitTally::of(&waited);
        assert_eq!((tally.at_once, tally.after_waiting, tally.gave_up), (1, 1, 1));
        assert_eq!(tally.times, WaitTimes::of(vec![1010 * MILLI]));
    }

    #[test]
    fn without_a_timeout_each_request_asks_once() {
        let waiting =
            Waiting { timeout: Duration::ZERO, round_trip: Duration::ZERO, jitter: true, seed: 1 };
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
        let waiting =
            Waiting { timeout: 60_000 * MILLI, round_trip: MILLI, jitter: false, seed: 1 };
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
        let waiting = Waiting { timeout, round_trip, jitter: true, seed: 1 };
        let (limit, mut engine) = (limit.parse().unwrap(), EngineKind::Model.build().unwrap());
        let replayed =
            replay_closed(std::slice::from_ref(&plan), &limit, &mut *engine, &waiting, || ());
        let (trace, waited) = replayed.unwrap().unwrap();
        (plan, trace, waited)
    }

    #[test]
    fn a_closed_loop_that_is_answered_at_once_is_what_its_plan_makes_up() {
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
            let waiting = Waiting { timeout: Duration::ZERO, round_trip, jitter: true, seed: 1 };
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
        let waiting = Waiting { timeout: MILLI, round_trip: MILLI, jitter: true, seed: 1 };
        let replayed =
            replay_closed(std::slice::from_ref(&plan), &limit, &mut *engine, &waiting, || ());
        assert_eq!(replayed.unwrap(), None);
    }

    #[test]
    fn waiting_ends_at_the_end_of_all_time() {
        let waiting =
            Waiting { timeout: 3000 * MILLI, round_trip: Duration::ZERO, jitter: true, seed: 1 };
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
}
