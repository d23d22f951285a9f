//! The read-write lock's state machine.

use super::record::{Grant, Released, RwLockRecord};
use super::{
    Action, Answer, Hold, HoldId, Holder, Inspect, Inspection, MAX_HOLDS, MAX_READERS, Mode,
    Operation, Reply,
};
use crate::error::RecordError;
use crate::record::{Body, Record};
use crate::time::Timestamp;

impl Operation {
    pub(super) fn run(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Reply, RecordError> {
        let mut record = load(slot, now)?;
        let (answer, is_changed) = match self.action {
            Action::Acquire { hold, not_after, waits_us } => {
                if let Some(answer) = self.again(&record, hold)? {
                    (answer, false)
                } else if now > not_after {
                    (Answer::TooLate, false)
                } else {
                    self.acquire(&mut record, hold, waits_us, now.as_micros())
                }
            }
            Action::Renew { token } => self.renew(&mut record, token, now.as_micros()),
            Action::Release { hold } => self.release(&mut record, hold, now.as_micros()),
        };
        let ends_a_grant = is_changed && matches!(answer, Answer::Released { holds: 0, .. });
        let woke = ends_a_grant && record.wake.is_due(now.as_micros());
        if is_changed {
            *slot = Some(Record::of(Body::RwLock(record)));
        }
        Ok(Reply { now, answer, woke })
    }

    /// The answer to an acquire of a hold that is live (L10).
    fn again(&self, record: &RwLockRecord, hold: HoldId) -> Result<Option<Answer>, RecordError> {
        let known = record.grants.iter().find(|grant| grant.holds.contains(&hold));
        match known {
            Some(grant) if self.is_of(grant) => Ok(Some(Answer::Held(grant.hold()))),
            Some(_) => Err(RecordError::OperationReused),
            None if record.released.iter().any(|released| released.id == hold) => {
                Err(RecordError::OperationReused)
            }
            None => Ok(None),
        }
    }

    /// Once more for its owner, or a fresh grant (L1, L2, L4, L5).
    fn acquire(
        &self,
        record: &mut RwLockRecord,
        hold: HoldId,
        waits_us: u64,
        now: u64,
    ) -> (Answer, bool) {
        let deadline = now + self.lock.lease_us;
        if let Some(grant) = record.grants.iter_mut().find(|grant| self.is_of(grant)) {
            if grant.holds.len() == MAX_HOLDS {
                return (Answer::TooMany { retry_at: end(grant.deadline) }, false);
            }
            grant.holds.push(hold);
            grant.deadline = grant.deadline.max(deadline);
            return (Answer::Held(grant.hold()), true);
        }
        let refused = match self.mode {
            Mode::Read => self.read_refused(record),
            Mode::Write => self.write_refused(record),
        };
        if let Some(refused) = refused {
            let keeps_out = matches!((self.mode, refused), (Mode::Write, Answer::Refused { .. }));
            let kept_until = if keeps_out && waits_us > 0 { now + waits_us } else { 0 };
            let is_longer = record.kept_until < kept_until;
            record.kept_until = record.kept_until.max(kept_until);
            return (refused, record.wake.waits(now, waits_us) || is_longer);
        }
        if self.mode == Mode::Write {
            record.kept_until = 0;
        }
        record.token = now.max(record.token + 1);
        let (mode, owner, token) = (self.mode, self.owner, record.token);
        let grant = Grant { mode, owner, token, deadline, holds: [hold].into() };
        let answer = Answer::Held(grant.hold());
        record.grants.push(grant);
        (answer, true)
    }

    fn read_refused(&self, record: &RwLockRecord) -> Option<Answer> {
        let writer = record.grants.iter().find(|grant| grant.mode == Mode::Write);
        let until = match writer {
            Some(writer) if writer.owner == self.owner => 0,
            Some(writer) => writer.deadline.max(record.kept_until),
            None => record.kept_until,
        };
        if until > 0 {
            return Some(Answer::Refused { retry_at: end(until) });
        }
        let readers = record.grants.iter().filter(|grant| grant.mode == Mode::Read);
        let first = readers.clone().map(|grant| grant.deadline).min()?;
        (readers.count() >= MAX_READERS).then(|| Answer::TooMany { retry_at: end(first) })
    }

    fn write_refused(&self, record: &RwLockRecord) -> Option<Answer> {
        let others = record.grants.iter().filter(|grant| grant.owner != self.owner);
        let retry_at = end(others.map(|grant| grant.deadline).max()?);
        let is_reader = record.grants.iter().any(|grant| grant.owner == self.owner);
        Some(match is_reader {
            true => Answer::UpgradeRefused { retry_at },
            false => Answer::Refused { retry_at },
        })
    }

    /// L3, L4.
    fn renew(&self, record: &mut RwLockRecord, token: Option<u64>, now: u64) -> (Answer, bool) {
        let is_it = |grant: &&mut Grant| {
            self.is_of(grant) && token.is_none_or(|token| token == grant.token)
        };
        let Some(grant) = record.grants.iter_mut().find(is_it) else {
            return (Answer::NotHeld, false);
        };
        let deadline = now + self.lock.lease_us;
        let is_longer = grant.deadline < deadline;
        grant.deadline = grant.deadline.max(deadline);
        (Answer::Held(grant.hold()), is_longer)
    }

    /// L2, L3, L10.
    fn release(&self, record: &mut RwLockRecord, hold: HoldId, now: u64) -> (Answer, bool) {
        let own = record.grants.iter().position(|grant| self.is_of(grant));
        let hold_at = |at: usize| record.grants[at].holds.iter().position(|held| *held == hold);
        if let Some((at, hold_at)) = own.and_then(|at| Some((at, hold_at(at)?))) {
            let grant = &mut record.grants[at];
            grant.holds.remove(hold_at);
            let (token, holds) = (grant.token, grant.holds.len() as u64);
            if holds == 0 {
                record.grants.remove(at);
            }
            let (mode, owner, until) = (self.mode, self.owner, now + self.lock.remember_us);
            record.remember(Released { mode, id: hold, owner, token, holds, until });
            return (Answer::Released { token, holds }, true);
        }
        let before = record.released.iter().find(|released| {
            (released.mode, released.owner, released.id) == (self.mode, self.owner, hold)
        });
        let answer = before.map_or(Answer::NotHeld, |&Released { token, holds, .. }| {
            Answer::Released { token, holds }
        });
        (answer, false)
    }

    fn is_of(&self, grant: &Grant) -> bool {
        (grant.mode, grant.owner) == (self.mode, self.owner)
    }
}

impl Inspect {
    pub(super) fn run(
        self,
        slot: &Option<Record>,
        now: Timestamp,
    ) -> Result<Inspection, RecordError> {
        let record = load(slot, now)?;
        let holder = |grant: &Grant| Holder { owner: grant.owner, hold: grant.hold() };
        Ok(Inspection {
            now,
            kept_until: (record.kept_until > 0).then(|| end(record.kept_until)),
            holders: record.grants.iter().map(holder).collect(),
        })
    }
}

/// What is stored, without what has expired or is no longer remembered: the next write drops that, and it
/// counts nowhere before (D9).
fn load(slot: &Option<Record>, now: Timestamp) -> Result<RwLockRecord, RecordError> {
    match slot {
        None => Ok(RwLockRecord::default()),
        Some(Record { body: Body::RwLock(record), .. }) => {
            let now = now.as_micros();
            let mut record = record.clone();
            record.grants.retain(|grant| now < grant.deadline);
            record.released.retain(|released| now < released.until);
            if record.kept_until <= now {
                record.kept_until = 0;
            }
            Ok(record)
        }
        Some(_) => Err(RecordError::OtherKind),
    }
}

impl Grant {
    fn hold(&self) -> Hold {
        Hold {
            mode: self.mode,
            token: self.token,
            holds: self.holds.len() as u64,
            deadline: end(self.deadline),
        }
    }
}

fn end(micros: u64) -> Timestamp {
    Timestamp::computed(micros)
        .expect("a lease or a wait, at most MAX_SPAN, after an accepted time; records are checked")
}
