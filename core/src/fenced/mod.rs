//! A value that refuses fencing tokens older than the newest that it has seen.
//!
//! A lock cannot stop a paused holder from acting after its lease has ended; the protected value
//! can. Each grant of a lock has a larger token (L5), and every read and write names its token: once
//! a newer one was seen, older ones are refused (L7). This orders accesses and does not exclude: a
//! former holder's write is accepted until the next holder touches the value.
//!
//! ```
//! use core::time::Duration;
//! use lockage_core::fenced::{Access, FencedRead, FencedWrite};
//! use lockage_core::{Command, Timestamp};
//!
//! let (now, keep) = (Timestamp::from_micros(1_000_000)?, Duration::from_secs(3600));
//! let mut slot = None;
//! let (old, new) = (33, 34);
//! assert_eq!(FencedRead::new(new, keep)?.apply(&mut slot, now)?, Access::Accepted(None));
//! let late = FencedWrite::new(old, "by a paused holder", keep)?;
//! assert_eq!(late.apply(&mut slot, now)?, Access::Stale { newest: 34 });
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! The newest token is remembered while the value is kept: longer than the longest pause.

mod record;

use alloc::vec::Vec;
use core::fmt;
use core::str::Utf8Error;
use core::time::Duration;

use crate::call::{TextCall, read_string_reply, string_of};
use crate::command::{Command, Ran};
use crate::error::{ConfigError, RecordError, ReplyError};
use crate::exact::{MAX_COUNT, half_span};
use crate::record::Record;
use crate::reply::{answer, read_head, read_whole};
use crate::script::ScriptId;
use crate::time::Timestamp;

pub(crate) use record::FencedRecord;

/// The most bytes of a value.
pub const MAX_VALUE: usize = 64 * 1024;

/// The outcome of a read or a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a stale access did nothing"]
pub enum Access<T> {
    /// Accepted. Older tokens are refused from now on.
    Accepted(T),
    /// Refused, since a newer token was seen. Nothing was changed.
    Stale {
        /// The newest token that was seen.
        newest: u64,
    },
}

/// A value that was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Kept {
    /// The value.
    pub value: Vec<u8>,
    /// The time for which it is still kept unless it is written again.
    pub left: Duration,
}

/// Writes or removes a value unless a newer token was seen.
///
/// A repetition writes again, also over later writes of the same holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedWrite {
    fence: Fence,
    /// `None` removes it.
    value: Option<Vec<u8>>,
}

/// Reads the value, and refuses older tokens from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencedRead(Fence);

/// Reads the value without a token, and has no effect on which tokens are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FencedPeek;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence {
    token: u64,
    keep_us: u64,
}

impl FencedWrite {
    /// Creates a write of `value` (any bytes, at most [`MAX_VALUE`]) under this token (below 2^53).
    ///
    /// Value and token are kept for `keep` after it: whole microseconds, at most half of
    /// [`MAX_SPAN`](crate::MAX_SPAN).
    ///
    /// # Errors
    /// [`ConfigError`] for a value, token or time out of range.
    pub fn new(token: u64, value: impl AsRef<[u8]>, keep: Duration) -> Result<Self, ConfigError> {
        let value = value.as_ref();
        if value.len() > MAX_VALUE {
            return Err(ConfigError::TooLarge {
                what: "value",
                max: MAX_VALUE as u64,
                unit: " bytes",
                bound: "one record",
            });
        }
        Ok(FencedWrite { fence: Fence::new(token, keep)?, value: Some(value.to_vec()) })
    }

    /// Creates a removal of the value under this token (below 2^53). The token is kept for `keep` after it, like a
    /// write's.
    ///
    /// # Errors
    /// [`ConfigError`] for a token or time out of range.
    pub fn removal(token: u64, keep: Duration) -> Result<Self, ConfigError> {
        Ok(FencedWrite { fence: Fence::new(token, keep)?, value: None })
    }
}

impl Kept {
    /// Returns the value as text.
    ///
    /// # Errors
    /// [`Utf8Error`] if the value is not text.
    pub fn text(&self) -> Result<&str, Utf8Error> {
        core::str::from_utf8(&self.value)
    }
}

/// Escapes bytes that are not printable ASCII.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("value", &format_args!("\"{}\"", self.value.escape_ascii()))
            .field("left", &self.left)
            .finish()
    }
}

impl FencedRead {
    /// Creates a read under this token (below 2^53). If the token is newer, value and token are kept
    /// for `keep` after it.
    ///
    /// # Errors
    /// [`ConfigError`] for a token or time out of range.
    pub fn new(token: u64, keep: Duration) -> Result<Self, ConfigError> {
        Ok(FencedRead(Fence::new(token, keep)?))
    }
}

impl Fence {
    fn new(token: u64, keep: Duration) -> Result<Self, ConfigError> {
        if token > MAX_COUNT {
            let (what, max, unit) = ("fencing token", MAX_COUNT, "");
            return Err(ConfigError::TooLarge {
                what,
                max,
                unit,
                bound: "the exact range of 2^53",
            });
        }
        Ok(Fence { token, keep_us: half_span("time to keep a fenced value", keep)? })
    }

    fn encode(self, script: ScriptId) -> TextCall {
        TextCall::new(script).with(self.token).with(self.keep_us)
    }

    /// Returns the record once this token is accepted.
    fn accept(self, known: &FencedRecord, value: Option<Vec<u8>>, now: Timestamp) -> FencedRecord {
        let until = known.until.max(now.as_micros() + self.keep_us);
        FencedRecord { token: self.token, until, value }
    }
}

impl Command for FencedWrite {
    type Outcome = Access<()>;

    fn encode_text(&self) -> TextCall {
        let call = self.fence.encode(ScriptId::FencedWrite);
        match &self.value {
            Some(value) => call.with_bytes(value),
            None => call,
        }
    }

    fn outcome(&self, reply: &[i64]) -> Result<Access<()>, ReplyError> {
        match read_head(reply)? {
            (_, [ACCEPTED]) => Ok(Access::Accepted(())),
            (_, [STALE, newest]) => Ok(Access::Stale { newest: read_whole(*newest)? }),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn reply(&self, outcome: &Access<()>, ran: &Ran<'_>) -> Vec<i64> {
        match outcome {
            Access::Accepted(()) => answer(ran.now, ACCEPTED, []),
            Access::Stale { newest } => answer(ran.now, STALE, [*newest]),
        }
    }

    fn writes_again(&self, outcome: &Access<()>) -> bool {
        matches!(outcome, Access::Accepted(()))
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Access<()>, RecordError> {
        let known = FencedRecord::load(slot, now)?;
        if self.fence.token < known.token {
            return Ok(Access::Stale { newest: known.token });
        }
        let record = self.fence.accept(&known, self.value.clone(), now);
        *slot = Some(Record::of_fenced(record));
        Ok(Access::Accepted(()))
    }
}

impl Command for FencedRead {
    type Outcome = Access<Option<Kept>>;

    fn encode_text(&self) -> TextCall {
        self.0.encode(ScriptId::FencedRead)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Access<Option<Kept>>, ReplyError> {
        match read_head(reply)? {
            (now, [ACCEPTED, kept @ ..]) => Ok(Access::Accepted(read_kept(kept, now)?)),
            (_, [STALE, newest]) => Ok(Access::Stale { newest: read_whole(*newest)? }),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn reply(&self, outcome: &Access<Option<Kept>>, ran: &Ran<'_>) -> Vec<i64> {
        match outcome {
            Access::Accepted(kept) => kept_reply(kept.as_ref(), ran.now),
            Access::Stale { newest } => answer(ran.now, STALE, [*newest]),
        }
    }

    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Access<Option<Kept>>, RecordError> {
        let mut known = FencedRecord::load(slot, now)?;
        if self.0.token < known.token {
            return Ok(Access::Stale { newest: known.token });
        }
        if self.0.token > known.token {
            known = self.0.accept(&known, known.value.clone(), now);
            *slot = Some(Record::of_fenced(known.clone()));
        }
        Ok(Access::Accepted(known.kept(now)))
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

impl Command for FencedPeek {
    type Outcome = Option<Kept>;

    /// Encodes the call without a token, and without a time to keep.
    fn encode_text(&self) -> TextCall {
        let none = None::<u64>;
        TextCall::new(ScriptId::FencedRead).with_optional(none).with_optional(none)
    }

    fn outcome(&self, reply: &[i64]) -> Result<Option<Kept>, ReplyError> {
        match read_head(reply)? {
            (now, [ACCEPTED, kept @ ..]) => read_kept(kept, now),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn reply(&self, outcome: &Option<Kept>, ran: &Ran<'_>) -> Vec<i64> {
        kept_reply(outcome.as_ref(), ran.now)
    }

    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Option<Kept>, RecordError> {
        Ok(FencedRecord::load(slot, now)?.kept(now))
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

const STALE: i64 = 0;
const ACCEPTED: i64 = 1;

/// Returns the reply of a read that found this value.
fn kept_reply(kept: Option<&Kept>, now: Timestamp) -> Vec<i64> {
    let mut reply = answer(now, ACCEPTED, []);
    if let Some(kept) = kept {
        reply.push((now.as_micros() + kept.left.as_micros() as u64) as i64);
        reply.extend(read_string_reply(&kept.value));
    }
    reply
}

/// Parses a value from a reply: its expiry, then the output of `read_string_reply`. `None` if there is no value.
fn read_kept(numbers: &[i64], now: Timestamp) -> Result<Option<Kept>, ReplyError> {
    let Some((&until, string)) = numbers.split_first() else { return Ok(None) };
    let (until, value) = (read_whole(until)?, string_of(string).ok_or(ReplyError::Unexpected)?);
    let left = Duration::from_micros(until.saturating_sub(now.as_micros()));
    Ok(Some(Kept { value, left }))
}
