//! The sharded table of a keyed limiter.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use lockage_core::{Meter, MeterState, Prior, Timestamp};

use crate::sync::{self, Mutex};

/// How many buckets a call that adds a key examines, so that as many keys go as come.
const BUCKETS_PER_KEY: usize = 8;
/// After this many calls to a shard, the calling thread also visits the next shard, so that keys expire
/// in unused shards, and examines this many buckets of it.
const CALLS_PER_VISIT: u32 = 256;
const BUCKETS_PER_VISIT: usize = 32;

/// A state for each key that has used anything.
pub(super) struct Shards<K, M: Meter> {
    meter: M,
    shards: Box<[Shard<K, M>]>,
    hasher: RandomState,
    next_visit: AtomicUsize,
}

/// In a cache line of its own, against false sharing.
#[repr(align(64))]
struct Shard<K, M: Meter>(Mutex<Table<K, M>>);

struct Table<K, M: Meter> {
    entries: HashTable<Entry<K, M>>,
    /// The bucket to examine next.
    cursor: usize,
    calls: u32,
}

struct Entry<K, M: Meter> {
    key: K,
    state: MeterState<M>,
}

impl<K: Hash + Eq, M: Meter> Shards<K, M> {
    /// `count` is a power of two, at most 2^16.
    pub(super) fn new(meter: M, count: usize) -> Self {
        let empty = || Table { entries: HashTable::new(), cursor: 0, calls: 0 };
        Shards {
            meter,
            shards: (0..count).map(|_| Shard(Mutex::new(empty()))).collect(),
            hasher: RandomState::default(),
            next_visit: AtomicUsize::new(0),
        }
    }

    #[inline]
    pub(super) fn acquire<Q>(&self, key: &Q, cost: u64, now: Timestamp) -> (Prior, bool)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let mut table = sync::lock(self.shard(hash));
        let admitted = match table.entries.find_mut(hash, |entry| entry.key.borrow() == key) {
            Some(entry) => self.meter.admit(&mut entry.state, cost, now),
            None => self.acquire_first(&mut table, hash, key, cost, now),
        };
        let is_visiting = table.count_call();
        drop(table);
        if is_visiting {
            self.visit(now);
        }
        admitted
    }

    /// Admits or denies the first request of a key.
    #[cold]
    fn acquire_first<Q>(
        &self,
        table: &mut Table<K, M>,
        hash: u64,
        key: &Q,
        cost: u64,
        now: Timestamp,
    ) -> (Prior, bool)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut state = MeterState::fresh(self.meter, now);
        let admitted = self.meter.admit(&mut state, cost, now);
        if admitted.1 {
            self.drop_over(table, BUCKETS_PER_KEY, now);
            let entry = Entry { key: key.to_owned(), state };
            table.entries.insert_unique(hash, entry, |entry| self.hasher.hash_one(&entry.key));
        }
        admitted
    }

    pub(super) fn prior<Q>(&self, key: &Q, now: Timestamp) -> Prior
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let table = sync::lock(self.shard(hash));
        let known = table.entries.find(hash, |entry| entry.key.borrow() == key);
        let state = known.map_or(MeterState::fresh(self.meter, now), |entry| entry.state);
        self.meter.prior(&state, now)
    }

    pub(super) fn reset<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let mut table = sync::lock(self.shard(hash));
        match table.entries.find_entry(hash, |entry| entry.key.borrow() == key) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Table<K, M>> {
        // Tables use the highest and the lowest bits of a hash.
        &self.shards[(hash >> 40) as usize & (self.shards.len() - 1)].0
    }

    /// Visits the shard whose turn it is, unless it is locked.
    #[cold]
    fn visit(&self, now: Timestamp) {
        let visit = self.next_visit.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
        if let Some(mut table) = sync::try_lock(&self.shards[visit].0) {
            self.drop_over(&mut table, BUCKETS_PER_VISIT, now);
        }
    }

    /// Examines up to `most` buckets, and drops keys that were as if never used a moment ago.
    fn drop_over(&self, table: &mut Table<K, M>, most: usize, now: Timestamp) {
        let then = crate::grace_before(now);
        let buckets = table.entries.num_buckets();
        for _ in 0..most.min(buckets) {
            if let Ok(entry) = table.entries.get_bucket_entry(table.cursor)
                && self.meter.is_over(&entry.get().state, then)
            {
                entry.remove();
            }
            table.cursor += 1;
            if table.cursor >= buckets {
                table.cursor = 0;
                self.shrink(table);
                return;
            }
        }
    }

    /// Releases memory once most of it is unused.
    fn shrink(&self, table: &mut Table<K, M>) {
        let used = table.entries.len();
        if used < table.entries.capacity() / 8 {
            table.entries.shrink_to(2 * used, |entry| self.hasher.hash_one(&entry.key));
        }
    }
}

impl<K, M: Meter> Table<K, M> {
    /// Counts a call, and returns whether to visit another shard.
    fn count_call(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(CALLS_PER_VISIT)
    }
}

/// Operations without a key.
pub(super) trait Keep: Send + Sync {
    fn len(&self) -> usize;
    fn purge(&self, now: Timestamp);
}

impl<K: Hash + Eq + Send, M: Meter> Keep for Shards<K, M> {
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| sync::lock(&shard.0).entries.len()).sum()
    }

    fn purge(&self, now: Timestamp) {
        for shard in &self.shards {
            let mut table = sync::lock(&shard.0);
            table.cursor = 0;
            self.drop_over(&mut table, usize::MAX, now);
        }
    }
}
