//! Decisions of limiters.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

/// The decision on one request.
///
/// All times count from the decision by the store's clock; for a repeated request with an id, from the
/// first decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a denied request must not go ahead: ask `is_allowed()`, or turn it away by `ok()?`"]
#[non_exhaustive]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// The capacity: a bucket's burst, or a window's limit.
    pub limit: u64,
    /// The largest cost, the same for all parts of a composite, that is admitted right after this decision.
    pub remaining: u64,
    /// The time until the limiter is as if never used, without further admissions. Request ids are remembered
    /// independently of it.
    pub reset_after: Duration,
    /// The time until the turn of a request in a leaky bucket. An admitted request must wait for it. For a denied one,
    /// it is the earliest possible turn unless others cancel theirs. Zero for other limits.
    pub turn_after: Duration,
    /// The index in `parts` of the limit of a composite that binds: the one that denies for longest or, if all admit,
    /// has the least left; for a cost by part, the one that has room for the fewest more of such requests.
    pub binding: Option<usize>,
    /// The limits of a composite, in their order. Empty for a single limit.
    pub parts: Box<[Part]>,
    /// Where the decision was made.
    pub origin: Origin,
    /// The limit's verdict in shadow mode, if it does not admit the request. `verdict` is then
    /// `Allowed`.
    pub shadow: Option<Verdict>,
}

/// One limit of a composite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// Its verdict on the request by itself.
    pub verdict: Verdict,
    /// Its capacity.
    pub limit: u64,
    /// The capacity that remains right after the decision. Nothing is charged unless all limits admit.
    pub remaining: u64,
    /// The time until it is as if never used, without further admissions.
    pub reset_after: Duration,
}

/// Whether a request may go ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted, and charged (a peek charges nothing).
    Allowed,
    /// Denied; nothing was charged.
    Denied {
        /// Without other traffic, the same request is admitted after this time, and not a microsecond
        /// before (property D2).
        retry_after: Duration,
        /// The reason.
        reason: DenialReason,
    },
    /// Never admissible: the cost is above the capacity.
    Never,
}

/// The reason for a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DenialReason {
    /// The limit has no room for it.
    Limit,
    /// The key is blocked, whatever the limit says.
    Blocked,
}

/// Where a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The store.
    Store,
    /// The limiter's deny cache; the store would deny the request too.
    DenyCache,
    /// Prefetched permits. `remaining` counts those that the limiter still holds, and the store may have more; `parts`
    /// and `binding` are empty.
    Prefetch,
    /// The limiter's fallback or shadow mode, since the store did not answer.
    Fallback,
    /// The line of callers that wait for permits in this process, and come first. `retry_after` counts them as
    /// admitted; `remaining` is zero, and the rest is from the store's latest decision.
    Line,
}

/// A request that may go ahead now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admitted {
    /// The capacity, as in [`Decision::limit`].
    pub limit: u64,
    /// The largest cost that is admitted right after it.
    pub remaining: u64,
    /// The time until the limiter is as if never used, without further admissions.
    pub reset_after: Duration,
}

/// Why a request may not go ahead now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denied {
    /// The limit has no room for it; nothing was charged.
    Limit {
        /// As in [`Verdict::Denied`].
        retry_after: Duration,
    },
    /// The key is blocked; nothing was charged.
    Blocked {
        /// As in [`Verdict::Denied`].
        retry_after: Duration,
    },
    /// The cost is above the capacity, so it is never admitted; nothing was charged.
    Never {
        /// The capacity.
        limit: u64,
    },
    /// It is admitted and charged, and its turn in a leaky bucket is still to come. A caller that can wait uses
    /// `acquire_within` or `take_turn` instead.
    NotYet {
        /// How long until its turn.
        turn_after: Duration,
    },
}

impl Denied {
    /// Returns the time until the same request can be admitted; `None` if it never can be, or was admitted and waits
    /// for its turn.
    pub fn retry_after(&self) -> Option<Duration> {
        match *self {
            Denied::Limit { retry_after } | Denied::Blocked { retry_after } => Some(retry_after),
            Denied::Never { .. } | Denied::NotYet { .. } => None,
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Limit { retry_after } => {
                write!(f, "retry in {retry_after:?}: the limit is used up")
            }
            Denied::Blocked { retry_after } => {
                write!(f, "retry in {retry_after:?}: the key is blocked")
            }
            Denied::Never { limit } => write!(f, "the cost is above the limit of {limit}"),
            Denied::NotYet { turn_after } => {
                write!(f, "it is charged, and its turn is in {turn_after:?}: do not ask again")
            }
        }
    }
}

impl core::error::Error for Denied {}

impl Verdict {
    /// Returns a denial by the limit, for this long.
    pub fn denied(retry_after: Duration) -> Self {
        Verdict::Denied { retry_after, reason: DenialReason::Limit }
    }

    /// Returns whether the request is denied because the key is blocked.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Verdict::Denied { reason: DenialReason::Blocked, .. })
    }
}

impl Decision {
    /// Creates the decision of a single limit, made by its store and enforced.
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

    /// Returns whether the request may go ahead.
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allowed
    }

    /// Returns the admission of a request that may go ahead now, so that `?` rejects any other.
    ///
    /// ```
    /// use core::time::Duration;
    /// use lockage_core::{Decision, Denied, Verdict};
    ///
    /// let second = Duration::from_secs(1);
    /// let admitted = Decision::new(Verdict::Allowed, 20, 19, second);
    /// assert_eq!(admitted.ok()?.remaining, 19);
    /// let denied = Decision::new(Verdict::denied(second), 20, 0, 20 * second);
    /// assert_eq!(denied.ok(), Err(Denied::Limit { retry_after: second }));
    /// # Ok::<(), Denied>(())
    /// ```
    ///
    /// # Errors
    /// [`Denied`], also if the request is admitted and its turn is still to come.
    pub fn ok(&self) -> Result<Admitted, Denied> {
        match self.verdict {
            Verdict::Allowed if self.turn_after > Duration::ZERO => {
                Err(Denied::NotYet { turn_after: self.turn_after })
            }
            Verdict::Allowed => {
                let &Decision { limit, remaining, reset_after, .. } = self;
                Ok(Admitted { limit, remaining, reset_after })
            }
            Verdict::Denied { retry_after, reason: DenialReason::Limit } => {
                Err(Denied::Limit { retry_after })
            }
            Verdict::Denied { retry_after, reason: DenialReason::Blocked } => {
                Err(Denied::Blocked { retry_after })
            }
            Verdict::Never => Err(Denied::Never { limit: self.limit }),
        }
    }

    /// Returns whether the request is denied because the key is blocked.
    pub fn is_blocked(&self) -> bool {
        self.verdict.is_blocked()
    }

    /// Returns whether the request goes ahead only because of shadow mode.
    pub fn would_deny(&self) -> bool {
        self.shadow.is_some_and(|verdict| verdict != Verdict::Allowed)
    }

    /// Returns the time until a denied request can be admitted; `None` if it was admitted, or never can be.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Denied { retry_after, .. } => Some(retry_after),
            Verdict::Allowed | Verdict::Never => None,
        }
    }

    /// Returns the reply of redis-cell's `CL.THROTTLE`: 1 if the request is limited, else 0; the capacity; the remaining
    /// cost; the seconds until another try, or -1 if it was admitted, or never can be; the seconds until the limiter is as
    /// if never used. Seconds are rounded up.
    ///
    /// ```
    /// use core::time::Duration;
    /// use lockage_core::{Decision, Verdict};
    ///
    /// let wait = Duration::from_millis(1500);
    /// let denied = Decision::new(Verdict::denied(wait), 20, 0, 30 * wait);
    /// assert_eq!(denied.to_redis_cell(), [1, 20, 0, 2, 45]);
    /// ```
    pub fn to_redis_cell(&self) -> [i64; 5] {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let seconds = |span: Duration| whole(span.as_secs() + u64::from(span.subsec_nanos() > 0));
        [
            (!self.is_allowed()).into(),
            whole(self.limit),
            whole(self.remaining),
            self.retry_after().map_or(-1, seconds),
            seconds(self.reset_after),
        ]
    }
}
