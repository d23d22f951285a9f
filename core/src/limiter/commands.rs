//! The command that admits one request, and what it shares with the one that admits several.

use alloc::vec::Vec;
use core::time::Duration;

use super::cost::{Cost, Costs, Requests};
use super::key_state::{LimitState, OneLimit};
use super::max_wait::MaxWait;
use super::reply::{self, States};
use super::request::{Remembered, Request, RequestId, What};
use super::stored::under_own_limit;
use super::transaction::Transaction;
use super::wire;
use super::with_stored_limit::LimitCommand;
use super::with_stored_limit::run::Run;
use crate::call::{PackedCall, TextCall};
use crate::command::{Command, Ran};
use crate::decision::Decision;
use crate::error::{ConfigError, CostError, RecordError, ReplyError};
use crate::limit::{Limit, Machine, Single, State};
use crate::record::{Body, Record, letters};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// The most costs that one [`AcquireEach`](crate::AcquireEach) carries.
pub const MAX_COSTS: usize = 1000;

/// The most costs that a script of the slow path decides in one call, which keeps a server busy for about a
/// millisecond. Under a stored limit a call carries no more; other calls are [cut](Command::cut).
pub const MAX_SLOW_COSTS: usize = 6;

/// The most different costs of one call that a sliding log decides, or may decide: each denial searches the log.
pub const MAX_DIFFERENT_COSTS: usize = 10;

/// A command that admits one request and charges its cost, or changes nothing.
///
/// A repetition after a lost answer is another request, unless it has an id: see [`Acquire::with_request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire {
    limit: Limit,
    cost: Cost,
    max_wait: MaxWait,
    request: Option<Request>,
}

impl Acquire {
    /// Creates a request of `cost` (at least 1) against `limit`. A cost above the capacity is
    /// [`Verdict::Never`](crate::Verdict::Never), not an error.
    ///
    /// # Errors
    /// [`CostError::Zero`].
    #[inline]
    pub fn new(limit: impl Into<Limit>, cost: u64) -> Result<Self, CostError> {
        check_costs(&[cost])?;
        let (limit, cost) = (limit.into(), cost.into());
        Ok(Acquire { limit, cost, max_wait: MaxWait::ENDLESS, request: None })
    }

    /// Creates a request of this cost against `limit`, which may have a number for each part. All parts admit it, and each
    /// is charged its own, or nothing is charged. A part with a cost of zero does not count.
    ///
    /// Under a limit that does not pass [`Cost::check`], also a stored one, it is [`RecordError::OtherParts`].
    ///
    /// # Errors
    /// [`CostError::Zero`] if all are zero, and [`CostError::ZeroForLog`].
    #[inline]
    pub fn by_part(limit: impl Into<Limit>, cost: Cost) -> Result<Self, CostError> {
        check_costs(&[cost.most()])?;
        let limit = limit.into();
        cost.check_charge(&limit)?;
        Ok(Acquire { limit, cost, max_wait: MaxWait::ENDLESS, request: None })
    }

    /// Returns the request under an id, so that it can be repeated (D11). Once it was admitted, and while it is
    /// remembered, a repetition gets the same answer, with the original times, and is not charged. A denied request
    /// is not remembered: its repetition is a new attempt.
    ///
    /// The record remembers the last [`REMEMBERED_REQUESTS`](crate::REMEMBERED_REQUESTS) admitted requests with an
    /// id, each for `remember` (whole microseconds, at most half of [`MAX_SPAN`](crate::MAX_SPAN)), and lives for at
    /// least as long. That should be at least the longest time that a repetition can be under way: the call's timeout
    /// and the network's delay. A [`Reset`](crate::Reset) forgets requests too.
    ///
    /// An id that is remembered for another cost is [`RecordError::OperationReused`].
    ///
    /// # Errors
    /// [`ConfigError`] for a `remember` of zero, with a fraction of a microsecond, or out of range.
    pub fn with_request(self, id: RequestId, remember: Duration) -> Result<Self, ConfigError> {
        Ok(Acquire { request: Some(Request::new(id, remember)?), ..self })
    }

    /// Returns the request with the longest wait for its turn, in whole microseconds. A
    /// [`LeakyBucket`](crate::LeakyBucket), alone or in a composite, denies it if its turn would be later. The
    /// decision's `remaining` is the room in the queue, whatever the wait. Limits without turns ignore it.
    ///
    /// A repetition under the request's id must have the same wait.
    pub fn within(self, max_wait: Duration) -> Self {
        Acquire { max_wait: MaxWait::of(max_wait), ..self }
    }

    /// Returns the limit.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns the cost.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Decides the request, or returns the decision by which its id was admitted before; with the time of the
    /// decision. Sets `told`, if given, to the numbers of a script's reply.
    #[inline]
    pub(super) fn admit(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
        told: Option<&mut Vec<u64>>,
    ) -> Result<(Decision, Timestamp), RecordError> {
        self.cost.suits_charge(&self.limit)?;
        if let Some(known) = self.known(slot, now)? {
            let decision = wire::recall(&self.limit.singles(), &self.cost, known.now, &known.told);
            if let Some(told) = told {
                told.clone_from(&known.told);
            }
            return Ok((decision.ok_or(RecordError::Damaged)?, known.now));
        }
        let mut numbers = Vec::new();
        let told = told.or(self.request.is_some().then_some(&mut numbers));
        let mut decision = None;
        apply_acquire(&self.limit, slot, now, self.costs(), self.request, told, |one| {
            decision = Some(one)
        })?;
        Ok((decision.expect("one cost gets one decision: each cost is decided once"), now))
    }

    /// Returns the request as it was admitted, if it is still remembered.
    pub(super) fn known<'a>(
        &self,
        slot: &'a Option<Record>,
        now: Timestamp,
    ) -> Result<Option<&'a Remembered>, RecordError> {
        let (Some(request), Some(record)) = (self.request, slot) else { return Ok(None) };
        if !record.is_of(&self.limit.singles()) {
            return Ok(None);
        }
        match record.requests.find(request.id, now) {
            Some(known) if known.what != What::Acquire(self.cost) => {
                Err(RecordError::OperationReused)
            }
            known => Ok(known),
        }
    }

    fn costs(&self) -> Requests<'_> {
        Requests { costs: Costs::of(&self.cost), max_wait: self.max_wait }
    }
}

impl Command for Acquire {
    type Outcome = Decision;

    fn encode_text(&self) -> TextCall {
        let call = TextCall::new(ScriptId::LimiterAcquire).with_optional(self.request);
        with_acquire(call, &self.limit, self.costs())
    }

    fn encode_packed(&self) -> Option<PackedCall> {
        let call = pack_acquire(&self.limit, self.costs())?;
        match &self.request {
            None => Some(call),
            // Records of logs and of several limits have their requests as text.
            Some(request) => self.limit.counter().map(|_| call.with(request.packed())),
        }
    }

    fn outcome(&self, reply: &[i64]) -> Result<Decision, ReplyError> {
        let mut decision = None;
        read_acquire(&self.limit, self.costs(), reply, &mut |one| decision = Some(one))?;
        decision.ok_or(ReplyError::Unexpected)
    }

    fn reply(&self, _: &Decision, ran: &Ran<'_>) -> Vec<i64> {
        let slot = reply::live(&ran.before[0], ran);
        match self.known(&slot, ran.now) {
            Ok(Some(known)) => reply::of_admitted(known.now, &known.told, &self.limit.singles()),
            _ => reply::of_requests(&self.limit, self.costs(), (States::Stored, true), ran),
        }
    }

    #[inline]
    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Decision, RecordError> {
        under_own_limit(slot, now, |slot| self.run(slot, now))
    }

    fn is_repeatable(&self) -> bool {
        self.request.is_some()
    }
}

impl LimitCommand for Acquire {
    fn under(&self, limit: Limit) -> Self {
        Acquire { limit, ..*self }
    }
}

impl Run for Acquire {
    fn limit(&self) -> Limit {
        self.limit
    }

    #[inline]
    fn run(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Decision, RecordError> {
        Ok(self.admit(slot, now, None)?.0)
    }

    fn max_wait(&self) -> MaxWait {
        self.max_wait
    }

    fn fast_costs(&self) -> Option<&[u64]> {
        match (&self.request, Costs::of(&self.cost)) {
            (None, Costs::ForAll(costs)) => Some(costs),
            _ => None,
        }
    }
}

pub(super) fn check_costs(costs: &[u64]) -> Result<(), CostError> {
    if costs.is_empty() {
        return Err(CostError::Empty);
    }
    if costs.len() > MAX_COSTS {
        return Err(CostError::TooMany { count: costs.len(), most: MAX_COSTS });
    }
    if costs.contains(&0) {
        return Err(CostError::Zero);
    }
    Ok(())
}

/// Packs the limit's configuration, the numbers that it gives to calls, the longest wait if it has turns, and the
/// costs; of several limits, their letters come first. Returns `None` without a fast script.
pub(super) fn pack_acquire(limit: &Limit, costs: Requests<'_>) -> Option<PackedCall> {
    let script = wire::fast_script(limit)?;
    let singles = limit.singles();
    if let Costs::ByPart(cost) = costs.costs
        && (script != ScriptId::CompositeAcquire || cost.check(limit).is_err())
    {
        return None;
    }
    // A limit has seven numbers at most.
    let mut call = PackedCall::with_room(script, 8 * singles.len() + 2 + costs.costs.len());
    let tags = singles.iter().map(|single| single.row().tag);
    call.add((script == ScriptId::CompositeAcquire).then(|| letters(tags)));
    singles.iter().for_each(|it| call.add(it.config().iter().chain(it.given()).copied()));
    let has_turns = singles.iter().any(Single::has_turns);
    call.add(has_turns.then_some(costs.max_wait.as_micros()));
    call.add(costs.costs.packed());
    Some(call)
}

/// Adds the limit, the longest wait if it has turns, and the costs, which follow the request.
pub(super) fn with_acquire(call: TextCall, limit: &Limit, costs: Requests<'_>) -> TextCall {
    let has_turns = limit.singles().iter().any(Single::has_turns);
    let call = wire::with_limit(call, limit).with_all(has_turns.then_some(costs.max_wait));
    call.with_all(costs.costs.each())
}

/// Decides each cost. If any is admitted, the record drops expired requests, and remembers this one, if it has one
/// cost and an id. `told` then has the numbers from which its decision follows.
pub(super) fn apply_acquire(
    limit: &Limit,
    slot: &mut Option<Record>,
    now: Timestamp,
    costs: Requests<'_>,
    request: Option<Request>,
    mut told: Option<&mut Vec<u64>>,
    mut decided: impl FnMut(Decision),
) -> Result<(), RecordError> {
    let single = limit.single();
    let each = costs.costs.under(single.as_ref());
    match (each, fast_path(single.as_ref(), slot, now)?) {
        (Costs::ForAll(each), Some(FastPath { limit, machine, prior })) => {
            let mut key = OneLimit::new(machine, prior, now, costs.max_wait);
            let settled = key.state;
            for &cost in each {
                decided(key.decide(cost));
            }
            let state = key.state;
            if state == settled {
                return Ok(());
            }
            if let Some(told) = &mut told {
                let prior = prior.filter(|_| !limit.replies_settled());
                let state = prior.copied().unwrap_or(settled);
                told.extend(LimitState { limit: *limit, state }.numbers());
            }
            if let Some(all) = slot.as_mut().and_then(|record| record.reservations.as_mut()) {
                all.lower(&[LimitState { limit: *limit, state: settled }]);
            }
            Record::put(slot, Body::Counter(LimitState { limit: *limit, state }), now);
        }
        _ => {
            let mut transaction = Transaction::new(&limit.singles(), slot, now)?;
            transaction.key.max_wait = costs.max_wait;
            if let Some(told) = &mut told {
                told.extend(transaction.key.numbers());
            }
            let mut any_allowed = false;
            for cost in each.each() {
                let decision = transaction.decide(&cost);
                any_allowed |= decision.is_allowed();
                decided(decision);
            }
            transaction.commit(now, any_allowed);
            if !any_allowed {
                return Ok(());
            }
        }
    }
    let cost = costs.costs.only();
    if let (Some(request), Some(cost), Some(record), Some(told)) = (request, cost, slot, told) {
        record.requests.remember(request, What::Acquire(cost), now, told.clone());
    }
    Ok(())
}

/// The common case: one limit that is no log, with a record of its own or none, not blocked, not stored.
pub(super) struct FastPath<'l, 's> {
    pub(super) limit: &'l Single,
    pub(super) machine: &'l dyn Machine,
    pub(super) prior: Option<&'s State>,
}

#[inline]
pub(super) fn fast_path<'l, 's>(
    limit: Option<&'l Single>,
    slot: &'s Option<Record>,
    now: Timestamp,
) -> Result<Option<FastPath<'l, 's>>, RecordError> {
    let Some(limit) = limit else { return Ok(None) };
    let Some(machine) = limit.machine() else { return Ok(None) };
    let prior = match slot {
        None => None,
        Some(Record { body: Body::Counter(part), blocked_until, policy: None, .. })
            if part.limit.acts_as(limit)
                && blocked_until.is_none_or(|until| until <= now.as_micros()) =>
        {
            Some(&part.state)
        }
        _ => return Ok(None),
    };
    match machine.can_settle(prior.copied(), now.as_micros()) {
        true => Ok(Some(FastPath { limit, machine, prior })),
        false => Err(RecordError::ClockOff),
    }
}

pub(super) fn read_acquire(
    limit: &Limit,
    costs: Requests<'_>,
    reply: &[i64],
    decided: &mut dyn FnMut(Decision),
) -> Result<(), ReplyError> {
    wire::Reply::read(reply)?.decide(limit, costs, decided)
}
