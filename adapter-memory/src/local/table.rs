//! The sharded table of a keyed limiter.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use lockage_core::{Meter, MeterState, Prior, Timestamp};

use crate::shards::{self, Full, Rules, Table};

/// A state for each key that has used anything.
pub(super) type Shards<K, M> = shards::Shards<Meters<M>, Entry<K, M>>;

pub(super) struct Meters<M> {
    meter: M,
    hasher: RandomState,
}

pub(super) struct Entry<K, M: Meter> {
    key: K,
    state: MeterState<M>,
}

impl<M> Meters<M> {
    pub(super) fn new(meter: M) -> Self {
        Meters { meter, hasher: RandomState::default() }
    }
}

impl<K: Hash, M: Meter> Rules<Entry<K, M>> for Meters<M> {
    const CALLS_PER_VISIT: u32 = 256;
    const BUCKETS_PER_VISIT: usize = 32;

    #[inline]
    fn hash(&self, entry: &Entry<K, M>) -> u64 {
        self.hasher.hash_one(&entry.key)
    }

    #[inline]
    fn is_over(&self, entry: &mut Entry<K, M>, then: Timestamp) -> bool {
        self.meter.is_over(&entry.state, then)
    }

    fn evicted_at(&self, entry: &Entry<K, M>) -> Option<Timestamp> {
        Some(self.meter.over_at(&entry.state))
    }
}

impl<K: Hash + Eq, M: Meter> Shards<K, M> {
    #[inline]
    pub(super) fn acquire<Q>(
        &self,
        key: &Q,
        cost: u64,
        now: Timestamp,
    ) -> Result<(Prior, bool), Full>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.rules.hasher.hash_one(key);
        let mut table = self.lock(hash);
        let admitted = match table.entries.find_mut(hash, |entry| entry.key.borrow() == key) {
            Some(entry) => Ok(self.rules.meter.admit(&mut entry.state, cost, now)),
            None => self.acquire_first(&mut table, key, cost, now),
        };
        self.unlock(table, now);
        admitted
    }

    /// Admits or denies the first request of a key.
    #[cold]
    fn acquire_first<Q>(
        &self,
        table: &mut Table<Entry<K, M>>,
        key: &Q,
        cost: u64,
        now: Timestamp,
    ) -> Result<(Prior, bool), Full>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let meter = self.rules.meter;
        let mut state = MeterState::fresh(meter, now);
        let admitted = meter.admit(&mut state, cost, now);
        if admitted.1 {
            self.add(table, Entry { key: key.to_owned(), state }, now)?;
        }
        Ok(admitted)
    }

    pub(super) fn prior<Q>(&self, key: &Q, now: Timestamp) -> Prior
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (meter, hash) = (self.rules.meter, self.rules.hasher.hash_one(key));
        let table = self.lock(hash);
        let known = table.entries.find(hash, |entry| entry.key.borrow() == key);
        let state = known.map_or(MeterState::fresh(meter, now), |entry| entry.state);
        meter.prior(&state, now)
    }

    pub(super) fn reset<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.rules.hasher.hash_one(key);
        let mut table = self.lock(hash);
        match table.entries.find_entry(hash, |entry| entry.key.borrow() == key) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }
}
