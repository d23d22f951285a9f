//! Limiters of this process only: no store, no keys as text, no futures.

mod keyed;
mod lone;
#[cfg(all(test, loom))]
mod loom_tests;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

use lockage_core::{CostError, Limit};

pub use keyed::KeyedLimiter;
pub use lone::LocalLimiter;

/// A sliding log, a calendar window or a composite was refused: its state is more than a few numbers, or its calls
/// carry more than a cost.
///
/// A [`Limiter`](lockage::Limiter) on a [`MemoryStore`](crate::MemoryStore) takes every limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` takes more than a few numbers: use a `Limiter` on a `MemoryStore` for it")]
pub struct UnsupportedLimit(Box<Limit>);

impl UnsupportedLimit {
    /// The limit.
    pub fn limit(&self) -> Limit {
        *self.0
    }
}

impl From<Limit> for UnsupportedLimit {
    fn from(limit: Limit) -> Self {
        UnsupportedLimit(Box::new(limit))
    }
}

/// A request of a [`KeyedLimiter`] was refused, and nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// The cost is out of range.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// The key is new, and there is no room for it: see [`KeyedLimiter::with_max_keys`].
    #[error("the limiter has as many keys as it may have, which are {max_keys}")]
    Full {
        /// The most keys in all.
        max_keys: usize,
    },
}

#[inline]
fn check_cost(cost: u64) -> Result<(), CostError> {
    if cost == 0 { Err(CostError::Zero) } else { Ok(()) }
}
