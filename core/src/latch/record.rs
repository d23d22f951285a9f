//! The record of a latch, and its text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{OperationId, REMEMBERED};
use crate::exact::MAX_SPAN_US;
use crate::record::read_exact;

/// The record of a latch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LatchRecord {
    pub(super) left: u64,
    /// How long it is kept after each change.
    pub(super) keep: u64,
    /// From this time on the record acts as if absent.
    pub(crate) until: u64,
    /// The oldest first.
    pub(super) done: Vec<Done>,
}

/// An operation that was done, and what was left then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) kind: Kind,
    pub(super) id: OperationId,
    pub(super) count: u64,
    pub(super) left: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Set,
    CountDown,
}

impl LatchRecord {
    pub(crate) const TAG: &'static str = "D1";

    /// The text that the scripts read and write: see latch_record.lua.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{} {} {} {}", Self::TAG, self.left, self.keep, self.until);
        for Done { kind, id, count, left } in &self.done {
            let letter = match kind {
                Kind::Set => "s",
                Kind::CountDown => "c",
            };
            text += &format!("|{letter}{id} {count} {left}");
        }
        text
    }

    /// Reads what follows the tag of such a text.
    pub(crate) fn from_text(rest: &str) -> Option<LatchRecord> {
        let mut pieces = rest.split('|');
        let [left, keep, until] = read_exact(pieces.next()?)?;
        let done = pieces.map(Done::from_text).collect::<Option<Vec<Done>>>()?;
        let is_sound = keep <= MAX_SPAN_US / 2 && done.len() <= REMEMBERED;
        is_sound.then_some(LatchRecord { left, keep, until, done })
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
        let [count, left] = read_exact(numbers)?;
        Some(Done { kind, id: id.parse().ok()?, count, left })
    }
}
