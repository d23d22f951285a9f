//! A rate limiter on any store.

mod away;
mod turns;
mod waiting;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{Acquire, AcquireEach, Decision, Limit, Peek, RequestId, Reset};

pub use away::WhenAway;

use crate::error::Error;
use crate::key::{Key, KeyError, check_prefix};
use crate::store::Store;
use away::Away;

/// The prefix of a limiter that was given none.
const DEFAULT_PREFIX: &str = "lockage";

/// One limit, applied to each id by itself.
///
/// Two limiters share their state where they share store, prefix, id and limit. Give each limit a
/// prefix of its own: a key that was written under another limit is refused, not converted.
///
/// On a [`Timed`](crate::Timed) store it can also wait ([`Limiter::acquire`]), retry with request
/// ids ([`Limiter::with_request_ids`]), and go on without its store ([`Limiter::when_away`]).
#[derive(Clone)]
pub struct Limiter<S> {
    store: S,
    limit: Limit,
    prefix: Box<str>,
    ids: Option<Ids>,
    away: Option<Arc<Away>>,
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
        Limiter { store, limit, prefix: DEFAULT_PREFIX.into(), ids: None, away: None }
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
    /// its turn, which is after [`Decision::turn_after`], and waits for it himself. [`Limiter::acquire`]
    /// does that for him; [`Limiter::take_turn`] is for those who may give the turn back.
    ///
    /// # Errors
    /// [`Error`]; a denied request is none.
    pub async fn try_acquire(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        let command = self.request(cost)?;
        self.decide(id, command, cost).await
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
        self.decide(id, command, cost).await
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
        let call = || self.store.execute(&key, &command);
        match &self.away {
            None => Ok(call().await?),
            Some(away) => Ok(away.or_else(call, |standby| standby.acquire(&key, costs)).await?),
        }
    }

    /// Tells what [`Limiter::try_acquire`] would be told now, and charges nothing. A `cost` of
    /// zero asks for `remaining` and `reset_after` alone.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn peek(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        let key = self.key(id)?;
        let command = Peek::new(self.limit, cost);
        let call = || self.store.execute(&key, &command);
        match &self.away {
            None => Ok(call().await?),
            Some(away) => Ok(away.or_else(call, |standby| standby.peek(&key, cost)).await?),
        }
    }

    /// Forgets what `id` has used; tells whether anything was known of it.
    ///
    /// # Errors
    /// [`Error`]; nothing stands in for an absent store here.
    pub async fn reset(&self, id: &str) -> Result<bool, Error> {
        Ok(self.store.execute(&self.key(id)?, &Reset::new(self.limit)).await?)
    }

    /// A new request, with an id where this limiter gives each one.
    fn request(&self, cost: u64) -> Result<Acquire, Error> {
        let command = Acquire::new(self.limit, cost)?;
        match &self.ids {
            Some(ids) => Ok(command.with_request(ids.next(), ids.remember)?),
            None => Ok(command),
        }
    }

    async fn decide(&self, id: &str, command: Acquire, cost: u64) -> Result<Decision, Error> {
        let key = self.key(id)?;
        let call = || self.store.execute(&key, &command);
        let Some(away) = &self.away else {
            return Ok(call().await?);
        };
        let instead = |standby: &away::Standby| standby.acquire_one(&key, cost);
        Ok(away.or_else(call, instead).await?)
    }

    fn key(&self, id: &str) -> Result<Key, KeyError> {
        Key::new(&self.prefix, id)
    }
}

impl Ids {
    fn next(&self) -> RequestId {
        RequestId::from_u128(u128::from((self.random)()) << 64 | u128::from((self.random)()))
    }
}

impl<S: fmt::Debug> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("store", &self.store)
            .field("limit", &self.limit)
            .field("prefix", &self.prefix)
            .field("request_ids", &self.ids.as_ref().map(|ids| ids.remember))
            .field("away", &self.away)
            .finish()
    }
}
