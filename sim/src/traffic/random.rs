//! Randomness from a seed: the same bits on every platform and in every version.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The streams of a seed, each independent of the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Times = 0,
    Keys = 1,
    Jitter = 2,
    Costs = 3,
    Stays = 4,
    Search = 5,
    Nodes = 6,
    Skew = 7,
}

/// One stream of a seed.
///
/// Numbers are made of its bits here, and logarithms and powers are libm's, since those of other
/// libraries or the system may differ between versions.
#[derive(Debug)]
pub(crate) struct Chance(ChaCha8Rng);

impl Chance {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream as u64);
        Chance(random)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number from 0 to `end - 1`, uniform but for one part in 2^32 / `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(end)) >> 32) as u32
    }

    /// Draws a number from `from` to `to`, both included, uniform but for one part in 2^64 / (`to` - `from`).
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        let count = u128::from(to - from) + 1;
        from + ((u128::from(self.bits()) * count) >> 64) as u64
    }

    /// Draws a number above 0 and at most 1.
    pub(super) fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Draws from an exponential distribution with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -libm::log(self.uniform())
    }

    /// Draws from a Pareto distribution with mean 1; the `tail` index is above 1.
    pub(super) fn pareto(&mut self, tail: f64) -> f64 {
        let least = (tail - 1.0) / tail;
        least * libm::pow(self.uniform(), -1.0 / tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mean of 100,000 draws, which is within 4 standard errors of the true one.
    fn mean(mut draw: impl FnMut() -> f64) -> f64 {
        (0..100_000).map(|_| draw()).sum::<f64>() / 100_000.0
    }

    #[test]
    fn distributions_have_their_means() {
        let mut chance = Chance::new(1, Stream::Times);
        assert!((mean(|| chance.uniform()) - 0.5).abs() < 0.004);
        assert!((mean(|| chance.exponential()) - 1.0).abs() < 0.013);
        // Its variance is 1 / (tail * (tail - 2)).
        assert!((mean(|| chance.pareto(3.0)) - 1.0).abs() < 0.008);
        assert!((mean(|| chance.between(3, 7) as f64) - 5.0).abs() < 0.018);
        assert!((mean(|| f64::from(chance.below(5))) - 2.0).abs() < 0.018);
    }

    #[test]
    fn a_pareto_tail_falls_as_its_power_says() {
        let mut chance = Chance::new(1, Stream::Times);
        let times: Vec<f64> = (0..100_000).map(|_| chance.pareto(1.5)).collect();
        assert!(times.iter().all(|time| *time >= 1.0 / 3.0));
        // The least is 1/3, so 4/3 is exceeded with probability 4^-1.5 = 1/8.
        let share = times.iter().filter(|time| **time > 4.0 / 3.0).count();
        assert!((12_000..13_000).contains(&share), "{share}");
    }

    #[test]
    fn streams_differ_and_are_the_same_again() {
        let bits = |seed, stream| Chance::new(seed, stream).bits();
        assert_eq!(bits(1, Stream::Keys), bits(1, Stream::Keys));
        assert_ne!(bits(1, Stream::Keys), bits(1, Stream::Costs));
        assert_ne!(bits(1, Stream::Keys), bits(2, Stream::Keys));
    }

    #[test]
    fn bounds_are_kept_at_the_ends_of_all_numbers() {
        let mut chance = Chance::new(1, Stream::Costs);
        assert_eq!(chance.between(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(chance.below(1), 0);
        chance.between(0, u64::MAX);
    }
}
