//! Denials that still hold, so that the store need not be asked again.

use std::time::Duration;

/// A limiter's memory of denials: known denials are answered in this process, without the store.
///
/// A denial says when the same request would be admitted. Until then the store denies that cost and every larger one
/// too, because other traffic can only make it later. So a local verdict is the store's. The rest of the decision is a
/// bound: `retry_after`, `turn_after` and `reset_after` are never above the store's values, and `remaining` never
/// below. `binding` and `parts` are those of the remembered denial.
///
/// Each key has one remembered denial, that of the smallest cost. It answers `try_acquire`, `acquire_within` and
/// `try_acquire_each`. All decisions of the store update it, except those for an `acquire_within` in a queue, whose
/// turn may only have been too late for that caller, also once a block ends. Decisions of a
/// [`Fallback`](crate::Fallback) do not. A request under a caller's own id
/// ([`try_acquire_once`](crate::Limiter::try_acquire_once)) always goes to the store, which may remember it.
///
/// # Limitations
///
/// It may deny what the store would admit, and never the reverse:
///
/// - Something is given back to the key, or it is put under another limit. Changes by this limiter and its clones, such
///   as [`reset`](crate::Limiter::reset), take effect at once. Changes by others are unknown until the denial ends, or until a
///   decision of the store contradicts it. The same goes for a store that loses its data.
/// - The store's clock is set forward, or a server takes over whose clock is ahead: by as much.
/// - This machine's clock runs slower than the store's by more than a thousandth (NTP keeps clocks closer), or stops
///   while the machine is suspended.
///
/// [`DenyCache::with_max_age`] bounds each of them. If a foreign record replaces a key's record, the error appears once
/// the denial has ended.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::runtime::Tokio;
/// use lockage::limiter::DenyCache;
/// use lockage::{Limiter, RetryStore};
/// # use lockage_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let store = MemoryStore::new();
/// let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
/// let limiter = Limiter::new(store, "fixed-window 2/h".parse()?)
///     .with_prefix("sms")?
///     .with_deny_cache(DenyCache::new(10_000).with_max_age(Duration::from_secs(5)))?;
/// for _ in 0..100 {
///     limiter.try_acquire("user:42", 1).await?;
/// }
/// // Two were admitted, and one was told until when the others are denied.
/// let stats = limiter.deny_cache_stats().expect("it has one");
/// assert_eq!((stats.misses, stats.hits, stats.entries), (3, 97, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenyCache {
    pub(super) max_keys: usize,
    pub(super) max_age: Duration,
}

impl DenyCache {
    /// Creates a cache of at most `max_keys` denials (at least 1), one for each key, each kept until it ends. A denial
    /// takes its key and about 300 bytes. Beyond that, the least recently used are dropped.
    pub fn new(max_keys: usize) -> Self {
        DenyCache { max_keys, max_age: Duration::MAX }
    }

    /// Makes the cache forget a denial after `max_age` (above zero), for limits that others reset or refund.
    pub fn with_max_age(self, max_age: Duration) -> Self {
        DenyCache { max_age, ..self }
    }
}

/// Statistics of a limiter's deny cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DenyCacheStats {
    /// Calls that the cache answered.
    pub hits: u64,
    /// Calls that it could not answer, and that asked the store.
    pub misses: u64,
    /// Remembered denials, including those that have ended.
    pub entries: usize,
    /// Denials that were dropped to make room.
    pub evictions: u64,
}
