//! One shard: its records, and when each may be dropped.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use lockage::store::{Command, RecordError};
use lockage_core::{Publish, Record, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct Shard {
    slots: HashMap<Arc<str>, Slot>,
    /// One entry per slot, under its `due`.
    queue: BTreeMap<Due, Arc<str>>,
    /// Makes each `Due` unique.
    entered: u64,
    calls: u64,
}

#[derive(Debug)]
struct Slot {
    /// Always present; optional, since machines take it so.
    record: Option<Record>,
    due: Due,
}

/// When a slot is examined: at the latest when its record expires. A record that lives on is examined
/// again then, so that a hot key does not move in the queue with every call.
type Due = (Timestamp, u64);

impl Shard {
    /// Runs a command, and returns its outcome and whom to notify.
    pub(crate) fn run<C: Command>(
        &mut self,
        key: &str,
        command: &C,
        now: Timestamp,
    ) -> Result<(C::Outcome, Publish), RecordError> {
        let Some(slot) = self.slots.get_mut(key) else {
            let mut record = None;
            let outcome = command.apply(&mut record, now)?;
            let publish = command.publishes(&outcome, record.as_ref());
            if record.is_some() {
                self.insert(key.into(), record);
            }
            return Ok((outcome, publish));
        };
        let outcome = command.apply(&mut slot.record, now)?;
        let publish = command.publishes(&outcome, slot.record.as_ref());
        if slot.record.is_none() {
            self.queue.remove(&slot.due);
            self.slots.remove(key);
        }
        Ok((outcome, publish))
    }

    /// Examines up to `most` slots that were due a moment ago, and drops those that had expired.
    pub(crate) fn drop_due(&mut self, now: Timestamp, most: usize) {
        let then = crate::grace_before(now);
        for _ in 0..most {
            let Some(entry) = self.queue.first_entry() else { return };
            if entry.key().0 > then {
                return;
            }
            let key = entry.remove();
            // Invariant: every entry of the queue belongs to a slot.
            let Some(slot) = self.slots.remove(&key) else { continue };
            if forget_at(&slot.record) > then {
                self.insert(key, slot.record);
            }
        }
    }

    /// Counts a call, and returns the count.
    pub(crate) fn count_call(&mut self) -> u64 {
        self.calls = self.calls.wrapping_add(1);
        self.calls
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    fn insert(&mut self, key: Arc<str>, record: Option<Record>) {
        let due = (forget_at(&record), self.entered);
        self.entered += 1;
        self.queue.insert(due, Arc::clone(&key));
        self.slots.insert(key, Slot { record, due });
    }
}

fn forget_at(record: &Option<Record>) -> Timestamp {
    record.as_ref().map_or(Timestamp::EPOCH, Record::forget_at)
}
