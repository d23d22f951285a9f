//! Permits that are taken ahead from the store, and spent without asking it.

use std::iter::once;
use std::time::Duration;

use lockage_core::flow::PrefetchConfig;
use lockage_core::{ConfigError, Decision, FixedWindow, Limit};

use super::Limiter;
use super::call::{AcquireOne, Call, Change, Outcome};
use super::permits::{Permits, Step};
use super::pipeline::{Next, Stage, Target};
use crate::error::Error;
use crate::key::Key;
use crate::retry_store::HasTimeout;
use crate::store::Store;

/// The default number of keys.
const MAX_KEYS: usize = 10_000;

/// Permits that a limiter takes ahead, for the highest rates: one call to the store serves a few hundred requests.
///
/// A request that finds no permits here goes to the store and takes up to `permits` more along, all or nothing. This
/// limiter and its clones spend those without the store, until `lease` after that request was made. They are charged
/// already, so all limiters of a key together never admit more in total than the store has charged; only the time
/// differs. With `n` such limiters, k = `permits` and λ = `lease` by the store's clock, in any span T
///
/// > admitted(T) <= min( E(T) + n * k, max( E(T), E(T + λ) - 1 ) )
///
/// where E is the envelope of the limit (E1 to E5). Both bounds are attained, and the store's decisions do not change
/// otherwise. Permits unspent in their lease stay charged: at most k for each limiter and lease. Other callers may be
/// denied because of them: at most what is held, and what was wasted until it has come back. The
/// documentation of [`Prefetch`](lockage_core::flow::Prefetch) in the core has the proof.
///
/// It pays where an id is requested many times in each lease, and k is a small part of the limit. If the store has no
/// room for the extra permits, or does not answer, requests go one by one until it has, or for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    pub(super) permits: u64,
    pub(super) lease: Duration,
    pub(super) max_keys: usize,
}

impl Prefetch {
    /// Creates a prefetch of up to `permits` for each id (at least 1, below the limit's capacity), for up to 10,000
    /// ids. Each permit is held for up to `lease` (above zero, up to an hour) after it was asked for.
    ///
    /// The lease should be several times as long as a call, since permits that arrive after it are wasted.
    pub fn new(permits: u64, lease: Duration) -> Self {
        Prefetch { permits, lease, max_keys: MAX_KEYS }
    }

    /// Caps the ids with held permits (at least 1), about 250 bytes each. Beyond that, the least recently used are
    /// dropped, and their permits are wasted.
    pub fn with_max_keys(self, max_keys: usize) -> Self {
        Prefetch { max_keys, ..self }
    }
}

/// Statistics of a limiter's prefetch. Permits that were granted and not spent are held, or wasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefetchStats {
    /// Requests that held permits admitted.
    pub hits: u64,
    /// The cost of those requests.
    pub spent: u64,
    /// Calls that asked for permits ahead.
    pub calls: u64,
    /// Permits that were granted ahead, and came within their lease.
    pub granted: u64,
    /// Calls that the store had no room for. The request was then sent alone.
    pub denied: u64,
    /// Calls that got no answer, or one too late. The permits that they asked for may be charged, and are wasted.
    pub lost: u64,
    /// Ids with remembered state.
    pub keys: usize,
}

impl<S: Store> Limiter<S> {
    /// Takes permits ahead, for `try_acquire` and `acquire_within`. [`Prefetch`] says how much more that may admit.
    /// Clones of the limiter share held permits; another limiter has its own.
    ///
    /// A local decision says so ([`Origin::Prefetch`](crate::limiter::Origin::Prefetch)). Its `remaining` is the held
    /// permits: that cost is certainly admitted until the lease ends, and more may be. Its `reset_after` is not above
    /// what the store would say. A denial is always the store's, on the request alone, or the deny cache's.
    ///
    /// While a call for permits ahead is in flight, other requests for the id wait for it if its permits suffice for
    /// them too. A grant serves them in their order, before all later requests. If the call is denied, fails, is
    /// dropped, or takes longer than the store's timeout since its caller is not polled, they go to the store themselves. A call dropped before its answer wastes its permits.
    ///
    /// All other verbs go to the store, which counts held permits as used: `peek` tells what remains there. A reset or
    /// a block by this limiter or its clones drops their held permits of the id. Other limiters can still spend theirs
    /// until their leases end.
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
    /// limit with a [`LeakyBucket`](crate::limiter::LeakyBucket), whose turns belong to requests.
    pub fn with_prefetch(mut self, prefetch: Prefetch) -> Result<Self, ConfigError>
    where
        S: HasTimeout,
    {
        let Prefetch { permits, lease, .. } = prefetch;
        let roomy = || FixedWindow::new(permits.saturating_add(1), Duration::from_secs(1));
        let limit = match self.source.limit() {
            Some(limit) => limit,
            None => roomy()?.into(),
        };
        PrefetchConfig::new(&limit, permits, lease)?;
        let (runtime, timeout) = (self.store.runtime().clone(), self.store.timeout());
        let held = Permits::of_calls(prefetch, runtime, timeout)?;
        self.stages.prefetch = Some(held.into());
        Ok(self)
    }
}

impl<S> Limiter<S> {
    /// Returns the statistics of prefetch; `None` without [`Limiter::with_prefetch`].
    pub fn prefetch_stats(&self) -> Option<PrefetchStats> {
        self.stages.prefetch.as_ref().map(|permits| permits.stats())
    }
}

impl Stage for Permits {
    async fn run<C: Call, N: Next>(
        &self,
        target: &Target<'_>,
        call: &C,
        next: &N,
    ) -> Result<C::Outcome, Error> {
        if call.rules().change == Some(Change::Key) {
            let _dropping = Dropping::new(self, target.key);
            return next.run(target, call).await;
        }
        let here = match call.as_acquire() {
            Some(acquire) => self.acquire(target, acquire, next).await?,
            None => None,
        };
        match here.and_then(|decision| C::Outcome::of(once(decision))) {
            Some(outcome) => Ok(outcome),
            None => next.run(target, call).await,
        }
    }
}

impl Permits {
    /// Admits the request by held permits, together with permits ahead, or by those that another request is asking for.
    /// Returns `None` if the request is to go on as it is.
    async fn acquire<N: Next>(
        &self,
        target: &Target<'_>,
        acquire: &AcquireOne,
        next: &N,
    ) -> Result<Option<Decision>, Error> {
        let mut may_wait = true;
        loop {
            let under = |limit: &Limit| self.next(target.key, limit, acquire.cost, may_wait);
            let Some(step) = target.source.with_known(target.key, under) else { return Ok(None) };
            match step {
                Step::Spent(decision) => return Ok(Some(decision)),
                Step::Wait(answer) => {
                    if let Some(decision) = self.answer(answer).await {
                        return Ok(Some(decision));
                    }
                }
                Step::Alone => return Ok(None),
                Step::Ask(asking) => {
                    let whole = acquire.of_cost(acquire.cost + asking.ahead());
                    let decision = next.run(target, &whole).await?;
                    return Ok(asking.answered(decision, |limit| {
                        target.source.with_known(target.key, |known| known == limit) == Some(true)
                    }));
                }
            }
            may_wait = false;
        }
    }
}

/// Drops held permits of a key, at once and when it is dropped: also if the call is given up or fails, since it may
/// have run.
struct Dropping<'a> {
    permits: &'a Permits,
    key: &'a Key,
}

impl<'a> Dropping<'a> {
    fn new(permits: &'a Permits, key: &'a Key) -> Self {
        permits.forget(key);
        Dropping { permits, key }
    }
}

impl Drop for Dropping<'_> {
    fn drop(&mut self) {
        self.permits.forget(self.key);
    }
}
