//! Storing a limit with its key.

use alloc::vec::Vec;

use super::stored::{Policy, StoredLimit, on_empty};
use super::transaction::Transaction;
use super::wire;
use crate::call::TextCall;
use crate::command::{Command, Ran};
use crate::error::{RecordError, ReplyError};
use crate::record::Record;
use crate::reply::{answer, read_head};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// Stores a limit under its key, and returns whether it was stored.
///
/// From then on a [`WithStoredLimit`](crate::WithStoredLimit) is under it, and a command with a limit of its own is
/// refused ([`RecordError::LimitIsStored`]). A [`Reset`](crate::Reset) forgets it together with all usage.
///
/// Capacity used under another limit stays used, as with any change of limits (see [`Limit`](crate::Limit)), even if
/// that one was not stored; a block stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLimit {
    limit: StoredLimit,
    mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Keep,
    IfAbsent,
    Afresh,
}

impl Mode {
    /// Returns its letter in scripts.
    fn letter(self) -> char {
        match self {
            Mode::Keep => 'k',
            Mode::IfAbsent => 'a',
            Mode::Afresh => 'f',
        }
    }
}

impl SetLimit {
    /// Stores this limit, in place of any other.
    pub fn new(limit: StoredLimit) -> Self {
        SetLimit { limit, mode: Mode::Keep }
    }

    /// Stores this limit if none is stored.
    pub fn if_absent(limit: StoredLimit) -> Self {
        SetLimit { limit, mode: Mode::IfAbsent }
    }

    /// Stores this limit and forgets all else that the key holds: usage, requests, and a block.
    pub fn afresh(limit: StoredLimit) -> Self {
        SetLimit { limit, mode: Mode::Afresh }
    }

    fn set(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<bool, RecordError> {
        Transaction::new(&self.limit.limit().singles(), slot, now)?.commit(now, true);
        if let Some(record) = slot {
            record.policy = Some(Policy::new(self.limit.terms()));
            record.settle_policy(now);
        }
        Ok(true)
    }
}

impl Command for SetLimit {
    type Outcome = bool;

    fn encode_text(&self) -> TextCall {
        let call = TextCall::new(ScriptId::LimiterSet).with(self.mode.letter());
        wire::with_limit(call.with(self.limit.terms()), &self.limit.limit())
    }

    fn outcome(&self, reply: &[i64]) -> Result<bool, ReplyError> {
        match read_head(reply)? {
            (_, [0]) => Ok(false),
            (_, [1]) => Ok(true),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn reply(&self, is_set: &bool, ran: &Ran<'_>) -> Vec<i64> {
        answer(ran.now, (*is_set).into(), [])
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<bool, RecordError> {
        let now = now.accepted()?;
        match slot {
            Some(record) if !record.is_limiter() => Err(RecordError::OtherKind),
            Some(record) if record.is_over(now) || self.mode == Mode::Afresh => {
                on_empty(slot, |empty| self.set(empty, now))
            }
            Some(Record { policy: Some(_), .. }) if self.mode == Mode::IfAbsent => Ok(false),
            _ => self.set(slot, now),
        }
    }

    fn writes_again(&self, _: &bool) -> bool {
        self.mode != Mode::IfAbsent
    }

    /// Returns whether the mode is one in which setting the same limit again changes nothing more.
    fn is_repeatable(&self) -> bool {
        self.mode == Mode::Keep
    }
}
