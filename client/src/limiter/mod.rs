//! A rate limiter on any store.

mod adjusting;
mod coalesce;
mod denials;
mod deny_cache;
mod fallback;
#[cfg(all(test, loom))]
mod loom_tests;
mod permits;
mod prefetch;
mod reserving;
mod shadow;
mod shards;
mod stored;
mod turns;
mod waiting;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{Acquire, AcquireEach, Decision, Limit, Peek, RequestId, Reset};

pub use coalesce::{Coalescing, QueueFull};
pub use deny_cache::{DenyCache, DenyCacheStats};
pub use fallback::Fallback;
pub use prefetch::{Prefetch, PrefetchStats};
pub use shadow::ShadowStats;
pub use stored::StoredLimiter;

use crate::error::{Error, StoreError};
use crate::key::{Key, KeyError, check_prefix};
use crate::runtime::random_bits;
use crate::store::Store;
use coalesce::Coalescer;
use denials::Denials;
use fallback::Degraded;
use permits::Permits;
use shadow::Shadow;

/// The prefix of a limiter that was given none.
const DEFAULT_PREFIX: &str = "lockage";

/// One limit, applied to each id by itself.
///
/// Two limiters share their state where they share store, prefix and id. Those of one prefix should have
/// one limit: where it changes, what was used stays used, and right after the change at most the new
/// capacity less what was used remains (see [`Limit`]).
///
/// On a [`RetryStore`](crate::RetryStore) store it can also wait ([`Limiter::acquire_within`]), retry with request
/// ids ([`Limiter::with_idempotency`]), go on without its store ([`Limiter::with_fallback`]), and answer
/// by itself what is known to be denied ([`Limiter::with_deny_cache`]). On a store far away it can put
/// the requests of many callers into one call ([`Limiter::with_coalescing`]), and for the highest rates take permits
/// ahead ([`Limiter::with_prefetch`]).
///
/// [`Limiter::in_shadow`] tries a limit without enforcing it.
#[derive(Clone)]
pub struct Limiter<S> {
    store: S,
    limit: Limit,
    prefix: Box<str>,
    ids: Option<Ids>,
    away: Option<Arc<Degraded>>,
    denials: Option<Arc<Denials>>,
    shadow: Option<Arc<Shadow>>,
    coalescer: Option<Arc<Coalescer>>,
    permits: Option<Arc<Permits>>,
}

/// Gives each acquire an id of its own.
#[derive(Clone)]
struct Ids {
    remember: Duration,
    random: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl<S: Store> Limiter<S> {
    /// A limiter with the prefix `lockage`.
    pub fn new(store: S, limit: Limit) -> Self {
        Limiter {
            store,
            limit,
            prefix: DEFAULT_PREFIX.into(),
            ids: None,
            away: None,
            denials: None,
            shadow: None,
            coalescer: None,
            permits: None,
        }
    }

    /// The same with another prefix: its keys are `prefix:{id}`.
    ///
    /// # Errors
    /// [`KeyError`] for an empty prefix, or one with a brace.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        check_prefix(prefix)?;
        Ok(Limiter { prefix: prefix.into(), ..self })
    }

    /// The limit.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Admits a request of `cost` (at least 1) for `id` and charges it, or changes nothing.
    ///
    /// A [`LeakyBucket`](crate::LeakyBucket) admits it **to a queue**: the caller must not go ahead before
    /// its turn, which is after [`Decision::turn_after`], and waits for it himself. [`Limiter::acquire_within`]
    /// does that for him; [`Limiter::take_turn`] is for those who may give the turn back.
    ///
    /// # Errors
    /// [`Error`]; a denied request is none.
    pub async fn try_acquire(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        self.try_acquire_within(id, cost, None).await
    }

    /// The same under an id that the caller chose: within `remember` (1 us to 2^50 us), a repetition
    /// with this id and cost gets the same answer and is not charged again.
    ///
    /// Only an admitted request is remembered, and of each key the last
    /// [`REMEMBERED_REQUESTS`](lockage_core::REMEMBERED_REQUESTS): a repetition of a denied one, or of one
    /// that has been forgotten, is a new request.
    ///
    /// # Errors
    /// [`Error`], also for a `remember` out of range, and for an id that was used with another cost.
    pub async fn try_acquire_once(
        &self,
        id: &str,
        cost: u64,
        request: RequestId,
        remember: Duration,
    ) -> Result<Decision, Error> {
        let command = Acquire::new(self.limit, cost)?.with_request(request, remember)?;
        let key = self.key(id)?;
        self.tell(id, cost, self.decide(&key, command, cost).await)
    }

    /// Decides several requests for `id` in one call: in order, at one time, each as if sent
    /// singly. A decision for each.
    ///
    /// # Errors
    /// [`Error`], also for an empty list, a cost of zero, or more than
    /// [`MAX_COSTS`](lockage_core::MAX_COSTS).
    pub async fn try_acquire_each(&self, id: &str, costs: &[u64]) -> Result<Vec<Decision>, Error> {
        let command = AcquireEach::new(self.limit, costs.to_vec())?;
        let key = self.key(id)?;
        if let Some(denied) = self.denials.as_ref().and_then(|known| known.answer_each(&key, costs))
        {
            return self.tell_each(id, costs, Ok(denied));
        }
        let asking = self.asking(&key);
        let call = || self.store.execute(&key, &command);
        let decided = match &self.away {
            None => call().await,
            Some(away) => away.or_else(call, |standby| standby.acquire(&key, costs)).await,
        };
        for (&cost, decision) in costs.iter().zip(decided.iter().flatten()) {
            asking.learn(cost, decision);
        }
        self.tell_each(id, costs, decided)
    }

    /// Tells what [`Limiter::try_acquire`] would be told now, and charges nothing. A `cost` of
    /// zero asks for `remaining` and `reset_after` alone.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn peek(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        let key = self.key(id)?;
        let command = Peek::new(self.limit, cost);
        let asking = self.asking(&key);
        let call = || self.store.execute(&key, &command);
        let decided = match &self.away {
            None => call().await,
            Some(away) => away.or_else(call, |standby| standby.peek(&key, cost)).await,
        };
        if let Ok(decision) = &decided {
            asking.learn(cost, decision);
        }
        self.tell_peeked(id, cost, decided)
    }

    /// Forgets what `id` has used; tells whether anything was known of it.
    ///
    /// # Errors
    /// [`Error`]; nothing stands in for an absent store here.
    pub async fn reset(&self, id: &str) -> Result<bool, Error> {
        let key = self.key(id)?;
        let _forgetting = (self.forget_denial(&key), self.drop_held(&key));
        Ok(self.store.execute(&key, &Reset).await?)
    }

    /// As [`Limiter::try_acquire`], for a caller who would wait for `patience` to be admitted, and for its
    /// turn.
    async fn try_acquire_within(
        &self,
        id: &str,
        cost: u64,
        patience: Option<Duration>,
    ) -> Result<Decision, Error> {
        let command = Acquire::new(self.limit, cost)?;
        let key = self.key(id)?;
        if let Some(spent) = self.spend_held(&key, cost) {
            return self.tell(id, cost, Ok(spent));
        }
        if let Some(denied) = self.known_denial(&key, cost, patience.unwrap_or_default()) {
            return self.tell(id, cost, Ok(denied));
        }
        if let Some(decided) = self.take_ahead(&key, cost).await? {
            return self.tell(id, cost, decided);
        }
        if let Some(patience) = patience.filter(|_| self.has_turns()) {
            let command = self.with_own_id(command)?.within(patience);
            return self.tell(id, cost, self.decide_within(&key, command, cost, patience).await);
        }
        if let Some(coalescer) = &self.coalescer {
            return self.tell(id, cost, self.decide_with_others(coalescer, &key, cost).await?);
        }
        let command = self.with_own_id(command)?;
        self.tell(id, cost, self.decide(&key, command, cost).await)
    }

    /// The same request under an id, where this limiter gives each one.
    fn with_own_id(&self, command: Acquire) -> Result<Acquire, Error> {
        match &self.ids {
            Some(ids) => Ok(command.with_request(ids.next(), ids.remember)?),
            None => Ok(command),
        }
    }

    /// In one call with the requests of others. A full queue is an error for the caller, but in shadow
    /// mode, which turns nobody away.
    async fn decide_with_others(
        &self,
        coalescer: &Arc<Coalescer>,
        key: &Key,
        cost: u64,
    ) -> Result<Result<Decision, StoreError>, Error> {
        let asking = self.asking(key);
        match coalescer.decide(key, cost, self.away.as_ref()).await {
            Ok(decision) => {
                asking.learn(cost, &decision);
                Ok(Ok(decision))
            }
            Err(Error::Store(error)) => Ok(Err(error)),
            Err(Error::QueueFull(full)) if self.shadow.is_some() => {
                Ok(Err(StoreError::NotDone(Box::new(full))))
            }
            Err(error) => Err(error),
        }
    }

    async fn decide(&self, key: &Key, command: Acquire, cost: u64) -> Result<Decision, StoreError> {
        let instead = |standby: &fallback::Standby| standby.acquire_one(key, cost);
        self.decide_or(key, command, cost, instead).await
    }

    /// Decides a request of `cost`, or has the policy for an absent store decide.
    async fn decide_or(
        &self,
        key: &Key,
        command: Acquire,
        cost: u64,
        instead: impl FnOnce(&fallback::Standby) -> Result<Decision, StoreError>,
    ) -> Result<Decision, StoreError> {
        let asking = self.asking(key);
        let call = || self.store.execute(key, &command);
        let decision = match &self.away {
            None => call().await?,
            Some(away) => away.or_else(call, instead).await?,
        };
        asking.learn(cost, &decision);
        Ok(decision)
    }

    fn key(&self, id: &str) -> Result<Key, KeyError> {
        Key::under(&self.prefix, id)
    }
}

impl Ids {
    fn next(&self) -> RequestId {
        random_id(&*self.random)
    }
}

fn random_id(random: impl Fn() -> u64) -> RequestId {
    RequestId::from_u128(random_bits(random))
}

impl<S: fmt::Debug> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("store", &self.store)
            .field("limit", &self.limit)
            .field("prefix", &self.prefix)
            .field("request_ids", &self.ids.as_ref().map(|ids| ids.remember))
            .field("away", &self.away)
            .field("deny_cache", &self.denials)
            .field("shadow", &self.shadow)
            .field("coalescing", &self.coalescer)
            .field("prefetch", &self.permits)
            .finish()
    }
}
