//! Several requests, each on a key of its own, of which all are admitted or none.

use alloc::vec::Vec;

use super::commands::Acquire;
use super::peek::Peek;
use super::wire;
use crate::call::{Encoded, TextCall};
use crate::command::Command;
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
///
/// ```
/// use lockage_core::{Acquire, AcquireAll, Limit, Timestamp};
///
/// let (user, organisation): (Limit, Limit) = ("fixed-window 2/min".parse()?, "fixed-window 3/min".parse()?);
/// let all = AcquireAll::new(vec![Acquire::new(user, 1)?, Acquire::new(organisation, 2)?])?;
///
/// let (mut slots, now) = ([None, None], Timestamp::from_micros(1_763_700_000_000_000)?);
/// let admitted = all.apply(&mut slots, now)?;
/// assert_eq!([admitted[0].remaining, admitted[1].remaining], [1, 1]);
/// // The organisation has no room for two more, so the user is not charged either.
/// let denied = all.apply(&mut slots, now)?;
/// assert_eq!([denied[0].is_allowed(), denied[1].is_allowed()], [true, false]);
/// assert_eq!(denied[0].remaining, 1);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireAll {
    each: Vec<Acquire>,
}

impl AcquireAll {
    /// Creates it from 1 to [`MAX_TOGETHER`] requests, each for another key.
    ///
    /// # Errors
    /// [`CostError::Empty`] and [`CostError::TooMany`].
    pub fn new(each: Vec<Acquire>) -> Result<Self, CostError> {
        let (count, most) = (each.len(), MAX_TOGETHER);
        match count {
            0 => Err(CostError::Empty),
            _ if count > most => Err(CostError::TooMany { count, most }),
            _ => Ok(AcquireAll { each }),
        }
    }

    /// Returns the requests, in the order of their keys.
    pub fn requests(&self) -> &[Acquire] {
        &self.each
    }

    /// Returns whether it is safe to repeat after a lost answer, as [`Command::is_repeatable`] does: if each request has an
    /// id.
    pub fn is_repeatable(&self) -> bool {
        self.each.iter().all(Command::is_repeatable)
    }

    /// Returns the calls to send first, all of the fast path or all of the slow path.
    pub fn encode(&self) -> Vec<Encoded> {
        let packed = self.each.iter().map(|it| it.encode_packed().map(Encoded::Packed));
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
    pub fn outcome(&self, replies: &[Vec<i64>]) -> Result<Vec<Decision>, ReplyError> {
        if replies.len() != self.each.len() {
            return Err(ReplyError::Unexpected);
        }
        let each = || self.each.iter().zip(replies);
        let decisions = each().map(|(acquire, reply)| acquire.outcome(reply));
        let peek = |(acquire, reply): (&Acquire, &Vec<i64>)| {
            wire::Reply::read(reply)?.peek(acquire.limit(), acquire.cost())
        };
        all_or_none(decisions.collect::<Result<_, _>>()?, || each().map(peek))
    }

    /// Runs the machines on the slots of the keys, in their order, at `now`.
    ///
    /// If all requests are admitted, the decisions are those of each [`Acquire`]. If any is denied, nothing is changed, and
    /// a request that would have been admitted has the decision of a [`Peek`](crate::Peek): `Allowed`, and not charged.
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
    ) -> Result<Vec<Decision>, RecordError> {
        assert_eq!(slots.len(), self.each.len(), "each request has a slot");
        let mut after = slots.to_vec();
        let each = self.each.iter().zip(&mut after);
        let decisions = each.map(|(acquire, slot)| acquire.apply(slot, now));
        let decisions: Vec<Decision> = decisions.collect::<Result<_, _>>()?;
        if decisions.iter().all(Decision::is_allowed) {
            slots.clone_from_slice(&after);
        }
        let each = self.each.iter().zip(&*slots);
        all_or_none(decisions, || each.map(|(acquire, slot)| peek(acquire, slot.clone(), now)))
    }
}

/// Returns these decisions if all admit. Otherwise nothing was charged: of a request that is admitted by itself, the decision
/// is the one of `peeks`.
fn all_or_none<E, I>(
    decisions: Vec<Decision>,
    peeks: impl FnOnce() -> I,
) -> Result<Vec<Decision>, E>
where
    I: Iterator<Item = Result<Decision, E>>,
{
    if decisions.iter().all(Decision::is_allowed) {
        return Ok(decisions);
    }
    let each = decisions.into_iter().zip(peeks());
    each.map(|(decision, peek)| if decision.is_allowed() { peek } else { Ok(decision) }).collect()
}

/// Returns the decision on a request that is not charged, or of one that was admitted before, from the state before it.
fn peek(
    acquire: &Acquire,
    mut slot: Option<Record>,
    now: Timestamp,
) -> Result<Decision, RecordError> {
    let (limit, cost) = (acquire.limit(), acquire.cost());
    match acquire.known(&slot, now)? {
        Some(known) => {
            let key = wire::recall_key(&limit.singles(), cost, known.now, &known.told);
            Ok(key.ok_or(RecordError::Damaged)?.peek(cost, &[]))
        }
        None => Peek::by_part(*limit, *cost).apply(&mut slot, now),
    }
}
