//! The sliding window counter: windows aligned to the epoch, the previous one weighted by what is
//! left of it. The algorithm is the one Cloudflare described in "How we built rate limiting
//! capable of scaling to millions of domains" (2017), with the estimate exact and rounded up.

use core::time::Duration;

use super::counter::{Counter, Fields, is_time};
use crate::command::ScriptId;
use crate::error::ConfigError;
use crate::exact::{
    MAX_COUNT, MAX_EXACT, config_count, config_micros, mul_div_ceil, mul_div_floor,
};

/// At most `limit` by an estimate: what the running window admitted, plus the share of the
/// previous window's that the last `window` still covers.
///
/// It keeps two counts instead of a log, and pays with precision. Envelope (E3): in any span T at
/// most `limit * (1 + T / window)` is admitted, so up to twice the limit within one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    limit: u64,
    window_us: u64,
}

impl SlidingWindow {
    /// At most about `limit` in any `window` (whole microseconds, at most half of
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// The weighted estimate must be exact in doubles: with S = floor(2^52 / window in
    /// microseconds), floor(limit / S) * window stays below 2^53. A window of a day
    /// allows limits up to about 5.4 billion, one of a year (365 days) up to 40,611.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub fn new(limit: u64, window: Duration) -> Result<Self, ConfigError> {
        let limit = config_count("limit", limit)?;
        let window_us = config_micros("window", window)?;
        if window_us > MAX_WINDOW_US {
            return Err(ConfigError::TooLarge {
                what: "window",
                max: MAX_WINDOW_US,
                unit: "us",
                bound: "half of the longest time that is remembered (two windows are), 2^50 us",
            });
        }
        let max = max_count(window_us);
        if limit > max {
            return Err(ConfigError::TooLarge {
                what: "limit",
                max,
                unit: "",
                bound: "the exact range of 2^53 for the weighted count of this window",
            });
        }
        Ok(SlidingWindow { limit, window_us })
    }

    /// The most that the estimate may reach.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The window's length.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }
}

const MAX_WINDOW_US: u64 = 1 << 50;

/// The largest count of one window. The script splits the previous count into a * S + b and divides
/// in two steps; see lua/scripts/sliding_window.lua for why these bounds keep each step exact.
fn max_count(window_us: u64) -> u64 {
    let split = (MAX_EXACT / 2) / window_us;
    (MAX_COUNT / window_us).saturating_mul(split).saturating_add(split - 1).min(MAX_COUNT)
}

#[derive(Clone, Copy)]
pub(crate) struct State {
    /// Admitted in the window before the one that `last` is in.
    previous: u64,
    /// Admitted in the window that `last` is in.
    current: u64,
    /// When the latest request was admitted; in a settled state, the time that it counts for.
    last: u64,
}

impl SlidingWindow {
    fn window_start(self, time: u64) -> u64 {
        time - time % self.window_us
    }

    fn estimate(self, state: State) -> u64 {
        let left = self.window_us - state.last % self.window_us;
        mul_div_ceil(state.previous, left, self.window_us) + state.current
    }

    /// The first offset in a window at which `count`, weighted, is at most `room`; the window's
    /// length where there is none within it.
    fn offset_within(self, count: u64, room: u64) -> u64 {
        if count <= room {
            return 0;
        }
        self.window_us - mul_div_floor(room, self.window_us, count)
    }
}

impl Counter for SlidingWindow {
    const TAG: &'static str = "S1";
    const ACQUIRE: ScriptId = ScriptId::SlidingWindowAcquire;
    type State = State;

    fn capacity(self) -> u64 {
        self.limit
    }

    fn settle(self, state: Option<State>, now: u64) -> State {
        let fresh = State { previous: 0, current: 0, last: now };
        let Some(state) = state else { return fresh };
        let now = now.max(state.last);
        match (now / self.window_us) - (state.last / self.window_us) {
            0 => State { last: now, ..state },
            1 => State { previous: state.current, current: 0, last: now },
            _ => fresh,
        }
    }

    fn charge(self, state: State, cost: u64) -> State {
        State { current: state.current + cost, ..state }
    }

    fn give_back(self, state: State, cost: u64) -> State {
        let older = cost.saturating_sub(state.current);
        State {
            previous: state.previous.saturating_sub(older),
            current: state.current.saturating_sub(cost),
            ..state
        }
    }

    fn counted(self, state: State, window: u64) -> Option<usize> {
        match self.window_number(state).checked_sub(window)? {
            0 => Some(1),
            1 => Some(0),
            _ => None,
        }
    }

    fn window_number(self, state: State) -> u64 {
        state.last / self.window_us
    }

    fn unit(self) -> u64 {
        1
    }

    fn used(self, state: State) -> u64 {
        self.estimate(state)
    }

    fn holds(self) -> u64 {
        max_count(self.window_us)
    }

    /// Windows of another length are others: there, all of it counts for the running one.
    fn carry(self, old: Self, state: State, fresh: State) -> State {
        if self.window_us == old.window_us {
            return state;
        }
        State { current: old.used(state).min(self.holds()), ..fresh }
    }

    fn remaining(self, state: State) -> u64 {
        self.limit.saturating_sub(self.estimate(state))
    }

    fn admitted_at(self, state: State, cost: u64) -> u64 {
        let start = self.window_start(state.last);
        // In this window: the previous count fades, the current one stays.
        if let Some(room) = (self.limit - cost).checked_sub(state.current) {
            return start + self.offset_within(state.previous, room);
        }
        // In the next one: the current count is the previous one, and fades; at its end, nothing
        // is left.
        let offset = self.offset_within(state.current, self.limit - cost);
        start + self.window_us + offset
    }

    fn fresh_at(self, state: State) -> u64 {
        let start = self.window_start(state.last);
        if state.current > 0 {
            start + 2 * self.window_us
        } else if state.previous > 0 {
            start + self.window_us
        } else {
            state.last
        }
    }

    fn kept_until(self, state: State) -> Option<u64> {
        (state.current > 0).then_some(self.window_start(state.last) + 2 * self.window_us)
    }

    fn config(self) -> Fields {
        [self.limit, self.window_us].into()
    }

    fn fields(state: State) -> Fields {
        [state.previous, state.current, state.last].into()
    }

    fn state(self, fields: &[u64]) -> Option<State> {
        let &[previous, current, last] = fields else { return None };
        let state = State { previous, current, last };
        let counted = previous <= self.holds() && current <= self.holds();
        (is_time(last) && counted).then_some(state)
    }
}
