//! Limiters for callers that block.

mod stored;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockage_core::{
    Adjusted, Cancellation, Command, ConfigError, Decision, Limit, RequestId, Reservation,
    Reserved, Settlement, Ticket, Turn,
};

pub use stored::BlockingStoredLimiter;

use crate::error::{Error, StoreError};
use crate::key::{Key, KeyError};
use crate::limiter::{
    DenyCache, DenyCacheStats, Fallback, Limiter, Prefetch, PrefetchStats, ShadowStats,
};
use crate::retry_store::RetryStore;
use crate::runtime::Runtime;
use crate::store::{BlockingStore, Store};

/// A [`Limiter`] for callers that block the thread: the same verbs and the same decisions, with no
/// executor inside.
///
/// ```
/// use std::time::Duration;
/// use lockage::BlockingLimiter;
/// use lockage_memory::MemoryStore;
///
/// let limit = "token-bucket 100/s burst 1".parse()?;
/// let limiter = BlockingLimiter::new(MemoryStore::new(), limit, Duration::from_millis(250));
/// for _ in 0..3 {
///     // Waits for its permit, here for 10 ms, but no longer than 2 s.
///     assert!(limiter.acquire_within("user:42", 1, Duration::from_secs(2))?.is_allowed());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockingLimiter<S>(Limiter<RetryStore<Blocking<S>, Thread>>);

impl<S: BlockingStore> BlockingLimiter<S> {
    /// A limiter with the prefix `lockage`. Its calls take at most `timeout`: see [`RetryStore`].
    pub fn new(store: S, limit: Limit, timeout: Duration) -> Self {
        BlockingLimiter(Limiter::new(RetryStore::new(Blocking(store), Thread, timeout), limit))
    }

    /// As [`Limiter::with_prefix`].
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        Ok(BlockingLimiter(self.0.with_prefix(prefix)?))
    }

    /// As [`Limiter::with_idempotency`].
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn with_idempotency(self, remember: Duration) -> Result<Self, ConfigError> {
        Ok(BlockingLimiter(self.0.with_idempotency(remember)?))
    }

    /// As [`Limiter::with_fallback`].
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn with_fallback(self, policy: Fallback) -> Result<Self, ConfigError> {
        Ok(BlockingLimiter(self.0.with_fallback(policy)?))
    }

    /// As [`Limiter::is_away`].
    pub fn is_away(&self) -> bool {
        self.0.is_away()
    }

    /// As [`Limiter::with_deny_cache`].
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn with_deny_cache(self, cache: DenyCache) -> Result<Self, ConfigError> {
        Ok(BlockingLimiter(self.0.with_deny_cache(cache)?))
    }

    /// As [`Limiter::deny_cache_stats`].
    pub fn deny_cache_stats(&self) -> Option<DenyCacheStats> {
        self.0.deny_cache_stats()
    }

    /// As [`Limiter::with_prefetch`], but that nobody waits for what another caller has asked for: each who finds no
    /// permits meanwhile asks for his own.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn with_prefetch(self, prefetch: Prefetch) -> Result<Self, ConfigError> {
        Ok(BlockingLimiter(self.0.with_prefetch(prefetch.without_waiting())?))
    }

    /// As [`Limiter::prefetch_stats`].
    pub fn prefetch_stats(&self) -> Option<PrefetchStats> {
        self.0.prefetch_stats()
    }

    /// As [`Limiter::in_shadow`].
    pub fn in_shadow(self) -> Self {
        BlockingLimiter(self.0.in_shadow())
    }

    /// As [`Limiter::in_shadow_with`].
    pub fn in_shadow_with(
        self,
        observer: impl Fn(&str, Result<&Decision, &StoreError>) + Send + Sync + 'static,
    ) -> Self {
        BlockingLimiter(self.0.in_shadow_with(observer))
    }

    /// As [`Limiter::shadow_stats`].
    pub fn shadow_stats(&self) -> Option<ShadowStats> {
        self.0.shadow_stats()
    }

    /// The limit.
    pub fn limit(&self) -> Limit {
        self.0.limit()
    }

    /// As [`Limiter::try_acquire`].
    ///
    /// # Errors
    /// [`Error`]; a denied request is none.
    pub fn try_acquire(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        ready(self.0.try_acquire(id, cost))
    }

    /// As [`Limiter::try_acquire_once`].
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

    /// As [`Limiter::try_acquire_each`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn try_acquire_each(&self, id: &str, costs: &[u64]) -> Result<Vec<Decision>, Error> {
        ready(self.0.try_acquire_each(id, costs))
    }

    /// As [`Limiter::acquire_within`]; it blocks the thread for as long.
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

    /// As [`Limiter::take_turn`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn take_turn(&self, id: &str, cost: u64) -> Result<Turn, Error> {
        ready(self.0.take_turn(id, cost))
    }

    /// As [`Limiter::cancel_turn`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn cancel_turn(&self, id: &str, ticket: Ticket) -> Result<Cancellation, Error> {
        ready(self.0.cancel_turn(id, ticket))
    }

    /// As [`Limiter::peek`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn peek(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        ready(self.0.peek(id, cost))
    }

    /// As [`Limiter::take_up_to`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn take_up_to(&self, id: &str, most: u64) -> Result<Adjusted, Error> {
        ready(self.0.take_up_to(id, most))
    }

    /// As [`Limiter::refund`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn refund(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        ready(self.0.refund(id, cost))
    }

    /// As [`Limiter::penalty`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn penalty(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        ready(self.0.penalty(id, cost))
    }

    /// As [`Limiter::block`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn block(&self, id: &str, span: Duration) -> Result<Adjusted, Error> {
        ready(self.0.block(id, span))
    }

    /// As [`Limiter::unblock`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn unblock(&self, id: &str) -> Result<Adjusted, Error> {
        ready(self.0.unblock(id))
    }

    /// As [`Limiter::reserve`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn reserve(&self, id: &str, cost: u64, hold: Duration) -> Result<Reserved, Error> {
        ready(self.0.reserve(id, cost, hold))
    }

    /// As [`Limiter::reserve_as`].
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

    /// As [`Limiter::commit`].
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

    /// As [`Limiter::cancel`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn cancel(&self, id: &str, reservation: &Reservation) -> Result<Settlement, Error> {
        ready(self.0.cancel(id, reservation))
    }

    /// As [`Limiter::reset`].
    ///
    /// # Errors
    /// [`Error`].
    pub fn reset(&self, id: &str) -> Result<bool, Error> {
        ready(self.0.reset(id))
    }
}

/// The output of a future in which everything that could wait blocks instead, so that sync and
/// async callers share one logic and need no executor.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a blocking store and a thread's sleep are ready when asked"),
    }
}

/// A blocking store as one whose futures are ready when asked.
#[derive(Clone, Debug)]
struct Blocking<S>(S);

impl<S: BlockingStore> Store for Blocking<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command, Duration::MAX)
    }

    async fn execute_within<C>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command, patience)
    }
}

/// The calling thread, which sleeps when it is asked to wait.
#[derive(Clone, Copy, Debug)]
struct Thread;

impl Runtime for Thread {
    fn now(&self) -> Duration {
        crate::runtime::since_start()
    }

    async fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}
