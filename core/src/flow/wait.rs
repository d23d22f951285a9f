//! Waiting for a permit.

use core::time::Duration;

use super::{doubled, part_of};
use crate::decision::{Decision, Verdict};

/// The shortest sleep after the first denial, so that no limit however fast makes a caller spin.
const FIRST_SLEEP: Duration = Duration::from_millis(1);
/// What the shortest sleep grows to, doubling with each denial.
const LONGEST_FLOOR: Duration = Duration::from_millis(32);
/// Over how much time the sleeps of the first denial are spread.
const FIRST_SPREAD: Duration = Duration::from_millis(4);
/// What the spread grows to, doubling with each denial.
const LONGEST_SPREAD: Duration = Duration::from_millis(500);

/// One caller's wait for a permit: ask, hand in the [`Decision`], do what the [`Step`] says, repeat.
#[derive(Clone, Debug)]
pub struct Wait {
    deadline: Duration,
    denials: u32,
}

/// What a waiting caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The decision is the answer: it was admitted, never can be, or the wait does not fit.
    Done,
    /// Ask again after this time.
    Sleep(Duration),
}

impl Wait {
    /// A wait that begins at `now` and must be over by `now + timeout`. With a timeout of zero it
    /// asks once.
    pub fn new(now: Duration, timeout: Duration) -> Self {
        Wait { deadline: now.saturating_add(timeout), denials: 0 }
    }

    /// What follows from the latest decision.
    pub fn after(&mut self, decision: &Decision, now: Duration, random: u64) -> Step {
        let Verdict::Denied { retry_after } = decision.verdict else {
            return Step::Done;
        };
        let left = self.deadline.saturating_sub(now);
        if left.is_zero() || retry_after > left {
            return Step::Done;
        }
        let floor = doubled(FIRST_SLEEP, self.denials, LONGEST_FLOOR);
        let spread = doubled(FIRST_SPREAD, self.denials, LONGEST_SPREAD);
        self.denials = self.denials.saturating_add(1);
        let least = if floor <= left { retry_after.max(floor) } else { retry_after };
        let most = least.saturating_add(spread).min(left);
        Step::Sleep(least + part_of(most - least, random))
    }
}
