//! The latch's state machine.

use super::record::{Done, Kind, LatchRecord};
use super::{Action, Answer, Inspect, Inspection, Operation, REMEMBERED, Reply, Reset};
use crate::error::RecordError;
use crate::lease::{remember, time};
use crate::record::{Body, Record};
use crate::time::Timestamp;

impl Operation {
    pub(super) fn run(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Reply, RecordError> {
        let reply = |answer| Reply { now, answer, woke: false };
        let mut record = load(slot, now)?.cloned().unwrap_or_default();
        if let Some(done) = record.done.iter().find(|done| done.id == self.id) {
            if (done.kind, done.count) != (self.kind(), self.count) {
                return Err(RecordError::OperationReused);
            }
            return Ok(reply(Answer::Done { left: done.left }));
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
            Action::CountDown if record.left == 0 => return Ok(reply(Answer::Open)),
            Action::CountDown => record.left = record.left.saturating_sub(self.count),
        }
        let left = record.left;
        let done = Done { kind: self.kind(), id: self.id, count: self.count, left };
        remember(&mut record.done, done, REMEMBERED);
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
        let closed = load(slot, now)?.filter(|record| record.left > 0);
        let left = closed.map_or(0, |record| record.left);
        Ok(Inspection { now, left, open_at: closed.map_or(now, |record| time(record.until)) })
    }
}

impl Reset {
    pub(super) fn run(
        self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Option<u64>, RecordError> {
        let left = load(slot, now)?.map(|record| record.left);
        if left.is_some() {
            *slot = None;
        }
        Ok(left)
    }
}

/// Returns the record that counts at `now`: after its time it acts as if absent (D9).
fn load(slot: &Option<Record>, now: Timestamp) -> Result<Option<&LatchRecord>, RecordError> {
    let now = now.accepted()?;
    match slot {
        None => Ok(None),
        Some(Record { body: Body::Latch(record), .. }) => {
            Ok(Some(record).filter(|latch| now.as_micros() < latch.until))
        }
        Some(_) => Err(RecordError::OtherKind),
    }
}
