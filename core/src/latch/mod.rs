//! The countdown latch: closed while there is something left to count down, then open.
//!
//! Guarantees, with the names that tests cite:
//!
//! - **L2** the count left is the count that was set less the count-downs since, never below zero; only an open latch
//!   can be set.
//! - **L10** repeating an operation with its id changes nothing, however late that is. It gets the same answer while it
//!   is one of the last [`REMEMBERED`] that changed the latch, and the latch is kept. After that each operation whose
//!   `not_after` is not later than that of a forgotten one is refused, also if the latch has ended or was reset: it may be
//!   a late copy ([`Answer::TooLate`]). One without a bound (`Timestamp::MAX`) is then a new operation.
//! - **L12** listeners are notified, once, when it is counted down to zero, or reset before.
//!
//! A latch that was never set, was reset, or has not changed for as long as it is kept, is open. So no waiter waits
//! forever for processes that died before they counted it down.
//!
//! ```
//! use core::time::Duration;
//! use lockage_core::latch::{Answer, Latch, OperationId};
//! use lockage_core::{Command, Timestamp};
//!
//! let latch = Latch::new(Duration::from_secs(3600))?;
//! let now = Timestamp::from_micros(1_000_000)?;
//! let mut slot = None;
//!
//! let in_a_second = Timestamp::from_micros(2_000_000)?;
//! latch.set(2, OperationId::from_u128(1), in_a_second)?.apply(&mut slot, now)?;
//! let one_less = latch.count_down(1, OperationId::from_u128(2), in_a_second)?;
//! assert_eq!(one_less.apply(&mut slot, now)?.answer, Answer::Done { left: 1 });
//! assert_eq!(one_less.apply(&mut slot, now)?.answer, Answer::Done { left: 1 });
//! assert_eq!(latch.inspect().apply(&mut slot, now)?.left, 1);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod machine;
mod record;
mod wire;

use core::time::Duration;

use crate::error::ConfigError;
use crate::exact::{config_count, half_span};
use crate::id::id;
use crate::time::Timestamp;

pub(crate) use record::LatchRecord;

/// The number of its latest changes that a latch remembers.
pub const REMEMBERED: usize = 8;

/// The options of a latch: how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latch {
    keep_us: u64,
}

impl Latch {
    /// Creates a latch that is kept for `keep` after it was set and after each count-down by any caller; the `keep` of
    /// the caller that set it counts. After that it is as if it had never been set.
    ///
    /// `keep` is whole microseconds, at most half of [`MAX_SPAN`](crate::MAX_SPAN): 35 years.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub fn new(keep: Duration) -> Result<Self, ConfigError> {
        Ok(Latch { keep_us: half_span("time to keep a latch", keep)? })
    }

    /// Returns how long it is kept after each change.
    pub fn keep(&self) -> Duration {
        Duration::from_micros(self.keep_us)
    }

    /// Closes an open latch with `count` to count down, 1 to 2^53 - 1.
    ///
    /// A request that arrives after `not_after`, by the store's time, is refused, so that a delayed duplicate changes
    /// nothing for a caller that has given up.
    ///
    /// # Errors
    /// [`ConfigError`] for a count out of range.
    pub fn set(
        &self,
        count: u64,
        id: OperationId,
        not_after: Timestamp,
    ) -> Result<Operation, ConfigError> {
        let count = config_count("count of a latch", count)?;
        Ok(Operation { id, count, not_after, action: Action::Set { keep_us: self.keep_us } })
    }

    /// Counts down by `count`, 1 to 2^53 - 1, at most to zero, which notifies the listeners. See [`Latch::set`] for
    /// `not_after`.
    ///
    /// # Errors
    /// [`ConfigError`] for a count out of range.
    pub fn count_down(
        &self,
        count: u64,
        id: OperationId,
        not_after: Timestamp,
    ) -> Result<Operation, ConfigError> {
        let count = config_count("count of a latch", count)?;
        Ok(Operation { id, count, not_after, action: Action::CountDown })
    }

    /// Returns a query of the count that is left.
    pub fn inspect(&self) -> Inspect {
        Inspect
    }

    /// Forgets the latch and the operations that it remembers: it is open then, and late copies of those are refused. If
    /// it was closed, listeners are notified.
    pub fn reset(&self) -> Reset {
        Reset
    }
}

/// An operation that changes a latch or is refused, built by [`Latch`]'s methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    id: OperationId,
    count: u64,
    not_after: Timestamp,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Set { keep_us: u64 },
    CountDown,
}

/// Queries the count that is left and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspect;

/// Forgets a latch. Its outcome is the count that was left; `None` if there was no latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset;

/// The reply to an operation: whether it opened the latch, now, and notified waiters.
pub type Reply = crate::lease::Reply<Answer>;

/// The outcome of an operation. An id that was used for another operation or count is an error:
/// [`RecordError::OperationReused`](crate::RecordError::OperationReused).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It ran, now or when it was first sent.
    Done {
        /// The count that was left then.
        left: u64,
    },
    /// A set was refused and nothing changed: the latch is closed.
    Closed {
        /// The count that is left.
        left: u64,
        /// The latest time at which it opens, without count-downs.
        open_at: Timestamp,
    },
    /// A count-down changed nothing: the latch is open.
    Open,
    /// The operation arrived after its `not_after`, or may be a copy of one that was done and is forgotten. It changed
    /// nothing now.
    TooLate {
        /// The latest `not_after` of those: an operation with a later one cannot be a copy of one of them.
        forgotten: Timestamp,
    },
}

/// The outcome of [`Inspect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The store's time.
    pub now: Timestamp,
    /// The count that is left; the latch is open at zero.
    pub left: u64,
    /// The latest time at which it opens, without count-downs; now if it is open.
    pub open_at: Timestamp,
}

id! {
    /// Names one operation, so that repeating it has no further effect. Make a new one for each operation, from 128
    /// random bits.
    OperationId
}
