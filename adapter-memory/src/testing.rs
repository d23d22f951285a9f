//! The test kit, behind the feature `test-util`: all of [`lockage::testing`], and a store in tokio's time.

pub use lockage::testing::*;

use crate::MemoryStore;

/// Creates an empty store that follows tokio's time, which a test can pause: see [`TokioClock`].
pub fn paused_memory() -> MemoryStore<TokioClock> {
    MemoryStore::with_clock(TokioClock::new())
}
