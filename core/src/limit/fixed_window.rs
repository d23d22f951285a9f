//! The fixed window: the first admitted request opens it, and it covers [opened, opened + window).

use core::fmt;
use core::time::Duration;

use super::Limit;
use super::input::{Input, Refusal};
use super::machine::{Config, Kind, Machine, State, is_time};
use super::share::Shares;
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, config_count, config_micros, ok};
use crate::span::Per;
use crate::time::Timestamp;

/// At most `limit` in each window. The first request that is admitted outside of a window opens the next.
///
/// Envelope (E1): two windows can meet, so up to `2 * limit - 1` can be admitted within one window's length. If that is
/// too much, use a [`SlidingLog`](crate::SlidingLog).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    limit: u64,
    window_us: u64,
}

impl FixedWindow {
    /// Creates a limit of `limit` (1 to 2^53 - 1) in each `window` (whole microseconds, at most
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub const fn new(limit: u64, window: Duration) -> Result<Self, ConfigError> {
        let limit = ok!(config_count("limit", limit));
        let window_us = ok!(config_micros("window", window));
        Ok(FixedWindow { limit, window_us })
    }

    /// Returns the most that is admitted in one window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the window's length.
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }
}

impl FixedWindow {
    /// Parses the text after its word.
    pub(super) const fn parse(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        let at = input.skip_spaces();
        let (limit, window) = (ok!(input.number()), ok!(input.per()));
        input.built(at, Limit::try_fixed_window(limit, window))
    }
}

impl Kind for FixedWindow {
    fn config(&self) -> Config {
        [self.limit, self.window_us].into()
    }

    fn read(config: &[u64]) -> Option<Self> {
        let &[limit, window] = config else { return None };
        FixedWindow::new(limit, Duration::from_micros(window)).ok()
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, Per(self.window()))
    }

    fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        Ok(FixedWindow::new(shares.part("limit", self.limit)?, self.window())?.into())
    }
}

/// The state: when the window was opened, and how much of it is used.
impl Machine for FixedWindow {
    fn capacity(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn settle(&self, state: Option<State>, now: u64) -> State {
        match state {
            // A `now` before the opening counts as the opening (D10): it is in the window.
            Some(state @ State([opened, used, _])) if used > 0 && now < opened + self.window_us => {
                state
            }
            Some(State([opened, ..])) => [now.max(opened), 0].into(),
            None => [now, 0].into(),
        }
    }

    #[inline]
    fn charge(&self, State([opened, used, _]): State, cost: u64) -> State {
        [opened, used + cost].into()
    }

    fn give_back(&self, State([opened, used, _]): State, cost: u64) -> State {
        [opened, used.saturating_sub(cost)].into()
    }

    fn counted(&self, State([opened, ..]): State, window: u64) -> Option<usize> {
        (opened == window).then_some(1)
    }

    fn window_of(&self, State([opened, ..]): State) -> Option<u64> {
        Some(opened)
    }

    fn used(&self, State([_, used, _]): State) -> u64 {
        used
    }

    fn holds(&self) -> u64 {
        MAX_COUNT
    }

    /// Keeps the end of the running window.
    fn carry(&self, old: &Config, state: State, _fresh: State) -> State {
        let State([opened, used, _]) = state;
        if used == 0 {
            return state;
        }
        let opened = (opened + old[1]).saturating_sub(self.window_us);
        [opened.min(Timestamp::MAX.as_micros()), used].into()
    }

    #[inline]
    fn remaining(&self, State([_, used, _]): State) -> u64 {
        self.limit.saturating_sub(used)
    }

    fn admitted_at(&self, State([opened, ..]): State, _cost: u64) -> u64 {
        opened + self.window_us
    }

    #[inline]
    fn fresh_at(&self, state: State) -> u64 {
        match state {
            State([opened, 0, _]) => opened,
            State([opened, ..]) => opened + self.window_us,
        }
    }

    fn kept_until(&self, State([opened, used, _]): State) -> Option<u64> {
        (used > 0).then_some(opened + self.window_us)
    }

    fn is_sound(&self, State([opened, used, _]): State) -> bool {
        is_time(opened) && used <= MAX_COUNT
    }
}
