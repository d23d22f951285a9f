//! The token bucket with interval refill: whole tokens at the end of each interval.

use core::fmt;
use core::time::Duration;

use super::input::{Input, Refusal};
use super::machine::{Config, Kind, Machine, State, is_time, next_stretch_ends};
use super::share::Shares;
use super::{Limit, TokenBucket};
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, MAX_SPAN_US, config_count, config_micros, ok};
use crate::span::Span;
use crate::time::Timestamp;

/// A bucket of `burst` tokens that starts full; at the end of each `interval`, `amount` arrive.
///
/// Intervals count from an anchor. A full bucket's next use restarts them, so that a full bucket and a forgotten one
/// act alike (D9). Envelope (E5): in any span of T microseconds at most `burst + amount * (floor((T - 1) / interval) +
/// 1)` is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IntervalBucket {
    amount: u64,
    interval_us: u64,
    burst: u64,
}

impl IntervalBucket {
    /// Creates a bucket that gets `amount` tokens (at most `burst`) at the end of each `interval` (whole microseconds),
    /// and holds at most `burst`. The time to fill the bucket must be within [`MAX_SPAN`](crate::MAX_SPAN).
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, a value out of range, or an amount
    /// above the burst.
    pub const fn new(amount: u64, interval: Duration, burst: u64) -> Result<Self, ConfigError> {
        let amount = ok!(config_count("amount", amount));
        let interval_us = ok!(config_micros("interval", interval));
        let burst = ok!(config_count("burst", burst));
        if amount > burst {
            return Err(ConfigError::RefillAboveBurst { amount, burst });
        }
        let max_intervals = MAX_SPAN_US / interval_us;
        if burst.div_ceil(amount) > max_intervals {
            return Err(ConfigError::TooLarge {
                what: "burst",
                max: max_intervals.saturating_mul(amount),
                unit: "",
                bound: "the longest time that is remembered (here, to fill the bucket), 2^51 us",
            });
        }
        Ok(IntervalBucket { amount, interval_us, burst })
    }

    /// Returns the tokens that arrive at the end of each interval.
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns the interval of the refill.
    pub const fn interval(&self) -> Duration {
        Duration::from_micros(self.interval_us)
    }

    /// Returns the bucket's burst.
    pub const fn burst(&self) -> u64 {
        self.burst
    }
}

impl IntervalBucket {
    /// Parses the text after its word, which it shares with the token bucket, whose parser distinguishes the two.
    pub(super) const fn parse(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        TokenBucket::parse(input)
    }
}

impl Kind for IntervalBucket {
    fn config(&self) -> Config {
        [self.amount, self.interval_us, self.burst].into()
    }

    fn read(config: &[u64]) -> Option<Self> {
        let &[amount, interval, burst] = config else { return None };
        IntervalBucket::new(amount, Duration::from_micros(interval), burst).ok()
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} every {} burst {}", self.amount, Span(self.interval()), self.burst)
    }

    fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        let amount = shares.part("amount", self.amount)?;
        let burst = shares.part("burst", self.burst)?;
        Ok(IntervalBucket::new(amount, self.interval(), burst)?.into())
    }
}

/// The state: the tokens that are missing from a full bucket, and where the running interval began.
impl Machine for IntervalBucket {
    fn capacity(&self) -> u64 {
        self.burst
    }

    #[inline]
    fn settle(&self, state: Option<State>, now: u64) -> State {
        let Some(State([deficit, anchor, _])) = state else { return [0, now].into() };
        // A `now` before the anchor counts as the anchor (D10).
        let intervals = now.saturating_sub(anchor) / self.interval_us;
        let refill = intervals.saturating_mul(self.amount);
        if refill >= deficit {
            return [0, now.max(anchor)].into();
        }
        [deficit - refill, anchor + intervals * self.interval_us].into()
    }

    #[inline]
    fn charge(&self, State([deficit, anchor, _]): State, cost: u64) -> State {
        [deficit + cost, anchor].into()
    }

    fn give_back(&self, State([deficit, anchor, _]): State, cost: u64) -> State {
        [deficit.saturating_sub(cost), anchor].into()
    }

    fn counted(&self, _state: State, _window: u64) -> Option<usize> {
        Some(0)
    }

    fn used(&self, State([deficit, ..]): State) -> u64 {
        deficit
    }

    fn holds(&self) -> u64 {
        (MAX_SPAN_US / self.interval_us).saturating_mul(self.amount).min(MAX_COUNT)
    }

    /// The next tokens keep their time of arrival.
    fn carry(&self, old: &Config, state: State, _fresh: State) -> State {
        let State([deficit, anchor, _]) = state;
        if deficit == 0 {
            return state;
        }
        let anchor = (anchor + old[1]).saturating_sub(self.interval_us);
        [deficit.min(self.holds()), anchor.min(Timestamp::MAX.as_micros())].into()
    }

    #[inline]
    fn remaining(&self, State([deficit, ..]): State) -> u64 {
        self.burst.saturating_sub(deficit)
    }

    fn admitted_at(&self, State([deficit, anchor, _]): State, cost: u64) -> u64 {
        let missing = deficit - (self.burst - cost);
        anchor + missing.div_ceil(self.amount) * self.interval_us
    }

    #[inline]
    fn fresh_at(&self, state: State) -> u64 {
        match state {
            State([0, anchor, _]) => anchor,
            State([deficit, anchor, _]) => {
                anchor + deficit.div_ceil(self.amount) * self.interval_us
            }
        }
    }

    fn kept_until(&self, State([deficit, anchor, _]): State) -> Option<u64> {
        let is_charged = deficit > 0 && deficit <= self.burst;
        let length = self.burst.div_ceil(self.amount) * self.interval_us;
        is_charged.then(|| next_stretch_ends(anchor, length))
    }

    fn is_sound(&self, State([deficit, anchor, _]): State) -> bool {
        is_time(anchor) && deficit <= self.holds()
    }
}
