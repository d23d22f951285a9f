//! The limiters' machines, one file each, and the commands that all of them take.

mod adjust;
mod commands;
mod convert;
mod counter;
mod fixed_window;
mod group;
mod interval_bucket;
mod leaky_bucket;
mod patience;
mod peek;
mod plain;
mod request;
mod reservations;
mod reserve;
mod sliding_log;
mod sliding_window;
mod standing;
mod token_bucket;
mod turn;
mod wire;

pub use adjust::{Adjust, Adjusted};
pub use commands::{Acquire, AcquireEach, MAX_COSTS};
pub use fixed_window::FixedWindow;
pub use interval_bucket::IntervalBucket;
pub use leaky_bucket::LeakyBucket;
pub use peek::{Peek, Reset};
pub use request::{REMEMBERED_REQUESTS, RequestId};
pub use reservations::MAX_RESERVATIONS;
pub use reserve::{Reservation, Reserve, Reserved, Settle, Settlement};
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;
pub use turn::{CancelTurn, Cancellation, TakeTurn, Ticket, Turn};

pub(crate) use counter::{Counter, CounterRecord, Fields, Machine};
pub(crate) use group::GroupRecord;
pub(crate) use request::Requests;
pub(crate) use reservations::Reservations;
pub(crate) use sliding_log::{Entry, LogState};
pub(crate) use standing::{Standpoint, State};
pub(crate) use wire::COMPOSITE_TAG;
