//! One moment of a scope.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lockage_core::lock::{Inspection, REMEMBERED};
use lockage_core::{Command, Record, Stored};

use super::judge::Law;
use super::machine::{Ask, Request, Told, time};
use super::scope::Scope;

/// All that can differ at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The tick.
    pub(super) now: u64,
    /// What the store has.
    pub(super) store: Arc<Store>,
    /// What its replica has, while it can still take over.
    pub(super) replica: Option<Arc<Store>>,
    /// How often it has.
    pub(super) failovers: u8,
    /// Those who want the lock.
    pub(super) owners: Vec<Owner>,
    /// The largest token ever given out.
    pub(super) newest: u64,
    /// Tokens of grants that were broken.
    pub(super) broken: Vec<u64>,
    /// The law that the last step broke.
    pub(super) broke: Option<Law>,
}

/// What the store has: the record, and what is known of its past to judge by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Store {
    /// What is stored under the key.
    pub(super) slot: Option<Record>,
    /// What was acquired by the latest grant and not given back, the oldest first.
    pub(super) holds: Vec<Held>,
    /// The latest holds that ended, the oldest first.
    pub(super) ended: Vec<Ended>,
    /// The waiters in line, in their order, and when each last polled.
    pub(super) line: Vec<InLine>,
    /// The record as text, which is cheaper to hash.
    text: Option<Stored>,
}

/// A hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    /// Whose it is.
    pub(super) owner: usize,
    /// Which of the holder's operations has acquired it.
    pub(super) operation: u8,
    /// When.
    pub(super) at: u64,
}

/// A hold that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ended {
    pub(super) held: Held,
    /// When.
    pub(super) at: u64,
    pub(super) how: How,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum How {
    /// It was given back, and told so.
    Released(Told),
    /// Its grant of this token was broken.
    Broken(u64),
    /// Its lease was over when the lock was granted again.
    Expired,
}

impl Grant {
    /// The operations that have acquired it.
    pub(super) fn holds(&self) -> impl Iterator<Item = u8> {
        let holds = self.holds;
        (0..16).filter(move |operation| holds & 1 << operation > 0)
    }
}

impl Held {
    /// Whether it is that of this owner's operation.
    pub(super) fn is(&self, owner: usize, operation: u8) -> bool {
        (self.owner, self.operation) == (owner, operation)
    }
}

/// One who waits in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InLine {
    /// Who.
    pub(super) owner: usize,
    /// When it last polled.
    pub(super) asked: u64,
    /// Whether it may have lost its place: it polled again after the place could have ended.
    pub(super) is_unsure: bool,
}

/// An owner, and what it believes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    /// The number of operations that it has sent.
    pub(super) used: u8,
    /// The messages of it that can still arrive, also repeatedly.
    pub(super) under_way: BTreeSet<Request>,
    /// The operation whose answer it waits for.
    pub(super) pending: Option<Request>,
    /// The answers to that which can arrive.
    pub(super) answers: BTreeSet<Told>,
    /// An acquire that it gave up without an answer.
    pub(super) unsettled: Option<Request>,
    /// What it believes to hold.
    pub(super) grant: Option<Grant>,
}

/// A grant as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Grant {
    /// Its token.
    pub(super) token: u64,
    /// Which of the owner's operations have acquired it: a bit for each.
    pub(super) holds: u16,
    /// Until when it counts on it.
    pub(super) until: u64,
}

impl State {
    /// The beginning: nothing stored, nothing sent.
    pub(super) fn first(scope: &Scope) -> State {
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
    pub(super) fn inside(&self) -> impl Iterator<Item = (usize, Grant)> {
        let counts = |grant: &Grant| !self.broken.contains(&grant.token);
        let grants = self.owners.iter().enumerate();
        grants.filter_map(move |(at, owner)| Some((at, owner.grant.filter(counts)?)))
    }
}

impl Store {
    /// With this record and these in line, where nothing was done.
    pub(super) fn after(&self, slot: Option<Record>, line: Vec<InLine>) -> Store {
        let text = slot.as_ref().map(Record::stored);
        Store { slot, line, text, ..self.clone() }
    }

    /// An operation was done, and told so.
    pub(super) fn learn(&mut self, request: &Request, told: Told, now: u64) {
        let Request { owner, operation, .. } = *request;
        match (request.ask, told) {
            (Ask::Acquire { .. } | Ask::LineUp { .. }, Told::Done { holds, .. }) => {
                if holds <= 1 {
                    self.end_all(How::Expired, now);
                }
                self.holds.push(Held { owner, operation, at: now });
            }
            (Ask::Release { hold }, _) => {
                let at = self.holds.iter().position(|held| held.is(owner, hold));
                // It is judged elsewhere whether there was one.
                if let Some(held) = at.map(|at| self.holds.remove(at)) {
                    self.end(held, How::Released(told), now);
                }
            }
            (Ask::ForceRelease { token }, _) => self.end_all(How::Broken(token), now),
            _ => {}
        }
    }

    /// Whether the latest grant has this hold.
    pub(super) fn has(&self, owner: usize, operation: u8) -> bool {
        self.holds.iter().any(|held| held.is(owner, operation))
    }

    fn end_all(&mut self, how: How, now: u64) {
        for held in std::mem::take(&mut self.holds) {
            self.end(held, how, now);
        }
    }

    fn end(&mut self, held: Held, how: How, at: u64) {
        if self.ended.len() == REMEMBERED {
            self.ended.remove(0);
        }
        self.ended.push(Ended { held, at, how });
    }

    /// What of it counts at this tick: a record that may be forgotten is.
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
        self.holds.hash(hasher);
        self.ended.hash(hasher);
        self.line.hash(hasher);
    }
}

/// Who holds what is in the slot, and how many wait.
pub(super) fn inspect(scope: &Scope, slot: &mut Option<Record>, now: u64) -> Inspection {
    scope.lock().inspect().apply(slot, time(now)).expect("the slot is this lock's")
}
