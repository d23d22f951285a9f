//! The token bucket with a warm-up: after a pause its refill is slow at first. Guava's `SmoothWarmingUp` has the same
//! aim, by a rate that climbs evenly; here it climbs in steps, which integers count exactly.

use core::fmt::{self, Display as _};
use core::time::Duration;

use super::input::{Input, Refusal};
use super::machine::{Config, Kind, Machine, State, is_time, next_stretch_ends};
use super::share::Shares;
use super::token_bucket::in_other_parts;
use super::{Limit, TokenBucket};
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, MAX_SPAN_US, half_span, least, mul_div_floor, ok};
use crate::span::Span;

/// The number of steps of a warm-up.
const STEPS: u64 = 10;

/// A [`TokenBucket`] whose refill is slow after a pause, for a service that needs time to fill its caches or to
/// start more instances.
///
/// A key that was never used is cold. In the k-th tenth of its warm-up (k from 1 to 10) the bucket refills at k tenths of
/// its rate, so that the full rate comes after nine tenths. The warm-up goes on while tokens are missing, and goes back as
/// fast while the bucket is full: after a pause as long as the warm-up, the key is cold again. The bucket starts full, so a
/// small burst makes a gentle start.
///
/// It admits nothing that a [`TokenBucket`] of the same rate and burst denies, so envelope E4 holds. From a cold start, at
/// most `burst + floor(amount * w / period)` is admitted within T microseconds (E10), where w is the sum of the k tenths
/// over T - 1 microseconds.
///
/// A refund or the settlement of a reservation gives back tokens, and leaves the warm-up as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarmupBucket {
    bucket: TokenBucket,
    warmup_us: u64,
}

impl WarmupBucket {
    /// Creates a bucket that gets `amount` tokens per `period` once it is warm, and holds at most `burst` of them.
    ///
    /// Beside the bounds of [`TokenBucket::new`], `warmup` is at most 2^50 us, the amount at most 2^53 / 10, and the
    /// bounds of the burst are a tenth of those, and half of that for the time to fill the bucket.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub const fn new(
        amount: u64,
        period: Duration,
        burst: u64,
        warmup: Duration,
    ) -> Result<Self, ConfigError> {
        let bucket = ok!(TokenBucket::new(amount, period, burst));
        let warmup_us = ok!(half_span("warmup", warmup));
        let [numerator, unit] = [bucket.numerator, bucket.denominator * STEPS];
        let max = match amount > MAX_COUNT / STEPS {
            true => 0,
            false => least(MAX_COUNT / unit, mul_div_floor(MAX_SPAN_US / 2, numerator, unit)),
        };
        if burst > max {
            return Err(ConfigError::TooLarge { what: "burst", max, unit: "", bound: BOUND });
        }
        Ok(WarmupBucket { bucket, warmup_us })
    }

    /// Parses the text after its word, which it shares with the token bucket, whose parser distinguishes the two.
    pub(super) const fn parse(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        TokenBucket::parse(input)
    }

    /// Returns the tokens that arrive per period once the bucket is warm.
    pub const fn amount(&self) -> u64 {
        self.bucket.amount()
    }

    /// Returns the period of the rate.
    pub const fn period(&self) -> Duration {
        self.bucket.period()
    }

    /// Returns the bucket's burst.
    pub const fn burst(&self) -> u64 {
        self.bucket.burst()
    }

    /// Returns the time from a cold start to the end of the warm-up.
    pub const fn warmup(&self) -> Duration {
        Duration::from_micros(self.warmup_us)
    }

    /// Returns the length of a step in microseconds.
    fn step(&self) -> u64 {
        self.warmup_us.div_ceil(STEPS)
    }

    fn parts(&self) -> u64 {
        self.burst() * self.unit()
    }

    /// Returns the most that can be missing: exact, and back within half of the longest remembered time.
    fn max_deficit(&self) -> u64 {
        (MAX_SPAN_US / 2).saturating_mul(self.bucket.numerator).min(MAX_COUNT)
    }

    /// Lets these parts come back for at most `time` microseconds, and returns those that are missing then, the warmth, and
    /// the time that is left.
    fn refill(&self, mut missing: u64, mut warmth: u64, mut time: u64) -> (u64, u64, u64) {
        let (step, last) = (self.step(), STEPS - 1);
        while missing > 0 && time > 0 {
            let number = (warmth / step).min(last);
            let speed = self.bucket.numerator * (number + 1);
            let until_next = if number < last { (number + 1) * step - warmth } else { u64::MAX };
            let spent = missing.div_ceil(speed).min(until_next).min(time);
            missing = missing.saturating_sub(spent.saturating_mul(speed));
            warmth = (warmth + spent).min(last * step);
            time -= spent;
        }
        (missing, warmth, time)
    }

    /// Returns when these parts are back, and the warmth then.
    fn back_at(&self, missing: u64, State([_, last, warmth]): State) -> (u64, u64) {
        let (_, warmth, left) = self.refill(missing, warmth, MAX_COUNT);
        (last + (MAX_COUNT - left), warmth)
    }
}

const BOUND: &str = "2^53 tenths of its parts, or 2^50 us to fill it";

impl Kind for WarmupBucket {
    fn config(&self) -> Config {
        [self.bucket.numerator, self.unit(), self.burst(), self.step()].into()
    }

    fn read(config: &[u64]) -> Option<Self> {
        let &[amount, unit, burst, step] = config else { return None };
        let period = Duration::from_micros(unit / STEPS);
        // The last step may end after the longest warm-up.
        let warmup = Duration::from_micros(step.checked_mul(STEPS)?.min(MAX_SPAN_US / 2));
        let read = WarmupBucket::new(amount, period, burst, warmup).ok()?;
        // A reduced fraction, as it is written.
        Some(read).filter(|it| *it.config() == *config)
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bucket.print(f)?;
        f.write_str(" warmup ")?;
        Span(self.warmup()).fmt(f)
    }

    fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        let burst = shares.part("burst", self.burst())?;
        let (amount, period) = shares.rate(self.amount(), self.bucket.period_us);
        Ok(WarmupBucket::new(amount, period, burst, self.warmup())?.into())
    }
}

/// The state: the parts that are missing from a full bucket, the time for which it holds, and the warmth, in microseconds
/// from 0 for a cold bucket to nine steps for a warm one.
impl Machine for WarmupBucket {
    fn capacity(&self) -> u64 {
        self.burst()
    }

    fn settle(&self, state: Option<State>, now: u64) -> State {
        let Some(State([deficit, last, warmth])) = state else { return [0, now, 0].into() };
        let now = now.max(last);
        let (deficit, warmth, idle) = self.refill(deficit, warmth, now - last);
        [deficit, now, warmth.saturating_sub(idle)].into()
    }

    fn charge(&self, state: State, cost: u64) -> State {
        state.with(0, state.0[0] + cost * self.unit())
    }

    fn give_back(&self, state: State, cost: u64) -> State {
        state.with(0, state.0[0].saturating_sub(cost.saturating_mul(self.unit())))
    }

    fn counted(&self, _state: State, _window: u64) -> Option<usize> {
        Some(0)
    }

    fn unit(&self) -> u64 {
        self.bucket.denominator * STEPS
    }

    fn used(&self, State([deficit, ..]): State) -> u64 {
        deficit.div_ceil(self.unit())
    }

    fn holds(&self) -> u64 {
        self.max_deficit() / self.unit()
    }

    /// The warmth stays. Once tokens are missing, it is at most this limit's.
    fn carry(&self, old: &Config, state: State, _fresh: State) -> State {
        let deficit = in_other_parts(state.0[0], old[1], self.unit());
        state.with(0, deficit.min(self.max_deficit()))
    }

    fn remaining(&self, State([deficit, ..]): State) -> u64 {
        self.parts().saturating_sub(deficit) / self.unit()
    }

    fn admitted_at(&self, state: State, cost: u64) -> u64 {
        let missing = state.0[0] - (self.parts() - cost * self.unit());
        self.back_at(missing, state).0
    }

    fn fresh_at(&self, state: State) -> u64 {
        let (full_at, warmth) = self.back_at(state.0[0], state);
        full_at + warmth
    }

    fn kept_until(&self, State([deficit, last, _]): State) -> Option<u64> {
        let is_charged = deficit > 0 && deficit <= self.parts();
        let longest = self.parts() / self.bucket.numerator + 1 + STEPS * self.step();
        is_charged.then(|| next_stretch_ends(last, longest))
    }

    fn is_sound(&self, State([deficit, last, warmth]): State) -> bool {
        is_time(last) && deficit <= self.max_deficit() && warmth <= MAX_SPAN_US / 2
    }
}
