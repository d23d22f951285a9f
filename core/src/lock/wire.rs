//! The lock's commands as scripts, their arguments and their replies.

use super::{Action, Answer, Hold, Holder, Inspect, Inspection, Operation, OwnerId, Reply};
use crate::command::{
    Arguments, Command, ScriptId, push_token, read_bits, read_head, read_time, read_whole,
};
use crate::error::{RecordError, ReplyError};
use crate::record::Record;
use crate::time::Timestamp;

impl Command for Operation {
    type Outcome = Reply;

    fn script(&self) -> ScriptId {
        match self.action {
            Action::Acquire { .. } => ScriptId::LockAcquire,
            Action::Renew { .. } => ScriptId::LockRenew,
            Action::Release { .. } => ScriptId::LockRelease,
            Action::ForceRelease { .. } => ScriptId::LockForceRelease,
        }
    }

    /// The operation's id and how long it is remembered, then what is its own.
    fn arguments(&self, arguments: &mut Arguments) {
        arguments.push(self.id);
        arguments.push(self.lock.remember_us);
        match self.action {
            Action::Acquire { owner, not_after, waits_us } => {
                arguments.push(owner);
                arguments.push(self.lock.lease_us);
                arguments.push(not_after.as_micros());
                arguments.push(waits_us);
            }
            Action::Renew { owner, token } => {
                arguments.push(owner);
                push_token(token, arguments);
                arguments.push(self.lock.lease_us);
            }
            Action::Release { owner, token } => {
                arguments.push(owner);
                push_token(token, arguments);
            }
            Action::ForceRelease { token } => arguments.push(token),
        }
    }

    fn outcome(&self, reply: &[i64]) -> Result<Reply, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let answer = match rest {
            [DONE, hold @ ..] => Answer::Done(read_hold(hold)?),
            [REFUSED, holder @ ..] => Answer::Refused(read_holder(holder)?),
            [TOO_LATE] => Answer::TooLate,
            _ => return Err(ReplyError::Unexpected),
        };
        Ok(Reply { now, answer })
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Reply, RecordError> {
        self.run(slot, now)
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    /// Where the lock is free now. A script asks the record first whether anybody waits.
    fn publishes(&self, reply: &Reply) -> bool {
        let gives_back =
            matches!(self.action, Action::Release { .. } | Action::ForceRelease { .. });
        gives_back && matches!(reply.answer, Answer::Done(Hold { holds: 0, .. }))
    }
}

impl Command for Inspect {
    type Outcome = Inspection;

    fn script(&self) -> ScriptId {
        ScriptId::LockInspect
    }

    fn arguments(&self, _arguments: &mut Arguments) {}

    fn outcome(&self, reply: &[i64]) -> Result<Inspection, ReplyError> {
        let (now, rest) = read_head(reply)?;
        Ok(Inspection { now, holder: read_holder(rest)? })
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Inspection, RecordError> {
        self.run(slot, now)
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

const REFUSED: i64 = 0;
const DONE: i64 = 1;
const TOO_LATE: i64 = 2;

/// A token, a hold count and a deadline.
fn read_hold(numbers: &[i64]) -> Result<Hold, ReplyError> {
    let &[token, holds, deadline] = numbers else { return Err(ReplyError::Unexpected) };
    let (token, holds) = (read_whole(token)?, read_whole(holds)?);
    Ok(Hold { token, holds, deadline: read_time(deadline)? })
}

/// A hold, then its owner's id in four parts of 32 bits; nothing where nobody holds the lock.
fn read_holder(numbers: &[i64]) -> Result<Option<Holder>, ReplyError> {
    if numbers.is_empty() {
        return Ok(None);
    }
    let (hold, owner) = numbers.split_at_checked(3).ok_or(ReplyError::Unexpected)?;
    Ok(Some(Holder { owner: OwnerId(read_bits(owner)?), hold: read_hold(hold)? }))
}
