//! Reserve, then commit or cancel: an estimate is charged, and settled when the true cost is known.

use alloc::vec::Vec;
use core::time::Duration;

use super::commands::{Costs, with_acquire};
use super::max_wait::MaxWait;
use super::request::{Request, RequestId};
use super::reservations::{Stage, recall};
use super::stored::under_own_limit;
use super::transaction::Transaction;
use super::with_stored_limit::LimitCommand;
use super::with_stored_limit::run::Run;
use super::{Acquire, adjust, wire};
use crate::call::TextCall;
use crate::command::{Command, ScriptId, read_head, read_whole};
use crate::decision::Decision;
use crate::error::{ConfigError, RecordError, ReplyError};
use crate::exact::MAX_COUNT;
use crate::limit::{Limit, Singles};
use crate::record::Record;
use crate::time::Timestamp;

/// Admit one request and charge an estimate of its cost, which a [`Settle`] replaces by the true one; or
/// change nothing. [`Acquire::reserve`] makes it.
///
/// ```
/// use core::time::Duration;
/// use lockage_core::{Acquire, Command, Limit, RequestId, Settle, Settlement, Timestamp};
///
/// let limit: Limit = "token-bucket 1000/min burst 1000".parse()?;
/// let (mut slot, now) = (None, Timestamp::from_micros(1_763_700_000_000_000)?);
/// let id = RequestId::from_u128(42); // random
/// let reserve = Acquire::new(limit, 800)?.reserve(id, Duration::from_secs(60))?;
/// let reservation = reserve.apply(&mut slot, now)?.reservation.expect("it is admitted");
///
/// let settle = Settle::new(limit, &reservation, 300);
/// let Settlement::Settled { amount, after } = settle.apply(&mut slot, now)? else { panic!() };
/// assert_eq!((amount, after.remaining), (500, 700));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// A reservation that nobody settles stays charged as estimated: who does not answer may have used it.
/// The record keeps up to [`MAX_RESERVATIONS`](crate::MAX_RESERVATIONS); where as many are open,
/// one more is [`RecordError::TooManyReservations`].
///
/// Sent again, as its answer was lost, it gets the same answer, and nothing more is charged. Its
/// id must be new: one that is known for anything else is [`RecordError::OperationReused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    limit: Limit,
    cost: u64,
    /// Remembered for as long as it is held.
    request: Request,
}

/// What a [`Reserve`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Whether it was admitted, as an [`Acquire`] of the estimate is.
    pub decision: Decision,
    /// What is to be settled, where it was.
    pub reservation: Option<Reservation>,
}

/// An estimate that is charged and can be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// Its name.
    pub id: RequestId,
    /// The estimate.
    pub cost: u64,
    /// From this time on, by the store's clock, it cannot be settled and stays charged.
    pub expires_at: Timestamp,
}

impl Acquire {
    /// The same request, of which the cost is an estimate that is to be settled within `hold` (whole
    /// microseconds, at most half of [`MAX_SPAN`](crate::MAX_SPAN)). The record lives for at least as
    /// long.
    ///
    /// # Errors
    /// [`ConfigError`] for a time to hold of zero, with a fraction of a microsecond, or out of range.
    pub fn reserve(self, id: RequestId, hold: Duration) -> Result<Reserve, ConfigError> {
        let request = Request::new(id, hold)?;
        Ok(Reserve { limit: *self.limit(), cost: self.cost(), request })
    }
}

impl Reserve {
    fn reserved(&self, now: Timestamp, decision: Decision) -> Reserved {
        let expires_at = self.request.until(now);
        let reservation = Reservation { id: self.request.id, cost: self.cost, expires_at };
        Reserved { reservation: decision.is_allowed().then_some(reservation), decision }
    }

    /// The answer that it got when it was made, if it is still open.
    fn repeated(
        &self,
        slot: &Option<Record>,
        limits: &Singles,
        now: Timestamp,
    ) -> Result<Option<Reserved>, RecordError> {
        let id = self.request.id;
        let Some(record) = slot.as_ref().filter(|record| record.is_of(limits)) else {
            return Ok(None);
        };
        if record.requests.find(id, now).is_some() {
            return Err(RecordError::OperationReused);
        }
        let Some(known) = record.reservations.find(id, now) else { return Ok(None) };
        match known.stage {
            Stage::Open { cost, .. }
                if cost == self.cost && known.until == self.request.until(known.now) =>
            {
                let decision = recall(limits, cost, known.now, &known.told);
                Ok(Some(self.reserved(known.now, decision.ok_or(RecordError::Damaged)?)))
            }
            _ => Err(RecordError::OperationReused),
        }
    }
}

impl Command for Reserve {
    type Outcome = Reserved;

    fn encode_text(&self) -> TextCall {
        let call = TextCall::new(ScriptId::LimiterAcquire).with(format_args!("r{}", self.request));
        with_acquire(call, &self.limit, Costs::patient(&[self.cost]))
    }

    fn outcome(&self, reply: &[i64]) -> Result<Reserved, ReplyError> {
        let (reply, mut decision) = (wire::Reply::read(reply)?, None);
        let max_wait = MaxWait::ENDLESS;
        reply.decide(&self.limit, &[self.cost], max_wait, &mut |one| decision = Some(one))?;
        Ok(self.reserved(reply.now, decision.ok_or(ReplyError::Unexpected)?))
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Reserved, RecordError> {
        under_own_limit(slot, now, |slot| self.run(slot, now))
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
        let limits = self.limit.singles();
        if let Some(reserved) = self.repeated(slot, &limits, now)? {
            return Ok(reserved);
        }
        let mut transaction = Transaction::new(&limits, slot, now)?;
        let told = transaction.key.numbers();
        let decision = transaction.decide(self.cost);
        if decision.is_allowed() {
            let parts = &transaction.key.parts;
            transaction.reservations.make(self.request, self.cost, now, told, parts)?;
        }
        transaction.commit(now, decision.is_allowed());
        Ok(self.reserved(now, decision))
    }
}

/// Settle a [`Reservation`]: charge its true cost instead of the estimate.
///
/// Every later decision is then what it would have been, had the true cost been charged when it was
/// reserved. What had come back by itself meanwhile does not come back once more, and the windows and
/// intervals that a reservation began go on. What is above the estimate is charged now, as an
/// [`Adjust::penalty`](crate::Adjust::penalty) is.
///
/// Sent again, as its answer was lost, it gets the same answer, for as long again as the reservation was
/// held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    limit: Limit,
    reservation: Reservation,
    actual: u64,
}

/// What a [`Settle`] came to. But for the first, nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The true cost is charged.
    Settled {
        /// How much was given back or, where the true cost is above the estimate, charged on top, in
        /// units, of several limits the most of any.
        amount: u64,
        /// What a peek of cost 1 is told right after it.
        after: Decision,
    },
    /// It was settled before, with another cost.
    AlreadySettled,
    /// It was not settled in time, and stays charged as estimated.
    Expired,
    /// It is not known here: it was never made, a reset or a change of the limit has forgotten it,
    /// or it was settled and newer ones took its place.
    Unknown,
}

impl Settle {
    /// The true cost of what was reserved under this limit; zero cancels it.
    pub fn new(limit: impl Into<Limit>, reservation: &Reservation, actual: u64) -> Self {
        // No limit has more.
        let actual = actual.min(MAX_COUNT);
        Settle { limit: limit.into(), reservation: *reservation, actual }
    }

    /// The answer where it is not known.
    fn gone(&self, now: Timestamp) -> Settlement {
        match now < self.reservation.expires_at {
            true => Settlement::Unknown,
            false => Settlement::Expired,
        }
    }

    fn settled(&self, now: Timestamp, told: &[u64]) -> Option<Settlement> {
        let adjusted = adjust::recall(&self.limit.singles(), now, told)?;
        Some(Settlement::Settled { amount: adjusted.amount, after: adjusted.after })
    }
}

/// What scripts reply where it was not settled.
const UNKNOWN: u64 = 0;
const SETTLED: u64 = 1;
const ALREADY_SETTLED: u64 = 2;
const EXPIRED: u64 = 3;

impl Command for Settle {
    type Outcome = Settlement;

    fn encode_text(&self) -> TextCall {
        let Reservation { id, expires_at, .. } = self.reservation;
        let call = TextCall::new(ScriptId::LimiterSettle);
        let call = call.with(id).with(expires_at.as_micros()).with(self.actual);
        wire::with_limit(call, &self.limit)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Settlement, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let numbers = rest.iter().map(|number| read_whole(*number));
        let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
        match numbers[..] {
            [UNKNOWN] => Ok(Settlement::Unknown),
            [ALREADY_SETTLED] => Ok(Settlement::AlreadySettled),
            [EXPIRED] => Ok(Settlement::Expired),
            [SETTLED, ref told @ ..] => self.settled(now, told).ok_or(ReplyError::Unexpected),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Settlement, RecordError> {
        under_own_limit(slot, now, |slot| self.run(slot, now))
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

impl LimitCommand for Settle {
    fn under(&self, limit: Limit) -> Self {
        Settle { limit, ..*self }
    }
}

impl Run for Settle {
    fn limit(&self) -> Limit {
        self.limit
    }

    fn run(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Settlement, RecordError> {
        let (limits, id) = (self.limit.singles(), self.reservation.id);
        let Some(record) = slot else { return Ok(self.gone(now)) };
        if !record.is_limiter() {
            return Err(RecordError::OtherKind);
        }
        if !record.is_of(&limits) {
            return Ok(self.gone(now));
        }
        let Some(known) = record.reservations.find(id, now) else { return Ok(self.gone(now)) };
        let cost = match known.stage {
            Stage::Open { cost, .. } => cost,
            Stage::Settled { actual } if actual != self.actual => {
                return Ok(Settlement::AlreadySettled);
            }
            Stage::Settled { .. } => {
                return self.settled(known.now, &known.told).ok_or(RecordError::Damaged);
            }
        };
        let mut transaction = Transaction::new(&limits, slot, now)?;
        let amount = match cost.checked_sub(self.actual) {
            Some(less) => give_back(&mut transaction, id, less),
            None => adjust::penalty(&mut transaction, self.actual - cost),
        };
        let freed = transaction.freed_at(1);
        let told = adjust::told(amount, &transaction.key, &freed);
        transaction.reservations.settle(id, self.actual, now, told);
        let after = transaction.key.peek(1, &freed);
        transaction.commit(now, true);
        Ok(Settlement::Settled { amount, after })
    }
}

/// Gives back up to `units` of what an open reservation is charged; how much that was.
fn give_back(transaction: &mut Transaction<'_>, id: RequestId, units: u64) -> u64 {
    let entry = transaction.reservations.entry_of(id, &transaction.key.parts);
    let counted = transaction.reservations.give_back(id, units, &mut transaction.key.parts);
    let cut = entry.map_or(0, |at| transaction.cut_entries(at, units));
    counted.max(cut)
}
