//! Turns that can be given back: an acquire whose answer has what that takes, and the command that does it.

use alloc::vec::Vec;

use super::counter::{Counter, CounterRecord, Fields, load};
use super::{Acquire, LeakyBucket};
use crate::command::{Arguments, Command, ScriptId, read_head, read_whole};
use crate::decision::Decision;
use crate::error::{RecordError, ReplyError};
use crate::limit::Limit;
use crate::record::{Body, Record};
use crate::time::Timestamp;

/// An [`Acquire`] by a caller who may give its turn back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeTurn(Acquire);

impl TakeTurn {
    /// This request. Where its limit is no [`LeakyBucket`], its answer never has a ticket.
    pub fn new(acquire: Acquire) -> Self {
        TakeTurn(acquire)
    }

    /// The decision with its ticket, given when it was made and the prior state.
    fn turn(&self, decision: Decision, at: Timestamp, prior: &[u64]) -> Turn {
        let ticket = match self.0.limit() {
            Limit::LeakyBucket(bucket) if decision.is_allowed() => {
                Ticket::new(bucket, self.0.cost(), at, prior)
            }
            _ => None,
        };
        Turn { decision, ticket }
    }
}

/// What a caller is told who asked for a turn.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn {
    /// The decision. Where it is `Allowed`, the turn is after its
    /// [`turn_after`](Decision::turn_after).
    pub decision: Decision,
    /// What gives the turn back: none where the request was not admitted, where the limit has no turns,
    /// or where it was decided without the store.
    pub ticket: Option<Ticket>,
}

/// One turn in the queue of a leaky bucket. It is good for one [`CancelTurn`].
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    bucket: LeakyBucket,
    cost: u64,
    /// The state that its admission left: the key's, for as long as nobody else is admitted.
    left: Fields,
}

impl Ticket {
    /// The ticket of a cost that was admitted at this time in this state.
    fn new(bucket: LeakyBucket, cost: u64, at: Timestamp, prior: &[u64]) -> Option<Ticket> {
        let prior = match prior {
            [] => None,
            fields => Some(bucket.state(fields)?),
        };
        let charged = bucket.charge(bucket.settle(prior, at.as_micros()), cost)?;
        Some(Ticket { bucket, cost, left: LeakyBucket::fields(charged) })
    }
}

impl Command for TakeTurn {
    type Outcome = Turn;

    fn script(&self) -> ScriptId {
        self.0.script()
    }

    fn arguments(&self, arguments: &mut Arguments) {
        self.0.arguments(arguments);
    }

    fn outcome(&self, reply: &[i64]) -> Result<Turn, ReplyError> {
        let decision = self.0.outcome(reply)?;
        let (at, prior) = read_head(reply)?;
        let prior: Vec<u64> =
            prior.iter().map(|&field| read_whole(field)).collect::<Result<_, _>>()?;
        Ok(self.turn(decision, at, &prior))
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Turn, RecordError> {
        let (at, prior) = match (self.0.known(slot, now)?, &*slot) {
            (Some(known), _) => (known.now, known.told),
            (None, Some(Record { body: Body::Counter(record), .. })) => (now, record.state),
            _ => (now, [].into()),
        };
        let decision = self.0.apply(slot, now)?;
        Ok(self.turn(decision, at, &prior))
    }

    fn is_repeatable(&self) -> bool {
        self.0.is_repeatable()
    }
}

/// Give a turn back, as if it had never been asked for (D14): no decision from then on can tell, at any
/// time that is not before this one.
///
/// That is exact only while nobody was admitted later, whose turn would have to move, and while the turn
/// has not come; otherwise nothing changes, and the outcome says why. A request with an id stays remembered:
/// sent again, it is told of the turn that it had, so another attempt needs another id.
///
/// Do not send it again where the answer was lost. It would as a rule be told [`Cancellation::NotLast`],
/// whatever became of it; and it would take back another's turn, where one of the same cost was given in the
/// microsecond of the first one, which was given back before. (So would a ticket that is older than a
/// [`Reset`](crate::Reset) in its own microsecond.)
#[derive(Debug, PartialEq, Eq)]
pub struct CancelTurn {
    ticket: Ticket,
}

impl CancelTurn {
    /// Gives the turn of this ticket back, on the key that it was taken from.
    pub fn new(ticket: Ticket) -> Self {
        CancelTurn { ticket }
    }
}

/// What became of a turn that was to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// It is given back.
    GivenBack,
    /// Nothing changed: others were admitted since, or the key was reset.
    NotLast,
    /// Nothing changed: its turn has come. Of one that had its turn at once, it always has.
    TooLate,
}

impl Command for CancelTurn {
    type Outcome = Cancellation;

    fn script(&self) -> ScriptId {
        ScriptId::LeakyBucketCancel
    }

    fn arguments(&self, arguments: &mut Arguments) {
        let Ticket { bucket, cost, left } = &self.ticket;
        arguments.push(LeakyBucket::TAG);
        let config = Counter::config(*bucket);
        for number in config.iter().chain([cost]).chain(left.iter()) {
            arguments.push(number);
        }
    }

    fn outcome(&self, reply: &[i64]) -> Result<Cancellation, ReplyError> {
        match read_head(reply)? {
            (_, [0]) => Ok(Cancellation::GivenBack),
            (_, [1]) => Ok(Cancellation::NotLast),
            (_, [2]) => Ok(Cancellation::TooLate),
            _ => Err(ReplyError::Unexpected),
        }
    }

    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Cancellation, RecordError> {
        let &Ticket { bucket, cost, left } = &self.ticket;
        let state = slot.as_ref().map(|record| load(bucket, record)).transpose()?;
        let settled = bucket.settle(bucket.state(&left), now.as_micros());
        // First, so that it does not matter whether the record is still there.
        let Some(without) = bucket.give_back(settled, cost) else {
            return Ok(Cancellation::TooLate);
        };
        match (state, slot) {
            (Some(state), Some(record)) if LeakyBucket::fields(state) == left => {
                record.body = Body::Counter(CounterRecord::new(bucket, without));
                record.requests.prune(now);
                Ok(Cancellation::GivenBack)
            }
            _ => Ok(Cancellation::NotLast),
        }
    }
}
