//! What a limiter says of one request.

use alloc::boxed::Box;
use core::time::Duration;

/// The answer to one request against one limit.
///
/// All times count from the moment of the decision, as the store's clock showed it; for a request
/// that was sent again under its id, that is the first decision.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Of a leaky bucket: how long until it is the turn of the request that was admitted, which must not
    /// go ahead before; of one that was denied, the earliest that its turn could be, unless others give
    /// theirs back. Zero for all others.
    pub turn_after: Duration,
    /// Of several limits in one: which one binds, as an index into `parts`. Of those that deny, it
    /// is the one that does so for longest; where all admit, the one with the least left.
    pub binding: Option<usize>,
    /// Of several limits in one: each by itself, in their order. Empty for a single limit.
    pub parts: Box<[Part]>,
    /// Who made it.
    pub origin: Origin,
    /// In shadow mode, for a request that the limit does not admit: the verdict of the limit.
    /// `verdict` is then `Allowed`.
    pub shadow: Option<Verdict>,
}

/// One of several limits that are applied together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it would say of the request, if it were alone.
    pub verdict: Verdict,
    /// Its capacity.
    pub limit: u64,
    /// What remains of it right after the decision: nothing is charged unless all admit.
    pub remaining: u64,
    /// How long until it is as if never used.
    pub reset_after: Duration,
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
        /// What denies it.
        reason: DenialReason,
    },
    /// Its cost is above the capacity: it can never be admitted, however long it waits.
    Never,
}

/// What denies a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialReason {
    /// The limit has no room for it.
    Limit,
    /// The key is blocked, whatever the limit says.
    Blocked,
}

/// Who made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The store.
    Store,
    /// The limiter's deny cache: the store would deny the request too.
    DenyCache,
    /// Permits that the limiter holds. `remaining` counts what it still holds, and the store may have
    /// more; `parts` and `binding` are not told.
    Prefetch,
    /// The limiter's fallback, or shadow mode, because the store did not answer.
    Fallback,
}

impl Verdict {
    /// A denial by the limit, for this long.
    pub fn denied(retry_after: Duration) -> Self {
        Verdict::Denied { retry_after, reason: DenialReason::Limit }
    }

    /// Whether the request is denied because the key is blocked.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Verdict::Denied { reason: DenialReason::Blocked, .. })
    }
}

impl Decision {
    /// A decision of one limit, made by its store and enforced.
    pub fn new(verdict: Verdict, limit: u64, remaining: u64, reset_after: Duration) -> Self {
        Decision {
            verdict,
            limit,
            remaining,
            reset_after,
            turn_after: Duration::ZERO,
            binding: None,
            parts: Box::default(),
            origin: Origin::Store,
            shadow: None,
        }
    }

    /// Whether the request may go ahead.
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allowed
    }

    /// Whether the request is denied because the key is blocked.
    pub fn is_blocked(&self) -> bool {
        self.verdict.is_blocked()
    }

    /// Whether the request goes ahead only because the limiter enforces nothing (shadow mode).
    pub fn would_deny(&self) -> bool {
        self.shadow.is_some_and(|verdict| verdict != Verdict::Allowed)
    }

    /// How long to wait before the same request can be admitted: zero where it was, nothing
    /// where it never can be.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Allowed => Some(Duration::ZERO),
            Verdict::Denied { retry_after, .. } => Some(retry_after),
            Verdict::Never => None,
        }
    }
}
