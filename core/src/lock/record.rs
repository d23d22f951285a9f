//! The record of a lock, and its text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::queue::Queue;
use super::{HoldId, Label, MAX_HOLDS, OwnerId};
use crate::exact::LATEST_END;
use crate::lease::is_bound;
use crate::record::read_exact;

/// The number of ended holds that the record remembers, the latest ones. A fresh grant forgets the oldest if there are
/// that many, and keeps the latest `not_after` of the forgotten ones.
pub const REMEMBERED: usize = 4;

/// The record of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockRecord {
    /// The owner of the latest grant, to which `deadline` and `label` also belong.
    pub(super) owner: OwnerId,
    pub(super) deadline: u64,
    /// The latest token that was given out.
    pub(crate) token: u64,
    /// The time from which the record counts as absent.
    pub(crate) keep: u64,
    /// Until when a waiter is to be woken.
    pub(crate) wake: u64,
    /// By how much the token is ahead of the time of its grant.
    pub(super) ahead: u64,
    /// The latest `not_after` of the forgotten holds: an acquire that is not for later may be of one of them.
    pub(super) forgotten: u64,
    pub(super) label: Option<Label>,
    /// The holds of the present grant, the oldest first; none if the lock is free.
    pub(super) holds: Vec<Held>,
    /// The oldest first.
    pub(super) ended: Vec<Ended>,
    pub(crate) queue: Queue,
}

/// A hold that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: HoldId,
    /// Until when its acquire may arrive; zero without a bound.
    pub(super) not_after: u64,
}

/// A hold that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) hold: Held,
    pub(super) how: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Released, when its grant had this token and this many holds were left.
    Released { token: u64, holds: u64 },
    /// Freed by force, with its grant of this token.
    Broken { token: u64 },
    /// Its lease was over when the lock was granted again.
    Expired,
}

impl Default for LockRecord {
    /// Returns the record of a lock that was never used: its first token is at least 1.
    fn default() -> Self {
        LockRecord {
            owner: OwnerId::from_u128(0),
            deadline: 0,
            token: 0,
            keep: 0,
            wake: 0,
            ahead: 0,
            forgotten: 0,
            label: None,
            holds: Vec::new(),
            ended: Vec::new(),
            queue: Queue::default(),
        }
    }
}

impl LockRecord {
    pub(crate) const TAG: &'static str = "K2";

    /// Returns how this hold ended, if that is known.
    pub(super) fn end_of(&self, id: HoldId) -> Option<End> {
        self.ended.iter().find(|ended| ended.hold.id == id).map(|ended| ended.how)
    }

    pub(super) fn remember(&mut self, hold: Held, how: End) {
        self.make_room();
        self.ended.push(Ended { hold, how });
    }

    /// Forgets the oldest ended hold if no other one finds room: the release of a fresh grant need not, then.
    pub(super) fn make_room(&mut self) {
        if self.ended.len() == REMEMBERED {
            let Ended { hold, .. } = self.ended.remove(0);
            self.forgotten = self.forgotten.max(hold.not_after);
        }
    }

    /// Returns the text that the scripts read and write: see lock_record.lua.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "{} {} {} {} {} {} {} {}",
            Self::TAG,
            self.owner,
            self.deadline,
            self.token,
            self.keep,
            self.wake,
            self.ahead,
            self.forgotten
        );
        if let Some(label) = self.label {
            text += &format!(" {label}");
        }
        let hold = |Held { id, not_after }: &Held| format!("{id} {not_after}");
        let holds: Vec<String> = self.holds.iter().map(hold).collect();
        text += &format!("|{}", holds.join(" "));
        for Ended { hold: Held { id, not_after }, how } in &self.ended {
            text += &match how {
                End::Released { token, holds } => format!("|r{id} {not_after} {token} {holds}"),
                End::Broken { token } => format!("|f{id} {not_after} {token}"),
                End::Expired => format!("|x{id} {not_after}"),
            };
        }
        text + &self.queue.to_string()
    }

    /// Reads the part of such a text after its tag.
    pub(crate) fn from_text(rest: &str) -> Option<LockRecord> {
        let mut places = rest.split('>');
        let mut pieces = places.next()?.split('|');
        let head = pieces.next()?;
        let (owner, numbers) = head.split_once(' ')?;
        let (numbers, label) = match numbers.match_indices(' ').nth(5) {
            Some((at, _)) => (&numbers[..at], Some(numbers[at + 1..].parse().ok()?)),
            None => (numbers, None),
        };
        let [deadline, token, keep, wake, ahead, forgotten] = read_exact(numbers)?;
        let owner = owner.parse().ok()?;
        let holds = read_holds(pieces.next()?)?;
        let ended: Vec<Ended> = pieces.map(Ended::from_text).collect::<Option<_>>()?;
        let queue = Queue::from_sections(places)?;
        let record = LockRecord {
            owner,
            deadline,
            token,
            keep,
            wake,
            ahead,
            forgotten,
            label,
            holds,
            ended,
            queue,
        };
        record.is_sound().then_some(record)
    }

    /// Returns whether some sequence of calls can have written it, so that no step can overflow.
    pub(super) fn is_sound(&self) -> bool {
        self.holds.len() <= MAX_HOLDS
            && self.ended.len() <= REMEMBERED
            && self.ahead <= self.token
            && self.token.max(self.deadline) <= LATEST_END
            && self.bounds().all(is_bound)
    }

    /// Returns until when acquires of its holds may arrive.
    fn bounds(&self) -> impl Iterator<Item = u64> {
        let ended = self.ended.iter().map(|ended| &ended.hold);
        self.holds.iter().chain(ended).map(|hold| hold.not_after).chain([self.forgotten])
    }
}

/// Ids and until when their acquires may arrive, with a space between each two.
fn read_holds(text: &str) -> Option<Vec<Held>> {
    let mut words = text.split(' ').filter(|_| !text.is_empty());
    let mut holds = Vec::new();
    while let Some(id) = words.next() {
        let [not_after] = read_exact(words.next()?)?;
        holds.push(Held { id: id.parse().ok()?, not_after });
    }
    Some(holds)
}

impl Ended {
    fn from_text(text: &str) -> Option<Ended> {
        let (letter, rest) = text.split_at_checked(1)?;
        let (id, numbers) = rest.split_once(' ')?;
        let (not_after, how) = match letter {
            "r" => {
                let [not_after, token, holds] = read_exact(numbers)?;
                (not_after, End::Released { token, holds })
            }
            "f" => {
                let [not_after, token] = read_exact(numbers)?;
                (not_after, End::Broken { token })
            }
            "x" => {
                let [not_after] = read_exact(numbers)?;
                (not_after, End::Expired)
            }
            _ => return None,
        };
        Some(Ended { hold: Held { id: id.parse().ok()?, not_after }, how })
    }
}
