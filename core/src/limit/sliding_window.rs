//! The sliding window counter: windows aligned to the epoch, and the previous one weighted by its remaining part. The
//! algorithm is that of Cloudflare's "How we built rate limiting capable of scaling to millions of domains" (2017),
//! with the estimate exact and rounded up.

use core::fmt;
use core::time::Duration;

use super::Limit;
use super::input::{Input, Refusal};
use super::machine::{Config, Kind, Machine, State, is_time};
use super::share::Shares;
use crate::error::ConfigError;
use crate::exact::{
    MAX_COUNT, MAX_EXACT, config_count, config_micros, least, mul_div_ceil, mul_div_floor, ok,
};
use crate::span::Per;

/// At most `limit` by an estimate: the running window's admissions, plus the share of the previous window's that the
/// last `window` still covers.
///
/// It keeps two counts instead of a log, and pays with precision. Envelope (E3): in any span T at
/// most `limit * (1 + T / window)` is admitted, so up to twice the limit within one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    pub(super) limit: u64,
    pub(super) window_us: u64,
}

impl SlidingWindow {
    /// Creates a limit of about `limit` in any `window` (whole microseconds, at most half of
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// The weighted estimate must be exact in doubles: with S = floor(2^52 / window in
    /// microseconds), floor(limit / S) * window stays below 2^53. A window of a day
    /// allows limits up to about 5.4 billion, one of a year (365 days) up to 40,611.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub const fn new(limit: u64, window: Duration) -> Result<Self, ConfigError> {
        let limit = ok!(config_count("limit", limit));
        let window_us = ok!(config_micros("window", window));
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

    /// Returns the most that the estimate may reach.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the window's length.
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }
}

const MAX_WINDOW_US: u64 = 1 << 50;

/// Returns the largest count of one window. The script splits the previous count into a * S + b and divides in two
/// steps; see lua/algorithms/sliding_window.lua for why these bounds keep each step exact.
const fn max_count(window_us: u64) -> u64 {
    let split = (MAX_EXACT / 2) / window_us;
    least((MAX_COUNT / window_us).saturating_mul(split).saturating_add(split - 1), MAX_COUNT)
}

impl SlidingWindow {
    #[inline]
    fn window_start(&self, time: u64) -> u64 {
        time - time % self.window_us
    }

    #[inline]
    fn estimate(&self, State([previous, current, last]): State) -> u64 {
        let left = self.window_us - last % self.window_us;
        mul_div_ceil(previous, left, self.window_us) + current
    }

    /// Returns the first offset in a window at which `count`, weighted, is at most `room`; the window's length if there
    /// is none within it.
    fn offset_within(&self, count: u64, room: u64) -> u64 {
        if count <= room {
            return 0;
        }
        self.window_us - mul_div_floor(room, self.window_us, count)
    }
}

impl SlidingWindow {
    /// Parses the text after its word.
    pub(super) const fn parse(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        let at = input.skip_spaces();
        let (limit, window) = (ok!(input.number()), ok!(input.per()));
        input.built(at, Limit::try_sliding_window(limit, window))
    }
}

impl Kind for SlidingWindow {
    fn config(&self) -> Config {
        [self.limit, self.window_us].into()
    }

    fn read(config: &[u64]) -> Option<Self> {
        let &[limit, window] = config else { return None };
        SlidingWindow::new(limit, Duration::from_micros(window)).ok()
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, Per(self.window()))
    }

    fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        Ok(SlidingWindow::new(shares.part("limit", self.limit)?, self.window())?.into())
    }
}

/// The state: the cost admitted in the window before that of `last`, and in that of `last`; and `last`, when the latest
/// request was admitted. In a settled state that is the time that it counts for.
impl Machine for SlidingWindow {
    fn capacity(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn settle(&self, state: Option<State>, now: u64) -> State {
        let fresh = [0, 0, now];
        let Some(State([previous, current, last])) = state else { return fresh.into() };
        let now = now.max(last);
        match (now / self.window_us) - (last / self.window_us) {
            0 => [previous, current, now].into(),
            1 => [current, 0, now].into(),
            _ => fresh.into(),
        }
    }

    #[inline]
    fn charge(&self, State([previous, current, last]): State, cost: u64) -> State {
        [previous, current + cost, last].into()
    }

    fn give_back(&self, State([previous, current, last]): State, cost: u64) -> State {
        let older = cost.saturating_sub(current);
        [previous.saturating_sub(older), current.saturating_sub(cost), last].into()
    }

    fn counted(&self, state: State, window: u64) -> Option<usize> {
        match self.window_of(state)?.checked_sub(window)? {
            0 => Some(1),
            1 => Some(0),
            _ => None,
        }
    }

    fn window_of(&self, State([_, _, last]): State) -> Option<u64> {
        Some(last / self.window_us)
    }

    fn used(&self, state: State) -> u64 {
        self.estimate(state)
    }

    fn holds(&self) -> u64 {
        max_count(self.window_us)
    }

    /// Windows of another length are others: there, all of it counts for the running one.
    fn carry(&self, old: &Config, state: State, fresh: State) -> State {
        let window_us = old[1];
        if self.window_us == window_us {
            return state;
        }
        let used = SlidingWindow { window_us, ..*self }.estimate(state);
        fresh.with(1, used.min(self.holds()))
    }

    #[inline]
    fn remaining(&self, state: State) -> u64 {
        self.limit.saturating_sub(self.estimate(state))
    }

    fn admitted_at(&self, State([previous, current, last]): State, cost: u64) -> u64 {
        let start = self.window_start(last);
        // In this window: the previous count fades, the current one stays.
        if let Some(room) = (self.limit - cost).checked_sub(current) {
            return start + self.offset_within(previous, room);
        }
        // In the next one: the current count is the previous one, and fades; at its end, nothing
        // is left.
        start + self.window_us + self.offset_within(current, self.limit - cost)
    }

    #[inline]
    fn fresh_at(&self, State([previous, current, last]): State) -> u64 {
        let start = self.window_start(last);
        if current > 0 {
            start + 2 * self.window_us
        } else if previous > 0 {
            start + self.window_us
        } else {
            last
        }
    }

    fn kept_until(&self, State([_, current, last]): State) -> Option<u64> {
        (current > 0).then_some(self.window_start(last) + 2 * self.window_us)
    }

    fn is_sound(&self, State([previous, current, last]): State) -> bool {
        is_time(last) && previous <= self.holds() && current <= self.holds()
    }
}
