//! The subjects of steps: other projects' programs, and the shipped ones.

mod caller;
mod foreign;
mod limiter;
mod lock;
mod machine;

use lockage_core::Timestamp;

pub(super) use caller::{Caller, Checks};
pub(super) use foreign::Foreign;
pub use foreign::{Ask, World};
pub(super) use limiter::Limiter;
pub(super) use lock::ShippedLock;
pub(super) use machine::{Machine, Run};

/// By how many microseconds the clocks of these clients are ahead.
pub(super) type Clocks = &'static [(char, i64)];

/// The beginning of traces: 2026-01-01 00:00:01 UTC, a real time, in whose digits bugs hide. It is
/// in the middle of two seconds of the calendar.
const START_US: u64 = 1_767_225_601_000_000;

/// Returns a time of a trace, in microseconds since 1970.
fn since_epoch(at_us: u64) -> u64 {
    START_US + at_us
}

fn timestamp(at_us: u64) -> Timestamp {
    Timestamp::from_micros(since_epoch(at_us)).expect("traces are short")
}

/// Returns a time of the store, in microseconds from the beginning of the trace.
fn since_start(time: Timestamp) -> u64 {
    time.as_micros() - START_US
}
