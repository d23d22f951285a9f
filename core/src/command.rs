//! One operation on one key, here and as a script, and how a script's reply is read.

use crate::call::{Encoded, PackedCall, TextCall};
use crate::error::{RecordError, ReplyError};
use crate::record::Record;
use crate::time::Timestamp;

/// One operation of one machine on one key.
///
/// It exists twice with the same outcome: [`Command::apply`] runs the machine here, and
/// [`Command::encode`] gives the call of the script that runs it in a store that speaks Lua, whose reply
/// [`Command::outcome`] reads.
pub trait Command {
    /// What the caller learns.
    type Outcome;

    /// Returns the call of the script that takes every record, whatever limit it was written under.
    fn encode_text(&self) -> TextCall;

    /// Returns the call of a faster script, if there is one. It takes numbers in binary and refuses records that it does
    /// not know.
    fn encode_packed(&self) -> Option<PackedCall> {
        None
    }

    /// Returns the call to send first: the faster one where there is one.
    fn encode(&self) -> Encoded {
        match self.encode_packed() {
            Some(call) => Encoded::Packed(call),
            None => Encoded::Text(self.encode_text()),
        }
    }

    /// Reads the script's reply: the integers of a list, or what [`read_packed_reply`] makes of a string and
    /// [`read_integer_reply`] of one integer.
    ///
    /// [`read_packed_reply`]: crate::read_packed_reply
    /// [`read_integer_reply`]: crate::read_integer_reply
    ///
    /// # Errors
    /// [`ReplyError::Record`] where the script refused the record under the key and changed
    /// nothing; [`ReplyError::Unexpected`] where the reply is not of the documented form.
    fn outcome(&self, reply: &[i64]) -> Result<Self::Outcome, ReplyError>;

    /// Runs the machine on what is stored under one key, at `now`.
    ///
    /// A record may be dropped at any time from [`Record::forget_at`] on; no later outcome can
    /// tell (property D9).
    ///
    /// # Errors
    /// [`RecordError`] where the slot holds something that this command cannot work on; the slot
    /// is then unchanged.
    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Self::Outcome, RecordError>;

    /// Whether it is safe to run once more after its answer was lost: that changes nothing more, and
    /// gets what was done the first time the same answer again.
    fn is_repeatable(&self) -> bool {
        false
    }

    /// Who of those that wait for the key is to be told once it has come to this outcome, and left this
    /// `stored`. A store that runs the machine does so; a script does it by itself.
    fn publishes(&self, outcome: &Self::Outcome, stored: Option<&Record>) -> Publish {
        let _ = (outcome, stored);
        Publish::Nothing
    }
}

/// What is published for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Nothing: there is nobody to tell.
    Nothing,
    /// A message for whoever waits.
    Any,
    /// A message for who waits by this name: of a lock, the owner who is next.
    To(u128),
}

impl Publish {
    pub(crate) fn any_if(somebody_waits: bool) -> Self {
        if somebody_waits { Publish::Any } else { Publish::Nothing }
    }
}

/// Names one script. Its source is in the crate `lockage-lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // each is documented by its name and, in full, by its script's header
pub enum ScriptId {
    FixedWindowAcquire,
    SlidingWindowAcquire,
    TokenBucketAcquire,
    IntervalBucketAcquire,
    LeakyBucketAcquire,
    LeakyBucketCancel,
    SlidingLogAcquire,
    CompositeAcquire,
    LimiterAcquire,
    LimiterPeek,
    LimiterAdjust,
    LimiterSettle,
    LimiterSet,
    LimiterReset,
    LockAcquire,
    LockRenew,
    LockRelease,
    LockForceRelease,
    LockInspect,
    LockWithdraw,
    FastLockAcquire,
    FastLockRenew,
    FastLockRelease,
    FencedWrite,
    FencedRead,
    SemaphoreAcquire,
    SemaphoreRenew,
    SemaphoreRelease,
    SemaphoreInspect,
    RwLockAcquire,
    RwLockRenew,
    RwLockRelease,
    RwLockInspect,
    LatchSet,
    LatchCountDown,
    LatchInspect,
    LatchReset,
}

impl ScriptId {
    /// Every script.
    pub const ALL: [ScriptId; 37] = [
        ScriptId::FixedWindowAcquire,
        ScriptId::SlidingWindowAcquire,
        ScriptId::TokenBucketAcquire,
        ScriptId::IntervalBucketAcquire,
        ScriptId::LeakyBucketAcquire,
        ScriptId::LeakyBucketCancel,
        ScriptId::SlidingLogAcquire,
        ScriptId::CompositeAcquire,
        ScriptId::LimiterAcquire,
        ScriptId::LimiterPeek,
        ScriptId::LimiterAdjust,
        ScriptId::LimiterSettle,
        ScriptId::LimiterSet,
        ScriptId::LimiterReset,
        ScriptId::LockAcquire,
        ScriptId::LockRenew,
        ScriptId::LockRelease,
        ScriptId::LockForceRelease,
        ScriptId::LockInspect,
        ScriptId::LockWithdraw,
        ScriptId::FastLockAcquire,
        ScriptId::FastLockRenew,
        ScriptId::FastLockRelease,
        ScriptId::FencedWrite,
        ScriptId::FencedRead,
        ScriptId::SemaphoreAcquire,
        ScriptId::SemaphoreRenew,
        ScriptId::SemaphoreRelease,
        ScriptId::SemaphoreInspect,
        ScriptId::RwLockAcquire,
        ScriptId::RwLockRenew,
        ScriptId::RwLockRelease,
        ScriptId::RwLockInspect,
        ScriptId::LatchSet,
        ScriptId::LatchCountDown,
        ScriptId::LatchInspect,
        ScriptId::LatchReset,
    ];

    /// The script's name in lower case, such as `token_bucket_acquire`.
    pub const fn name(self) -> &'static str {
        match self {
            ScriptId::FixedWindowAcquire => "fixed_window_acquire",
            ScriptId::SlidingWindowAcquire => "sliding_window_acquire",
            ScriptId::TokenBucketAcquire => "token_bucket_acquire",
            ScriptId::IntervalBucketAcquire => "interval_bucket_acquire",
            ScriptId::LeakyBucketAcquire => "leaky_bucket_acquire",
            ScriptId::LeakyBucketCancel => "leaky_bucket_cancel",
            ScriptId::SlidingLogAcquire => "sliding_log_acquire",
            ScriptId::CompositeAcquire => "composite_acquire",
            ScriptId::LimiterAcquire => "limiter_acquire",
            ScriptId::LimiterPeek => "limiter_peek",
            ScriptId::LimiterAdjust => "limiter_adjust",
            ScriptId::LimiterSettle => "limiter_settle",
            ScriptId::LimiterSet => "limiter_set",
            ScriptId::LimiterReset => "limiter_reset",
            ScriptId::LockAcquire => "lock_acquire",
            ScriptId::LockRenew => "lock_renew",
            ScriptId::LockRelease => "lock_release",
            ScriptId::LockForceRelease => "lock_force_release",
            ScriptId::LockInspect => "lock_inspect",
            ScriptId::LockWithdraw => "lock_withdraw",
            ScriptId::FastLockAcquire => "fast_lock_acquire",
            ScriptId::FastLockRenew => "fast_lock_renew",
            ScriptId::FastLockRelease => "fast_lock_release",
            ScriptId::FencedWrite => "fenced_write",
            ScriptId::FencedRead => "fenced_read",
            ScriptId::SemaphoreAcquire => "semaphore_acquire",
            ScriptId::SemaphoreRenew => "semaphore_renew",
            ScriptId::SemaphoreRelease => "semaphore_release",
            ScriptId::SemaphoreInspect => "semaphore_inspect",
            ScriptId::RwLockAcquire => "rw_lock_acquire",
            ScriptId::RwLockRenew => "rw_lock_renew",
            ScriptId::RwLockRelease => "rw_lock_release",
            ScriptId::RwLockInspect => "rw_lock_inspect",
            ScriptId::LatchSet => "latch_set",
            ScriptId::LatchCountDown => "latch_count_down",
            ScriptId::LatchInspect => "latch_inspect",
            ScriptId::LatchReset => "latch_reset",
        }
    }
}

/// Reads a reply's head: its status, and the store's time.
pub(crate) fn read_head(reply: &[i64]) -> Result<(Timestamp, &[i64]), ReplyError> {
    let (&status, rest) = reply.split_first().ok_or(ReplyError::Unexpected)?;
    if status != 0 {
        let error = RecordError::from_status(status).ok_or(ReplyError::Unexpected)?;
        return Err(error.into());
    }
    let (&now, rest) = rest.split_first().ok_or(ReplyError::Unexpected)?;
    let now = Timestamp::from_micros(read_whole(now)?).map_err(|_| ReplyError::Unexpected)?;
    Ok((now, rest))
}

/// A number of a reply that can never be below zero.
pub(crate) fn read_whole(number: i64) -> Result<u64, ReplyError> {
    u64::try_from(number).map_err(|_| ReplyError::Unexpected)
}

/// Whether something is so.
pub(crate) fn read_flag(number: i64) -> Result<bool, ReplyError> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ReplyError::Unexpected),
    }
}

/// A time of a reply that may be one to come.
pub(crate) fn read_time(number: i64) -> Result<Timestamp, ReplyError> {
    Timestamp::computed(read_whole(number)?).ok_or(ReplyError::Unexpected)
}

/// An id in four parts of 32 bits.
pub(crate) fn read_bits(parts: &[i64]) -> Result<u128, ReplyError> {
    let parts: &[i64; 4] = parts.try_into().map_err(|_| ReplyError::Unexpected)?;
    parts.iter().try_fold(0, |bits, &part| {
        let part = u32::try_from(part).map_err(|_| ReplyError::Unexpected)?;
        Ok(bits << 32 | u128::from(part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_another_form_is_not_an_outcome() {
        assert_eq!(read_head(&[]), Err(ReplyError::Unexpected));
        assert_eq!(read_head(&[0]), Err(ReplyError::Unexpected));
        assert_eq!(read_head(&[0, -1]), Err(ReplyError::Unexpected));
        assert_eq!(read_head(&[99, 1]), Err(ReplyError::Unexpected));
        assert_eq!(read_head(&[2, 1]), Err(RecordError::OtherVersion.into()));
    }
}
