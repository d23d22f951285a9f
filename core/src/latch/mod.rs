//! The countdown latch: closed while there is something left to count down, then open.
//!
//! What it promises, with the names that tests cite:
//!
//! - **L2** what is left is what was set less what was counted down since, never below zero; a latch is set
//!   only where it is open.
//! - **L10** repeating an operation with its id changes nothing and gets the same answer, while it is one of
//!   the last [`REMEMBERED`] that changed the latch, and the latch is kept.
//! - **L12** those who listen are told, once, when it is counted down to zero, and when it is reset before.
//!
//! A latch that was never set, was reset, or has not changed for as long as it is kept, is open: so nobody
//! waits for ever for those who were to count it down and died.
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
//! latch.set(2, OperationId::from_u128(1))?.apply(&mut slot, now)?;
//! let one_less = latch.count_down(1, OperationId::from_u128(2))?;
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

/// How many of the latest operations that changed a latch it remembers.
pub const REMEMBERED: usize = 8;

/// How a latch is used: for how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latch {
    keep_us: u64,
}

impl Latch {
    /// A latch that is kept for `keep` after it was set and after each count-down, whoever does that: what
    /// it was set with counts. Then it is as if it had never been set.
    ///
    /// `keep` is whole microseconds, at most half of [`MAX_SPAN`](crate::MAX_SPAN): 35 years.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub fn new(keep: Duration) -> Result<Self, ConfigError> {
        Ok(Latch { keep_us: half_span("time to keep a latch", keep)? })
    }

    /// For how long it is kept after each change.
    pub fn keep(&self) -> Duration {
        Duration::from_micros(self.keep_us)
    }

    /// Close it with `count` to count down, 1 to 2^53 - 1, where it is open.
    ///
    /// # Errors
    /// [`ConfigError`] for a count out of range.
    pub fn set(&self, count: u64, id: OperationId) -> Result<Operation, ConfigError> {
        let count = config_count("count of a latch", count)?;
        Ok(Operation { id, count, action: Action::Set { keep_us: self.keep_us } })
    }

    /// Count down by `count`, 1 to 2^53 - 1, or to zero where less is left. Once nothing is, those who listen
    /// are told.
    ///
    /// # Errors
    /// [`ConfigError`] for a count out of range.
    pub fn count_down(&self, count: u64, id: OperationId) -> Result<Operation, ConfigError> {
        let count = config_count("count of a latch", count)?;
        Ok(Operation { id, count, action: Action::CountDown })
    }

    /// Ask what is left.
    pub fn inspect(&self) -> Inspect {
        Inspect
    }

    /// Forget the latch, and which operations it remembers: it is open then. Those who listen are told where
    /// it was closed.
    pub fn reset(&self) -> Reset {
        Reset
    }
}

/// An operation that changes a latch or is refused, built by [`Latch`]'s methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    id: OperationId,
    count: u64,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Set { keep_us: u64 },
    CountDown,
}

/// Asks what is left and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspect;

/// Forgets a latch. Its outcome is what was left of it; nothing where there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset;

/// The reply to an operation: whether it opened the latch, now, and notified waiters.
pub type Reply = crate::lease::Reply<Answer>;

/// What became of an operation. An id that was used for another one, also for another count, is an error:
/// [`RecordError::OperationReused`](crate::RecordError::OperationReused).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done, now or when it was first sent.
    Done {
        /// What was left then.
        left: u64,
    },
    /// A set was refused and nothing changed: the latch is closed.
    Closed {
        /// What is left.
        left: u64,
        /// When it is open at the latest, if nobody counts it down.
        open_at: Timestamp,
    },
    /// A count-down changed nothing: the latch is open.
    Open,
}

/// What [`Inspect`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The store's time.
    pub now: Timestamp,
    /// What is left; the latch is open at zero.
    pub left: u64,
    /// When it is open at the latest, if nobody counts it down; now where it is open.
    pub open_at: Timestamp,
}

id! {
    /// Names one operation, so that sending it again is the same operation. Make a new one for each
    /// operation, from 128 random bits.
    OperationId
}
