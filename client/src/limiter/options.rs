//! The options of a limiter.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::{ConfigError, Decision};

use super::Limiter;
use super::circuit_breaker::Breaker;
use super::coalesce::{Coalescer, CoalescingStats};
use super::denials::Denials;
use super::deny_cache::{DenyCache, DenyCacheStats};
use super::fallback::Fallback;
use super::idempotency::Idempotency;
use super::observed::Observed;
use super::permits::Permits;
use super::prefetch::{Prefetch, PrefetchStats};
use super::shadow::{Shadow, ShadowStats};
use crate::error::Error;
use crate::observer::Observer;
use crate::retry_store::HasTimeout;
use crate::runtime::{Runtime, Spawn};
use crate::store::Store;

/// The options of a limiter. Clones share their memory.
#[derive(Clone, Default)]
pub(super) struct Options {
    pub(super) observer: Option<Arc<Observed>>,
    pub(super) shadow: Option<Arc<Shadow>>,
    pub(super) fallback: Option<Arc<Fallback>>,
    pub(super) prefetch: Option<Arc<Permits>>,
    pub(super) deny_cache: Option<Arc<Denials>>,
    pub(super) circuit_breaker: Option<Arc<Breaker>>,
    pub(super) coalescing: Option<Arc<Coalescer>>,
    pub(super) idempotency: Option<Arc<Idempotency>>,
}

impl Options {
    /// Returns whether a call goes straight to the store.
    pub(super) fn are_none(&self) -> bool {
        matches!(
            self,
            Options {
                observer: _,
                shadow: None,
                fallback: None,
                prefetch: None,
                deny_cache: None,
                circuit_breaker: None,
                coalescing: None,
                idempotency: None,
            }
        )
    }
}

impl<S> Limiter<S> {
    /// Reports the caller's result of each request to `observer`, including errors, whichever option answers. A call
    /// that waits is reported at its end. `policy` names the limiter in the program's configuration; a limiter
    /// [`under`](Limiter::under) another limit has the same.
    ///
    /// Without an observer, a call costs one more branch. [`observer`](crate::observer) has an example.
    pub fn with_observer(mut self, policy: &str, observer: impl Observer) -> Self {
        self.options.observer = Some(Observed::new(policy, observer).into());
        self
    }

    /// Enforces nothing, so that the limit can be tried on live traffic: every request comes back as allowed.
    /// [`Decision::would_deny`] marks those that the limit would have denied.
    ///
    /// The store is asked and charged as usual. A request that would have been denied is not charged, so the limiter
    /// counts and decides as it will when it is enforced. [`Limiter::acquire_within`] does not wait:
    /// [`Decision::shadow`] has the verdict instead, and nothing is charged. In the queue of a
    /// [`LeakyBucket`](crate::limiter::LeakyBucket) every turn is at once; `reset_after` is the length that the queue
    /// would have.
    ///
    /// A request without a decision comes back as allowed, with [`Origin::Fallback`](crate::limiter::Origin::Fallback):
    /// the store did not answer, the key holds something else, the queue of coalesced calls is full, or no limit is
    /// stored. Under a stored limit that was never read, its `limit` and `remaining` are zero. Input that is refused
    /// before the store is asked stays an error, and so does every error of [`Limiter::reset`] and of adjustments.
    ///
    /// Callers still wait for the store's answer: see [`RetryStore`](crate::RetryStore) for how long.
    ///
    /// ```
    /// use lockage::Limiter;
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// # let store = MemoryStore::new();
    /// let limiter = Limiter::new(store, "fixed-window 2/h".parse()?).with_prefix("sms")?.with_shadow();
    /// for request in 1..=3 {
    ///     let decision = limiter.try_acquire("user:42", 1).await?;
    ///     assert!(decision.is_allowed());
    ///     assert_eq!(decision.would_deny(), request == 3);
    /// }
    /// let stats = limiter.shadow_stats().expect("it is in shadow mode");
    /// assert_eq!((stats.allowed, stats.would_deny), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn with_shadow(self) -> Self {
        self.with_shadow_observer(|_, _| ())
    }

    /// Enters shadow mode (see [`Limiter::with_shadow`]), and reports to `observer` each request that the limit would
    /// have denied, and each call without a decision. The observer gets the id, and the caller's decision or the error.
    /// It is called before the caller gets the answer, so it should take no time.
    ///
    /// ```
    /// use lockage::Limiter;
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// # let store = MemoryStore::new();
    /// let limiter = Limiter::new(store, "fixed-window 2/h".parse()?)
    ///     .with_prefix("sms")?
    ///     .with_shadow_observer(|id, outcome| match outcome {
    ///         Ok(decision) => println!("{id} would be denied: {:?}", decision.shadow),
    ///         Err(error) => println!("{id}: {error}"),
    ///     });
    /// assert!(limiter.try_acquire("user:42", 3).await?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn with_shadow_observer(
        mut self,
        observer: impl Fn(&str, Result<&Decision, &Error>) + Send + Sync + 'static,
    ) -> Self {
        self.options.shadow = Some(Shadow::new(observer).into());
        self
    }

    /// Returns the statistics of this limiter and its clones; `None` outside shadow mode.
    pub fn shadow_stats(&self) -> Option<ShadowStats> {
        self.options.shadow.as_ref().map(|shadow| *shadow.stats())
    }

    /// Returns whether the circuit is open: the store did not answer, and the fallback decides.
    pub fn is_circuit_open(&self) -> bool {
        self.options.circuit_breaker.as_ref().is_some_and(|breaker| breaker.is_open())
    }

    /// Returns the statistics of prefetch; `None` without [`Limiter::with_prefetch`].
    pub fn prefetch_stats(&self) -> Option<PrefetchStats> {
        self.options.prefetch.as_ref().map(|permits| permits.stats())
    }

    /// Returns the statistics of the deny cache; `None` without one.
    pub fn deny_cache_stats(&self) -> Option<DenyCacheStats> {
        self.options.deny_cache.as_ref().map(|denials| denials.stats())
    }

    /// Returns the statistics of coalescing; `None` without [`Limiter::with_coalescing`].
    pub fn coalescing_stats(&self) -> Option<CoalescingStats> {
        self.options.coalescing.as_ref().map(|coalescer| coalescer.stats())
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
        fallback.check(self.source.limit())?;
        let runtime = self.store.runtime().clone();
        let breaker = Breaker::new(fallback.circuit_breaker(), move || runtime.now());
        self.options.circuit_breaker = Some(breaker.into());
        self.options.fallback = Some(fallback.into());
        Ok(self)
    }

    /// Takes permits ahead, for `try_acquire` and `acquire_within`. [`Prefetch`] has the bounds of their effect on
    /// admissions. Clones of the limiter share held permits; another limiter has its own.
    ///
    /// A local decision has [`Origin::Prefetch`](crate::limiter::Origin::Prefetch). Its `remaining` is the held
    /// permits: that cost is certainly admitted until the lease ends, and more may be. Its `reset_after` is never above
    /// the store's. A denial is always the store's, on the request alone, or the deny cache's.
    ///
    /// While a call for permits ahead is in flight, other requests for the id wait for it if its permits suffice for
    /// them too. A grant serves them in their order, before all later requests. If the call is denied, fails, is
    /// dropped, or takes longer than the store's timeout since its caller is not polled, they go to the store themselves. A call dropped before its answer wastes its permits.
    ///
    /// All other verbs go to the store, which counts held permits as used: `peek` returns what remains there. A reset
    /// or a block by this limiter or its clones drops their held permits of the id. Other limiters can still spend
    /// theirs until their leases end.
    ///
    /// It combines with request ids (a lost answer is then asked for again, and wastes nothing), a deny cache,
    /// coalescing (of single requests), a fallback and shadow mode.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// use std::time::Duration;
    /// use lockage::runtime::Tokio;
    /// use lockage::limiter::Prefetch;
    /// use lockage::{Limiter, RetryStore};
    /// # use lockage_memory::MemoryStore;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// # let store = MemoryStore::new();
    /// let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    /// let limiter = Limiter::new(store, "token-bucket 100000/s burst 50000".parse()?)
    ///     .with_prefix("tenants")?
    ///     .with_prefetch(Prefetch::new(1000, Duration::from_secs(1)))?;
    /// for _ in 0..1001 {
    ///     assert!(limiter.try_acquire("tenant:7", 1).await?.is_allowed());
    /// }
    /// let stats = limiter.prefetch_stats().expect("it takes permits ahead");
    /// assert_eq!((stats.calls, stats.hits), (1, 1000));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::Zero`] and [`ConfigError::TooLarge`] for values out of range, and [`ConfigError::Conflict`] for a
    /// limit with a [`LeakyBucket`](crate::limiter::LeakyBucket) or an [`InFlight`](crate::limiter::InFlight), whose turns
    /// and places belong to requests.
    pub fn with_prefetch(mut self, prefetch: Prefetch) -> Result<Self, ConfigError>
    where
        S: HasTimeout,
    {
        let (runtime, timeout) = (self.store.runtime().clone(), self.store.timeout());
        let permits = Permits::of_calls(prefetch, self.source.limit(), runtime, timeout)?;
        self.options.prefetch = Some(permits.into());
        Ok(self)
    }

    /// Answers known denials in this process: see [`DenyCache`]. Clones of the limiter share the cache.
    #[doc = limiter_example!(
        "let limiter = limiter.with_deny_cache(DenyCache::new(10_000))?;"
        "for number in 1..=13 {"
        r#"    assert_eq!(limiter.try_acquire("user:42", 1).await?.is_allowed(), number <= 10);"#
        "}"
        r#"assert_eq!(limiter.deny_cache_stats().expect("it has one").hits, 2);"#
    )]
    /// # Errors
    /// [`ConfigError::Zero`] for no keys, or an age of zero.
    pub fn with_deny_cache(mut self, cache: DenyCache) -> Result<Self, ConfigError>
    where
        S: HasTimeout,
    {
        let runtime = self.store.runtime().clone();
        let denials = Denials::new(cache, move || runtime.now())?;
        self.options.deny_cache = Some(denials.into());
        Ok(self)
    }

    /// Gives each acquire of a single cost, and each adjustment, an id that the store remembers for `window` (1 us to
    /// 2^50 us). A call whose answer was lost is then retried and charged once. All attempts of one
    /// [`Limiter::acquire_within`] have one id.
    ///
    /// Choose a multiple of the store's timeout. Each remembered request takes about 100 bytes of its key, and a key
    /// remembers at most [`REMEMBERED_REQUESTS`](lockage_core::REMEMBERED_REQUESTS): if more are admitted for one id
    /// between a call and its retry, the retry is charged again.
    #[doc = limiter_example!(
        r#"let limiter = limiter.with_idempotency(Duration::from_secs(8))?;"#
        r#"assert!(limiter.try_acquire("user:42", 1).await?.is_allowed());"#
    )]
    /// # Errors
    /// [`ConfigError`] for a `window` out of range, and for a limiter that coalesces.
    pub fn with_idempotency(mut self, window: Duration) -> Result<Self, ConfigError>
    where
        S: HasTimeout,
    {
        let runtime = self.store.runtime().clone();
        let random = move || runtime.random();
        let idempotency = Idempotency::new(self.source.nominal(), window, random)?;
        self.options.idempotency = Some(idempotency.into());
        self.checked(REQUEST_IDS)
    }
}

impl<S> Limiter<S>
where
    S: HasTimeout<Runtime: Spawn> + Clone + 'static,
{
    /// Puts requests that arrive for one id while a call for it is in flight into one next call.
    ///
    /// Requests keep their order. A call takes at most [`MAX_COSTS`](lockage_core::MAX_COSTS) of them, and the rest
    /// follow in later calls. Under a stored limit, or one of several with a log or a leaky bucket, a call takes at
    /// most [`MAX_SLOW_COSTS`](lockage_core::MAX_SLOW_COSTS). Each caller gets exactly the decision that it would have
    /// got alone. A request that finds no call in flight is sent as soon as the store's runtime runs the sending task.
    ///
    /// A store that supports batches ([`Store::supports_batch`]: a single Redis or Valkey server, through both clients)
    /// gets the requests for several ids in one call, too: up to 128 ids and as many requests as above, at most two
    /// calls at a time, which share more than 8 ids that come together. During two calls, a request for any id waits
    /// until one of them ends.
    ///
    /// Only [`Limiter::try_acquire`] and `acquire_within` are coalesced; all other verbs go alone and do not queue. So
    /// does an `acquire_within` that waits for its turn in a [`LeakyBucket`](crate::limiter::LeakyBucket). At most
    /// `max_waiting` callers (at least 1) wait for an answer, for all ids together; one more gets [`Error::QueueFull`],
    /// even with a fallback, since the store is not away. Clones share the queue. Blocking callers have no coalescing.
    ///
    /// A waiter has an answer within two of the store's timeouts: that of the call in flight, and its own. Each call that earlier requests for the same id fill adds one; in batches, each thousand requests
    /// or 128 ids do.
    ///
    /// A request dropped before its call is sent is not sent. Dropped later, it may be charged: the call goes on for
    /// the others, and is dropped with the last of them. Each tokio runtime sends the requests of its own callers,
    /// which another one that ends or is blocked does not delay. If it ends itself, an unsent request is `NotDone`, and
    /// any other `Unknown`. In a batch, each id gets its own outcome, and all ids share a failure of the call. All
    /// callers in a failed call get its error; its shared cause is behind [`source`](std::error::Error::source). For
    /// [`Limiter::with_fallback`] it is one failure, and each caller gets the fallback's answer.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// use std::time::Duration;
    /// use lockage::runtime::Tokio;
    /// use lockage::{Limiter, RetryStore};
    /// # use lockage_memory::MemoryStore;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// # let store = MemoryStore::new();
    /// let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    /// let limiter = Limiter::new(store, "token-bucket 1000/s burst 200".parse()?)
    ///     .with_prefix("tenants")?
    ///     .with_coalescing(10_000)?;
    /// let (first, second) =
    ///     tokio::join!(limiter.try_acquire("tenant:7", 1), limiter.try_acquire("tenant:7", 1));
    /// assert_eq!((first?.remaining, second?.remaining), (199, 198));
    /// let stats = limiter.coalescing_stats().expect("it coalesces");
    /// assert_eq!(stats.requests, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::Zero`] for a `max_waiting` of zero, and [`ConfigError::Conflict`] for a limiter with request ids,
    /// which a shared call cannot carry.
    pub fn with_coalescing(mut self, max_waiting: usize) -> Result<Self, ConfigError> {
        let runtime = self.store.runtime().clone();
        let coalescer = Coalescer::new(runtime, self.store.clone(), max_waiting)?;
        self.options.coalescing = Some(coalescer.into());
        self.checked(COALESCING)
    }
}

/// The subject of a [`ConfigError::Conflict`].
const REQUEST_IDS: &str = "request ids";
const COALESCING: &str = "coalescing";

impl<S> Limiter<S> {
    /// Refuses options that exclude each other; `what` was set last. A call for several requests carries no id.
    fn checked(self, what: &'static str) -> Result<Self, ConfigError> {
        let with = if what == COALESCING { REQUEST_IDS } else { COALESCING };
        match (&self.options.idempotency, &self.options.coalescing) {
            (Some(_), Some(_)) => Err(ConfigError::Conflict { what, with }),
            _ => Ok(self),
        }
    }
}
