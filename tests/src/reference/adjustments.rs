//! Adjustments, by their definitions: taking what there is, giving back, penalties and blocks.

use super::{Part, Reference, whole};
use crate::subject::{Adjustment, Outcome};

/// The largest number that is exact in a double.
const MAX_EXACT: i128 = (1 << 53) - 1;

impl Reference {
    /// Does it, and tells what it came to and what a peek of 1 is told right after.
    pub(super) fn adjust(&mut self, adjustment: Adjustment, now_us: u64) -> Outcome {
        let now = i128::from(now_us);
        let amount = match adjustment {
            Adjustment::TakeUpTo(most) => self.take_up_to(most.into(), now),
            Adjustment::Refund(cost) => self.refund(cost.into(), now),
            Adjustment::Penalty(cost) => self.penalty(cost.into(), now),
            Adjustment::Block(span_us) => {
                let until = self.blocked_until.unwrap_or(0).max(now + i128::from(span_us));
                self.blocked_until = Some(until);
                until - now
            }
            Adjustment::Unblock => {
                let was_blocked = self.is_blocked(now);
                self.blocked_until = self.blocked_until.filter(|_| !was_blocked);
                was_blocked.into()
            }
        };
        if amount > 0 {
            self.written(now_us);
        }
        Outcome::Adjusted { amount: whole(amount), after: self.decide(1, now_us, false) }
    }

    fn take_up_to(&mut self, most: i128, now: i128) -> i128 {
        let granted = most.min(self.remaining(now));
        if granted > 0 {
            for part in &mut self.parts {
                part.admit(granted, now);
            }
        }
        granted
    }

    fn refund(&mut self, cost: i128, now: i128) -> i128 {
        let given_back = self.parts.iter().map(|part| cost.min(part.used(now))).max();
        for part in &mut self.parts {
            part.refund(cost, now);
        }
        given_back.expect("there is a part")
    }

    /// Each part is charged as far as its debt allows. All logs keep the same entry: as large as the
    /// log with the longest window takes, which remembers it for longest.
    fn penalty(&mut self, cost: i128, now: i128) -> i128 {
        let logs = || self.parts.iter().filter(|part| part.log_window.is_some());
        let longest = logs().map(|part| part.log_window).max();
        let longest_logs = logs().filter(|part| Some(part.log_window) == longest);
        let room = longest_logs.map(|part| part.room(now)).max().unwrap_or(0);
        let exact = logs().map(|part| MAX_EXACT - part.used(now)).min().unwrap_or(0);
        let entry = cost.min(room).min(exact);
        let charge = |part: &mut Part| {
            let is_log = part.log_window.is_some();
            let charged = if is_log { entry } else { cost.min(part.room(now)) };
            if charged > 0 {
                part.admit(charged, now);
            }
            charged
        };
        self.parts.iter_mut().map(charge).max().expect("there is a part")
    }
}
