//! The words of labels: a few of each kind, none from a caller.

use lockage::Verdict;
use lockage::limiter::{DenialReason, Origin};
use lockage::locks::Loss;
#[cfg(any(feature = "metrics", feature = "opentelemetry"))]
use lockage::observer::LeaseChange;
use lockage::observer::{CallResult, DecisionEvent};

/// Words of one label. A word is named by its index.
pub(crate) type Words<const N: usize> = [&'static str; N];

pub(crate) const RESULTS: Words<9> = [
    "allowed",
    "denied",
    "blocked",
    "never",
    "would_deny",
    "refused",
    "misconfigured",
    "not_done",
    "unknown",
];

pub(crate) const SOURCES: Words<6> =
    ["store", "deny_cache", "prefetch", "fallback", "line", "none"];

/// Returns the index of the result of a request, in [`RESULTS`].
pub(crate) fn result(event: &DecisionEvent<'_>) -> usize {
    match event.result {
        Ok(decision) => match decision.verdict {
            Verdict::Allowed if decision.would_deny() => 4,
            Verdict::Allowed => 0,
            Verdict::Denied { reason: DenialReason::Blocked, .. } => 2,
            Verdict::Denied { .. } => 1,
            Verdict::Never => 3,
        },
        Err(error) => index(&RESULTS, error.kind().as_str()),
    }
}

/// Returns the index of the source of a decision, in [`SOURCES`].
pub(crate) fn source(event: &DecisionEvent<'_>) -> usize {
    match event.result.map(|decision| decision.origin) {
        Ok(Origin::Store) => 0,
        Ok(Origin::DenyCache) => 1,
        Ok(Origin::Prefetch) => 2,
        Ok(Origin::Fallback) => 3,
        Ok(Origin::Line) => 4,
        _ => 5,
    }
}

/// Returns the outcome of a call of a store.
pub(crate) fn outcome(result: &CallResult<'_>) -> &'static str {
    match result {
        CallResult::Done => "ok",
        CallResult::Failed(error) => error.kind().as_str(),
        CallResult::TimedOut => "timed_out",
        _ => "dropped",
    }
}

/// Returns the result of an attempt to acquire something; `None` for any other event.
#[cfg(any(feature = "metrics", feature = "opentelemetry"))]
pub(crate) fn acquisition(change: &LeaseChange<'_>) -> Option<&'static str> {
    match change {
        LeaseChange::Acquired { .. } => Some("acquired"),
        LeaseChange::Busy { .. } => Some("busy"),
        LeaseChange::Failed { error, .. } => Some(error.kind().as_str()),
        _ => None,
    }
}

/// Returns the reason of a loss.
pub(crate) fn loss(loss: &Loss) -> &'static str {
    match loss {
        Loss::Expired => "expired",
        Loss::Refused(_) => "refused",
        Loss::Closed => "closed",
        Loss::HeldTooLong => "held_too_long",
        _ => "other",
    }
}

/// Returns the index of a word, or of the last one if it is not among them.
fn index<const N: usize>(words: &Words<N>, word: &str) -> usize {
    words.iter().position(|it| *it == word).unwrap_or(N - 1)
}
