//! Several limits applied together.

use core::ops::Deref;
use core::time::Duration;

use super::{
    FixedWindow, IntervalBucket, LeakyBucket, Limit, SlidingLog, SlidingWindow, TokenBucket,
};
use crate::error::ConfigError;
use crate::limiter::{Counter, Fields, Machine};

/// Two to four limits applied together.
///
/// A request is admitted if each of them admits it, and is then charged to each, otherwise to none.
/// See [`Limit::all`] and [`Limit::parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Composite(Singles);

impl Composite {
    /// The most limits of a composite.
    pub const MAX_LIMITS: usize = 4;

    pub(super) fn new(limits: &[Limit]) -> Result<Self, ConfigError> {
        let count = limits.len();
        if !(2..=Self::MAX_LIMITS).contains(&count) {
            return Err(ConfigError::LimitCount { count });
        }
        let first = limits[0].singles()[0];
        let mut singles = [first; Self::MAX_LIMITS];
        for (single, limit) in singles.iter_mut().zip(limits) {
            let [only] = *limit.singles() else { return Err(ConfigError::Nested) };
            *single = only;
        }
        Ok(Composite(Singles { singles, count }))
    }

    pub(super) fn singles(&self) -> Singles {
        self.0
    }
}

/// A limit that is not a composite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Single {
    FixedWindow(FixedWindow),
    SlidingLog(SlidingLog),
    SlidingWindow(SlidingWindow),
    TokenBucket(TokenBucket),
    IntervalBucket(IntervalBucket),
    LeakyBucket(LeakyBucket),
}

impl Single {
    /// Returns the machine of a limit whose state is a few integers; `None` for a log.
    pub(crate) fn machine(&self) -> Result<&dyn Machine, &SlidingLog> {
        match self {
            Single::FixedWindow(machine) => Ok(machine),
            Single::SlidingLog(log) => Err(log),
            Single::SlidingWindow(machine) => Ok(machine),
            Single::TokenBucket(machine) => Ok(machine),
            Single::IntervalBucket(machine) => Ok(machine),
            Single::LeakyBucket(machine) => Ok(machine),
        }
    }
}

impl Single {
    /// Returns the tag and the configuration, equal for limits that act alike.
    pub(crate) fn id(&self) -> (&'static str, Fields) {
        match self.machine() {
            Ok(machine) => (machine.tag(), machine.config()),
            Err(log) => (SlidingLog::TAG, log.config()),
        }
    }

    /// Returns whether admitted requests wait for a turn.
    pub(crate) fn has_turns(&self) -> bool {
        matches!(self, Single::LeakyBucket(_))
    }

    /// Returns the tag with this first letter.
    pub(crate) fn tag_of(letter: char) -> Option<&'static str> {
        let tags = [
            FixedWindow::TAG,
            SlidingLog::TAG,
            SlidingWindow::TAG,
            TokenBucket::TAG,
            IntervalBucket::TAG,
            LeakyBucket::TAG,
        ];
        tags.into_iter().find(|tag| tag.starts_with(letter))
    }

    /// Returns how many numbers the configuration behind this tag has.
    pub(crate) fn config_len(tag: &str) -> Option<usize> {
        Some(match tag {
            FixedWindow::TAG | SlidingLog::TAG | SlidingWindow::TAG => 2,
            TokenBucket::TAG | IntervalBucket::TAG | LeakyBucket::TAG => 3,
            _ => return None,
        })
    }

    /// Returns the limit of this tag and configuration, if it is accepted.
    pub(crate) fn read(tag: &str, config: &[u64]) -> Option<Single> {
        let micros = Duration::from_micros;
        Some(match (tag, config) {
            (FixedWindow::TAG, &[limit, window]) => {
                Single::FixedWindow(FixedWindow::new(limit, micros(window)).ok()?)
            }
            (SlidingLog::TAG, &[limit, window]) => {
                Single::SlidingLog(SlidingLog::new(limit, micros(window)).ok()?)
            }
            (SlidingWindow::TAG, &[limit, window]) => {
                Single::SlidingWindow(SlidingWindow::new(limit, micros(window)).ok()?)
            }
            (TokenBucket::TAG, &[amount, period, burst]) => {
                Single::TokenBucket(TokenBucket::new(amount, micros(period), burst).ok()?)
            }
            (IntervalBucket::TAG, &[amount, interval, burst]) => {
                Single::IntervalBucket(IntervalBucket::new(amount, micros(interval), burst).ok()?)
            }
            (LeakyBucket::TAG, &[amount, period, queue]) => {
                Single::LeakyBucket(LeakyBucket::new(amount, micros(period), queue).ok()?)
            }
            _ => return None,
        })
    }
}

impl From<Single> for Limit {
    fn from(single: Single) -> Self {
        match single {
            Single::FixedWindow(window) => window.into(),
            Single::SlidingLog(log) => log.into(),
            Single::SlidingWindow(window) => window.into(),
            Single::TokenBucket(bucket) => bucket.into(),
            Single::IntervalBucket(bucket) => bucket.into(),
            Single::LeakyBucket(bucket) => bucket.into(),
        }
    }
}

/// The parts of a limit: itself, or those of a composite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Singles {
    /// Entries from `count` on repeat the first.
    singles: [Single; Composite::MAX_LIMITS],
    count: usize,
}

impl From<Single> for Singles {
    fn from(single: Single) -> Self {
        Singles { singles: [single; Composite::MAX_LIMITS], count: 1 }
    }
}

impl Deref for Singles {
    type Target = [Single];

    fn deref(&self) -> &[Single] {
        &self.singles[..self.count]
    }
}
