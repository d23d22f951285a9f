//! Puts a trace through one limit with callers that wait for their permits, in virtual time.
//!
//! Callers wait in lines ([`lockage_core::flow::Line`]), one for each process and key, as clients of a real store do.

mod arrivals;
mod crowd;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use lockage_core::flow::Look;
use lockage_core::{Limit, Timestamp};

use crate::engine::{Engine, EngineError};
use crate::replay::{Outcome, ReplayError, decide};
use crate::trace::{Request, Trace};
use crate::traffic::{MAX_REQUESTS, Plan};

use arrivals::{Arrivals, Closed, Open};
use crowd::{Crowd, Event};
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
    /// Whether processes whose callers are denied again leave a random number of permits to others. Without it, they
    /// come back in one instant.
    pub jitter: bool,
    /// The processes that callers are spread over. Those of one process and key wait in line.
    pub processes: NonZeroU32,
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
    /// The part of that before its last call.
    pub waited: Duration,
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
        let decided = |(request, settled): (&Request, &Settled)| {
            request.at.saturating_add(settled.waited + waiting.round_trip / 2)
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
    let mut crowd = Crowd::new(waiting);
    let (mut all, mut repeats, mut calls) = (Herd::default(), Herd::default(), 0);
    while let Some((now, event)) = crowd.next(arrivals.next_at()) {
        let request = match event {
            Event::Arrives => {
                let request = arrivals.next();
                crowd.joins(arrivals.trace(), request, now);
                request
            }
            Event::Looks(request) => request,
            Event::Answered(request, decision) => {
                match crowd.answered(limit, request, decision, now) {
                    Some(at) => {
                        arrivals.answered(request, at);
                        progress();
                    }
                    None => crowd.looks_at(request, now),
                }
                continue;
            }
        };
        match crowd.look(request, now) {
            Look::Sleep(time) => crowd.looks_at(request, now + time),
            Look::Denied(decision) => {
                crowd.callers[request].settled.waited = now - crowd.callers[request].arrived;
                crowd.settle(request, decision.verdict, Duration::ZERO, now);
                arrivals.answered(request, now);
                progress();
            }
            Look::Ask => {
                all.call(now);
                if crowd.callers[request].calls > 0 {
                    repeats.call(now);
                }
                crowd.callers[request].calls += 1;
                crowd.callers[request].settled.waited = now - crowd.callers[request].arrived;
                calls += 1;
                let trace = arrivals.trace();
                if calls > most {
                    let error = EngineError::TooManyCalls { most };
                    return Err(ReplayError::at(trace, request, error));
                }
                let decides_at = Timestamp::EPOCH.saturating_add(now + waiting.round_trip / 2);
                let number = crowd.callers[request].number;
                let patience = crowd.line(request).patience(number, now);
                let decision = decide(trace, limit, engine, request, decides_at, patience)?;
                crowd.push(now + waiting.round_trip, Event::Answered(request, decision));
            }
        }
    }
    let settled = crowd.callers.into_iter().map(|caller| caller.settled).collect();
    Ok(Waited { settled, calls_in_10ms: all.largest, repeats_in_10ms: repeats.largest })
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
