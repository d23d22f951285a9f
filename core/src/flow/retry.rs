//! One call under a timeout, sent again where that is safe.

use core::time::Duration;

use super::{doubled, part_of};

/// The most that a call is sent, the first time included.
const ATTEMPTS: u32 = 8;
/// The longest sleep after the first failure.
const FIRST_SLEEP: Duration = Duration::from_millis(5);
/// What the longest sleep grows to, doubling with each failure.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);
/// Into how many attempts the timeout of a repeatable call is cut.
const SHARES: u32 = 4;

/// One call: how long each attempt may take, and whether and when there is another.
///
/// All attempts and the sleeps between them fit in the timeout, and there are at most eight attempts.
/// A sleep is drawn from zero to 5 ms, 10 ms, 20 ms and so on up to 200 ms (exponential backoff with
/// full jitter).
#[derive(Clone, Debug)]
pub struct Retry {
    deadline: Duration,
    longest_attempt: Duration,
    repeatable: bool,
    failures: u32,
}

/// What is known of an attempt that gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was certainly not carried out: to send it again is always safe.
    NotDone,
    /// It may have been carried out: to send it again is safe only where it is repeatable.
    Unknown,
}

impl Retry {
    /// A call that begins at `now` and must be over by `now + timeout`.
    ///
    /// `repeatable`: carried out twice it does what it does once, because it only reads or because
    /// it carries an id by which the store knows it.
    pub fn new(now: Duration, timeout: Duration, repeatable: bool) -> Self {
        // A call that cannot be repeated gains nothing from giving up early.
        let longest_attempt = if repeatable { timeout / SHARES } else { timeout };
        let deadline = now.saturating_add(timeout);
        Retry { deadline, longest_attempt, repeatable, failures: 0 }
    }

    /// How long the next attempt may take: what is left, and for a repeatable call at most a quarter
    /// of the timeout, so that another attempt fits after a lost reply.
    pub fn patience(&self, now: Duration) -> Duration {
        self.longest_attempt.min(self.deadline.saturating_sub(now))
    }

    /// After a failed attempt: how long to sleep before the next one, or nothing: report the failure.
    pub fn after(&mut self, failure: Failure, now: Duration, random: u64) -> Option<Duration> {
        if failure == Failure::Unknown && !self.repeatable {
            return None;
        }
        let sleep = part_of(doubled(FIRST_SLEEP, self.failures, LONGEST_SLEEP), random);
        self.failures = self.failures.saturating_add(1);
        let fits = sleep < self.deadline.saturating_sub(now);
        (fits && self.failures < ATTEMPTS).then_some(sleep)
    }
}
