//! The fixed window and the sliding window counter, from the list of admitted requests.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::Model;

/// Opened by the first request that is admitted outside of a window; covers `[opened, opened +
/// window)`.
pub(super) struct Fixed {
    limit: i128,
    window: i128,
    admitted: Vec<(i128, i128)>,
}

impl Fixed {
    pub(super) fn new(limit: i128, window: i128) -> Self {
        Fixed { limit, window, admitted: Vec::new() }
    }

    /// When the latest window opened, and what was admitted in it.
    fn latest(&self) -> Option<(i128, i128)> {
        let mut latest: Option<(i128, i128)> = None;
        for &(time, cost) in &self.admitted {
            latest = match latest {
                Some((opened, used)) if time < opened + self.window => Some((opened, used + cost)),
                _ => Some((time, cost)),
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
        self.admitted.push((now, cost));
    }

    fn last(&self) -> i128 {
        self.latest().map_or(0, |(opened, _)| opened)
    }
}

/// Windows aligned to the epoch; the previous one counts by the share of it that the last `window`
/// still covers, and the estimate is rounded up.
pub(super) struct Sliding {
    limit: i128,
    window: i128,
    admitted: Vec<(i128, i128)>,
}

impl Sliding {
    pub(super) fn new(limit: i128, window: i128) -> Self {
        Sliding { limit, window, admitted: Vec::new() }
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
            .expect("an estimate is about a limit at most")
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.admitted.push((now, cost));
    }

    fn last(&self) -> i128 {
        self.admitted.last().map_or(0, |(time, _)| *time)
    }
}
