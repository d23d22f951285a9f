//! Calls of scripts, served by the machines: for a server that runs them in the place of Lua.

mod arguments;
mod read;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::any_command::AnyCommand;
use crate::call::{CallTime, packed, string_of, whole};
use crate::command::{Command, Publish, Ran};
use crate::error::RecordError;
use crate::limit::{Limit, Single};
use crate::limiter::{Acquire, AcquireEach, LimitState, Settle, StoredLimit};
use crate::record::Record;
use crate::script::ScriptId;
use crate::time::Timestamp;

/// A call of a script, read back into the command that encodes to it.
///
/// ```
/// use lockage_core::{Acquire, CallTime, Command, Limit, ServedCall, ServedReply, Timestamp, Write};
///
/// let limit: Limit = "fixed-window 2/s".parse()?;
/// let sent = Acquire::new(limit, 1)?.encode().at(CallTime::Store);
/// let arguments: Vec<&[u8]> = sent.arguments().collect();
///
/// let call = ServedCall::read(sent.script(), None, &arguments)?;
/// let served = call.run(&[None, None], Timestamp::from_micros(1_763_700_000_000_000)?);
/// assert!(matches!(served.reply, ServedReply::Packed(_)));
/// assert!(matches!(&served.writes, [Some(Write { record: Some(_), .. }), None]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServedCall {
    script: ScriptId,
    command: AnyCommand,
    time: CallTime,
}

/// The effect of a [`ServedCall`], which nothing has been stored of.
#[derive(Clone, Debug)]
pub struct Served {
    /// The script's reply.
    pub reply: ServedReply,
    /// The write of each key, if its script writes it.
    pub writes: [Option<Write>; 2],
    /// The message for listeners to the first key.
    pub publish: Publish,
}

/// A write of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The new record; `None` deletes the key.
    pub record: Option<Record>,
    /// Its time to live from now, in milliseconds, without the skew of a caller's clock; `None` leaves the expiry
    /// unchanged.
    pub ttl_ms: Option<u64>,
}

/// The reply of a script, in its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedReply {
    /// One integer.
    Integer(i64),
    /// Packed numbers.
    Packed(Vec<u8>),
    /// A list of integers, and a string behind them if there is one.
    List(Vec<i64>, Option<Vec<u8>>),
    /// The error by which a script of the fast path refuses a record: nothing was done.
    NeedsSlowPath,
}

/// The arguments of a call are none that a command has: the reason, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError(String);

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for CallError {}

impl Served {
    /// Returns a reply without an effect.
    fn reply(reply: ServedReply) -> Self {
        Served { reply, writes: [None, None], publish: Publish::Nothing }
    }
}

impl ServedCall {
    /// Reads the call of this script with all its arguments. `beside` is the name of its second key, if it has one.
    ///
    /// # Errors
    /// [`CallError`] for arguments that no command has.
    pub fn read(
        script: ScriptId,
        beside: Option<&[u8]>,
        arguments: &[&[u8]],
    ) -> Result<Self, CallError> {
        let command = read::read(script, beside, arguments).map_err(CallError)?;
        let time = match is_packed(script) {
            true => packed_time(arguments),
            false => text_time(arguments),
        };
        let time = time.ok_or_else(|| CallError("a time and a skew are whole numbers".into()))?;
        Ok(ServedCall { script, command, time })
    }

    /// Returns the command.
    pub fn command(&self) -> &AnyCommand {
        &self.command
    }

    /// Returns the clock that decides.
    pub fn time(&self) -> CallTime {
        self.time
    }

    /// Runs the command on these records, at `now`.
    pub fn run(&self, before: &[Option<Record>; 2], now: Timestamp) -> Served {
        let mut after = before.clone();
        let [slot, beside] = &mut after;
        let outcome = match self.command.apply_beside(slot, beside, now) {
            Ok(outcome) if !self.is_left(before, now) => outcome,
            Ok(_) => return Served::reply(ServedReply::NeedsSlowPath),
            Err(error) => return Served::reply(self.refusal(error, now)),
        };
        let ran = Ran { before, after: &after, now };
        let reply = self.in_form(self.command.reply(&outcome, &ran), &ran);
        if reply == ServedReply::NeedsSlowPath {
            return Served::reply(reply);
        }
        let publish = self.command.publishes(&outcome, after[0].as_ref());
        let writes_again = [self.command.writes_again(&outcome), false];
        let mut writes = [None, None];
        for (at, record) in after.into_iter().enumerate() {
            if before[at] != record || writes_again[at] {
                // A reservation is kept for as long as before by each script.
                let leaves_expiry = at == 1 || self.leaves_expiry();
                let before = before[at].as_ref().filter(|_| leaves_expiry);
                let ttl_ms = record.as_ref().and_then(|record| {
                    let is_kept = before.is_some_and(|before| record.is_kept_as(before));
                    (!is_kept).then(|| record.ttl_ms(now))
                });
                writes[at] = Some(Write { record, ttl_ms });
            }
        }
        Served { reply, writes, publish }
    }

    /// Returns whether the call is on a reservation that its script, of the fast path, leaves to the slow one.
    fn is_left(&self, [_, reserved]: &[Option<Record>; 2], now: Timestamp) -> bool {
        is_packed(self.script)
            && match self.command.downcast_ref::<Settle>() {
                Some(settle) => !settle.is_fast(reserved, now),
                None => reserved.is_some(),
            }
    }

    /// Returns whether the script leaves an equal expiry unchanged.
    fn leaves_expiry(&self) -> bool {
        is_packed(self.script) || self.script.name().starts_with("lock_")
    }

    fn refusal(&self, error: RecordError, now: Timestamp) -> ServedReply {
        let time = (error == RecordError::ClockOff).then_some(now.as_micros() as i64);
        match is_packed(self.script) {
            true => ServedReply::NeedsSlowPath,
            false => ServedReply::List([error.status()].into_iter().chain(time).collect(), None),
        }
    }

    /// Returns a reply in the form of the script.
    fn in_form(&self, reply: Vec<i64>, ran: &Ran<'_>) -> ServedReply {
        // Behind the head, the status and the expiry of a value.
        if self.script == ScriptId::FencedRead
            && let Some((head, string)) = reply.split_at_checked(4)
            && let Some(string) = string_of(string)
        {
            return ServedReply::List(head.to_vec(), Some(string));
        }
        if !is_packed(self.script) {
            return ServedReply::List(reply, None);
        }
        // Others, of a key that is blocked, say, are for the slow path.
        let [0, now, numbers @ ..] = &reply[..] else { return ServedReply::NeedsSlowPath };
        let mut numbers: Vec<u64> = numbers.iter().map(|number| *number as u64).collect();
        if self.script == ScriptId::StoredAcquire {
            settle_stored(&mut numbers, ran.now);
        } else if let Some(single) = self.asked_once() {
            // The script of a log replies so much alone where one cost fits.
            let has_charged = ran.before[0] != ran.after[0];
            if let (true, true, [used, last, _]) = (single.is_log(), has_charged, &numbers[..])
                && *last <= ran.now.as_micros()
            {
                return ServedReply::Integer(*used as i64);
            }
            let state = LimitState::read(single, &numbers).map(|part| part.state);
            let settled = LimitState::at(single, state, ran.now.as_micros());
            // Its last number is the time of the state.
            let is_now = settled.numbers().last() == Some(&ran.now.as_micros());
            if matches!(single.into(), Limit::TokenBucket(_)) && is_now {
                return ServedReply::Integer(settled.numbers()[0] as i64);
            }
            if ran.before[0].is_none() && !single.is_log() && !single.replies_settled() {
                numbers.clear();
            }
        }
        let numbers = [*now as u64].into_iter().chain(numbers);
        ServedReply::Packed(numbers.flat_map(packed).collect())
    }

    /// Returns the limit of requests without an id to a single counter.
    fn asked_once(&self) -> Option<Single> {
        let limit = match self.command.downcast_ref::<Acquire>() {
            Some(acquire) => (!acquire.is_repeatable()).then(|| *acquire.limit())?,
            None => self.command.downcast_ref::<AcquireEach>()?.limit,
        };
        limit.single()
    }
}

/// Returns whether a script takes and replies packed numbers.
fn is_packed(script: ScriptId) -> bool {
    use ScriptId::{FastLockAcquire, FastLockRelease, FastLockRenew, StoredAcquire};
    arguments::Packed::letter(script).is_some()
        || matches!(script, StoredAcquire | FastLockAcquire | FastLockRelease | FastLockRenew)
}

fn packed_time(arguments: &[&[u8]]) -> Option<CallTime> {
    let Some(time) = arguments.get(1) else { return Some(CallTime::Store) };
    let ([now, skew], []) = time.as_chunks::<8>() else { return None };
    let now = Timestamp::from_micros(whole(*now)?).ok()?;
    Some(CallTime::Caller { now, skew_ms: whole(*skew)? })
}

fn text_time(arguments: &[&[u8]]) -> Option<CallTime> {
    let [now, skew, ..] = arguments else { return None };
    if now.is_empty() {
        return Some(CallTime::Store);
    }
    let number = |text: &[u8]| core::str::from_utf8(text).ok()?.parse::<u64>().ok();
    Some(CallTime::Caller {
        now: Timestamp::from_micros(number(now)?).ok()?,
        skew_ms: number(skew)?,
    })
}

/// Settles the state in a reply of `stored_acquire`, before the numbers of the stored limit.
fn settle_stored(numbers: &mut [u64], now: Timestamp) {
    let Some((&count, rest)) = numbers.split_last() else { return };
    let Some(at) = rest.len().checked_sub(count as usize) else { return };
    let limit: Vec<i64> = rest[at..].iter().map(|number| *number as i64).collect();
    let single = StoredLimit::read(&limit).and_then(|limit| limit.limit().single());
    let Some(single) = single.filter(|single| !single.replies_settled()) else { return };
    let state = LimitState::read(single, &numbers[..at]).map(|part| part.state);
    if let Some(state) = state {
        let settled = LimitState::at(single, Some(state), now.as_micros());
        numbers[..at].copy_from_slice(settled.numbers());
    }
}
