//! A record in the least memory.

use alloc::boxed::Box;

use super::{Body, Record};
use crate::lease::time;
use crate::limiter::LimitState;
use crate::time::Timestamp;

/// A record as a store in this process keeps it.
///
/// A counter with nothing but its state, as most records are, takes a fourth of a [`Record`] and no
/// allocation.
#[derive(Clone, Debug)]
pub struct CompactRecord(Form);

#[derive(Clone, Debug)]
enum Form {
    Counter(LimitState),
    /// Always some between calls.
    Other(Box<Option<Record>>),
}

impl CompactRecord {
    /// Runs a command on the record in a slot. Returns its outcome, and whether a record is left; if not, drop this
    /// one.
    pub fn run<T>(&mut self, command: impl FnOnce(&mut Option<Record>) -> T) -> (T, bool) {
        match &mut self.0 {
            Form::Counter(part) => {
                let mut slot = Some(Record::of(Body::Counter(*part)));
                let outcome = command(&mut slot);
                match slot.as_ref().map(Record::bare_counter) {
                    None => return (outcome, false),
                    // In its place: a record takes some time to move.
                    Some(Some(now)) => *part = now,
                    Some(None) => self.0 = Form::Other(Box::new(slot)),
                }
                (outcome, true)
            }
            Form::Other(slot) => {
                let outcome = command(slot);
                let is_left = slot.is_some();
                if let Some(part) = (**slot).as_ref().and_then(Record::bare_counter) {
                    self.0 = Form::Counter(part);
                }
                (outcome, is_left)
            }
        }
    }

    /// Returns the record, unless a command has left none.
    pub fn into_record(self) -> Option<Record> {
        match self.0 {
            Form::Counter(part) => Some(Record::of(Body::Counter(part))),
            Form::Other(slot) => *slot,
        }
    }

    /// Returns whether it holds no more than what requests to a limiter have used: no lock, block, stored limit, or
    /// reservation is lost with it.
    pub fn is_mere_use(&self) -> bool {
        match &self.0 {
            Form::Counter(_) => true,
            Form::Other(slot) => (**slot).as_ref().is_some_and(Record::is_mere_use),
        }
    }

    /// Returns [`Record::forget_at`].
    pub fn forget_at(&self) -> Timestamp {
        match &self.0 {
            Form::Counter(part) => time(part.forget_at()),
            Form::Other(slot) => (**slot).as_ref().map_or(Timestamp::EPOCH, Record::forget_at),
        }
    }
}

impl From<Record> for CompactRecord {
    fn from(record: Record) -> Self {
        CompactRecord(Form::of(record))
    }
}

impl Form {
    fn of(record: Record) -> Self {
        match record.bare_counter() {
            Some(part) => Form::Counter(part),
            None => Form::Other(Box::new(Some(record))),
        }
    }
}

impl Record {
    fn is_mere_use(&self) -> bool {
        self.body.limits().is_some() && self.is_open() && self.reservations.is_none()
    }

    /// Returns the state of a counter, if nothing else is stored.
    fn bare_counter(&self) -> Option<LimitState> {
        match self.body {
            Body::Counter(part) if self.policy.is_none() && self.has_nothing_behind() => Some(part),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::{Acquire, Adjust, Command, Limit, Peek, Reset};

    #[test]
    fn a_counter_takes_a_fourth() {
        assert!(size_of::<CompactRecord>() <= 80, "{}", size_of::<CompactRecord>());
    }

    /// D9: whatever is stored besides a counter's state comes and goes with it.
    #[test]
    fn d9_a_record_is_kept_whole_in_either_form() {
        let limit: Limit = "fixed-window 5/s".parse().unwrap();
        let now = Timestamp::from_micros(1_000_000).unwrap();
        let mut slot = None;
        _ = Acquire::new(limit, 1).unwrap().apply(&mut slot, now).unwrap();
        let mut compact = CompactRecord::from(slot.clone().unwrap());
        let block = Adjust::block(limit, Duration::from_secs(9)).unwrap();
        _ = block.apply(&mut slot, now).unwrap();
        let (blocked, is_left) = compact.run(|slot| block.apply(slot, now));
        assert!(blocked.is_ok() && is_left);
        let at = slot.as_ref().unwrap().forget_at();
        assert_eq!(compact.forget_at(), at);
        assert_eq!(compact.run(|other| *other == slot), (true, true));
        let (peeked, _) = compact.run(|slot| Peek::new(limit, 1).apply(slot, now));
        assert!(!peeked.unwrap().is_allowed());
        // Once the block has ended, it is a counter again.
        let (allowed, _) = compact.run(|slot| Acquire::new(limit, 2).unwrap().apply(slot, at));
        assert!(allowed.unwrap().is_allowed());
        assert!(matches!(compact.0, Form::Counter(_)));
        assert_eq!(compact.run(|slot| Reset.apply(slot, at)), (Ok(true), false));
    }
}
