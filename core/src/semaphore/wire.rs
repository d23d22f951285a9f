//! The semaphore's commands as scripts, their arguments and their replies.

use super::{Action, Answer, Grant, Inspect, Inspection, Operation, PermitId, Reply};
use alloc::vec::Vec;

use crate::call::TextCall;
use crate::command::{Command, Publish, Ran};
use crate::error::{RecordError, ReplyError};
use crate::record::Record;
use crate::reply::{answer, bits, read_bits, read_flag, read_head, read_time, read_whole, reply};
use crate::script::ScriptId;
use crate::time::Timestamp;

impl Command for Operation {
    type Outcome = Reply;

    fn encode_text(&self) -> TextCall {
        let semaphore = &self.semaphore;
        let call = |script| TextCall::new(script).with(self.id);
        match self.action {
            Action::Acquire { count, not_after, waits_us } => call(ScriptId::SemaphoreAcquire)
                .with(count)
                .with(semaphore.permits)
                .with(semaphore.lease_us)
                .with(not_after.as_micros())
                .with(waits_us),
            Action::Renew { token } => {
                call(ScriptId::SemaphoreRenew).with_optional(token).with(semaphore.lease_us)
            }
            Action::Release { token } => {
                call(ScriptId::SemaphoreRelease).with_optional(token).with(semaphore.remember_us)
            }
        }
    }

    fn outcome(&self, reply: &[i64]) -> Result<Reply, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let mut woke = false;
        let answer = match rest {
            [FULL, fits_at] => Answer::Full { fits_at: read_time(*fits_at)? },
            [HELD, grant @ ..] => Answer::Held(read_grant(grant)?),
            [RELEASED, token, told] => {
                woke = read_flag(*told)?;
                Answer::Released { token: read_whole(*token)? }
            }
            [NEVER] => Answer::Never,
            [TOO_LATE, forgotten] => Answer::TooLate { forgotten: read_time(*forgotten)? },
            [NOT_HELD] => Answer::NotHeld,
            _ => return Err(ReplyError::Unexpected),
        };
        Ok(Reply { now, answer, woke })
    }

    fn reply(&self, outcome: &Reply, _: &Ran<'_>) -> Vec<i64> {
        let answer = |status, numbers: &[u64]| answer(outcome.now, status, numbers.iter().copied());
        match outcome.answer {
            Answer::Full { fits_at } => answer(FULL, &[fits_at.as_micros()]),
            Answer::Held(grant) => answer(HELD, &grant_numbers(&grant)),
            Answer::Released { token } => answer(RELEASED, &[token, outcome.woke.into()]),
            Answer::Never => answer(NEVER, &[]),
            Answer::TooLate { forgotten } => answer(TOO_LATE, &[forgotten.as_micros()]),
            Answer::NotHeld => answer(NOT_HELD, &[]),
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
        TextCall::new(ScriptId::SemaphoreInspect)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Inspection, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let [used, holders, grants @ ..] = rest else { return Err(ReplyError::Unexpected) };
        let named = grants.chunks(7).map(|grant| {
            let (id, grant) = grant.split_at_checked(4).ok_or(ReplyError::Unexpected)?;
            Ok((PermitId::from_u128(read_bits(id)?), read_grant(grant)?))
        });
        Ok(Inspection {
            now,
            used: read_whole(*used)?,
            holders: usize::try_from(*holders).map_err(|_| ReplyError::Unexpected)?,
            grants: named.collect::<Result<_, ReplyError>>()?,
        })
    }

    fn reply(&self, semaphore: &Inspection, _: &Ran<'_>) -> Vec<i64> {
        let named = |(id, grant): &(PermitId, Grant)| {
            bits(id.as_u128()).into_iter().chain(grant_numbers(grant))
        };
        let grants = semaphore.grants.iter().flat_map(named);
        let head = [semaphore.used, semaphore.holders as u64];
        reply(semaphore.now, head.into_iter().chain(grants))
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Inspection, RecordError> {
        self.run(slot, now)
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

const FULL: i64 = 0;
const HELD: i64 = 1;
const RELEASED: i64 = 2;
const NEVER: i64 = 3;
const TOO_LATE: i64 = 4;
const NOT_HELD: i64 = 5;

/// Returns a count, a token and a deadline.
fn grant_numbers(grant: &Grant) -> [u64; 3] {
    [grant.count, grant.token, grant.deadline.as_micros()]
}

/// Reads a count, a token and a deadline.
fn read_grant(numbers: &[i64]) -> Result<Grant, ReplyError> {
    let &[count, token, deadline] = numbers else { return Err(ReplyError::Unexpected) };
    Ok(Grant {
        count: read_whole(count)?,
        token: read_whole(token)?,
        deadline: read_time(deadline)?,
    })
}
