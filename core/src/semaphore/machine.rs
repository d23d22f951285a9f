//! The semaphore's state machine.

use alloc::vec::Vec;

use super::record::{Granted, Released, SemaphoreRecord};
use super::{
    Action, Answer, Grant, Inspect, Inspection, MAX_INSPECTED, Operation, PermitId, Reply,
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
            Action::Acquire { count, not_after, waits_us } => {
                let (answer, is_granted) = self.acquire(&mut record, count, not_after, now)?;
                let is_full = matches!(answer, Answer::Full { .. });
                (answer, is_granted || is_full && record.wake.waits(now.as_micros(), waits_us))
            }
            Action::Renew { token } => self.renew(&mut record, token, now),
            Action::Release { token } => self.release(&mut record, token, now),
        };
        let gives_back = is_changed && matches!(answer, Answer::Released { .. });
        let woke = gives_back && record.wake.is_due(now.as_micros());
        if is_changed {
            *slot = Some(Record::of(Body::Semaphore(record)));
        }
        Ok(Reply { now, answer, woke })
    }

    /// L1, L5, L10.
    fn acquire(
        &self,
        record: &mut SemaphoreRecord,
        count: u64,
        not_after: Timestamp,
        now: Timestamp,
    ) -> Result<(Answer, bool), RecordError> {
        if let Some(granted) = record.grants.iter().find(|granted| granted.id == self.id) {
            if granted.count != count {
                return Err(RecordError::OperationReused);
            }
            return Ok((Answer::Held(granted.grant()), false));
        }
        if record.released.iter().any(|released| released.id == self.id) {
            return Err(RecordError::OperationReused);
        }
        let permits = self.semaphore.permits;
        let refused = if now > not_after {
            Some(Answer::TooLate)
        } else if count > permits {
            Some(Answer::Never)
        } else {
            fits_at(&record.grants, permits, count).map(|fits_at| Answer::Full { fits_at })
        };
        if let Some(refused) = refused {
            return Ok((refused, false));
        }
        record.token = now.as_micros().max(record.token + 1);
        let deadline = now.as_micros() + self.semaphore.lease_us;
        let granted = Granted { id: self.id, count, token: record.token, deadline };
        record.grants.push(granted);
        Ok((Answer::Held(granted.grant()), true))
    }

    /// L3, L4.
    fn renew(
        &self,
        record: &mut SemaphoreRecord,
        token: Option<u64>,
        now: Timestamp,
    ) -> (Answer, bool) {
        let Some(at) = record.position(self.id, token) else { return (Answer::NotHeld, false) };
        let granted = &mut record.grants[at];
        let deadline = now.as_micros() + self.semaphore.lease_us;
        let is_longer = granted.deadline < deadline;
        granted.deadline = granted.deadline.max(deadline);
        (Answer::Held(granted.grant()), is_longer)
    }

    /// L3, L10.
    fn release(
        &self,
        record: &mut SemaphoreRecord,
        token: Option<u64>,
        now: Timestamp,
    ) -> (Answer, bool) {
        if let Some(at) = record.position(self.id, token) {
            let Granted { id, token, .. } = record.grants.remove(at);
            let until = now.as_micros() + self.semaphore.remember_us;
            record.remember(Released { id, token, until });
            return (Answer::Released { token }, true);
        }
        let before = record
            .released
            .iter()
            .find(|released| is_that(token, self.id, released.token, released.id));
        (
            before.map_or(Answer::NotHeld, |&Released { token, .. }| Answer::Released { token }),
            false,
        )
    }
}

impl Inspect {
    pub(super) fn run(
        self,
        slot: &Option<Record>,
        now: Timestamp,
    ) -> Result<Inspection, RecordError> {
        let grants = load(slot, now)?.grants;
        let named = grants.iter().take(MAX_INSPECTED).map(|granted| (granted.id, granted.grant()));
        Ok(Inspection {
            now,
            used: grants.iter().map(|granted| granted.count).sum(),
            holders: grants.len(),
            grants: named.collect(),
        })
    }
}

/// From when on these grants leave room for `count` of `permits`; nothing where they do now.
fn fits_at(grants: &[Granted], permits: u64, count: u64) -> Option<Timestamp> {
    let mut used: u64 = grants.iter().map(|granted| granted.count).sum();
    let mut by_end: Vec<&Granted> = grants.iter().collect();
    by_end.sort_by_key(|granted| granted.deadline);
    let mut ends = by_end.into_iter();
    let mut fits_at = None;
    while used + count > permits {
        let next = ends.next().expect("at most all permits fit where nothing is in use");
        used -= next.count;
        fits_at = Some(next.grant().deadline);
    }
    fits_at
}

/// What is stored, without what has expired or is no longer remembered: the next write drops that, and it
/// counts nowhere before (D9).
fn load(slot: &Option<Record>, now: Timestamp) -> Result<SemaphoreRecord, RecordError> {
    match slot {
        None => Ok(SemaphoreRecord::default()),
        Some(Record { body: Body::Semaphore(record), .. }) => {
            let now = now.as_micros();
            let mut record = record.clone();
            record.grants.retain(|granted| now < granted.deadline);
            record.released.retain(|released| now < released.until);
            Ok(record)
        }
        Some(_) => Err(RecordError::OtherKind),
    }
}

impl SemaphoreRecord {
    /// Where the grant of this id is, if it is also that of the token.
    fn position(&self, id: PermitId, token: Option<u64>) -> Option<usize> {
        self.grants.iter().position(|granted| is_that(token, id, granted.token, granted.id))
    }
}

fn is_that(asked: Option<u64>, id: PermitId, token: u64, of: PermitId) -> bool {
    id == of && asked.is_none_or(|asked| asked == token)
}

impl Granted {
    fn grant(&self) -> Grant {
        let deadline = Timestamp::computed(self.deadline)
            .expect("a lease, at most MAX_SPAN, after an accepted time; records are checked");
        Grant { count: self.count, token: self.token, deadline }
    }
}
