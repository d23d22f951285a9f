//! The sliding log, from the list of admitted requests.

use super::Model;

/// An admitted request at t counts for every now in `[t, t + window)`.
pub(super) struct Log {
    limit: i128,
    window: i128,
    admitted: Vec<(i128, i128)>,
}

impl Log {
    pub(super) fn new(limit: i128, window: i128) -> Self {
        Log { limit, window, admitted: Vec::new() }
    }
}

impl Model for Log {
    fn available(&self, now: i128) -> i128 {
        let counts = |time: i128| time <= now && now < time + self.window;
        let live = self.admitted.iter().filter(|(time, _)| counts(*time));
        self.limit - live.map(|(_, cost)| cost).sum::<i128>()
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.admitted.push((now, cost));
    }

    fn last(&self) -> i128 {
        self.admitted.last().map_or(0, |(time, _)| *time)
    }
}
