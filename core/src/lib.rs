//! The machines of lockage: rate limiters, locks, a semaphore and a latch, each a pure function of
//! (configuration, state, command, now).
//!
//! Nothing here waits, sends or reads a clock: the caller passes the time in, so every outcome can be recomputed, on
//! any machine, from the same integers. The same machines also exist as Lua scripts (the crate `lockage-lua`), and both
//! agree bit for bit.
//!
//! ```
//! use lockage_core::{Acquire, Command, Limit, Timestamp};
//!
//! let limit: Limit = "token-bucket 100/min burst 20".parse()?;
//! let mut slot = None; // what is stored under one key: nothing yet
//! let now = Timestamp::from_micros(1_763_700_000_000_000)?;
//! let decision = Acquire::new(limit, 15)?.apply(&mut slot, now)?;
//! assert!(decision.is_allowed());
//! assert_eq!(decision.remaining, 5);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! It keeps no map of keys (see `lockage-memory`), talks to no server (see `lockage-redis-rs`), and spawns nothing.
//!
//! Everything is exact. Time is whole microseconds, rates are reduced fractions, and every
//! intermediate value stays below 2^53, where Lua's doubles are exact too; a configuration that
//! could leave that range is refused when it is built.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod any_command;
mod call;
mod command;
mod decision;
mod error;
mod exact;
pub mod fenced;
pub mod flow;
mod id;
pub mod latch;
mod lease;
mod limit;
mod limiter;
pub mod lock;
mod part_name;
mod record;
mod reply;
pub mod rw_lock;
mod script;
pub mod semaphore;
mod served;
mod span;
mod time;
pub mod view;
mod wake;
mod words;

pub use any_command::{AnyCommand, AnyOutcome};
pub use call::{
    CallTime, Encoded, PackedCall, ScriptCall, TextCall, read_integer_reply, read_packed_reply,
    read_string_reply,
};
pub use command::{Command, Cut, Publish, Ran, key_beside};
pub use decision::{Admitted, Decision, DenialReason, Denied, Origin, Part, Verdict};
pub use error::{ConfigError, CostError, RecordError, ReplyError};
pub use id::IdError;
pub use limit::{
    Bucket, CalendarUnit, CalendarWindow, Composite, DAY, FixedWindow, Gcra, HOUR, InFlight,
    IntervalBucket, LazyDecision, LeakyBucket, Limit, MINUTE, Meter, MeterState, ParseError, Prior,
    SECOND, SlidingLog, SlidingWindow, TokenBucket, WarmupBucket, Zone, parse_duration, parse_rate,
};
pub use limiter::{
    Acquire, AcquireAll, AcquireEach, Adjust, Adjusted, CancelTurn, Cancellation, Cost,
    EXACT_RESERVATIONS, LimitCommand, MAX_COSTS, MAX_DIFFERENT_COSTS, MAX_SLOW_COSTS, MAX_TOGETHER,
    OneOfAll, OneOutcome, Peek, REMEMBERED_REQUESTS, Renew, Renewal, RequestId, Reservation,
    Reserve, Reserved, Reset, Scope, SetLimit, Settle, Settlement, StoredLimit, StoredLimitOutcome,
    TakeTurn, Ticket, Turn, WithStoredLimit,
};
pub use part_name::{NameError, PartName};
pub use record::{CompactRecord, Record, Stored};
pub use script::ScriptId;
pub use served::{CallError, Served, ServedCall, ServedReply, Write};
#[cfg(target_has_atomic = "64")]
pub use time::ManualClock;
#[cfg(all(feature = "std", not(all(target_arch = "wasm32", target_os = "unknown"))))]
pub use time::SystemClock;
pub use time::{Clock, MAX_SPAN, TimeError, Timestamp};
