//! One moment of a scope.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lockage_core::lock::{Inspection, REMEMBERED};
use lockage_core::{Command, Record, Stored};

use super::judge::Law;
use super::machine::{Request, Told, time};
use super::scope::Scope;

/// All that can differ at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The tick.
    pub now: u64,
    /// What the store has.
    pub store: Arc<Store>,
    /// What its replica has, while it can still take over.
    pub replica: Option<Arc<Store>>,
    /// How often it has.
    pub failovers: u8,
    /// Those who want the lock.
    pub owners: Vec<Owner>,
    /// The largest token ever given out.
    pub newest: u64,
    /// Tokens of grants that were broken.
    pub broken: Vec<u64>,
    /// The law that the last step broke.
    pub broke: Option<Law>,
}

/// What the store has: the record, and what is known of its past to judge by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Store {
    /// What is stored under the key.
    pub slot: Option<Record>,
    /// The latest operations that changed it, the oldest first, with their answers.
    pub done: Vec<Done>,
    /// Who came into line, in that order, and when he last asked.
    pub line: Vec<InLine>,
    /// The record as text, which is cheaper to hash.
    text: Option<Stored>,
}

/// An operation that changed the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Done {
    /// Whose it was.
    pub owner: usize,
    /// Which one.
    pub operation: u8,
    /// When.
    pub at: u64,
    /// What it was told.
    pub told: Told,
}

/// One who waits in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InLine {
    /// Who.
    pub owner: usize,
    /// When he last asked.
    pub asked: u64,
    /// Whether it is not known if he kept his place: he asked again after it could have ended.
    pub is_unsure: bool,
}

/// Somebody who wants the lock, and what he believes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// How many operations he has sent.
    pub used: u8,
    /// What he sent and can still arrive, be it again.
    pub under_way: BTreeSet<Request>,
    /// What he waits for an answer to.
    pub pending: Option<Request>,
    /// The answers to that which can arrive.
    pub answers: BTreeSet<Told>,
    /// An acquire that he gave up without an answer.
    pub unsettled: Option<Request>,
    /// What he believes to hold.
    pub grant: Option<Grant>,
}

/// A grant as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Its token.
    pub token: u64,
    /// How often he holds it.
    pub holds: u64,
    /// Until when he counts on it.
    pub until: u64,
}

impl State {
    /// The beginning: nothing stored, nothing sent.
    pub fn first(scope: &Scope) -> State {
        State {
            now: 1,
            store: Arc::default(),
            replica: (scope.failovers > 0).then(Arc::default),
            failovers: 0,
            owners: vec![Owner::default(); scope.owners],
            newest: 0,
            broken: Vec::new(),
            broke: None,
        }
    }

    /// Who is inside: counts on a grant that nobody broke.
    pub fn inside(&self) -> impl Iterator<Item = (usize, Grant)> {
        let counts = |grant: &Grant| !self.broken.contains(&grant.token);
        let grants = self.owners.iter().enumerate();
        grants.filter_map(move |(at, owner)| Some((at, owner.grant.filter(counts)?)))
    }
}

impl Store {
    /// With this record, after this operation.
    pub fn after(&self, slot: Option<Record>, done: Option<Done>, line: Vec<InLine>) -> Store {
        let text = slot.as_ref().map(Record::stored);
        let mut all = self.done.clone();
        all.extend(done);
        all.drain(..all.len().saturating_sub(REMEMBERED));
        Store { slot, done: all, line, text }
    }

    /// What of it counts at this tick: a record that may be forgotten is.
    pub fn at(self: &Arc<Store>, now: u64) -> Arc<Store> {
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
        self.done.hash(hasher);
        self.line.hash(hasher);
    }
}

/// Who holds what is in the slot, and how many wait.
pub fn inspect(scope: &Scope, slot: &mut Option<Record>, now: u64) -> Inspection {
    scope.lock().inspect().apply(slot, time(now)).expect("the slot is this lock's")
}
