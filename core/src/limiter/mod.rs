//! The limiters' machines, one file each, and the commands that all of them take.

mod commands;
mod counter;
mod fixed_window;
mod interval_bucket;
mod leaky_bucket;
mod request;
mod sliding_log;
mod sliding_window;
mod token_bucket;
mod turn;

pub use commands::{Acquire, AcquireEach, MAX_COSTS, Peek, Reset};
pub use fixed_window::FixedWindow;
pub use interval_bucket::IntervalBucket;
pub use leaky_bucket::LeakyBucket;
pub use request::{REMEMBERED_REQUESTS, RequestId};
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;
pub use turn::{CancelTurn, Cancellation, TakeTurn, Ticket, Turn};

pub(crate) use counter::{Counter, CounterRecord, Fields};
pub(crate) use request::Requests;
pub(crate) use sliding_log::{Entry, LogRecord};

use crate::command::ScriptId;
use crate::decision::Decision;
use crate::error::{RecordError, ReplyError};
use crate::record::Record;
use crate::time::Timestamp;

/// What every limiter can do: on a slot here, or by reading what its script replied.
pub(crate) trait Machine {
    /// The kind and version of its record, such as `F1`.
    fn tag(&self) -> &'static str;
    /// Its configuration as integers, equal for limits that act alike.
    fn config(&self) -> Fields;
    /// What an acquire says beside its costs, behind the configuration.
    fn terms(&self) -> Fields {
        [].into()
    }

    fn acquire_script(&self) -> ScriptId;
    fn peek_script(&self) -> ScriptId;

    /// Whether the record is one of this machine.
    fn check(&self, record: &Record) -> Result<(), RecordError>;

    /// Decides each cost in order at one `now`, charges those that fit, and tells `decided`. Where
    /// any fitted, the slot holds a record, and the numbers are those that [`Machine::recall`]
    /// takes, for a single cost.
    fn acquire(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
        costs: &[u64],
        decided: &mut dyn FnMut(Decision),
    ) -> Result<Option<Fields>, RecordError>;

    /// The decision on a cost that was admitted at `now` once more, from what
    /// [`Machine::acquire`] gave; nothing where it can never have given that.
    fn recall(&self, cost: u64, now: Timestamp, told: &[u64]) -> Option<Decision>;

    /// What an acquire of `cost` would be told, with nothing charged.
    fn peek(
        &self,
        slot: &Option<Record>,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, RecordError>;

    /// Tells `decided` each decision that an acquire script's reply, behind its head, stands for.
    fn read_acquire(
        &self,
        costs: &[u64],
        now: Timestamp,
        rest: &[i64],
        decided: &mut dyn FnMut(Decision),
    ) -> Result<(), ReplyError>;

    /// The decision that a peek script's reply, behind its head, stands for.
    fn read_peek(&self, cost: u64, now: Timestamp, rest: &[i64]) -> Result<Decision, ReplyError>;
}
