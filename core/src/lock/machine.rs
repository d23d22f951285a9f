//! The lock's state machine.

use super::record::{End, Held, LockRecord};
use super::{
    Action, Answer, Hold, HoldId, Holder, Inspect, Inspection, Label, Lock, MAX_HOLDS, Operation,
    OwnerId, Reply, Withdraw,
};
use crate::command::Publish;
use crate::error::RecordError;
use crate::exact::MAX_COUNT;
use crate::lease::{bound, extend_bound, time};
use crate::record::{Body, Record};
use crate::time::Timestamp;
use crate::wake::Wake;

impl Operation {
    pub(super) fn run(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Reply, RecordError> {
        let reply = |answer| Reply { now, answer };
        let mut record = load(slot.as_ref(), now)?.unwrap_or_default();
        let micros = now.as_micros();
        if self.comes_later(&mut record, micros) {
            *slot = Some(Record::of_lock(record.clone()));
        }
        if let Some(answer) = self.answered(&record, now)? {
            return Ok(reply(answer));
        }
        let before = (record.deadline, record.keep);
        let done = match self.action {
            Action::Acquire { owner, id, not_after, label, .. } => {
                let hold = Held { id, not_after: bound(not_after) };
                self.lock.grant(&mut record, owner, hold, label, micros)
            }
            Action::Renew { owner, token } => self.lock.renewed(&mut record, owner, token, micros),
            Action::Release { owner, id } => released(&mut record, owner, id, micros),
            Action::ForceRelease { token } => broken(&mut record, token, micros),
        };
        let Some(answer) = done else {
            let is_changed = self.wait(&mut record, micros);
            let answer = self.refusal(&record, micros);
            if is_changed {
                *slot = Some(Record::of_lock(record));
            }
            return Ok(reply(answer));
        };
        record.keep = self.lock.keep(&record, micros);
        let is_renewed = matches!(self.action, Action::Renew { .. });
        if !is_renewed || (record.deadline, record.keep) != before {
            *slot = Some(Record::of_lock(record));
        }
        Ok(reply(answer))
    }

    /// Returns the answer of an operation that changes nothing: it ran before, or comes too late.
    fn answered(&self, record: &LockRecord, now: Timestamp) -> Result<Option<Answer>, RecordError> {
        let micros = now.as_micros();
        Ok(match self.action {
            Action::Acquire { owner, id, not_after, .. } => {
                let is_known = record.holds.iter().any(|hold| hold.id == id);
                let forgotten = time(record.forgotten);
                if is_known && record.is_held_by(owner, None, micros) {
                    Some(Answer::Held(record.hold()))
                } else if now > not_after {
                    Some(Answer::TooLate { forgotten })
                } else if record.end_of(id).is_some() || is_known && !record.is_live(micros) {
                    return Err(RecordError::OperationReused);
                } else if not_after <= forgotten {
                    Some(Answer::TooLate { forgotten })
                } else {
                    None
                }
            }
            Action::Release { id, .. } => match record.end_of(id) {
                Some(End::Released { token, holds }) => Some(Answer::Released { token, holds }),
                _ => None,
            },
            Action::ForceRelease { token } => {
                let is_known = record.ended.iter().any(|ended| ended.how == End::Broken { token });
                is_known.then_some(Answer::Released { token, holds: 0 })
            }
            Action::Renew { .. } => None,
        })
    }

    /// Returns whether this is a copy of the acquire of a live hold that may arrive for longer than those before: so it
    /// may once the hold has ended.
    fn comes_later(&self, record: &mut LockRecord, now: u64) -> bool {
        let Action::Acquire { owner, id, not_after, .. } = self.action else { return false };
        if !record.is_held_by(owner, None, now) {
            return false;
        }
        let Some(hold) = record.holds.iter_mut().find(|hold| hold.id == id) else { return false };
        extend_bound(&mut hold.not_after, not_after)
    }

    /// Returns whether the record now says that the caller waits, and did not before, or not for long enough.
    fn wait(&self, record: &mut LockRecord, now: u64) -> bool {
        let Action::Acquire { owner, waits_us, in_line, .. } = self.action else { return false };
        if waits_us == 0 {
            return false;
        }
        let mut wake = Wake(record.wake);
        let is_new = wake.waits(now, waits_us);
        record.wake = wake.0;
        let place = if in_line { record.queue.line_up(owner, now, waits_us) } else { None };
        record.keep = record.keep.max(place.unwrap_or(0));
        is_new || place.is_some()
    }

    fn refusal(&self, record: &LockRecord, now: u64) -> Answer {
        let holder = record.holder(now);
        match (self.action, holder, record.queue.first()) {
            (Action::Acquire { owner, .. }, None, Some(first)) => {
                let ahead = record.queue.ahead_of(owner) as u64;
                Answer::Queued { ahead, until: first.end() }
            }
            _ => Answer::Refused(holder),
        }
    }
}

impl Inspect {
    pub(super) fn run(
        self,
        slot: &Option<Record>,
        now: Timestamp,
    ) -> Result<Inspection, RecordError> {
        let record = load(slot.as_ref(), now)?.unwrap_or_default();
        let holder = record.holder(now.as_micros());
        Ok(Inspection {
            now,
            holder,
            since: holder.map(|_| record.since()),
            label: record.label.filter(|_| holder.is_some()),
            queued: record.queue.len() as u64,
        })
    }
}

impl Withdraw {
    pub(super) fn run(
        self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Timestamp, RecordError> {
        if let Some(mut record) = load(slot.as_ref(), now)?
            && record.queue.leave(self.owner)
        {
            *slot = Some(Record::of_lock(record));
        }
        Ok(now)
    }
}

/// Returns the waiter to notify that the lock is free, if it is.
pub(super) fn to_wake(stored: Option<&Record>, now: Timestamp) -> Publish {
    let Ok(Some(record)) = load(stored, now) else { return Publish::Nothing };
    let now = now.as_micros();
    match record.queue.first() {
        _ if record.is_live(now) => Publish::Nothing,
        Some(first) => Publish::To(first.owner.as_u128()),
        None if Wake(record.wake).is_due(now) => Publish::Any,
        None => Publish::Nothing,
    }
}

impl Lock {
    /// Makes a fresh grant to the next owner, or one more hold for the owner (L2, L4, L5, L9).
    fn grant(
        &self,
        record: &mut LockRecord,
        owner: OwnerId,
        hold: Held,
        label: Option<Label>,
        now: u64,
    ) -> Option<Answer> {
        let deadline = now + self.lease_us;
        if record.is_live(now) {
            if record.owner != owner || record.holds.len() == MAX_HOLDS {
                return None;
            }
            record.deadline = record.deadline.max(deadline);
        } else {
            if record.queue.first().is_some_and(|first| first.owner != owner) {
                return None;
            }
            record.end_all(End::Expired);
            record.make_room();
            record.token = now.max(record.token + 1);
            record.ahead = record.token - now;
            record.owner = owner;
            record.deadline = deadline;
            record.label = label;
        }
        record.holds.push(hold);
        record.queue.leave(owner);
        Some(Answer::Held(record.hold()))
    }

    fn renewed(
        &self,
        record: &mut LockRecord,
        owner: OwnerId,
        token: Option<u64>,
        now: u64,
    ) -> Option<Answer> {
        if !record.is_held_by(owner, token, now) {
            return None;
        }
        record.deadline = record.deadline.max(now + self.lease_us);
        Some(Answer::Held(record.hold()))
    }

    /// Returns until when the record is kept: for its holds, those that ended, its lease and its token (L5, L10).
    /// Where that is longer than before, it is kept for half as long again, so that an operation on a lock in use seldom
    /// moves the expiry.
    fn keep(&self, record: &LockRecord, now: u64) -> u64 {
        let needed = now.max(record.deadline) + self.remember_us;
        let longer = (needed + (needed - now) / 2).min(MAX_COUNT);
        let kept = if record.keep < needed { longer } else { record.keep };
        kept.max(record.token + 1)
    }
}

fn released(record: &mut LockRecord, owner: OwnerId, id: HoldId, now: u64) -> Option<Answer> {
    if !record.is_held_by(owner, None, now) {
        return None;
    }
    let at = record.holds.iter().position(|hold| hold.id == id)?;
    let hold = record.holds.remove(at);
    let (token, holds) = (record.token, record.holds.len() as u64);
    record.remember(hold, End::Released { token, holds });
    Some(Answer::Released { token, holds })
}

fn broken(record: &mut LockRecord, token: u64, now: u64) -> Option<Answer> {
    if !record.is_live(now) || record.token != token {
        return None;
    }
    record.end_all(End::Broken { token });
    Some(Answer::Released { token, holds: 0 })
}

/// Returns the record that counts at `now`: from its `keep` on it counts as absent, and so does a place that has ended
/// (D9).
fn load(stored: Option<&Record>, now: Timestamp) -> Result<Option<LockRecord>, RecordError> {
    let now = now.accepted()?.as_micros();
    match stored.map(|record| &record.body) {
        None => Ok(None),
        Some(Body::Lock(record)) if now < record.keep => {
            let mut record = record.clone();
            record.queue.prune(now);
            Ok(Some(record))
        }
        Some(Body::Lock(_)) => Ok(None),
        Some(_) => Err(RecordError::OtherKind),
    }
}

impl LockRecord {
    fn is_live(&self, now: u64) -> bool {
        !self.holds.is_empty() && now < self.deadline
    }

    fn is_held_by(&self, owner: OwnerId, token: Option<u64>, now: u64) -> bool {
        let same_grant = token.is_none_or(|token| token == self.token);
        self.is_live(now) && self.owner == owner && same_grant
    }

    /// Ends all holds, live or not.
    fn end_all(&mut self, how: End) {
        for hold in core::mem::take(&mut self.holds) {
            self.remember(hold, how);
        }
    }

    /// Returns when the latest grant was made.
    fn since(&self) -> Timestamp {
        time(self.token - self.ahead)
    }

    fn hold(&self) -> Hold {
        let (holds, deadline) = (self.holds.len() as u64, time(self.deadline));
        Hold { token: self.token, holds, deadline }
    }

    fn holder(&self, now: u64) -> Option<Holder> {
        self.is_live(now).then(|| Holder { owner: self.owner, hold: self.hold() })
    }
}
