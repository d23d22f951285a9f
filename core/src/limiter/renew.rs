//! Renewing a reservation, so that it can be settled for longer.

use alloc::vec::Vec;
use core::time::Duration;

use super::request::{Request, RequestId};
use super::reservations::Stage;
use super::reserve::{self, Reservation};
use super::stored::under_own_limit;
use super::transaction::Transaction;
use super::wire;
use super::with_stored_limit::LimitCommand;
use super::with_stored_limit::run::Run;
use crate::call::TextCall;
use crate::command::{Command, Ran};
use crate::error::{ConfigError, RecordError, ReplyError};
use crate::limit::Limit;
use crate::record::{Body, Record};
use crate::reply::{answer, read_head};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// Renews a [`Reservation`]: it can be settled for longer, and nothing more is charged.
///
/// The new end is `hold` after the end that the given reservation states; under an [`InFlight`](crate::InFlight) limit it
/// is at most one lease from now, and its places are kept for so long. Sent again after a lost answer, the command
/// changes nothing more and gets the same answer, until a later renewal. An end never moves back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew {
    limit: Limit,
    reservation: Reservation,
    request: Request,
}

/// The outcome of a [`Renew`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says until when the reservation can be settled"]
#[non_exhaustive]
pub enum Renewal {
    /// It can be settled until the end that this states.
    Renewed(Reservation),
    /// It was settled before.
    AlreadySettled,
    /// It was not settled or renewed in time, and stays charged as estimated.
    Expired,
    /// It was never made, or the store has lost it. Its charge stays.
    Unknown,
}

impl Renew {
    /// Creates a renewal of a reservation under this limit, for `hold` longer (whole microseconds, at most half of
    /// [`MAX_SPAN`](crate::MAX_SPAN)). In all it is held for at most as long.
    ///
    /// # Errors
    /// [`ConfigError`] for a time to hold of zero, with a fraction of a microsecond, or out of range.
    pub fn new(
        limit: impl Into<Limit>,
        reservation: &Reservation,
        hold: Duration,
    ) -> Result<Self, ConfigError> {
        let request = Request::new(reservation.id, hold)?;
        Ok(Renew { limit: limit.into(), reservation: *reservation, request })
    }

    /// Returns the wanted end, in microseconds.
    fn until_us(&self) -> u64 {
        self.reservation.expires_at.as_micros() + self.request.remember_us
    }

    fn renewed(&self, until: Timestamp) -> Renewal {
        Renewal::Renewed(Reservation { expires_at: until, ..self.reservation })
    }

    /// Returns the answer for one that is not there.
    fn gone(&self, now: Timestamp) -> Renewal {
        match now < self.reservation.expires_at {
            true => Renewal::Unknown,
            false => Renewal::Expired,
        }
    }
}

/// The reply of scripts.
const GONE: i64 = 0;
const RENEWED: i64 = 1;
const ALREADY_SETTLED: i64 = 2;

impl Command for Renew {
    type Outcome = Renewal;

    fn encode_text(&self) -> TextCall {
        let call = TextCall::new(ScriptId::LimiterReserve).with(self.request);
        wire::with_limit(call, &self.limit).with(format_args!("={}", self.until_us()))
    }

    fn outcome(&self, reply: &[i64]) -> Result<Renewal, ReplyError> {
        let (now, rest) = read_head(reply)?;
        match *rest {
            [GONE] => Ok(self.gone(now)),
            [ALREADY_SETTLED] => Ok(Renewal::AlreadySettled),
            [RENEWED, until] => {
                let until = u64::try_from(until).ok().and_then(Timestamp::computed);
                until.map(|until| self.renewed(until)).ok_or(ReplyError::Unexpected)
            }
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn reply(&self, outcome: &Renewal, ran: &Ran<'_>) -> Vec<i64> {
        match outcome {
            Renewal::Unknown | Renewal::Expired => answer(ran.now, GONE, []),
            Renewal::AlreadySettled => answer(ran.now, ALREADY_SETTLED, []),
            Renewal::Renewed(reservation) => {
                answer(ran.now, RENEWED, [reservation.expires_at.as_micros()])
            }
        }
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Renewal, RecordError> {
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
    ) -> Result<Renewal, RecordError> {
        under_own_limit(slot, now, |slot| self.run_beside(slot, beside, now))
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

impl LimitCommand for Renew {
    fn under(&self, limit: Limit) -> Self {
        Renew { limit, ..*self }
    }
}

impl Run for Renew {
    fn limit(&self) -> Limit {
        self.limit
    }

    fn run(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Renewal, RecordError> {
        self.run_beside(slot, &mut None, now)
    }

    fn run_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Renewal, RecordError> {
        let Some(known) = reserve::live(slot, beside, now)? else { return Ok(self.gone(now)) };
        if let Stage::Settled { .. } = known.stage {
            return Ok(Renewal::AlreadySettled);
        }
        let limits = self.limit.singles();
        let lease_us = reserve::lease_us(&limits);
        let latest_us = lease_us.map_or(u64::MAX, |us| now.as_micros() + us);
        let mut renewed = known.renewed(self.until_us().min(latest_us));
        let (until, before) = (renewed.until, known.until);
        if until > before {
            if lease_us.is_some() && renewed.told_under(&limits).is_some() {
                let mut transaction = Transaction::new(&limits, slot, now)?;
                let has_moved = transaction.keep_places(&mut renewed);
                transaction.commit(now, has_moved);
            }
            *beside = Some(Record::of(Body::Reservation(renewed)));
        }
        Ok(self.renewed(until))
    }
}
