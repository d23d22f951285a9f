//! What is stored under a lock's key, and its text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::queue::Queue;
use super::{Hold, Label, OperationId, OwnerId};
use crate::record::read_exact;
use crate::time::Timestamp;

/// How many of the latest operations that changed the record it remembers.
pub const REMEMBERED: usize = 4;

/// What is stored under the key of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockRecord {
    pub(super) owner: OwnerId,
    pub(super) holds: u64,
    pub(super) deadline: u64,
    /// The latest token that was given out.
    pub(super) token: u64,
    /// From when on the record is as if it were not there.
    pub(super) keep: u64,
    /// Until when somebody waits, who is to be woken.
    pub(super) wake: u64,
    /// By how much the token is ahead of the time of its grant.
    pub(super) ahead: u64,
    /// Of the present grant.
    pub(super) label: Option<Label>,
    /// The oldest first.
    pub(super) done: Vec<Done>,
    pub(super) queue: Queue,
}

/// An operation that was done, and what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) kind: Kind,
    pub(super) id: OperationId,
    pub(super) hold: Hold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Acquire,
    Renew,
    Release,
    ForceRelease,
}

impl Kind {
    /// The letter that stands for it in a record.
    const LETTERS: [(Kind, &'static str); 4] =
        [(Kind::Acquire, "a"), (Kind::Renew, "n"), (Kind::Release, "r"), (Kind::ForceRelease, "f")];

    fn letter(self) -> &'static str {
        let found = Kind::LETTERS.iter().find(|(kind, _)| *kind == self);
        found.expect("every kind is in the table above").1
    }

    fn of_letter(letter: &str) -> Option<Kind> {
        let found = Kind::LETTERS.iter().find(|(_, known)| *known == letter);
        found.map(|(kind, _)| *kind)
    }
}

impl Default for LockRecord {
    /// A lock that was never used: its first token is at least 1.
    fn default() -> Self {
        LockRecord {
            owner: OwnerId(0),
            holds: 0,
            deadline: 0,
            token: 0,
            keep: 0,
            wake: 0,
            ahead: 0,
            label: None,
            done: Vec::new(),
            queue: Queue::default(),
        }
    }
}

impl LockRecord {
    pub(crate) const TAG: &'static str = "K1";

    pub(crate) fn forget_at(&self) -> Timestamp {
        Timestamp::computed(self.keep)
            .expect("at most MAX_SPAN after an accepted time; records are checked")
    }

    pub(super) fn remembered(&self, id: OperationId) -> Option<&Done> {
        self.done.iter().find(|done| done.id == id)
    }

    pub(super) fn remember(&mut self, done: Done) {
        if self.done.len() == REMEMBERED {
            self.done.remove(0);
        }
        self.done.push(done);
    }

    /// The text that the scripts read and write: see lock_record.lua.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "{} {} {} {} {} {} {} {}",
            Self::TAG,
            self.owner,
            self.holds,
            self.deadline,
            self.token,
            self.keep,
            self.wake,
            self.ahead
        );
        if let Some(label) = self.label {
            text += &format!(" {label}");
        }
        for Done { kind, id, hold } in &self.done {
            text += &format!(
                "|{}{id} {} {} {}",
                kind.letter(),
                hold.holds,
                hold.deadline.as_micros(),
                hold.token
            );
        }
        text + &self.queue.to_string()
    }

    /// Reads what follows the tag of such a text.
    pub(crate) fn from_text(rest: &str) -> Option<LockRecord> {
        let mut places = rest.split('>');
        let mut done = places.next()?.split('|');
        let head = done.next()?;
        let (owner, numbers) = head.split_once(' ')?;
        let (numbers, label) = match numbers.match_indices(' ').nth(5) {
            Some((at, _)) => (&numbers[..at], Some(numbers[at + 1..].parse().ok()?)),
            None => (numbers, None),
        };
        let [holds, deadline, token, keep, wake, ahead] = read_exact(numbers)?;
        let owner = owner.parse().ok()?;
        let done: Vec<Done> = done.map(Done::from_text).collect::<Option<_>>()?;
        let queue = Queue::from_sections(places)?;
        let is_sound = done.len() <= REMEMBERED && ahead <= token;
        let record =
            LockRecord { owner, holds, deadline, token, keep, wake, ahead, label, done, queue };
        is_sound.then_some(record)
    }
}

impl Done {
    fn from_text(text: &str) -> Option<Done> {
        let (name, numbers) = text.split_once(' ')?;
        let (letter, id) = name.split_at_checked(1)?;
        let [holds, deadline, token] = read_exact(numbers)?;
        let deadline = Timestamp::computed(deadline)?;
        Some(Done {
            kind: Kind::of_letter(letter)?,
            id: id.parse().ok()?,
            hold: Hold { token, holds, deadline },
        })
    }
}
