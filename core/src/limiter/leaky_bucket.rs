//! The leaky bucket as a queue: it says when, not only whether.

use core::time::Duration;

use super::counter::{Counter, Fields};
use super::token_bucket::{self, TokenBucket};
use crate::command::ScriptId;
use crate::error::ConfigError;
use crate::exact::MAX_EXACT;

/// A queue that drains continuously, `amount` per `period`, and has room for `queue` units, those of the
/// request that comes among them.
///
/// A request that has room is admitted and told when its turn is
/// ([`Decision::turn_after`](crate::Decision::turn_after)): once all that was in the queue before it has
/// drained. It must not go ahead before. Turns are in the order of admission. A request with no room is
/// denied, as one against a [`TokenBucket`] of that burst is: the two are one machine, of which this one
/// spreads out what the other one lets through at once.
///
/// A request of cost c waits for at most `(queue - c) * period / amount` (D13). Envelope (E6): in any
/// span of T microseconds, those whose turn it is cost less than `amount * T / period` in all, the last
/// of them not counted. What is admitted stays within E4, with `queue` as the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    /// What is missing from it is what waits here.
    bucket: TokenBucket,
    /// The longest that a turn may be away, in microseconds: of one request, no part of the configuration.
    patience_us: u64,
}

impl LeakyBucket {
    /// A queue of `queue` units that drains `amount` of them per `period` (whole microseconds, at most
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// With the rate reduced to numerator / denominator units per microsecond, queue * denominator
    /// must stay below 2^53, and the time to drain a full queue within `MAX_SPAN`.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub fn new(amount: u64, period: Duration, queue: u64) -> Result<Self, ConfigError> {
        let bucket = TokenBucket::sized(amount, period, "queue", queue)?;
        Ok(LeakyBucket { bucket, patience_us: MAX_EXACT - 1 })
    }

    /// Units that drain per period.
    pub fn amount(&self) -> u64 {
        self.bucket.amount()
    }

    /// The period of the drain.
    pub fn period(&self) -> Duration {
        self.bucket.period()
    }

    /// The units that there is room for.
    pub fn queue(&self) -> u64 {
        self.bucket.burst()
    }

    /// The same for a request that waits no longer than this for its turn.
    pub(crate) fn within(self, patience: Duration) -> Self {
        let patience_us = u64::try_from(patience.as_micros()).unwrap_or(u64::MAX);
        LeakyBucket { patience_us: patience_us.min(MAX_EXACT - 1), ..self }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct State {
    bucket: token_bucket::State,
    /// The time as the request sees it, which may be before the state's: patience counts from it.
    now: u64,
}

impl Counter for LeakyBucket {
    const TAG: &'static str = "Q1";
    const ACQUIRE: ScriptId = ScriptId::LeakyBucketAcquire;
    type State = State;

    fn capacity(self) -> u64 {
        self.bucket.capacity()
    }

    fn settle(self, state: Option<State>, now: u64) -> State {
        State { bucket: self.bucket.settle(state.map(|state| state.bucket), now), now }
    }

    fn charge(self, state: State, cost: u64) -> Option<State> {
        let wait = self.turn_at(state).saturating_sub(state.now);
        let bucket = self.bucket.charge(state.bucket, cost)?;
        (wait <= self.patience_us).then_some(State { bucket, ..state })
    }

    fn remaining(self, state: State) -> u64 {
        self.bucket.remaining(state.bucket)
    }

    fn admitted_at(self, state: State, cost: u64) -> u64 {
        let room_at = match cost <= self.remaining(state) {
            true => 0,
            false => self.bucket.admitted_at(state.bucket, cost),
        };
        // Its turn stays where it is, and comes closer.
        room_at.max(self.turn_at(state).saturating_sub(self.patience_us))
    }

    fn fresh_at(self, state: State) -> u64 {
        self.bucket.fresh_at(state.bucket)
    }

    fn turn_at(self, state: State) -> u64 {
        self.bucket.fresh_at(state.bucket)
    }

    fn config(self) -> Fields {
        Counter::config(self.bucket)
    }

    fn terms(self) -> Fields {
        [self.patience_us].into()
    }

    fn fields(state: State) -> Fields {
        TokenBucket::fields(state.bucket)
    }

    fn state(self, fields: &[u64]) -> Option<State> {
        Some(State { bucket: self.bucket.state(fields)?, now: 0 })
    }
}
