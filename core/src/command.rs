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
/// It exists twice with the same outcome: [`Command::apply`] runs the machine here, and [`Command::encode`] returns the
/// call of the script that runs it in a store that speaks Lua. [`Command::outcome`] reads the script's reply.
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

    /// Reads the script's reply: the integers of a list. A string is first read by [`read_packed_reply`], a single
    /// integer by [`read_integer_reply`], and a string at the end of a list by [`read_string_reply`].
    ///
    /// [`read_string_reply`]: crate::read_string_reply
    /// [`read_packed_reply`]: crate::read_packed_reply
    /// [`read_integer_reply`]: crate::read_integer_reply
    ///
    /// # Errors
    /// [`ReplyError::Record`] if the script refused the key's record and changed nothing; [`ReplyError::Unexpected`] if
    /// the reply is not of the documented form.
    fn outcome(&self, reply: &[i64]) -> Result<Self::Outcome, ReplyError>;

    /// Returns the script's reply to a call that `ran` with this outcome: the integers that [`Command::outcome`] reads.
    /// So a server that runs the machine answers as the script does.
    fn reply(&self, outcome: &Self::Outcome, ran: &Ran<'_>) -> Vec<i64>;

    /// Runs the machine on one key's slot, at `now`.
    ///
    /// A record may be dropped at any time from [`Record::forget_at`] on; no later outcome depends on it (property D9).
    ///
    /// # Errors
    /// [`RecordError`] if this command cannot use the slot's content; the slot is then unchanged.
    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Self::Outcome, RecordError>;

    /// Returns the id of the other key that the command uses, if any. [`key_beside`] returns its name. It is declared
    /// in every call, and has the same hash tag.
    fn beside(&self) -> Option<RequestId> {
        None
    }

    /// Runs the machine as [`Command::apply`] does, on its own key and on its [second key](Command::beside).
    ///
    /// Stores call this method. [`Command::apply`] of a command with two keys treats the second one as empty.
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

    /// Returns whether its script writes the record also where this outcome leaves it unchanged, so that its expiry is
    /// set anew.
    fn writes_again(&self, outcome: &Self::Outcome) -> bool {
        let _ = outcome;
        false
    }

    /// Returns which waiter to notify after this outcome, which left this `stored`. A store that runs the machine does
    /// so; a script does it by itself.
    fn publishes(&self, outcome: &Self::Outcome, stored: Option<&Record>) -> Publish {
        let _ = (outcome, stored);
        Publish::Nothing
    }
}

/// A command that ran: the records of its keys before and after it.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// Its own slot, and the [second one](Command::beside), before it.
    pub before: &'a [Option<Record>; 2],
    /// Both after it.
    pub after: &'a [Option<Record>; 2],
    /// Its time.
    pub now: Timestamp,
}

/// A command in parts, which run one after another with the same effect: see [`Command::cut`].
pub struct Cut<C: Command> {
    /// Commands that are not cut again.
    pub parts: Vec<C>,
    /// Joins their outcomes into the outcome of the whole.
    pub join: Box<dyn FnOnce(Vec<C::Outcome>) -> C::Outcome + Send>,
}

/// Returns the name of the second key of this id: `key:id`. Both keys have the hash tag in braces in `key`.
pub fn key_beside(key: &str, id: RequestId) -> String {
    format!("{key}:{id}")
}

/// The message that a key publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// No message: there is no waiter to notify.
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
