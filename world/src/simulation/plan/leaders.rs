//! Worlds of leaders, of readers of who leads, and of short jobs, drawn from a stream of their own.

use super::{End, FOREVER, MILLI, Plan, SECOND, What, Work};
use crate::simulation::draw::Draw;

/// The first seed of these worlds. Worlds of smaller seeds have none of these jobs.
pub const LEADERS: u64 = 1_000_000_000_000_000_000;

/// The longest term, and the longest time that a lock is kept for.
const LONGEST_US: u64 = 3 * SECOND;

impl Plan {
    /// Gives each job of a drawn world one of these works; its faults stay.
    pub(super) fn elect(&mut self, draw: &mut Draw) {
        // A candidate that steps down waits for two polls.
        self.terms.poll_us = None;
        if draw.chance(300) {
            self.network = self.network.alike();
        }
        for index in 0..self.jobs.len() {
            let for_us = self.span(draw).min(LONGEST_US);
            let work = match draw.between(0, 9) {
                0..=4 => Work::Lead { for_us, terms: draw.between(1, 3) as u32 },
                5..=6 => self.keep(for_us, draw),
                7 => {
                    let every_us = draw.one_of(&[MILLI, 100 * MILLI, for_us]);
                    Work::Watch { every_us, times: draw.between(1, 8) as u32 }
                }
                _ => {
                    let what = What::Lock { is_fair: draw.chance(300) };
                    let (wait_us, end) = (draw.one_of(&[0, 4 * SECOND, FOREVER]), End::Released);
                    Work::Hold { what, wait_us, for_us, end, is_own: false, again: false }
                }
            };
            self.jobs[index].work = work;
        }
    }

    fn keep(&self, for_us: u64, draw: &mut Draw) -> Work {
        let most_us = self.terms.longest_us.unwrap_or(LONGEST_US).min(self.lease_us);
        let least_us = draw.between(1, most_us.min(LONGEST_US));
        let wait_us = draw.one_of(&[0, 4 * SECOND, FOREVER]);
        let end = draw.one_of(&[End::Released, End::Dropped]);
        Work::Keep { least_us, wait_us, for_us: for_us.min(least_us * 2), end }
    }

    /// Returns whether a lock may be held until its lease or its longest time ends, which notifies nobody.
    pub(super) fn is_kept_to_the_end(&self) -> bool {
        self.works().any(|work| match work {
            Work::Keep { least_us, .. } => least_us + least_us / 500 + 20 * MILLI >= self.lease_us,
            Work::Hold { for_us, .. } => {
                self.terms.longest_us.is_some_and(|most_us| for_us >= most_us)
            }
            _ => false,
        })
    }

    /// Returns how long these jobs take if they take turns.
    pub(in crate::simulation) fn turns_us(&self) -> u64 {
        let turns_us = |work| match work {
            // Some are lost to a longest hold.
            Work::Lead { for_us, terms } => 2 * for_us + u64::from(terms + 5) * 2 * SECOND,
            Work::Keep { least_us, for_us, .. } => least_us.max(for_us) + SECOND,
            _ => 0,
        };
        self.works().map(turns_us).sum()
    }
}
