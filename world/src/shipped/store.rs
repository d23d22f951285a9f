//! The store of these worlds: the machines under any key, and what is published.

use std::collections::BTreeMap;

use lockage::StoreError;
use lockage_core::{AnyCommand, AnyOutcome, Command, Decision, Limit, Peek, Publish, Timestamp};

use crate::simulation::Slots;

/// What its clock shows when the world begins: late in 2025.
const BEGINNING_US: u64 = 1_763_700_000_000_000;

#[derive(Default)]
pub(super) struct Keys {
    slots: BTreeMap<String, Slots>,
}

/// What its clock shows.
pub(super) fn store_time(true_us: u64) -> Timestamp {
    Timestamp::from_micros(BEGINNING_US + true_us).expect("late in 2025")
}

impl Keys {
    pub(super) fn run(
        &mut self,
        key: &str,
        command: &AnyCommand,
        now: Timestamp,
    ) -> (Result<AnyOutcome, StoreError>, Option<String>) {
        let slots = self.slots.entry(key.to_owned()).or_default();
        let outcome = match slots.run(command, now) {
            Ok(outcome) => outcome,
            Err(error) => return (Err(error.into()), None),
        };
        let message = match command.publishes(&outcome, slots.record()) {
            Publish::Nothing => None,
            Publish::Any => Some(String::new()),
            Publish::To(name) => Some(format!("{name:032x}")),
        };
        (Ok(outcome), message)
    }

    /// Returns what a request would be told.
    pub(super) fn peek(&self, key: &str, limit: Limit, cost: u64, now: Timestamp) -> Decision {
        let mut slots = self.slots.get(key).cloned().unwrap_or_default();
        slots.run(&Peek::new(limit, cost), now).expect("the key is the limiter's")
    }
}
