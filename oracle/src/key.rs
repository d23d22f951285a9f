//! One key, wherever it is kept: what the machines' commands run on.

use std::collections::BTreeMap;

use lockage_core::{Command, Record, Stored, Timestamp};

/// Anything that runs commands on its one key.
pub trait Key {
    /// Runs one command at `now`.
    ///
    /// # Errors
    /// What the caller is told where the command was refused.
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String>;

    /// Drops what is stored, as a store does with an expired key.
    fn forget(&mut self);
}

/// What is stored under a key: the value, and the last millisecond since the epoch at which it is
/// alive.
pub type Held = Option<(Stored, u64)>;

/// A key whose contents can be looked at.
pub trait Holds: Key {
    /// What the key holds after the latest command.
    fn held(&mut self) -> Held;

    /// What the key holds that the latest command had [beside](Command::beside) its own, if it had one.
    fn held_beside(&mut self) -> Held {
        None
    }
}

/// Whether a record counts at a time, in microseconds. One that cannot be read does.
pub fn is_there(held: &Held, now_us: u64) -> bool {
    held.as_ref().is_some_and(|(stored, _)| {
        Record::read(stored).map_or(true, |record| now_us < record.forget_at().as_micros())
    })
}

/// The Rust machines' own storage, with what is kept beside it; it forgets nothing by itself.
#[derive(Clone, Debug, Default)]
pub struct Slot(pub Option<Record>, pub BTreeMap<u128, Option<Record>>);

impl Slot {
    /// From when on the record may be forgotten, in microseconds; nothing where there is none.
    pub fn forget_at_us(&self) -> Option<u64> {
        self.0.as_ref().map(|record| record.forget_at().as_micros())
    }
}

impl Key for Slot {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        let mut none = None;
        let beside = match command.beside() {
            Some(id) => self.1.entry(id.as_u128()).or_default(),
            None => &mut none,
        };
        command.apply_beside(&mut self.0, beside, now).map_err(|error| error.to_string())
    }

    fn forget(&mut self) {
        self.0 = None;
    }
}

impl Holds for Slot {
    /// The record, which lives until somebody drops it, with the millisecond from which on that may
    /// be.
    fn held(&mut self) -> Held {
        let forget_ms = self.forget_at_us()?.div_ceil(1000);
        self.0.as_ref().map(|record| (record.stored(), forget_ms))
    }
}

/// The largest time that traces have, in microseconds: the largest that the machines take.
pub const MAX_TIME_US: u64 = (1 << 53) - (1 << 51) - 1;

/// Returns a time that the machines take.
///
/// # Panics
/// Where it is beyond their range.
pub fn time(now_us: u64) -> Timestamp {
    Timestamp::from_micros(now_us).expect("the suite stays within the range of time")
}
