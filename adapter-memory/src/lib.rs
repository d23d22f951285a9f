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
//! Memory is bounded by the live keys: each call drops a few keys that expired [a moment](GRACE) ago.
//! [`MemoryStore::purge`] drops all of them.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod clock;
mod local;
mod notifications;
mod shard;
mod sync;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockage::notifications::Subscriptions;
use lockage::notifications::{Listener, Notifications, Wake};
use lockage::store::{BlockingStore, Clock, Command, RecordError};
use lockage::{Key, Store, StoreError};
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use lockage_core::SystemClock;
use lockage_core::{Publish, Timestamp};

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use clock::{MonotonicClock, TickingClock};
pub use local::{KeyedLimiter, LocalLimiter, UnsupportedLimit};

use shard::Shard;
use sync::Mutex;

/// How long a key is kept after it has expired.
///
/// A thread that has read its clock may be delayed while others drop keys that expired by their later
/// times. Unless it is late by more than this, it still finds its record; likewise a clock that is set
/// back.
pub const GRACE: Duration = Duration::from_secs(1);

/// Returns the time up to which expired keys may be dropped.
fn grace_before(now: Timestamp) -> Timestamp {
    let micros = now.as_micros().saturating_sub(GRACE.as_micros() as u64);
    Timestamp::from_micros(micros).unwrap_or(Timestamp::EPOCH)
}

/// After this many calls to a shard, the calling thread also visits another shard, so that keys
/// expire in unused shards.
const CALLS_PER_VISIT: u64 = 16;
/// How many due keys a call examines in its own shard, and in the one that it visits.
const DUE_PER_CALL: usize = 2;
const DUE_PER_VISIT: usize = 64;

/// A store of records in this process. Clones share them.
#[derive(Clone, Debug)]
pub struct MemoryStore<C> {
    shards: Arc<Shards>,
    channels: Subscriptions,
    clock: C,
}

#[derive(Debug)]
struct Shards {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    next_visit: AtomicUsize,
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
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        MemoryStore::with_shards(clock, threads * 8)
    }

    fn with_shards(clock: C, count: usize) -> Self {
        let shards = Shards {
            shards: (0..count).map(|_| Mutex::new(Shard::default())).collect(),
            hasher: RandomState::new(),
            next_visit: AtomicUsize::new(0),
        };
        MemoryStore { shards: Arc::new(shards), channels: notifications::subscriptions(), clock }
    }

    /// Executes one command on one key, without a future.
    ///
    /// # Errors
    /// [`RecordError`] if the key holds another record; nothing is changed.
    pub fn run<M: Command>(&self, key: &str, command: &M) -> Result<M::Outcome, RecordError> {
        // Read before the lock is taken, so a thread may come with an earlier time than the one before
        // it, which machines handle (D10) while their records are there.
        let now = self.clock.now();
        let shards = &self.shards;
        let index = shards.hasher.hash_one(key) as usize % shards.shards.len();
        let (outcome, calls) = {
            let mut shard = sync::lock(&shards.shards[index]);
            shard.drop_due(now, DUE_PER_CALL);
            (shard.run(key, command, now), shard.count_call())
        };
        if calls.is_multiple_of(CALLS_PER_VISIT) {
            let visit = shards.next_visit.fetch_add(1, Ordering::Relaxed) % shards.shards.len();
            sync::lock(&shards.shards[visit]).drop_due(now, DUE_PER_VISIT);
        }
        let (outcome, publish) = outcome?;
        match publish {
            Publish::Nothing => {}
            Publish::Any => self.channels.message(key, None),
            Publish::To(name) => self.channels.message(key, Some(name)),
        }
        Ok(outcome)
    }

    /// Returns the number of stored keys, with expired ones that are not dropped yet.
    pub fn len(&self) -> usize {
        self.shards.shards.iter().map(|shard| sync::lock(shard).len()).sum()
    }

    /// Returns whether no key is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops every key that expired [`GRACE`] ago, locking one shard after the other.
    pub fn purge(&self) {
        let now = self.clock.now();
        for shard in &self.shards.shards {
            sync::lock(shard).drop_due(now, usize::MAX);
        }
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    async fn execute<M>(&self, key: &Key, command: &M) -> Result<M::Outcome, StoreError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        Ok(self.run(key.as_str(), command)?)
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
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
