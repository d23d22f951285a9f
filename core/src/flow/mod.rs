//! Sans-I/O flows of callers: waiting, retrying, renewing leases, breaking the circuit, prefetching.
//!
//! A flow takes the result of the last step, the time and a random number, and returns the next
//! step. It neither sleeps nor sends, so one flow drives asynchronous callers, blocking ones and the
//! simulator.
//!
//! `now` is a reading of a monotonic clock, from any fixed moment; `random` is 64 bits, drawn for each step.
//!
//! ```
//! use core::time::Duration;
//! use lockage_core::flow::{Line, Look, Step};
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
//! // The bucket is empty: the next request waits for a tenth of a second.
//! let mut line = Line::new(Duration::from_secs(1));
//! let caller = line.join(1, now, Duration::from_secs(1));
//! let decision = loop {
//!     match line.look(caller, now) {
//!         Look::Sleep(time) => now += time, // a program would sleep, until it is called
//!         Look::Denied(decision) => break decision,
//!         Look::Ask => {
//!             let decision = decide(now);
//!             match line.answered(caller, &decision, Some(&limit), now, 0x9E37_79B9_7F4A_7C15) {
//!                 Step::Wait => {}
//!                 Step::Done => break decision,
//!                 Step::Turn(time) => {
//!                     now += time; // in the queue of a leaky bucket
//!                     break decision;
//!                 }
//!             }
//!         }
//!     }
//! };
//! assert!(decision.is_allowed());
//! assert_eq!(now, Duration::from_millis(100_100));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod circuit_breaker;
mod line;
mod polling;
mod prefetch;
mod renewal;
mod retry;

pub use circuit_breaker::{CircuitBreaker, CircuitBreakerConfig, Route};
pub use line::{Line, Look, Step};
pub use polling::Polling;
pub use prefetch::{Ask, Next, Prefetch, PrefetchConfig};
pub use renewal::{Plan, Renewals, own_deadline, shortest_lease};
pub use retry::{Failure, Retry};

use core::time::Duration;

/// Returns the span of exponential backoff after this many rounds: `first`, growing by `growth` with each, at most
/// `longest`.
fn backoff(first: Duration, growth: u32, rounds: u32, longest: Duration) -> Duration {
    first.saturating_mul(growth.saturating_pow(rounds)).min(longest)
}

/// Returns a time below `span`, scaled by `random` within its range.
fn part_of(span: Duration, random: u64) -> Duration {
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let part = (u128::from(nanos) * u128::from(random)) >> 64;
    Duration::from_nanos(part as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_grow_to_their_longest_and_never_overflow() {
        let span = |rounds| backoff(Duration::from_millis(5), 2, rounds, Duration::from_millis(30));
        let millis = [0, 1, 2, 3, 4, u32::MAX].map(|rounds| span(rounds).as_millis());
        assert_eq!(millis, [5, 10, 20, 30, 30, 30]);
        assert_eq!(backoff(Duration::MAX, u32::MAX, u32::MAX, Duration::MAX), Duration::MAX);
    }

    #[test]
    fn a_part_is_as_far_along_as_its_random_number() {
        let span = Duration::from_millis(100);
        let parts = [0, 1 << 62, 1 << 63, u64::MAX].map(|random| part_of(span, random).as_nanos());
        assert_eq!(parts, [0, 25_000_000, 50_000_000, 99_999_999]);
        assert!(part_of(Duration::MAX, u64::MAX) < Duration::MAX);
    }
}
