//! Decisions in the store's place, while it does not answer.

use std::fmt;
use std::time::Duration;

use lockage_core::flow::CircuitBreakerConfig;
use lockage_core::{
    Acquire, AcquireEach, Command, ConfigError, Cost, Decision, Limit, MAX_SLOW_COSTS, Origin,
    Peek, StoredLimit, Timestamp, Verdict,
};

use super::ask::{Answer, Ask};
use super::stored_limits::Known;
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::store::BlockingStore;

/// The decisions of a limiter while its store does not answer.
///
/// The fallback answers a call that ends as `NotDone` or `Unknown`, and its decision has [`Origin::Fallback`]. After
/// several failures in a row the circuit breaker opens: calls no longer go to the store, except for occasional probes,
/// until several probes in a row are answered (see [`CircuitBreakerConfig`]).
///
/// A call that was sent and not answered may have been charged as well; that can only lead to fewer admissions.
///
/// # Stored limits
///
/// Under a stored limit (see [`Limiter::stored`](crate::Limiter::stored)) the fallback uses the limit that this limiter
/// read last for the id, of the 10,000 ids used last. [`Fallback::with_unread_limit`] sets the limit of other ids. A
/// limit per client is not divided into shares, since it is the client's own.
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
    /// All shares together do not exceed the limit. A share begins unused, and the store does not learn of its
    /// admissions. Each change from the store to the shares, and each change back, can admit up to the limit's capacity
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

impl Fallback {
    /// Checks that the limit leaves a share for a process.
    pub(super) fn check(&self, limit: Option<Limit>) -> Result<(), ConfigError> {
        match (&self.instead, limit) {
            (Instead::Share { of, .. }, Some(limit)) => limit.share(*of).map(drop),
            (Instead::Share { of: 0, .. }, None) => {
                Err(ConfigError::Zero { what: "number of shares" })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn circuit_breaker(&self) -> CircuitBreakerConfig {
        self.circuit_breaker
    }

    /// Answers in the store's place if it did not answer, and the request does not need the store.
    pub(super) fn answer(&self, ask: &Ask<'_>, error: Error) -> Result<Answer, Error> {
        let is_absence = matches!(&error, Error::Store(error) if error.is_absence());
        if ask.needs_store() || !is_absence {
            return Err(error);
        }
        let Some(known) = self.limit(ask) else { return Err(error) };
        let known = Known { limit: ask.source.bounded(known.limit)?, ..known };
        let mut decisions = self.decide(&known, ask)?;
        decisions.iter_mut().for_each(|decision| decision.origin = Origin::Fallback);
        Ok(Answer::of(ask, decisions))
    }

    /// Returns the limit that applies: see [`Fallback`].
    fn limit(&self, Ask { source, key, .. }: &Ask<'_>) -> Option<Known> {
        if let Some(read) = source.read_before(key) {
            return Some(read);
        }
        match self.unread {
            None => source.known(key),
            Some(UnreadLimit::LastSeen) => source.last_seen(key),
            Some(UnreadLimit::Given(limit)) => Some(source.known_as(key, limit)),
            Some(UnreadLimit::Refused) => None,
        }
    }

    fn decide(&self, known: &Known, ask: &Ask<'_>) -> Result<Vec<Decision>, StoreError> {
        let Ask { key, costs, .. } = *ask;
        let now = ask.source.now();
        let each = |decide: &dyn Fn(&Cost) -> Result<Decision, StoreError>| {
            costs.iter().map(decide).collect()
        };
        let probe_every = self.circuit_breaker.probe_every();
        let (of, store) = match &self.instead {
            // As for a key that was never used.
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
        if !ask.mode.charges() {
            return each(&|cost| store.peek(limit, key, cost));
        }
        let for_all: Option<Vec<u64>> = costs.iter().map(Cost::for_all).collect();
        match (ask.latest_turn, for_all) {
            (None, Some(costs)) => store.acquire(limit, key, &costs),
            (latest, _) => each(&|cost| {
                let command =
                    Acquire::by_part(limit, *cost).expect("checked before the store was asked");
                store.acquire_one(key, &latest.map_or(command, |latest| command.within(latest)))
            }),
        }
    }
}

fn denied(
    limit: Limit,
    cost: &Cost,
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
pub(super) fn unused(limit: Limit, cost: &Cost, now: Timestamp) -> Result<Decision, StoreError> {
    let mut decision = Peek::by_part(limit, *cost).apply(&mut None, now)?;
    if let (Verdict::Allowed, Ok(acquire)) = (decision.verdict, Acquire::by_part(limit, *cost)) {
        decision = acquire.apply(&mut None, now)?;
    }
    Ok(decision)
}

/// A store of this process, whatever its type.
trait Decide: Send + Sync {
    fn acquire(&self, limit: Limit, key: &Key, costs: &[u64]) -> Result<Vec<Decision>, StoreError>;
    fn acquire_one(&self, key: &Key, command: &Acquire) -> Result<Decision, StoreError>;
    fn peek(&self, limit: Limit, key: &Key, cost: &Cost) -> Result<Decision, StoreError>;
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

    fn peek(&self, limit: Limit, key: &Key, cost: &Cost) -> Result<Decision, StoreError> {
        self.execute(key, &Peek::by_part(limit, *cost), Duration::MAX)
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
