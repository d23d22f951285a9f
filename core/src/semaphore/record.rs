//! What is stored under a semaphore's key, and its text.

use alloc::format;
use alloc::string::String;

use super::{MAX_PERMITS, PermitId, REMEMBERED};
use crate::lease::{Granted, Leases, Released};
use crate::record::{read_exact, read_token};

/// What is stored under the key of a semaphore. The counts are at most [`MAX_PERMITS`] together.
pub(crate) type SemaphoreRecord = Leases<Permits, PermitId>;

/// The permits of one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(super) id: PermitId,
    pub(super) count: u64,
}

impl SemaphoreRecord {
    pub(crate) const TAG: &'static str = "M1";

    /// The text that the scripts read and write: see semaphore_record.lua.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{} {} {}", Self::TAG, self.token, self.wake.0);
        for Granted { what: Permits { id, count }, token, deadline } in &self.grants {
            text += &format!("|g{id} {count} {token} {deadline}");
        }
        for Released { what: id, token, until } in &self.released {
            text += &format!("|r{id} {token} {until}");
        }
        text
    }

    /// Reads what follows the tag of such a text.
    pub(crate) fn from_text(rest: &str) -> Option<SemaphoreRecord> {
        let mut pieces = rest.split('|');
        let (token, wake) = pieces.next()?.split_once(' ')?;
        let (token, [wake]) = (read_token(token)?, read_exact(wake)?);
        let mut record = Leases::new(token, wake);
        for piece in pieces {
            let (name, numbers) = piece.split_once(' ')?;
            let (letter, id) = name.split_at_checked(1)?;
            let id = id.parse().ok()?;
            if letter == "g" {
                let [count, token, deadline] = read_exact(numbers)?;
                record.grants.push(Granted { what: Permits { id, count }, token, deadline });
            } else {
                let [token, until] = read_exact(numbers).filter(|_| letter == "r")?;
                record.released.push(Released { what: id, token, until });
            }
        }
        record.is_sound().then_some(record)
    }

    fn is_sound(&self) -> bool {
        let mut counts = self.grants.iter().map(|granted| granted.what.count);
        let total =
            counts.try_fold(0_u64, |total, count| (count > 0).then(|| total.saturating_add(count)));
        total.is_some_and(|total| total <= MAX_PERMITS) && self.released.len() <= REMEMBERED
    }
}
