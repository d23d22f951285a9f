//! The third server that a world can have: the store in process, which runs the Rust machines and drops by itself what is over.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockage_core::{
    Command, ManualClock, Record, RecordError, ReplyError, RequestId, ScriptId, TextCall, Timestamp,
};
use lockage_memory::{GRACE, MemoryStore};

use super::server::{
    Held, HeldByOne, MAX_KEYS, Operation, Outcome, Place, Refusal, Runs, Server, record_of,
};

/// Each key of a world, and each value behind one, is in a store of its own, so that it is dropped at the same time in every run: by
/// which call of another key depends on where both are kept.
pub struct InProcess {
    stores: [[MemoryStore<Arc<ManualClock>>; 2]; MAX_KEYS],
    /// Which keys were beside each.
    beside: [BTreeSet<RequestId>; MAX_KEYS],
    clock: Arc<ManualClock>,
}

impl Default for InProcess {
    fn default() -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
        let store = || MemoryStore::with_clock(Arc::clone(&clock));
        let stores = [(); MAX_KEYS].map(|()| [store(), store()]);
        InProcess { stores, beside: Default::default(), clock }
    }
}

/// The name of all keys.
const KEY: &str = "world";

impl Runs for InProcess {
    fn run_one<C: Command>(
        &mut self,
        (key, name): Place,
        command: &C,
        now: Timestamp,
    ) -> Result<C::Outcome, Refusal> {
        self.clock.set(now);
        self.beside[key].extend(command.beside());
        Ok(self.stores[key][name].run(KEY, command)?)
    }
}

impl InProcess {
    /// What is under a key, or beside it, in whose place this is put if there is any. At this time nothing is over,
    /// and so nothing is dropped.
    fn exchange(
        &self,
        key: usize,
        beside: Option<RequestId>,
        held: Option<&HeldByOne>,
    ) -> HeldByOne {
        self.clock.set(Timestamp::EPOCH);
        let put = held.map(|held| held.as_ref().map(|(stored, _)| record_of(stored)));
        let record = self.stores[key][0].run(KEY, &Exchange { beside, put }).ok().flatten()?;
        Some((record.stored(), record.forget_at().as_micros().div_ceil(1000)))
    }

    fn purge(&self, key: usize, now: Timestamp) {
        // What is over now is dropped now.
        self.clock.set(now.saturating_add(GRACE));
        self.stores[key][0].purge();
    }
}

impl Server for InProcess {
    fn clear(&mut self) {
        *self = InProcess::default();
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
        self.purge(key, now);
        self.exchange(key, None, None).is_some()
    }

    fn is_held_beside(&mut self, key: usize, id: RequestId, now: Timestamp) -> bool {
        self.purge(key, now);
        self.exchange(key, Some(id), None).is_some()
    }

    fn held(&mut self, key: usize) -> Held {
        let beside = self.beside[key].iter();
        let beside = beside.map(|id| (*id, self.exchange(key, Some(*id), None)));
        let beside = beside.filter(|(_, held)| held.is_some()).collect();
        Held { own: self.exchange(key, None, None), beside }
    }

    fn hold(&mut self, key: usize, held: &Held) {
        self.exchange(key, None, Some(&held.own));
        for id in &self.beside[key] {
            self.exchange(key, Some(*id), Some(held.beside.get(id).unwrap_or(&None)));
        }
    }
}

/// Tells what a key holds, or the one beside it, and puts something else in its place if it is told to.
#[derive(Clone)]
struct Exchange {
    beside: Option<RequestId>,
    put: Option<Option<Record>>,
}

impl Command for Exchange {
    type Outcome = Option<Record>;

    /// No store with scripts is asked.
    fn encode_text(&self) -> TextCall {
        TextCall::new(ScriptId::LimiterPeek)
    }

    fn outcome(&self, _: &[i64]) -> Result<Self::Outcome, ReplyError> {
        Err(ReplyError::Unexpected)
    }

    fn apply(&self, slot: &mut Option<Record>, _: Timestamp) -> Result<Self::Outcome, RecordError> {
        let before = slot.clone();
        if let Some(record) = &self.put {
            slot.clone_from(record);
        }
        Ok(before)
    }

    fn beside(&self) -> Option<RequestId> {
        self.beside
    }

    fn apply_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Self::Outcome, RecordError> {
        self.apply(if self.beside.is_some() { beside } else { slot }, now)
    }
}
