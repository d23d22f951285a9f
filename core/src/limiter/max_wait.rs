//! How long a caller waits for its turn.

use core::fmt;
use core::time::Duration;

use crate::exact::MAX_COUNT;

/// The longest wait for the turn of an admitted request, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxWait(u64);

impl MaxWait {
    /// No turn is further away.
    pub(crate) const ENDLESS: MaxWait = MaxWait(MAX_COUNT);

    /// Creates a wait of this length, in whole microseconds.
    pub(crate) fn of(longest: Duration) -> Self {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        MaxWait(micros.min(MAX_COUNT))
    }

    pub(crate) fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns whether it suffices at `now` for this turn, if there is one.
    pub(crate) fn allows(self, turn_at: Option<u64>, now: u64) -> bool {
        turn_at.is_none_or(|turn_at| self.in_time_at(turn_at) <= now)
    }

    /// Returns the first time at which it suffices for this turn.
    pub(crate) fn in_time_at(self, turn_at: u64) -> u64 {
        turn_at.saturating_sub(self.0)
    }
}

/// Prints it as scripts take it.
impl fmt::Display for MaxWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
