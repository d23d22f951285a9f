//! The lock's state machine.

use super::record::{Done, Kind, LockRecord};
use super::{Action, Answer, Hold, Holder, Inspect, Inspection, Lock, Operation, OwnerId, Reply};
use crate::error::RecordError;
use crate::record::{Body, Record};
use crate::time::Timestamp;

impl Operation {
    pub(super) fn run(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Reply, RecordError> {
        let reply = |answer| Reply { now, answer };
        let prior = load(slot, now)?;
        let mut record = prior.cloned().unwrap_or_default();
        if let Some(done) = record.remembered(self.id) {
            if done.kind != self.kind() {
                return Err(RecordError::OperationReused);
            }
            return Ok(reply(Answer::Done(done.hold)));
        }
        let micros = now.as_micros();
        let allowed = match self.action {
            Action::Acquire { not_after, .. } if now > not_after => {
                return Ok(reply(Answer::TooLate));
            }
            Action::Acquire { owner, .. } => self.lock.grant(&mut record, owner, micros),
            Action::Renew { owner, token } => self.lock.renewed(&mut record, owner, token, micros),
            Action::Release { owner, token } => released(&mut record, owner, token, micros),
            Action::ForceRelease { token } => broken(&mut record, token, micros),
        };
        if !allowed {
            let holder = record.holder(micros);
            if self.is_to_be_woken(&mut record, micros) {
                *slot = Some(Record::of_lock(record));
            }
            return Ok(reply(Answer::Refused(holder)));
        }
        let hold = record.hold();
        record.remember(Done { kind: self.kind(), id: self.id, hold });
        record.keep = self.lock.keep(&record, micros);
        *slot = Some(Record::of_lock(record));
        Ok(reply(Answer::Done(hold)))
    }

    /// Whether the record now says that somebody waits, and did not before, or not for long enough.
    fn is_to_be_woken(&self, record: &mut LockRecord, now: u64) -> bool {
        let Action::Acquire { waits_us, .. } = self.action else { return false };
        let is_new = waits_us > 0 && record.wake < now + waits_us / 2;
        if is_new {
            record.wake = now + waits_us;
        }
        is_new
    }

    fn kind(&self) -> Kind {
        match self.action {
            Action::Acquire { .. } => Kind::Acquire,
            Action::Renew { .. } => Kind::Renew,
            Action::Release { .. } => Kind::Release,
            Action::ForceRelease { .. } => Kind::ForceRelease,
        }
    }
}

impl Inspect {
    pub(super) fn run(
        self,
        slot: &Option<Record>,
        now: Timestamp,
    ) -> Result<Inspection, RecordError> {
        let record = load(slot, now)?;
        let holder = record.and_then(|record| record.holder(now.as_micros()));
        Ok(Inspection { now, holder })
    }
}

impl Lock {
    /// A fresh grant, or one hold more for its owner (L2, L4, L5).
    fn grant(&self, record: &mut LockRecord, owner: OwnerId, now: u64) -> bool {
        let deadline = now + self.lease_us;
        if !record.is_live(now) {
            record.token = now.max(record.token + 1);
            record.owner = owner;
            record.holds = 1;
            record.deadline = deadline;
            return true;
        }
        if record.owner != owner {
            return false;
        }
        record.holds += 1;
        record.deadline = record.deadline.max(deadline);
        true
    }

    fn renewed(
        &self,
        record: &mut LockRecord,
        owner: OwnerId,
        token: Option<u64>,
        now: u64,
    ) -> bool {
        if !record.is_held_by(owner, token, now) {
            return false;
        }
        record.deadline = record.deadline.max(now + self.lease_us);
        true
    }

    /// Until when the record matters: for its operations, its lease and its token (L5, L10).
    fn keep(&self, record: &LockRecord, now: u64) -> u64 {
        let remembered = now.max(record.deadline) + self.remember_us;
        record.keep.max(remembered).max(record.token + 1)
    }
}

fn released(record: &mut LockRecord, owner: OwnerId, token: Option<u64>, now: u64) -> bool {
    if !record.is_held_by(owner, token, now) {
        return false;
    }
    record.holds -= 1;
    if record.holds == 0 {
        record.free();
    }
    true
}

fn broken(record: &mut LockRecord, token: u64, now: u64) -> bool {
    if !record.is_live(now) || record.token != token {
        return false;
    }
    record.free();
    true
}

/// The record that counts at `now`: from its `keep` on it is as if it were not there (D9).
fn load(slot: &Option<Record>, now: Timestamp) -> Result<Option<&LockRecord>, RecordError> {
    match slot {
        None => Ok(None),
        Some(Record { body: Body::Lock(record), .. }) => {
            Ok(Some(record).filter(|lock| now.as_micros() < lock.keep))
        }
        Some(_) => Err(RecordError::OtherKind),
    }
}

impl LockRecord {
    fn is_live(&self, now: u64) -> bool {
        self.holds > 0 && now < self.deadline
    }

    fn is_held_by(&self, owner: OwnerId, token: Option<u64>, now: u64) -> bool {
        let same_grant = token.is_none_or(|token| token == self.token);
        self.is_live(now) && self.owner == owner && same_grant
    }

    fn free(&mut self) {
        self.owner = OwnerId(0);
        self.holds = 0;
        self.deadline = 0;
    }

    fn hold(&self) -> Hold {
        let deadline = Timestamp::computed(self.deadline)
            .expect("a lease, at most MAX_SPAN, after an accepted time; records are checked");
        Hold { token: self.token, holds: self.holds, deadline }
    }

    fn holder(&self, now: u64) -> Option<Holder> {
        self.is_live(now).then(|| Holder { owner: self.owner, hold: self.hold() })
    }
}
