//! The records of a store, each under its key.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use lockage::store::Command;
use lockage_core::{AcquireAll, CompactRecord, OneOutcome, Publish, Record, Timestamp, key_beside};
use smallvec::SmallVec;

use crate::MemoryError;
use crate::shards::{Rules, Shards, Table};

#[derive(Default)]
pub(crate) struct Records {
    pub(crate) hasher: RandomState,
}

/// A record in a table: small, so that tables grow fast and waste little memory.
pub(crate) struct Entry {
    /// Half of the key's hash.
    tag: u32,
    /// A time that is not after the record's expiry, unless that is earlier now than it was: see [`due`].
    due: u32,
    kept: Box<Kept>,
}

struct Kept {
    /// Next to the record if it fits: elsewhere in memory it would cost another load.
    key: SmallVec<[u8; 40]>,
    record: CompactRecord,
}

impl Entry {
    fn new(tag: u32, key: &str, record: Record) -> Self {
        let kept = Kept { key: key.as_bytes().into(), record: record.into() };
        Entry { tag, due: due(kept.record.forget_at()), kept: Box::new(kept) }
    }
}

/// Returns a time in units of 2.1 s.
fn due(at: Timestamp) -> u32 {
    u32::try_from(at.as_micros() >> 21).unwrap_or(u32::MAX)
}

/// Returns the hash in a table. Tables use the lowest bits and the highest.
fn spread(tag: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(tag)
}

impl Rules<Entry> for Records {
    const CALLS_PER_VISIT: u32 = 16;
    const BUCKETS_PER_VISIT: usize = 64;

    fn hash(&self, entry: &Entry) -> u64 {
        spread(entry.tag)
    }

    fn is_over(&self, entry: &mut Entry, then: Timestamp) -> bool {
        if due(then) < entry.due {
            return false; // without a look at the record, which is elsewhere in memory
        }
        let forget_at = entry.kept.record.forget_at();
        entry.due = due(forget_at);
        forget_at <= then
    }

    fn evicted_at(&self, entry: &Entry) -> Option<Timestamp> {
        let record = &entry.kept.record;
        record.is_mere_use().then(|| record.forget_at())
    }
}

impl Shards<Records, Entry> {
    /// Runs a command, and returns its outcome and the message to publish.
    pub(crate) fn run<C: Command>(
        &self,
        key: &str,
        command: &C,
        now: Timestamp,
    ) -> Result<(C::Outcome, Publish), MemoryError> {
        let hash = self.rules.hasher.hash_one(key);
        let mut table = self.lock(hash);
        let result = match command.beside() {
            None => self.run_alone(&mut table, (hash as u32, key), command, now),
            Some(id) => self.run_beside(&mut table, key, &key_beside(key, id), command, now),
        };
        self.unlock(table, now);
        result
    }

    fn run_alone<C: Command>(
        &self,
        table: &mut Table<Entry>,
        (tag, key): (u32, &str),
        command: &C,
        now: Timestamp,
    ) -> Result<(C::Outcome, Publish), MemoryError> {
        let run = |slot: &mut Option<Record>| {
            let outcome = command.apply(slot, now)?;
            let publish = command.publishes(&outcome, slot.as_ref());
            Ok((outcome, publish))
        };
        match table.entries.find_entry(spread(tag), is_of(tag, key)) {
            Ok(mut entry) => {
                let (result, is_left) = entry.get_mut().kept.record.run(run);
                if !is_left {
                    entry.remove();
                }
                result
            }
            Err(_) => {
                let mut slot = None;
                let result = run(&mut slot);
                if let Some(record) = slot {
                    self.add(table, Entry::new(tag, key, record), now)?;
                }
                result
            }
        }
    }

    /// A command's second key is in the same shard, under the same lock.
    fn run_beside<C: Command>(
        &self,
        table: &mut Table<Entry>,
        key: &str,
        second: &str,
        command: &C,
        now: Timestamp,
    ) -> Result<(C::Outcome, Publish), MemoryError> {
        let before = [key, second].map(|key| self.take(table, key));
        let mut after = before.clone();
        let [slot, beside] = &mut after;
        let result = match command.apply_beside(slot, beside, now) {
            Ok(outcome) => {
                let added = after.iter().flatten().count();
                let publish = command.publishes(&outcome, after[0].as_ref());
                self.make_room(table, added, now)
                    .map(|()| (outcome, publish))
                    .map_err(MemoryError::from)
            }
            Err(error) => Err(error.into()),
        };
        // There was room for the records before.
        let left = if result.is_ok() { after } else { before };
        for (key, record) in [key, second].into_iter().zip(left) {
            if let Some(record) = record {
                self.put(table, Entry::new(self.rules.hasher.hash_one(key) as u32, key, record));
            }
        }
        result
    }

    /// Runs requests on several keys under the locks of all their shards, which are taken in the order of the shards.
    pub(crate) fn run_all(
        &self,
        keys: &[&str],
        command: &AcquireAll,
        now: Timestamp,
    ) -> Result<Vec<OneOutcome>, MemoryError> {
        let hashes: Vec<u64> = keys.iter().map(|key| self.rules.hasher.hash_one(key)).collect();
        let mut shards: Vec<usize> = hashes.iter().map(|hash| self.shard_of(*hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut tables: Vec<_> =
            shards.iter().map(|shard| (*shard, self.lock_shard(*shard))).collect();
        let place = |hash: u64| shards.partition_point(|shard| *shard < self.shard_of(hash));
        let each = || hashes.iter().map(|hash| place(*hash)).zip(keys.iter().copied());
        let before: Vec<_> =
            each().map(|(place, key)| self.take(&mut tables[place].1, key)).collect();
        let mut after = before.clone();
        let result =
            command.apply(&mut after, now).map_err(MemoryError::from).and_then(|decisions| {
                for (place, (_, table)) in tables.iter_mut().enumerate() {
                    let added = each()
                        .zip(&after)
                        .filter(|((at, _), record)| *at == place && record.is_some());
                    self.make_room(table, added.count(), now)?;
                }
                Ok(decisions)
            });
        // There was room for the records before.
        let left = if result.is_ok() { after } else { before };
        for ((place, key), record) in each().zip(left) {
            if let Some(record) = record {
                let tag = self.rules.hasher.hash_one(key) as u32;
                self.put(&mut tables[place].1, Entry::new(tag, key, record));
            }
        }
        tables.into_iter().for_each(|(_, table)| self.unlock(table, now));
        result
    }

    fn take(&self, table: &mut Table<Entry>, key: &str) -> Option<Record> {
        let tag = self.rules.hasher.hash_one(key) as u32;
        let entry = table.entries.find_entry(spread(tag), is_of(tag, key)).ok()?;
        entry.remove().0.kept.record.into_record()
    }
}

fn is_of(tag: u32, key: &str) -> impl Fn(&Entry) -> bool {
    move |entry| entry.tag == tag && *entry.kept.key == *key.as_bytes()
}
