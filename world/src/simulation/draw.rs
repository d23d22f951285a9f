//! Chance, drawn from a generator whose stream is specified: a seed gives the same world
//! everywhere.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of one seed.
#[derive(Clone, Debug)]
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// Creates a stream of a seed. Streams are independent: draws from one leave the others
    /// unchanged.
    pub(super) fn new(seed: u64, stream: u64) -> Draw {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Draw(rng)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number from `least` to `most`, both included.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        let count = u128::from(most.max(least) - least) + 1;
        least + ((u128::from(self.bits()) * count) >> 64) as u64 // below `count`
    }

    /// Draws a number from `-most` to `most`.
    pub(super) fn either_way(&mut self, most: u64) -> i64 {
        let most = most as i64; // spans of a scenario, far below 2^63
        self.between(0, 2 * most as u64) as i64 - most
    }

    /// Returns `true` in `permille` of a thousand cases.
    pub(super) fn chance(&mut self, permille: u32) -> bool {
        permille > 0 && self.between(0, 999) < u64::from(permille)
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.between(0, all.len() as u64 - 1) as usize]
    }
}
