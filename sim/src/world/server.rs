//! The two servers that a world can have: the Rust machines over keys that expire as Redis has it, and
//! the shipped scripts on the simulated store.

use lockage_core::fenced::{Access, FencedWrite};
use lockage_core::lock::{Operation, Reply};
use lockage_core::{Acquire, Command, Decision, Record, Stored, Timestamp};

use crate::store::{SimError, SimStore};

const KEY: &str = "world:{key}";

/// A value behind a lock, which is on a server of its own that has no troubles.
const VALUE: &str = "world:{value}";

/// What a key holds, and the last millisecond since the epoch at which it does.
pub type Held = Option<(Stored, u64)>;

/// Runs commands on one key, and on the value that a lock protects. Errors are words for people.
#[allow(missing_docs)] // each runs what its argument says
pub trait Server {
    /// Makes it as it was when it was new.
    fn clear(&mut self);
    fn lock(&mut self, operation: &Operation, now: Timestamp) -> Result<Reply, String>;
    fn acquire(&mut self, acquire: &Acquire, now: Timestamp) -> Result<Decision, String>;
    fn write(&mut self, write: &FencedWrite, now: Timestamp) -> Result<Access<()>, String>;
    /// Whether the key is there.
    fn is_held(&mut self, now: Timestamp) -> bool;
    /// What the key holds.
    fn held(&self) -> Held;
    /// Makes the key hold this.
    fn hold(&mut self, held: &Held);
}

/// The Rust machines.
#[derive(Debug, Default)]
pub struct Model {
    key: Slot,
    value: Slot,
}

#[derive(Debug, Default)]
struct Slot {
    record: Option<Record>,
    expire_ms: u64,
}

impl Slot {
    fn run<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        let now_ms = now.as_micros() / 1000;
        if now_ms > self.expire_ms {
            self.record = None;
        }
        let before = self.record.clone();
        let outcome = command.apply(&mut self.record, now).map_err(|error| error.to_string())?;
        // None of these commands writes what was there before.
        if let Some(record) = self.record.as_ref().filter(|_| self.record != before) {
            self.expire_ms = now_ms + record.ttl_ms(now);
        }
        Ok(outcome)
    }
}

impl Server for Model {
    fn clear(&mut self) {
        *self = Model::default();
    }

    fn lock(&mut self, operation: &Operation, now: Timestamp) -> Result<Reply, String> {
        self.key.run(operation, now)
    }

    fn acquire(&mut self, acquire: &Acquire, now: Timestamp) -> Result<Decision, String> {
        self.key.run(acquire, now)
    }

    fn write(&mut self, write: &FencedWrite, now: Timestamp) -> Result<Access<()>, String> {
        self.value.run(write, now)
    }

    fn is_held(&mut self, now: Timestamp) -> bool {
        self.key.record.is_some() && now.as_micros() / 1000 <= self.key.expire_ms
    }

    fn held(&self) -> Held {
        self.key.record.as_ref().map(|record| (record.stored(), self.key.expire_ms))
    }

    fn hold(&mut self, held: &Held) {
        let read = |stored| Record::read(stored).expect("a record that was stored");
        self.key.record = held.as_ref().map(|(stored, _)| read(stored));
        self.key.expire_ms = held.as_ref().map_or(0, |(_, expire_ms)| *expire_ms);
    }
}

/// The shipped scripts.
#[derive(Debug)]
pub struct Scripts {
    store: SimStore,
}

impl Scripts {
    /// On an empty store.
    ///
    /// # Errors
    /// [`SimError::Lua`] if Lua cannot get memory.
    pub fn new() -> Result<Scripts, SimError> {
        Ok(Scripts::on(SimStore::new()?))
    }

    /// On this store, whose scripts may be other ones.
    pub fn on(store: SimStore) -> Scripts {
        Scripts { store }
    }

    fn run<C: Command>(
        &mut self,
        key: &str,
        command: &C,
        now: Timestamp,
    ) -> Result<C::Outcome, String> {
        self.store.set_now(now);
        self.store.run(key, command).map_err(|error| error.to_string())
    }
}

impl Server for Scripts {
    fn clear(&mut self) {
        self.store.flush_all();
        self.store.set_now(Timestamp::EPOCH);
    }

    fn lock(&mut self, operation: &Operation, now: Timestamp) -> Result<Reply, String> {
        self.run(KEY, operation, now)
    }

    fn acquire(&mut self, acquire: &Acquire, now: Timestamp) -> Result<Decision, String> {
        self.run(KEY, acquire, now)
    }

    fn write(&mut self, write: &FencedWrite, now: Timestamp) -> Result<Access<()>, String> {
        self.run(VALUE, write, now)
    }

    fn is_held(&mut self, now: Timestamp) -> bool {
        self.store.set_now(now);
        self.store.stored(KEY).is_some()
    }

    fn held(&self) -> Held {
        // What never expires shows as what lives for ever.
        let expire_ms = self.store.expires_at_ms(KEY).map_or(u64::MAX, i64::unsigned_abs);
        self.store.stored(KEY).map(|stored| (stored, expire_ms))
    }

    fn hold(&mut self, held: &Held) {
        // By a clock that shows a later time it might expire at once.
        self.store.set_now(Timestamp::EPOCH);
        self.store.execute(&[b"DEL", KEY.as_bytes()]);
        let Some((stored, expire_ms)) = held else { return };
        match stored {
            Stored::Text(text) => {
                self.store.execute(&[b"SET", KEY.as_bytes(), text.as_bytes()]);
            }
            Stored::List(all) => all.iter().for_each(|one| {
                self.store.execute(&[b"RPUSH", KEY.as_bytes(), one.as_bytes()]);
            }),
        }
        self.store.execute(&[b"PEXPIREAT", KEY.as_bytes(), expire_ms.to_string().as_bytes()]);
    }
}
