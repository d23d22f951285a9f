//! Adjustments, by their definitions: taking up to, refunds, penalties and blocks.

use lockage_core::Cost;

use super::{Part, Reference, whole};
use crate::subject::{Adjustment, Outcome};

/// The largest number that is exact in a double.
const MAX_EXACT: i128 = (1 << 53) - 1;

impl Reference {
    /// Adjusts the key. Returns the outcome, and the answer to a peek of 1 right after.
    pub(super) fn adjust(&mut self, adjustment: Adjustment, now_us: u64) -> Outcome {
        let now = i128::from(now_us);
        let (amount, penalties) = match adjustment {
            Adjustment::TakeUpTo(most) => (i128::from(most).min(self.remaining(now)), Vec::new()),
            Adjustment::Refund(cost) => (self.used_of(&cost, now), Vec::new()),
            Adjustment::Penalty(cost) => {
                let penalties = self.penalties(&cost, now);
                (penalties.iter().copied().max().expect("there is a part"), penalties)
            }
            Adjustment::Block(span_us) => {
                let until = self.blocked_until.unwrap_or(0).max(now + i128::from(span_us));
                (until - now, Vec::new())
            }
            Adjustment::Unblock => (self.is_blocked(now).into(), Vec::new()),
        };
        if amount > 0 {
            self.begin_write(now_us);
            match adjustment {
                Adjustment::TakeUpTo(_) => self.each(|part, _| part.admit(amount, now)),
                Adjustment::Refund(cost) => {
                    self.each(|part, at| part.refund(cost.of_part(at).into(), now));
                }
                Adjustment::Penalty(_) => self.each(|part, at| part.admit(penalties[at], now)),
                Adjustment::Block(_) => self.blocked_until = Some(now + amount),
                Adjustment::Unblock => self.blocked_until = None,
            }
        }
        Outcome::Adjusted { amount: whole(amount), after: self.decide(1, now_us, false) }
    }

    /// Returns as much of `cost` as any part has used.
    fn used_of(&self, cost: &Cost, now: i128) -> i128 {
        let parts = self.parts.iter().enumerate();
        let used = parts.map(|(at, part)| part.used(now).min(cost.of_part(at).into()));
        used.max().expect("there is a part")
    }

    /// Returns the charge of each part: as far as its debt allows. All logs keep the same entry, as large as fits into
    /// the log with the longest window, which remembers it for longest.
    fn penalties(&self, cost: &Cost, now: i128) -> Vec<i128> {
        let logs = || self.parts.iter().filter(|part| part.log_window.is_some());
        let longest = logs().map(|part| part.log_window).max();
        let longest_logs = logs().filter(|part| Some(part.log_window) == longest);
        let room = longest_logs.map(|part| part.room(now)).max().unwrap_or(0);
        let exact = logs().map(|part| MAX_EXACT - part.used(now)).min().unwrap_or(0);
        let log = self.parts.iter().position(|part| part.log_window.is_some());
        let entry = room.min(exact).min(log.map_or(0, |at| cost.of_part(at).into()));
        let charge = |(at, part): (usize, &Part)| match part.log_window {
            Some(_) => entry,
            None => part.room(now).min(cost.of_part(at).into()),
        };
        self.parts.iter().enumerate().map(charge).collect()
    }

    fn each(&mut self, mut change: impl FnMut(&mut Part, usize)) {
        for (at, part) in self.parts.iter_mut().enumerate() {
            change(part, at);
        }
    }
}
