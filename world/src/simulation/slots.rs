//! A key of the store and its side keys, as Redis keeps them: with an expiry in milliseconds.

use std::collections::BTreeMap;

use lockage_core::{Command, Record, RecordError, RequestId, Stored, Timestamp, key_beside};

/// The value of a key, and the last millisecond since the epoch at which the key has it.
pub(super) type Held = Option<(Stored, u64)>;

/// A key and its side keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    own: Slot,
    beside: BTreeMap<RequestId, Slot>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    record: Option<Record>,
    expire_ms: u64,
}

impl Slots {
    pub(super) fn run<C: Command>(
        &mut self,
        command: &C,
        now: Timestamp,
    ) -> Result<C::Outcome, RecordError> {
        let mut own = self.own.at(now);
        let id = command.beside();
        let mut beside = id.and_then(|id| self.beside.entry(id).or_default().at(now));
        let outcome = command.apply_beside(&mut own, &mut beside, now)?;
        self.own.put(own, now, |_, _| false);
        if let Some(id) = id {
            self.beside.entry(id).or_default().put(beside, now, Record::is_kept_as);
        }
        Ok(outcome)
    }

    /// Returns the record of the key itself now; an expired one is dropped.
    pub(super) fn at(&mut self, now: Timestamp) -> Option<Record> {
        self.own.at(now)
    }

    /// Stores the record that a command on several keys leaves.
    pub(super) fn put(&mut self, record: Option<Record>, now: Timestamp) {
        self.own.put(record, now, |_, _| false);
    }

    /// Drops the value of the key, or of the side key, that has this name, if it has expired; returns whether it did.
    pub(super) fn expire(&mut self, name: &str, key: &str, now: Timestamp) -> bool {
        let slot = match name == key {
            true => Some(&mut self.own),
            false => self
                .beside
                .iter_mut()
                .find(|(id, _)| key_beside(key, **id) == name)
                .map(|(_, slot)| slot),
        };
        let Some(slot) = slot.filter(|slot| slot.record.is_some()) else { return false };
        slot.at(now).is_none()
    }

    /// Returns the record of the key itself.
    pub(super) fn record(&self) -> Option<&Record> {
        self.own.record.as_ref()
    }

    /// Returns the value of the key now, or of the side key with this id.
    pub(super) fn held_at(&self, beside: Option<RequestId>, now: Timestamp) -> Held {
        let slot = beside.map_or(Some(&self.own), |id| self.beside.get(&id));
        slot.filter(|slot| slot.is_held(now)).and_then(Slot::held)
    }

    /// Returns the values of a key and of its side keys.
    pub(super) fn all(&self, key: &str) -> Vec<(String, (Stored, u64))> {
        let beside = self.beside.iter().map(|(id, slot)| (key_beside(key, *id), slot));
        let all = std::iter::once((key.to_owned(), &self.own)).chain(beside);
        all.filter_map(|(key, slot)| Some((key, slot.held()?))).collect()
    }

    /// Returns whether there was a side key of this id.
    pub(super) fn has_beside(&self, id: RequestId) -> bool {
        self.beside.contains_key(&id)
    }

    /// Returns the number of side keys that have not expired.
    pub(super) fn count_beside(&self, now: Timestamp) -> usize {
        self.beside.values().filter(|slot| slot.is_held(now)).count()
    }

    /// Lets the key, or the side key of this id, expire after this millisecond.
    pub(super) fn expire_at(&mut self, beside: Option<RequestId>, expire_ms: u64) {
        let slot = match beside {
            Some(id) => self.beside.entry(id).or_default(),
            None => &mut self.own,
        };
        slot.expire_ms = expire_ms;
    }

    /// Drops the key, or the side key of this id.
    pub(super) fn drop(&mut self, beside: Option<RequestId>) {
        match beside {
            Some(id) => drop(self.beside.remove(&id)),
            None => self.own = Slot::default(),
        }
    }
}

impl Slot {
    fn held(&self) -> Held {
        self.record.as_ref().map(|record| (record.stored(), self.expire_ms))
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.record.is_some() && now.as_micros() / 1000 <= self.expire_ms
    }

    /// Returns the record at this time.
    fn at(&mut self, now: Timestamp) -> Option<Record> {
        if !self.is_held(now) {
            self.record = None;
        }
        self.record.clone()
    }

    /// Stores the record that a command leaves. No command writes an unchanged record.
    fn put(
        &mut self,
        record: Option<Record>,
        now: Timestamp,
        is_kept_as: impl Fn(&Record, &Record) -> bool,
    ) {
        if let Some(record) = record.as_ref().filter(|_| record != self.record)
            && !self.record.as_ref().is_some_and(|before| is_kept_as(record, before))
        {
            self.expire_ms = now.as_micros() / 1000 + record.ttl_ms(now);
        }
        self.record = record;
    }
}
