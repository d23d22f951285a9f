//! The commands of limits of all kinds, and the state of a key.

mod acquire_all;
mod acquire_each;
mod adjust;
mod commands;
mod convert;
mod cost;
mod key_state;
mod max_wait;
mod peek;
mod renew;
mod reply;
mod request;
mod reservations;
mod reserve;
mod set_limit;
mod steps;
mod stored;
mod transaction;
mod turn;
mod view;
mod wire;
mod with_stored_limit;

pub use acquire_all::{AcquireAll, MAX_TOGETHER};
pub use acquire_each::AcquireEach;
pub use adjust::{Adjust, Adjusted};
pub use commands::{Acquire, MAX_COSTS, MAX_DIFFERENT_COSTS, MAX_SLOW_COSTS};
pub use cost::Cost;
pub use peek::{Peek, Reset};
pub use renew::{Renew, Renewal};
pub use request::{REMEMBERED_REQUESTS, RequestId};
pub use reserve::{Reservation, Reserve, Reserved, Settle, Settlement};
pub use set_limit::SetLimit;
pub use steps::EXACT_RESERVATIONS;
pub use stored::{Scope, StoredLimit};
pub use turn::{CancelTurn, Cancellation, TakeTurn, Ticket, Turn};
pub use view::{LimiterView, ReservationView};
pub use with_stored_limit::{LimitCommand, StoredLimitOutcome, WithStoredLimit};

pub(crate) use key_state::{LimitState, OneLimit};
pub(crate) use max_wait::MaxWait;
pub(crate) use request::{REQUESTS, Requests};
pub(crate) use reservations::{ReservationRecord, Reservations};
pub(crate) use stored::Policy;
pub(crate) use transaction::GroupRecord;
pub(crate) use wire::COMPOSITE_TAG;
