//! Counts of waits.

use std::time::Duration;

use super::Waited;
use crate::replay::Outcome;

/// Counts of the waits of one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitTally {
    /// Requests admitted on arrival, with their turn then.
    pub at_once: u64,
    /// Requests admitted after a denial, or after their turn in a queue.
    pub after_waiting: u64,
    /// Requests denied in the end, without those that can never be admitted.
    pub gave_up: u64,
    /// The waits of requests admitted later; `None` without any.
    pub times: Option<WaitTimes>,
    /// Calls to the store.
    pub calls: u64,
    /// The most calls to the store within 10 ms.
    pub calls_in_10ms: u64,
    /// The most of them that had been denied before.
    pub repeats_in_10ms: u64,
}

/// Order statistics of waiting times, by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimes {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

impl WaitTally {
    /// Counts a replay.
    pub fn of(waited: &Waited) -> WaitTally {
        let (mut at_once, mut gave_up, mut calls, mut times) = (0, 0, 0, Vec::new());
        for settled in &waited.settled {
            calls += u64::from(settled.calls);
            match settled.outcome {
                Outcome::Admitted if settled.waited.is_zero() && settled.queued.is_zero() => {
                    at_once += 1
                }
                Outcome::Admitted => times.push(settled.after),
                Outcome::Denied => gave_up += 1,
                Outcome::Never => {}
            }
        }
        WaitTally {
            at_once,
            after_waiting: times.len() as u64,
            gave_up,
            times: WaitTimes::of(times),
            calls,
            calls_in_10ms: waited.calls_in_10ms,
            repeats_in_10ms: waited.repeats_in_10ms,
        }
    }

    /// Returns the calls to the store per admitted request; `None` without any.
    pub fn calls_per_admitted(&self) -> Option<f64> {
        let admitted = self.at_once + self.after_waiting;
        (admitted > 0).then(|| self.calls as f64 / admitted as f64)
    }
}

impl WaitTimes {
    pub(super) fn of(mut times: Vec<Duration>) -> Option<WaitTimes> {
        times.sort_unstable();
        let rank = |percent: usize| times[(times.len() * percent).div_ceil(100) - 1];
        let max = *times.last()?;
        Some(WaitTimes { p50: rank(50), p99: rank(99), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn times_are_of_the_nearest_rank() {
        let times = |count: u32| WaitTimes::of((1..=count).rev().map(|i| i * MILLI).collect());
        let millis =
            |p50, p99, max| WaitTimes { p50: p50 * MILLI, p99: p99 * MILLI, max: max * MILLI };
        assert_eq!(times(0), None);
        assert_eq!(times(1), Some(millis(1, 1, 1)));
        assert_eq!(times(10), Some(millis(5, 10, 10)));
        assert_eq!(times(200), Some(millis(100, 198, 200)));
    }
}
