//! Commands under the stored limit.

use alloc::vec::Vec;

use super::max_wait::MaxWait;
use super::stored::{StoredLimit, on_empty, under_terms};
use super::{RequestId, SetLimit};
use crate::call::{PackedCall, TextCall};
use crate::command::{Command, Ran};
use crate::error::{RecordError, ReplyError};
use crate::limit::Limit;
use crate::record::Record;
use crate::reply::{read_head, reply};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// A command on a key with a limit, which [`WithStoredLimit`] can run under the stored one.
pub trait LimitCommand: Command + run::Run {
    /// Returns the command under another limit.
    fn under(&self, limit: Limit) -> Self;
}

/// Seals the trait.
pub(super) mod run {
    use super::{Command, Limit, MaxWait, Record, RecordError, Timestamp};

    pub trait Run: Command {
        /// Runs the machine as [`Command::apply`] does, whether or not the key's limit is stored.
        fn run(
            &self,
            slot: &mut Option<Record>,
            now: Timestamp,
        ) -> Result<Self::Outcome, RecordError>;

        /// Runs the machine as [`Command::apply_beside`] does, likewise.
        fn run_beside(
            &self,
            slot: &mut Option<Record>,
            beside: &mut Option<Record>,
            now: Timestamp,
        ) -> Result<Self::Outcome, RecordError> {
            let _ = beside;
            self.run(slot, now)
        }

        /// Returns the limit that it was made with.
        fn limit(&self) -> Limit;

        /// Returns how long the caller waits for its turn.
        fn max_wait(&self) -> MaxWait {
            MaxWait::ENDLESS
        }

        /// Returns the costs, if the fast script for stored limits admits requests as this command does.
        fn fast_costs(&self) -> Option<&[u64]> {
            None
        }

        /// Returns whether it never writes.
        fn only_asks(&self) -> bool {
            false
        }
    }
}

/// Runs a command under the limit that is stored under its key (see [`SetLimit`]), in the same call.
///
/// ```
/// use core::time::Duration;
/// use lockage_core::{
///     Acquire, Command, WithStoredLimit, StoredLimitOutcome, FixedWindow, Limit, SetLimit, StoredLimit, Timestamp,
/// };
///
/// let (mut slot, now) = (None, Timestamp::from_micros(1_763_700_000_000_000)?);
/// let limit: Limit = "sliding-log 1/min".parse()?;
/// SetLimit::new(StoredLimit::new(limit)).apply(&mut slot, now)?;
///
/// // Its own limit does not count.
/// let acquire = WithStoredLimit::new(Acquire::new(FixedWindow::new(9, Duration::from_secs(1))?, 1)?);
/// for allowed in [true, false] {
///     let StoredLimitOutcome::Done { outcome, limit: stored } = acquire.apply(&mut slot, now)? else { panic!() };
///     assert_eq!((outcome.is_allowed(), stored.limit()), (allowed, limit));
/// }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// A key that was used without a stored limit has none, unless the command has a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithStoredLimit<C> {
    command: C,
    default: Option<StoredLimit>,
    is_on_slow_path: bool,
}

/// The outcome of a [`WithStoredLimit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredLimitOutcome<T> {
    /// No limit is stored, and nothing was done.
    NoLimit,
    /// The stored limit is for each client, and nothing was done: the command is for the client's own key, under this
    /// limit.
    PerClient(StoredLimit),
    /// The stored limit needs boundaries around this time, which the command's own limit did not bring, and nothing was
    /// done: see [`RecordError::ClockOff`].
    ClockOff(StoredLimit),
    /// It ran.
    Done {
        /// Its outcome.
        outcome: T,
        /// The stored limit.
        limit: StoredLimit,
    },
}

impl<T> StoredLimitOutcome<T> {
    /// Returns the outcome of the command, if it ran.
    pub fn done(self) -> Option<T> {
        match self {
            StoredLimitOutcome::Done { outcome, .. } => Some(outcome),
            _ => None,
        }
    }
}

impl<C: LimitCommand> WithStoredLimit<C> {
    /// Creates it from this command, whose own limit does not count.
    pub fn new(command: C) -> Self {
        WithStoredLimit { command, default: None, is_on_slow_path: false }
    }

    /// Creates it from this command; if no limit is stored, it uses `default`, which is stored with the command's
    /// writes. A key that was used without a stored limit is converted, as by [`SetLimit`].
    pub fn or_under(command: &C, default: StoredLimit) -> Self {
        let command = command.under(default.limit());
        WithStoredLimit { command, default: Some(default), is_on_slow_path: false }
    }

    /// Returns it on the slow path, for a key whose stored limit is known to have no
    /// [fast path](StoredLimit::has_fast_path). Its outcome is the same.
    pub fn on_slow_path(self) -> Self {
        WithStoredLimit { is_on_slow_path: true, ..self }
    }

    pub(super) fn command(&self) -> &C {
        &self.command
    }

    /// Returns another command in the place of this one.
    pub fn map<D>(&self, command: impl FnOnce(&C) -> D) -> WithStoredLimit<D> {
        let WithStoredLimit { default, is_on_slow_path, .. } = *self;
        WithStoredLimit { command: command(&self.command), default, is_on_slow_path }
    }

    pub(super) fn command_under(&self, limit: StoredLimit) -> C {
        self.command.under(self.given(limit).limit())
    }

    /// Returns the stored limit with the numbers that the command's own one gives to calls, where they are alike.
    fn given(&self, limit: StoredLimit) -> StoredLimit {
        StoredLimit::from_parts(limit.limit().given_by(&self.command.limit()), limit.terms())
    }
}

impl<C: LimitCommand> Command for WithStoredLimit<C> {
    type Outcome = StoredLimitOutcome<C::Outcome>;

    /// Encodes the call of the command, which takes any limit, then its longest wait and the terms of the default.
    fn encode_text(&self) -> TextCall {
        let (call, max_wait) = (self.command.encode_text(), self.command.max_wait());
        match self.default {
            None => call.with(format_args!("*{max_wait}")),
            Some(default) => call.with(format_args!("*{max_wait}:{}", default.terms())),
        }
    }

    /// Packs the longest wait, the number of costs, the costs, and the first bytes of a record of the default.
    fn encode_packed(&self) -> Option<PackedCall> {
        let costs = self.command.fast_costs().filter(|_| !self.is_on_slow_path)?;
        let default = match self.default {
            Some(default) => default.packed_head()?,
            None => Vec::new(),
        };
        let numbers = [self.command.max_wait().as_micros(), costs.len() as u64];
        let numbers = numbers.into_iter().chain(costs.iter().copied());
        Some(PackedCall::of(ScriptId::StoredAcquire, numbers).with(default))
    }

    fn outcome(&self, reply: &[i64]) -> Result<Self::Outcome, ReplyError> {
        // As of the command itself, then the limit's numbers, and how many these are.
        let (reply, numbers) = match *reply {
            [_] | [_, _] => {
                let (_, rest) = read_head(reply)?;
                return if rest.is_empty() {
                    Ok(StoredLimitOutcome::NoLimit)
                } else {
                    Err(ReplyError::Unexpected)
                };
            }
            [ref rest @ .., count] => {
                let count = usize::try_from(count).ok();
                let at = count.and_then(|count| rest.len().checked_sub(count));
                rest.split_at(at.ok_or(ReplyError::Unexpected)?)
            }
            [] => return Err(ReplyError::Unexpected),
        };
        let limit = StoredLimit::read(numbers).ok_or(ReplyError::Unexpected)?;
        if reply.first() == Some(&RecordError::ClockOff.status()) {
            return Ok(StoredLimitOutcome::ClockOff(limit));
        }
        if limit.terms().is_per_client() {
            return Ok(StoredLimitOutcome::PerClient(limit));
        }
        Ok(StoredLimitOutcome::Done { outcome: self.command_under(limit).outcome(reply)?, limit })
    }

    fn reply(&self, outcome: &Self::Outcome, ran: &Ran<'_>) -> Vec<i64> {
        let (mut all, limit) = match outcome {
            StoredLimitOutcome::NoLimit => return reply(ran.now, []),
            StoredLimitOutcome::PerClient(limit) => (reply(ran.now, []), limit),
            StoredLimitOutcome::ClockOff(limit) => {
                let mut refusal = reply(ran.now, []);
                refusal[0] = RecordError::ClockOff.status();
                (refusal, limit)
            }
            StoredLimitOutcome::Done { outcome, limit } => {
                (self.command_under(*limit).reply(outcome, ran), limit)
            }
        };
        let numbers = limit.numbers();
        let count = numbers.len() as i64;
        all.extend(numbers.into_iter().map(|number| number as i64).chain([count]));
        all
    }

    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Self::Outcome, RecordError> {
        self.apply_beside(slot, &mut None, now)
    }

    fn beside(&self) -> Option<RequestId> {
        self.command.beside()
    }

    fn apply_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Self::Outcome, RecordError> {
        let now = now.accepted()?;
        let limit = match slot {
            Some(record) if record.is_over(now) => {
                return on_empty(slot, |empty| self.apply_beside(empty, beside, now));
            }
            Some(record) if !record.is_limiter() => return Err(RecordError::OtherKind),
            Some(record) => StoredLimit::of(record).or(self.default),
            None => self.default,
        };
        let Some(limit) = limit else { return Ok(StoredLimitOutcome::NoLimit) };
        if limit.terms().is_per_client() {
            if !self.command.only_asks() {
                match SetLimit::new(self.given(limit)).apply(slot, now) {
                    Err(RecordError::ClockOff) => return Ok(StoredLimitOutcome::ClockOff(limit)),
                    stored => drop(stored?),
                }
            }
            return Ok(StoredLimitOutcome::PerClient(limit));
        }
        let command = self.command_under(limit);
        match under_terms(slot, limit.terms(), now, |slot| command.run_beside(slot, beside, now)) {
            Err(RecordError::ClockOff) => Ok(StoredLimitOutcome::ClockOff(limit)),
            outcome => Ok(StoredLimitOutcome::Done { outcome: outcome?, limit }),
        }
    }

    fn is_repeatable(&self) -> bool {
        self.command.is_repeatable()
    }

    fn writes_again(&self, outcome: &Self::Outcome) -> bool {
        match outcome {
            StoredLimitOutcome::Done { outcome, .. } => self.command.writes_again(outcome),
            StoredLimitOutcome::PerClient(_) => !self.command.only_asks(),
            StoredLimitOutcome::NoLimit | StoredLimitOutcome::ClockOff(_) => false,
        }
    }
}
