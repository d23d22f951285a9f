//! One operation on one key, here and as a script, and how to read a script's reply.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::call::{Encoded, PackedCall, TextCall};
use crate::error::{RecordError, ReplyError};
use crate::limiter::RequestId;
use crate::record::Record;
use crate::time::Timestamp;

/// One operation of one machine on one key.
///
/// It exists twice with the same outcome: [`Command::apply`] runs the machine here, and
/// [`Command::encode`] gives the call of the script that runs it in a store that speaks Lua, whose reply
/// [`Command::outcome`] reads.
///
/// A command is a small value of its own, so that it can be kept, sent, and put behind an
/// [`AnyCommand`](crate::AnyCommand).
pub trait Command: Clone + Send + Sync + 'static {
    /// The caller's answer.
    type Outcome: Send + 'static;

    /// Returns the call of the script that takes every record, under any limit.
    fn encode_text(&self) -> TextCall;

    /// Returns the call of a faster script, if there is one. It takes binary numbers and refuses unknown records.
    fn encode_packed(&self) -> Option<PackedCall> {
        None
    }

    /// Returns the call to send first: the faster one if there is one.
    fn encode(&self) -> Encoded {
        match self.encode_packed() {
            Some(call) => Encoded::Packed(call),
            None => Encoded::Text(self.encode_text()),
        }
    }

    /// Returns the command in parts, if the script that takes every record would keep a server busy for long with the
    /// whole.
    fn cut(&self) -> Option<Cut<Self>> {
        None
    }

    /// Reads the script's reply: the integers of a list, or what [`read_packed_reply`] makes of a string and
    /// [`read_integer_reply`] of one integer. A string that ends a list is what [`read_string_reply`] makes of it.
    ///
    /// [`read_string_reply`]: crate::read_string_reply
    /// [`read_packed_reply`]: crate::read_packed_reply
    /// [`read_integer_reply`]: crate::read_integer_reply
    ///
    /// # Errors
    /// [`ReplyError::Record`] if the script refused the key's record and changed nothing; [`ReplyError::Unexpected`] if
    /// the reply is not of the documented form.
    fn outcome(&self, reply: &[i64]) -> Result<Self::Outcome, ReplyError>;

    /// Runs the machine on one key's slot, at `now`.
    ///
    /// A record may be dropped at any time from [`Record::forget_at`] on; no later outcome can
    /// tell (property D9).
    ///
    /// # Errors
    /// [`RecordError`] if this command cannot use the slot's content; the slot is then unchanged.
    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Self::Outcome, RecordError>;

    /// Returns the id of the other key that the command uses, if any: the one beside its own, which [`key_beside`]
    /// names. It is declared in every call, and has the same hash tag.
    fn beside(&self) -> Option<RequestId> {
        None
    }

    /// Runs the machine as [`Command::apply`] does, on its own key and on the one [beside](Command::beside) it.
    ///
    /// A store calls this one. [`Command::apply`] of a command with two keys treats the other one as empty.
    ///
    /// # Errors
    /// As of [`Command::apply`]; both slots are then unchanged.
    fn apply_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Self::Outcome, RecordError> {
        let _ = beside;
        self.apply(slot, now)
    }

    /// Returns whether the command is safe to repeat after a lost answer: a repetition changes nothing more, and gets
    /// the first answer again.
    fn is_repeatable(&self) -> bool {
        false
    }

    /// Returns which waiter to notify after this outcome, which left this `stored`. A store that runs the machine does
    /// so; a script does it by itself.
    fn publishes(&self, outcome: &Self::Outcome, stored: Option<&Record>) -> Publish {
        let _ = (outcome, stored);
        Publish::Nothing
    }
}

/// A command in parts, which together do the same, one after another: see [`Command::cut`].
pub struct Cut<C: Command> {
    /// Commands that are not cut again.
    pub parts: Vec<C>,
    /// Joins their outcomes into the outcome of the whole.
    pub join: Box<dyn FnOnce(Vec<C::Outcome>) -> C::Outcome + Send>,
}

/// Returns the name of the key of this id beside `key`: `key:id`. Both have the hash tag that is in braces in `key`.
pub fn key_beside(key: &str, id: RequestId) -> String {
    format!("{key}:{id}")
}

/// What a key publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Nothing: no waiter is to be notified.
    Nothing,
    /// A message for a waiter.
    Any,
    /// A message for the waiter of this name: of a lock, the next owner.
    To(u128),
}

impl Publish {
    pub(crate) fn any_if(somebody_waits: bool) -> Self {
        if somebody_waits { Publish::Any } else { Publish::Nothing }
    }
}

/// Declares the scripts, each once: as a variant, in [`ScriptId::ALL`], and with its name.
macro_rules! scripts {
    ($($script:ident = $name:literal,)*) => {
        /// Names one script. Its source is in the crate `lockage-lua`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)] // each is documented by its name and, in full, by its script's header
        pub enum ScriptId {
            $($script,)*
        }

        impl ScriptId {
            /// Every script, in order.
            pub const ALL: [ScriptId; [$($name),*].len()] = [$(ScriptId::$script),*];

            /// Returns the script's name in lower case, such as `token_bucket_acquire`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ScriptId::$script => $name,)*
                }
            }
        }
    };
}

scripts! {
    FixedWindowAcquire = "fixed_window_acquire",
    SlidingWindowAcquire = "sliding_window_acquire",
    TokenBucketAcquire = "token_bucket_acquire",
    IntervalBucketAcquire = "interval_bucket_acquire",
    LeakyBucketAcquire = "leaky_bucket_acquire",
    LeakyBucketCancel = "leaky_bucket_cancel",
    SlidingLogAcquire = "sliding_log_acquire",
    CalendarWindowAcquire = "calendar_window_acquire",
    CompositeAcquire = "composite_acquire",
    StoredAcquire = "stored_acquire",
    LimiterAcquire = "limiter_acquire",
    LimiterReserve = "limiter_reserve",
    FixedWindowReserve = "fixed_window_reserve",
    SlidingWindowReserve = "sliding_window_reserve",
    TokenBucketReserve = "token_bucket_reserve",
    IntervalBucketReserve = "interval_bucket_reserve",
    FixedWindowSettle = "fixed_window_settle",
    SlidingWindowSettle = "sliding_window_settle",
    TokenBucketSettle = "token_bucket_settle",
    IntervalBucketSettle = "interval_bucket_settle",
    LimiterPeek = "limiter_peek",
    LimiterAdjust = "limiter_adjust",
    LimiterSettle = "limiter_settle",
    LimiterSet = "limiter_set",
    LimiterReset = "limiter_reset",
    LockAcquire = "lock_acquire",
    LockRenew = "lock_renew",
    LockRelease = "lock_release",
    LockForceRelease = "lock_force_release",
    LockInspect = "lock_inspect",
    LockWithdraw = "lock_withdraw",
    FastLockAcquire = "fast_lock_acquire",
    FastLockRenew = "fast_lock_renew",
    FastLockRelease = "fast_lock_release",
    FencedWrite = "fenced_write",
    FencedRead = "fenced_read",
    SemaphoreAcquire = "semaphore_acquire",
    SemaphoreRenew = "semaphore_renew",
    SemaphoreRelease = "semaphore_release",
    SemaphoreInspect = "semaphore_inspect",
    RwLockAcquire = "rw_lock_acquire",
    RwLockRenew = "rw_lock_renew",
    RwLockRelease = "rw_lock_release",
    RwLockInspect = "rw_lock_inspect",
    LatchSet = "latch_set",
    LatchCountDown = "latch_count_down",
    LatchInspect = "latch_inspect",
    LatchReset = "latch_reset",
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
