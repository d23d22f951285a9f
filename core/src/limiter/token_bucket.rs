//! The token bucket with continuous refill. GCRA (ITU-T I.371) is the same machine in another
//! notation (property D7); here the deficit is kept, exactly, in fractions of a token.

use core::time::Duration;

use super::counter::{Counter, Fields, is_time, next_stretch_ends};
use crate::command::ScriptId;
use crate::error::ConfigError;
use crate::exact::{
    MAX_COUNT, MAX_SPAN_US, config_count, config_micros, gcd, mul_div_ceil, mul_div_floor,
};

/// A bucket of `burst` tokens that starts full and refills continuously, `amount` per `period`.
///
/// Envelope (E4): in any span of T microseconds at most `burst + floor(amount * (T - 1) / period)`
/// is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    amount: u64,
    period_us: u64,
    burst: u64,
    /// The rate as a reduced fraction, in tokens per microsecond: a token is `denominator` parts,
    /// and each microsecond brings `numerator` parts.
    numerator: u64,
    denominator: u64,
}

impl TokenBucket {
    /// `amount` tokens per `period` (whole microseconds, at most [`MAX_SPAN`](crate::MAX_SPAN)),
    /// at most `burst` of them at once.
    ///
    /// With the rate reduced to numerator / denominator tokens per microsecond, burst *
    /// denominator must stay below 2^53, and the time to fill the bucket within `MAX_SPAN`.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub fn new(amount: u64, period: Duration, burst: u64) -> Result<Self, ConfigError> {
        TokenBucket::sized(amount, period, "burst", burst)
    }

    /// The same, where `what` is the name of the burst.
    pub(super) fn sized(
        amount: u64,
        period: Duration,
        what: &'static str,
        burst: u64,
    ) -> Result<Self, ConfigError> {
        let amount = config_count("amount", amount)?;
        let period_us = config_micros("period", period)?;
        let burst = config_count(what, burst)?;
        let divisor = gcd(amount, period_us);
        let (numerator, denominator) = (amount / divisor, period_us / divisor);
        let exact = MAX_COUNT / denominator;
        let filled_in_time = mul_div_floor(MAX_SPAN_US, numerator, denominator);
        if burst > exact.min(filled_in_time) {
            let bound = if exact <= filled_in_time {
                "the exact range of 2^53 for the fractions of a token at this rate"
            } else {
                "the longest time that is remembered (here, to fill the bucket, or to empty it), 2^51 us"
            };
            let max = exact.min(filled_in_time);
            return Err(ConfigError::TooLarge { what, max, unit: "", bound });
        }
        Ok(TokenBucket { amount, period_us, burst, numerator, denominator })
    }

    /// Tokens that arrive per period.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// The period of the refill.
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// What the bucket holds.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// What the bucket holds, in parts.
    fn parts(self) -> u64 {
        self.burst * self.denominator
    }

    /// The most that can be missing: exact, and back within the longest time that is remembered.
    pub(super) fn max_deficit(self) -> u64 {
        MAX_SPAN_US.saturating_mul(self.numerator).min(MAX_COUNT)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct State {
    /// What is missing from a full bucket, in parts.
    deficit: u64,
    /// The time for which the deficit holds.
    last: u64,
}

impl Counter for TokenBucket {
    const TAG: &'static str = "T1";
    const ACQUIRE: ScriptId = ScriptId::TokenBucketAcquire;
    type State = State;

    fn capacity(self) -> u64 {
        self.burst
    }

    #[inline]
    fn settle(self, state: Option<State>, now: u64) -> State {
        let Some(state) = state else { return State { deficit: 0, last: now } };
        let now = now.max(state.last);
        // Saturation is exact here: a refill above the deficit fills the bucket either way.
        let refill = (now - state.last).saturating_mul(self.numerator);
        State { deficit: state.deficit.saturating_sub(refill), last: now }
    }

    fn charge(self, state: State, cost: u64) -> State {
        State { deficit: state.deficit + cost * self.denominator, ..state }
    }

    fn give_back(self, state: State, cost: u64) -> State {
        let parts = cost.saturating_mul(self.denominator);
        State { deficit: state.deficit.saturating_sub(parts), ..state }
    }

    fn counted(self, _state: State, _window: u64) -> Option<usize> {
        Some(0)
    }

    fn unit(self) -> u64 {
        self.denominator
    }

    fn used(self, state: State) -> u64 {
        state.deficit.div_ceil(self.denominator)
    }

    fn holds(self) -> u64 {
        self.max_deficit() / self.denominator
    }

    fn carry(self, old: Self, state: State, _fresh: State) -> State {
        let (whole, rest) = (state.deficit / old.denominator, state.deficit % old.denominator);
        let rest = mul_div_ceil(rest, self.denominator, old.denominator);
        let deficit = whole.saturating_mul(self.denominator).saturating_add(rest);
        State { deficit: deficit.min(self.max_deficit()), ..state }
    }

    fn remaining(self, state: State) -> u64 {
        self.parts().saturating_sub(state.deficit) / self.denominator
    }

    fn admitted_at(self, state: State, cost: u64) -> u64 {
        let missing = state.deficit - (self.parts() - cost * self.denominator);
        state.last + missing.div_ceil(self.numerator)
    }

    fn fresh_at(self, state: State) -> u64 {
        match state.deficit {
            0 => state.last,
            deficit => state.last + deficit.div_ceil(self.numerator),
        }
    }

    fn kept_until(self, state: State) -> Option<u64> {
        let is_charged = state.deficit > 0 && state.deficit <= self.parts();
        is_charged.then(|| next_stretch_ends(state.last, self.parts() / self.numerator + 1))
    }

    fn config(self) -> Fields {
        [self.numerator, self.denominator, self.burst].into()
    }

    #[inline]
    fn fields(state: State) -> Fields {
        [state.deficit, state.last].into()
    }

    fn state(self, fields: &[u64]) -> Option<State> {
        let &[deficit, last] = fields else { return None };
        (is_time(last) && deficit <= self.max_deficit()).then_some(State { deficit, last })
    }
}
