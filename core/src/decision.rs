//! What a limiter says of one request.

use core::time::Duration;

/// The answer to one request against one limit.
///
/// All times count from the moment of the decision, as the store's clock showed it; for a request
/// that was sent again under its id, that is the first decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request may go ahead.
    pub verdict: Verdict,
    /// The capacity: the most that can be admitted at once (a bucket's burst, a window's limit).
    pub limit: u64,
    /// The largest cost that would be admitted right after this decision.
    pub remaining: u64,
    /// How long until the limiter is as if never used, provided nothing more is admitted. The ids
    /// of requests do not count: they are remembered for as long as each request asked.
    pub reset_after: Duration,
    /// Whether it was made without the store, by a limiter's policy for its absence.
    pub degraded: bool,
}

/// Whether a request may go ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may, and its cost was charged (a peek charges nothing).
    Allowed,
    /// It may not; nothing was charged.
    Denied {
        /// With no other traffic the same request is admitted after this time, and not one
        /// microsecond before it (property D2).
        retry_after: Duration,
    },
    /// Its cost is above the capacity: it can never be admitted, however long it waits.
    Never,
}

impl Decision {
    /// Whether the request may go ahead.
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allowed
    }

    /// How long to wait before the same request can be admitted: zero where it was, nothing
    /// where it never can be.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Allowed => Some(Duration::ZERO),
            Verdict::Denied { retry_after } => Some(retry_after),
            Verdict::Never => None,
        }
    }
}
