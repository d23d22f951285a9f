//! The latch's commands as scripts, their arguments and their replies.

use super::{Action, Answer, Inspect, Inspection, Operation, Reply, Reset};
use alloc::vec::Vec;

use crate::call::TextCall;
use crate::command::{Command, Publish, Ran};
use crate::error::{RecordError, ReplyError};
use crate::record::Record;
use crate::reply::{answer, read_flag, read_head, read_time, read_whole, reply};
use crate::script::ScriptId;
use crate::time::Timestamp;

impl Command for Operation {
    type Outcome = Reply;

    fn encode_text(&self) -> TextCall {
        let not_after = self.not_after.as_micros();
        let call = |script| TextCall::new(script).with(self.id).with(self.count).with(not_after);
        match self.action {
            Action::Set { keep_us } => call(ScriptId::LatchSet).with(keep_us),
            Action::CountDown => call(ScriptId::LatchCountDown),
        }
    }

    fn outcome(&self, reply: &[i64]) -> Result<Reply, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let mut woke = false;
        let answer = match *rest {
            [CLOSED, left, open_at] => {
                Answer::Closed { left: read_whole(left)?, open_at: read_time(open_at)? }
            }
            [DONE, left, told] => {
                woke = read_flag(told)?;
                Answer::Done { left: read_whole(left)? }
            }
            [OPEN] => Answer::Open,
            [TOO_LATE, forgotten] => Answer::TooLate { forgotten: read_time(forgotten)? },
            _ => return Err(ReplyError::Unexpected),
        };
        Ok(Reply { now, answer, woke })
    }

    fn reply(&self, outcome: &Reply, _: &Ran<'_>) -> Vec<i64> {
        let now = outcome.now;
        match outcome.answer {
            Answer::Closed { left, open_at } => answer(now, CLOSED, [left, open_at.as_micros()]),
            Answer::Done { left } => answer(now, DONE, [left, outcome.woke.into()]),
            Answer::Open => answer(now, OPEN, []),
            Answer::TooLate { forgotten } => answer(now, TOO_LATE, [forgotten.as_micros()]),
        }
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Reply, RecordError> {
        self.run(slot, now)
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn publishes(&self, reply: &Reply, _: Option<&Record>) -> Publish {
        Publish::any_if(reply.woke)
    }
}

impl Command for Inspect {
    type Outcome = Inspection;

    fn encode_text(&self) -> TextCall {
        TextCall::new(ScriptId::LatchInspect)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Inspection, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let &[left, open_at] = rest else { return Err(ReplyError::Unexpected) };
        Ok(Inspection { now, left: read_whole(left)?, open_at: read_time(open_at)? })
    }

    fn reply(&self, latch: &Inspection, _: &Ran<'_>) -> Vec<i64> {
        reply(latch.now, [latch.left, latch.open_at.as_micros()])
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Inspection, RecordError> {
        self.run(slot, now)
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

impl Command for Reset {
    type Outcome = Option<u64>;

    fn encode_text(&self) -> TextCall {
        TextCall::new(ScriptId::LatchReset)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Option<u64>, ReplyError> {
        match read_head(reply)? {
            (_, [0]) => Ok(None),
            (_, [1, left]) => Ok(Some(read_whole(*left)?)),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn reply(&self, left: &Option<u64>, ran: &Ran<'_>) -> Vec<i64> {
        answer(ran.now, left.is_some().into(), *left)
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Option<u64>, RecordError> {
        self.run(slot, now)
    }

    /// Notifies listeners if the latch was closed.
    fn publishes(&self, left: &Option<u64>, _: Option<&Record>) -> Publish {
        Publish::any_if(left.is_some_and(|left| left > 0))
    }
}

const CLOSED: i64 = 0;
const DONE: i64 = 1;
const OPEN: i64 = 2;
const TOO_LATE: i64 = 3;
