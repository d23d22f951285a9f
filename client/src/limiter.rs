//! A rate limiter on any store.

use lockage_core::{Acquire, AcquireEach, Decision, Limit, Peek, Reset};

use crate::error::Error;
use crate::key::{Key, KeyError, check_prefix};
use crate::store::Store;

/// The prefix of a limiter that was given none.
const DEFAULT_PREFIX: &str = "lockage";

/// One limit, applied to each id by itself.
///
/// Two limiters share their state where they share store, prefix, id and limit. Give each limit a
/// prefix of its own: a key that was written under another limit is refused, not converted.
#[derive(Clone, Debug)]
pub struct Limiter<S> {
    store: S,
    limit: Limit,
    prefix: Box<str>,
}

impl<S: Store> Limiter<S> {
    /// A limiter with the prefix `lockage`.
    pub fn new(store: S, limit: Limit) -> Self {
        Limiter { store, limit, prefix: DEFAULT_PREFIX.into() }
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
    /// # Errors
    /// [`Error`]; a denied request is none.
    pub async fn try_acquire(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        let command = Acquire::new(self.limit, cost)?;
        Ok(self.store.execute(&self.key(id)?, &command).await?)
    }

    /// Decides several requests for `id` in one call: in order, at one time, each as if sent
    /// singly. A decision for each.
    ///
    /// # Errors
    /// [`Error`], also for an empty list, a cost of zero, or more than
    /// [`MAX_COSTS`](lockage_core::MAX_COSTS).
    pub async fn try_acquire_each(&self, id: &str, costs: &[u64]) -> Result<Vec<Decision>, Error> {
        let command = AcquireEach::new(self.limit, costs.to_vec())?;
        Ok(self.store.execute(&self.key(id)?, &command).await?)
    }

    /// Tells what [`Limiter::try_acquire`] would be told now, and charges nothing. A `cost` of
    /// zero asks for `remaining` and `reset_after` alone.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn peek(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        Ok(self.store.execute(&self.key(id)?, &Peek::new(self.limit, cost)).await?)
    }

    /// Forgets what `id` has used; tells whether anything was known of it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn reset(&self, id: &str) -> Result<bool, Error> {
        Ok(self.store.execute(&self.key(id)?, &Reset::new(self.limit)).await?)
    }

    fn key(&self, id: &str) -> Result<Key, KeyError> {
        Key::new(&self.prefix, id)
    }
}
