//! The leaky bucket as a queue: it says when, not only whether.

use core::time::Duration;

use super::counter::{Counter, Fields};
use super::token_bucket::{self, TokenBucket};
use crate::command::ScriptId;
use crate::error::ConfigError;

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
///
/// A refund makes the queue shorter for those who come later, and a penalty longer; turns that have been
/// told stay as they are, so that after a refund E6 holds for those that are told from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket(TokenBucket);

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
        TokenBucket::sized(amount, period, "queue", queue).map(LeakyBucket)
    }

    /// Units that drain per period.
    pub fn amount(&self) -> u64 {
        self.0.amount()
    }

    /// The period of the drain.
    pub fn period(&self) -> Duration {
        self.0.period()
    }

    /// The units that there is room for.
    pub fn queue(&self) -> u64 {
        self.0.burst()
    }
}

/// What is missing from the token bucket is what waits here.
impl Counter for LeakyBucket {
    const TAG: &'static str = "Q1";
    const ACQUIRE: ScriptId = ScriptId::LeakyBucketAcquire;
    type State = token_bucket::State;

    fn capacity(self) -> u64 {
        self.0.capacity()
    }

    #[inline]
    fn settle(self, state: Option<Self::State>, now: u64) -> Self::State {
        self.0.settle(state, now)
    }

    fn charge(self, state: Self::State, cost: u64) -> Self::State {
        self.0.charge(state, cost)
    }

    fn give_back(self, state: Self::State, cost: u64) -> Self::State {
        self.0.give_back(state, cost)
    }

    fn counted(self, state: Self::State, window: u64) -> Option<usize> {
        self.0.counted(state, window)
    }

    fn unit(self) -> u64 {
        self.0.unit()
    }

    fn used(self, state: Self::State) -> u64 {
        self.0.used(state)
    }

    fn holds(self) -> u64 {
        self.0.holds()
    }

    fn carry(self, old: Self, state: Self::State, fresh: Self::State) -> Self::State {
        self.0.carry(old.0, state, fresh)
    }

    fn remaining(self, state: Self::State) -> u64 {
        self.0.remaining(state)
    }

    fn admitted_at(self, state: Self::State, cost: u64) -> u64 {
        self.0.admitted_at(state, cost)
    }

    fn fresh_at(self, state: Self::State) -> u64 {
        self.0.fresh_at(state)
    }

    fn kept_until(self, state: Self::State) -> Option<u64> {
        self.0.kept_until(state)
    }

    fn turn_at(self, state: Self::State) -> u64 {
        self.0.fresh_at(state)
    }

    fn config(self) -> Fields {
        Counter::config(self.0)
    }

    #[inline]
    fn fields(state: Self::State) -> Fields {
        TokenBucket::fields(state)
    }

    fn state(self, fields: &[u64]) -> Option<Self::State> {
        Counter::state(self.0, fields)
    }
}
