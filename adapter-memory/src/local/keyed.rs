//! One limit per key.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;

use lockage::store::Clock;
use lockage_core::{
    ConfigError, Decision, FixedWindow, IntervalBucket, LazyDecision, LeakyBucket, Limit, Meter,
    SlidingWindow, TokenBucket, WarmupBucket,
};

use super::table::{Meters, Shards};
use super::{LocalError, UnsupportedLimit, check_cost};
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use crate::clock::MonotonicClock;
use crate::shards::{self, Keep, WhenFull};

/// One limit per key, in this process only.
///
/// Keys are of any type; known keys cost no allocation. Takes every limit but a sliding log, a calendar window, a limit in
/// flight and a composite, and decides as a [`Limiter`](lockage::Limiter), to the microsecond.
///
/// Memory is bounded by the live keys: calls that add a key, and one in a few hundred others, examine a
/// few keys and drop those that expired [a moment](crate::GRACE) ago. Only [`KeyedLimiter::purge`] examines
/// all. Callers who choose their keys can make any number of live ones: [`KeyedLimiter::with_max_keys`] bounds it.
///
/// ```
/// use lockage_memory::KeyedLimiter;
///
/// let limiter = KeyedLimiter::<String, _>::new("token-bucket 100/min burst 20".parse()?)?;
/// assert!(limiter.try_acquire("user:42", 15)?.is_allowed());
/// assert_eq!(limiter.try_acquire("user:42", 1)?.remaining(), 4);
/// assert_eq!(limiter.peek("user:43", 1).remaining, 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedLimiter<K, C> {
    limit: Limit,
    keys: Keys<K>,
    clock: C,
    max_keys: Option<usize>,
}

enum Keys<K> {
    FixedWindow(Shards<K, FixedWindow>),
    SlidingWindow(Shards<K, SlidingWindow>),
    TokenBucket(Shards<K, TokenBucket>),
    IntervalBucket(Shards<K, IntervalBucket>),
    WarmupBucket(Shards<K, WarmupBucket>),
    LeakyBucket(Shards<K, LeakyBucket>),
}

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
impl<K: Hash + Eq + Send> KeyedLimiter<K, MonotonicClock> {
    /// Creates a limiter on a clock of its own.
    ///
    /// # Errors
    /// [`UnsupportedLimit`] for a sliding log, a calendar window, a limit in flight or a composite.
    pub fn new(limit: Limit) -> Result<Self, UnsupportedLimit> {
        KeyedLimiter::with_clock(limit, MonotonicClock::new())
    }
}

impl<K: Hash + Eq + Send, C: Clock> KeyedLimiter<K, C> {
    /// Creates a limiter on this clock; a [`TickingClock`](crate::TickingClock) is the cheapest.
    ///
    /// # Errors
    /// [`UnsupportedLimit`] for a sliding log, a calendar window or a composite.
    pub fn with_clock(limit: Limit, clock: C) -> Result<Self, UnsupportedLimit> {
        KeyedLimiter::with_shards(limit, clock, shards::COUNT)
    }

    pub(super) fn with_shards(
        limit: Limit,
        clock: C,
        count: usize,
    ) -> Result<Self, UnsupportedLimit> {
        Ok(KeyedLimiter {
            limit,
            keys: Keys::of(limit, Size::Shards(count))?,
            clock,
            max_keys: None,
        })
    }

    /// Returns the limiter without a key, and with at most `keys` of them from now on. A flood of new keys then takes a
    /// bounded memory, and each of them a bounded time. [`MemoryStore`](crate::MemoryStore::with_max_keys) has more.
    ///
    /// ```
    /// use lockage_memory::{KeyedLimiter, LocalError, WhenFull};
    ///
    /// let limiter = KeyedLimiter::<u64, _>::new("fixed-window 10/min".parse()?)?;
    /// let limiter = limiter.with_max_keys(2, WhenFull::Refuse)?;
    /// assert!(limiter.try_acquire(&1, 1)?.is_allowed());
    /// assert!(limiter.try_acquire(&2, 1)?.is_allowed());
    /// assert_eq!(limiter.try_acquire(&3, 1).unwrap_err(), LocalError::Full { max_keys: 2 });
    /// assert!(limiter.try_acquire(&2, 1)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::Zero`] for no keys.
    pub fn with_max_keys(self, keys: usize, when_full: WhenFull) -> Result<Self, ConfigError> {
        if keys == 0 {
            return Err(ConfigError::Zero { what: "number of keys" });
        }
        // Invariant: the limit was taken before.
        let all =
            Keys::of(self.limit, Size::AtMost(keys, when_full)).expect("a limit of this type");
        Ok(KeyedLimiter { keys: all, max_keys: Some(keys), ..self })
    }

    /// Returns the limit.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Admits a request of `cost` (at least 1) for `key` and charges it, or changes nothing.
    ///
    /// # Errors
    /// [`LocalError::Cost`] for a cost of zero, and [`LocalError::Full`] for a new key where there is no room.
    #[inline]
    pub fn try_acquire<Q>(&self, key: &Q, cost: u64) -> Result<LazyDecision<'_>, LocalError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        check_cost(cost)?;
        // Before any lock is taken: a thread may then come with an earlier time than the one before it,
        // which machines handle (D10).
        let now = self.clock.now();
        let admitted = match &self.keys {
            Keys::FixedWindow(shards) => shards.acquire(key, cost, now),
            Keys::SlidingWindow(shards) => shards.acquire(key, cost, now),
            Keys::TokenBucket(shards) => shards.acquire(key, cost, now),
            Keys::IntervalBucket(shards) => shards.acquire(key, cost, now),
            Keys::WarmupBucket(shards) => shards.acquire(key, cost, now),
            Keys::LeakyBucket(shards) => shards.acquire(key, cost, now),
        };
        let full = |_| LocalError::Full { max_keys: self.max_keys.unwrap_or_default() };
        let admitted = admitted.map_err(full)?;
        Ok(LazyDecision::new(&self.limit, admitted, cost, now))
    }

    /// Returns the decision that [`KeyedLimiter::try_acquire`] would make now, and charges nothing. A
    /// `cost` of zero asks only for `remaining` and `reset_after`.
    pub fn peek<Q>(&self, key: &Q, cost: u64) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let now = self.clock.now();
        let prior = match &self.keys {
            Keys::FixedWindow(shards) => shards.prior(key, now),
            Keys::SlidingWindow(shards) => shards.prior(key, now),
            Keys::TokenBucket(shards) => shards.prior(key, now),
            Keys::IntervalBucket(shards) => shards.prior(key, now),
            Keys::WarmupBucket(shards) => shards.prior(key, now),
            Keys::LeakyBucket(shards) => shards.prior(key, now),
        };
        prior.peek(&self.limit, cost, now)
    }

    /// Forgets the use of `key`, and returns whether the key was known.
    pub fn reset<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        match &self.keys {
            Keys::FixedWindow(shards) => shards.reset(key),
            Keys::SlidingWindow(shards) => shards.reset(key),
            Keys::TokenBucket(shards) => shards.reset(key),
            Keys::IntervalBucket(shards) => shards.reset(key),
            Keys::WarmupBucket(shards) => shards.reset(key),
            Keys::LeakyBucket(shards) => shards.reset(key),
        }
    }

    /// Returns the number of keys, with expired ones that are not dropped yet.
    pub fn len(&self) -> usize {
        self.keys.keep().len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many keys were dropped before they had expired, to make room for others.
    pub fn evictions(&self) -> usize {
        self.keys.keep().evictions()
    }

    /// Drops every key that expired [`GRACE`](crate::GRACE) ago, locking one shard after the other.
    pub fn purge(&self) {
        self.keys.keep().purge(self.clock.now());
    }
}

/// The number of shards, or of keys.
#[derive(Clone, Copy)]
enum Size {
    Shards(usize),
    AtMost(usize, WhenFull),
}

impl Size {
    fn shards<K: Hash, M: Meter>(self, meter: M) -> Shards<K, M> {
        let meters = Meters::new(meter);
        match self {
            Size::Shards(count) => Shards::new(meters, count),
            Size::AtMost(keys, when_full) => Shards::bounded(meters, keys, when_full),
        }
    }
}

impl<K: Hash + Eq + Send> Keys<K> {
    fn of(limit: Limit, size: Size) -> Result<Self, UnsupportedLimit> {
        Ok(match limit {
            Limit::FixedWindow(meter) => Keys::FixedWindow(size.shards(meter)),
            Limit::SlidingWindow(meter) => Keys::SlidingWindow(size.shards(meter)),
            Limit::TokenBucket(meter) => Keys::TokenBucket(size.shards(meter)),
            Limit::IntervalBucket(meter) => Keys::IntervalBucket(size.shards(meter)),
            Limit::WarmupBucket(meter) => Keys::WarmupBucket(size.shards(meter)),
            Limit::LeakyBucket(meter) => Keys::LeakyBucket(size.shards(meter)),
            limit => return Err(limit.into()),
        })
    }

    fn keep(&self) -> &dyn Keep {
        match self {
            Keys::FixedWindow(shards) => shards,
            Keys::SlidingWindow(shards) => shards,
            Keys::TokenBucket(shards) => shards,
            Keys::IntervalBucket(shards) => shards,
            Keys::WarmupBucket(shards) => shards,
            Keys::LeakyBucket(shards) => shards,
        }
    }
}

impl<K: Hash + Eq + Send, C: fmt::Debug> fmt::Debug for KeyedLimiter<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("limit", &self.limit)
            .field("keys", &self.keys.keep().len())
            .field("clock", &self.clock)
            .finish()
    }
}
