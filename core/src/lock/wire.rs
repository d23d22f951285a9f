//! The lock's commands as scripts, their arguments and their replies.

use alloc::string::String;
use alloc::vec::Vec;

use super::machine::to_wake;
use super::{
    Action, Answer, Hold, Holder, Inspect, Inspection, Label, Lock, Operation, OwnerId, Reply,
    Withdraw,
};
use crate::call::{PackedCall, TextCall, packed};
use crate::command::{Command, Publish, Ran};
use crate::error::{RecordError, ReplyError};
use crate::record::Record;
use crate::reply::{answer, bits, read_bits, read_head, read_time, read_whole, reply};
use crate::script::ScriptId;
use crate::time::Timestamp;

impl Command for Operation {
    type Outcome = Reply;

    /// Encodes the time for which it is remembered, then the operation's own arguments.
    fn encode_text(&self) -> TextCall {
        let Lock { lease_us, remember_us } = self.lock;
        let call = |script| TextCall::new(script).with(remember_us);
        match self.action {
            Action::Acquire { owner, id, not_after, waits_us, in_line, label } => {
                call(ScriptId::LockAcquire)
                    .with(owner)
                    .with(id)
                    .with(lease_us)
                    .with(not_after.as_micros())
                    .with(waits_us)
                    .with_optional(in_line.then_some("q"))
                    .with_optional(label.as_ref().map(Label::as_str))
            }
            Action::Renew { owner, token } => {
                call(ScriptId::LockRenew).with(owner).with_optional(token).with(lease_us)
            }
            Action::Release { owner, id } => call(ScriptId::LockRelease).with(owner).with(id),
            Action::ForceRelease { token } => call(ScriptId::LockForceRelease).with(token),
        }
    }

    fn encode_packed(&self) -> Option<PackedCall> {
        let Lock { lease_us, remember_us } = self.lock;
        Some(match self.action {
            Action::Acquire { owner, id, not_after, waits_us, in_line: false, label } => {
                let numbers = [remember_us, lease_us, not_after.as_micros(), waits_us];
                let ids = [owner.as_u128(), id.as_u128()];
                let label = label.as_ref().map_or("", Label::as_str);
                let all = joined(numbers, ids).chain(label.bytes());
                PackedCall::new(ScriptId::FastLockAcquire, all)
            }
            Action::Renew { owner, token } => {
                let token = token.map(packed).into_iter().flatten();
                let all = joined([remember_us, lease_us], [owner.as_u128()]).chain(token);
                PackedCall::new(ScriptId::FastLockRenew, all)
            }
            Action::Release { owner, id } => {
                let all = joined([remember_us], [owner.as_u128(), id.as_u128()]);
                PackedCall::new(ScriptId::FastLockRelease, all)
            }
            Action::Acquire { .. } | Action::ForceRelease { .. } => return None,
        })
    }

    fn outcome(&self, reply: &[i64]) -> Result<Reply, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let answer = match rest {
            [HELD, hold @ ..] => Answer::Held(read_hold(hold)?),
            &[RELEASED, token, holds] => {
                Answer::Released { token: read_whole(token)?, holds: read_whole(holds)? }
            }
            [REFUSED, holder @ ..] => Answer::Refused(read_holder(holder)?),
            &[TOO_LATE, forgotten] => Answer::TooLate { forgotten: read_time(forgotten)? },
            &[QUEUED, ahead, until] => {
                Answer::Queued { ahead: read_whole(ahead)?, until: read_time(until)? }
            }
            _ => return Err(ReplyError::Unexpected),
        };
        Ok(Reply { now, answer })
    }

    fn reply(&self, outcome: &Reply, _: &Ran<'_>) -> Vec<i64> {
        let now = outcome.now;
        match outcome.answer {
            Answer::Held(hold) => answer(now, HELD, hold_numbers(hold)),
            Answer::Released { token, holds } => answer(now, RELEASED, [token, holds]),
            Answer::Refused(holder) => {
                answer(now, REFUSED, holder.map(holder_numbers).unwrap_or_default())
            }
            Answer::TooLate { forgotten } => answer(now, TOO_LATE, [forgotten.as_micros()]),
            Answer::Queued { ahead, until } => answer(now, QUEUED, [ahead, until.as_micros()]),
        }
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Reply, RecordError> {
        self.run(slot, now)
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn publishes(&self, reply: &Reply, stored: Option<&Record>) -> Publish {
        match reply.answer {
            Answer::Released { .. } => to_wake(stored, reply.now),
            _ => Publish::Nothing,
        }
    }
}

/// Numbers, and behind them ids, packed.
fn joined<const N: usize, const M: usize>(
    numbers: [u64; N],
    ids: [u128; M],
) -> impl Iterator<Item = u8> {
    numbers.into_iter().flat_map(packed).chain(ids.into_iter().flat_map(u128::to_be_bytes))
}

impl Command for Withdraw {
    type Outcome = Timestamp;

    fn encode_text(&self) -> TextCall {
        TextCall::new(ScriptId::LockWithdraw).with(self.owner)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Timestamp, ReplyError> {
        match read_head(reply)? {
            (now, []) => Ok(now),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn reply(&self, now: &Timestamp, _: &Ran<'_>) -> Vec<i64> {
        reply(*now, [])
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Timestamp, RecordError> {
        self.run(slot, now)
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn publishes(&self, now: &Timestamp, stored: Option<&Record>) -> Publish {
        to_wake(stored, *now)
    }
}

impl Command for Inspect {
    type Outcome = Inspection;

    fn encode_text(&self) -> TextCall {
        TextCall::new(ScriptId::LockInspect)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Inspection, ReplyError> {
        let (now, rest) = read_head(reply)?;
        let (&queued, rest) = rest.split_first().ok_or(ReplyError::Unexpected)?;
        let queued = read_whole(queued)?;
        if rest.is_empty() {
            return Ok(Inspection { now, holder: None, since: None, label: None, queued });
        }
        let (holder, rest) = rest.split_at_checked(HOLDER_LEN).ok_or(ReplyError::Unexpected)?;
        let (&since, label) = rest.split_first().ok_or(ReplyError::Unexpected)?;
        let (holder, since) = (read_holder(holder)?, Some(read_time(since)?));
        Ok(Inspection { now, holder, since, label: read_label(label)?, queued })
    }

    fn reply(&self, lock: &Inspection, _: &Ran<'_>) -> Vec<i64> {
        let since = lock.since.map(Timestamp::as_micros);
        let holder = lock.holder.map(holder_numbers).into_iter().flatten().chain(since);
        let label = lock.label.iter().flat_map(|label| label.as_str().as_bytes().chunks(6));
        let label = label.map(|part| part.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)));
        reply(lock.now, [lock.queued].into_iter().chain(holder).chain(label))
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
const TOO_LATE: i64 = 2;
const QUEUED: i64 = 3;
const RELEASED: i64 = 4;

/// The number of a holder's numbers.
const HOLDER_LEN: usize = 7;

/// Returns a token, a hold count and a deadline.
fn hold_numbers(hold: Hold) -> [u64; 3] {
    [hold.token, hold.holds, hold.deadline.as_micros()]
}

/// Returns a hold, then its owner's id in four parts of 32 bits.
fn holder_numbers(holder: Holder) -> Vec<u64> {
    [&hold_numbers(holder.hold)[..], &bits(holder.owner.as_u128())].concat()
}

/// Reads a token, a hold count and a deadline.
fn read_hold(numbers: &[i64]) -> Result<Hold, ReplyError> {
    let &[token, holds, deadline] = numbers else { return Err(ReplyError::Unexpected) };
    let (token, holds) = (read_whole(token)?, read_whole(holds)?);
    Ok(Hold { token, holds, deadline: read_time(deadline)? })
}

/// Reads a hold, then its owner's id in four parts of 32 bits; nothing without a holder.
fn read_holder(numbers: &[i64]) -> Result<Option<Holder>, ReplyError> {
    if numbers.is_empty() {
        return Ok(None);
    }
    let (hold, owner) = numbers.split_at_checked(3).ok_or(ReplyError::Unexpected)?;
    Ok(Some(Holder { owner: OwnerId::from_u128(read_bits(owner)?), hold: read_hold(hold)? }))
}

/// Reads the characters of a label, six in each number but the last; nothing without a label.
fn read_label(numbers: &[i64]) -> Result<Option<Label>, ReplyError> {
    if numbers.is_empty() {
        return Ok(None);
    }
    let bytes = numbers.iter().flat_map(|number| number.to_be_bytes()).filter(|&byte| byte > 0);
    let text = String::from_utf8(bytes.collect()).map_err(|_| ReplyError::Unexpected)?;
    text.parse().map(Some).map_err(|_| ReplyError::Unexpected)
}
