//! Adjustments of a key, besides admitting single requests.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::cost::Cost;
use super::key_state::{Freed, KeyState};
use super::reply;
use super::request::{Request, RequestId, What};
use super::stored::under_own_limit;
use super::transaction::Transaction;
use super::wire;
use super::with_stored_limit::LimitCommand;
use super::with_stored_limit::run::Run;
use crate::call::TextCall;
use crate::command::{Command, Ran};
use crate::decision::Decision;
use crate::error::{ConfigError, CostError, RecordError, ReplyError};
use crate::exact::{MAX_COUNT, half_span};
use crate::limit::{Limit, Single};
use crate::record::Record;
use crate::reply::{read_head, read_whole, reply};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// An adjustment of a key, besides admitting single requests: taking all that is left, giving back, charging by force,
/// and blocking.
///
/// Sent again after a lost answer, it runs once more, unless it has an id: see [`Adjust::with_request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjust {
    limit: Limit,
    operation: Operation,
    /// Units; for a block, microseconds.
    amount: Cost,
    request: Option<Request>,
}

/// The outcome of an [`Adjust`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "`amount` says whether anything was changed"]
#[non_exhaustive]
pub struct Adjusted {
    /// The units taken, given back or charged, for several limits the most of any. For a block, how long the key is
    /// blocked now, in microseconds; for an unblock, 1 if the key was blocked. Zero means that nothing was changed.
    pub amount: u64,
    /// The decision of a peek of cost 1 right after it.
    pub after: Decision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    TakeUpTo,
    Refund,
    Penalty,
    Block,
    Unblock,
}

impl Operation {
    const ALL: [Operation; 5] = [
        Operation::TakeUpTo,
        Operation::Refund,
        Operation::Penalty,
        Operation::Block,
        Operation::Unblock,
    ];

    /// Returns its letter in scripts and records.
    pub(super) fn letter(self) -> char {
        match self {
            Operation::TakeUpTo => 't',
            Operation::Refund => 'f',
            Operation::Penalty => 'p',
            Operation::Block => 'b',
            Operation::Unblock => 'u',
        }
    }

    pub(super) fn of_letter(letter: char) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.letter() == letter)
    }

    /// Returns whether its amount can be one for each part.
    pub(super) fn is_by_part(self) -> bool {
        matches!(self, Operation::Refund | Operation::Penalty)
    }
}

impl Adjust {
    /// Takes as much as is left, up to `most` (at least 1), admitted and charged as one request of that cost. Its turn
    /// in a [`LeakyBucket`](crate::LeakyBucket) is not reported.
    ///
    /// # Errors
    /// [`CostError::Zero`].
    pub fn take_up_to(limit: impl Into<Limit>, most: u64) -> Result<Self, CostError> {
        Adjust::new(limit, Operation::TakeUpTo, most.into())
    }

    /// Gives back up to `cost` (at least 1) of the present charge, the latest first, and never more: an unused key has
    /// nothing to give back, and a refunded charge does not come back by itself again.
    ///
    /// # Errors
    /// [`CostError::Zero`].
    pub fn refund(limit: impl Into<Limit>, cost: u64) -> Result<Self, CostError> {
        Adjust::new(limit, Operation::Refund, cost.into())
    }

    /// Gives back as [`Adjust::refund`] does, of each part up to its own cost, as [`Acquire::by_part`](crate::Acquire::by_part)
    /// takes it.
    ///
    /// # Errors
    /// [`CostError::Zero`] if all are zero.
    pub fn refund_by_part(limit: impl Into<Limit>, cost: Cost) -> Result<Self, CostError> {
        Adjust::new(limit, Operation::Refund, cost)
    }

    /// Charges `cost` (at least 1) even if it does not fit, so that less, or nothing, is admitted for longer. A limit
    /// is charged up to twice its capacity, and a bucket whose burst is near its bound up to that bound; the excess is
    /// not charged.
    ///
    /// # Errors
    /// [`CostError::Zero`].
    pub fn penalty(limit: impl Into<Limit>, cost: u64) -> Result<Self, CostError> {
        Adjust::new(limit, Operation::Penalty, cost.into())
    }

    /// Charges as [`Adjust::penalty`] does, each part its own cost, as [`Acquire::by_part`](crate::Acquire::by_part) takes it.
    ///
    /// # Errors
    /// [`CostError::Zero`] if all are zero.
    pub fn penalty_by_part(limit: impl Into<Limit>, cost: Cost) -> Result<Self, CostError> {
        Adjust::new(limit, Operation::Penalty, cost)
    }

    /// Denies every request for `span` from now on (whole microseconds, at most half of [`MAX_SPAN`](crate::MAX_SPAN)),
    /// whatever the limit says. A longer block stays.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a span out of range.
    pub fn block(limit: impl Into<Limit>, span: Duration) -> Result<Self, ConfigError> {
        let (limit, amount) = (limit.into(), half_span("time to block", span)?.into());
        Ok(Adjust { limit, operation: Operation::Block, amount, request: None })
    }

    /// Ends a block.
    pub fn unblock(limit: impl Into<Limit>) -> Self {
        let (limit, amount) = (limit.into(), 0.into());
        Adjust { limit, operation: Operation::Unblock, amount, request: None }
    }

    /// Gives the adjustment an id, so that it can be sent again: once it has changed something, and while it is
    /// remembered, a repetition gets the same answer and does not run again. As
    /// [`Acquire::with_request`](crate::Acquire::with_request). One that changed nothing is not remembered.
    ///
    /// # Errors
    /// [`ConfigError`] for a time to remember of zero, with a fraction of a microsecond, or out of range.
    pub fn with_request(self, id: RequestId, remember: Duration) -> Result<Self, ConfigError> {
        Ok(Adjust { request: Some(Request::new(id, remember)?), ..self })
    }

    fn new(limit: impl Into<Limit>, operation: Operation, amount: Cost) -> Result<Self, CostError> {
        if amount.most() == 0 {
            return Err(CostError::Zero);
        }
        // No limit has more.
        let amount = amount.map(|_, cost| cost.min(MAX_COUNT));
        Ok(Adjust { limit: limit.into(), operation, amount, request: None })
    }

    fn what(&self) -> What {
        What::Adjust(self.operation, self.amount)
    }

    /// Runs it, and returns how much was done.
    fn carry_out(&self, transaction: &mut Transaction<'_>) -> u64 {
        let key = &mut transaction.key;
        match self.operation {
            Operation::TakeUpTo => {
                let taken = self.amount.most().min(key.remaining());
                if taken > 0 {
                    key.charge(&taken.into());
                    transaction.add_entry(taken);
                }
                taken
            }
            Operation::Refund => refund(transaction, &self.amount),
            Operation::Penalty => penalty(transaction, &self.amount),
            Operation::Block => {
                let until = key.blocked_until.max(Some(key.now + self.amount.most()));
                key.blocked_until = until;
                until.map_or(0, |until| until - key.now)
            }
            Operation::Unblock => u64::from(key.blocked_until.take().is_some()),
        }
    }
}

/// Gives each part back up to its cost, and returns the most that any gave.
fn refund(transaction: &mut Transaction<'_>, cost: &Cost) -> u64 {
    let entry = cost.of_logs(transaction.key.limits());
    let (mut most, mut is_of_window) = (0, false);
    for (place, part) in transaction.key.parts.iter_mut().enumerate() {
        let cost = cost.of_part(place);
        most = most.max(cost.min(part.used()));
        if let Some(machine) = part.limit.machine() {
            is_of_window |= cost > 0 && !part.limit.is_bucket();
            part.state = machine.give_back(part.state, cost);
        }
    }
    // The charge that a window gives back may be that of a reservation.
    if is_of_window && most > 0 {
        transaction.reservations = None;
    }
    transaction.give_back_entries(entry);
    most
}

/// Charges each part its cost, as far as it has room, and returns the largest charge of any.
pub(super) fn penalty(transaction: &mut Transaction<'_>, cost: &Cost) -> u64 {
    let key = &mut transaction.key;
    let logs = || key.parts.iter().filter_map(|part| Some((part, part.log()?.0.window())));
    // Logs share their entries, so all are charged alike: as the one is that keeps them for longest,
    // which bounds their number.
    let longest = logs().map(|(log, window)| (window, log.room())).max();
    let entry = cost.of_logs(key.limits()).min(longest.map_or(0, |(_, room)| room));
    let mut most = entry;
    for (place, part) in key.parts.iter_mut().enumerate() {
        let charged = if part.is_log() { entry } else { cost.of_part(place).min(part.room()) };
        if charged > 0 {
            part.charge(charged, key.now);
        }
        most = most.max(charged);
    }
    if entry > 0 {
        transaction.add_entry(entry);
    }
    most
}

impl Command for Adjust {
    type Outcome = Adjusted;

    fn encode_text(&self) -> TextCall {
        let call = TextCall::new(ScriptId::LimiterAdjust)
            .with_optional(self.request)
            .with(self.operation.letter())
            .with(self.amount);
        wire::with_limit(call, &self.limit)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Adjusted, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let numbers = rest.iter().map(|number| read_whole(*number));
        let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
        recall(&self.limit.singles(), now, &numbers).ok_or(ReplyError::Unexpected)
    }

    fn reply(&self, adjusted: &Adjusted, ran: &Ran<'_>) -> Vec<i64> {
        let known = |record: &Record| -> Option<Vec<i64>> {
            let known = record.requests.find(self.request?.id, ran.now)?;
            (known.what == self.what()).then(|| reply(known.now, known.told.iter().copied()))
        };
        let after = reply::live(&ran.after[0], ran);
        let known = after.as_ref().and_then(known);
        known.unwrap_or_else(|| reply::of_adjustment(&self.limit, adjusted.amount, ran))
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Adjusted, RecordError> {
        under_own_limit(slot, now, |slot| self.run(slot, now))
    }

    fn is_repeatable(&self) -> bool {
        self.request.is_some()
    }

    fn writes_again(&self, _: &Adjusted) -> bool {
        self.operation == Operation::Block && self.request.is_none()
    }
}

impl LimitCommand for Adjust {
    fn under(&self, limit: Limit) -> Self {
        Adjust { limit, ..*self }
    }
}

impl Run for Adjust {
    fn limit(&self) -> Limit {
        self.limit
    }

    fn run(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Adjusted, RecordError> {
        self.amount.suits(&self.limit)?;
        let limits = self.limit.singles();
        if let (Some(request), Some(record)) = (self.request, &*slot)
            && record.is_of(&limits)
            && let Some(known) = record.requests.find(request.id, now)
        {
            if known.what != self.what() {
                return Err(RecordError::OperationReused);
            }
            return recall(&limits, known.now, &known.told).ok_or(RecordError::Damaged);
        }
        let mut transaction = Transaction::new(&limits, slot, now)?;
        let amount = self.carry_out(&mut transaction);
        let freed = transaction.freed_at(&1.into());
        let after = transaction.key.peek(&1.into(), &freed);
        let told = self.request.map(|request| (request, told(amount, &transaction.key, &freed)));
        transaction.commit(now, amount > 0);
        if let (Some((request, told)), Some(record), 1..) = (told, slot, amount) {
            record.requests.remember(request, self.what(), now, told);
        }
        Ok(Adjusted { amount, after })
    }
}

/// Returns the numbers of the reply, behind its head.
pub(super) fn told(amount: u64, key: &KeyState, freed: &Freed) -> Vec<u64> {
    let mut told = vec![amount, wire::optional(key.blocked_until)];
    told.extend(key.numbers());
    told.extend(wire::freed_numbers(&key.parts, freed));
    told
}

/// Reads those numbers.
pub(super) fn recall(limits: &[Single], now: Timestamp, told: &[u64]) -> Option<Adjusted> {
    let &[amount, blocked_until, ref rest @ ..] = told else { return None };
    let (key, times) = KeyState::read(limits, now, rest)?;
    let freed = wire::read_freed(&key.parts, 1, times)?;
    let key = KeyState { blocked_until: wire::read_optional(blocked_until), ..key };
    Some(Adjusted { amount, after: key.peek(&1.into(), &freed[0]) })
}
