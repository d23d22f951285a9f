//! Entries in sharded hash tables, from which calls drop expired ones, a few buckets at a time.
//!
//! Shards grow one by one, so that no call waits for all entries to move.

use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashTable;
use lockage_core::Timestamp;

use crate::sync::{self, Mutex, MutexGuard};

/// The number of shards: with five million keys, one grows by 20,000 at most.
pub(crate) const COUNT: usize = 256;

/// The number of buckets that a call that adds a key examines, so that as many keys go as come.
const BUCKETS_PER_KEY: usize = 8;

/// The number of entries among which one to drop is chosen when a shard is full, and the most buckets to examine for
/// these.
const CANDIDATES: usize = 8;
const BUCKETS_PER_EVICTION: usize = 256;

/// The least number of entries of a shard that has a bound: with fewer, some shards would be full long before others.
const LEAST_OF_SHARD: usize = 1024;

/// The treatment of a new key when there are as many keys as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// A new key takes the place of another: of eight, the one that would be forgotten first, whose use counts least.
    /// If that key comes back, it is as if never used. So an eviction admits at most what its key had used once more,
    /// which is never more than the limit's capacity (E1 to E5 hold between the evictions of a key).
    ///
    /// Only the use of limiters is dropped. Locks, semaphores, latches, fenced values, blocked keys, stored limits and
    /// open reservations stay; a new key that finds nothing but these is refused.
    Evict,
    /// A new key is refused with an error, and nothing is changed. Known keys are served, and keys that are over make
    /// room.
    Refuse,
}

/// The bound of each shard.
#[derive(Clone, Copy)]
struct Bound {
    entries: usize,
    when_full: WhenFull,
}

/// There is no room for a new key.
#[derive(Debug)]
pub(crate) struct Full;

/// The properties of entries that the tables need.
pub(crate) trait Rules<E> {
    /// After this many calls to a shard, the calling thread also visits another shard, so that keys expire
    /// in unused shards, and examines this many buckets of it.
    const CALLS_PER_VISIT: u32;
    const BUCKETS_PER_VISIT: usize;

    fn hash(&self, entry: &E) -> u64;

    /// Returns whether an entry had expired by `then`.
    fn is_over(&self, entry: &mut E, then: Timestamp) -> bool;

    /// Returns when an entry expires; `None` if it is not dropped before that.
    fn evicted_at(&self, entry: &E) -> Option<Timestamp>;
}

pub(crate) struct Shards<R, E> {
    pub(crate) rules: R,
    shards: Box<[Shard<E>]>,
    next_visit: AtomicUsize,
    bound: Option<Bound>,
    evictions: AtomicUsize,
}

/// In a cache line of its own, against false sharing.
#[repr(align(64))]
struct Shard<E>(Mutex<Table<E>>);

pub(crate) struct Table<E> {
    pub(crate) entries: HashTable<E>,
    /// The bucket to examine next.
    cursor: usize,
    calls: u32,
}

impl<R: Rules<E>, E> Shards<R, E> {
    /// `count` is a power of two, at most 2^16.
    pub(crate) fn new(rules: R, count: usize) -> Self {
        let empty = || Table { entries: HashTable::new(), cursor: 0, calls: 0 };
        let shards = (0..count).map(|_| Shard(Mutex::new(empty()))).collect();
        let (next_visit, evictions) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Shards { rules, shards, next_visit, bound: None, evictions }
    }

    /// Returns shards of at most `keys` (at least 1) entries in all.
    pub(crate) fn bounded(rules: R, keys: usize, when_full: WhenFull) -> Self {
        let count = (keys / LEAST_OF_SHARD).clamp(1, COUNT);
        // Rounded down to a power of two.
        let count = 1 << count.ilog2();
        let bound = Some(Bound { entries: keys / count, when_full });
        Shards { bound, ..Shards::new(rules, count) }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn count(&self) -> usize {
        self.shards.len()
    }

    /// Locks the shard of a key's hash.
    #[inline]
    pub(crate) fn lock(&self, hash: u64) -> MutexGuard<'_, Table<E>> {
        self.lock_shard(self.shard_of(hash))
    }

    /// Returns the number of the shard of a key's hash.
    #[inline]
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        // Tables use the lowest bits of a hash, and the highest of all or of the lower half.
        (hash >> 40) as usize & (self.shards.len() - 1)
    }

    #[inline]
    pub(crate) fn lock_shard(&self, shard: usize) -> MutexGuard<'_, Table<E>> {
        sync::lock(&self.shards[shard].0)
    }

    /// Adds an entry whose key has none.
    pub(crate) fn add(&self, table: &mut Table<E>, entry: E, now: Timestamp) -> Result<(), Full> {
        self.make_room(table, 1, now)?;
        self.put(table, entry);
        Ok(())
    }

    /// Drops what has expired, of a few entries, and, if `added` more are too many, others.
    pub(crate) fn make_room(
        &self,
        table: &mut Table<E>,
        added: usize,
        now: Timestamp,
    ) -> Result<(), Full> {
        self.drop_over(table, BUCKETS_PER_KEY, now);
        let Some(bound) = self.bound else { return Ok(()) };
        while table.entries.len() + added > bound.entries {
            if bound.when_full == WhenFull::Refuse || !self.evict(table) {
                return Err(Full);
            }
        }
        Ok(())
    }

    /// Drops, of a few entries, the one that expires first. Returns whether there was any that may be dropped.
    #[cold]
    fn evict(&self, table: &mut Table<E>) -> bool {
        let buckets = table.entries.num_buckets();
        let (mut first, mut seen) = (None, 0);
        for _ in 0..BUCKETS_PER_EVICTION.min(buckets) {
            let at =
                table.entries.get_bucket(table.cursor).and_then(|it| self.rules.evicted_at(it));
            if let Some(at) = at {
                seen += 1;
                if first.is_none_or(|(earliest, _)| at < earliest) {
                    first = Some((at, table.cursor));
                }
            }
            table.cursor = (table.cursor + 1) % buckets;
            if seen == CANDIDATES {
                break;
            }
        }
        let entry = first.and_then(|(_, bucket)| table.entries.get_bucket_entry(bucket).ok());
        let is_dropped = entry.map(|entry| entry.remove()).is_some();
        self.evictions.fetch_add(usize::from(is_dropped), Ordering::Relaxed);
        is_dropped
    }

    /// Puts in an entry whose key has none, and for which there is room.
    pub(crate) fn put(&self, table: &mut Table<E>, entry: E) {
        let hash = self.rules.hash(&entry);
        table.entries.insert_unique(hash, entry, |entry| self.rules.hash(entry));
    }

    /// Ends a call to a shard.
    #[inline]
    pub(crate) fn unlock(&self, mut table: MutexGuard<'_, Table<E>>, now: Timestamp) {
        table.calls = table.calls.wrapping_add(1);
        let is_visiting = table.calls.is_multiple_of(R::CALLS_PER_VISIT);
        drop(table);
        if is_visiting {
            self.visit(now);
        }
    }

    /// Visits the shard whose turn it is, unless it is locked.
    #[cold]
    fn visit(&self, now: Timestamp) {
        let visit = self.next_visit.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
        if let Some(mut table) = sync::try_lock(&self.shards[visit].0) {
            self.drop_over(&mut table, R::BUCKETS_PER_VISIT, now);
        }
    }

    /// Examines up to `most` buckets, and drops keys that expired a moment ago.
    fn drop_over(&self, table: &mut Table<E>, most: usize, now: Timestamp) {
        let then = crate::grace_before(now);
        let buckets = table.entries.num_buckets();
        let mut is_through = false;
        for _ in 0..most.min(buckets) {
            if let Ok(mut entry) = table.entries.get_bucket_entry(table.cursor)
                && self.rules.is_over(entry.get_mut(), then)
            {
                entry.remove();
            }
            table.cursor += 1;
            if table.cursor >= buckets {
                table.cursor = 0;
                is_through = true;
            }
        }
        if is_through {
            self.shrink(table);
        }
    }

    /// Releases memory once most of it is unused.
    fn shrink(&self, table: &mut Table<E>) {
        let used = table.entries.len();
        if used < table.entries.capacity() / 8 {
            table.entries.shrink_to(2 * used, |entry| self.rules.hash(entry));
            table.cursor = 0;
        }
    }
}

/// Operations without a key.
pub(crate) trait Keep: Send + Sync {
    fn len(&self) -> usize;

    /// Returns how many entries were dropped before they had expired.
    fn evictions(&self) -> usize;

    /// Drops all entries that expired a moment ago.
    fn purge(&self, now: Timestamp);
}

impl<R: Rules<E> + Send + Sync, E: Send> Keep for Shards<R, E> {
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| sync::lock(&shard.0).entries.len()).sum()
    }

    fn evictions(&self) -> usize {
        self.evictions.load(Ordering::Relaxed)
    }

    fn purge(&self, now: Timestamp) {
        for shard in &self.shards {
            let mut table = sync::lock(&shard.0);
            table.cursor = 0;
            self.drop_over(&mut table, usize::MAX, now);
        }
    }
}
