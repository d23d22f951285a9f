//! Reserve, then commit or cancel: an estimate is charged, and settled when the true cost is known.

use alloc::vec::Vec;
use core::time::Duration;

use super::cost::{Cost, Costs, Requests};
use super::max_wait::MaxWait;
use super::reply::{self, States};
use super::request::{Request, RequestId};
use super::reservations::{ReservationRecord, Stage, generation, recall};
use super::stored::under_own_limit;
use super::transaction::Transaction;
use super::with_stored_limit::LimitCommand;
use super::with_stored_limit::run::Run;
use super::{Acquire, wire};
use crate::call::{PackedCall, TextCall};
use crate::command::{Command, Ran};
use crate::decision::Decision;
use crate::error::{ConfigError, RecordError, ReplyError};
use crate::limit::{Limit, Single};
use crate::record::{Body, Record};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// Admits one request and charges an estimate of its cost, which a [`Settle`](super::Settle) replaces by the true one;
/// or changes nothing. [`Acquire::reserve`] makes it.
///
/// ```
/// use core::time::Duration;
/// use lockage_core::{Acquire, Command, Limit, RequestId, Settle, Settlement, Timestamp};
///
/// let limit: Limit = "token-bucket 1000/min burst 1000".parse()?;
/// let (mut slot, now) = (None, Timestamp::from_micros(1_763_700_000_000_000)?);
/// let id = RequestId::from_u128(42); // random
/// let reserve = Acquire::new(limit, 800)?.reserve(id, Duration::from_secs(60))?;
/// let (mut beside, key) = (None, &mut slot);
/// let reservation = reserve.apply_beside(key, &mut beside, now)?.reservation.expect("it is admitted");
///
/// let settle = Settle::new(limit, &reservation, 300);
/// let Settlement::Settled { amount, after } = settle.apply_beside(key, &mut beside, now)? else { panic!() };
/// assert_eq!((amount, after.remaining), (500, 700));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// A reservation that is not settled stays charged as estimated, since its caller may have used it. Each has a record
/// of its own, under a [second key](Command::beside), so that any number can be open.
///
/// Sent again after a lost answer, it gets the same answer, and nothing more is charged. Its id must be new: one that
/// is known for anything else is [`RecordError::OperationReused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    limit: Limit,
    cost: Cost,
    /// Remembered for as long as it is held.
    request: Request,
}

/// The outcome of a [`Reserve`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a denied request must not go ahead, and a reservation is to be settled"]
#[non_exhaustive]
pub struct Reserved {
    /// Whether it was admitted, as an [`Acquire`] of the estimate is.
    pub decision: Decision,
    /// The reservation to settle, if it was admitted.
    pub reservation: Option<Reservation>,
}

/// A decision without a reservation: one that the store did not make.
impl From<Decision> for Reserved {
    fn from(decision: Decision) -> Self {
        Reserved { decision, reservation: None }
    }
}

/// An estimate that is charged and can be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// Its id.
    pub id: RequestId,
    /// The estimate; of one by part, the largest for any part.
    pub cost: u64,
    /// The time by the store's clock from which it cannot be settled and stays charged.
    pub expires_at: Timestamp,
}

impl Acquire {
    /// Makes the cost an estimate, to be settled within `hold` (whole microseconds, at most half of
    /// [`MAX_SPAN`](crate::MAX_SPAN)). The record lives for at least as long.
    ///
    /// # Errors
    /// [`ConfigError`] for a time to hold of zero, with a fraction of a microsecond, or out of range: under an
    /// [`InFlight`](crate::InFlight) limit at most its lease. Under a stored one, that is [`RecordError::HoldTooLong`].
    pub fn reserve(self, id: RequestId, hold: Duration) -> Result<Reserve, ConfigError> {
        let request = Request::new(id, hold)?;
        if let Some(max) = lease_us(&self.limit().singles()).filter(|us| request.remember_us > *us)
        {
            let (what, bound) =
                ("time to hold", "the lease of the limit: renew it to hold it for longer");
            return Err(ConfigError::TooLarge { what, max, unit: "us", bound });
        }
        Ok(Reserve { limit: *self.limit(), cost: *self.cost(), request })
    }
}

impl Reserve {
    fn reserved(&self, now: Timestamp, decision: Decision) -> Reserved {
        let expires_at = self.request.until(now);
        let cost = self.cost.most();
        let reservation = Reservation { id: self.request.id, cost, expires_at };
        Reserved { reservation: decision.is_allowed().then_some(reservation), decision }
    }

    /// Returns the answer that it got when it was made.
    fn repeated(
        &self,
        known: &ReservationRecord,
        limits: &[Single],
    ) -> Result<Reserved, RecordError> {
        let told = match known.stage {
            Stage::Open { cost, .. }
                if cost.is_same(&self.cost, limits.len())
                    && known.until == self.request.until(known.now) =>
            {
                known.told_under(limits)
            }
            _ => None,
        };
        let told = told.ok_or(RecordError::OperationReused)?;
        let decision = recall(limits, &self.cost, known.now, told).ok_or(RecordError::Damaged)?;
        Ok(self.reserved(known.now, decision))
    }
}

/// Returns the shortest lease of these limits, if any counts places that are given back.
pub(super) fn lease_us(limits: &[Single]) -> Option<u64> {
    limits.iter().filter_map(Single::lease_us).min()
}

/// Returns the reservation kept here that counts at `now`, for a key with this record.
pub(super) fn live<'r>(
    slot: &Option<Record>,
    beside: &'r Option<Record>,
    now: Timestamp,
) -> Result<Option<&'r ReservationRecord>, RecordError> {
    if slot.as_ref().is_some_and(|record| !record.is_limiter()) {
        return Err(RecordError::OtherKind);
    }
    match beside.as_ref().map(|record| &record.body) {
        None => Ok(None),
        Some(Body::Reservation(known)) => Ok(Some(known).filter(|known| now < known.until)),
        Some(_) => Err(RecordError::OtherKind),
    }
}

impl Command for Reserve {
    type Outcome = Reserved;

    fn encode_text(&self) -> TextCall {
        let call = TextCall::new(ScriptId::LimiterReserve).with(self.request);
        wire::with_limit(call, &self.limit).with(self.cost)
    }

    fn encode_packed(&self) -> Option<PackedCall> {
        let [script, _] = wire::reserve_scripts(&self.limit)?;
        let Request { id, remember_us } = self.request;
        pack(script, &self.limit, &[self.cost.for_all()?, remember_us, generation(id)])
    }

    fn outcome(&self, reply: &[i64]) -> Result<Reserved, ReplyError> {
        let (reply, mut decision) = (wire::Reply::read(reply)?, None);
        let asked = Requests { costs: Costs::of(&self.cost), max_wait: MaxWait::ENDLESS };
        reply.decide(&self.limit, asked, &mut |one| decision = Some(one))?;
        Ok(self.reserved(reply.now, decision.ok_or(ReplyError::Unexpected)?))
    }

    fn reply(&self, _: &Reserved, ran: &Ran<'_>) -> Vec<i64> {
        let [slot, beside] = ran.before;
        if let Ok(Some(known)) = live(slot, beside, ran.now) {
            let limits = self.limit.singles();
            let told = known.told_under(&limits).unwrap_or_default();
            return reply::of_admitted(known.now, told, &limits);
        }
        let asked = Requests { costs: Costs::of(&self.cost), max_wait: MaxWait::ENDLESS };
        reply::of_requests(&self.limit, asked, (States::Settled, true), ran)
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Reserved, RecordError> {
        self.apply_beside(slot, &mut None, now)
    }

    fn beside(&self) -> Option<RequestId> {
        Some(self.request.id)
    }

    fn apply_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Reserved, RecordError> {
        under_own_limit(slot, now, |slot| self.run_beside(slot, beside, now))
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

impl LimitCommand for Reserve {
    fn under(&self, limit: Limit) -> Self {
        Reserve { limit, ..*self }
    }
}

impl Run for Reserve {
    fn limit(&self) -> Limit {
        self.limit
    }

    fn run(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Reserved, RecordError> {
        self.run_beside(slot, &mut None, now)
    }

    fn run_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Reserved, RecordError> {
        self.cost.suits_charge(&self.limit)?;
        let limits = self.limit.singles();
        if lease_us(&limits).is_some_and(|us| self.request.remember_us > us) {
            return Err(RecordError::HoldTooLong);
        }
        if let Some(known) = live(slot, beside, now)? {
            return self.repeated(known, &limits);
        }
        let mut transaction = Transaction::new(&limits, slot, now)?;
        let told = transaction.key.numbers();
        let decision = transaction.decide(&self.cost);
        if decision.is_allowed() {
            let place = transaction.reserve(self.request.id, &self.cost);
            let stage = Stage::Open { cost: self.cost, place };
            let times = [now, self.request.until(now)];
            *beside = Some(ReservationRecord::of(&limits, stage, times, told));
        }
        transaction.commit(now, decision.is_allowed());
        Ok(self.reserved(now, decision))
    }
}

/// Packs the configuration of a single limit, and these numbers.
pub(super) fn pack(script: ScriptId, limit: &Limit, numbers: &[u64]) -> Option<PackedCall> {
    let config = limit.single()?.config();
    let numbers = config.iter().chain(numbers).copied();
    Some(PackedCall::of(script, numbers))
}
