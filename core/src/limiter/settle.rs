//! The settlement of a reservation, once the true cost is known.

use alloc::vec::Vec;

use super::cost::Cost;
use super::request::RequestId;
use super::reservations::{ReservationRecord, Stage};
use super::reserve::{Reservation, live, pack};
use super::stored::under_own_limit;
use super::transaction::Transaction;
use super::with_stored_limit::LimitCommand;
use super::with_stored_limit::run::Run;
use super::{adjust, wire};
use crate::call::{PackedCall, TextCall};
use crate::command::{Command, Ran};
use crate::decision::Decision;
use crate::error::{RecordError, ReplyError};
use crate::exact::MAX_COUNT;
use crate::limit::Limit;
use crate::record::{Body, Record};
use crate::reply::{answer, read_head, read_whole};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// Settles a [`Reservation`]: charges its true cost instead of the estimate.
///
/// Every later decision is then as if the true cost had been charged when it was reserved. A charge that came back by
/// itself meanwhile does not come back again, and the windows and intervals that a reservation began go on. The part
/// above the estimate is charged now, like an [`Adjust::penalty`](crate::Adjust::penalty). The places of an
/// [`InFlight`](crate::InFlight) limit are all given back, whatever the true cost is.
///
/// Less is given back, and the rest stays charged, if more than [`EXACT_RESERVATIONS`](crate::EXACT_RESERVATIONS) of a
/// bucket are open, as [`Settlement::Settled`] reports. Nothing is given back if the key was reset, has come under
/// another limit, or a window of it was refunded since.
///
/// Sent again after a lost answer, it gets the same answer for at least as long as the reservation's hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    limit: Limit,
    reservation: Reservation,
    actual: Cost,
}

/// The outcome of a [`Settle`]. Only the first one changes anything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it says whether the true cost is charged"]
#[non_exhaustive]
pub enum Settlement {
    /// The true cost is charged.
    Settled {
        /// How much was given back or, if the true cost is above the estimate, charged on top, in units, for several
        /// limits the most of any.
        amount: u64,
        /// The decision of a peek of cost 1 right after it.
        after: Decision,
    },
    /// It was settled before, with another cost, or under another limit.
    AlreadySettled,
    /// It was not settled in time, and stays charged as estimated.
    Expired,
    /// It was never made, or the store has lost it. Its charge stays.
    Unknown,
}

impl Settle {
    /// Creates a settlement of a reservation under this limit with its true cost; zero cancels it.
    pub fn new(limit: impl Into<Limit>, reservation: &Reservation, actual: u64) -> Self {
        // No limit has more.
        let actual = actual.min(MAX_COUNT).into();
        Settle { limit: limit.into(), reservation: *reservation, actual }
    }

    /// Creates a settlement with a true cost that may have a number for each part, as
    /// [`Acquire::by_part`](crate::Acquire::by_part). Each part's is set against its own estimate: less is given back, and
    /// more is charged now.
    pub fn by_part(limit: impl Into<Limit>, reservation: &Reservation, actual: Cost) -> Self {
        let actual = actual.map(|_, cost| cost.min(MAX_COUNT));
        Settle { limit: limit.into(), reservation: *reservation, actual }
    }

    /// Returns whether a script of the fast path settles this reservation: one that is open, at most as estimated.
    pub(crate) fn is_fast(&self, reserved: &Option<Record>, now: Timestamp) -> bool {
        match reserved.as_ref().map(|record| &record.body) {
            Some(Body::Reservation(known)) => match &known.stage {
                Stage::Open { cost, .. } => now < known.until && self.actual.is_within(cost),
                Stage::Settled { .. } => false,
            },
            _ => false,
        }
    }

    /// Returns the answer for an unknown one.
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

/// The reply of scripts if it was not settled.
const UNKNOWN: u64 = 0;
const SETTLED: u64 = 1;
const ALREADY_SETTLED: u64 = 2;
const EXPIRED: u64 = 3;

impl Command for Settle {
    type Outcome = Settlement;

    fn encode_text(&self) -> TextCall {
        let call = TextCall::new(ScriptId::LimiterSettle);
        let call = call.with(self.reservation.expires_at.as_micros()).with(self.actual);
        wire::with_limit(call, &self.limit)
    }

    fn encode_packed(&self) -> Option<PackedCall> {
        let [_, script] = wire::reserve_scripts(&self.limit)?;
        pack(script, &self.limit, &[self.actual.for_all()?])
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

    fn reply(&self, outcome: &Settlement, ran: &Ran<'_>) -> Vec<i64> {
        let number = match outcome {
            Settlement::Unknown => UNKNOWN,
            Settlement::AlreadySettled => ALREADY_SETTLED,
            Settlement::Expired => EXPIRED,
            Settlement::Settled { .. } => SETTLED,
        };
        let (mut at, mut told) = (ran.now, &[][..]);
        if let (Settlement::Settled { .. }, Some(record)) = (outcome, &ran.after[1])
            && let Body::Reservation(known) = &record.body
        {
            (at, told) = (known.now, known.told_under(&self.limit.singles()).unwrap_or_default());
        }
        answer(at, number as i64, told.iter().copied())
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Settlement, RecordError> {
        self.apply_beside(slot, &mut None, now)
    }

    fn beside(&self) -> Option<RequestId> {
        Some(self.reservation.id)
    }

    fn apply_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Settlement, RecordError> {
        under_own_limit(slot, now, |slot| self.run_beside(slot, beside, now))
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
        self.run_beside(slot, &mut None, now)
    }

    fn run_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Settlement, RecordError> {
        self.actual.suits(&self.limit)?;
        let Some(known) = live(slot, beside, now)? else { return Ok(self.gone(now)) };
        let limits = self.limit.singles();
        let count = limits.len();
        let told = known.told_under(&limits);
        let (cost, place) = match (&known.stage, told) {
            (Stage::Open { cost, place }, told) => (*cost, told.map(|_| place)),
            (Stage::Settled { actual, .. }, Some(told)) if actual.is_same(&self.actual, count) => {
                return self.settled(known.now, told).ok_or(RecordError::Damaged);
            }
            (Stage::Settled { .. }, _) => return Ok(Settlement::AlreadySettled),
        };
        let mut transaction = Transaction::new(&limits, slot, now)?;
        let charged = self.actual.without_places(&limits);
        let less = cost.above(&charged, count);
        let given = place.and_then(|place| transaction.settle(place, &cost, &less));
        let more = match charged.above(&cost, count) {
            more if more.most() > 0 => adjust::penalty(&mut transaction, &more),
            _ => 0,
        };
        let amount = more.max(given.unwrap_or_default());
        let freed = transaction.freed_at(&1.into());
        let told = adjust::told(amount, &transaction.key, &freed);
        let after = transaction.key.peek(&1.into(), &freed);
        let until = known.answer_until();
        // A reservation that is not the key's now leaves it unchanged.
        if amount > 0 || given.is_some() {
            transaction.commit(now, true);
        }
        let [actual, cost] = Cost::alike([&self.actual, &cost], count);
        let stage = Stage::Settled { actual, cost };
        *beside = Some(ReservationRecord::of(&limits, stage, [now, until], told));
        Ok(Settlement::Settled { amount, after })
    }
}
