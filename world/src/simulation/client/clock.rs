//! A client's own clock: it never runs back and is never set, but is a little fast or slow.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(super) struct OwnClock {
    /// Nanoseconds of its own in a microsecond, times a thousand.
    pace: u64,
}

impl OwnClock {
    pub(super) fn new(ppm: i64) -> Self {
        OwnClock { pace: (1_000_000 + ppm) as u64 } // far less off than a whole
    }

    /// What it shows at a true time.
    pub(super) fn at(self, true_us: u64) -> Duration {
        Duration::from_nanos((u128::from(true_us) * u128::from(self.pace) / 1000) as u64) // 500 years
    }

    /// The first microsecond of true time at which it shows so much.
    pub(super) fn when(self, own: Duration) -> u64 {
        let nanos = u64::try_from(own.as_nanos()).unwrap_or(u64::MAX);
        let true_us = (u128::from(nanos) * 1000).div_ceil(u128::from(self.pace));
        u64::try_from(true_us).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_microsecond_is_the_first() {
        for ppm in [-400, -1, 0, 3, 400] {
            let clock = OwnClock::new(ppm);
            for nanos in [1, 999, 1000, 1001, 123_456_789, 9_999_999_999] {
                let own = Duration::from_nanos(nanos);
                let first = clock.when(own);
                assert!(clock.at(first) >= own && clock.at(first - 1) < own, "{ppm} {nanos}");
            }
        }
    }
}
