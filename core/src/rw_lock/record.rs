//! What is stored under a read-write lock's key, and its text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{HoldId, MAX_HOLDS, MAX_READERS, Mode, OwnerId, REMEMBERED};
use crate::record::{read_exact, read_token};
use crate::time::Timestamp;
use crate::wake::Wake;

/// What is stored under the key of a read-write lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RwLockRecord {
    /// The latest token that was given out.
    pub(super) token: u64,
    /// Until when a writer that waits keeps new readers out; zero where none does.
    pub(super) kept_until: u64,
    /// Until when somebody waits, who is to be told.
    pub(super) wake: Wake,
    /// The oldest first: at most one writer's, and at most [`MAX_READERS`] readers'.
    pub(super) grants: Vec<Grant>,
    /// The oldest first.
    pub(super) released: Vec<Released>,
}

/// What one owner holds in one mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) mode: Mode,
    pub(super) owner: OwnerId,
    pub(super) token: u64,
    pub(super) deadline: u64,
    /// One to [`MAX_HOLDS`], the oldest first.
    pub(super) holds: Vec<HoldId>,
}

/// A hold that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Released {
    pub(super) mode: Mode,
    pub(super) id: HoldId,
    pub(super) owner: OwnerId,
    pub(super) token: u64,
    /// How often its owner held the lock then.
    pub(super) holds: u64,
    /// Until when it is remembered.
    pub(super) until: u64,
}

impl Mode {
    /// The letter that stands for it in a record; in upper case for a hold that was given back.
    pub(super) fn letter(self) -> char {
        match self {
            Mode::Read => 'r',
            Mode::Write => 'w',
        }
    }
}

impl RwLockRecord {
    pub(crate) const TAG: &'static str = "W1";

    /// When no lease, wait, release or token in it matters any more.
    pub(crate) fn forget_at(&self) -> Timestamp {
        let leases = self.grants.iter().map(|grant| grant.deadline);
        let memory = self.released.iter().map(|released| released.until);
        let waits = [self.kept_until, self.wake.0];
        let latest = leases.chain(memory).chain(waits).fold(self.token + 1, u64::max);
        Timestamp::computed(latest)
            .expect("at most MAX_SPAN after an accepted time; records are checked")
    }

    pub(super) fn remember(&mut self, released: Released) {
        if self.released.len() == REMEMBERED {
            self.released.remove(0);
        }
        self.released.push(released);
    }

    /// The text that the scripts read and write: see rw_lock_record.lua.
    pub(crate) fn to_text(&self) -> String {
        let (token, kept_until, wake) = (self.token, self.kept_until, self.wake.0);
        let mut text = format!("{} {token} {kept_until} {wake}", Self::TAG);
        for Grant { mode, owner, token, deadline, holds } in &self.grants {
            text += &format!("|{}{owner} {token} {deadline}", mode.letter());
            for hold in holds {
                text += &format!(" {hold}");
            }
        }
        for Released { mode, id, owner, token, holds, until } in &self.released {
            let letter = mode.letter().to_ascii_uppercase();
            text += &format!("|{letter}{id} {owner} {token} {holds} {until}");
        }
        text
    }

    /// Reads what follows the tag of such a text.
    pub(crate) fn from_text(rest: &str) -> Option<RwLockRecord> {
        let mut pieces = rest.split('|');
        let (token, times) = pieces.next()?.split_once(' ')?;
        let (token, [kept_until, wake]) = (read_token(token)?, read_exact(times)?);
        let mut record = RwLockRecord { token, kept_until, wake: Wake(wake), ..Self::default() };
        for piece in pieces {
            let (letter, rest) = piece.split_at_checked(1)?;
            match letter {
                "r" => record.grants.push(read_grant(Mode::Read, rest)?),
                "w" => record.grants.push(read_grant(Mode::Write, rest)?),
                "R" => record.released.push(read_released(Mode::Read, rest)?),
                "W" => record.released.push(read_released(Mode::Write, rest)?),
                _ => return None,
            }
        }
        record.is_sound().then_some(record)
    }

    fn is_sound(&self) -> bool {
        let writers = self.grants.iter().filter(|grant| grant.mode == Mode::Write).count();
        writers <= 1
            && self.grants.len() - writers <= MAX_READERS
            && self.released.len() <= REMEMBERED
    }
}

fn read_grant(mode: Mode, text: &str) -> Option<Grant> {
    let mut words = text.split(' ');
    let owner = words.next()?.parse().ok()?;
    let [[token], [deadline]] = [read_exact(words.next()?)?, read_exact(words.next()?)?];
    let holds: Option<Vec<HoldId>> = words.map(|word| word.parse().ok()).collect();
    let holds = holds.filter(|holds| (1..=MAX_HOLDS).contains(&holds.len()))?;
    Some(Grant { mode, owner, token, deadline, holds })
}

fn read_released(mode: Mode, text: &str) -> Option<Released> {
    let (id, rest) = text.split_once(' ')?;
    let (owner, numbers) = rest.split_once(' ')?;
    let [token, holds, until] = read_exact(numbers)?;
    let (id, owner) = (id.parse().ok()?, owner.parse().ok()?);
    Some(Released { mode, id, owner, token, holds, until })
}
