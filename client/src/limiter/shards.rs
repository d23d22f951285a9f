//! The memory of many keys, behind several locks.

use std::hash::BuildHasher;
use std::num::NonZeroUsize;

use foldhash::quality::RandomState;
use lockage_core::ConfigError;
use lru::LruCache;

use crate::key::Key;
use crate::sync::{Mutex, MutexGuard, lock};

/// The keys that share a lock, if there are that many.
const KEYS_PER_SHARD: usize = 1024;
const MAX_SHARDS: usize = 64;

/// The keys that were used last.
pub(super) type Recent<V> = LruCache<Key, V, RandomState>;

/// Returns a cache of at most `max_keys` keys.
pub(super) fn recent<V>(max_keys: NonZeroUsize) -> Recent<V> {
    // A cache with an initial capacity would allocate all its memory at once.
    let mut keys = LruCache::unbounded_with_hasher(RandomState::default());
    keys.resize(max_keys);
    keys
}

/// Shards, each of which has some of the keys.
pub(super) struct Shards<T> {
    shards: Box<[Mutex<T>]>,
    hasher: RandomState,
}

impl<T> Shards<T> {
    /// Creates shards for `max_keys` keys in all; `make` gets the keys of one shard.
    pub(super) fn new(
        max_keys: usize,
        what: &'static str,
        make: impl Fn(NonZeroUsize) -> T,
    ) -> Result<Self, ConfigError> {
        let count = max_keys.div_ceil(KEYS_PER_SHARD).clamp(1, MAX_SHARDS);
        let max_keys = NonZeroUsize::new(max_keys / count).ok_or(ConfigError::Zero { what })?;
        let shards = (0..count).map(|_| Mutex::new(make(max_keys))).collect();
        Ok(Shards { shards, hasher: RandomState::default() })
    }

    /// Returns the shard of `key`.
    pub(super) fn of(&self, key: &Key) -> MutexGuard<'_, T> {
        let index = self.hasher.hash_one(key) as usize % self.shards.len();
        lock(&self.shards[index])
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Mutex<T>> {
        self.shards.iter()
    }
}
