//! Several requests, each on a key of its own, of which all are admitted or none.

use alloc::vec::Vec;

use super::commands::Acquire;
use super::stored::StoredLimit;
use super::wire;
use super::with_stored_limit::{StoredLimitOutcome, WithStoredLimit};
use crate::call::{Encoded, PackedCall, TextCall};
use crate::command::{Command, Ran};
use crate::decision::Decision;
use crate::error::{CostError, RecordError, ReplyError};
use crate::record::Record;
use crate::time::Timestamp;

/// The most requests of one [`AcquireAll`].
pub const MAX_TOGETHER: usize = 8;

/// Requests on several keys, such as those of a user, an organisation and everybody. All are admitted, and each is charged
/// to its key, or nothing is changed.
///
/// It is no [`Command`], since that has one key. A store runs it as one script call, whose keys have to be on one server.
/// Requests are under limits of their own, or under those that are [stored](WithStoredLimit) with their keys.
///
/// ```
/// use lockage_core::{Acquire, AcquireAll, Limit, Timestamp};
///
/// let (user, organisation): (Limit, Limit) = ("fixed-window 2/min".parse()?, "fixed-window 3/min".parse()?);
/// let all = AcquireAll::new(vec![Acquire::new(user, 1)?, Acquire::new(organisation, 2)?])?;
///
/// let (mut slots, now) = ([None, None], Timestamp::from_micros(1_763_700_000_000_000)?);
/// let mut decide = || {
///     let outcomes = all.apply(&mut slots, now)?.into_iter();
///     let decisions = outcomes.map(|outcome| outcome.done().expect("no limit is stored"));
///     Ok::<_, lockage_core::RecordError>(decisions.map(|it| (it.is_allowed(), it.remaining)).collect::<Vec<_>>())
/// };
/// assert_eq!(decide()?, [(true, 1), (true, 1)]);
/// // The organisation has no room for two more, so the user is not charged either.
/// assert_eq!(decide()?, [(true, 1), (false, 1)]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireAll {
    each: Vec<OneOfAll>,
}

/// One request of an [`AcquireAll`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a call has eight at most, and is sent once")]
pub enum OneOfAll {
    /// Under its own limit. Its outcome is always [`StoredLimitOutcome::Done`].
    Given(Acquire),
    /// Under the limit that is stored with its key.
    Stored(WithStoredLimit<Acquire>),
}

impl From<Acquire> for OneOfAll {
    fn from(acquire: Acquire) -> Self {
        OneOfAll::Given(acquire)
    }
}

impl From<WithStoredLimit<Acquire>> for OneOfAll {
    fn from(acquire: WithStoredLimit<Acquire>) -> Self {
        OneOfAll::Stored(acquire)
    }
}

/// The outcome of one request of an [`AcquireAll`].
pub type OneOutcome = StoredLimitOutcome<Decision>;

impl AcquireAll {
    /// Creates it from 1 to [`MAX_TOGETHER`] requests, each for another key.
    ///
    /// # Errors
    /// [`CostError::Empty`] and [`CostError::TooMany`].
    pub fn new<R: Into<OneOfAll>>(each: Vec<R>) -> Result<Self, CostError> {
        let (count, most) = (each.len(), MAX_TOGETHER);
        match count {
            0 => Err(CostError::Empty),
            _ if count > most => Err(CostError::TooMany { count, most }),
            _ => Ok(AcquireAll { each: each.into_iter().map(Into::into).collect() }),
        }
    }

    /// Returns the requests, in the order of their keys.
    pub fn requests(&self) -> &[OneOfAll] {
        &self.each
    }

    /// Returns whether it is safe to repeat after a lost answer, as [`Command::is_repeatable`] does: if each request has an
    /// id.
    pub fn is_repeatable(&self) -> bool {
        self.each.iter().all(Command::is_repeatable)
    }

    /// Returns the calls to send first, all of the fast path or all of the slow path.
    pub fn encode(&self) -> Vec<Encoded> {
        let packed = self.each.iter().map(|one| one.encode_packed().map(Encoded::Packed));
        let text = || self.encode_text().into_iter().map(Encoded::Text).collect();
        packed.collect::<Option<_>>().unwrap_or_else(text)
    }

    /// Returns the calls of the script that takes every record.
    pub fn encode_text(&self) -> Vec<TextCall> {
        self.each.iter().map(Command::encode_text).collect()
    }

    /// Reads the replies, one for each key in their order, as [`Command::outcome`] takes one.
    ///
    /// # Errors
    /// As of [`Command::outcome`]. The error of the first key that has one is the error of all, and nothing was changed.
    pub fn outcome(&self, replies: &[Vec<i64>]) -> Result<Vec<OneOutcome>, ReplyError> {
        if replies.len() != self.each.len() {
            return Err(ReplyError::Unexpected);
        }
        let each = || self.each.iter().zip(replies);
        let outcomes = each().map(|(one, reply)| one.outcome(reply)).collect::<Result<_, _>>()?;
        all_or_none(outcomes, || each().map(|(one, reply)| one.peek_of(reply)))
    }

    /// Runs the machines on the slots of the keys, in their order, at `now`.
    ///
    /// If all requests are admitted, the outcomes are those of each request. Otherwise nothing is charged, and a request
    /// that would have been admitted has the decision of a [`Peek`](crate::Peek): `Allowed`, and not charged. Of a request
    /// under a stored limit, every outcome but an admission prevents the others, too. A limit per client is kept for longer
    /// by each call, unless one of its requests needs boundaries.
    ///
    /// # Errors
    /// [`RecordError`] of the first slot whose content its request cannot use; nothing is changed then.
    ///
    /// # Panics
    /// Unless there is one slot for each request.
    pub fn apply(
        &self,
        slots: &mut [Option<Record>],
        now: Timestamp,
    ) -> Result<Vec<OneOutcome>, RecordError> {
        assert_eq!(slots.len(), self.each.len(), "each request has a slot");
        let mut after = slots.to_vec();
        let each = self.each.iter().zip(&mut after).map(|(one, slot)| one.apply(slot, now));
        let outcomes: Vec<OneOutcome> = each.collect::<Result<_, _>>()?;
        let are_admitted = outcomes.iter().all(OneOutcome::is_allowed);
        let are_known = !outcomes.iter().any(|it| matches!(it, OneOutcome::ClockOff(_)));
        for ((slot, after), outcome) in slots.iter_mut().zip(after).zip(&outcomes) {
            if are_admitted || are_known && matches!(outcome, OneOutcome::PerClient(_)) {
                *slot = after;
            }
        }
        let each = self.each.iter().zip(&*slots);
        all_or_none(outcomes, || each.map(|(one, slot)| one.peek(slot.clone(), now)))
    }
}

/// Returns these outcomes if all admit. Otherwise nothing was charged: of a request that is admitted by itself, the outcome
/// is the one of `peeks`.
fn all_or_none<E, I>(
    outcomes: Vec<OneOutcome>,
    peeks: impl FnOnce() -> I,
) -> Result<Vec<OneOutcome>, E>
where
    I: Iterator<Item = Result<OneOutcome, E>>,
{
    if outcomes.iter().all(OneOutcome::is_allowed) {
        return Ok(outcomes);
    }
    let each = outcomes.into_iter().zip(peeks());
    each.map(|(outcome, peek)| if outcome.is_allowed() { peek } else { Ok(outcome) }).collect()
}

impl OneOutcome {
    /// Returns whether the request was decided, and may go ahead.
    pub fn is_allowed(&self) -> bool {
        matches!(self, OneOutcome::Done { outcome, .. } if outcome.is_allowed())
    }
}

impl OneOfAll {
    /// Returns the request. Under a stored limit, its own does not count.
    pub fn acquire(&self) -> &Acquire {
        match self {
            OneOfAll::Given(acquire) => acquire,
            OneOfAll::Stored(stored) => stored.command(),
        }
    }

    /// Reads the reply to a request that was admitted by itself, and is not charged.
    fn peek_of(&self, reply: &[i64]) -> Result<OneOutcome, ReplyError> {
        match self {
            OneOfAll::Given(acquire) => Ok(done(acquire.peek().outcome(reply)?, acquire)),
            OneOfAll::Stored(stored) => stored.map(Acquire::peek).outcome(reply),
        }
    }

    /// Returns the outcome of a request that is not charged, or of one that was admitted before, from the state before it.
    fn peek(&self, mut slot: Option<Record>, now: Timestamp) -> Result<OneOutcome, RecordError> {
        match self {
            OneOfAll::Given(acquire) => {
                let decision = match peek_known(acquire, &slot, now)? {
                    Some(decision) => decision,
                    None => acquire.peek().apply(&mut slot, now)?,
                };
                Ok(done(decision, acquire))
            }
            OneOfAll::Stored(stored) => {
                let mut outcome = stored.map(Acquire::peek).apply(&mut slot, now)?;
                if let OneOutcome::Done { outcome, limit } = &mut outcome
                    && let Some(known) = peek_known(&stored.command_under(*limit), &slot, now)?
                {
                    *outcome = known;
                }
                Ok(outcome)
            }
        }
    }
}

impl Command for OneOfAll {
    type Outcome = OneOutcome;

    fn encode_text(&self) -> TextCall {
        match self {
            OneOfAll::Given(acquire) => acquire.encode_text(),
            OneOfAll::Stored(stored) => stored.encode_text(),
        }
    }

    fn encode_packed(&self) -> Option<PackedCall> {
        match self {
            OneOfAll::Given(acquire) => acquire.encode_packed(),
            OneOfAll::Stored(stored) => stored.encode_packed(),
        }
    }

    fn outcome(&self, reply: &[i64]) -> Result<OneOutcome, ReplyError> {
        match self {
            OneOfAll::Given(acquire) => Ok(done(acquire.outcome(reply)?, acquire)),
            OneOfAll::Stored(stored) => stored.outcome(reply),
        }
    }

    fn reply(&self, outcome: &OneOutcome, ran: &Ran<'_>) -> Vec<i64> {
        match (self, outcome) {
            (OneOfAll::Given(acquire), OneOutcome::Done { outcome, .. }) => {
                acquire.reply(outcome, ran)
            }
            (OneOfAll::Stored(stored), _) => stored.reply(outcome, ran),
            (OneOfAll::Given(_), _) => unreachable!("it is decided under its own limit"),
        }
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<OneOutcome, RecordError> {
        match self {
            OneOfAll::Given(acquire) => Ok(done(acquire.apply(slot, now)?, acquire)),
            OneOfAll::Stored(stored) => stored.apply(slot, now),
        }
    }

    fn is_repeatable(&self) -> bool {
        self.acquire().is_repeatable()
    }

    fn writes_again(&self, outcome: &OneOutcome) -> bool {
        match self {
            OneOfAll::Given(_) => false,
            OneOfAll::Stored(stored) => stored.writes_again(outcome),
        }
    }
}

fn done(outcome: Decision, acquire: &Acquire) -> OneOutcome {
    OneOutcome::Done { outcome, limit: StoredLimit::new(*acquire.limit()) }
}

/// Returns the decision on a request that was admitted before, as if it was not charged.
fn peek_known(
    acquire: &Acquire,
    slot: &Option<Record>,
    now: Timestamp,
) -> Result<Option<Decision>, RecordError> {
    let (limit, cost) = (acquire.limit(), acquire.cost());
    let Some(known) = acquire.known(slot, now)? else { return Ok(None) };
    let key = wire::recall_key(&limit.singles(), cost, known.now, &known.told);
    Ok(Some(key.ok_or(RecordError::Damaged)?.peek(cost, &[])))
}
