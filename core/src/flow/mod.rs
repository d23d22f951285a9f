//! What a caller does next: wait for a permit, send a call again, or leave the store alone.
//!
//! Each flow is told what came of the last step, the time and a random number, and says what to do.
//! It sleeps, sends and draws nothing itself, so the same flow drives asynchronous callers, blocking
//! ones and the simulator.
//!
//! `now` is a reading of a clock that never runs back, counted from any fixed moment; `random` is 64
//! bits, drawn anew for each question.
//!
//! ```
//! use core::time::Duration;
//! use lockage_core::flow::{Step, Wait};
//! use lockage_core::{Acquire, Command, Limit, Timestamp};
//!
//! let limit: Limit = "token-bucket 10/s burst 1".parse()?;
//! let (acquire, mut slot) = (Acquire::new(limit, 1)?, None);
//! let mut now = Duration::from_secs(100);
//! let mut decide = |now: Duration| {
//!     let time = Timestamp::EPOCH.saturating_add(now);
//!     acquire.apply(&mut slot, time).expect("the slot is this limit's")
//! };
//! assert!(decide(now).is_allowed());
//!
//! // The bucket is empty, so the next one waits for a tenth of a second and a little more.
//! let mut wait = Wait::new(now, Duration::from_secs(1));
//! let decision = loop {
//!     let decision = decide(now);
//!     match wait.after(&decision, now, 0x9E37_79B9_7F4A_7C15) {
//!         Step::Done => break decision,
//!         Step::Sleep(time) => now += time, // a program would sleep
//!     }
//! };
//! assert!(decision.is_allowed());
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod outage;
mod retry;
mod wait;

pub use outage::{Outage, OutageConfig, Route};
pub use retry::{Failure, Retry};
pub use wait::{Step, Wait};

use core::time::Duration;

/// `first` doubled `times` times, at most `most`.
fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    let factor = 2u32.saturating_pow(times);
    first.saturating_mul(factor).min(most)
}

/// A time from zero to `span`, as far along it as `random` is in its own range.
fn part_of(span: Duration, random: u64) -> Duration {
    // Thirty bits are fine enough, and the product fits: no span has more than 94 bits of nanoseconds.
    let share = random >> 34;
    let nanos = span.as_nanos() * u128::from(share) / u128::from(u64::MAX >> 34);
    Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
}
