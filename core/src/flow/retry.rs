//! One call under a timeout, repeated where that is safe.

use core::time::Duration;

use super::{backoff, part_of};

/// The longest sleep after the first failure.
const FIRST_SLEEP: Duration = Duration::from_millis(5);
/// The longest sleep after further failures; it doubles each time.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);
/// Shares of a timeout: an attempt of a repeatable call takes at most one, and a call that did not run is repeated only
/// while one is left.
const SHARES: u32 = 4;

/// One call: how long each attempt may take, and whether and when to repeat it.
///
/// All attempts and sleeps fit into the timeout. Sleeps are drawn from the upper half of 5 ms, 10 ms,
/// 20 ms and so on up to 200 ms (exponential backoff with equal jitter): about seven attempts in the
/// first half second, then at most ten per second.
#[derive(Clone, Debug)]
pub struct Retry {
    deadline: Duration,
    share: Duration,
    repeatable: bool,
    failures: u32,
}

/// The possible fate of an attempt without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Certainly not executed: always safe to repeat.
    NotDone,
    /// Possibly executed: safe to repeat only if the call is repeatable.
    Unknown,
}

impl Retry {
    /// Creates a call that begins at `now` and ends by `now + timeout`.
    ///
    /// `repeatable`: executing it twice has the effect of executing it once, because it only reads or has
    /// an id that the store remembers.
    pub fn new(now: Duration, timeout: Duration, repeatable: bool) -> Self {
        let deadline = now.saturating_add(timeout);
        Retry { deadline, share: timeout / SHARES, repeatable, failures: 0 }
    }

    /// Returns how long the next attempt may take: the rest of the timeout, and for a repeatable call at
    /// most a quarter of the timeout, so that another attempt fits after a lost reply.
    pub fn patience(&self, now: Duration) -> Duration {
        let left = self.deadline.saturating_sub(now);
        // A call that cannot be repeated gains nothing from giving up early.
        if self.repeatable { left.min(self.share) } else { left }
    }

    /// Returns how long to sleep after a failed attempt; `None` if the failure is final.
    ///
    /// [`Failure::NotDone`] is final if less than a quarter of the timeout is left after the sleep: an attempt that is
    /// cut off would turn it into [`Failure::Unknown`].
    pub fn after(&mut self, failure: Failure, now: Duration, random: u64) -> Option<Duration> {
        if failure == Failure::Unknown && !self.repeatable {
            return None;
        }
        let half = backoff(FIRST_SLEEP, 2, self.failures, LONGEST_SLEEP) / 2;
        let sleep = half + part_of(half, random);
        self.failures = self.failures.saturating_add(1);
        let left = self.deadline.saturating_sub(now).saturating_sub(sleep);
        let is_enough = match failure {
            Failure::NotDone => left >= self.share,
            Failure::Unknown => true,
        };
        (is_enough && !left.is_zero()).then_some(sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ambiguous_calls_are_retried_only_if_repeatable() {
        for (repeatable, failure, again) in [
            (true, Failure::NotDone, true),
            (true, Failure::Unknown, true),
            (false, Failure::NotDone, true),
            (false, Failure::Unknown, false),
        ] {
            let mut retry = Retry::new(NOW, SECOND, repeatable);
            let sleep = retry.after(failure, NOW, 0);
            assert_eq!(sleep.is_some(), again, "{failure:?}, repeatable: {repeatable}");
        }
    }

    #[test]
    fn a_repeatable_attempt_gets_a_quarter_and_another_one_all_that_is_left() {
        let patience = |repeatable, passed| {
            Retry::new(NOW, SECOND, repeatable).patience(NOW + Duration::from_millis(passed))
        };
        let millis = [0, 600, 900, 1000, 5000].map(|passed| patience(true, passed).as_millis());
        assert_eq!(millis, [250, 250, 100, 0, 0]);
        let millis = [0, 600, 900, 1000, 5000].map(|passed| patience(false, passed).as_millis());
        assert_eq!(millis, [1000, 400, 100, 0, 0]);
    }

    #[test]
    fn sleeps_grow_to_a_fifth_of_a_second() {
        for (random, expected) in [
            // The largest random number: each sleep is its span less a nanosecond.
            (u64::MAX, [5000, 10_000, 20_000, 40_000, 80_000, 160_000, 200_000, 200_000]),
            (0, [2500, 5000, 10_000, 20_000, 40_000, 80_000, 100_000, 100_000]),
        ] {
            let mut retry = Retry::new(NOW, Duration::from_secs(60), false);
            let mut sleep = || retry.after(Failure::NotDone, NOW, random).unwrap();
            assert_eq!([(); 8].map(|()| sleep().as_nanos().div_ceil(1000)), expected);
        }
    }

    #[test]
    fn there_is_no_attempt_without_time_for_it() {
        let millis = Duration::from_millis;
        let sleep = Duration::from_micros(2500);
        for (passed, expected) in [
            (millis(997), Some(sleep)),
            (SECOND - sleep - Duration::from_nanos(1), Some(sleep)),
            (SECOND - sleep, None),
            (SECOND, None),
        ] {
            let mut retry = Retry::new(NOW, SECOND, true);
            assert_eq!(retry.after(Failure::Unknown, NOW + passed, 0), expected);
        }
        assert_eq!(Retry::new(NOW, Duration::ZERO, true).after(Failure::NotDone, NOW, 0), None);
    }

    #[test]
    fn a_call_that_did_not_run_is_repeated_only_with_a_quarter_left() {
        let sleep = Duration::from_micros(2500);
        let last = SECOND * 3 / 4 - sleep;
        for repeatable in [true, false] {
            for (passed, expected) in [(last, Some(sleep)), (last + Duration::from_nanos(1), None)]
            {
                let mut retry = Retry::new(NOW, SECOND, repeatable);
                assert_eq!(retry.after(Failure::NotDone, NOW + passed, 0), expected);
            }
        }
    }

    #[test]
    fn no_time_is_too_long() {
        for now in [Duration::ZERO, NOW, Duration::MAX] {
            let mut retry = Retry::new(now, Duration::MAX, true);
            assert!(retry.patience(now) <= Duration::MAX / 4);
            retry.after(Failure::Unknown, Duration::MAX, u64::MAX);
        }
    }
}
