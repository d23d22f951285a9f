//! One limit without keys.

use std::fmt;

use lockage::store::Clock;
use lockage_core::{
    CostError, Decision, Gcra, LazyDecision, Limit, Meter, MeterState, Prior, Timestamp,
};

use super::{UnsupportedLimit, check_cost};
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use crate::clock::MonotonicClock;
use crate::sync::{self, AtomicU64, Mutex, Ordering};

/// One limit without keys, in this process only.
///
/// A [`TokenBucket`](lockage_core::TokenBucket) or [`LeakyBucket`](lockage_core::LeakyBucket) is one atomic word, if its
/// rate fits (nearly all do, see [`Gcra::of`]). Other limits are behind a lock. Takes every limit but a
/// sliding log, a calendar window, a limit in flight and a composite, and decides as a [`Limiter`](lockage::Limiter), to the microsecond.
///
/// ```
/// use lockage_memory::LocalLimiter;
///
/// let limiter = LocalLimiter::new("token-bucket 100/min burst 20".parse()?)?;
/// let decision = limiter.try_acquire(15)?;
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 5);
/// assert!(limiter.try_acquire(6)?.retry_after().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LocalLimiter<C> {
    limit: Limit,
    state: State,
    clock: C,
}

#[derive(Debug)]
enum State {
    Word(Word),
    Locked(Box<dyn Lone>),
}

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
impl LocalLimiter<MonotonicClock> {
    /// Creates a limiter on a clock of its own.
    ///
    /// # Errors
    /// [`UnsupportedLimit`] for a sliding log, a calendar window, a limit in flight or a composite.
    pub fn new(limit: Limit) -> Result<Self, UnsupportedLimit> {
        LocalLimiter::with_clock(limit, MonotonicClock::new())
    }
}

impl<C: Clock> LocalLimiter<C> {
    /// Creates a limiter on this clock; a [`TickingClock`](crate::TickingClock) is the cheapest.
    ///
    /// # Errors
    /// [`UnsupportedLimit`] for a sliding log, a calendar window, a limit in flight or a composite.
    pub fn with_clock(limit: Limit, clock: C) -> Result<Self, UnsupportedLimit> {
        let state = match Gcra::of(&limit) {
            Some(gcra) => State::Word(Word::new(gcra)),
            None => State::Locked(locked(limit)?),
        };
        Ok(LocalLimiter { limit, state, clock })
    }

    /// Returns the limit.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Admits a request of `cost` (at least 1) and charges it, or changes nothing.
    ///
    /// # Errors
    /// [`CostError::Zero`] for a cost of zero.
    #[inline]
    pub fn try_acquire(&self, cost: u64) -> Result<LazyDecision<'_>, CostError> {
        check_cost(cost)?;
        let now = self.clock.now();
        let admitted = match &self.state {
            State::Word(word) => word.acquire(cost, now),
            State::Locked(lone) => lone.acquire(cost, now),
        };
        Ok(LazyDecision::new(&self.limit, admitted, cost, now))
    }

    /// Returns the decision that [`LocalLimiter::try_acquire`] would make now, and charges nothing. A
    /// `cost` of zero asks only for `remaining` and `reset_after`.
    pub fn peek(&self, cost: u64) -> Decision {
        let now = self.clock.now();
        let prior = match &self.state {
            State::Word(word) => word.prior(now),
            State::Locked(lone) => lone.prior(now),
        };
        prior.peek(&self.limit, cost, now)
    }

    /// Forgets the use, and returns whether there was any.
    pub fn reset(&self) -> bool {
        match &self.state {
            State::Word(word) => word.reset(),
            State::Locked(lone) => lone.reset(),
        }
    }
}

/// A bucket in one word.
///
/// The word alone decides. `latest` is the time of the last admission, and earlier times count as it
/// (D10). It is written after the word; a thread in between with an earlier time decides by that time,
/// and may be denied an admissible request, never the reverse.
#[derive(Debug)]
pub(super) struct Word {
    gcra: Gcra,
    state: AtomicU64,
    latest: AtomicU64,
}

impl Word {
    pub(super) fn new(gcra: Gcra) -> Self {
        Word { gcra, state: AtomicU64::new(0), latest: AtomicU64::new(0) }
    }

    #[inline]
    pub(super) fn acquire(&self, cost: u64, now: Timestamp) -> (Prior, bool) {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let now = self.at(now);
            let Some(charged) = self.gcra.admit(state, cost, now) else {
                return (self.gcra.prior(state, now), false);
            };
            match self.state.compare_exchange_weak(
                state,
                charged,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    if self.latest.load(Ordering::Relaxed) < now.as_micros() {
                        self.latest.fetch_max(now.as_micros(), Ordering::Release);
                    }
                    return (self.gcra.prior(state, now), true);
                }
                Err(seen) => state = seen,
            }
        }
    }

    fn prior(&self, now: Timestamp) -> Prior {
        let state = self.state.load(Ordering::Acquire);
        self.gcra.prior(state, self.at(now))
    }

    fn reset(&self) -> bool {
        let state = self.state.swap(0, Ordering::AcqRel);
        self.latest.store(0, Ordering::Release);
        state > 0
    }

    /// Returns the time that a reading counts as.
    #[inline]
    fn at(&self, now: Timestamp) -> Timestamp {
        let latest = self.latest.load(Ordering::Acquire);
        if latest > now.as_micros() { stepped_back(latest, now) } else { now }
    }
}

#[cold]
fn stepped_back(latest: u64, now: Timestamp) -> Timestamp {
    Timestamp::from_micros(latest).unwrap_or(now)
}

/// Any limit behind a lock.
trait Lone: Send + Sync + fmt::Debug {
    fn acquire(&self, cost: u64, now: Timestamp) -> (Prior, bool);
    fn prior(&self, now: Timestamp) -> Prior;
    fn reset(&self) -> bool;
}

fn locked(limit: Limit) -> Result<Box<dyn Lone>, UnsupportedLimit> {
    Ok(match limit {
        Limit::FixedWindow(meter) => Box::new(Locked::new(meter)),
        Limit::SlidingWindow(meter) => Box::new(Locked::new(meter)),
        Limit::TokenBucket(meter) => Box::new(Locked::new(meter)),
        Limit::IntervalBucket(meter) => Box::new(Locked::new(meter)),
        Limit::WarmupBucket(meter) => Box::new(Locked::new(meter)),
        Limit::LeakyBucket(meter) => Box::new(Locked::new(meter)),
        limit => return Err(limit.into()),
    })
}

struct Locked<M: Meter> {
    meter: M,
    state: Mutex<Option<MeterState<M>>>,
}

impl<M: Meter> Locked<M> {
    fn new(meter: M) -> Self {
        Locked { meter, state: Mutex::new(None) }
    }
}

impl<M: Meter> Lone for Locked<M> {
    fn acquire(&self, cost: u64, now: Timestamp) -> (Prior, bool) {
        let mut slot = sync::lock(&self.state);
        let mut state = slot.unwrap_or(MeterState::fresh(self.meter, now));
        let admitted = self.meter.admit(&mut state, cost, now);
        if admitted.1 {
            *slot = Some(state);
        }
        admitted
    }

    fn prior(&self, now: Timestamp) -> Prior {
        let state = *sync::lock(&self.state);
        self.meter.prior(&state.unwrap_or(MeterState::fresh(self.meter, now)), now)
    }

    fn reset(&self) -> bool {
        sync::lock(&self.state).take().is_some()
    }
}

impl<M: Meter> fmt::Debug for Locked<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Locked").field(&*sync::lock(&self.state)).finish()
    }
}
