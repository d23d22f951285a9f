//! The record of a read-write lock, and its text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{HoldId, MAX_HOLDS, MAX_READERS, Mode, OwnerId, REMEMBERED};
use crate::call::packed;
use crate::lease::{Acquired, Granted, Leases, Released};
use crate::record::binary::Rest;
use crate::record::{read_exact, read_token};

/// The record of a read-write lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RwLockRecord {
    /// Until when a waiting writer keeps new readers out; zero without one.
    pub(crate) kept_until: u64,
    /// At most one writer's, and at most [`MAX_READERS`] readers'.
    pub(crate) leases: Leases<Grant, HoldEnd>,
}

/// The holds of one owner in one mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) mode: Mode,
    pub(crate) owner: OwnerId,
    /// One to [`MAX_HOLDS`], the oldest first.
    pub(crate) holds: Vec<HoldId>,
    /// The latest [`bound`](crate::lease::bound) of its holds, also of those that were released.
    pub(super) bound: u64,
}

impl Acquired for Grant {
    fn bound(&self) -> u64 {
        self.bound
    }
}

/// A hold that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldEnd {
    pub(super) mode: Mode,
    pub(super) id: HoldId,
    pub(super) owner: OwnerId,
    /// How many holds its owner had then.
    pub(super) holds: u64,
}

impl Mode {
    /// Returns its letter in a record; in the text it is in upper case for a hold that was given back.
    pub(super) fn letter(self) -> char {
        match self {
            Mode::Read => 'r',
            Mode::Write => 'w',
        }
    }

    fn of_letter(letter: u8) -> Option<Self> {
        [Mode::Read, Mode::Write].into_iter().find(|mode| mode.letter() == char::from(letter))
    }
}

impl RwLockRecord {
    pub(crate) const TAG: &'static str = "W2";

    pub(super) fn new(token: u64, kept_until: u64, wake: u64, forgotten: u64) -> Self {
        RwLockRecord { kept_until, leases: Leases::new(token, wake, forgotten) }
    }

    pub(crate) fn forget_at(&self) -> u64 {
        self.leases.forget_at().max(self.kept_until)
    }

    /// Returns its bytes as text.
    pub(crate) fn to_text(&self) -> String {
        let Leases { token, wake, forgotten, grants, released } = &self.leases;
        let (tag, kept_until) = (Self::TAG, self.kept_until);
        let mut text = format!("{tag} {token} {kept_until} {} {forgotten}", wake.0);
        for Granted { what: Grant { mode, owner, holds, bound }, token, deadline } in grants {
            text += &format!("|{}{owner} {token} {deadline} {bound}", mode.letter());
            for hold in holds {
                text += &format!(" {hold}");
            }
        }
        for Released { what, token, until, bound } in released {
            let HoldEnd { mode, id, owner, holds } = what;
            let letter = mode.letter().to_ascii_uppercase();
            text += &format!("|{letter}{id} {owner} {token} {holds} {until} {bound}");
        }
        text
    }

    /// Returns the bytes after the tag and a colon, as the scripts read and write them: see rw_lock_record.lua.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Leases { token, wake, forgotten, grants, released } = &self.leases;
        let mut bytes = Vec::new();
        bytes.extend([*token, self.kept_until, wake.0, *forgotten].into_iter().flat_map(packed));
        bytes.extend((grants.len() as u16).to_le_bytes()); // at most MAX_READERS and a writer
        for Granted { what: Grant { mode, owner, holds, bound }, token, deadline } in grants {
            bytes.push(mode.letter() as u8);
            bytes.extend(owner.as_u128().to_be_bytes());
            bytes.extend([*token, *deadline, *bound].into_iter().flat_map(packed));
            bytes.push(holds.len() as u8); // at most MAX_HOLDS
            bytes.extend(holds.iter().flat_map(|hold| hold.as_u128().to_be_bytes()));
        }
        for Released { what, token, until, bound } in released {
            let HoldEnd { mode, id, owner, holds } = what;
            bytes.push(mode.letter() as u8);
            bytes.extend(id.as_u128().to_be_bytes());
            bytes.extend(owner.as_u128().to_be_bytes());
            bytes.extend(packed(*token));
            bytes.push(*holds as u8); // at most MAX_HOLDS
            bytes.extend([*until, *bound].into_iter().flat_map(packed));
        }
        bytes
    }

    /// Reads such bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<RwLockRecord> {
        let mut rest = Rest(bytes);
        let token = rest.token()?;
        let (kept_until, wake, forgotten) = (rest.double()?, rest.double()?, rest.double()?);
        let mut record = RwLockRecord::new(token, kept_until, wake, forgotten);
        for _ in 0..rest.count()? {
            let mode = Mode::of_letter(rest.byte()?)?;
            let owner = OwnerId::from_u128(rest.id()?);
            let (token, deadline, bound) = (rest.double()?, rest.double()?, rest.double()?);
            let holds = (0..rest.byte()?).map(|_| rest.id().map(HoldId::from_u128));
            let what = Grant { mode, owner, holds: holds.collect::<Option<_>>()?, bound };
            record.leases.grants.push(Granted { what, token, deadline });
        }
        record.leases.released = rest.all(|rest| {
            let mode = Mode::of_letter(rest.byte()?)?;
            let (id, owner) = (HoldId::from_u128(rest.id()?), OwnerId::from_u128(rest.id()?));
            let (token, holds) = (rest.double()?, rest.byte()?.into());
            let what = HoldEnd { mode, id, owner, holds };
            Some(Released { what, token, until: rest.double()?, bound: rest.double()? })
        })?;
        record.is_sound().then_some(record)
    }

    /// Reads the part of such a text after its tag, if it is exactly the output of [`Self::to_text`], so that it can
    /// be stored.
    pub(crate) fn from_text(rest: &str) -> Option<RwLockRecord> {
        let mut pieces = rest.split('|');
        let (token, times) = pieces.next()?.split_once(' ')?;
        let (token, [kept_until, wake, forgotten]) = (read_token(token)?, read_exact(times)?);
        let mut record = RwLockRecord::new(token, kept_until, wake, forgotten);
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
        let is_it = || record.to_text().strip_prefix(Self::TAG) == Some(&format!(" {rest}"));
        (record.is_sound() && is_it()).then_some(record)
    }

    fn is_sound(&self) -> bool {
        let Leases { grants, released, .. } = &self.leases;
        let writers = grants.iter().filter(|grant| grant.what.mode == Mode::Write).count();
        let held = |holds: usize| (1..=MAX_HOLDS).contains(&holds);
        writers <= 1
            && grants.len() - writers <= MAX_READERS
            && grants.iter().all(|grant| held(grant.what.holds.len()))
            && released.len() <= REMEMBERED
            && released.iter().all(|end| end.what.holds <= MAX_HOLDS as u64)
            && self.leases.has_sound_entries()
    }
}

fn read_grant(mode: Mode, text: &str) -> Option<Granted<Grant>> {
    let mut words = text.split(' ');
    let owner = words.next()?.parse().ok()?;
    let mut number = || read_exact(words.next()?).map(|[number]| number);
    let (token, deadline, bound) = (number()?, number()?, number()?);
    let holds: Option<Vec<HoldId>> = words.map(|word| word.parse().ok()).collect();
    Some(Granted { what: Grant { mode, owner, holds: holds?, bound }, token, deadline })
}

fn read_released(mode: Mode, text: &str) -> Option<Released<HoldEnd>> {
    let (id, rest) = text.split_once(' ')?;
    let (owner, numbers) = rest.split_once(' ')?;
    let [token, holds, until, bound] = read_exact(numbers)?;
    let (id, owner) = (id.parse().ok()?, owner.parse().ok()?);
    Some(Released { what: HoldEnd { mode, id, owner, holds }, token, until, bound })
}
