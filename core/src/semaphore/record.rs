//! What is stored under a semaphore's key, and its text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{MAX_PERMITS, PermitId, REMEMBERED};
use crate::record::{read_exact, read_token};
use crate::time::Timestamp;
use crate::wake::Wake;

/// What is stored under the key of a semaphore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SemaphoreRecord {
    /// The latest token that was given out.
    pub(super) token: u64,
    /// Until when somebody waits, who is to be told.
    pub(super) wake: Wake,
    /// The oldest first. Their counts are at most [`MAX_PERMITS`] together.
    pub(super) grants: Vec<Granted>,
    /// The oldest first.
    pub(super) released: Vec<Released>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) id: PermitId,
    pub(super) count: u64,
    pub(super) token: u64,
    pub(super) deadline: u64,
}

/// A grant that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Released {
    pub(super) id: PermitId,
    pub(super) token: u64,
    /// Until when it is remembered.
    pub(super) until: u64,
}

impl SemaphoreRecord {
    pub(crate) const TAG: &'static str = "M1";

    /// When no lease, release, wait or token in it matters any more.
    pub(crate) fn forget_at(&self) -> Timestamp {
        let leases = self.grants.iter().map(|granted| granted.deadline);
        let memory = self.released.iter().map(|released| released.until);
        let latest = leases.chain(memory).fold(self.wake.0.max(self.token + 1), u64::max);
        Timestamp::computed(latest)
            .expect("at most MAX_SPAN after an accepted time; records are checked")
    }

    pub(super) fn remember(&mut self, released: Released) {
        if self.released.len() == REMEMBERED {
            self.released.remove(0);
        }
        self.released.push(released);
    }

    /// The text that the scripts read and write: see semaphore_record.lua.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{} {} {}", Self::TAG, self.token, self.wake.0);
        for Granted { id, count, token, deadline } in &self.grants {
            text += &format!("|g{id} {count} {token} {deadline}");
        }
        for Released { id, token, until } in &self.released {
            text += &format!("|r{id} {token} {until}");
        }
        text
    }

    /// Reads what follows the tag of such a text.
    pub(crate) fn from_text(rest: &str) -> Option<SemaphoreRecord> {
        let mut pieces = rest.split('|');
        let (token, wake) = pieces.next()?.split_once(' ')?;
        let (token, [wake]) = (read_token(token)?, read_exact(wake)?);
        let mut record = SemaphoreRecord { token, wake: Wake(wake), ..Self::default() };
        for piece in pieces {
            let (name, numbers) = piece.split_once(' ')?;
            let (letter, id) = name.split_at_checked(1)?;
            let id = id.parse().ok()?;
            if letter == "g" {
                let [count, token, deadline] = read_exact(numbers)?;
                record.grants.push(Granted { id, count, token, deadline });
            } else {
                let [token, until] = read_exact(numbers).filter(|_| letter == "r")?;
                record.released.push(Released { id, token, until });
            }
        }
        record.is_sound().then_some(record)
    }

    fn is_sound(&self) -> bool {
        let mut counts = self.grants.iter().map(|granted| granted.count);
        let total =
            counts.try_fold(0_u64, |total, count| (count > 0).then(|| total.saturating_add(count)));
        total.is_some_and(|total| total <= MAX_PERMITS) && self.released.len() <= REMEMBERED
    }
}
