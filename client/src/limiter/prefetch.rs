//! Permits that are taken ahead from the store, and spent without asking it.

use std::iter::once;
use std::time::Duration;

use lockage_core::flow::PrefetchConfig;
use lockage_core::{ConfigError, Decision, FixedWindow};

use super::Limiter;
use super::call::{AcquireOne, Call, Change, Outcome};
use super::limit_source::Known;
use super::permits::{Permits, Step};
use super::pipeline::{Next, Stage, Target};
use crate::error::Error;
use crate::key::Key;
use crate::retry_store::HasTimeout;
use crate::runtime::Runtime;
use crate::store::Store;

/// Keys that are kept where nothing else is said.
const MAX_KEYS: usize = 10_000;

/// Permits that a limiter takes ahead, for the highest rates: a call to the store for each few hundred requests instead
/// of one for each.
///
/// A request that finds none here goes to the store and brings up to `permits` more along, all or nothing. Those
/// are spent by this limiter and its clones, without the store, until `lease` after that request was made. They are
/// charged already, so all limiters of a key together are never admitted more in total than the store has charged;
/// what changes is when. With `n` such limiters, k = `permits` and λ = `lease` by the store's clock, in any span T
///
/// > admitted(T) <= min( E(T) + n * k, max( E(T), E(T + λ) - 1 ) )
///
/// where E is the envelope of the limit (E1 to E5). Both are attained, and nothing else changes what the store
/// decides. What is not spent in its lease stays charged: no more than k for each limiter and lease. It denies
/// others what they would have got without it: at most what is held, and what was wasted until it has come back.
/// [The documentation](https://docs.rs/lockage) of limiters has the proof, and what clocks have to do with it.
///
/// It pays where an id is asked for many times in each lease, and k is a small part of the limit. Where the store
/// has no room for what is to be brought along, or does not answer, requests go one by one until it has, or for a
/// lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    pub(super) permits: u64,
    pub(super) lease: Duration,
    pub(super) max_keys: usize,
}

impl Prefetch {
    /// Holds up to `permits` of each id (at least 1, and below the limit's capacity), each for up to `lease` (above
    /// zero, up to an hour) after it was asked for, of up to 10,000 ids.
    ///
    /// The lease should be some times as long as a call takes, since an answer that takes longer is worth nothing.
    pub fn new(permits: u64, lease: Duration) -> Self {
        Prefetch { permits, lease, max_keys: MAX_KEYS }
    }

    /// Holds permits of at most so many ids (at least 1), about 250 bytes each. Where there are more, the least
    /// recently used are dropped, and what was held of them is wasted.
    pub fn with_max_keys(self, max_keys: usize) -> Self {
        Prefetch { max_keys, ..self }
    }
}

/// What a limiter has taken ahead so far. What was granted and not spent is held, or wasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefetchStats {
    /// Requests that were admitted by permits that were held.
    pub hits: u64,
    /// What those cost.
    pub spent: u64,
    /// Calls that asked for permits ahead.
    pub calls: u64,
    /// Permits that were granted ahead, and came within their lease.
    pub granted: u64,
    /// Calls that the store had no room for. The request was then sent by itself.
    pub denied: u64,
    /// Calls that got no answer, or too late. What they asked for ahead may be charged, and is wasted.
    pub lost: u64,
    /// Ids of which something is known.
    pub keys: usize,
}

impl<S: Store> Limiter<S> {
    /// Takes permits ahead, for `try_acquire` and `acquire_within`: see [`Prefetch`] for how much more that may admit. Clones of the
    /// limiter share what is held; another limiter has its own.
    ///
    /// A decision that was made here says so ([`Origin::Prefetch`](crate::limiter::Origin::Prefetch)). Its `remaining` is what is held, so that a cost
    /// of `remaining` is admitted for certain until the lease ends, and more may be; its `reset_after` is not above what
    /// the store would say. A denial is always the store's, on the request alone, or the deny cache's.
    ///
    /// Calls for an id that come while permits are asked for ahead wait for these where they suffice for them too, as long
    /// as one call takes at most, and then send a call of their own if they must. A call that is dropped before its
    /// answer has come wastes what it would have brought.
    ///
    /// All other verbs go to the store, for which what is held is used: `peek` tells what remains there. A reset or a
    /// block by this limiter or its clones drops what they hold of the id; what other limiters hold they can still spend,
    /// until their leases end.
    ///
    /// It goes together with request ids (a lost answer is then asked for again, and wastes nothing), with a deny cache,
    /// with coalescing (of what goes one by one), with a policy for the store's absence and with shadow mode.
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
    /// [`ConfigError::Zero`] and [`ConfigError::TooLarge`] for what is out of range, and [`ConfigError::Conflict`] for a
    /// limit with a [`LeakyBucket`](crate::limiter::LeakyBucket), whose turns are somebody's.
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
        let runtime = self.store.runtime().clone();
        let held = Permits::new(prefetch, move || runtime.now())?;
        self.stages.prefetch = Some(held.into());
        Ok(self)
    }
}

impl<S> Limiter<S> {
    /// Returns what was taken ahead so far; nothing without [`Limiter::with_prefetch`].
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
    /// Admits the request by what is held, together with permits ahead, or by those that another one was
    /// asking for. Returns nothing if the request is to go on as it is.
    async fn acquire<N: Next>(
        &self,
        target: &Target<'_>,
        acquire: &AcquireOne,
        next: &N,
    ) -> Result<Option<Decision>, Error> {
        let Some(Known { limit, .. }) = target.source.known(target.key) else { return Ok(None) };
        let mut may_wait = true;
        loop {
            match self.next(target.key, &limit, acquire.cost, may_wait) {
                Step::Spent(decision) => return Ok(Some(decision)),
                Step::Wait(answered) => answered.await,
                Step::Alone => return Ok(None),
                Step::Ask(asking) => {
                    let whole = acquire.of_cost(acquire.cost + asking.ahead());
                    let decision = next.run(target, &whole).await?;
                    return Ok(asking.answered(decision, || {
                        target.source.known(target.key).is_some_and(|known| known.limit == limit)
                    }));
                }
            }
            may_wait = false;
        }
    }
}

/// Drops what is held of a key, at once and when it is dropped: also where the call is given up or
/// fails, since it may have been done.
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
