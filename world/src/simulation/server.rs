//! Two of the servers that a world can have: the Rust machines over keys that expire as Redis has it, and
//! the shipped scripts on the simulated store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockage_core::fenced::{Access, FencedWrite};
use lockage_core::{
    Acquire, AcquireEach, Adjust, Adjusted, CancelTurn, Cancellation, Command, Decision,
    LimitCommand, Peek, Record, RecordError, ReplyError, RequestId, Reserve, Reserved, SetLimit,
    Settle, Settlement, Stored, StoredLimit, StoredLimitOutcome, TakeTurn, Timestamp, Turn,
    WithStoredLimit, key_beside, latch, lock, rw_lock, semaphore,
};
use lockage_sim::engine::EngineKind;
use lockage_sim::store::{SimError, SimStore};

use super::process::InProcess;

/// The keys of a world, and the value behind each that is a lock. That is on a server of its own that has no
/// troubles. Keys are named as the stripes of one striped lock, which do not affect each other (L13).
const NAMES: [[&str; 2]; MAX_KEYS] = [
    ["world:{key#0/3}", "world:{value}"],
    ["world:{key#1/3}", "world:{value1}"],
    ["world:{key#2/3}", "world:{value2}"],
];

/// As many keys a world can have.
pub(super) const MAX_KEYS: usize = 3;

/// The key itself, or the value behind it.
const KEY: usize = 0;
const VALUE: usize = 1;

/// What a key holds, and the last millisecond since the epoch at which it does.
pub(super) type HeldByOne = Option<(Stored, u64)>;

/// What a key holds, and the keys beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub(super) own: HeldByOne,
    pub(super) beside: BTreeMap<RequestId, HeldByOne>,
}

/// What a server is asked for: a write on the value, all else on the key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is what it holds
pub enum Operation {
    Lock(lock::Operation),
    Withdraw(lock::Withdraw),
    Inspect(lock::Inspect),
    Semaphore(semaphore::Operation),
    RwLock(rw_lock::Operation),
    Latch(latch::Operation),
    Acquire(Acquire),
    AcquireEach(AcquireEach),
    TakeTurn(TakeTurn),
    Cancel(Arc<CancelTurn>),
    Peek(Peek),
    Adjust(Adjust),
    Reserve(Reserve),
    Settle(Settle),
    SetLimit(SetLimit),
    /// A limiter's, under the limit that is stored, or where none is under the default.
    WithStoredLimit {
        command: Box<Operation>,
        default: Option<StoredLimit>,
    },
    Write(FencedWrite),
}

/// What it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is what it holds
pub enum Outcome {
    Lock(lock::Reply),
    Withdrawn(Timestamp),
    Inspected(lock::Inspection),
    Semaphore(semaphore::Reply),
    RwLock(rw_lock::Reply),
    Latch(latch::Reply),
    Decision(Decision),
    Decisions(Vec<Decision>),
    /// A decision, and what gives the turn back.
    Turn {
        decision: Decision,
        cancel: Option<Arc<CancelTurn>>,
    },
    Cancelled(Cancellation),
    Adjusted(Adjusted),
    Reserved(Reserved),
    Settled(Settlement),
    Set(bool),
    /// It came to this under the limit that is stored.
    Under {
        limit: StoredLimit,
        outcome: Box<Outcome>,
    },
    /// The limit that is stored is for each client by itself, and nothing was done.
    PerClient(StoredLimit),
    /// No limit is stored.
    NoLimit,
    Written(Access<()>),
    /// The id was used before, for something else.
    Reused,
}

impl From<Turn> for Outcome {
    fn from(Turn { decision, ticket, .. }: Turn) -> Self {
        Outcome::Turn { decision, cancel: ticket.map(CancelTurn::new).map(Arc::new) }
    }
}

/// Runs operations on keys, by their numbers, and on the values that locks protect.
pub trait Server {
    /// Makes it as it was when it was new.
    fn clear(&mut self);
    /// Runs one.
    ///
    /// # Errors
    /// Words for people.
    fn run(&mut self, key: usize, operation: &Operation, now: Timestamp)
    -> Result<Outcome, String>;
    /// Whether a key is there.
    fn is_held(&mut self, key: usize, now: Timestamp) -> bool;
    /// Whether the key of this id beside a key is there.
    fn is_held_beside(&mut self, key: usize, id: RequestId, now: Timestamp) -> bool;
    /// What a key holds, be it over.
    fn held(&mut self, key: usize) -> Held;
    /// Makes a key hold this.
    fn hold(&mut self, key: usize, held: &Held);
}

/// Returns a new server of this kind.
///
/// # Errors
/// [`SimError::Lua`] if Lua cannot get memory.
pub fn server(kind: EngineKind) -> Result<Box<dyn Server>, SimError> {
    Ok(match kind {
        EngineKind::Model => Box::new(Model::default()),
        EngineKind::Lua => Box::new(Scripts::new()?),
        EngineKind::Memory => Box::new(InProcess::default()),
    })
}

/// Runs any command.
pub(super) trait Runs {
    fn run_one<C: Command>(
        &mut self,
        place: Place,
        command: &C,
        now: Timestamp,
    ) -> Result<C::Outcome, Refusal>;

    fn dispatch(
        &mut self,
        key: usize,
        operation: &Operation,
        now: Timestamp,
    ) -> Result<Outcome, String> {
        let at = (key, KEY);
        let outcome = match operation {
            Operation::Lock(it) => self.run_one(at, it, now).map(Outcome::Lock),
            Operation::Withdraw(it) => self.run_one(at, it, now).map(Outcome::Withdrawn),
            Operation::Inspect(it) => self.run_one(at, it, now).map(Outcome::Inspected),
            Operation::Semaphore(it) => self.run_one(at, it, now).map(Outcome::Semaphore),
            Operation::RwLock(it) => self.run_one(at, it, now).map(Outcome::RwLock),
            Operation::Latch(it) => self.run_one(at, it, now).map(Outcome::Latch),
            Operation::Acquire(it) => self.run_one(at, it, now).map(Outcome::Decision),
            Operation::AcquireEach(it) => self.run_one(at, it, now).map(Outcome::Decisions),
            Operation::TakeTurn(it) => self.run_one(at, it, now).map(Outcome::from),
            Operation::Cancel(it) => self.run_one(at, &**it, now).map(Outcome::Cancelled),
            Operation::Peek(it) => self.run_one(at, it, now).map(Outcome::Decision),
            Operation::Adjust(it) => self.run_one(at, it, now).map(Outcome::Adjusted),
            Operation::Reserve(it) => self.run_one(at, it, now).map(Outcome::Reserved),
            Operation::Settle(it) => self.run_one(at, it, now).map(Outcome::Settled),
            Operation::SetLimit(it) => self.run_one(at, it, now).map(Outcome::Set),
            Operation::WithStoredLimit { command, default } => {
                self.follow(at, command, *default, now)
            }
            Operation::Write(it) => self.run_one((key, VALUE), it, now).map(Outcome::Written),
        };
        outcome.or_else(|refusal| match refusal {
            Refusal::Reused => Ok(Outcome::Reused),
            Refusal::Error(error) => Err(error),
        })
    }

    fn follow(
        &mut self,
        place: Place,
        command: &Operation,
        default: Option<StoredLimit>,
        now: Timestamp,
    ) -> Result<Outcome, Refusal> {
        match command {
            Operation::Acquire(it) => self.follow_one(place, it, default, now, Outcome::Decision),
            Operation::AcquireEach(it) => {
                self.follow_one(place, it, default, now, Outcome::Decisions)
            }
            Operation::Peek(it) => self.follow_one(place, it, default, now, Outcome::Decision),
            Operation::Adjust(it) => self.follow_one(place, it, default, now, Outcome::Adjusted),
            Operation::Reserve(it) => self.follow_one(place, it, default, now, Outcome::Reserved),
            Operation::Settle(it) => self.follow_one(place, it, default, now, Outcome::Settled),
            _ => Err(Refusal::Error("it is under no limit".to_owned())),
        }
    }

    fn follow_one<C: LimitCommand + Clone>(
        &mut self,
        place: Place,
        command: &C,
        default: Option<StoredLimit>,
        now: Timestamp,
        outcome_of: fn(C::Outcome) -> Outcome,
    ) -> Result<Outcome, Refusal> {
        let follow = match default {
            Some(default) => WithStoredLimit::or_under(command, default),
            None => WithStoredLimit::new(command.clone()),
        };
        Ok(match self.run_one(place, &follow, now)? {
            StoredLimitOutcome::Done { outcome, limit } => {
                Outcome::Under { limit, outcome: Box::new(outcome_of(outcome)) }
            }
            StoredLimitOutcome::NoLimit => Outcome::NoLimit,
            StoredLimitOutcome::PerClient(limit) => Outcome::PerClient(limit),
            StoredLimitOutcome::ClockOff(limit) => unreachable!("no world has {limit:?}"),
        })
    }
}

/// The number of a key, and which of its two names.
pub(super) type Place = (usize, usize);

pub(super) enum Refusal {
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
#[derive(Clone, Debug, Default)]
pub struct Model {
    slots: [[Slots; 2]; MAX_KEYS],
}

/// A key, and those beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    own: Slot,
    beside: BTreeMap<RequestId, Slot>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    record: Option<Record>,
    expire_ms: u64,
}

impl Slots {
    pub(crate) fn run<C: Command>(
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

    /// What the key itself holds.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.own.record.as_ref()
    }

    /// What the key holds now, or the one of this id beside it.
    pub(crate) fn held_at(&self, beside: Option<RequestId>, now: Timestamp) -> HeldByOne {
        let slot = beside.map_or(Some(&self.own), |id| self.beside.get(&id));
        slot.filter(|slot| slot.is_held(now)).and_then(Slot::held)
    }

    /// Makes the key, or the one of this id beside it, be dropped after this millisecond.
    pub(crate) fn expire_at(&mut self, beside: Option<RequestId>, expire_ms: u64) {
        let slot = match beside {
            Some(id) => self.beside.entry(id).or_default(),
            None => &mut self.own,
        };
        slot.expire_ms = expire_ms;
    }
}

impl Slot {
    fn of(held: &HeldByOne) -> Self {
        let Some((stored, expire_ms)) = held else { return Slot::default() };
        Slot { record: Some(record_of(stored)), expire_ms: *expire_ms }
    }

    fn held(&self) -> HeldByOne {
        self.record.as_ref().map(|record| (record.stored(), self.expire_ms))
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.record.is_some() && now.as_micros() / 1000 <= self.expire_ms
    }

    /// What is there at this time.
    fn at(&mut self, now: Timestamp) -> Option<Record> {
        if !self.is_held(now) {
            self.record = None;
        }
        self.record.clone()
    }

    /// Takes what a command has left. None writes what was there before.
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

impl Runs for Model {
    fn run_one<C: Command>(
        &mut self,
        (key, name): Place,
        command: &C,
        now: Timestamp,
    ) -> Result<C::Outcome, Refusal> {
        Ok(self.slots[key][name].run(command, now)?)
    }
}

impl Server for Model {
    fn clear(&mut self) {
        *self = Model::default();
    }

    fn run(
        &mut self,
        key: usize,
        operation: &Operation,
        now: Timestamp,
    ) -> Result<Outcome, String> {
        self.dispatch(key, operation, now)
    }

    fn is_held(&mut self, key: usize, now: Timestamp) -> bool {
        self.slots[key][KEY].own.is_held(now)
    }

    fn is_held_beside(&mut self, key: usize, id: RequestId, now: Timestamp) -> bool {
        self.slots[key][KEY].beside.get(&id).is_some_and(|slot| slot.is_held(now))
    }

    fn held(&mut self, key: usize) -> Held {
        let Slots { own, beside } = &self.slots[key][KEY];
        let beside = beside.iter().map(|(id, slot)| (*id, slot.held()));
        Held { own: own.held(), beside: beside.filter(|(_, held)| held.is_some()).collect() }
    }

    fn hold(&mut self, key: usize, held: &Held) {
        let beside = held.beside.iter().map(|(id, held)| (*id, Slot::of(held)));
        self.slots[key][KEY] = Slots { own: Slot::of(&held.own), beside: beside.collect() };
    }
}

/// The record that was stored so.
pub(super) fn record_of(stored: &Stored) -> Record {
    Record::read(stored).expect("a record that was stored")
}

/// The shipped scripts.
#[derive(Debug)]
pub struct Scripts {
    store: SimStore,
    /// Which keys were beside each.
    beside: [BTreeSet<RequestId>; MAX_KEYS],
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
        Scripts { store, beside: Default::default() }
    }

    /// The store that they run on.
    pub fn store(&self) -> &SimStore {
        &self.store
    }
}

impl Runs for Scripts {
    fn run_one<C: Command>(
        &mut self,
        (key, name): Place,
        command: &C,
        now: Timestamp,
    ) -> Result<C::Outcome, Refusal> {
        self.store.set_now(now);
        self.beside[key].extend(command.beside());
        Ok(self.store.run(NAMES[key][name], command)?)
    }
}

impl Scripts {
    fn held_by(&self, name: &str) -> HeldByOne {
        // What never expires shows as what lives for ever.
        let expire_ms = self.store.expires_at_ms(name).map_or(u64::MAX, i64::unsigned_abs);
        self.store.stored(name).map(|stored| (stored, expire_ms))
    }

    fn hold_by(&mut self, name: &str, held: &HeldByOne) {
        let name = name.as_bytes();
        self.store.execute(&[b"DEL", name]);
        let Some((stored, expire_ms)) = held else { return };
        let command: &[u8] = match stored {
            Stored::Text(_) => b"SET",
            Stored::List(_) => b"RPUSH",
        };
        for one in stored.to_bytes() {
            self.store.execute(&[command, name, &one]);
        }
        self.store.execute(&[b"PEXPIREAT", name, expire_ms.to_string().as_bytes()]);
    }
}

impl Server for Scripts {
    fn clear(&mut self) {
        self.store.flush_all();
        self.beside = Default::default();
        self.store.set_now(Timestamp::EPOCH);
    }

    fn run(
        &mut self,
        key: usize,
        operation: &Operation,
        now: Timestamp,
    ) -> Result<Outcome, String> {
        self.dispatch(key, operation, now)
    }

    fn is_held(&mut self, key: usize, now: Timestamp) -> bool {
        self.store.set_now(now);
        self.store.stored(NAMES[key][KEY]).is_some()
    }

    fn is_held_beside(&mut self, key: usize, id: RequestId, now: Timestamp) -> bool {
        self.store.set_now(now);
        self.store.stored(&key_beside(NAMES[key][KEY], id)).is_some()
    }

    fn held(&mut self, key: usize) -> Held {
        // What is over may be alive again once a clock is set back.
        self.store.set_now(Timestamp::EPOCH);
        let name = NAMES[key][KEY];
        let beside = self.beside[key].iter();
        let beside = beside.map(|id| (*id, self.held_by(&key_beside(name, *id))));
        let beside = beside.filter(|(_, held)| held.is_some()).collect();
        Held { own: self.held_by(name), beside }
    }

    fn hold(&mut self, key: usize, held: &Held) {
        // By a clock that shows a later time it might expire at once.
        self.store.set_now(Timestamp::EPOCH);
        let name = NAMES[key][KEY];
        self.hold_by(name, &held.own);
        for id in self.beside[key].clone() {
            self.hold_by(&key_beside(name, id), held.beside.get(&id).unwrap_or(&None));
        }
    }
}

#[cfg(test)]
mod tests {
    use lockage_core::lock::Stripes;

    use super::*;

    #[test]
    fn keys_are_named_as_stripes() {
        let stripes = Stripes::new(MAX_KEYS as u32).unwrap();
        for (stripe, names) in (0..).zip(NAMES) {
            assert_eq!(names[KEY], format!("world:{{{}}}", stripes.name("key", stripe)));
        }
    }
}
