//! The two servers that a world can have: the Rust machines over keys that expire as Redis has it, and
//! the shipped scripts on the simulated store.

use lockage_core::fenced::{Access, FencedWrite};
use lockage_core::{
    Acquire, Command, Decision, Record, RecordError, ReplyError, Stored, Timestamp, latch, lock,
    rw_lock, semaphore,
};

use crate::store::{SimError, SimStore};

const KEY: &str = "world:{key}";

/// A value behind a lock, which is on a server of its own that has no troubles.
const VALUE: &str = "world:{value}";

/// What a key holds, and the last millisecond since the epoch at which it does.
pub type Held = Option<(Stored, u64)>;

/// What a server is asked for: a write on the value, all else on the key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is what it holds
pub enum Operation {
    Lock(lock::Operation),
    Withdraw(lock::Withdraw),
    Semaphore(semaphore::Operation),
    RwLock(rw_lock::Operation),
    Latch(latch::Operation),
    Acquire(Acquire),
    Write(FencedWrite),
}

/// What it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is what it holds
pub enum Outcome {
    Lock(lock::Reply),
    Withdrawn(Timestamp),
    Semaphore(semaphore::Reply),
    RwLock(rw_lock::Reply),
    Latch(latch::Reply),
    Decision(Decision),
    Written(Access<()>),
    /// The id was used before, for something else.
    Reused,
}

/// Runs operations on one key, and on the value that a lock protects.
pub trait Server {
    /// Makes it as it was when it was new.
    fn clear(&mut self);
    /// Runs one.
    ///
    /// # Errors
    /// Words for people.
    fn run(&mut self, operation: &Operation, now: Timestamp) -> Result<Outcome, String>;
    /// Whether the key is there.
    fn is_held(&mut self, now: Timestamp) -> bool;
    /// What the key holds.
    fn held(&self) -> Held;
    /// Makes the key hold this.
    fn hold(&mut self, held: &Held);
}

/// Runs any command.
trait Runs {
    fn run_one<C: Command>(
        &mut self,
        key: &'static str,
        command: &C,
        now: Timestamp,
    ) -> Result<C::Outcome, Refusal>;

    fn dispatch(&mut self, operation: &Operation, now: Timestamp) -> Result<Outcome, String> {
        let outcome = match operation {
            Operation::Lock(it) => self.run_one(KEY, it, now).map(Outcome::Lock),
            Operation::Withdraw(it) => self.run_one(KEY, it, now).map(Outcome::Withdrawn),
            Operation::Semaphore(it) => self.run_one(KEY, it, now).map(Outcome::Semaphore),
            Operation::RwLock(it) => self.run_one(KEY, it, now).map(Outcome::RwLock),
            Operation::Latch(it) => self.run_one(KEY, it, now).map(Outcome::Latch),
            Operation::Acquire(it) => self.run_one(KEY, it, now).map(Outcome::Decision),
            Operation::Write(it) => self.run_one(VALUE, it, now).map(Outcome::Written),
        };
        outcome.or_else(|refusal| match refusal {
            Refusal::Reused => Ok(Outcome::Reused),
            Refusal::Error(error) => Err(error),
        })
    }
}

enum Refusal {
    Reused,
    Error(String),
}

impl From<RecordError> for Refusal {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::OperationReused => Refusal::Reused,
            error => Refusal::Error(error.to_string()),
        }
    }
}

impl From<SimError> for Refusal {
    fn from(error: SimError) -> Self {
        match error {
            SimError::Reply(ReplyError::Record(error)) => error.into(),
            error => Refusal::Error(error.to_string()),
        }
    }
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
    fn run<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, Refusal> {
        let now_ms = now.as_micros() / 1000;
        if now_ms > self.expire_ms {
            self.record = None;
        }
        let before = self.record.clone();
        let outcome = command.apply(&mut self.record, now)?;
        // None of these commands writes what was there before.
        if let Some(record) = self.record.as_ref().filter(|_| self.record != before) {
            self.expire_ms = now_ms + record.ttl_ms(now);
        }
        Ok(outcome)
    }
}

impl Runs for Model {
    fn run_one<C: Command>(
        &mut self,
        key: &'static str,
        command: &C,
        now: Timestamp,
    ) -> Result<C::Outcome, Refusal> {
        let slot = if key == KEY { &mut self.key } else { &mut self.value };
        slot.run(command, now)
    }
}

impl Server for Model {
    fn clear(&mut self) {
        *self = Model::default();
    }

    fn run(&mut self, operation: &Operation, now: Timestamp) -> Result<Outcome, String> {
        self.dispatch(operation, now)
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
}

impl Runs for Scripts {
    fn run_one<C: Command>(
        &mut self,
        key: &'static str,
        command: &C,
        now: Timestamp,
    ) -> Result<C::Outcome, Refusal> {
        self.store.set_now(now);
        Ok(self.store.run(key, command)?)
    }
}

impl Server for Scripts {
    fn clear(&mut self) {
        self.store.flush_all();
        self.store.set_now(Timestamp::EPOCH);
    }

    fn run(&mut self, operation: &Operation, now: Timestamp) -> Result<Outcome, String> {
        self.dispatch(operation, now)
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
