//! Puts a trace through one limit, request by request.

use std::time::Duration;

use lockage_core::{Acquire, Decision, Limit, Timestamp, Verdict};
use thiserror::Error;

use crate::engine::{Engine, EngineError, bounded};
use crate::trace::Trace;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Admitted, also to a queue.
    Admitted,
    /// Denied, and admissible at a later time.
    Denied,
    /// Denied for ever: the cost is above the limit's capacity.
    Never,
}

impl Outcome {
    /// Returns the outcome of a verdict.
    pub(crate) fn of(verdict: Verdict) -> Outcome {
        match verdict {
            Verdict::Allowed => Outcome::Admitted,
            Verdict::Denied { .. } => Outcome::Denied,
            Verdict::Never => Outcome::Never,
        }
    }
}

/// An engine that gave no decision.
#[derive(Debug, Error)]
#[error("request {number} of {total} (key {key:?}, cost {cost})")]
pub struct ReplayError {
    number: usize,
    total: usize,
    key: String,
    cost: u64,
    source: EngineError,
}

/// Puts every request of a trace through a limit, in order, and returns the outcomes.
///
/// `progress` is called after each request.
///
/// # Errors
/// [`ReplayError`] at the first request without a decision.
pub fn replay(
    trace: &Trace,
    limit: &Limit,
    engine: &mut dyn Engine,
    mut progress: impl FnMut(),
) -> Result<Vec<Outcome>, ReplayError> {
    let mut outcomes = Vec::with_capacity(trace.requests().len());
    for (index, request) in trace.requests().iter().enumerate() {
        let decision = decide(trace, limit, engine, index, request.at, Duration::MAX)?;
        outcomes.push(Outcome::of(decision.verdict));
        progress();
    }
    Ok(outcomes)
}

/// Decides the request of this index as if it came at `at`, with this patience for its turn.
pub(crate) fn decide(
    trace: &Trace,
    limit: &Limit,
    engine: &mut dyn Engine,
    index: usize,
    at: Timestamp,
    patience: Duration,
) -> Result<Decision, ReplayError> {
    let request = trace.requests()[index];
    let key = trace.key(request.key);
    let acquire = Acquire::new(bounded(limit, at), request.cost).map_err(EngineError::from);
    let decision = acquire.and_then(|acquire| engine.acquire(key, &acquire.within(patience), at));
    decision.map_err(|source| ReplayError::at(trace, index, source))
}

impl ReplayError {
    /// Returns the error at the request of this index.
    pub(crate) fn at(trace: &Trace, index: usize, source: EngineError) -> ReplayError {
        let request = trace.requests()[index];
        ReplayError {
            number: index + 1,
            total: trace.requests().len(),
            key: trace.key(request.key).to_owned(),
            cost: request.cost,
            source,
        }
    }
}

/// Counts of the outcomes of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that were denied, for now or for ever.
    pub denied: u64,
    /// Requests that can never be admitted.
    pub never: u64,
    /// Keys that were denied at least once.
    pub keys_denied: u64,
    /// The keys denied most, most first; of equals the busier one, then by name.
    pub worst: Vec<KeyTally>,
}

/// Counts of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTally {
    /// The key's number in the trace.
    pub key: u32,
    /// Its requests.
    pub requests: u64,
    /// The denied ones of them.
    pub denied: u64,
}

impl Tally {
    /// Counts the outcomes of a trace, with up to `top` denied keys.
    pub fn of(trace: &Trace, outcomes: &[Outcome], top: usize) -> Tally {
        let count = |wanted| outcomes.iter().filter(|&&outcome| outcome == wanted).count() as u64;
        let never = count(Outcome::Never);
        let mut keys: Vec<KeyTally> = (0..)
            .take(trace.key_count())
            .map(|key| KeyTally { key, requests: 0, denied: 0 })
            .collect();
        for (request, outcome) in trace.requests().iter().zip(outcomes) {
            let key = &mut keys[request.key as usize];
            key.requests += 1;
            key.denied += u64::from(*outcome != Outcome::Admitted);
        }
        keys.retain(|key| key.denied > 0);
        keys.sort_by(|a, b| {
            let busier = (b.denied, b.requests).cmp(&(a.denied, a.requests));
            busier.then_with(|| trace.key(a.key).cmp(trace.key(b.key)))
        });
        let keys_denied = keys.len() as u64;
        keys.truncate(top);
        Tally {
            admitted: count(Outcome::Admitted),
            denied: count(Outcome::Denied) + never,
            never,
            keys_denied,
            worst: keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use lockage_core::Timestamp;

    use super::*;
    use crate::engine::EngineKind;
    use crate::trace::{Request, TraceBuilder};

    fn trace(requests: &[(u64, &str, u64)]) -> Trace {
        let mut builder = TraceBuilder::default();
        for &(micros, name, cost) in requests {
            let key = builder.key(name);
            builder.push(Request { at: Timestamp::from_micros(micros).unwrap(), key, cost });
        }
        builder.finish()
    }

    #[test]
    fn each_key_has_a_limit_of_its_own_and_costs_count() {
        let trace = trace(&[
            (1, "a", 1),
            (2, "a", 2),
            (3, "b", 2),
            (4, "b", 1),
            (5, "c", 3),
            (1_000_001, "a", 2),
        ]);
        for kind in [EngineKind::Lua, EngineKind::Model] {
            let limit = "fixed-window 2/s".parse().unwrap();
            let mut engine = kind.build().unwrap();
            let mut calls = 0;
            let outcomes = replay(&trace, &limit, &mut *engine, || calls += 1).unwrap();
            use Outcome::{Admitted, Denied, Never};
            assert_eq!(outcomes, [Admitted, Denied, Admitted, Denied, Never, Admitted]);
            assert_eq!(calls, 6);
        }
    }

    #[test]
    fn a_cost_of_zero_is_refused() {
        let trace = trace(&[(1, "a", 0)]);
        let mut engine = EngineKind::Model.build().unwrap();
        let limit = "fixed-window 2/s".parse().unwrap();
        let refused = replay(&trace, &limit, &mut *engine, || ()).unwrap_err();
        assert!(matches!(refused.source, EngineError::Cost(_)), "{refused:?}");
    }

    #[test]
    fn a_tally_adds_up_and_its_order_is_settled() {
        use Outcome::{Admitted, Denied, Never};
        let trace = trace(&[
            (1, "b", 1),
            (2, "a", 1),
            (3, "c", 9),
            (4, "c", 1),
            (5, "d", 1),
            (6, "b", 1),
            (7, "a", 1),
        ]);
        let outcomes = [Admitted, Admitted, Never, Denied, Admitted, Denied, Denied];
        let tally = Tally::of(&trace, &outcomes, 2);
        assert_eq!((tally.admitted, tally.denied, tally.never, tally.keys_denied), (3, 4, 1, 3));
        let worst: Vec<_> =
            tally.worst.iter().map(|key| (trace.key(key.key), key.requests, key.denied)).collect();
        assert_eq!(worst, [("c", 2, 2), ("a", 2, 1)]);
    }
}
