//! The record of a semaphore, and its text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{MAX_PERMITS, PermitId, REMEMBERED};
use crate::call::packed;
use crate::lease::{Acquired, Granted, Leases, Released};
use crate::record::binary::Rest;
use crate::record::{read_exact, read_token};

/// The record of a semaphore. The counts are at most [`MAX_PERMITS`] together, and the grants are in the order of their
/// ends.
pub(crate) type SemaphoreRecord = Leases<Permits, PermitId>;

/// The permits of one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(crate) id: PermitId,
    pub(crate) count: u64,
    /// See [`bound`](crate::lease::bound).
    pub(super) bound: u64,
}

impl Acquired for Permits {
    fn bound(&self) -> u64 {
        self.bound
    }
}

impl Granted<Permits> {
    /// Returns the sort key of a grant.
    pub(super) fn end(&self) -> (u64, u64) {
        (self.deadline, self.token)
    }
}

impl SemaphoreRecord {
    pub(crate) const TAG: &'static str = "M2";

    /// Returns its bytes as text.
    pub(crate) fn to_text(&self) -> String {
        let Leases { token, wake, forgotten, .. } = self;
        let mut text = format!("{} {token} {} {forgotten}", Self::TAG, wake.0);
        for Granted { what: Permits { id, count, bound }, token, deadline } in &self.grants {
            text += &format!("|g{id} {count} {token} {deadline} {bound}");
        }
        for Released { what: id, token, until, bound } in &self.released {
            text += &format!("|r{id} {token} {until} {bound}");
        }
        text
    }

    /// Returns the bytes after the tag and a colon, as the scripts read and write them: see semaphore_record.lua.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend([self.token, self.wake.0, self.forgotten].into_iter().flat_map(packed));
        bytes.extend((self.grants.len() as u16).to_le_bytes()); // at most MAX_PERMITS
        for Granted { what: Permits { id, count, bound }, token, deadline } in &self.grants {
            bytes.extend(id.as_u128().to_be_bytes());
            bytes.extend((*count as u16).to_le_bytes()); // at most MAX_PERMITS
            bytes.extend([*token, *deadline, *bound].into_iter().flat_map(packed));
        }
        for Released { what: id, token, until, bound } in &self.released {
            bytes.extend(id.as_u128().to_be_bytes());
            bytes.extend([*token, *until, *bound].into_iter().flat_map(packed));
        }
        bytes
    }

    /// Reads such bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<SemaphoreRecord> {
        let mut rest = Rest(bytes);
        let mut record = Leases::new(rest.token()?, rest.double()?, rest.double()?);
        for _ in 0..rest.count()? {
            let (id, count) = (PermitId::from_u128(rest.id()?), rest.count()?.into());
            let (token, deadline, bound) = (rest.double()?, rest.double()?, rest.double()?);
            record.grants.push(Granted { what: Permits { id, count, bound }, token, deadline });
        }
        record.released = rest.all(|rest| {
            let (what, token) = (PermitId::from_u128(rest.id()?), rest.double()?);
            Some(Released { what, token, until: rest.double()?, bound: rest.double()? })
        })?;
        record.is_sound().then_some(record)
    }

    /// Reads the part of such a text after its tag, if it is exactly the output of [`Self::to_text`], so that it can be
    /// stored.
    pub(crate) fn from_text(rest: &str) -> Option<SemaphoreRecord> {
        let mut pieces = rest.split('|');
        let (token, times) = pieces.next()?.split_once(' ')?;
        let (token, [wake, forgotten]) = (read_token(token)?, read_exact(times)?);
        let mut record = Leases::new(token, wake, forgotten);
        for piece in pieces {
            let (name, numbers) = piece.split_once(' ')?;
            let (letter, id) = name.split_at_checked(1)?;
            let id = id.parse().ok()?;
            if letter == "g" {
                let [count, token, deadline, bound] = read_exact(numbers)?;
                record.grants.push(Granted { what: Permits { id, count, bound }, token, deadline });
            } else {
                let [token, until, bound] = read_exact(numbers).filter(|_| letter == "r")?;
                record.released.push(Released { what: id, token, until, bound });
            }
        }
        let is_it = || record.to_text().strip_prefix(Self::TAG) == Some(&format!(" {rest}"));
        (record.is_sound() && is_it()).then_some(record)
    }

    fn is_sound(&self) -> bool {
        let mut counts = self.grants.iter().map(|granted| granted.what.count);
        let total =
            counts.try_fold(0_u64, |total, count| (count > 0).then(|| total.saturating_add(count)));
        total.is_some_and(|total| total <= MAX_PERMITS)
            && self.grants.is_sorted_by(|one, next| one.end() <= next.end())
            && self.released.len() <= REMEMBERED
            && self.has_sound_entries()
    }
}
