//! Decisions in the store's place, while it does not answer.

use std::fmt;
use std::time::Duration;

use lockage_core::flow::CircuitBreakerConfig;
use lockage_core::{
    Acquire, AcquireEach, Command, ConfigError, Decision, Limit, MAX_SLOW_COSTS, Origin, Peek,
    StoredLimit, Timestamp, Verdict,
};

use super::Limiter;
use super::call::{Call, Outcome};
use super::circuit_breaker::Breaker;
use super::pipeline::{Next, Stage, Target};
use super::stored_limits::Known;
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::retry_store::HasTimeout;
use crate::runtime::Runtime;
use crate::store::{BlockingStore, Store};

/// What a limiter decides while its store does not answer.
///
/// The fallback answers a call that ends as `NotDone` or `Unknown`, and its decision says so ([`Origin::Fallback`]).
/// After several failures in a row the circuit breaker opens: calls no longer go to the store, except for occasional
/// probes, until several probes in a row are answered (see [`CircuitBreakerConfig`]).
///
/// A call that was sent and not answered may have been charged as well; that can only admit less.
///
/// # Stored limits
///
/// Under a stored limit (see [`Limiter::stored`]) the fallback uses the limit that this limiter read
/// last for the id, of the 10,000 ids used last. [`Fallback::with_unread_limit`] says what applies to
/// other ids. A limit per client is not divided into shares, since it is the client's own.
pub struct Fallback {
    instead: Instead,
    circuit_breaker: CircuitBreakerConfig,
    unread: Option<UnreadLimit>,
}

/// Which limit a fallback applies to an id whose stored limit its limiter has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a fallback has one, and a limit is plain data")]
pub enum UnreadLimit {
    /// The limit that the limiter read last, for any id; refused if it has read none.
    LastSeen,
    /// This limit.
    Given(StoredLimit),
    /// None: the caller gets the store's error.
    Refused,
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

    /// Applies this process's share of the limit, one part in `processes` (at least 1), in a store of this process such
    /// as `lockage_memory::MemoryStore`.
    ///
    /// All shares together do not exceed the limit. A share begins unused, and the store does not learn what it
    /// admitted. Each change from the store to the shares, and each change back, can admit up to the limit's capacity
    /// once more. A share that rounds to nothing denies every request.
    pub fn local_share(processes: u64, store: impl BlockingStore + 'static) -> Self {
        Instead::Share { of: processes, store: Box::new(store) }.into()
    }

    /// Sets when the circuit opens and closes.
    pub fn with_circuit_breaker(self, circuit_breaker: CircuitBreakerConfig) -> Self {
        Fallback { circuit_breaker, ..self }
    }

    /// Sets the limit of ids whose stored limit has not been read. The default is that of the limiter's
    /// [`StoredLimits`](super::StoredLimits) or, without one, [`UnreadLimit::Refused`].
    pub fn with_unread_limit(self, unread: UnreadLimit) -> Self {
        Fallback { unread: Some(unread), ..self }
    }
}

impl From<Instead> for Fallback {
    fn from(instead: Instead) -> Self {
        Fallback { instead, circuit_breaker: CircuitBreakerConfig::default(), unread: None }
    }
}

impl<S: Store> Limiter<S> {
    /// Sets the fallback for calls that the store does not answer. Without it, callers get the error.
    #[doc = limiter_example!(
        "let limiter = limiter.with_fallback(lockage::Fallback::closed())?; // denies where the store is away"
        r#"assert_eq!(limiter.try_acquire("user:42", 1).await?.origin, Origin::Store);"#
    )]
    /// # Errors
    /// [`ConfigError`] if the limit leaves no share for a process.
    pub fn with_fallback(mut self, fallback: Fallback) -> Result<Self, ConfigError>
    where
        S: HasTimeout,
    {
        if let Instead::Share { of, .. } = fallback.instead {
            match self.source.limit() {
                Some(limit) => drop(limit.share(of)?),
                None if of == 0 => return Err(ConfigError::Zero { what: "number of shares" }),
                None => {}
            }
        }
        let runtime = self.store.runtime().clone();
        let breaker = Breaker::new(fallback.circuit_breaker, move || runtime.now());
        self.stages.circuit_breaker = Some(breaker.into());
        self.stages.fallback = Some(StandIn(fallback).into());
        Ok(self)
    }

    /// Returns whether the circuit is open: the store did not answer, and the fallback decides.
    pub fn is_circuit_open(&self) -> bool {
        self.stages.circuit_breaker.as_ref().is_some_and(|breaker| breaker.is_open())
    }
}

/// Answers the calls that the store does not.
pub(super) struct StandIn(Fallback);

impl Stage for StandIn {
    async fn run<C: Call, N: Next>(
        &self,
        target: &Target<'_>,
        call: &C,
        next: &N,
    ) -> Result<C::Outcome, Error> {
        match next.run(target, call).await {
            Err(Error::Store(error)) if !call.rules().needs_store && error.is_absence() => {
                self.answer(target, call, error)
            }
            answered => answered,
        }
    }
}

impl StandIn {
    fn answer<C: Call>(
        &self,
        target: &Target<'_>,
        call: &C,
        error: StoreError,
    ) -> Result<C::Outcome, Error> {
        let Some(known) = self.limit(target) else { return Err(error.into()) };
        let known = Known { limit: target.source.bounded(known.limit)?, ..known };
        let mut decisions = self.0.decide(&known, target, call)?;
        decisions.iter_mut().for_each(|decision| decision.origin = Origin::Fallback);
        C::Outcome::of(decisions.into_iter()).ok_or(Error::Store(error))
    }

    /// Returns the limit that applies: see [`Fallback`].
    fn limit(&self, Target { source, key, .. }: &Target<'_>) -> Option<Known> {
        if let Some(read) = source.read_before(key) {
            return Some(read);
        }
        match self.0.unread {
            None => source.known(key),
            Some(UnreadLimit::LastSeen) => source.last_seen(key),
            Some(UnreadLimit::Given(limit)) => Some(source.known_as(key, limit)),
            Some(UnreadLimit::Refused) => None,
        }
    }
}

impl Fallback {
    fn decide<C: Call>(
        &self,
        known: &Known,
        &Target { key, source, .. }: &Target<'_>,
        call: &C,
    ) -> Result<Vec<Decision>, StoreError> {
        let now = source.now();
        let each = |decide: &dyn Fn(u64) -> Result<Decision, StoreError>| {
            call.costs().iter().map(|&cost| decide(cost)).collect()
        };
        let probe_every = self.circuit_breaker.probe_every();
        let (of, store) = match &self.instead {
            // What a key gets that was never used.
            Instead::Allow => return each(&|cost| unused(known.limit, cost, now)),
            Instead::Deny => return each(&|cost| denied(known.limit, cost, now, probe_every)),
            Instead::Share { of, store } => (*of, store),
        };
        let (limit, key) = match &known.own_key {
            Some(own) => (Ok(known.limit), own),
            None => (known.limit.share(of), key),
        };
        let Ok(limit) = limit else {
            return each(&|cost| denied(known.limit, cost, now, probe_every));
        };
        if !call.rules().charges {
            return each(&|cost| store.peek(limit, key, cost));
        }
        match call.latest_turn() {
            None => store.acquire(limit, key, call.costs()),
            Some(latest) => each(&|cost| {
                let command =
                    Acquire::new(limit, cost).expect("checked before the store was asked");
                store.acquire_one(key, &command.within(latest))
            }),
        }
    }
}

fn denied(
    limit: Limit,
    cost: u64,
    now: Timestamp,
    retry_after: Duration,
) -> Result<Decision, StoreError> {
    let mut decision = unused(limit, cost, now)?;
    if decision.verdict != Verdict::Never {
        decision.verdict = Verdict::denied(retry_after);
    }
    (decision.remaining, decision.reset_after) = (0, retry_after);
    Ok(decision)
}

/// Returns the decision on a key that was never used.
pub(super) fn unused(limit: Limit, cost: u64, now: Timestamp) -> Result<Decision, StoreError> {
    let mut decision = Peek::new(limit, cost).apply(&mut None, now)?;
    if let (Verdict::Allowed, Ok(acquire)) = (decision.verdict, Acquire::new(limit, cost)) {
        decision = acquire.apply(&mut None, now)?;
    }
    Ok(decision)
}

/// A store of this process, whatever its type.
trait Decide: Send + Sync {
    fn acquire(&self, limit: Limit, key: &Key, costs: &[u64]) -> Result<Vec<Decision>, StoreError>;
    fn acquire_one(&self, key: &Key, command: &Acquire) -> Result<Decision, StoreError>;
    fn peek(&self, limit: Limit, key: &Key, cost: u64) -> Result<Decision, StoreError>;
}

impl<S: BlockingStore> Decide for S {
    fn acquire(&self, limit: Limit, key: &Key, costs: &[u64]) -> Result<Vec<Decision>, StoreError> {
        let mut decisions = Vec::with_capacity(costs.len());
        for some in costs.chunks(MAX_SLOW_COSTS) {
            let command = AcquireEach::new(limit, some.to_vec()).expect("checked, and they fit");
            decisions.extend(self.execute(key, &command, Duration::MAX)?);
        }
        Ok(decisions)
    }

    fn acquire_one(&self, key: &Key, command: &Acquire) -> Result<Decision, StoreError> {
        self.execute(key, command, Duration::MAX)
    }

    fn peek(&self, limit: Limit, key: &Key, cost: u64) -> Result<Decision, StoreError> {
        self.execute(key, &Peek::new(limit, cost), Duration::MAX)
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback")
            .field("circuit_breaker", &self.circuit_breaker)
            .field("unread_limit", &self.unread)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
