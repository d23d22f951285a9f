//! What is stored under a read-write lock's key, and its text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{HoldId, MAX_HOLDS, MAX_READERS, Mode, OwnerId, REMEMBERED};
use crate::lease::{Granted, Leases, Released};
use crate::record::{read_exact, read_token};

/// What is stored under the key of a read-write lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RwLockRecord {
    /// Until when a writer that waits keeps new readers out; zero where none does.
    pub(super) kept_until: u64,
    /// At most one writer's, and at most [`MAX_READERS`] readers'.
    pub(super) leases: Leases<Grant, HoldEnd>,
}

/// What one owner holds in one mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(super) mode: Mode,
    pub(super) owner: OwnerId,
    /// One to [`MAX_HOLDS`], the oldest first.
    pub(super) holds: Vec<HoldId>,
}

/// A hold that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldEnd {
    pub(super) mode: Mode,
    pub(super) id: HoldId,
    pub(super) owner: OwnerId,
    /// How often its owner held the lock then.
    pub(super) holds: u64,
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

    pub(super) fn new(token: u64, kept_until: u64, wake: u64) -> Self {
        RwLockRecord { kept_until, leases: Leases::new(token, wake) }
    }

    pub(crate) fn forget_at(&self) -> u64 {
        self.leases.forget_at().max(self.kept_until)
    }

    /// The text that the scripts read and write: see rw_lock_record.lua.
    pub(crate) fn to_text(&self) -> String {
        let Leases { token, wake, grants, released } = &self.leases;
        let mut text = format!("{} {token} {} {}", Self::TAG, self.kept_until, wake.0);
        for Granted { what: Grant { mode, owner, holds }, token, deadline } in grants {
            text += &format!("|{}{owner} {token} {deadline}", mode.letter());
            for hold in holds {
                text += &format!(" {hold}");
            }
        }
        for Released { what: HoldEnd { mode, id, owner, holds }, token, until } in released {
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
        let mut record = RwLockRecord::new(token, kept_until, wake);
        let Leases { grants, released, .. } = &mut record.leases;
        for piece in pieces {
            let (letter, rest) = piece.split_at_checked(1)?;
            match letter {
                "r" => grants.push(read_grant(Mode::Read, rest)?),
                "w" => grants.push(read_grant(Mode::Write, rest)?),
                "R" => released.push(read_released(Mode::Read, rest)?),
                "W" => released.push(read_released(Mode::Write, rest)?),
                _ => return None,
            }
        }
        record.is_sound().then_some(record)
    }

    fn is_sound(&self) -> bool {
        let Leases { grants, released, .. } = &self.leases;
        let writers = grants.iter().filter(|grant| grant.what.mode == Mode::Write).count();
        writers <= 1 && grants.len() - writers <= MAX_READERS && released.len() <= REMEMBERED
    }
}

fn read_grant(mode: Mode, text: &str) -> Option<Granted<Grant>> {
    let mut words = text.split(' ');
    let owner = words.next()?.parse().ok()?;
    let [[token], [deadline]] = [read_exact(words.next()?)?, read_exact(words.next()?)?];
    let holds: Option<Vec<HoldId>> = words.map(|word| word.parse().ok()).collect();
    let holds = holds.filter(|holds| (1..=MAX_HOLDS).contains(&holds.len()))?;
    Some(Granted { what: Grant { mode, owner, holds }, token, deadline })
}

fn read_released(mode: Mode, text: &str) -> Option<Released<HoldEnd>> {
    let (id, rest) = text.split_once(' ')?;
    let (owner, numbers) = rest.split_once(' ')?;
    let [token, holds, until] = read_exact(numbers)?;
    let (id, owner) = (id.parse().ok()?, owner.parse().ok()?);
    Some(Released { what: HoldEnd { mode, id, owner, holds }, token, until })
}
