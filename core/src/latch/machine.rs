//! The latch's state machine.

use core::mem::take;

use super::record::{Done, Kind, LatchRecord};
use super::{Action, Answer, Inspect, Inspection, Operation, REMEMBERED, Reply, Reset};
use crate::error::RecordError;
use crate::lease::{bound, extend_bound, remember, time};
use crate::record::{Body, Record};
use crate::time::Timestamp;

impl Operation {
    pub(super) fn run(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Reply, RecordError> {
        let reply = |answer| Reply { now, answer, woke: false };
        let mut record = load(slot, now)?;
        if let Some(done) = record.done.iter_mut().find(|done| done.id == self.id) {
            if (done.kind, done.count) != (self.kind(), self.count) {
                return Err(RecordError::OperationReused);
            }
            let answer = Answer::Done { left: done.left };
            if extend_bound(&mut done.bound, self.not_after) {
                *slot = Some(Record::of(Body::Latch(record)));
            }
            return Ok(reply(answer));
        }
        if matches!(self.action, Action::CountDown) && record.left == 0 {
            return Ok(reply(Answer::Open));
        }
        let forgotten = time(record.forgotten);
        if now > self.not_after || self.not_after <= forgotten {
            return Ok(reply(Answer::TooLate { forgotten }));
        }
        match self.action {
            Action::Set { .. } if record.left > 0 => {
                let open_at = time(record.until);
                return Ok(reply(Answer::Closed { left: record.left, open_at }));
            }
            Action::Set { keep_us } => {
                record.left = self.count;
                record.keep = keep_us;
            }
            Action::CountDown => record.left = record.left.saturating_sub(self.count),
        }
        let left = record.left;
        let (kind, bound) = (self.kind(), bound(self.not_after));
        let done = Done { kind, id: self.id, count: self.count, left, bound };
        if let Some(oldest) = remember(&mut record.done, done, REMEMBERED) {
            record.forget(oldest.bound, now.as_micros());
        }
        record.until = now.as_micros() + record.keep;
        *slot = Some(Record::of(Body::Latch(record)));
        Ok(Reply { woke: left == 0, ..reply(Answer::Done { left }) })
    }

    fn kind(&self) -> Kind {
        match self.action {
            Action::Set { .. } => Kind::Set,
            Action::CountDown => Kind::CountDown,
        }
    }
}

impl Inspect {
    pub(super) fn run(
        self,
        slot: &Option<Record>,
        now: Timestamp,
    ) -> Result<Inspection, RecordError> {
        let LatchRecord { left, until, .. } = load(slot, now)?;
        Ok(Inspection { now, left, open_at: if left > 0 { time(until) } else { now } })
    }
}

impl Reset {
    pub(super) fn run(
        self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Option<u64>, RecordError> {
        let mut record = load(slot, now)?;
        let is_kept = record.until > 0;
        let left = is_kept.then_some(record.left);
        if is_kept {
            record.end(now.as_micros());
            let matters = record.forgotten > 0;
            *slot = matters.then(|| Record::of(Body::Latch(record)));
        }
        Ok(left)
    }
}

/// Returns the record that counts at `now`: after its time a latch acts as if it had never been set, but for copies of
/// its operations (D9).
fn load(slot: &Option<Record>, now: Timestamp) -> Result<LatchRecord, RecordError> {
    let now = now.accepted()?.as_micros();
    let mut record = match slot {
        None => LatchRecord::default(),
        Some(Record { body: Body::Latch(record), .. }) => record.clone(),
        Some(_) => return Err(RecordError::OtherKind),
    };
    if now >= record.until {
        record.end(now);
    } else {
        let forgotten = take(&mut record.forgotten);
        record.forget(forgotten, now);
    }
    Ok(record)
}

impl LatchRecord {
    /// Forgets the latch, and all that was done to it but for its bounds.
    fn end(&mut self, now: u64) {
        let LatchRecord { forgotten, done, .. } = take(self);
        let latest = done.iter().map(|done| done.bound).fold(forgotten, u64::max);
        self.forget(latest, now);
    }

    /// Forgets an operation of this bound. Copies that arrive after it are too late by themselves.
    fn forget(&mut self, bound: u64, now: u64) {
        if now <= bound {
            self.forgotten = self.forgotten.max(bound);
        }
    }
}
