//! The sliding log: one entry per admitted request, exact over every window.

use core::fmt;
use core::time::Duration;

use super::Limit;
use super::machine::{Config, Kind, State, is_time, next_stretch_ends};
use super::parse::{Input, ParseError};
use super::print::Per;
use super::share::Shares;
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, config_count, config_micros};

/// At most `limit` in every window, wherever it begins. An admitted request at t counts for every
/// time in [t, t + window).
///
/// Envelope (E2): in any span of one window at most `limit` is admitted. It costs one entry for
/// each admitted request, at most `limit` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    limit: u64,
    window_us: u64,
}

impl SlidingLog {
    /// At most `limit` (1 to 2^53 - 1) in every `window` (whole microseconds, at most
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub fn new(limit: u64, window: Duration) -> Result<Self, ConfigError> {
        let limit = config_count("limit", limit)?;
        let window_us = config_micros("window", window)?;
        Ok(SlidingLog { limit, window_us })
    }

    /// The most that is admitted in any window.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The window's length.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }
}

impl Kind for SlidingLog {
    fn config(&self) -> Config {
        [self.limit, self.window_us].into()
    }

    fn read(config: &[u64]) -> Option<Self> {
        let &[limit, window] = config else { return None };
        SlidingLog::new(limit, Duration::from_micros(window)).ok()
    }

    fn parse(input: &mut Input<'_>) -> Result<Limit, ParseError> {
        input.window(SlidingLog::new)
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, Per(self.window()))
    }

    fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        Ok(SlidingLog::new(shares.part("limit", self.limit)?, self.window())?.into())
    }
}

impl SlidingLog {
    /// Returns the state at `now`, or at its last admission where that is later (D10), of which `entries` are
    /// those that it counted, and no older ones.
    pub(crate) fn settle(
        &self,
        mut state: LogState,
        entries: impl Iterator<Item = Entry>,
        now: u64,
    ) -> LogState {
        let now = now.max(state.last);
        for entry in entries {
            if now < entry.at + self.window_us {
                break;
            }
            state.skip += 1;
            state.used -= entry.cost;
        }
        state
    }

    pub(crate) fn remaining(&self, state: LogState) -> u64 {
        self.limit.saturating_sub(state.used)
    }

    /// Returns when the smallest prefix of the entries that count frees enough for `cost`; none where it fits now, or
    /// never can (D3).
    pub(crate) fn freed_at(
        &self,
        state: LogState,
        cost: u64,
        entries: impl Iterator<Item = Entry>,
    ) -> Option<u64> {
        if cost > self.limit || cost <= self.remaining(state) {
            return None;
        }
        let missing = state.used - (self.limit - cost);
        let (mut freed, mut at) = (0, 0);
        for entry in entries {
            freed += entry.cost;
            at = entry.at;
            if freed >= missing {
                break;
            }
        }
        Some(at + self.window_us)
    }

    /// Returns until when a record of its own is kept where anything counts: the same for all admissions within a
    /// window.
    pub(crate) fn kept_until(&self, state: LogState) -> Option<u64> {
        (state.used > 0).then(|| next_stretch_ends(state.last, self.window_us))
    }

    pub(crate) fn fresh_at(&self, state: LogState) -> u64 {
        if state.used == 0 { state.last } else { state.last + self.window_us }
    }
}

/// One admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) cost: u64,
}

/// What of a log's entries counts for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogState {
    /// The total cost of the entries from `skip` on.
    pub(crate) used: u64,
    /// When the latest request was admitted.
    pub(crate) last: u64,
    /// How many of the oldest entries have expired for this log.
    pub(crate) skip: usize,
}

impl LogState {
    /// Returns the state with `cost` charged at `now`.
    pub(crate) fn charge(self, cost: u64, now: u64) -> Self {
        LogState { used: self.used + cost, last: now.max(self.last), ..self }
    }

    /// Returns whether some log can be in it, so that no step can overflow.
    pub(crate) fn is_sound(&self) -> bool {
        self.used <= MAX_COUNT && is_time(self.last)
    }
}

impl From<State> for LogState {
    fn from(State([used, last, skip]): State) -> Self {
        // More than there can be entries: no record has that.
        LogState { used, last, skip: usize::try_from(skip).unwrap_or(usize::MAX) }
    }
}

impl From<LogState> for State {
    fn from(LogState { used, last, skip }: LogState) -> Self {
        State([used, last, skip as u64])
    }
}
