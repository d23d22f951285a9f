//! The shipped scripts on the simulated store.

use std::collections::HashMap;

use lockage_core::{Acquire, Decision, Timestamp};

use super::{Engine, EngineError, StoreUse};
use crate::store::{SimError, SimStore};

/// The shipped scripts on a [`SimStore`], whose clock is set to the time of each request.
#[derive(Debug)]
pub struct LuaEngine {
    pub(super) store: SimStore,
    scripts: u64,
    /// The bytes of the largest record of each key.
    records: HashMap<String, u64>,
}

impl LuaEngine {
    /// Creates an engine on an empty store.
    ///
    /// # Errors
    /// [`SimError::Lua`] if Lua cannot get memory.
    pub fn new() -> Result<LuaEngine, SimError> {
        Ok(LuaEngine { store: SimStore::new()?, scripts: 0, records: HashMap::new() })
    }
}

impl Engine for LuaEngine {
    fn acquire(
        &mut self,
        key: &str,
        request: &Acquire,
        now: Timestamp,
    ) -> Result<Decision, EngineError> {
        self.store.set_now(now);
        let decision = self.store.run(key, request)?;
        self.scripts += 1;
        let bytes = self.store.record_bytes(key);
        match self.records.get_mut(key) {
            Some(largest) => *largest = bytes.max(*largest),
            None => drop(self.records.insert(key.to_owned(), bytes)),
        }
        Ok(decision)
    }

    fn store_use(&self) -> Option<StoreUse> {
        let total: u64 = self.records.values().sum();
        Some(StoreUse {
            scripts: self.scripts,
            commands: self.store.commands_run(),
            largest_record: self.records.values().copied().max().unwrap_or(0),
            mean_record: total as f64 / self.records.len().max(1) as f64,
        })
    }
}
