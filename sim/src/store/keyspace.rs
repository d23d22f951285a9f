//! The simulated keyspace: typed values under byte keys, an expiry for each, and the clock that
//! decides which of them live.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use super::commands;
use super::error::CommandError;
use super::sorted_set::SortedSet;

/// Below this many keys nothing is swept: a small keyspace drops expired keys when they are touched, as a server does.
const SWEEP_FLOOR: usize = 1024;

/// The value of a key. An empty collection never stays: its key disappears with its last element.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// A string, of any bytes.
    Text(Vec<u8>),
    /// A list, from head to tail.
    List(VecDeque<Vec<u8>>),
    /// A hash, in the order of insertion: the order that a server shows for small ones.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// A sorted set.
    SortedSet(SortedSet),
}

impl Value {
    /// Returns the name of its type, as by `TYPE`.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::List(_) => "list",
            Value::Hash(_) => "hash",
            Value::SortedSet(_) => "zset",
        }
    }

    /// Returns the bytes of its elements.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = match self {
            Value::Text(text) => text.len(),
            Value::List(list) => list.iter().map(Vec::len).sum(),
            Value::Hash(fields) => {
                fields.iter().map(|(field, value)| field.len() + value.len()).sum()
            }
            Value::SortedSet(set) => set.member_bytes(),
        };
        bytes as u64
    }

    fn is_empty_collection(&self) -> bool {
        match self {
            Value::Text(_) => false,
            Value::List(list) => list.is_empty(),
            Value::Hash(fields) => fields.is_empty(),
            Value::SortedSet(set) => set.is_empty(),
        }
    }
}

/// A kind of value that commands ask for by type: the check of "this key must hold a list".
pub(crate) trait Kind: Default {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    value: Value,
    /// The last millisecond at which the key is alive.
    expires_at_ms: Option<i64>,
}

impl Entry {
    fn lives(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_none_or(|last_ms| now_ms <= last_ms)
    }
}

/// The keys of one simulated server, and its clock.
///
/// A key is alive while `now_ms <= expires_at_ms`, where `now_ms` is the clock in whole milliseconds, rounded down. A
/// dead key is removed when it is touched, so a clock that steps back afterwards does not bring it back; an untouched
/// one is alive again, as on a server whose clock steps back.
#[derive(Debug, PartialEq)]
pub(crate) struct Keyspace {
    /// In an order that nothing shows.
    entries: HashMap<Vec<u8>, Entry>,
    now_us: u64,
    sweep_at_len: usize,
    published: Option<String>,
    /// The keys that commands have named, where they are noted.
    named: Option<BTreeSet<Vec<u8>>>,
    /// How often scripts have run each command, by its place in the table.
    commands_run: Vec<u64>,
    times_told: u64,
}

impl Default for Keyspace {
    fn default() -> Self {
        Keyspace {
            entries: HashMap::new(),
            now_us: 0,
            sweep_at_len: SWEEP_FLOOR,
            published: None,
            named: None,
            commands_run: Vec::new(),
            times_told: 0,
        }
    }
}

impl Keyspace {
    pub(crate) fn set_now_us(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    /// Returns the clock as `TIME` does: whole seconds since the epoch, and the microseconds beyond.
    pub(crate) fn time(&self) -> [u64; 2] {
        [self.now_us / 1_000_000, self.now_us % 1_000_000]
    }

    /// Counts the command at this place of the table.
    pub(crate) fn count_command(&mut self, place: usize) {
        if self.commands_run.len() <= place {
            self.commands_run.resize(place + 1, 0);
        }
        self.commands_run[place] += 1;
    }

    /// Counts how often a script read the time, which is no command here.
    pub(crate) fn count_times_told(&mut self, times: u64) {
        self.times_told += times;
    }

    pub(crate) fn commands_run(&self) -> BTreeMap<&'static str, u64> {
        let counted = self.commands_run.iter().enumerate();
        let named = counted.map(|(place, times)| (commands::name_at(place), *times));
        let mut run: BTreeMap<_, _> = named.filter(|(_, times)| *times > 0).collect();
        if self.times_told > 0 {
            *run.entry("time").or_default() += self.times_told;
        }
        run
    }

    /// Notes which keys commands name.
    pub(crate) fn note_keys(&mut self) {
        self.named = Some(BTreeSet::new());
    }

    /// Returns the keys that commands have named since this was last asked.
    pub(crate) fn take_keys(&mut self) -> BTreeSet<Vec<u8>> {
        self.named.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the clock in whole milliseconds, by which keys expire.
    pub(crate) fn now_ms(&self) -> i64 {
        i64::try_from(self.now_us / 1000).expect("u64::MAX / 1000 is below i64::MAX")
    }

    /// Returns the live value of a key and its last millisecond, without touching it: a dead key is hidden, not
    /// removed.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<(&Value, Option<i64>)> {
        let entry = self.entries.get(key)?;
        entry.lives(self.now_ms()).then_some((&entry.value, entry.expires_at_ms))
    }

    /// Returns the number of live keys.
    pub(crate) fn live_len(&self) -> usize {
        let now_ms = self.now_ms();
        self.entries.values().filter(|entry| entry.lives(now_ms)).count()
    }

    /// Returns the live value of a key; removes the key if it is dead.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&Value> {
        self.touch(key).map(|entry| &entry.value)
    }

    pub(crate) fn exists(&mut self, key: &[u8]) -> bool {
        self.touch(key).is_some()
    }

    /// Returns the value of a key that must hold a `T`, if the key exists.
    pub(crate) fn read<T: Kind>(&mut self, key: &[u8]) -> Result<Option<&T>, CommandError> {
        match self.touch(key) {
            None => Ok(None),
            Some(entry) => T::of(&entry.value).map(Some).ok_or(CommandError::WrongType),
        }
    }

    /// Returns the value as [`read`](Self::read) does, to be changed in place. Call
    /// [`drop_if_empty`](Self::drop_if_empty) after taking elements out.
    pub(crate) fn edit<T: Kind>(&mut self, key: &[u8]) -> Result<Option<&mut T>, CommandError> {
        match self.touch(key) {
            None => Ok(None),
            Some(entry) => T::of_mut(&mut entry.value).map(Some).ok_or(CommandError::WrongType),
        }
    }

    /// Returns the value as [`edit`](Self::edit) does, with an empty one for a missing key.
    pub(crate) fn edit_or_new<T: Kind>(&mut self, key: &[u8]) -> Result<&mut T, CommandError> {
        if !self.exists(key) {
            self.insert(key, T::default().into_value(), None);
        }
        self.edit(key).map(|value| value.expect("the key was put there one line above"))
    }

    pub(crate) fn insert(&mut self, key: &[u8], value: Value, expires_at_ms: Option<i64>) {
        self.note(key);
        if let Some(entry) = self.entries.get_mut(key) {
            *entry = Entry { value, expires_at_ms };
            return;
        }
        self.sweep_when_grown();
        self.entries.insert(key.to_vec(), Entry { value, expires_at_ms });
    }

    /// Removes a key, and returns whether it was alive.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.exists(key) && self.entries.remove(key).is_some()
    }

    pub(crate) fn drop_if_empty(&mut self, key: &[u8]) {
        if self.entries.get(key).is_some_and(|entry| entry.value.is_empty_collection()) {
            self.entries.remove(key);
        }
    }

    /// Returns the last millisecond of a live key: `None` without the key, `Some(None)` if it never expires.
    pub(crate) fn expiry(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.touch(key).map(|entry| entry.expires_at_ms)
    }

    pub(crate) fn set_expiry(&mut self, key: &[u8], expires_at_ms: Option<i64>) {
        if let Some(entry) = self.touch(key) {
            entry.expires_at_ms = expires_at_ms;
        }
    }

    pub(crate) fn publish(&mut self, message: &[u8]) {
        self.published = Some(String::from_utf8_lossy(message).into_owned());
    }

    pub(crate) fn take_published(&mut self) -> Option<String> {
        self.published.take()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.sweep_at_len = SWEEP_FLOOR;
    }

    fn note(&mut self, key: &[u8]) {
        if let Some(named) = &mut self.named
            && !named.contains(key)
        {
            named.insert(key.to_vec());
        }
    }

    fn touch(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.note(key);
        let now_ms = self.now_ms();
        match self.entries.entry_ref(key) {
            EntryRef::Occupied(entry) if entry.get().lives(now_ms) => Some(entry.into_mut()),
            EntryRef::Occupied(entry) => {
                entry.remove();
                None
            }
            EntryRef::Vacant(_) => None,
        }
    }

    /// Drops expired keys each time the number of keys has doubled, which bounds memory by the live keys. A server does
    /// the same at its own pace, and no script can observe when.
    fn sweep_when_grown(&mut self) {
        if self.entries.len() < self.sweep_at_len {
            return;
        }
        let now_ms = self.now_ms();
        self.entries.retain(|_, entry| entry.lives(now_ms));
        self.sweep_at_len = (self.entries.len() * 2).max(SWEEP_FLOOR);
    }
}

impl Kind for Vec<u8> {
    fn of(value: &Value) -> Option<&Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
    fn into_value(self) -> Value {
        Value::Text(self)
    }
}

impl Kind for VecDeque<Vec<u8>> {
    fn of(value: &Value) -> Option<&Self> {
        if let Value::List(list) = value { Some(list) } else { None }
    }
    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::List(list) = value { Some(list) } else { None }
    }
    fn into_value(self) -> Value {
        Value::List(self)
    }
}

impl Kind for Vec<(Vec<u8>, Vec<u8>)> {
    fn of(value: &Value) -> Option<&Self> {
        if let Value::Hash(fields) = value { Some(fields) } else { None }
    }
    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::Hash(fields) = value { Some(fields) } else { None }
    }
    fn into_value(self) -> Value {
        Value::Hash(self)
    }
}

impl Kind for SortedSet {
    fn of(value: &Value) -> Option<&Self> {
        if let Value::SortedSet(set) = value { Some(set) } else { None }
    }
    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::SortedSet(set) = value { Some(set) } else { None }
    }
    fn into_value(self) -> Value {
        Value::SortedSet(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_US: u64 = 1_700_000_000_000_000;

    fn holding(key: &[u8], expires_at_ms: i64) -> Keyspace {
        let mut keyspace = Keyspace::default();
        keyspace.set_now_us(START_US);
        keyspace.insert(key, Value::Text(b"v".to_vec()), Some(expires_at_ms));
        keyspace
    }

    #[test]
    fn a_key_lives_through_the_whole_of_its_last_millisecond() {
        let mut keyspace = holding(b"k", 1_700_000_000_010);
        keyspace.set_now_us(START_US + 10_999);
        assert!(keyspace.exists(b"k"));
        keyspace.set_now_us(START_US + 11_000);
        assert!(keyspace.peek(b"k").is_none());
        assert!(!keyspace.exists(b"k"));
    }

    #[test]
    fn a_step_back_revives_an_expired_key_only_if_untouched() {
        let mut keyspace = holding(b"k", 1_700_000_000_010);
        keyspace.set_now_us(START_US + 11_000);
        assert!(keyspace.peek(b"k").is_none());
        keyspace.set_now_us(START_US);
        assert!(keyspace.exists(b"k"));
        keyspace.set_now_us(START_US + 11_000);
        assert!(!keyspace.exists(b"k"));
        keyspace.set_now_us(START_US);
        assert!(!keyspace.exists(b"k"));
    }

    #[test]
    fn keys_are_noted_once_that_is_asked_for() {
        let mut keyspace = Keyspace::default();
        keyspace.exists(b"before");
        keyspace.note_keys();
        keyspace.exists(b"read");
        keyspace.insert(b"written", Value::Text(Vec::new()), None);
        let named = [b"read".to_vec(), b"written".to_vec()];
        assert_eq!(keyspace.take_keys(), named.into());
        assert_eq!(keyspace.take_keys(), BTreeSet::new());
    }

    #[test]
    fn dead_keys_do_not_pile_up() {
        let mut keyspace = Keyspace::default();
        for i in 0..100_000u64 {
            keyspace.set_now_us(START_US + i * 1000);
            let last_ms = keyspace.now_ms() + 50;
            keyspace.insert(&i.to_be_bytes(), Value::Text(Vec::new()), Some(last_ms));
            assert!(keyspace.entries.len() <= SWEEP_FLOOR);
        }
        assert_eq!(keyspace.live_len(), 51);
    }
}
