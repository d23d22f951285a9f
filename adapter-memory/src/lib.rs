//! The in-process store of lockage, which runs the machines itself, and limiters without a store.
//!
//! ```
//! use lockage::Limiter;
//! use lockage_memory::MemoryStore;
//!
//! # pollster::block_on(async {
//! let limiter = Limiter::new(MemoryStore::new(), "fixed-window 10/min".parse()?).with_prefix("login")?;
//! assert_eq!(limiter.try_acquire("user:42", 3).await?.remaining, 7);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! Its futures are ready at once, in every runtime and in none. [`MemoryStore::run`] needs no future.
//!
//! Memory is bounded by the live keys: calls that add a key, and one in 16 others, examine a few keys and
//! drop those that expired [a moment](GRACE) ago. [`MemoryStore::purge`] drops all of them. Callers who choose their
//! ids can make any number of live keys: [`MemoryStore::with_max_keys`] bounds it.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod clock;
mod local;
mod notifications;
mod records;
mod shards;
mod sync;
#[cfg(feature = "test-util")]
pub mod testing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage::notifications::Subscriptions;
use lockage::notifications::{Listener, Notifications, Wake};
use lockage::store::{BlockingStore, Clock, Command, ConfigError, Identity, RecordError};
use lockage::{Key, Store, StoreError};
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use lockage_core::SystemClock;
use lockage_core::{AcquireAll, OneOutcome, Publish, Timestamp};

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use clock::{MonotonicClock, TickingClock};
pub use local::{KeyedLimiter, LocalError, LocalLimiter, UnsupportedLimit};
pub use shards::WhenFull;

use records::{Entry, Records};
use shards::{Full, Keep, Shards};

/// How long a key is kept after it has expired.
///
/// A thread that has read its clock may be delayed while others drop keys that expired by their later times. Unless its
/// delay exceeds this, it still finds its record; likewise if a clock is set back.
pub const GRACE: Duration = Duration::from_secs(1);

/// Returns the time up to which expired keys may be dropped.
fn grace_before(now: Timestamp) -> Timestamp {
    let micros = now.as_micros().saturating_sub(GRACE.as_micros() as u64);
    Timestamp::from_micros(micros).unwrap_or(Timestamp::EPOCH)
}

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
type UsualClock = SystemClock;
/// The default clock. On a system without one, callers provide it.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
type UsualClock = std::sync::Arc<dyn Clock>;

/// A command was not run, and nothing was changed. As a [`StoreError`] it is `Record` or `NotDone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The key holds a record that the command cannot use.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The key is new, and there is no room for it: see [`MemoryStore::with_max_keys`].
    #[error("the store has as many keys as it may have")]
    Full,
}

impl From<Full> for MemoryError {
    fn from(Full: Full) -> Self {
        MemoryError::Full
    }
}

impl From<MemoryError> for StoreError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Record(error) => error.into(),
            MemoryError::Full => StoreError::NotDone(error.into()),
        }
    }
}

/// A store of records in this process. Clones share them.
#[derive(Clone)]
pub struct MemoryStore<C = UsualClock> {
    shards: Arc<Shards<Records, Entry>>,
    channels: Subscriptions,
    clock: C,
}

/// Absent on `wasm32-unknown-unknown`, which has no clock: use [`MemoryStore::with_clock`] there.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
impl MemoryStore<SystemClock> {
    /// Creates an empty store on the system's clock.
    pub fn new() -> Self {
        MemoryStore::with_clock(SystemClock)
    }
}

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
impl Default for MemoryStore<SystemClock> {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl<C: Clock> MemoryStore<C> {
    /// Creates an empty store on this clock.
    pub fn with_clock(clock: C) -> Self {
        MemoryStore::with_shards(clock, shards::COUNT)
    }

    fn with_shards(clock: C, count: usize) -> Self {
        let shards = Arc::new(Shards::new(Records::default(), count));
        MemoryStore { shards, channels: notifications::subscriptions(), clock }
    }

    /// Returns an empty store on the same clock, of at most `keys` keys. A flood of new keys then takes a bounded memory,
    /// and each of them a bounded time.
    ///
    /// Keys are divided by their hashes into up to 256 parts, each of an equal share of `keys`. The first part is full at
    /// about nine tenths of `keys`; with fewer than 2,048 there is one part.
    ///
    /// ```
    /// use lockage::Limiter;
    /// use lockage_memory::{MemoryStore, WhenFull};
    ///
    /// # pollster::block_on(async {
    /// let store = MemoryStore::new().with_max_keys(100, WhenFull::Evict)?;
    /// let limiter = Limiter::new(store.clone(), "fixed-window 10/min".parse()?).with_prefix("login")?;
    /// for user in 0..1000 {
    ///     assert!(limiter.try_acquire(&format!("user:{user}"), 1).await?.is_allowed());
    /// }
    /// assert_eq!((store.len(), store.evictions()), (100, 900));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::Zero`] for no keys.
    pub fn with_max_keys(self, keys: usize, when_full: WhenFull) -> Result<Self, ConfigError> {
        if keys == 0 {
            return Err(ConfigError::Zero { what: "number of keys" });
        }
        let shards = Arc::new(Shards::bounded(Records::default(), keys, when_full));
        Ok(MemoryStore { shards, channels: notifications::subscriptions(), clock: self.clock })
    }

    /// Executes one command on one key, without a future.
    ///
    /// # Errors
    /// See [`MemoryError`]: nothing is changed then.
    pub fn run<M: Command>(&self, key: &str, command: &M) -> Result<M::Outcome, MemoryError> {
        // Read before the lock is taken, so a thread may come with an earlier time than the one before
        // it, which machines handle (D10) while their records are there.
        let now = self.clock.now();
        let (outcome, publish) = self.shards.run(key, command, now)?;
        match publish {
            Publish::Nothing => {}
            Publish::Any => self.channels.message(key, None),
            Publish::To(name) => self.channels.message(key, Some(name)),
        }
        Ok(outcome)
    }

    /// Executes requests on several keys in one step, without a future: all are charged, or nothing is changed.
    ///
    /// # Errors
    /// See [`MemoryError`]: nothing is changed then.
    ///
    /// # Panics
    /// Unless there is one key for each request, and all keys differ.
    pub fn run_all(
        &self,
        keys: &[&str],
        command: &AcquireAll,
    ) -> Result<Vec<OneOutcome>, MemoryError> {
        self.shards.run_all(keys, command, self.clock.now())
    }

    /// Returns the number of stored keys, with expired ones that are not dropped yet.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Returns whether no key is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many keys were dropped before they had expired, to make room for others.
    pub fn evictions(&self) -> usize {
        self.shards.evictions()
    }

    /// Drops every key that expired [`GRACE`] ago, locking one shard after the other.
    pub fn purge(&self) {
        self.shards.purge(self.clock.now());
    }
}

impl<C: fmt::Debug> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.shards.len())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    async fn execute<M>(&self, key: &Key, command: &M) -> Result<M::Outcome, StoreError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        Ok(self.run(key.as_str(), command)?)
    }

    fn identity(&self) -> Option<Identity> {
        BlockingStore::identity(self)
    }

    async fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        BlockingStore::execute_all(self, keys, command, patience)
    }
}

impl<C: Clock> Notifications for MemoryStore<C> {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        self.channels.listen(key.as_str(), wake).await
    }
}

/// Never blocks a caller.
impl<C: Clock> BlockingStore for MemoryStore<C> {
    fn execute<M: Command>(
        &self,
        key: &Key,
        command: &M,
        _patience: Duration,
    ) -> Result<M::Outcome, StoreError> {
        Ok(self.run(key.as_str(), command)?)
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::new(Arc::as_ptr(&self.shards).addr()))
    }

    fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        _patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        let keys: Vec<&str> = keys.iter().map(Key::as_str).collect();
        Ok(self.run_all(&keys, command)?)
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod max_keys_tests;
#[cfg(all(test, not(loom)))]
mod tests;
