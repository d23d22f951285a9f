//! Turns that can be given back: an acquire with a ticket, and the command that cancels it.

use alloc::vec::Vec;

use super::Acquire;
use super::key_state::LimitState;
use super::stored::under_own_limit;
use crate::call::{PackedCall, TextCall};
use crate::command::{Command, Ran};
use crate::decision::Decision;
use crate::error::{RecordError, ReplyError};
use crate::limit::{Kind, LeakyBucket, Limit, Machine, State};
use crate::record::{Body, Record};
use crate::reply::{answer, read_head, read_whole};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// An [`Acquire`] whose turn can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeTurn(Acquire);

impl TakeTurn {
    /// Creates it from this request. Unless its limit is a single [`LeakyBucket`], its answer never has a ticket.
    pub fn new(acquire: Acquire) -> Self {
        TakeTurn(acquire)
    }

    /// Returns a decision that admits, with its ticket, from the time of the decision and the prior state.
    fn turn(&self, decision: Decision, at: Timestamp, prior: &[u64]) -> Turn {
        let ticket = match self.0.limit() {
            Limit::LeakyBucket(bucket) if !decision.turn_after.is_zero() => {
                Ticket::new(*bucket, self.0.cost().of_part(0), at, prior)
            }
            _ => None,
        };
        Turn { decision, ticket }
    }
}

/// The answer to a caller that asked for a turn.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a denied request has no turn: ask its decision"]
#[non_exhaustive]
pub struct Turn {
    /// The decision. If it is `Allowed`, the turn is after its [`turn_after`](Decision::turn_after).
    pub decision: Decision,
    /// The ticket that gives the turn back; `None` if the request was not admitted, has its turn at once, or was
    /// decided without the store.
    pub ticket: Option<Ticket>,
}

/// A turn that cannot be cancelled: one that the store did not grant.
impl From<Decision> for Turn {
    fn from(decision: Decision) -> Self {
        Turn { decision, ticket: None }
    }
}

/// One turn in the queue of a leaky bucket, for one [`CancelTurn`].
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket(QueuedTurn);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueuedTurn {
    bucket: LeakyBucket,
    /// The time of the turn, in microseconds since the epoch.
    turn_at: u64,
    /// The state before its admission.
    before: State,
    /// The state that its admission left: the key's, until another request is admitted.
    after: State,
}

impl Ticket {
    /// Returns the ticket of a cost that was admitted at this time in this state.
    fn new(bucket: LeakyBucket, cost: u64, at: Timestamp, prior: &[u64]) -> Option<Ticket> {
        let before = LimitState::read(bucket.into(), prior)?.state;
        let settled = bucket.settle(Some(before), at.as_micros());
        let (turn_at, after) = (bucket.turn_at(settled)?, bucket.charge(settled, cost));
        Some(Ticket(QueuedTurn { bucket, turn_at, before, after }))
    }
}

impl Command for TakeTurn {
    type Outcome = Turn;

    fn encode_text(&self) -> TextCall {
        self.0.encode_text()
    }

    fn encode_packed(&self) -> Option<PackedCall> {
        self.0.encode_packed()
    }

    fn outcome(&self, reply: &[i64]) -> Result<Turn, ReplyError> {
        let decision = self.0.outcome(reply)?;
        if !decision.is_allowed() || decision.turn_after.is_zero() {
            return Ok(Turn { decision, ticket: None });
        }
        let (at, prior) = read_head(reply)?;
        let prior = prior.iter().map(|&number| read_whole(number));
        Ok(self.turn(decision, at, &prior.collect::<Result<Vec<u64>, _>>()?))
    }

    fn reply(&self, turn: &Turn, ran: &Ran<'_>) -> Vec<i64> {
        self.0.reply(&turn.decision, ran)
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Turn, RecordError> {
        let mut told = Vec::new();
        let (decision, at) =
            under_own_limit(slot, now, |slot| self.0.admit(slot, now, Some(&mut told)))?;
        Ok(match decision.is_allowed() {
            true => self.turn(decision, at, &told),
            false => Turn { decision, ticket: None },
        })
    }

    fn is_repeatable(&self) -> bool {
        self.0.is_repeatable()
    }
}

/// Gives a turn back, as if it had never been requested (D14).
///
/// That works only if no later request was admitted, whose turn would have to move, the key was not adjusted, reset or
/// put under another limit, and the turn has not come. Nor does it work once the key has had reservations, until it was
/// reset or dropped. Otherwise nothing changes, and the outcome says why. Later admissions that gave their turns back
/// do not count. A block stays. A request with an id stays remembered: sent again, it gets the turn that it had, so
/// another attempt needs another id.
///
/// Do not repeat it after a lost answer: if it had run before, it would get [`Cancellation::NotLast`]. If a second
/// request of the same cost was admitted in the microsecond of the first, after that was given back, a repetition would
/// give back the second one's turn: the record cannot distinguish the two. (The same holds if the key was reset or the
/// first one refunded between them.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelTurn {
    turn: QueuedTurn,
}

impl CancelTurn {
    /// Creates a cancellation of this ticket's turn, on the key that it was taken from.
    pub fn new(ticket: Ticket) -> Self {
        CancelTurn { turn: ticket.0 }
    }

    /// Returns the cancellation of a turn between these states; `None` for states that the bucket cannot have.
    pub(crate) fn of(
        bucket: LeakyBucket,
        turn_at: u64,
        before: [u64; 2],
        after: [u64; 2],
    ) -> Option<Self> {
        let state = |numbers: [u64; 2]| Some(LimitState::read(bucket.into(), &numbers)?.state);
        let (before, after) = (state(before)?, state(after)?);
        Some(CancelTurn { turn: QueuedTurn { bucket, turn_at, before, after } })
    }
}

/// The outcome of giving back a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a turn that is not given back comes"]
pub enum Cancellation {
    /// It is given back.
    GivenBack,
    /// Nothing changed: others were admitted since, or the key was adjusted, reset, or put under another
    /// limit, or knows of reservations.
    NotLast,
    /// Nothing changed: its turn has come.
    TooLate,
}

impl Command for CancelTurn {
    type Outcome = Cancellation;

    fn encode_text(&self) -> TextCall {
        let QueuedTurn { bucket, turn_at, before, after } = &self.turn;
        TextCall::new(ScriptId::LeakyBucketCancel)
            .with(LeakyBucket::ROW.tag)
            .with_all(&*bucket.config())
            .with(turn_at)
            .with_all(in_bucket(*bucket, *before).numbers())
            .with_all(in_bucket(*bucket, *after).numbers())
    }

    fn outcome(&self, reply: &[i64]) -> Result<Cancellation, ReplyError> {
        match read_head(reply)? {
            (_, [0]) => Ok(Cancellation::GivenBack),
            (_, [1]) => Ok(Cancellation::NotLast),
            (_, [2]) => Ok(Cancellation::TooLate),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn reply(&self, outcome: &Cancellation, ran: &Ran<'_>) -> Vec<i64> {
        let number = match outcome {
            Cancellation::GivenBack => 0,
            Cancellation::NotLast => 1,
            Cancellation::TooLate => 2,
        };
        answer(ran.now, number, [])
    }

    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Cancellation, RecordError> {
        under_own_limit(slot, now, |slot| self.run(slot, now))
    }
}

impl CancelTurn {
    fn run(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Cancellation, RecordError> {
        let QueuedTurn { bucket, turn_at, before, after } = &self.turn;
        if slot.as_ref().is_some_and(|record| !record.is_limiter()) {
            return Err(RecordError::OtherKind);
        }
        // First, so that it does not matter whether the record is still there.
        if now.as_micros() >= *turn_at {
            return Ok(Cancellation::TooLate);
        }
        match slot {
            Some(Record { body: Body::Counter(part), reservations, .. })
                if *part == in_bucket(*bucket, *after) && reservations.is_none() => {}
            _ => return Ok(Cancellation::NotLast),
        }
        Record::put(slot, Body::Counter(in_bucket(*bucket, *before)), now);
        Ok(Cancellation::GivenBack)
    }
}

fn in_bucket(bucket: LeakyBucket, state: State) -> LimitState {
    LimitState { limit: bucket.into(), state }
}
