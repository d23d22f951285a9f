//! The commands that admit nothing: asking, and forgetting.

use super::fast_path::{only_counter, plain};
use super::group::Opened;
use super::stored::under_own_limit;
use super::wire;
use super::with_stored_limit::LimitCommand;
use super::with_stored_limit::run::Run;
use crate::call::TextCall;
use crate::command::{Command, ScriptId, read_head};
use crate::decision::Decision;
use crate::error::{RecordError, ReplyError};
use crate::limit::Limit;
use crate::record::Record;
use crate::time::Timestamp;

/// Ask what an [`Acquire`](crate::Acquire) would be told, without the charge.
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

    fn encode_text(&self) -> TextCall {
        wire::with_limit(TextCall::new(ScriptId::LimiterPeek), &self.limit).with(self.cost)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Decision, ReplyError> {
        let reply = wire::Reply::read(reply)?;
        if let Some(machine) = only_counter(&self.limit.singles())
            && reply.is_fast_path()
        {
            return Ok(machine.decide_only(reply.prior(machine)?, reply.now, self.cost));
        }
        let (standing, freed) = reply.standing(&self.limit, 1)?;
        Ok(standing.peek(self.cost, &freed[0]))
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
    fn run(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Decision, RecordError> {
        let limits = self.limit.singles();
        if let Some((machine, prior)) = plain(&limits, slot, now) {
            return Ok(machine.decide_only(prior, now, self.cost));
        }
        let opened = Opened::new(&limits, slot, now)?;
        Ok(opened.standing.peek(self.cost, &opened.freed_at(self.cost)))
    }

    fn only_asks(&self) -> bool {
        true
    }
}

/// Forget what was admitted, request ids among it: the key is fresh again. Tells whether anything
/// was stored.
///
/// Works on the record of any limiter, under whichever limit it was written. One that is stored with it
/// (see [`SetLimit`](crate::SetLimit)) is forgotten too.
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

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<bool, RecordError> {
        match slot {
            Some(record) if !record.is_limiter() => Err(RecordError::OtherKind),
            Some(record) if record.is_over(now) => Ok(false),
            _ => Ok(slot.take().is_some()),
        }
    }
}
