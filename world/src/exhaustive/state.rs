//! The states of a scope.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lockage_core::lock::Inspection;
use lockage_core::{Command, Record, Stored};
use lockage_oracle::lock::laws::Laws;

use super::judge::Law;
use super::machine::{Request, Told, time};
use super::scope::Scope;

/// The complete state at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The tick.
    pub(super) now: u64,
    /// The primary's state.
    pub(super) store: Arc<Store>,
    /// The replica's state, while it can still take over.
    pub(super) replica: Option<Arc<Store>>,
    /// How often a replica has taken over.
    pub(super) failovers: u8,
    /// The owners that want the lock.
    pub(super) owners: Vec<Owner>,
    /// Tokens of grants that were broken.
    pub(super) broken: Vec<u64>,
    /// The laws that the last step broke.
    pub(super) broke: Vec<Law>,
}

/// The state of a store: the record, and the history by which it is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Store {
    /// The record stored under the key.
    pub(super) slot: Option<Record>,
    /// The lock's history, for the judge.
    pub(super) laws: Laws,
    /// The record as text, which is cheaper to hash.
    text: Option<Stored>,
}

impl Grant {
    /// Returns the operations whose holds it has.
    pub(super) fn holds(&self) -> impl Iterator<Item = u8> {
        let holds = self.holds;
        (0..16).filter(move |operation| holds & 1 << operation > 0)
    }
}

/// An owner, and its beliefs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    /// The number of operations that it has sent.
    pub(super) used: u8,
    /// Its messages that can still arrive, also repeatedly.
    pub(super) under_way: BTreeSet<Request>,
    /// The operation whose answer it waits for.
    pub(super) pending: Option<Request>,
    /// The answers to that operation that can arrive.
    pub(super) answers: BTreeSet<Told>,
    /// An acquire that it gave up without an answer.
    pub(super) unsettled: Option<Request>,
    /// The grant that it believes to hold.
    pub(super) grant: Option<Grant>,
}

/// A grant as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Grant {
    /// Its token.
    pub(super) token: u64,
    /// Which of the owner's operations have acquired it: a bit for each.
    pub(super) holds: u16,
    /// The tick until which the owner counts on it.
    pub(super) until: u64,
}

impl State {
    /// Returns the first state: nothing is stored or sent.
    pub(super) fn first(scope: &Scope) -> State {
        State {
            now: 1,
            store: Arc::default(),
            replica: (scope.failovers > 0).then(Arc::default),
            failovers: 0,
            owners: vec![Owner::default(); scope.owners],
            broken: Vec::new(),
            broke: Vec::new(),
        }
    }

    /// Returns the clients inside: those that count on a grant that was not broken.
    pub(super) fn inside(&self) -> impl Iterator<Item = (usize, Grant)> {
        let counts = |grant: &Grant| !self.broken.contains(&grant.token);
        let grants = self.owners.iter().enumerate();
        grants.filter_map(move |(at, owner)| Some((at, owner.grant.filter(counts)?)))
    }
}

impl Store {
    /// Creates a store with this record and this history.
    pub(super) fn new(slot: Option<Record>, laws: Laws) -> Store {
        let text = slot.as_ref().map(Record::stored);
        Store { slot, laws, text }
    }

    /// Returns the state as of this tick, without a record that may be forgotten by then.
    pub(super) fn at(self: &Arc<Store>, now: u64) -> Arc<Store> {
        match &self.slot {
            Some(record) if record.forget_at() <= time(now) => {
                Arc::new(Store { slot: None, text: None, ..Store::clone(self) })
            }
            _ => Arc::clone(self),
        }
    }
}

impl Hash for Store {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match &self.text {
            Some(Stored::Text(text)) => text.hash(hasher),
            _ => hasher.write_u8(0),
        }
        self.laws.hash(hasher);
    }
}

/// Returns the holder of the record in the slot, and the number of waiters.
pub(super) fn inspect(scope: &Scope, slot: &mut Option<Record>, now: u64) -> Inspection {
    scope.lock().inspect().apply(slot, time(now)).expect("the slot is this lock's")
}
