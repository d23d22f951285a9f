//! Denials that still hold, so that the store need not be asked again.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockage_core::{ConfigError, Decision, Verdict};
use lru::LruCache;

use super::Limiter;
use crate::key::Key;
use crate::runtime::Runtime;
use crate::store::Store;
use crate::timed::Timed;

/// A limiter's memory of denials: what is known to be denied is answered in this process, and costs
/// the store nothing.
///
/// A denial says when the same request would be admitted. Until then that cost, and every larger
/// one, is denied by the store too, because other traffic can only make it later. So a local verdict
/// is the one that the store would give. The rest of the decision is a bound: `retry_after` and
/// `reset_after` are never above what the store would say, and `remaining` never below. `binding`
/// and `parts` are those of the denial that is remembered.
///
/// Only denials are remembered, of each key one: that of the smallest cost. `try_acquire`,
/// `acquire` and `try_acquire_each` are answered from it. All decisions of the store teach it, but
/// none that a policy made in its place ([`WhenAway`](crate::WhenAway)). A request under an id of
/// the caller's ([`Limiter::try_acquire_once`]) always asks the store, which may remember it.
///
/// # What can make it wrong
///
/// It may deny what the store would admit, and never the reverse:
///
/// - Something is given back to the key. What this limiter and its clones do themselves, such as
///   [`Limiter::reset`], is heeded. What others do is not known here until the denial ends, or until
///   a decision of the store contradicts it. The same goes for a store that loses its data.
/// - The store's clock is set forward, by as much.
/// - This machine's clock runs slower than the store's by more than a thousandth (clocks that are
///   kept by NTP differ by less), or stands still while the machine is suspended.
///
/// [`DenyCache::with_max_age`] bounds each of them. Where a key's record is replaced by one of
/// another limit or kind, the error is seen once the denial has ended.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::runtime::Tokio;
/// use lockage::{DenyCache, Limiter, Timed};
/// # use lockage_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let store = MemoryStore::new();
/// let store = Timed::new(store, Tokio, Duration::from_millis(250));
/// let limiter = Limiter::new(store, "fixed-window 2/h".parse()?)
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
    max_keys: usize,
    max_age: Duration,
}

impl DenyCache {
    /// Remembers denials of at most `max_keys` keys (at least 1), each until it ends. A denial takes
    /// its key and about 300 bytes. Where there are more, the least recently used are dropped.
    pub fn new(max_keys: usize) -> Self {
        DenyCache { max_keys, max_age: Duration::MAX }
    }

    /// Asks the store again after `max_age` (above zero), however long the denial would last: for
    /// limits that others reset or refund.
    pub fn with_max_age(self, max_age: Duration) -> Self {
        DenyCache { max_age, ..self }
    }
}

/// What a limiter's deny cache has done so far, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DenyCacheStats {
    /// Calls that were answered here.
    pub hits: u64,
    /// Calls that might have been, and asked the store.
    pub misses: u64,
    /// Denials that are remembered, those included that have ended since.
    pub entries: usize,
    /// Denials that were dropped to make room.
    pub evictions: u64,
}

impl<S: Store, R: Runtime> Limiter<Timed<S, R>> {
    /// Answers here what is known to be denied: see [`DenyCache`]. Clones of the limiter share what
    /// they know.
    ///
    /// # Errors
    /// [`ConfigError::Zero`] for no keys, or an age of zero.
    pub fn with_deny_cache(self, cache: DenyCache) -> Result<Self, ConfigError> {
        let runtime = self.store.runtime().clone();
        let denials = Denials::new(cache, self.limit.capacity(), move || runtime.now())?;
        Ok(Limiter { denials: Some(Arc::new(denials)), ..self })
    }
}

impl<S> Limiter<S> {
    /// What the deny cache has done so far; nothing where there is none.
    pub fn deny_cache_stats(&self) -> Option<DenyCacheStats> {
        self.denials.as_ref().map(|denials| denials.stats())
    }

    /// Forgets what is denied to `key`, at once and when the returned value is dropped. Whatever
    /// gives something back to a key holds it while it asks the store to.
    pub(super) fn forget_denial<'a>(&'a self, key: &'a Key) -> Forgetting<'a> {
        let forgetting = Forgetting { denials: self.denials.as_deref(), key };
        forgetting.forget();
        forgetting
    }

    /// To be called before the store is asked, so that what it says can be learned.
    pub(super) fn asking<'a>(&'a self, key: &'a Key) -> Asking<'a> {
        Asking(self.denials.as_deref().map(|denials| (denials, key, denials.ticket(key))))
    }
}

/// See [`Limiter::forget_denial`].
#[must_use]
pub(super) struct Forgetting<'a> {
    denials: Option<&'a Denials>,
    key: &'a Key,
}

impl Forgetting<'_> {
    fn forget(&self) {
        if let Some(denials) = self.denials {
            denials.forget(self.key);
        }
    }
}

/// Also where the call is given up or fails: it may have been done.
impl Drop for Forgetting<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A call that is under way, where there is a cache to learn from it.
pub(super) struct Asking<'a>(Option<(&'a Denials, &'a Key, Ticket)>);

impl Asking<'_> {
    /// Takes in what the store has decided on a request of `cost`.
    pub(super) fn learn(&self, cost: u64, decision: &Decision) {
        if let Some((denials, key, ticket)) = self.0 {
            denials.learn(key, ticket, cost, decision);
        }
    }
}

/// What was known when the store was asked.
#[derive(Clone, Copy)]
struct Ticket {
    sent: Duration,
    generation: u64,
}

/// So many keys share a lock, at least where there are so many.
const KEYS_PER_SHARD: usize = 1024;
const MAX_SHARDS: usize = 64;

/// What one limiter and its clones know.
pub(super) struct Denials {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    max_age: Duration,
    capacity: u64,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl Denials {
    fn new(
        cache: DenyCache,
        capacity: u64,
        now: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Result<Self, ConfigError> {
        if cache.max_age.is_zero() {
            return Err(ConfigError::Zero { what: "longest age of a denial" });
        }
        let count = cache.max_keys.div_ceil(KEYS_PER_SHARD).clamp(1, MAX_SHARDS);
        let max_keys = NonZeroUsize::new(cache.max_keys / count)
            .ok_or(ConfigError::Zero { what: "number of keys with denials" })?;
        Ok(Denials {
            shards: (0..count).map(|_| Mutex::new(Shard::new(max_keys))).collect(),
            hasher: RandomState::new(),
            max_age: cache.max_age,
            capacity,
            now: Box::new(now),
        })
    }

    /// The decision on `cost`, for a caller who would wait for `patience`. See
    /// [`Shard::known`].
    pub(super) fn answer(&self, key: &Key, cost: u64, patience: Duration) -> Option<Decision> {
        let now = (self.now)();
        let mut shard = self.shard(key);
        shard.known(key, cost, patience, now).map(|denial| denial.answer(cost, self.capacity, now))
    }

    /// The decisions on all of these costs, where all of them are denied.
    pub(super) fn answer_each(&self, key: &Key, costs: &[u64]) -> Option<Vec<Decision>> {
        let now = (self.now)();
        let least = *costs.iter().min()?;
        let mut shard = self.shard(key);
        let denial = shard.known(key, least, Duration::ZERO, now)?;
        Some(costs.iter().map(|&cost| denial.answer(cost, self.capacity, now)).collect())
    }

    fn ticket(&self, key: &Key) -> Ticket {
        // The time comes first: the later the generation is read, the more is known to be forgotten.
        let sent = (self.now)();
        Ticket { sent, generation: self.shard(key).generation }
    }

    fn learn(&self, key: &Key, ticket: Ticket, cost: u64, decision: &Decision) {
        if decision.degraded {
            return;
        }
        let now = (self.now)();
        let mut shard = self.shard(key);
        shard.correct(key, cost, decision);
        // A denial from before something was given back may be over.
        if ticket.generation != shard.generation {
            return;
        }
        if let Verdict::Denied { retry_after } = decision.verdict {
            let until = not_after(ticket.sent, retry_after);
            shard.keep(
                key,
                now,
                Denial {
                    cost,
                    until,
                    believed_until: until.min(ticket.sent.saturating_add(self.max_age)),
                    reset_at: not_after(ticket.sent, decision.reset_after),
                    told: decision.clone(),
                },
            );
        }
    }

    fn forget(&self, key: &Key) {
        let mut shard = self.shard(key);
        shard.generation += 1;
        shard.denials.pop(key);
    }

    fn stats(&self) -> DenyCacheStats {
        let mut sum = DenyCacheStats::default();
        for shard in &self.shards {
            let shard = lock(shard);
            sum.hits += shard.hits;
            sum.misses += shard.misses;
            sum.entries += shard.denials.len();
            sum.evictions += shard.evictions;
        }
        sum
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let index = self.hasher.hash_one(key) as usize % self.shards.len();
        lock(&self.shards[index])
    }
}

/// A shard is whole whenever its lock is free: nothing below panics halfway.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Shard {
    denials: LruCache<Key, Denial, RandomState>,
    /// Goes up with each key of this shard that is forgotten.
    generation: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
}

impl Shard {
    fn new(max_keys: NonZeroUsize) -> Self {
        // One with a capacity from the start would take all its memory at once.
        let mut denials = LruCache::unbounded_with_hasher(RandomState::new());
        denials.resize(max_keys);
        Shard { denials, generation: 0, hits: 0, misses: 0, evictions: 0 }
    }

    /// What is known to deny `cost` now. To a caller who would wait for less than the denial lasts
    /// it is as good as the store's; one who may wait longer is told no other cost's, because the
    /// store might say at once that his own takes too long.
    fn known(
        &mut self,
        key: &Key,
        cost: u64,
        patience: Duration,
        now: Duration,
    ) -> Option<&Denial> {
        let known = self.denials.get(key).filter(|denial| {
            let telling = denial.cost == cost || denial.until.saturating_sub(now) > patience;
            denial.holds(now) && denial.cost <= cost && telling
        });
        match known {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        known
    }

    /// Drops what this decision shows to be over. It may be an older one than what it contradicts;
    /// then the store is asked once more than it need be.
    fn correct(&mut self, key: &Key, cost: u64, decision: &Decision) {
        let admitted = if decision.is_allowed() { cost } else { 0 };
        let fits = decision.remaining.max(admitted);
        if self.denials.peek(key).is_some_and(|known| known.cost <= fits) {
            self.denials.pop(key);
        }
    }

    /// Keeps the denial of the smallest cost, and of the same cost the one that lasts longer.
    fn keep(&mut self, key: &Key, now: Duration, denial: Denial) {
        let better = |known: &Denial| {
            let longer = known.cost == denial.cost && known.believed_until >= denial.believed_until;
            known.holds(now) && (known.cost < denial.cost || longer)
        };
        if !denial.holds(now) || self.denials.peek(key).is_some_and(better) {
            return;
        }
        let dropped = self.denials.push(key.clone(), denial);
        self.evictions += u64::from(dropped.is_some_and(|(other, _)| other != *key));
    }
}

/// Times are the runtime's.
struct Denial {
    /// The smallest cost that is denied.
    cost: u64,
    /// Not after the store admits it.
    until: Duration,
    /// The same or, where that is earlier, when the denial is too old.
    believed_until: Duration,
    /// Not after the store counts the limiter as never used.
    reset_at: Duration,
    told: Decision,
}

impl Denial {
    /// Whether there is a whole microsecond to tell. The store's time is rounded down, so that less
    /// than one may be over there.
    fn holds(&self, now: Duration) -> bool {
        self.believed_until.saturating_sub(now) >= MICROSECOND
    }

    /// The decision on `cost`, which is at least this one's.
    fn answer(&self, cost: u64, capacity: u64, now: Duration) -> Decision {
        let verdict = match cost > capacity {
            true => Verdict::Never,
            false => Verdict::Denied { retry_after: whole_micros(self.until.saturating_sub(now)) },
        };
        Decision {
            verdict,
            remaining: self.cost - 1,
            reset_after: whole_micros(self.reset_at.saturating_sub(now)),
            ..self.told.clone()
        }
    }
}

const MICROSECOND: Duration = Duration::from_micros(1);
/// What is taken off a span because the clocks may differ: a thousandth, which covers two clocks
/// that are off by 500 ppm each, the most that NTP corrects.
const DRIFT_PART: u32 = 1000;

/// A time of this process that is not after the store's "`span` after it decided", for a call that
/// was sent at `sent`; but for the fraction of a microsecond that the store does not count.
fn not_after(sent: Duration, span: Duration) -> Duration {
    sent.saturating_add(span - span / DRIFT_PART)
}

/// Rounded down, as all spans of decisions are whole microseconds.
fn whole_micros(span: Duration) -> Duration {
    span - Duration::from_nanos(u64::from(span.subsec_nanos() % 1000))
}

impl fmt::Debug for Denials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denials").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
