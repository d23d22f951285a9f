//! The third server that a world can have: the store in process, which runs the Rust machines and drops by itself what is over.

use std::sync::Arc;

use lockage_core::{
    Command, ManualClock, Record, RecordError, ReplyError, ScriptId, TextCall, Timestamp,
};
use lockage_memory::{GRACE, MemoryStore};

use super::server::{Held, MAX_KEYS, Operation, Outcome, Place, Refusal, Runs, Server};

/// Each key of a world, and each value behind one, is in a store of its own, so that it is dropped at the same time in every run: by
/// which call of another key depends on where both are kept.
pub struct InProcess {
    stores: [[MemoryStore<Arc<ManualClock>>; 2]; MAX_KEYS],
    clock: Arc<ManualClock>,
}

impl Default for InProcess {
    fn default() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = || MemoryStore::with_clock(Arc::clone(&clock));
        InProcess { stores: [(); MAX_KEYS].map(|()| [store(), store()]), clock }
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
        Ok(self.stores[key][name].run(KEY, command)?)
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
        // What is over now is dropped now.
        self.clock.set(now.saturating_add(GRACE));
        let store = &self.stores[key][0];
        store.purge();
        !store.is_empty()
    }

    fn held(&mut self, key: usize) -> Held {
        // At this time nothing is over, and so nothing is dropped.
        let record = self.run_one((key, 0), &Exchange(None), Timestamp::EPOCH).ok().flatten();
        record.map(|record| (record.stored(), millis_up(record.forget_at())))
    }

    fn hold(&mut self, key: usize, held: &Held) {
        let read = |stored| Record::read(stored).expect("a record that was stored");
        let record = held.as_ref().map(|(stored, _)| read(stored));
        // It changes what is there, and refuses nothing.
        let _ = self.run_one((key, 0), &Exchange(Some(record)), Timestamp::EPOCH);
    }
}

/// The last millisecond at which a record that is forgotten then is there.
fn millis_up(forget_at: Timestamp) -> u64 {
    forget_at.as_micros().div_ceil(1000)
}

/// Tells what a key holds, and puts something else in its place if it is told to.
#[derive(Clone)]
struct Exchange(Option<Option<Record>>);

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
        if let Some(record) = &self.0 {
            slot.clone_from(record);
        }
        Ok(before)
    }
}
