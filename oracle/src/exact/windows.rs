//! The fixed window, the sliding window counter and places in flight, from the list of admitted requests.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::Model;
use crate::calendar::Calendar;

/// The window that the first request admitted outside of a window opens; it covers `[opened, opened + window)`. A
/// window in which nothing is left has not been opened.
pub(super) struct Fixed {
    limit: i128,
    window: i128,
    /// Charges and, negative, refunds.
    changes: Vec<(i128, i128)>,
}

impl Fixed {
    pub(super) fn new(limit: i128, window: i128) -> Self {
        Fixed { limit, window, changes: Vec::new() }
    }

    /// Returns when the latest window opened, and the cost admitted in it.
    fn latest(&self) -> Option<(i128, i128)> {
        let mut latest: Option<(i128, i128)> = None;
        for &(time, change) in &self.changes {
            latest = match latest {
                Some((opened, used)) if used > 0 && time < opened + self.window => {
                    Some((opened, used + change))
                }
                _ => Some((time, change)),
            };
        }
        latest
    }
}

impl Model for Fixed {
    fn available(&self, now: i128) -> i128 {
        match self.latest() {
            Some((opened, used)) if now < opened + self.window => self.limit - used,
            _ => self.limit,
        }
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.changes.push((now, cost));
    }

    fn refund(&mut self, cost: i128, now: i128) {
        let used = self.limit - self.available(now);
        self.changes.push((now, -cost.min(used)));
    }

    fn touch(&mut self, now: i128) {
        self.changes.push((now, 0));
    }

    fn last(&self) -> i128 {
        self.latest().map_or(0, |(opened, _)| opened)
    }

    fn holds(&self) -> i128 {
        (1 << 53) - 1
    }
}

/// The windows of a calendar. The window of the latest change counts.
pub(super) struct Dated {
    limit: i128,
    calendar: Calendar,
    /// Charges and, negative, refunds.
    changes: Vec<(i128, i128)>,
}

impl Dated {
    pub(super) fn new(limit: i128, calendar: Calendar) -> Self {
        Dated { limit, calendar, changes: Vec::new() }
    }

    /// Returns the used cost of the window at a time.
    fn used(&self, now: i128) -> i128 {
        let (begin, end) = self.calendar.window(now.max(self.last()));
        let inside = self.changes.iter().filter(|(time, _)| (begin..end).contains(time));
        inside.map(|(_, change)| change).sum()
    }
}

impl Model for Dated {
    fn available(&self, now: i128) -> i128 {
        self.limit - self.used(now)
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.changes.push((now, cost));
    }

    fn refund(&mut self, cost: i128, now: i128) {
        self.changes.push((now, -cost.min(self.used(now))));
    }

    fn touch(&mut self, now: i128) {
        self.changes.push((now, 0));
    }

    fn last(&self) -> i128 {
        let latest = self.changes.iter().map(|(time, _)| *time).max();
        latest.map_or(0, |time| self.calendar.window(time).0)
    }

    fn holds(&self) -> i128 {
        (1 << 53) - 1
    }
}

/// Windows aligned to the epoch. The previous one counts by the share of it that the last `window` still covers, and
/// the estimate is rounded up.
pub(super) struct Sliding {
    limit: i128,
    window: i128,
    admitted: Vec<(i128, i128)>,
    last: i128,
}

impl Sliding {
    pub(super) fn new(limit: i128, window: i128) -> Self {
        Sliding { limit, window, admitted: Vec::new(), last: 0 }
    }

    fn admitted_in(&self, index: i128) -> i128 {
        let inside = self.admitted.iter().filter(|(time, _)| time.div_euclid(self.window) == index);
        inside.map(|(_, cost)| cost).sum()
    }
}

impl Model for Sliding {
    fn available(&self, now: i128) -> i128 {
        let index = now.div_euclid(self.window);
        let left = self.window - now.rem_euclid(self.window);
        let weighted = BigInt::from(self.admitted_in(index - 1)) * left;
        let rounded_up = (weighted + (self.window - 1)) / self.window;
        let estimate = rounded_up + self.admitted_in(index);
        (BigInt::from(self.limit) - estimate)
            .to_i128()
            .expect("an estimate is about two limits at most")
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.admitted.push((now, cost));
    }

    /// Gives back the newest charges first, as far back as the previous window.
    fn refund(&mut self, cost: i128, now: i128) {
        let previous = now.div_euclid(self.window) - 1;
        let mut left = cost;
        for (time, cost) in self.admitted.iter_mut().rev() {
            if time.div_euclid(self.window) < previous {
                break;
            }
            let back = left.min(*cost);
            *cost -= back;
            left -= back;
        }
    }

    fn touch(&mut self, now: i128) {
        self.last = now;
    }

    fn last(&self) -> i128 {
        self.last
    }

    /// Returns the largest limit that this window allows.
    fn holds(&self) -> i128 {
        let split = (1 << 52) / self.window;
        let most = ((1 << 53) - 1) / self.window * split + split - 1;
        most.min((1 << 53) - 1)
    }
}

/// Places, each taken until the end of the window after that of its charge, or until it is given back.
pub(super) struct Places {
    limit: i128,
    lease: i128,
    /// The charges that are left of each time, the earliest first.
    taken: Vec<(i128, i128)>,
    last: i128,
}

impl Places {
    pub(super) fn new(limit: i128, lease: i128) -> Self {
        Places { limit, lease, taken: Vec::new(), last: 0 }
    }

    fn is_taken(&self, since: i128, now: i128) -> bool {
        now < (since.div_euclid(self.lease) + 2) * self.lease
    }
}

impl Model for Places {
    fn available(&self, now: i128) -> i128 {
        let taken = self.taken.iter().filter(|(since, _)| self.is_taken(*since, now));
        self.limit - taken.map(|(_, places)| places).sum::<i128>()
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.taken.push((now, cost));
    }

    /// Gives back those that would return first.
    fn refund(&mut self, cost: i128, _now: i128) {
        let mut left = cost;
        for (_, places) in &mut self.taken {
            let back = left.min(*places);
            *places -= back;
            left -= back;
        }
    }

    fn touch(&mut self, now: i128) {
        self.last = now;
        self.taken =
            self.taken.iter().copied().filter(|(since, _)| self.is_taken(*since, now)).collect();
    }

    fn last(&self) -> i128 {
        self.last
    }

    fn holds(&self) -> i128 {
        (1 << 53) - 1
    }
}
