//! The bucket with continuous refill, as a token bucket and as a queue. GCRA (ITU-T I.371) is the same machine in
//! another notation (property D7); here the deficit is kept, exactly, in fractions of a token.

use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

use super::Limit;
use super::input::{Input, Refusal};
use super::machine::{Config, Kind, Machine, State, is_time, next_stretch_ends};
use super::share::Shares;
use crate::error::ConfigError;
use crate::exact::{
    MAX_COUNT, MAX_SPAN_US, config_count, config_micros, gcd, least, mul_div_ceil, mul_div_floor,
    ok,
};
use crate::span::Per;

/// A bucket of `burst` tokens that starts full and refills continuously, `amount` per `period`.
///
/// Envelope (E4): in any span of T microseconds at most `burst + floor(amount * (T - 1) / period)`
/// is admitted.
pub type TokenBucket = Bucket<false>;

/// A queue that drains continuously, `amount` per `period`, and has room for `queue` units, including those of the
/// arriving request.
///
/// It says when, not only whether. The decision on an admitted request has its turn
/// ([`Decision::turn_after`](crate::Decision::turn_after)), which comes once everything in the queue before it has
/// drained. The request must not go ahead before. Turns are in the order of admission. A request without room is
/// denied, as a [`TokenBucket`] of that burst denies it: both are one machine, and this one spreads out the requests
/// that the other one lets through at once.
///
/// A request of cost c waits for at most `(queue - c) * period / amount` (D13). Envelope (E6): in any span of T
/// microseconds, the requests whose turn it is, without the last, cost less than `amount * T / period` in all.
/// Admissions stay within E4, with `queue` as the burst.
///
/// A refund makes the queue shorter for later requests, and a penalty longer. Turns that have been given stay, so
/// after a refund E6 holds for those given from then on.
pub type LeakyBucket = Bucket<true>;

/// A [`TokenBucket`], or, if requests have turns, a [`LeakyBucket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket<const TURNS: bool> {
    amount: u64,
    pub(super) period_us: u64,
    burst: u64,
    /// The rate as a reduced fraction, in tokens per microsecond: a token is `denominator` parts,
    /// and each microsecond brings `numerator` parts.
    pub(super) numerator: u64,
    pub(super) denominator: u64,
}

impl TokenBucket {
    /// Returns a bucket that gets `amount` tokens per `period` (whole microseconds, at most
    /// [`MAX_SPAN`](crate::MAX_SPAN)) and holds at most `burst` of them.
    ///
    /// With the rate reduced to numerator / denominator tokens per microsecond, burst *
    /// denominator must stay below 2^53, and the time to fill the bucket within `MAX_SPAN`.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub const fn new(amount: u64, period: Duration, burst: u64) -> Result<Self, ConfigError> {
        Bucket::sized(amount, period, burst)
    }

    /// Parses the text after its word, which is also that of an [`IntervalBucket`](super::IntervalBucket) and a
    /// [`WarmupBucket`](super::WarmupBucket).
    pub(super) const fn parse(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        let at = input.skip_spaces();
        let amount = ok!(input.number());
        if input.word("every") {
            let interval = ok!(input.duration());
            let burst = ok!(input.optional("burst", amount));
            return input.built(at, Limit::try_interval_bucket(amount, interval, burst));
        }
        let period =
            ok!(input.per_or("/ and a period, as in 100/min, or an interval, as in 8 every 2s"));
        TokenBucket::parse_burst(input, at, amount, period)
    }

    /// Parses the text after the word `gcra`.
    pub(super) const fn parse_continuous(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        let at = input.skip_spaces();
        let (amount, period) = (ok!(input.number()), ok!(input.per()));
        TokenBucket::parse_burst(input, at, amount, period)
    }

    const fn parse_burst(
        input: &mut Input<'_>,
        at: usize,
        amount: u64,
        period: Duration,
    ) -> Result<Limit, Refusal> {
        let burst = ok!(input.optional("burst", amount));
        if input.word("warmup") {
            let warmup = ok!(input.duration());
            return input.built(at, Limit::try_warmup_bucket(amount, period, burst, warmup));
        }
        input.built(at, Limit::try_token_bucket(amount, period, burst))
    }

    /// Returns the bucket's burst.
    pub const fn burst(&self) -> u64 {
        self.burst
    }
}

impl LeakyBucket {
    /// Returns a queue of `queue` units that drains `amount` of them per `period` (whole microseconds, at most
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// With the rate reduced to numerator / denominator units per microsecond, queue * denominator
    /// must stay below 2^53, and the time to drain a full queue within `MAX_SPAN`.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub const fn new(amount: u64, period: Duration, queue: u64) -> Result<Self, ConfigError> {
        Bucket::sized(amount, period, queue)
    }

    /// Parses the text after its word.
    pub(super) const fn parse(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        let at = input.skip_spaces();
        let (amount, period) = (ok!(input.number()), ok!(input.per()));
        let queue = ok!(input.optional("queue", amount));
        input.built(at, Limit::try_leaky_bucket(amount, period, queue))
    }

    /// Returns the queue's length in units.
    pub const fn queue(&self) -> u64 {
        self.burst
    }
}

impl<const TURNS: bool> Bucket<TURNS> {
    /// The name of its size.
    const SIZE: &str = if TURNS { "queue" } else { "burst" };

    const fn sized(amount: u64, period: Duration, burst: u64) -> Result<Self, ConfigError> {
        let amount = ok!(config_count("amount", amount));
        let period_us = ok!(config_micros("period", period));
        let burst = ok!(config_count(Self::SIZE, burst));
        let divisor = gcd(amount, period_us);
        let (numerator, denominator) = (amount / divisor, period_us / divisor);
        let exact = MAX_COUNT / denominator;
        let filled_in_time = mul_div_floor(MAX_SPAN_US, numerator, denominator);
        let max = least(exact, filled_in_time);
        if burst > max {
            let bound = if exact <= filled_in_time {
                "the exact range of 2^53 for the fractions of a token at this rate"
            } else {
                "the longest time that is remembered (here, to fill the bucket, or to empty it), 2^51 us"
            };
            return Err(ConfigError::TooLarge { what: Self::SIZE, max, unit: "", bound });
        }
        Ok(Bucket { amount, period_us, burst, numerator, denominator })
    }

    /// Returns the tokens that arrive, or the units that drain, per period.
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns the period of the rate.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// Returns the bucket's refill in a microsecond, in parts.
    pub(super) fn numerator(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.numerator)
    }

    /// Returns the bucket's capacity, in parts.
    #[inline]
    pub(super) fn parts(&self) -> u64 {
        self.burst * self.denominator
    }

    /// Returns the most that can be missing: exact, and back within the longest remembered time.
    fn max_deficit(&self) -> u64 {
        MAX_SPAN_US.saturating_mul(self.numerator).min(MAX_COUNT)
    }
}

impl<const TURNS: bool> Kind for Bucket<TURNS>
where
    Self: Into<Limit>,
{
    fn config(&self) -> Config {
        [self.numerator, self.denominator, self.burst].into()
    }

    fn read(config: &[u64]) -> Option<Self> {
        let &[amount, period, burst] = config else { return None };
        let read = Bucket::sized(amount, Duration::from_micros(period), burst).ok()?;
        Some(read).filter(|bucket| bucket.numerator == amount) // a reduced fraction, as it is written
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {} {}", self.amount, Per(self.period()), Self::SIZE, self.burst)
    }

    fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        let burst = shares.part(Self::SIZE, self.burst)?;
        let (amount, period) = shares.rate(self.amount, self.period_us);
        Ok(Self::sized(amount, period, burst)?.into())
    }
}

/// Returns a deficit in parts of another size, rounded up and saturating.
pub(super) fn in_other_parts(deficit: u64, old: u64, new: u64) -> u64 {
    let rest = mul_div_ceil(deficit % old, new, old);
    (deficit / old).saturating_mul(new).saturating_add(rest)
}

/// The state: the deficit of the bucket, in parts, and the time for which it holds. For a queue, the deficit is the
/// cost that waits.
impl<const TURNS: bool> Machine for Bucket<TURNS> {
    fn capacity(&self) -> u64 {
        self.burst
    }

    #[inline]
    fn settle(&self, state: Option<State>, now: u64) -> State {
        let Some(State([deficit, last, _])) = state else { return [0, now].into() };
        let now = now.max(last);
        // Saturation is exact here: a refill above the deficit fills the bucket either way.
        let refill = (now - last).saturating_mul(self.numerator);
        [deficit.saturating_sub(refill), now].into()
    }

    #[inline]
    fn charge(&self, State([deficit, last, _]): State, cost: u64) -> State {
        [deficit + cost * self.denominator, last].into()
    }

    fn give_back(&self, State([deficit, last, _]): State, cost: u64) -> State {
        [deficit.saturating_sub(cost.saturating_mul(self.denominator)), last].into()
    }

    fn counted(&self, _state: State, _window: u64) -> Option<usize> {
        Some(0)
    }

    fn unit(&self) -> u64 {
        self.denominator
    }

    fn used(&self, State([deficit, ..]): State) -> u64 {
        deficit.div_ceil(self.denominator)
    }

    fn holds(&self) -> u64 {
        self.max_deficit() / self.denominator
    }

    fn carry(&self, old: &Config, State([deficit, last, _]): State, _fresh: State) -> State {
        let deficit = in_other_parts(deficit, old[1], self.denominator);
        [deficit.min(self.max_deficit()), last].into()
    }

    fn remaining(&self, State([deficit, ..]): State) -> u64 {
        self.parts().saturating_sub(deficit) / self.denominator
    }

    /// Compares in parts of a token, which takes no division. A cost of zero fits even where more than the capacity
    /// is missing, as after a penalty.
    #[inline]
    fn fits(&self, State([deficit, ..]): State, cost: u64) -> bool {
        cost <= self.burst && cost * self.denominator <= self.parts().saturating_sub(deficit)
    }

    fn admitted_at(&self, State([deficit, last, _]): State, cost: u64) -> u64 {
        let missing = deficit - (self.parts() - cost * self.denominator);
        last + missing.div_ceil(self.numerator)
    }

    fn fresh_at(&self, state: State) -> u64 {
        match state {
            State([0, last, _]) => last,
            State([deficit, last, _]) => last + deficit.div_ceil(self.numerator),
        }
    }

    /// Returns whether nothing is missing, which takes no division, and the time is not before the latest.
    #[inline]
    fn is_fresh(&self, state: State, now: u64) -> bool {
        let State([deficit, last, _]) = self.settle(Some(state), now);
        deficit == 0 && last <= now
    }

    fn kept_until(&self, State([deficit, last, _]): State) -> Option<u64> {
        let is_charged = deficit > 0 && deficit <= self.parts();
        is_charged.then(|| next_stretch_ends(last, self.parts() / self.numerator + 1))
    }

    fn turn_at(&self, state: State) -> Option<u64> {
        TURNS.then(|| self.fresh_at(state))
    }

    fn is_sound(&self, State([deficit, last, _]): State) -> bool {
        is_time(last) && deficit <= self.max_deficit()
    }
}
