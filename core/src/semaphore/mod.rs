//! The semaphore: leased permits, which bound how many are in use at once.
//!
//! Guarantees, with the names that tests cite:
//!
//! - **L1** a grant fits: with it, the counts of all live grants are within the permits that its caller
//!   named.
//! - **L2** a grant that fits is never refused, and a refusal says when it would fit.
//! - **L3** a release or a renewal without a grant changes nothing and says so.
//! - **L4** a renewal never shortens a lease, and never brings an expired one back.
//! - **L5** the fencing token grows with each grant. It is `max(last + 1, now in microseconds)`, so it
//!   also grows after the record was dropped, as long as the store's clock has not gone back past it.
//! - **L10** the id of a permit names its grant: acquiring it again while it is live changes nothing and returns the
//!   present grant, and a release gets the same answer again while it is remembered. A late copy of an acquire takes
//!   nothing once its grant has ended: each acquire whose `not_after` is not later than that of an ended grant that is
//!   not remembered is refused ([`Answer::TooLate`]). One without a bound (`Timestamp::MAX`) is then a new acquire.
//! - **L12** a refused caller that announces a wait, and listens, is notified of each release for at least half of that
//!   time; a release without waiters notifies no caller.
//!
//! **Limitations.** Waiting is not FIFO, and a failover that loses an acknowledged grant lets one more in.
//!
//! Each call reads all live grants, and a change writes them: 42 bytes for each. Hence the bound [`MAX_PERMITS`].
//!
//! ```
//! use core::time::Duration;
//! use lockage_core::semaphore::{Answer, PermitId, Semaphore};
//! use lockage_core::{Command, Timestamp};
//!
//! let semaphore = Semaphore::new(3, Duration::from_secs(30), Duration::from_secs(60))?;
//! let now = Timestamp::from_micros(1_000_000)?;
//! let (one, other) = (PermitId::from_u128(1), PermitId::from_u128(2));
//! let mut slot = None;
//!
//! let acquire = semaphore.acquire(one, 2, Timestamp::MAX)?;
//! assert!(matches!(acquire.apply(&mut slot, now)?.answer, Answer::Held(grant) if grant.count == 2));
//! let second = semaphore.acquire(other, 2, Timestamp::MAX)?;
//! let Answer::Full { fits_at } = second.apply(&mut slot, now)?.answer else { unreachable!() };
//! assert_eq!(fits_at.as_micros(), 31_000_000);
//!
//! semaphore.release(one, None).apply(&mut slot, now)?;
//! assert!(matches!(second.apply(&mut slot, now)?.answer, Answer::Held(_)));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod machine;
mod record;
mod wire;

use alloc::vec::Vec;
use core::time::Duration;

use crate::error::ConfigError;
use crate::exact::{config_count, half_span};
use crate::id::id;
use crate::time::Timestamp;
use crate::wake::waiting_us;

pub use crate::lease::REMEMBERED;
pub(crate) use record::{Permits, SemaphoreRecord};

/// The most permits of one semaphore. [`Limit::in_flight`](crate::Limit::in_flight) has room for more holders, without fencing
/// tokens.
pub const MAX_PERMITS: u64 = 400;

/// The most live grants that [`Inspect`] names: those that end first.
pub const MAX_INSPECTED: usize = 50;

/// The options of a semaphore: its permits, how long a grant lasts, and how long a release is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semaphore {
    permits: u64,
    lease_us: u64,
    remember_us: u64,
}

impl Semaphore {
    /// Creates a semaphore of 1 to [`MAX_PERMITS`] permits, whose grants last for `lease` unless they are renewed. It
    /// remembers a release for `remember`, if it is one of the last [`REMEMBERED`]. `remember` should be at least the
    /// longest time that a repeated call can be in flight: its timeout and the network's delay.
    ///
    /// Callers may differ in all three. Each call goes by its own values, and by the existing grants.
    ///
    /// Both times are whole microseconds, each at most half of [`MAX_SPAN`](crate::MAX_SPAN): 35 years.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or values out of range.
    pub fn new(permits: u64, lease: Duration, remember: Duration) -> Result<Self, ConfigError> {
        let what = "number of permits";
        if permits > MAX_PERMITS {
            let bound = "what a server does at once; a limit in flight has room for more";
            return Err(ConfigError::TooLarge { what, max: MAX_PERMITS, unit: "", bound });
        }
        Ok(Semaphore {
            permits: config_count(what, permits)?,
            lease_us: half_span("lease", lease)?,
            remember_us: half_span("time to remember releases", remember)?,
        })
    }

    /// Returns the number of permits.
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// Returns how long a grant or a renewal lasts.
    pub fn lease(&self) -> Duration {
        Duration::from_micros(self.lease_us)
    }

    /// Returns how long a release is remembered.
    pub fn remember(&self) -> Duration {
        Duration::from_micros(self.remember_us)
    }

    /// Acquires `count` permits, at least 1, all or none of them, under an id that names the grant.
    ///
    /// A request that arrives after `not_after`, by the store's time, is refused, so that a delayed duplicate cannot
    /// take permits for a caller that has given up.
    ///
    /// # Errors
    /// [`ConfigError`] if `count` is zero or not below 2^53. A count above the permits is an answer: [`Answer::Never`].
    pub fn acquire(
        &self,
        id: PermitId,
        count: u64,
        not_after: Timestamp,
    ) -> Result<Operation, ConfigError> {
        let count = config_count("count of permits", count)?;
        Ok(self.operation(id, Action::Acquire { count, not_after, waits_us: 0 }))
    }

    /// Extends the lease to at least now + lease. With `token`, only that grant's.
    pub fn renew(&self, id: PermitId, token: Option<u64>) -> Operation {
        self.operation(id, Action::Renew { token })
    }

    /// Releases all permits that were acquired under this id. With `token`, only that grant's.
    pub fn release(&self, id: PermitId, token: Option<u64>) -> Operation {
        self.operation(id, Action::Release { token })
    }

    /// Returns a query of the permits in use.
    pub fn inspect(&self) -> Inspect {
        Inspect
    }

    fn operation(&self, id: PermitId, action: Action) -> Operation {
        Operation { semaphore: *self, id, action }
    }
}

/// An operation that changes a semaphore or is refused, built by [`Semaphore`]'s methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    semaphore: Semaphore,
    id: PermitId,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Acquire { count: u64, not_after: Timestamp, waits_us: u64 },
    Renew { token: Option<u64> },
    Release { token: Option<u64> },
}

impl Operation {
    /// Makes it an acquire of a caller that waits and returns within `span`. If it does not fit, the record notes the
    /// wait, and listeners are notified if permits are released within `span`. Other operations are unchanged.
    ///
    /// A wait is recorded at most once in half of `span`, however many callers wait. A fraction of a microsecond is
    /// rounded up, and more than half of [`MAX_SPAN`](crate::MAX_SPAN) counts as half.
    pub fn waiting(self, span: Duration) -> Self {
        match self.action {
            Action::Acquire { count, not_after, .. } => {
                let waits_us = waiting_us(span);
                Operation { action: Action::Acquire { count, not_after, waits_us }, ..self }
            }
            _ => self,
        }
    }
}

/// Queries the permits in use, and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspect;

/// The reply to an operation: whether it released permits, now, and notified waiters.
pub type Reply = crate::lease::Reply<Answer>;

/// The outcome of an operation. All but [`Answer::Held`] and [`Answer::Released`] changed nothing, except that a wait
/// is remembered.
///
/// An acquire under the id of a live grant of another count, or of a remembered release, is an error:
/// [`RecordError::OperationReused`](crate::RecordError::OperationReused).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An acquire or a renewal succeeded: the present grant.
    Held(Grant),
    /// A release ran, now or when it was first sent.
    Released {
        /// The fencing token of the grant that it ended.
        token: u64,
    },
    /// An acquire does not fit now.
    Full {
        /// From when on it fits, without earlier renewals, releases or owners.
        fits_at: Timestamp,
    },
    /// An acquire asks for more than the semaphore's permits.
    Never,
    /// An acquire arrived after its `not_after`, or may be a copy of one whose grant has ended and is forgotten.
    TooLate {
        /// The latest `not_after` of those: an acquire with a later one cannot be a copy of one of them.
        forgotten: Timestamp,
    },
    /// There is no live grant of this id, or the token names another grant.
    NotHeld,
}

/// The state of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The number of permits.
    pub count: u64,
    /// The fencing token.
    pub token: u64,
    /// The end of the lease by the store's clock: from then on it is not held.
    pub deadline: Timestamp,
}

/// The outcome of [`Inspect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The store's time.
    pub now: Timestamp,
    /// The number of permits in use.
    pub used: u64,
    /// The number of live grants.
    pub holders: usize,
    /// The grants that end first, at most [`MAX_INSPECTED`].
    pub grants: Vec<(PermitId, Grant)>,
}

id! {
    /// Names one grant, so that acquiring it again is the same acquire. Make a new one for each, from 128 random bits:
    /// two callers with the same id would share one grant.
    PermitId
}
