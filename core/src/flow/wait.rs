//! Waiting for a permit.

use core::time::Duration;

use super::{backoff, part_of};
use crate::decision::{Decision, Verdict};

/// The growth of both spans with each denial.
const GROWTH: u32 = 4;
/// The shortest sleep after the first denial, however soon a permit is due.
const FIRST_LEAST: Duration = Duration::from_millis(1);
/// What that grows to.
const LONGEST_LEAST: Duration = Duration::from_millis(32);
/// The span of the first denial's jitter, where a quarter of its `retry_after` is not more.
const FIRST_JITTER: Duration = Duration::from_millis(4);
/// What that grows to.
const LONGEST_JITTER: Duration = Duration::from_millis(500);

/// One caller's wait for a permit: ask, hand in the [`Decision`], do what the [`Step`] says, repeat.
///
/// A denied caller sleeps for the decision's `retry_after`, then for a jitter drawn evenly from a span: a
/// quarter of `retry_after` at first (at least 4 ms), four times as long with each further denial, at most
/// 500 ms. This is exponential backoff with *full jitter*, which needs the fewest calls of its kind (Marc
/// Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015):
///
/// - Callers denied at one moment have the same `retry_after`; the jitter prevents a herd.
/// - A further denial means that others took the permit, so the span grows, and calls per permit grow
///   with the logarithm of the number of callers.
/// - A lone caller pays an eighth of `retry_after` on average.
///
/// A sleep is at least 1 ms, growing to 32 ms, so that no caller spins on a fast limit: a wait takes at
/// most 5 calls, and one per 32 ms of its timeout.
///
/// In a leaky bucket's queue it asks with its patience ([`Wait::patience`]), which excludes turns after its
/// deadline. An admitted caller sleeps until its turn; one without room retries while its turn could
/// come in time.
///
/// A wait gives up as soon as its permit cannot come in time; the decision still has `retry_after`. No
/// sleep ends after the deadline: the jitter is drawn from the time left, and if that is less than the
/// shortest sleep, the next question is the last. An answer may be late by as long as the store takes.
#[derive(Clone, Debug)]
pub struct Wait {
    deadline: Duration,
    denials: u32,
}

/// The next step of a waiting caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The decision is final: admitted, never admissible, or the wait does not fit.
    Done,
    /// Admitted; after this time, at its turn, the decision is final.
    Turn(Duration),
    /// Ask again after this time.
    Sleep(Duration),
}

impl Wait {
    /// Creates a wait from `now` to `now + timeout`. With a timeout of zero it asks once.
    pub fn new(now: Duration, timeout: Duration) -> Self {
        Wait { deadline: now.saturating_add(timeout), denials: 0 }
    }

    /// Returns how long the next request may wait for its turn: see
    /// [`Acquire::within`](crate::Acquire::within).
    pub fn patience(&self, now: Duration) -> Duration {
        self.deadline.saturating_sub(now)
    }

    /// Returns the step that follows from the latest decision.
    pub fn after(&mut self, decision: &Decision, now: Duration, random: u64) -> Step {
        let retry_after = match decision.verdict {
            Verdict::Denied { retry_after, .. } => retry_after,
            Verdict::Allowed if !decision.turn_after.is_zero() => {
                return Step::Turn(decision.turn_after);
            }
            Verdict::Allowed | Verdict::Never => return Step::Done,
        };
        let left = self.patience(now);
        if left.is_zero() || retry_after.max(decision.turn_after) > left {
            return Step::Done;
        }
        let least = backoff(FIRST_LEAST, GROWTH, self.denials, LONGEST_LEAST);
        let first_jitter = FIRST_JITTER.max(retry_after / 4);
        let jitter = backoff(first_jitter, GROWTH, self.denials, LONGEST_JITTER);
        self.denials = self.denials.saturating_add(1);

        let is_last = least >= left;
        let from = if is_last { retry_after } else { retry_after.max(least) };
        let sleep = from + part_of(jitter.min(left - from), random);
        if is_last {
            self.deadline = now.saturating_add(sleep);
        }
        Step::Sleep(sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);

    fn decision(verdict: Verdict) -> Decision {
        Decision::new(verdict, 1, 0, Duration::from_secs(1))
    }

    fn denied(retry_after: Duration) -> Decision {
        decision(Verdict::denied(retry_after))
    }

    /// Returns the first sleeps of a wait in milliseconds, all drawn with one random number.
    fn sleeps(timeout: Duration, retry_after: Duration, random: u64) -> [f64; 6] {
        let mut wait = Wait::new(NOW, timeout);
        [(); 6].map(|()| match wait.after(&denied(retry_after), NOW, random) {
            Step::Sleep(time) => time.as_secs_f64() * 1000.0,
            Step::Done | Step::Turn(_) => f64::NAN,
        })
    }

    #[test]
    fn what_cannot_get_better_is_done_at_once() {
        let second = Duration::from_secs(1);
        for (verdict, timeout) in [
            (Verdict::Allowed, second),
            (Verdict::Never, second),
            (Verdict::denied(second + Duration::from_nanos(1)), second),
            (Verdict::denied(Duration::MAX), Duration::MAX),
            (Verdict::denied(Duration::from_micros(1)), Duration::ZERO),
            (Verdict::denied(Duration::ZERO), Duration::ZERO),
        ] {
            let step = Wait::new(NOW, timeout).after(&decision(verdict), NOW, 0);
            assert_eq!(step, Step::Done, "{verdict:?} with a timeout of {timeout:?}");
        }
    }

    #[test]
    fn a_permit_that_comes_just_in_time_is_waited_for() {
        let second = Duration::from_secs(1);
        let mut wait = Wait::new(NOW, second);
        assert_eq!(wait.after(&denied(second), NOW, u64::MAX), Step::Sleep(second));
        assert_eq!(wait.after(&denied(Duration::ZERO), NOW + second, 0), Step::Done);
    }

    #[test]
    fn who_is_in_the_queue_waits_for_its_turn_alone() {
        let (second, turn_after) = (Duration::from_secs(1), Duration::from_millis(700));
        let queued = |verdict| Decision { turn_after, ..decision(verdict) };
        let mut wait = Wait::new(NOW, second);
        assert_eq!(wait.patience(NOW), second);
        // A slow answer to a question in time is in time.
        let later = NOW + Duration::from_millis(400);
        assert_eq!(wait.patience(later), second - Duration::from_millis(400));
        assert_eq!(wait.after(&queued(Verdict::Allowed), later, 0), Step::Turn(turn_after));

        // Room comes soon, but its turn would come too late.
        let denied = queued(Verdict::denied(Duration::from_millis(1)));
        assert_eq!(wait.after(&denied, later, 0), Step::Done);
        assert!(matches!(wait.after(&denied, NOW, 0), Step::Sleep(_)));
    }

    #[test]
    fn sleeps_and_their_jitter_grow_with_each_denial() {
        let (minute, middle) = (Duration::from_secs(60), 1 << 63);
        let soon = Duration::from_micros(1);
        assert_eq!(sleeps(minute, soon, 0), [1.0, 4.0, 16.0, 32.0, 32.0, 32.0]);
        assert_eq!(sleeps(minute, soon, middle), [3.0, 12.0, 48.0, 160.0, 282.0, 282.0]);
        let later = Duration::from_millis(40);
        assert_eq!(sleeps(minute, later, 0), [40.0; 6]);
        assert_eq!(sleeps(minute, later, middle), [45.0, 60.0, 120.0, 290.0, 290.0, 290.0]);
    }

    #[test]
    fn the_jitter_is_drawn_from_what_is_left() {
        let (timeout, later) = (Duration::from_millis(60), Duration::from_millis(40));
        assert_eq!(sleeps(timeout, later, 1 << 63), [45.0, 50.0, 50.0, 50.0, 50.0, 50.0]);
    }

    #[test]
    fn where_the_least_sleep_does_not_fit_one_question_is_left() {
        let (millis, micros) = (Duration::from_millis, Duration::from_micros);
        let mut wait = Wait::new(NOW, micros(500));
        assert_eq!(wait.after(&denied(micros(100)), NOW, 1 << 63), Step::Sleep(micros(300)));
        assert_eq!(wait.after(&denied(micros(1)), NOW + micros(300), 0), Step::Done);

        let mut wait = Wait::new(NOW, millis(1));
        assert_eq!(wait.after(&denied(micros(1)), NOW, 0), Step::Sleep(micros(1)));
        assert_eq!(wait.after(&denied(micros(1)), NOW + micros(1), 0), Step::Done);
    }

    #[test]
    fn no_time_is_too_long() {
        let half = Duration::MAX / 2;
        for now in [Duration::ZERO, half, Duration::MAX] {
            for timeout in [Duration::ZERO, half, Duration::MAX] {
                for retry_after in [Duration::ZERO, half, Duration::MAX] {
                    let mut wait = Wait::new(now, timeout);
                    wait.after(&denied(retry_after), now, u64::MAX);
                    wait.after(&denied(retry_after), Duration::MAX, u64::MAX);
                }
            }
        }
    }
}
