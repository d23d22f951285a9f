//! The token bucket with interval refill: whole tokens at the end of each interval.

use core::time::Duration;

use super::counter::{Counter, Fields, is_time, next_stretch_ends};
use crate::command::ScriptId;
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, MAX_SPAN_US, config_count, config_micros};
use crate::time::Timestamp;

/// A bucket of `burst` tokens that starts full; at the end of each `interval`, `amount` arrive.
///
/// Intervals count from an anchor. When the bucket is full they count anew from its next use, so
/// that a full bucket and a forgotten one act alike (D9). Envelope (E5): in any span of T
/// microseconds at most `burst + amount * (floor((T - 1) / interval) + 1)` is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IntervalBucket {
    amount: u64,
    interval_us: u64,
    burst: u64,
}

impl IntervalBucket {
    /// `amount` tokens (at most `burst`) at the end of each `interval` (whole microseconds),
    /// at most `burst` of them at once. The time to fill the bucket must be within
    /// [`MAX_SPAN`](crate::MAX_SPAN).
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, a value out of range, or an amount
    /// above the burst.
    pub fn new(amount: u64, interval: Duration, burst: u64) -> Result<Self, ConfigError> {
        let amount = config_count("amount", amount)?;
        let interval_us = config_micros("interval", interval)?;
        let burst = config_count("burst", burst)?;
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

    /// Tokens that arrive at the end of each interval.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// The interval of the refill.
    pub fn interval(&self) -> Duration {
        Duration::from_micros(self.interval_us)
    }

    /// What the bucket holds.
    pub fn burst(&self) -> u64 {
        self.burst
    }
}

#[derive(Clone, Copy)]
pub(crate) struct State {
    /// Tokens missing from a full bucket.
    deficit: u64,
    /// Where the running interval began.
    anchor: u64,
}

impl Counter for IntervalBucket {
    const TAG: &'static str = "I1";
    const ACQUIRE: ScriptId = ScriptId::IntervalBucketAcquire;
    type State = State;

    fn capacity(self) -> u64 {
        self.burst
    }

    fn settle(self, state: Option<State>, now: u64) -> State {
        let full = State { deficit: 0, anchor: now };
        let Some(state) = state else { return full };
        // A `now` before the anchor counts as the anchor (D10).
        let intervals = now.saturating_sub(state.anchor) / self.interval_us;
        let refill = intervals.saturating_mul(self.amount);
        if refill >= state.deficit {
            return State { anchor: now.max(state.anchor), ..full };
        }
        State {
            deficit: state.deficit - refill,
            anchor: state.anchor + intervals * self.interval_us,
        }
    }

    fn charge(self, state: State, cost: u64) -> State {
        State { deficit: state.deficit + cost, ..state }
    }

    fn give_back(self, state: State, cost: u64) -> State {
        State { deficit: state.deficit.saturating_sub(cost), ..state }
    }

    fn counted(self, _state: State, _window: u64) -> Option<usize> {
        Some(0)
    }

    fn unit(self) -> u64 {
        1
    }

    fn used(self, state: State) -> u64 {
        state.deficit
    }

    fn holds(self) -> u64 {
        (MAX_SPAN_US / self.interval_us).saturating_mul(self.amount).min(MAX_COUNT)
    }

    /// The next tokens arrive when they would have arrived.
    fn carry(self, old: Self, state: State, _fresh: State) -> State {
        if state.deficit == 0 {
            return state;
        }
        let anchor = (state.anchor + old.interval_us).saturating_sub(self.interval_us);
        let anchor = anchor.min(Timestamp::MAX.as_micros());
        State { deficit: state.deficit.min(self.holds()), anchor }
    }

    fn remaining(self, state: State) -> u64 {
        self.burst.saturating_sub(state.deficit)
    }

    fn admitted_at(self, state: State, cost: u64) -> u64 {
        let missing = state.deficit - (self.burst - cost);
        state.anchor + missing.div_ceil(self.amount) * self.interval_us
    }

    fn fresh_at(self, state: State) -> u64 {
        match state.deficit {
            0 => state.anchor,
            deficit => state.anchor + deficit.div_ceil(self.amount) * self.interval_us,
        }
    }

    fn kept_until(self, state: State) -> Option<u64> {
        let is_charged = state.deficit > 0 && state.deficit <= self.burst;
        let length = self.burst.div_ceil(self.amount) * self.interval_us;
        is_charged.then(|| next_stretch_ends(state.anchor, length))
    }

    fn config(self) -> Fields {
        [self.amount, self.interval_us, self.burst].into()
    }

    fn fields(state: State) -> Fields {
        [state.deficit, state.anchor].into()
    }

    fn state(self, fields: &[u64]) -> Option<State> {
        let &[deficit, anchor] = fields else { return None };
        (is_time(anchor) && deficit <= self.holds()).then_some(State { deficit, anchor })
    }
}
