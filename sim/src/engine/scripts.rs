//! The shipped scripts on a simulated store.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use lockage_core::{Acquire, Decision, Timestamp};

use super::{Engine, EngineError, StoreUse};
use crate::store::SimError;
#[cfg(feature = "lua")]
use crate::store::SimStore;

/// A simulated store that runs the shipped scripts, in whatever Lua.
pub trait ScriptStore {
    /// Sets the server's clock.
    fn set_now(&mut self, now: Timestamp);

    /// Decides a request through its script.
    ///
    /// # Errors
    /// [`SimError`]
    fn acquire(&mut self, key: &str, request: &Acquire) -> Result<Decision, SimError>;

    /// Returns the bytes of a key's record.
    fn record_bytes(&self, key: &str) -> u64;

    /// Returns how often scripts have run each command.
    fn commands_run(&self) -> BTreeMap<&'static str, u64>;
}

#[cfg(feature = "lua")]
impl ScriptStore for SimStore {
    fn set_now(&mut self, now: Timestamp) {
        SimStore::set_now(self, now);
    }

    fn acquire(&mut self, key: &str, request: &Acquire) -> Result<Decision, SimError> {
        self.run(key, request)
    }

    fn record_bytes(&self, key: &str) -> u64 {
        SimStore::record_bytes(self, key)
    }

    fn commands_run(&self) -> BTreeMap<&'static str, u64> {
        SimStore::commands_run(self)
    }
}

/// The shipped scripts on a store, whose clock is set to the time of each request.
#[derive(Debug)]
pub struct ScriptEngine<S> {
    store: S,
    scripts: u64,
    /// The bytes of the largest record of each key.
    records: HashMap<String, u64>,
}

impl<S> ScriptEngine<S> {
    /// Creates an engine on an empty store.
    pub fn new(store: S) -> ScriptEngine<S> {
        ScriptEngine { store, scripts: 0, records: HashMap::new() }
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }
}

impl<S: ScriptStore> Engine for ScriptEngine<S> {
    fn acquire(
        &mut self,
        key: &str,
        request: &Acquire,
        now: Timestamp,
    ) -> Result<Decision, EngineError> {
        self.store.set_now(now);
        let decision = self.store.acquire(key, request)?;
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
