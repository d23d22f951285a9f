//! Limits whose state is a few integers, for stores of many states in process: the machines without records, and
//! decisions that are computed only on demand.

use core::fmt;
use core::time::Duration;

use super::Limit;
use super::machine::{Machine, State};
use crate::decision::Decision;
use crate::lease::time;
use crate::limiter::{MaxWait, OneLimit};
use crate::time::Timestamp;

/// A limit with a state of constant size: a [`FixedWindow`](crate::FixedWindow), a
/// [`SlidingWindow`](crate::SlidingWindow), a [`TokenBucket`](crate::TokenBucket), an
/// [`IntervalBucket`](crate::IntervalBucket),
/// [`WarmupBucket`](crate::WarmupBucket) or a [`LeakyBucket`](crate::LeakyBucket).
///
/// It decides exactly as [`Acquire`](crate::Acquire) does on a record of that limit alone, and has no records, blocks,
/// request ids or reservations.
///
/// ```
/// use lockage_core::{Meter, MeterState, Timestamp, TokenBucket};
/// use std::time::Duration;
///
/// let bucket = TokenBucket::new(100, Duration::from_secs(60), 20)?;
/// let mut state = MeterState::fresh(bucket, Timestamp::EPOCH);
/// assert!(bucket.admit(&mut state, 15, Timestamp::EPOCH).1);
/// assert!(!bucket.admit(&mut state, 6, Timestamp::EPOCH).1);
/// # Ok::<(), lockage_core::ConfigError>(())
/// ```
#[expect(private_bounds, reason = "the machines are those of this crate")]
pub trait Meter: Machine + Copy + Into<Limit> + Send + Sync + 'static {
    /// The numbers of a state.
    type Kept: Copy + Send + Sync + fmt::Debug + From<State> + Into<State>;

    /// Charges `cost` to `state` if it is admitted, or changes nothing. Returns the state as it was `now`, and whether
    /// the cost was admitted.
    #[inline]
    fn admit(self, state: &mut MeterState<Self>, cost: u64, now: Timestamp) -> (Prior, bool) {
        let before = self.settle(Some(state.0.into()), now.as_micros());
        let allowed = self.fits(before, cost);
        if allowed {
            state.0 = self.charge(before, cost).into();
        }
        (Prior(before), allowed)
    }

    /// Returns `state` as of `now`.
    fn prior(self, state: &MeterState<Self>, now: Timestamp) -> Prior {
        Prior(self.settle(Some(state.0.into()), now.as_micros()))
    }

    /// Returns from when on `state` acts like a fresh one, without further admissions. It may be after
    /// [`Timestamp::MAX`].
    fn over_at(self, state: &MeterState<Self>) -> Timestamp {
        time(self.fresh_at(state.0.into()))
    }

    /// Returns whether `state` acts like a fresh one from `now` on, and may be dropped (property D9).
    #[inline]
    fn is_over(self, state: &MeterState<Self>, now: Timestamp) -> bool {
        self.is_fresh(state.0.into(), now.as_micros())
    }
}

/// The use of one limit.
#[derive(Clone, Copy)]
pub struct MeterState<M: Meter>(M::Kept);

impl<M: Meter> MeterState<M> {
    /// Returns the state of an unused limit.
    #[inline]
    pub fn fresh(meter: M, now: Timestamp) -> Self {
        MeterState(meter.settle(None, now.as_micros()).into())
    }
}

impl<M: Meter> fmt::Debug for MeterState<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MeterState").field(&self.0).finish()
    }
}

/// A limit's state when a request was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prior(pub(crate) State);

impl Prior {
    /// Returns the decision on a request of `cost`, and charges nothing. See [`Peek`](crate::Peek).
    pub fn peek(&self, limit: &Limit, cost: u64, now: Timestamp) -> Decision {
        self.decide(limit, now, |key| key.peek(cost))
    }

    fn decide(
        &self,
        limit: &Limit,
        now: Timestamp,
        decide: impl FnOnce(&mut OneLimit<'_>) -> Decision,
    ) -> Decision {
        // Invariant: every meter is one limit, and no log.
        let single = limit.single().expect("a meter is one limit");
        let machine = single.machine().expect("a meter is no log");
        decide(&mut OneLimit::new(machine, Some(&self.0), now, MaxWait::ENDLESS))
    }
}

/// The decision on one request, whose numbers are computed on demand.
///
/// The numbers are those of [`Acquire`](crate::Acquire) for the same request, one by one or all as a [`Decision`].
#[derive(Clone, Copy, Debug)]
#[must_use = "it says whether the request may go ahead"]
pub struct LazyDecision<'a> {
    limit: &'a Limit,
    prior: Prior,
    cost: u64,
    now: Timestamp,
    allowed: bool,
}

impl<'a> LazyDecision<'a> {
    /// Creates the decision that [`Meter::admit`] of this `limit` made at `now`.
    #[inline]
    pub fn new(
        limit: &'a Limit,
        (prior, allowed): (Prior, bool),
        cost: u64,
        now: Timestamp,
    ) -> Self {
        LazyDecision { limit, prior, cost, now, allowed }
    }

    /// Returns whether the request may go ahead.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns the capacity.
    pub fn limit(&self) -> u64 {
        self.limit.capacity()
    }

    /// Returns the largest cost that would be admitted right after this decision.
    pub fn remaining(&self) -> u64 {
        self.decision().remaining
    }

    /// Returns the time until a denied request can be admitted; `None` if it was admitted, or never can be.
    pub fn retry_after(&self) -> Option<Duration> {
        self.decision().retry_after()
    }

    /// Returns the time until the limiter is as if never used, without further admissions.
    pub fn reset_after(&self) -> Duration {
        self.decision().reset_after
    }

    /// Returns the time until the request's turn, in a [`LeakyBucket`](crate::LeakyBucket).
    pub fn turn_after(&self) -> Duration {
        self.decision().turn_after
    }

    /// Returns the whole decision.
    pub fn decision(&self) -> Decision {
        match self.cost {
            0 => self.prior.peek(self.limit, 0, self.now),
            cost => self.prior.decide(self.limit, self.now, |key| key.decide(cost)),
        }
    }
}

impl From<LazyDecision<'_>> for Decision {
    fn from(decision: LazyDecision<'_>) -> Self {
        decision.decision()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::limit::{
        FixedWindow, IntervalBucket, LeakyBucket, SlidingWindow, TokenBucket, WarmupBucket,
    };

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros).unwrap()
    }

    /// D9: it is over exactly when there is nothing to wait for any more.
    fn is_over_when_nothing_is_left(meter: impl Meter) {
        let limit: Limit = meter.into();
        for (cost, others) in [(1, 0), (3, 2), (5, 4)] {
            let mut state = MeterState::fresh(meter, at(1_000));
            assert!(meter.is_over(&state, at(1_000)));
            for (cost, now) in [(cost, 1_000), (others, 1_030)] {
                assert!(meter.admit(&mut state, cost, at(now)).1);
            }
            for now in (900..1_400).map(at) {
                let reset_after = meter.prior(&state, now).peek(&limit, 0, now).reset_after;
                assert_eq!(meter.is_over(&state, now), reset_after.is_zero(), "{limit} at {now}");
                assert_eq!(meter.is_over(&state, now), meter.over_at(&state) <= now, "{limit}");
            }
        }
    }

    #[test]
    fn d9_a_state_is_over_exactly_when_nothing_is_left() {
        let time = Duration::from_micros;
        is_over_when_nothing_is_left(FixedWindow::new(9, time(100)).unwrap());
        is_over_when_nothing_is_left(SlidingWindow::new(9, time(100)).unwrap());
        is_over_when_nothing_is_left(TokenBucket::new(9, time(100), 9).unwrap());
        is_over_when_nothing_is_left(LeakyBucket::new(9, time(100), 9).unwrap());
        is_over_when_nothing_is_left(WarmupBucket::new(9, time(100), 9, time(70)).unwrap());
        is_over_when_nothing_is_left(IntervalBucket::new(3, time(50), 9).unwrap());
    }

    #[test]
    fn a_state_shows_its_numbers() {
        let window = FixedWindow::new(9, Duration::from_micros(100)).unwrap();
        let mut state = MeterState::fresh(window, at(1_000));
        assert!(window.admit(&mut state, 2, at(1_000)).1);
        assert_eq!(format!("{state:?}"), "MeterState([1000, 2])");
    }
}
