//! The commands that every limiter takes: acquire, peek and reset.

use alloc::vec::Vec;
use core::time::Duration;

use super::request::{Remembered, Request, RequestId};
use crate::command::{Arguments, Command, ScriptId, read_head};
use crate::decision::Decision;
use crate::error::{ConfigError, CostError, RecordError, ReplyError};
use crate::limit::Limit;
use crate::record::Record;
use crate::time::Timestamp;

/// The most costs that one [`AcquireEach`] carries.
pub const MAX_COSTS: usize = 1000;

/// Admit one request and charge its cost, or change nothing.
///
/// Sent again, because its answer was lost, it is one request more, unless it has an id: see
/// [`Acquire::with_request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire {
    limit: Limit,
    cost: u64,
    request: Option<Request>,
}

impl Acquire {
    /// A request of `cost` (at least 1) against `limit`. A cost above the capacity is
    /// [`Verdict::Never`](crate::Verdict::Never), not an error.
    ///
    /// # Errors
    /// [`CostError::Zero`].
    pub fn new(limit: impl Into<Limit>, cost: u64) -> Result<Self, CostError> {
        check_costs(&[cost])?;
        Ok(Acquire { limit: limit.into(), cost, request: None })
    }

    /// The same request under an id, so that it can be sent again (D11): once it was admitted, and
    /// while it is remembered, it gets the same answer again, with its times as they were, and
    /// nothing more is charged. A request that was denied is not remembered: sent again it is a new
    /// attempt.
    ///
    /// The record remembers the last [`REMEMBERED_REQUESTS`](crate::REMEMBERED_REQUESTS) requests
    /// that were admitted with an id, each for `remember` (whole microseconds, at most half of
    /// [`MAX_SPAN`](crate::MAX_SPAN)); that should be at least the longest time that a repeated
    /// request can be under way: the call's timeout and the network's delay. The record lives for at
    /// least as long. A [`Reset`] forgets requests too.
    ///
    /// An id that is remembered for another cost is [`RecordError::OperationReused`].
    ///
    /// # Errors
    /// [`ConfigError`] for a time to remember of zero, with a fraction of a microsecond, or out of
    /// range.
    pub fn with_request(self, id: RequestId, remember: Duration) -> Result<Self, ConfigError> {
        Ok(Acquire { request: Some(Request::new(id, remember)?), ..self })
    }

    /// The same request of a caller who waits no longer than `patience` for its turn, in whole
    /// microseconds: a [`LeakyBucket`](crate::LeakyBucket) denies it where its turn would be later. What
    /// it says of `remaining` is the room in the queue, whatever the patience. Limits without turns take
    /// no notice.
    ///
    /// Sent again under its id, a request must have the same patience.
    pub fn within(self, patience: Duration) -> Self {
        Acquire { limit: self.limit.within(patience), ..self }
    }

    pub(super) fn limit(&self) -> Limit {
        self.limit
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// This request as it was admitted, if it is still remembered.
    pub(super) fn known<'a>(
        &self,
        slot: &'a Option<Record>,
        now: Timestamp,
    ) -> Result<Option<&'a Remembered>, RecordError> {
        let (Some(request), Some(record)) = (self.request, slot) else { return Ok(None) };
        self.limit.machine().check(record)?;
        match record.requests.find(request.id, now) {
            Some(known) if known.cost != self.cost => Err(RecordError::OperationReused),
            known => Ok(known),
        }
    }
}

impl Command for Acquire {
    type Outcome = Decision;

    fn script(&self) -> ScriptId {
        self.limit.machine().acquire_script()
    }

    fn arguments(&self, arguments: &mut Arguments) {
        match self.request {
            Some(request) => arguments.push(request),
            None => arguments.push(""),
        }
        push_acquire(&self.limit, &[self.cost], arguments);
    }

    fn outcome(&self, reply: &[i64]) -> Result<Decision, ReplyError> {
        let mut decision = None;
        read_acquire(&self.limit, &[self.cost], reply, &mut |one| decision = Some(one))?;
        decision.ok_or(ReplyError::Unexpected)
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Decision, RecordError> {
        if let Some(known) = self.known(slot, now)? {
            // The answer that it got.
            let told = self.limit.machine().recall(known.cost, known.now, &known.told);
            return told.ok_or(RecordError::Damaged);
        }
        let mut decision = None;
        let costs = [self.cost];
        apply_acquire(&self.limit, slot, now, &costs, self.request, &mut |one| {
            decision = Some(one)
        })?;
        Ok(decision.expect("one cost gets one decision: each cost is decided once"))
    }

    fn is_repeatable(&self) -> bool {
        self.request.is_some()
    }
}

/// Admit each of several requests in order, at one and the same time, each as if sent singly.
///
/// None of them has an id: where the answer is lost, so is what was charged. A request that must be
/// safe to send again is an [`Acquire`] of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireEach {
    limit: Limit,
    costs: Vec<u64>,
}

impl AcquireEach {
    /// Requests of these costs (each at least 1, at most [`MAX_COSTS`] of them).
    ///
    /// # Errors
    /// [`CostError`].
    pub fn new(limit: impl Into<Limit>, costs: Vec<u64>) -> Result<Self, CostError> {
        check_costs(&costs)?;
        Ok(AcquireEach { limit: limit.into(), costs })
    }
}

impl Command for AcquireEach {
    type Outcome = Vec<Decision>;

    fn script(&self) -> ScriptId {
        self.limit.machine().acquire_script()
    }

    fn arguments(&self, arguments: &mut Arguments) {
        arguments.push(""); // no request id
        push_acquire(&self.limit, &self.costs, arguments);
    }

    fn outcome(&self, reply: &[i64]) -> Result<Vec<Decision>, ReplyError> {
        let mut decisions = Vec::with_capacity(self.costs.len());
        read_acquire(&self.limit, &self.costs, reply, &mut |one| decisions.push(one))?;
        Ok(decisions)
    }

    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Vec<Decision>, RecordError> {
        let mut decisions = Vec::with_capacity(self.costs.len());
        apply_acquire(&self.limit, slot, now, &self.costs, None, &mut |one| decisions.push(one))?;
        Ok(decisions)
    }
}

/// Ask what an [`Acquire`] would be told, without the charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    limit: Limit,
    cost: u64,
}

impl Peek {
    /// A question for `cost`; a cost of zero asks for `remaining` and `reset_after` alone.
    pub fn new(limit: impl Into<Limit>, cost: u64) -> Self {
        Peek { limit: limit.into(), cost }
    }
}

impl Command for Peek {
    type Outcome = Decision;

    fn script(&self) -> ScriptId {
        self.limit.machine().peek_script()
    }

    fn arguments(&self, arguments: &mut Arguments) {
        push_limit(&self.limit, arguments);
        arguments.push(self.cost);
    }

    fn outcome(&self, reply: &[i64]) -> Result<Decision, ReplyError> {
        let (now, rest) = read_head(reply)?;
        self.limit.machine().read_peek(self.cost, now, rest)
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Decision, RecordError> {
        self.limit.machine().peek(slot, now, self.cost)
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

/// Forget what was admitted, request ids among it: the key is fresh again. Tells whether anything
/// was stored.
///
/// Works on records of the same kind under any limit, so it also clears one that was written
/// under another limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    limit: Limit,
}

impl Reset {
    /// A reset of the key of such a limiter.
    pub fn new(limit: impl Into<Limit>) -> Self {
        Reset { limit: limit.into() }
    }
}

impl Command for Reset {
    type Outcome = bool;

    fn script(&self) -> ScriptId {
        ScriptId::LimiterReset
    }

    fn arguments(&self, arguments: &mut Arguments) {
        arguments.push(self.limit.machine().tag());
    }

    fn outcome(&self, reply: &[i64]) -> Result<bool, ReplyError> {
        match read_head(reply)? {
            (_, [0]) => Ok(false),
            (_, [1]) => Ok(true),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn apply(&self, slot: &mut Option<Record>, _now: Timestamp) -> Result<bool, RecordError> {
        match slot {
            Some(record) if record.tag() != self.limit.machine().tag() => {
                Err(RecordError::OtherKind)
            }
            _ => Ok(slot.take().is_some()),
        }
    }
}

fn check_costs(costs: &[u64]) -> Result<(), CostError> {
    if costs.is_empty() {
        return Err(CostError::Empty);
    }
    if costs.len() > MAX_COSTS {
        return Err(CostError::TooMany { count: costs.len() });
    }
    if costs.contains(&0) {
        return Err(CostError::Zero);
    }
    Ok(())
}

/// The limit, its terms and the costs, which stand behind the request.
fn push_acquire(limit: &Limit, costs: &[u64], arguments: &mut Arguments) {
    push_limit(limit, arguments);
    for number in limit.machine().terms().iter().chain(costs) {
        arguments.push(number);
    }
}

/// The record's tag, then the configuration: together the head of the record that it may read.
fn push_limit(limit: &Limit, arguments: &mut Arguments) {
    let machine = limit.machine();
    arguments.push(machine.tag());
    for number in machine.config().iter() {
        arguments.push(number);
    }
}

/// Decides each cost. Where any was admitted, the record drops the requests that it no longer
/// remembers, and remembers this one, whose only cost that was.
fn apply_acquire(
    limit: &Limit,
    slot: &mut Option<Record>,
    now: Timestamp,
    costs: &[u64],
    request: Option<Request>,
    decided: &mut dyn FnMut(Decision),
) -> Result<(), RecordError> {
    let told = limit.machine().acquire(slot, now, costs, decided)?;
    let (Some(told), Some(record)) = (told, slot) else { return Ok(()) };
    record.requests.prune(now);
    if let (Some(request), &[cost]) = (request, costs) {
        record.requests.remember(request, cost, now, told);
    }
    Ok(())
}

fn read_acquire(
    limit: &Limit,
    costs: &[u64],
    reply: &[i64],
    decided: &mut dyn FnMut(Decision),
) -> Result<(), ReplyError> {
    let (now, rest) = read_head(reply)?;
    limit.machine().read_acquire(costs, now, rest, decided)
}
