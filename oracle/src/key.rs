//! One key, wherever it is kept, on which the machines' commands run.

use std::collections::BTreeMap;

use lockage_core::{Command, Record, Stored, Timestamp};

/// A key that runs commands.
pub trait Key {
    /// Runs one command at `now`.
    ///
    /// # Errors
    /// The text of the error.
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String>;

    /// Drops the record, as a store does with an expired key.
    fn forget(&mut self);
}

/// The contents of a key: the value, and the last millisecond since the epoch at which it is alive.
pub type Held = Option<(Stored, u64)>;

/// A key whose contents are visible.
pub trait Holds: Key {
    /// Returns the key's contents after the latest command.
    fn held(&mut self) -> Held;

    /// Returns the contents of the [second key](Command::beside) of the latest command, if any.
    fn held_beside(&mut self) -> Held {
        None
    }
}

/// Returns whether a record counts at a time, in microseconds. An unreadable one does.
pub fn is_there(held: &Held, now_us: u64) -> bool {
    held.as_ref().is_some_and(|(stored, _)| {
        Record::read(stored).map_or(true, |record| now_us < record.forget_at().as_micros())
    })
}

/// The Rust machines' own storage, with the second keys. It forgets nothing by itself.
#[derive(Clone, Debug, Default)]
pub struct Slot(pub Option<Record>, pub BTreeMap<u128, Option<Record>>);

impl Slot {
    /// Returns from when on the record may be forgotten, in microseconds; `None` without a record.
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
    /// Returns the record, which lives until it is dropped, with the millisecond from which on that is allowed.
    fn held(&mut self) -> Held {
        let forget_ms = self.forget_at_us()?.div_ceil(1000);
        self.0.as_ref().map(|record| (record.stored(), forget_ms))
    }
}

/// The largest time of traces, in microseconds, which is the largest that the machines take.
pub const MAX_TIME_US: u64 = (1 << 53) - (1 << 51) - 1;

/// Returns until when a copy of an operation may arrive, in microseconds; zero without a bound.
pub(crate) fn bound(not_after_us: u64) -> u64 {
    if not_after_us < MAX_TIME_US { not_after_us } else { 0 }
}

/// Returns a time that the machines take.
///
/// # Panics
/// If it is beyond their range.
pub fn time(now_us: u64) -> Timestamp {
    Timestamp::from_micros(now_us).expect("the suite stays within the range of time")
}
