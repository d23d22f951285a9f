//! The read-write lock's commands as scripts, their arguments and their replies.

use super::{Action, Answer, Hold, Holder, Inspect, Inspection, Mode, Operation, OwnerId, Reply};
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
        let (lease_us, remember_us) = (self.lock.lease_us, self.lock.remember_us);
        let call = |script| TextCall::new(script).with(self.mode.letter()).with(self.owner);
        match self.action {
            Action::Acquire { hold, not_after, waits_us } => call(ScriptId::RwLockAcquire)
                .with(hold)
                .with(lease_us)
                .with(not_after.as_micros())
                .with(waits_us),
            Action::Renew { token } => {
                call(ScriptId::RwLockRenew).with_optional(token).with(lease_us)
            }
            Action::Release { hold } => call(ScriptId::RwLockRelease).with(hold).with(remember_us),
        }
    }

    fn outcome(&self, reply: &[i64]) -> Result<Reply, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let mut woke = false;
        let answer = match *rest {
            [REFUSED, retry_at] => Answer::Refused { retry_at: read_time(retry_at)? },
            [HELD, token, holds, deadline] => {
                Answer::Held(read_hold(self.mode, [token, holds, deadline])?)
            }
            [RELEASED, token, holds, told] => {
                woke = read_flag(told)?;
                Answer::Released { token: read_whole(token)?, holds: read_whole(holds)? }
            }
            [UPGRADE, retry_at] => Answer::UpgradeRefused { retry_at: read_time(retry_at)? },
            [TOO_MANY, retry_at] => Answer::TooMany { retry_at: read_time(retry_at)? },
            [TOO_LATE, forgotten] => Answer::TooLate { forgotten: read_time(forgotten)? },
            [NOT_HELD] => Answer::NotHeld,
            _ => return Err(ReplyError::Unexpected),
        };
        Ok(Reply { now, answer, woke })
    }

    fn reply(&self, outcome: &Reply, _: &Ran<'_>) -> Vec<i64> {
        let answer = |status, numbers: &[u64]| answer(outcome.now, status, numbers.iter().copied());
        match outcome.answer {
            Answer::Refused { retry_at } => answer(REFUSED, &[retry_at.as_micros()]),
            Answer::Held(hold) => answer(HELD, &hold_numbers(&hold)),
            Answer::Released { token, holds } => {
                answer(RELEASED, &[token, holds, outcome.woke.into()])
            }
            Answer::UpgradeRefused { retry_at } => answer(UPGRADE, &[retry_at.as_micros()]),
            Answer::TooMany { retry_at } => answer(TOO_MANY, &[retry_at.as_micros()]),
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
        TextCall::new(ScriptId::RwLockInspect)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Inspection, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let [kept_until, holders @ ..] = rest else { return Err(ReplyError::Unexpected) };
        let kept_until = read_time(*kept_until)?;
        Ok(Inspection {
            now,
            kept_until: Some(kept_until).filter(|until| *until > Timestamp::EPOCH),
            holders: holders.chunks(8).map(read_holder).collect::<Result<_, ReplyError>>()?,
        })
    }

    fn reply(&self, lock: &Inspection, _: &Ran<'_>) -> Vec<i64> {
        let kept_until = lock.kept_until.unwrap_or(Timestamp::EPOCH).as_micros();
        let holders = lock.holders.iter().flat_map(|Holder { owner, hold }| {
            let mode = u64::from(hold.mode == Mode::Write);
            [mode].into_iter().chain(bits(owner.as_u128())).chain(hold_numbers(hold))
        });
        reply(lock.now, [kept_until].into_iter().chain(holders))
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Inspection, RecordError> {
        self.run(slot, now)
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

const REFUSED: i64 = 0;
const HELD: i64 = 1;
const RELEASED: i64 = 2;
const UPGRADE: i64 = 3;
const TOO_MANY: i64 = 4;
const TOO_LATE: i64 = 5;
const NOT_HELD: i64 = 6;

/// Returns a token, a hold count and a deadline.
fn hold_numbers(hold: &Hold) -> [u64; 3] {
    [hold.token, hold.holds, hold.deadline.as_micros()]
}

/// Reads a token, a hold count and a deadline.
fn read_hold(mode: Mode, [token, holds, deadline]: [i64; 3]) -> Result<Hold, ReplyError> {
    let (token, holds) = (read_whole(token)?, read_whole(holds)?);
    Ok(Hold { mode, token, holds, deadline: read_time(deadline)? })
}

/// Reads the mode, the owner's id in four parts of 32 bits, and the hold.
fn read_holder(numbers: &[i64]) -> Result<Holder, ReplyError> {
    let &[mode, a, b, c, d, token, holds, deadline] = numbers else {
        return Err(ReplyError::Unexpected);
    };
    let mode = match mode {
        0 => Mode::Read,
        1 => Mode::Write,
        _ => return Err(ReplyError::Unexpected),
    };
    let owner = OwnerId::from_u128(read_bits(&[a, b, c, d])?);
    Ok(Holder { owner, hold: read_hold(mode, [token, holds, deadline])? })
}
