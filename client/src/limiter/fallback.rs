//! Decisions without the store, for as long as it is away.

use std::fmt;
use std::time::Duration;

use lockage_core::flow::{CircuitBreaker, CircuitBreakerConfig, Route};
use lockage_core::{
    Acquire, AcquireEach, Command, ConfigError, Decision, Limit, Origin, Peek, Timestamp, Verdict,
};

use crate::error::StoreError;
use crate::key::Key;
use crate::store::BlockingStore;
use crate::sync::{Mutex, MutexGuard, lock};

/// What a limiter decides while its store does not answer.
///
/// A call whose outcome is `NotDone` or `Unknown` is answered by this policy, and its decision says
/// so ([`Origin::Fallback`]). After several of them
/// in a row the store counts as away: calls no longer ask it and no longer wait for it, but for a
/// probe now and then, until several probes in a row were answered (see [`CircuitBreakerConfig`]).
///
/// A call that was sent and not answered may have been charged as well; that can only admit less.
pub struct Fallback {
    instead: Instead,
    circuit_breaker: CircuitBreakerConfig,
}

enum Instead {
    Allow,
    Deny,
    Share { of: u64, store: Box<dyn Decide> },
}

impl Fallback {
    /// Admits every request that the limit could ever admit, and counts none.
    pub fn open() -> Self {
        Instead::Allow.into()
    }

    /// Denies every request, until the next probe.
    pub fn closed() -> Self {
        Instead::Deny.into()
    }

    /// Applies this process's share of the limit, one part in `processes` (at least 1), in a store
    /// of this process such as `lockage_memory::MemoryStore`.
    ///
    /// All shares together are no more than the limit. The share begins unused and the store does
    /// not hear of what was admitted meanwhile: each change from the store to the shares, and each
    /// change back, can admit up to the limit's capacity once more.
    pub fn local_share(processes: u64, store: impl BlockingStore + 'static) -> Self {
        Instead::Share { of: processes, store: Box::new(store) }.into()
    }

    /// The same with other ideas of when the store is away, and back.
    pub fn with_circuit_breaker(self, circuit_breaker: CircuitBreakerConfig) -> Self {
        Fallback { circuit_breaker, ..self }
    }
}

impl From<Instead> for Fallback {
    fn from(instead: Instead) -> Self {
        Fallback { instead, circuit_breaker: CircuitBreakerConfig::default() }
    }
}

/// One limiter's policy, and what it knows of its store.
pub(super) struct Degraded {
    circuit_breaker: Mutex<CircuitBreaker>,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    standby: Standby,
}

impl Degraded {
    pub(super) fn new(
        policy: Fallback,
        limit: Limit,
        now: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Result<Self, ConfigError> {
        let standby = match policy.instead {
            Instead::Allow => Standby::Allow(limit),
            Instead::Deny => Standby::Deny(limit, policy.circuit_breaker.probe_every()),
            Instead::Share { of, store } => Standby::Share(limit.share(of)?, store),
        };
        let circuit_breaker = Mutex::new(CircuitBreaker::new(policy.circuit_breaker));
        Ok(Degraded { circuit_breaker, now: Box::new(now), standby })
    }

    pub(super) fn is_away(&self) -> bool {
        self.circuit_breaker().is_away()
    }

    /// What the store answers or, where it does not or is not asked, the standby.
    pub(super) async fn or_else<T, F>(
        &self,
        call: impl FnOnce() -> F,
        instead: impl FnOnce(&Standby) -> Result<T, StoreError>,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let route = self.route();
        if route == Route::Away {
            return instead(&self.standby);
        }
        let result = call().await;
        self.report(route, &result);
        match result {
            Err(error) if error.is_absence() => instead(&self.standby),
            answered => answered,
        }
    }

    /// Where a call that begins now goes.
    pub(super) fn route(&self) -> Route {
        self.circuit_breaker().route((self.now)())
    }

    /// Says what came of a call that took this route.
    pub(super) fn report<T>(&self, route: Route, result: &Result<T, StoreError>) {
        match result {
            Err(error) if error.is_absence() => self.circuit_breaker().failed(route, (self.now)()),
            _ => self.circuit_breaker().answered(route),
        }
    }

    /// Who decides where the store does not.
    pub(super) fn standby(&self) -> &Standby {
        &self.standby
    }

    fn circuit_breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        lock(&self.circuit_breaker)
    }
}

/// Who decides in the store's place.
pub(super) enum Standby {
    Allow(Limit),
    Deny(Limit, Duration),
    Share(Limit, Box<dyn Decide>),
}

impl Standby {
    /// A decision for each cost.
    pub(super) fn acquire(&self, key: &Key, costs: &[u64]) -> Result<Vec<Decision>, StoreError> {
        let decisions = match self {
            Standby::Share(limit, store) => store.acquire(*limit, key, costs)?,
            _ => return costs.iter().map(|&cost| self.peek(key, cost)).collect(),
        };
        let degraded = |decision| Decision { origin: Origin::Fallback, ..decision };
        Ok(decisions.into_iter().map(degraded).collect())
    }

    pub(super) fn acquire_one(&self, key: &Key, cost: u64) -> Result<Decision, StoreError> {
        let mut decisions = self.acquire(key, &[cost])?;
        Ok(decisions.pop().expect("one cost gets one decision"))
    }

    /// The same for a caller who waits no longer than `patience` for its turn in a queue.
    pub(super) fn acquire_within(
        &self,
        key: &Key,
        cost: u64,
        patience: Duration,
    ) -> Result<Decision, StoreError> {
        let Standby::Share(limit, store) = self else { return self.peek(key, cost) };
        let command = Acquire::new(*limit, cost).expect("checked before the store was asked");
        let decision = store.acquire_one(key, &command.within(patience))?;
        Ok(Decision { origin: Origin::Fallback, ..decision })
    }

    pub(super) fn peek(&self, key: &Key, cost: u64) -> Result<Decision, StoreError> {
        Ok(Decision { origin: Origin::Fallback, ..self.asked(key, cost)? })
    }

    fn asked(&self, key: &Key, cost: u64) -> Result<Decision, StoreError> {
        match self {
            Standby::Share(limit, store) => store.peek(*limit, key, cost),
            // What a key gets that was never used.
            Standby::Allow(limit) => Ok(unused(*limit, cost)?),
            Standby::Deny(limit, retry_after) => {
                let decision = unused(*limit, cost)?;
                let verdict = match decision.verdict {
                    Verdict::Never => Verdict::Never,
                    _ => Verdict::denied(*retry_after),
                };
                Ok(Decision { verdict, remaining: 0, reset_after: *retry_after, ..decision })
            }
        }
    }
}

/// The decision on a key that was never used.
pub(super) fn unused(limit: Limit, cost: u64) -> Result<Decision, StoreError> {
    let mut decision = Peek::new(limit, cost).apply(&mut None, Timestamp::EPOCH)?;
    if let (Verdict::Allowed, Ok(acquire)) = (decision.verdict, Acquire::new(limit, cost)) {
        decision = acquire.apply(&mut None, Timestamp::EPOCH)?;
    }
    Ok(decision)
}

/// A store of this process, whatever its type.
pub(super) trait Decide: Send + Sync {
    fn acquire(&self, limit: Limit, key: &Key, costs: &[u64]) -> Result<Vec<Decision>, StoreError>;
    fn acquire_one(&self, key: &Key, command: &Acquire) -> Result<Decision, StoreError>;
    fn peek(&self, limit: Limit, key: &Key, cost: u64) -> Result<Decision, StoreError>;
}

impl<S: BlockingStore> Decide for S {
    fn acquire(&self, limit: Limit, key: &Key, costs: &[u64]) -> Result<Vec<Decision>, StoreError> {
        let command =
            AcquireEach::new(limit, costs.to_vec()).expect("checked before the store was asked");
        self.execute(key, &command, Duration::MAX)
    }

    fn acquire_one(&self, key: &Key, command: &Acquire) -> Result<Decision, StoreError> {
        self.execute(key, command, Duration::MAX)
    }

    fn peek(&self, limit: Limit, key: &Key, cost: u64) -> Result<Decision, StoreError> {
        self.execute(key, &Peek::new(limit, cost), Duration::MAX)
    }
}

impl fmt::Debug for Degraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Degraded")
            .field("circuit_breaker", &self.circuit_breaker())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback")
            .field("circuit_breaker", &self.circuit_breaker)
            .finish_non_exhaustive()
    }
}
