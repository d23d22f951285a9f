//! The record of a latch, and its text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{OperationId, REMEMBERED};
use crate::exact::MAX_SPAN_US;
use crate::lease::is_bound;
use crate::record::read_exact;

/// The record of a latch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LatchRecord {
    pub(super) left: u64,
    /// How long it is kept after each change.
    pub(super) keep: u64,
    /// From this time on the latch acts as if it had never been set; zero if it was not.
    pub(super) until: u64,
    /// The latest bound of the operations that are forgotten, until that has passed: one that is not for later may be a
    /// copy of one of them.
    pub(super) forgotten: u64,
    /// The oldest first.
    pub(super) done: Vec<Done>,
}

/// An operation that ran, and the count that was left then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) kind: Kind,
    pub(super) id: OperationId,
    pub(super) count: u64,
    pub(super) left: u64,
    /// See [`bound`](crate::lease::bound).
    pub(super) bound: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Set,
    CountDown,
}

impl LatchRecord {
    pub(crate) const TAG: &'static str = "D2";

    /// Returns the text that the scripts read and write: see latch_record.lua.
    pub(crate) fn to_text(&self) -> String {
        let LatchRecord { left, keep, until, forgotten, done } = self;
        let mut text = format!("{} {left} {keep} {until} {forgotten}", Self::TAG);
        for Done { kind, id, count, left, bound } in done {
            let letter = match kind {
                Kind::Set => "s",
                Kind::CountDown => "c",
            };
            text += &format!("|{letter}{id} {count} {left} {bound}");
        }
        text
    }

    /// Reads the part of such a text after its tag.
    pub(crate) fn from_text(rest: &str) -> Option<LatchRecord> {
        let mut pieces = rest.split('|');
        let [left, keep, until, forgotten] = read_exact(pieces.next()?)?;
        let done = pieces.map(Done::from_text).collect::<Option<Vec<Done>>>()?;
        let record = LatchRecord { left, keep, until, forgotten, done };
        let is_sound = keep <= MAX_SPAN_US / 2
            && record.done.len() <= REMEMBERED
            && record.bounds().all(is_bound);
        is_sound.then_some(record)
    }

    /// Returns when neither the latch matters any more, nor a copy of an operation can arrive in time.
    pub(crate) fn forget_at(&self) -> u64 {
        self.bounds().map(|bound| bound + 1).fold(self.until, u64::max)
    }

    fn bounds(&self) -> impl Iterator<Item = u64> {
        self.done.iter().map(|done| done.bound).chain([self.forgotten])
    }
}

impl Done {
    fn from_text(text: &str) -> Option<Done> {
        let (name, numbers) = text.split_once(' ')?;
        let (letter, id) = name.split_at_checked(1)?;
        let kind = match letter {
            "s" => Kind::Set,
            "c" => Kind::CountDown,
            _ => return None,
        };
        let [count, left, bound] = read_exact(numbers)?;
        Some(Done { kind, id: id.parse().ok()?, count, left, bound })
    }
}
