//! The fixed window: the first admitted request opens it, and it covers [opened, opened + window).

use core::time::Duration;

use super::counter::{Counter, Fields, is_time};
use crate::command::ScriptId;
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, config_count, config_micros};
use crate::time::Timestamp;

/// At most `limit` in each window, where a window is opened by the first request that is
/// admitted outside of one.
///
/// Envelope (E1): two windows can meet, so up to `2 * limit - 1` can be admitted within one
/// window's length. Use a [`SlidingLog`](crate::SlidingLog) where that is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    limit: u64,
    window_us: u64,
}

impl FixedWindow {
    /// At most `limit` (1 to 2^53 - 1) in each `window` (whole microseconds, at most
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub fn new(limit: u64, window: Duration) -> Result<Self, ConfigError> {
        let limit = config_count("limit", limit)?;
        let window_us = config_micros("window", window)?;
        Ok(FixedWindow { limit, window_us })
    }

    /// The most that is admitted in one window.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The window's length.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct State {
    opened: u64,
    used: u64,
}

impl Counter for FixedWindow {
    const TAG: &'static str = "F1";
    const ACQUIRE: ScriptId = ScriptId::FixedWindowAcquire;
    type State = State;

    fn capacity(self) -> u64 {
        self.limit
    }

    fn settle(self, state: Option<State>, now: u64) -> State {
        match state {
            // A `now` before the opening counts as the opening (D10): it is in the window.
            Some(state) if state.used > 0 && now < state.opened + self.window_us => state,
            Some(state) => State { opened: now.max(state.opened), used: 0 },
            None => State { opened: now, used: 0 },
        }
    }

    fn charge(self, state: State, cost: u64) -> State {
        State { used: state.used + cost, ..state }
    }

    fn give_back(self, state: State, cost: u64) -> State {
        State { used: state.used.saturating_sub(cost), ..state }
    }

    fn counted(self, _state: State, _window: u64) -> Option<usize> {
        Some(1)
    }

    fn unit(self) -> u64 {
        1
    }

    fn used(self, state: State) -> u64 {
        state.used
    }

    fn holds(self) -> u64 {
        MAX_COUNT
    }

    /// The running window ends when it would have ended.
    fn carry(self, old: Self, state: State, _fresh: State) -> State {
        if state.used == 0 {
            return state;
        }
        let opened = (state.opened + old.window_us).saturating_sub(self.window_us);
        State { opened: opened.min(Timestamp::MAX.as_micros()), ..state }
    }

    fn remaining(self, state: State) -> u64 {
        self.limit.saturating_sub(state.used)
    }

    fn admitted_at(self, state: State, _cost: u64) -> u64 {
        state.opened + self.window_us
    }

    fn fresh_at(self, state: State) -> u64 {
        match state.used {
            0 => state.opened,
            _ => state.opened + self.window_us,
        }
    }

    fn kept_until(self, state: State) -> Option<u64> {
        (state.used > 0).then_some(state.opened + self.window_us)
    }

    fn config(self) -> Fields {
        [self.limit, self.window_us].into()
    }

    fn fields(state: State) -> Fields {
        [state.opened, state.used].into()
    }

    fn state(self, fields: &[u64]) -> Option<State> {
        let &[opened, used] = fields else { return None };
        (is_time(opened) && used <= MAX_COUNT).then_some(State { opened, used })
    }
}
