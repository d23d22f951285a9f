//! The read-write lock's state machine.

use super::record::{Grant, HoldEnd, RwLockRecord};
use super::{
    Action, Answer, Hold, HoldId, Holder, Inspect, Inspection, MAX_HOLDS, MAX_READERS, Mode,
    Operation, Reply,
};
use crate::error::RecordError;
use crate::lease::{Granted, Leases, Released, bound, extend_bound, time};
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
                let forgotten = time(record.leases.forgotten);
                if let Some(again) = self.again(&mut record, hold, not_after)? {
                    again
                } else if now > not_after || not_after <= forgotten {
                    (Answer::TooLate { forgotten }, false)
                } else {
                    self.acquire(&mut record, hold, not_after, waits_us, now.as_micros())
                }
            }
            Action::Renew { token } => self.renew(&mut record, token, now.as_micros()),
            Action::Release { hold } => self.release(&mut record, hold, now.as_micros()),
        };
        let ends_a_grant = is_changed && matches!(answer, Answer::Released { holds: 0, .. });
        let woke = ends_a_grant && record.leases.wake.is_due(now.as_micros());
        if is_changed {
            *slot = Some(Record::of(Body::RwLock(record)));
        }
        Ok(Reply { now, answer, woke })
    }

    /// Returns the answer to an acquire of a live hold, and whether it may arrive for longer than those before (L10).
    fn again(
        &self,
        record: &mut RwLockRecord,
        hold: HoldId,
        not_after: Timestamp,
    ) -> Result<Option<(Answer, bool)>, RecordError> {
        let Leases { grants, released, .. } = &mut record.leases;
        let known = grants.iter_mut().find(|grant| grant.what.holds.contains(&hold));
        match known {
            Some(grant) if self.is_of(grant) => {
                let is_later = extend_bound(&mut grant.what.bound, not_after);
                Ok(Some((Answer::Held(grant.hold()), is_later)))
            }
            Some(_) => Err(RecordError::OperationReused),
            None if released.iter().any(|released| released.what.id == hold) => {
                Err(RecordError::OperationReused)
            }
            None => Ok(None),
        }
    }

    /// Adds a hold for its owner, or makes a fresh grant (L1, L2, L4, L5).
    fn acquire(
        &self,
        record: &mut RwLockRecord,
        hold: HoldId,
        not_after: Timestamp,
        waits_us: u64,
        now: u64,
    ) -> (Answer, bool) {
        let lease_us = self.lock.lease_us;
        if let Some(grant) = record.leases.grants.iter_mut().find(|grant| self.is_of(grant)) {
            if grant.what.holds.len() == MAX_HOLDS {
                return (Answer::TooMany { retry_at: time(grant.deadline) }, false);
            }
            grant.what.holds.push(hold);
            extend_bound(&mut grant.what.bound, not_after);
            grant.extend(now + lease_us);
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
            return (refused, record.leases.wake.waits(now, waits_us) || is_longer);
        }
        if self.mode == Mode::Write {
            record.kept_until = 0;
        }
        let (holds, bound) = ([hold].into(), bound(not_after));
        let what = Grant { mode: self.mode, owner: self.owner, holds, bound };
        let granted = record.leases.grant(what, lease_us, now);
        let answer = Answer::Held(granted.hold());
        record.leases.grants.push(granted);
        (answer, true)
    }

    fn read_refused(&self, record: &RwLockRecord) -> Option<Answer> {
        let grants = &record.leases.grants;
        let writer = grants.iter().find(|grant| grant.what.mode == Mode::Write);
        let until = match writer {
            Some(writer) if writer.what.owner == self.owner => 0,
            Some(writer) => writer.deadline.max(record.kept_until),
            None => record.kept_until,
        };
        if until > 0 {
            return Some(Answer::Refused { retry_at: time(until) });
        }
        let readers = grants.iter().filter(|grant| grant.what.mode == Mode::Read);
        let first = readers.clone().map(|grant| grant.deadline).min()?;
        (readers.count() >= MAX_READERS).then(|| Answer::TooMany { retry_at: time(first) })
    }

    fn write_refused(&self, record: &RwLockRecord) -> Option<Answer> {
        let grants = &record.leases.grants;
        let others = grants.iter().filter(|grant| grant.what.owner != self.owner);
        let retry_at = time(others.map(|grant| grant.deadline).max()?);
        let is_reader = grants.iter().any(|grant| grant.what.owner == self.owner);
        Some(match is_reader {
            true => Answer::UpgradeRefused { retry_at },
            false => Answer::Refused { retry_at },
        })
    }

    /// L3, L4.
    fn renew(&self, record: &mut RwLockRecord, token: Option<u64>, now: u64) -> (Answer, bool) {
        let is_it = |grant: &&mut Granted<Grant>| {
            self.is_of(grant) && token.is_none_or(|token| token == grant.token)
        };
        let Some(grant) = record.leases.grants.iter_mut().find(is_it) else {
            return (Answer::NotHeld, false);
        };
        let is_longer = grant.extend(now + self.lock.lease_us);
        (Answer::Held(grant.hold()), is_longer)
    }

    /// L2, L3, L10.
    fn release(&self, record: &mut RwLockRecord, hold: HoldId, now: u64) -> (Answer, bool) {
        let leases = &mut record.leases;
        let own = leases.grants.iter().position(|grant| self.is_of(grant));
        let hold_at =
            |at: usize| leases.grants[at].what.holds.iter().position(|held| *held == hold);
        if let Some((at, hold_at)) = own.and_then(|at| Some((at, hold_at(at)?))) {
            let grant = &mut leases.grants[at];
            grant.what.holds.remove(hold_at);
            let bound = grant.what.bound;
            let (token, holds) = (grant.token, grant.what.holds.len() as u64);
            if holds == 0 {
                leases.grants.remove(at);
            }
            let (mode, owner, until) = (self.mode, self.owner, now + self.lock.remember_us);
            let what = HoldEnd { mode, id: hold, owner, holds };
            leases.remember(Released { what, token, until, bound }, now);
            return (Answer::Released { token, holds }, true);
        }
        let before = leases.released.iter().find(|Released { what, .. }| {
            (what.mode, what.owner, what.id) == (self.mode, self.owner, hold)
        });
        let answer = before.map_or(Answer::NotHeld, |&Released { token, what, .. }| {
            Answer::Released { token, holds: what.holds }
        });
        (answer, false)
    }

    fn is_of(&self, grant: &Granted<Grant>) -> bool {
        (grant.what.mode, grant.what.owner) == (self.mode, self.owner)
    }
}

impl Inspect {
    pub(super) fn run(
        self,
        slot: &Option<Record>,
        now: Timestamp,
    ) -> Result<Inspection, RecordError> {
        let record = load(slot, now)?;
        let holder =
            |grant: &Granted<Grant>| Holder { owner: grant.what.owner, hold: grant.hold() };
        Ok(Inspection {
            now,
            kept_until: (record.kept_until > 0).then(|| time(record.kept_until)),
            holders: record.leases.grants.iter().map(holder).collect(),
        })
    }
}

/// Returns the record without its expired and forgotten parts: the next write drops those, and they count nowhere
/// before (D9).
fn load(slot: &Option<Record>, now: Timestamp) -> Result<RwLockRecord, RecordError> {
    let now = now.accepted()?;
    let mut record = match slot {
        None => RwLockRecord::new(0, 0, 0, 0),
        Some(Record { body: Body::RwLock(record), .. }) => record.clone(),
        Some(_) => return Err(RecordError::OtherKind),
    };
    record.leases.prune(now.as_micros());
    if record.kept_until <= now.as_micros() {
        record.kept_until = 0;
    }
    Ok(record)
}

impl Granted<Grant> {
    fn hold(&self) -> Hold {
        let Grant { mode, holds, .. } = &self.what;
        let (mode, holds) = (*mode, holds.len() as u64);
        Hold { mode, token: self.token, holds, deadline: time(self.deadline) }
    }
}
