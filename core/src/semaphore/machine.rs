//! The semaphore's state machine.

use super::record::{Permits, SemaphoreRecord};
use super::{
    Action, Answer, Grant, Inspect, Inspection, MAX_INSPECTED, Operation, PermitId, Reply,
};
use crate::error::RecordError;
use crate::lease::{Granted, Released, bound, extend_bound, time};
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
                let (answer, is_changed) = self.acquire(&mut record, count, not_after, now)?;
                let is_full = matches!(answer, Answer::Full { .. });
                (answer, is_changed || is_full && record.wake.waits(now.as_micros(), waits_us))
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
        if let Some(at) = record.position(self.id, None) {
            let granted = &mut record.grants[at];
            if granted.what.count != count {
                return Err(RecordError::OperationReused);
            }
            let is_later = extend_bound(&mut granted.what.bound, not_after);
            return Ok((Answer::Held(granted.grant()), is_later));
        }
        if record.released.iter().any(|released| released.what == self.id) {
            return Err(RecordError::OperationReused);
        }
        let permits = self.semaphore.permits;
        let forgotten = time(record.forgotten);
        let refused = if now > not_after || not_after <= forgotten {
            Some(Answer::TooLate { forgotten })
        } else if count > permits {
            Some(Answer::Never)
        } else {
            fits_at(&record.grants, permits, count).map(|fits_at| Answer::Full { fits_at })
        };
        if let Some(refused) = refused {
            return Ok((refused, false));
        }
        let what = Permits { id: self.id, count, bound: bound(not_after) };
        let granted = record.grant(what, self.semaphore.lease_us, now.as_micros());
        let grant = granted.grant();
        record.insert(granted);
        Ok((Answer::Held(grant), true))
    }

    /// L3, L4.
    fn renew(
        &self,
        record: &mut SemaphoreRecord,
        token: Option<u64>,
        now: Timestamp,
    ) -> (Answer, bool) {
        let Some(at) = record.position(self.id, token) else { return (Answer::NotHeld, false) };
        let mut granted = record.grants[at].clone();
        let is_longer = granted.extend(now.as_micros() + self.semaphore.lease_us);
        let grant = granted.grant();
        if is_longer {
            record.grants.remove(at);
            record.insert(granted);
        }
        (Answer::Held(grant), is_longer)
    }

    /// L3, L10.
    fn release(
        &self,
        record: &mut SemaphoreRecord,
        token: Option<u64>,
        now: Timestamp,
    ) -> (Answer, bool) {
        if let Some(at) = record.position(self.id, token) {
            let Granted { what: Permits { id, bound, .. }, token, .. } = record.grants.remove(at);
            let until = now.as_micros() + self.semaphore.remember_us;
            record.remember(Released { what: id, token, until, bound }, now.as_micros());
            return (Answer::Released { token }, true);
        }
        let before = record
            .released
            .iter()
            .find(|released| is_that(token, self.id, released.token, released.what));
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
        let named =
            grants.iter().take(MAX_INSPECTED).map(|granted| (granted.what.id, granted.grant()));
        Ok(Inspection { now, used: used(&grants), holders: grants.len(), grants: named.collect() })
    }
}

/// Returns from when on these grants, in the order of their ends, leave room for `count` of `permits`; `None` if they
/// do now.
fn fits_at(grants: &[Granted<Permits>], permits: u64, count: u64) -> Option<Timestamp> {
    let mut used = used(grants);
    let mut ends = grants.iter();
    let mut fits_at = None;
    while used + count > permits {
        let next = ends.next().expect("at most all permits fit where nothing is in use");
        used -= next.what.count;
        fits_at = Some(time(next.deadline));
    }
    fits_at
}

/// Returns the record without its expired and forgotten parts: the next write drops those, and they count nowhere
/// before (D9).
fn load(slot: &Option<Record>, now: Timestamp) -> Result<SemaphoreRecord, RecordError> {
    let now = now.accepted()?;
    let mut record = match slot {
        None => SemaphoreRecord::new(0, 0, 0),
        Some(Record { body: Body::Semaphore(record), .. }) => record.clone(),
        Some(_) => return Err(RecordError::OtherKind),
    };
    record.prune(now.as_micros());
    Ok(record)
}

impl SemaphoreRecord {
    /// Puts a grant among the others: they are in the order in which they end, and then of their tokens.
    fn insert(&mut self, granted: Granted<Permits>) {
        let at = self.grants.partition_point(|other| other.end() <= granted.end());
        self.grants.insert(at, granted);
    }

    /// Returns the place of the grant of this id, if it also has this token.
    fn position(&self, id: PermitId, token: Option<u64>) -> Option<usize> {
        self.grants.iter().position(|granted| is_that(token, id, granted.token, granted.what.id))
    }
}

fn is_that(asked: Option<u64>, id: PermitId, token: u64, of: PermitId) -> bool {
    id == of && asked.is_none_or(|asked| asked == token)
}

impl Granted<Permits> {
    fn grant(&self) -> Grant {
        Grant { count: self.what.count, token: self.token, deadline: time(self.deadline) }
    }
}

fn used(grants: &[Granted<Permits>]) -> u64 {
    grants.iter().map(|granted| granted.what.count).sum()
}
