//! Limits that stand in the store, for callers that block.

use std::time::Duration;

use lockage_core::{Adjusted, Decision, RequestId, Reservation, Reserved, Settlement, StoredLimit};

use super::{Blocking, Thread, ready};
use crate::error::Error;
use crate::key::KeyError;
use crate::limiter::StoredLimiter;
use crate::retry_store::RetryStore;
use crate::store::BlockingStore;

/// A [`StoredLimiter`] for callers that block the thread: the same verbs and the same decisions, with no
/// executor inside.
///
/// ```
/// use std::time::Duration;
/// use lockage::{BlockingStoredLimiter, Limit};
/// use lockage_memory::MemoryStore;
///
/// let limiter = BlockingStoredLimiter::new(MemoryStore::new(), Duration::from_millis(250));
/// let limit: Limit = "sliding-log 1/min".parse()?;
/// assert!(limiter.try_set("phone:+15550100", limit)?);
/// assert!(limiter.try_acquire("phone:+15550100", 1)?.is_allowed());
/// assert!(!limiter.try_acquire("phone:+15550100", 1)?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockingStoredLimiter<S>(StoredLimiter<RetryStore<Blocking<S>, Thread>>);

impl<S: BlockingStore> BlockingStoredLimiter<S> {
    /// A limiter with the prefix `lockage` and no default. Its calls take at most `timeout`: see
    /// [`RetryStore`].
    pub fn new(store: S, timeout: Duration) -> Self {
        let store = RetryStore::new(Blocking(store), Thread, timeout);
        BlockingStoredLimiter(StoredLimiter::new(store))
    }

    /// As [`StoredLimiter::with_prefix`].
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        Ok(BlockingStoredLimiter(self.0.with_prefix(prefix)?))
    }

    /// As [`StoredLimiter::as_client`].
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn as_client(self, client: &str) -> Result<Self, KeyError> {
        Ok(BlockingStoredLimiter(self.0.as_client(client)?))
    }

    /// As [`StoredLimiter::with_default`].
    pub fn with_default(self, limit: impl Into<StoredLimit>) -> Self {
        BlockingStoredLimiter(self.0.with_default(limit))
    }

    /// As [`StoredLimiter::set`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn set(&self, id: &str, limit: impl Into<StoredLimit>) -> Result<(), Error> {
        ready(self.0.set(id, limit))
    }

    /// As [`StoredLimiter::try_set`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn try_set(&self, id: &str, limit: impl Into<StoredLimit>) -> Result<bool, Error> {
        ready(self.0.try_set(id, limit))
    }

    /// As [`StoredLimiter::set_afresh`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn set_afresh(&self, id: &str, limit: impl Into<StoredLimit>) -> Result<(), Error> {
        ready(self.0.set_afresh(id, limit))
    }

    /// As [`StoredLimiter::limit`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn limit(&self, id: &str) -> Result<Option<StoredLimit>, Error> {
        ready(self.0.limit(id))
    }

    /// As [`StoredLimiter::remove`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn remove(&self, id: &str) -> Result<bool, Error> {
        ready(self.0.remove(id))
    }

    /// As [`StoredLimiter::try_acquire`].
    ///
    /// # Errors
    /// [`Error`]; a denied request is none.
    pub fn try_acquire(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        ready(self.0.try_acquire(id, cost))
    }

    /// As [`StoredLimiter::try_acquire_once`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn try_acquire_once(
        &self,
        id: &str,
        cost: u64,
        request: RequestId,
        remember: Duration,
    ) -> Result<Decision, Error> {
        ready(self.0.try_acquire_once(id, cost, request, remember))
    }

    /// As [`StoredLimiter::try_acquire_each`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn try_acquire_each(&self, id: &str, costs: &[u64]) -> Result<Vec<Decision>, Error> {
        ready(self.0.try_acquire_each(id, costs))
    }

    /// As [`StoredLimiter::acquire`]; it blocks the thread for as long.
    ///
    /// # Errors
    /// [`Error`].
    pub fn acquire_within(
        &self,
        id: &str,
        cost: u64,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        ready(self.0.acquire_within(id, cost, timeout))
    }

    /// As [`StoredLimiter::peek`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn peek(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        ready(self.0.peek(id, cost))
    }

    /// As [`StoredLimiter::take_up_to`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn take_up_to(&self, id: &str, most: u64) -> Result<Adjusted, Error> {
        ready(self.0.take_up_to(id, most))
    }

    /// As [`StoredLimiter::refund`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn refund(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        ready(self.0.refund(id, cost))
    }

    /// As [`StoredLimiter::penalty`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn penalty(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        ready(self.0.penalty(id, cost))
    }

    /// As [`StoredLimiter::block`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn block(&self, id: &str, span: Duration) -> Result<Adjusted, Error> {
        ready(self.0.block(id, span))
    }

    /// As [`StoredLimiter::unblock`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn unblock(&self, id: &str) -> Result<Adjusted, Error> {
        ready(self.0.unblock(id))
    }

    /// As [`StoredLimiter::reserve`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn reserve(&self, id: &str, cost: u64, hold: Duration) -> Result<Reserved, Error> {
        ready(self.0.reserve(id, cost, hold))
    }

    /// As [`StoredLimiter::reserve_as`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn reserve_as(
        &self,
        id: &str,
        cost: u64,
        request: RequestId,
        hold: Duration,
    ) -> Result<Reserved, Error> {
        ready(self.0.reserve_as(id, cost, request, hold))
    }

    /// As [`StoredLimiter::commit`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn commit(
        &self,
        id: &str,
        reservation: &Reservation,
        actual: u64,
    ) -> Result<Settlement, Error> {
        ready(self.0.commit(id, reservation, actual))
    }

    /// As [`StoredLimiter::cancel`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn cancel(&self, id: &str, reservation: &Reservation) -> Result<Settlement, Error> {
        ready(self.0.cancel(id, reservation))
    }
}
