//! Engines, which decide alike: the shipped scripts on a simulated server, the Rust machines, or the in-process store.

mod agreeing;
mod scripts;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use lockage::limiter::bounded_at;
use lockage_core::{
    Acquire, Command, CostError, Decision, Limit, ManualClock, Record, RecordError, Timestamp,
};
use lockage_memory::{MemoryError, MemoryStore};
use thiserror::Error;

use crate::store::SimError;
#[cfg(feature = "lua")]
use crate::store::SimStore;
pub use agreeing::AgreeingEngine;
pub use scripts::{ScriptEngine, ScriptStore};

/// Below this many keys nothing is swept.
const SWEEP_FLOOR: usize = 1024;

/// Returns the limit with the boundaries of its calendar windows around a time, which calls at that time need.
pub fn bounded(limit: &Limit, now: Timestamp) -> Limit {
    limit.with_calendar(|window| bounded_at(window, now))
}

/// Decides requests, one key at a time, at given times.
pub trait Engine {
    /// Decides `request` on a key at `now`.
    ///
    /// # Errors
    /// [`EngineError`]; the key is unchanged.
    fn acquire(
        &mut self,
        key: &str,
        request: &Acquire,
        now: Timestamp,
    ) -> Result<Decision, EngineError>;

    /// Returns the work of the store so far; `None` without a store.
    fn store_use(&self) -> Option<StoreUse> {
        None
    }
}

/// The work of a store for the decisions of one limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreUse {
    /// Script runs, one per decision.
    pub scripts: u64,
    /// Commands that scripts ran, by their names in lower case.
    pub commands: BTreeMap<&'static str, u64>,
    /// The bytes of the largest record, without its key and the server's overhead.
    pub largest_record: u64,
    /// The mean over keys of their largest records.
    pub mean_record: f64,
}

/// An engine gave no decision.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The request is invalid.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// The simulated store refused.
    #[error(transparent)]
    Store(#[from] SimError),
    /// The key holds another record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The scripts decide otherwise than the machines.
    #[error("the scripts decide {scripts:?}, and the machines {machines:?}")]
    Disagree {
        /// The scripts' decision.
        scripts: Box<Result<Decision, String>>,
        /// The machines' decision.
        machines: Box<Result<Decision, String>>,
    },
    /// Callers that wait ask more often than this.
    #[error(
        "callers that wait ask more than {most} times in all; take a shorter wait, fewer requests or a higher limit"
    )]
    TooManyCalls {
        /// The bound.
        most: u64,
    },
}

/// Names an engine on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum EngineKind {
    /// The shipped Lua scripts, on the simulated server.
    #[default]
    Lua,
    /// The Rust machines.
    Model,
    /// The in-process store, which also drops expired records.
    Memory,
}

impl EngineKind {
    /// Returns its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Lua => "lua",
            EngineKind::Model => "model",
            EngineKind::Memory => "memory",
        }
    }

    /// Returns a constructor of engines of this kind, with C Lua for the scripts.
    #[cfg(feature = "lua")]
    pub fn builder(self) -> fn() -> Result<Box<dyn Engine>, EngineError> {
        match self {
            EngineKind::Lua => || Ok(Box::new(ScriptEngine::new(SimStore::new()?))),
            EngineKind::Model => || Ok(Box::new(ModelEngine::default())),
            EngineKind::Memory => || Ok(Box::new(MemoryEngine::default())),
        }
    }

    /// Creates an engine of this kind, with C Lua for the scripts.
    ///
    /// # Errors
    /// If Lua cannot get memory.
    #[cfg(feature = "lua")]
    pub fn build(self) -> Result<Box<dyn Engine>, EngineError> {
        self.builder()()
    }
}

/// The machines of `lockage-core` over a map of records.
#[derive(Debug, Default)]
pub struct ModelEngine {
    records: HashMap<String, Option<Record>>,
    sweep_at_len: usize,
}

impl Engine for ModelEngine {
    fn acquire(
        &mut self,
        key: &str,
        request: &Acquire,
        now: Timestamp,
    ) -> Result<Decision, EngineError> {
        if let Some(slot) = self.records.get_mut(key) {
            return Ok(request.apply(slot, now)?);
        }
        self.sweep_when_grown(now);
        let slot = self.records.entry(key.to_owned()).or_default();
        Ok(request.apply(slot, now)?)
    }
}

impl ModelEngine {
    /// Drops expired records (invisible by property D9) each time their number has doubled.
    fn sweep_when_grown(&mut self, now: Timestamp) {
        if self.records.len() < self.sweep_at_len.max(SWEEP_FLOOR) {
            return;
        }
        self.records.retain(|_, slot| slot.as_ref().is_some_and(|record| record.forget_at() > now));
        self.sweep_at_len = self.records.len() * 2;
    }
}

/// The in-process store, whose clock is set to the time of each request.
pub struct MemoryEngine {
    store: MemoryStore<Arc<ManualClock>>,
    clock: Arc<ManualClock>,
}

impl Default for MemoryEngine {
    fn default() -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
        MemoryEngine { store: MemoryStore::with_clock(Arc::clone(&clock)), clock }
    }
}

impl Engine for MemoryEngine {
    fn acquire(
        &mut self,
        key: &str,
        request: &Acquire,
        now: Timestamp,
    ) -> Result<Decision, EngineError> {
        self.clock.set(now);
        self.store.run(key, request).map_err(|error| match error {
            MemoryError::Record(error) => error.into(),
            // Invariant: this store has no bound on its keys.
            other => unreachable!("{other}"),
        })
    }
}

#[cfg(all(test, feature = "lua"))]
mod tests {
    use std::time::Duration;

    use lockage_core::Limit;

    use super::*;

    const START_US: u64 = 1_763_700_000_000_000;
    const LIMITS: [&str; 6] = [
        "fixed-window 3/s",
        "sliding-log 3/s",
        "sliding-window 3/s",
        "token-bucket 3/s burst 2",
        "token-bucket 2 every 1s burst 3",
        "leaky-bucket 3/s queue 2",
    ];

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(START_US + micros).unwrap()
    }

    #[test]
    fn all_engines_decide_alike_field_by_field() {
        for text in LIMITS {
            let limit: Limit = text.parse().unwrap();
            let kinds = [EngineKind::Lua, EngineKind::Model, EngineKind::Memory];
            let [mut lua, mut model, mut memory] = kinds.map(|kind| kind.build().unwrap());
            let mut seed = 1u64;
            for step in 0..2000u64 {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let random = seed >> 33;
                let (key, cost) = (["a", "b", "c"][(random % 3) as usize], 1 + random / 3 % 4);
                let now = at(step * 100_000 + random % 150_000);
                let patience = Duration::from_micros(random % 1_000_000);
                let request = Acquire::new(limit, cost).unwrap().within(patience);
                let decided = lua.acquire(key, &request, now);
                assert_eq!(decided, model.acquire(key, &request, now), "{text}, step {step}");
                assert_eq!(decided, memory.acquire(key, &request, now), "{text}, step {step}");
                assert!(decided.is_ok());
            }
        }
    }

    #[test]
    fn the_store_reports_its_scripts_commands_and_records() {
        let mut engine = ScriptEngine::new(SimStore::new().unwrap());
        let request = Acquire::new("fixed-window 1/s".parse::<Limit>().unwrap(), 1).unwrap();
        for key in ["a", "b", "a"] {
            _ = engine.acquire(key, &request, at(0)).unwrap();
        }
        let StoreUse { scripts, commands, largest_record, mean_record } =
            engine.store_use().unwrap();
        // The third one is denied, and writes nothing.
        assert_eq!((scripts, commands["get"], commands["set"]), (3, 3, 2));
        let record = engine.store().stored("a").unwrap().to_bytes().concat();
        assert_eq!((largest_record, mean_record), (record.len() as u64, record.len() as f64));
        assert_eq!(ModelEngine::default().store_use(), None);
    }

    #[test]
    fn the_model_keeps_only_the_keys_that_matter() {
        let mut engine = ModelEngine::default();
        let limit: Limit = "fixed-window 3/s".parse().unwrap();
        let request = Acquire::new(limit, 1).unwrap();
        for i in 0..100_000 {
            _ = engine.acquire(&format!("key {i}"), &request, at(i * 10_000)).unwrap();
            assert!(engine.records.len() <= SWEEP_FLOOR);
        }
    }
}
