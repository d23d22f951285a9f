//! The sliding log, from the list of admitted requests.

use super::Model;

/// An admitted request at t counts for every now in `[t, t + window)`.
pub(super) struct Log {
    limit: i128,
    window: i128,
    admitted: Vec<(i128, i128)>,
    last: i128,
}

impl Log {
    pub(super) fn new(limit: i128, window: i128) -> Self {
        Log { limit, window, admitted: Vec::new(), last: 0 }
    }

    fn used(&self, now: i128) -> i128 {
        let counts = |time: i128| time <= now && now < time + self.window;
        let live = self.admitted.iter().filter(|(time, _)| counts(*time));
        live.map(|(_, cost)| cost).sum()
    }
}

impl Model for Log {
    fn available(&self, now: i128) -> i128 {
        self.limit - self.used(now)
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.admitted.push((now, cost));
        self.last = now;
    }

    /// Gives back the newest entries first.
    fn refund(&mut self, cost: i128, now: i128) {
        let mut left = cost.min(self.used(now));
        for (_, cost) in self.admitted.iter_mut().rev() {
            let back = left.min(*cost);
            *cost -= back;
            left -= back;
        }
    }

    /// Drops expired entries: one that has expired at a write is gone for good, even if the clock
    /// is then set back.
    fn touch(&mut self, now: i128) {
        self.admitted.retain(|(time, _)| now < time + self.window);
    }

    fn last(&self) -> i128 {
        self.last
    }

    fn holds(&self) -> i128 {
        1 << 51
    }

    /// Returns the result as if the latest entry still counted, even if it was given back.
    fn is_over(&self, now: i128, time: i128, _capacity: i128) -> bool {
        self.used(now) == 0 || time >= self.last + self.window
    }
}
