//! The commands that admit nothing: peek and reset.

use alloc::vec::Vec;

use super::commands::{Acquire, FastPath, fast_path};
use super::cost::{Cost, Costs, Requests};
use super::key_state::OneLimit;
use super::max_wait::MaxWait;
use super::reply::{self, States};
use super::stored::under_own_limit;
use super::transaction::Transaction;
use super::wire;
use super::with_stored_limit::LimitCommand;
use super::with_stored_limit::run::Run;
use crate::call::TextCall;
use crate::command::{Command, Ran};
use crate::decision::Decision;
use crate::error::{RecordError, ReplyError};
use crate::limit::Limit;
use crate::record::Record;
use crate::reply::{answer, read_head};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// Returns the decision of an [`Acquire`](crate::Acquire), and charges nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    limit: Limit,
    cost: Cost,
}

impl Peek {
    /// Creates a peek for `cost`; a cost of zero asks for `remaining` and `reset_after` alone.
    pub fn new(limit: impl Into<Limit>, cost: u64) -> Self {
        Peek { limit: limit.into(), cost: cost.into() }
    }

    /// Creates a peek for a cost that may have a number for each part, as [`Acquire::by_part`](crate::Acquire::by_part).
    pub fn by_part(limit: impl Into<Limit>, cost: Cost) -> Self {
        Peek { limit: limit.into(), cost }
    }
}

impl Acquire {
    /// Returns the peek for the same limit and cost.
    pub fn peek(&self) -> Peek {
        Peek::by_part(*self.limit(), *self.cost())
    }
}

impl Command for Peek {
    type Outcome = Decision;

    fn encode_text(&self) -> TextCall {
        wire::with_limit(TextCall::new(ScriptId::LimiterPeek), &self.limit).with(self.cost)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Decision, ReplyError> {
        wire::Reply::read(reply)?.peek(&self.limit, &self.cost)
    }

    fn reply(&self, _: &Decision, ran: &Ran<'_>) -> Vec<i64> {
        let peeked = Requests { costs: Costs::of(&self.cost), max_wait: MaxWait::ENDLESS };
        reply::of_requests(&self.limit, peeked, (States::Settled, false), ran)
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Decision, RecordError> {
        under_own_limit(slot, now, |slot| self.run(slot, now))
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

impl LimitCommand for Peek {
    fn under(&self, limit: Limit) -> Self {
        Peek { limit, ..*self }
    }
}

impl Run for Peek {
    fn limit(&self) -> Limit {
        self.limit
    }

    fn run(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Decision, RecordError> {
        self.cost.suits(&self.limit)?;
        let single = self.limit.single();
        if let Some(cost) = self.cost.for_all()
            && let Some(FastPath { machine, prior, .. }) = fast_path(single.as_ref(), slot, now)?
        {
            return Ok(OneLimit::new(machine, prior, now, MaxWait::ENDLESS).peek(cost));
        }
        Ok(Transaction::new(&self.limit.singles(), slot, now)?.peek(&self.cost))
    }

    fn only_asks(&self) -> bool {
        true
    }
}

/// Forgets all admissions, including request ids: the key is fresh again. Returns whether anything was stored.
///
/// Works on the record of any limiter, under any limit. A stored limit (see [`SetLimit`](crate::SetLimit)) is forgotten
/// too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reset;

impl Command for Reset {
    type Outcome = bool;

    fn encode_text(&self) -> TextCall {
        TextCall::new(ScriptId::LimiterReset)
    }

    fn outcome(&self, reply: &[i64]) -> Result<bool, ReplyError> {
        match read_head(reply)? {
            (_, [0]) => Ok(false),
            (_, [1]) => Ok(true),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn reply(&self, was_stored: &bool, ran: &Ran<'_>) -> Vec<i64> {
        answer(ran.now, (*was_stored).into(), [])
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<bool, RecordError> {
        match slot {
            Some(record) if !record.is_limiter() => Err(RecordError::OtherKind),
            Some(record) if record.is_over(now) => Ok(false),
            _ => Ok(slot.take().is_some()),
        }
    }
}
