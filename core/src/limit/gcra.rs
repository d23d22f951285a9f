//! The token bucket in the notation of GCRA (ITU-T I.371): one number, which fits into one atomic word. Both notations
//! are one machine (property D7).

use core::num::NonZeroU64;

use super::machine::Machine;
use super::meter::Prior;
use super::{Bucket, Limit};
use crate::time::Timestamp;

/// A [`TokenBucket`](crate::TokenBucket) or a [`LeakyBucket`](crate::LeakyBucket) whose state is its
/// *theoretical arrival time*: when it is full, or empty, again. A state of zero is a bucket that was never used.
///
/// The rate is a reduced fraction of `numerator` tokens in `denominator` microseconds, and the state counts
/// `numerator` to a microsecond, so that it is exact.
///
/// It does not store the time of its last charge. The caller passes a time that never runs back: that of the latest
/// admission, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    numerator: NonZeroU64,
    denominator: u64,
    burst: NonZeroU64,
    /// The bucket's burst, in the units of the state.
    parts: u64,
}

impl Gcra {
    /// The largest numerator with which all times fit into 64 bits: times are below 2^53.
    const MAX_NUMERATOR: u64 = 1 << 11;

    /// Returns the bucket of this limit. `None` for limits of other kinds, and for a rate whose reduced fraction has a
    /// numerator above 2048: 1500/s is 3 in 2000 microseconds and fits, 9973/s does not.
    pub fn of(limit: &Limit) -> Option<Self> {
        match limit {
            Limit::TokenBucket(bucket) => Gcra::of_bucket(bucket),
            Limit::LeakyBucket(bucket) => Gcra::of_bucket(bucket),
            _ => None,
        }
    }

    fn of_bucket<const TURNS: bool>(bucket: &Bucket<TURNS>) -> Option<Self> {
        let numerator = bucket.numerator().filter(|n| n.get() <= Self::MAX_NUMERATOR)?;
        let (denominator, parts) = (bucket.unit(), bucket.parts());
        Some(Gcra { numerator, denominator, burst: NonZeroU64::new(bucket.capacity())?, parts })
    }

    /// Returns the state after a request of `cost` at `now`; `None` if it is not admitted.
    #[inline]
    pub fn admit(self, state: u64, cost: u64, now: Timestamp) -> Option<u64> {
        if cost > self.burst.get() {
            return None;
        }
        let price = cost * self.denominator;
        let now = self.in_units(now.as_micros());
        let from = state.max(now);
        let (missing, room) = (from - now, self.parts - price);
        let fits = missing <= room
            || missing > self.parts && from - self.in_units(self.earliest(state)) <= room;
        fits.then(|| from + price)
    }

    /// Returns the state as a [`Meter`](crate::Meter) has it.
    #[inline]
    pub fn prior(self, state: u64, now: Timestamp) -> Prior {
        let now = match now.as_micros() {
            now if state.saturating_sub(self.in_units(now)) > self.parts => self.earliest(state),
            now => now,
        };
        Prior([state.saturating_sub(self.in_units(now)), now].into())
    }

    /// Returns the earliest time at which this state is possible: a bucket never misses more than it holds. A caller
    /// with an earlier time has missed that others were later.
    #[cold]
    fn earliest(self, state: u64) -> u64 {
        state.saturating_sub(self.parts).div_ceil(self.numerator.get())
    }

    /// Returns a time in the units of the state: below 2^64, as times are below 2^53.
    #[inline]
    fn in_units(self, micros: u64) -> u64 {
        micros * self.numerator.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_a_leaky_bucket_is_a_token_bucket() {
        let of = |limit: &str| Gcra::of(&limit.parse().unwrap());
        let leaky = of("leaky-bucket 7 per 2us queue 10");
        assert_eq!(leaky, of("token-bucket 7 per 2us burst 10"));
        assert!(leaky.is_some());
        assert_eq!(of("fixed-window 7 per 2us"), None);
    }

    /// D10: a caller that comes with a time at which there cannot be this state gets a verdict that its numbers agree with.
    #[test]
    fn d10_a_time_that_is_too_early_counts_as_the_earliest_there_can_be() {
        let limit: Limit = "token-bucket 7 per 2us burst 10".parse().unwrap();
        let gcra = Gcra::of(&limit).unwrap();
        let at = |micros| Timestamp::from_micros(micros).unwrap();
        for charged in 1..=10 {
            let state = gcra.admit(0, charged, at(9)).unwrap();
            for (now, cost) in (0..12).flat_map(|now| (1..=10).map(move |cost| (now, cost))) {
                let peeked = gcra.prior(state, at(now)).peek(&limit, cost, at(now));
                let admitted = gcra.admit(state, cost, at(now)).is_some();
                assert_eq!(admitted, peeked.is_allowed(), "{charged}, {cost} at {now}");
                // Two parts to a token, seven to a microsecond: no more than 20 are ever missing.
                let time = (now..).find(|time| state <= 20 + 7 * time).unwrap();
                let missing = state.saturating_sub(7 * time);
                assert_eq!(admitted, missing + 2 * cost <= 20, "{charged}, {cost} at {now}");
            }
        }
    }
}
