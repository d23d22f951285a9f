//! The commands that every limiter takes: acquire, peek and reset.

use alloc::vec::Vec;
use core::time::Duration;

use super::group::Opened;
use super::request::{Request, RequestId, What};
use super::wire::{self, push_limit};
use super::{CounterRecord, Fields, Machine};
use crate::command::{Arguments, Command, ScriptId, read_head};
use crate::decision::Decision;
use crate::error::{ConfigError, CostError, RecordError, ReplyError};
use crate::limit::{Limit, Single, Singles};
use crate::record::{Body, Record};
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

    /// The answer that this request got when it was admitted, if it is still remembered.
    fn repeated(
        &self,
        slot: &Option<Record>,
        now: Timestamp,
    ) -> Result<Option<Decision>, RecordError> {
        let (Some(request), Some(record)) = (self.request, slot) else { return Ok(None) };
        let limits = self.limit.singles();
        if !record.is_of(&limits) {
            return Ok(None);
        }
        let Some(known) = record.requests.find(request.id, now) else { return Ok(None) };
        if known.what != What::Acquire(self.cost) {
            return Err(RecordError::OperationReused);
        }
        let decision = wire::recall(&limits, self.cost, known.now, &known.told);
        decision.map(Some).ok_or(RecordError::Damaged)
    }
}

impl Command for Acquire {
    type Outcome = Decision;

    fn script(&self) -> ScriptId {
        wire::acquire_script(&self.limit)
    }

    fn fallback(&self) -> Option<ScriptId> {
        Some(ScriptId::LimiterAcquire)
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
        if let Some(decision) = self.repeated(slot, now)? {
            return Ok(decision);
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
        wire::acquire_script(&self.limit)
    }

    fn fallback(&self) -> Option<ScriptId> {
        Some(ScriptId::LimiterAcquire)
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
        wire::peek_script(&self.limit)
    }

    fn fallback(&self) -> Option<ScriptId> {
        Some(ScriptId::LimiterPeek)
    }

    fn arguments(&self, arguments: &mut Arguments) {
        push_limit(&self.limit, arguments);
        arguments.push(self.cost);
    }

    fn outcome(&self, reply: &[i64]) -> Result<Decision, ReplyError> {
        let reply = wire::Reply::read(reply)?;
        if let Some(machine) = only_counter(&self.limit.singles())
            && reply.is_plain()
        {
            return Ok(machine.decide_only(reply.prior(machine)?, reply.now, self.cost));
        }
        let (standing, freed) = reply.standing(&self.limit, 1)?;
        Ok(standing.peek(self.cost, &freed[0]))
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Decision, RecordError> {
        let limits = self.limit.singles();
        if let Some((machine, prior)) = plain(&limits, slot, now) {
            return Ok(machine.decide_only(prior, now, self.cost));
        }
        let opened = Opened::new(&limits, slot, now)?;
        Ok(opened.standing.peek(self.cost, &opened.freed_at(self.cost)))
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

/// Forget what was admitted, request ids among it: the key is fresh again. Tells whether anything
/// was stored.
///
/// Works on the record of any limiter, under whichever limit it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reset;

impl Command for Reset {
    type Outcome = bool;

    fn script(&self) -> ScriptId {
        ScriptId::LimiterReset
    }

    fn arguments(&self, _arguments: &mut Arguments) {}

    fn outcome(&self, reply: &[i64]) -> Result<bool, ReplyError> {
        match read_head(reply)? {
            (_, [0]) => Ok(false),
            (_, [1]) => Ok(true),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn apply(&self, slot: &mut Option<Record>, _now: Timestamp) -> Result<bool, RecordError> {
        match slot {
            Some(Record { body: Body::Lock(_), .. }) => Err(RecordError::OtherKind),
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

/// The limit and the costs, which stand behind the request.
fn push_acquire(limit: &Limit, costs: &[u64], arguments: &mut Arguments) {
    push_limit(limit, arguments);
    for cost in costs {
        arguments.push(cost);
    }
}

/// The machine of a limit that is a single counter's, borrowed from `limits`.
fn only_counter(limits: &Singles) -> Option<&dyn Machine> {
    match &limits[..] {
        [only] => only.machine().ok(),
        _ => None,
    }
}

/// The machine and the state where that is all there is: one counter, a record of its own or none, and no
/// block. What most calls find takes a shorter way.
fn plain<'a>(
    limits: &'a Singles,
    slot: &Option<Record>,
    now: Timestamp,
) -> Option<(&'a dyn Machine, Option<Fields>)> {
    let machine = only_counter(limits)?;
    match slot {
        None => Some((machine, None)),
        Some(Record { body: Body::Counter(record), blocked_until, .. })
            if record.is_of(machine) && *blocked_until <= now.as_micros() =>
        {
            Some((machine, Some(record.state)))
        }
        Some(_) => None,
    }
}

/// Decides each cost. Where any was admitted, the record drops what it no longer needs to remember, and
/// remembers this request, whose only cost that was.
fn apply_acquire(
    limit: &Limit,
    slot: &mut Option<Record>,
    now: Timestamp,
    costs: &[u64],
    request: Option<Request>,
    decided: &mut dyn FnMut(Decision),
) -> Result<(), RecordError> {
    let limits = limit.singles();
    let told = match plain(&limits, slot, now) {
        Some((machine, prior)) => {
            let Some(charged) = machine.decide_each(prior, now, costs, decided) else {
                return Ok(());
            };
            Record::put(slot, Body::Counter(CounterRecord::new(machine, charged)), now);
            prior.map(|prior| prior.to_vec()).unwrap_or_default()
        }
        None => match apply_to_any(&limits, slot, now, costs, decided)? {
            Some(told) => told,
            None => return Ok(()),
        },
    };
    if let (Some(request), &[cost], Some(record)) = (request, costs, slot) {
        record.requests.remember(request, What::Acquire(cost), now, told);
    }
    Ok(())
}

/// The same for any limits and any record. Where any was admitted, the numbers that the decision follows
/// from, of a single cost.
fn apply_to_any(
    limits: &[Single],
    slot: &mut Option<Record>,
    now: Timestamp,
    costs: &[u64],
    decided: &mut dyn FnMut(Decision),
) -> Result<Option<Vec<u64>>, RecordError> {
    let mut opened = Opened::new(limits, slot, now)?;
    let told = opened.standing.numbers();
    let mut any_allowed = false;
    for &cost in costs {
        let freed = opened.freed_at(cost);
        let (allowed, decision) = opened.standing.decide(cost, &freed);
        if allowed {
            opened.add_entry(cost);
            any_allowed = true;
        }
        decided(decision);
    }
    let mut closed = opened.close();
    if any_allowed || closed.converted {
        closed.write(slot, now);
    }
    Ok(any_allowed.then_some(told))
}

fn read_acquire(
    limit: &Limit,
    costs: &[u64],
    reply: &[i64],
    decided: &mut dyn FnMut(Decision),
) -> Result<(), ReplyError> {
    let reply = wire::Reply::read(reply)?;
    if let Some(machine) = only_counter(&limit.singles())
        && reply.is_plain()
    {
        machine.decide_each(reply.prior(machine)?, reply.now, costs, decided);
        return Ok(());
    }
    let (mut standing, freed) = reply.standing(limit, costs.len())?;
    for (&cost, freed) in costs.iter().zip(&freed) {
        decided(standing.decide(cost, freed).1);
    }
    Ok(())
}
