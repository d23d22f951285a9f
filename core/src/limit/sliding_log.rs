//! The sliding log: one entry per admitted request, exact over every window.

use core::fmt;
use core::time::Duration;

use super::Limit;
use super::input::{Input, Refusal};
use super::log_entries::{self, Entries};
use super::machine::{Config, Kind, State, is_time, next_stretch_ends};
use super::share::Shares;
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, config_count, config_micros, ok};
use crate::span::Per;

/// At most `limit` in every window, wherever it begins. An admitted request at t counts for every
/// time in [t, t + window).
///
/// Envelope (E2): in any span of one window at most `limit` is admitted. It costs one entry for
/// each microsecond in which requests were admitted, at most `limit` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    limit: u64,
    window_us: u64,
}

impl SlidingLog {
    /// The largest limit, 2^20. It bounds the number of entries, and so the time that a command takes.
    pub const MAX_LIMIT: u64 = 1 << 20;

    /// The most newest entries, which a record keeps outside of its chunks.
    #[doc(hidden)]
    pub const MAX_NEWEST: usize = log_entries::MAX_NEWEST;

    /// The most entries in the head of a record.
    #[doc(hidden)]
    pub const MAX_IN_HEAD: usize = log_entries::MAX_IN_HEAD;

    /// The most entries in a chunk of a record.
    #[doc(hidden)]
    pub const MAX_CHUNK: usize = log_entries::MAX_CHUNK;

    /// The most that a log takes over from limits that are not logs, 2^51.
    #[doc(hidden)]
    pub const MAX_CARRIED: u64 = log_entries::MAX_CARRIED;

    /// Creates a limit of `limit` (1 to [`SlidingLog::MAX_LIMIT`]) in every `window` (whole microseconds, at most
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub const fn new(limit: u64, window: Duration) -> Result<Self, ConfigError> {
        let limit = ok!(config_count("limit", limit));
        if limit > SlidingLog::MAX_LIMIT {
            return Err(ConfigError::TooLarge {
                what: "limit",
                max: SlidingLog::MAX_LIMIT,
                unit: "",
                bound: "the 2^20 entries of a sliding log: other algorithms have no entries",
            });
        }
        let window_us = ok!(config_micros("window", window));
        Ok(SlidingLog { limit, window_us })
    }

    /// Returns the most that is admitted in any window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the window's length.
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }
}

impl SlidingLog {
    /// Parses the text after its word.
    pub(super) const fn parse(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        let at = input.skip_spaces();
        let (limit, window) = (ok!(input.number()), ok!(input.per()));
        input.built(at, Limit::try_sliding_log(limit, window))
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

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, Per(self.window()))
    }

    fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        Ok(SlidingLog::new(shares.part("limit", self.limit)?, self.window())?.into())
    }
}

impl SlidingLog {
    /// Returns the state at `now`, or at its last admission if that is later (D10): the cost admitted less than a
    /// window ago. If two logs share entries, neither counts more of them because it begins in the other's state.
    pub(crate) fn settle(&self, state: LogState, entries: &Entries, now: u64) -> LogState {
        let first = (now.max(state.last) + 1).saturating_sub(self.window_us);
        LogState { used: state.used.min(entries.since(first)), ..state }
    }

    pub(crate) fn remaining(&self, state: LogState) -> u64 {
        self.limit.saturating_sub(state.used)
    }

    /// Returns when the smallest prefix of the entries that count frees enough for `cost`; `None` if it fits now,
    /// or never can (D3). `added` is the cost of the last admission that is not among the entries yet.
    pub(crate) fn freed_at(
        &self,
        state: LogState,
        cost: u64,
        entries: &Entries,
        added: u64,
    ) -> Option<u64> {
        if cost > self.limit || cost <= self.remaining(state) {
            return None;
        }
        let missing = state.used - (self.limit - cost);
        let expired = entries.total() + added - state.used;
        Some(entries.reaching(expired + missing).unwrap_or(state.last) + self.window_us)
    }

    /// Returns until when a log's own record is kept if anything counts: equal for all admissions within a window.
    pub(crate) fn kept_until(&self, state: LogState) -> Option<u64> {
        (state.used > 0).then(|| next_stretch_ends(state.last, self.window_us))
    }

    pub(crate) fn fresh_at(&self, state: LogState) -> u64 {
        if state.used == 0 { state.last } else { state.last + self.window_us }
    }
}

/// The part of a log's entries that counts for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogState {
    /// The total cost of the newest entries, which are those that count.
    pub(crate) used: u64,
    /// When the latest request was admitted.
    pub(crate) last: u64,
}

impl LogState {
    /// Returns the state with `cost` charged at `now`.
    pub(crate) fn charge(self, cost: u64, now: u64) -> Self {
        LogState { used: self.used + cost, last: now.max(self.last) }
    }

    /// Returns whether some log can be in it, so that no step can overflow.
    pub(crate) fn is_sound(&self) -> bool {
        self.used <= MAX_COUNT && is_time(self.last)
    }
}

impl From<State> for LogState {
    fn from(State([used, last, _]): State) -> Self {
        LogState { used, last }
    }
}

impl From<LogState> for State {
    fn from(LogState { used, last }: LogState) -> Self {
        [used, last].into()
    }
}
