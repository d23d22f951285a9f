//! A store and a process with clocks of their own, and a way between them that takes time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockage::runtime::Runtime;
use lockage::store::{Clock, Command, Timestamp};
use lockage::{Key, Store, StoreError};

use lockage_oracle::key::MAX_TIME_US;

/// The reading of the process's clock at the beginning.
const BEGIN: Duration = Duration::from_secs(3600);

/// The time that has really passed since the beginning, in nanoseconds. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct RealTime(Arc<AtomicU64>);

impl RealTime {
    /// Returns the time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets it pass until then, unless it is later already.
    pub fn pass_until_ns(&self, ns: u64) {
        self.0.fetch_max(ns, Ordering::Relaxed);
    }

    /// Lets some nanoseconds pass.
    pub fn pass_ns(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

/// The store's clock: exact, in whole microseconds, rounded down.
#[derive(Clone, Debug)]
pub struct StoreClock {
    /// The real time that the clock follows.
    pub real: RealTime,
    /// The reading of the clock at the beginning, in microseconds.
    pub start_us: u64,
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        let now_us = self.start_us.saturating_add(self.real.now_ns() / 1000).min(MAX_TIME_US);
        Timestamp::from_micros(now_us).expect("within the range")
    }
}

/// The process's clock, in nanoseconds, which may go too fast or too slowly.
#[derive(Clone, Debug)]
pub struct LocalClock {
    /// The real time that the clock follows.
    pub real: RealTime,
    /// The slowness of the clock, in millionths.
    pub slow_ppm: i64,
}

impl Runtime for LocalClock {
    fn now(&self) -> Duration {
        let real = i128::from(self.real.now_ns());
        let shown = real - real * i128::from(self.slow_ppm) / 1_000_000;
        BEGIN + Duration::from_nanos(u64::try_from(shown).expect("the clock does go"))
    }

    /// Never ends: only the test moves time, so no timeout ends.
    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }

    fn random(&self) -> u64 {
        4
    }
}

/// A store that is some nanoseconds away. Clones share its delays and counts.
#[derive(Clone, Debug)]
pub struct Distant<S> {
    store: S,
    real: RealTime,
    way: Arc<Way>,
}

#[derive(Debug, Default)]
struct Way {
    there_ns: AtomicU64,
    back_ns: AtomicU64,
    executed_ns: AtomicU64,
    calls: AtomicU64,
}

impl<S> Distant<S> {
    /// Makes a store with no delay.
    pub fn new(store: S, real: RealTime) -> Self {
        Distant { store, real, way: Arc::default() }
    }

    /// Sets how long the way is, in nanoseconds.
    pub fn set_way(&self, there_ns: u64, back_ns: u64) {
        self.way.there_ns.store(there_ns, Ordering::Relaxed);
        self.way.back_ns.store(back_ns, Ordering::Relaxed);
    }

    /// Returns how many calls there were.
    pub fn calls(&self) -> u64 {
        self.way.calls.load(Ordering::Relaxed)
    }

    /// Returns when the latest one was executed, in nanoseconds of real time.
    pub fn executed_ns(&self) -> u64 {
        self.way.executed_ns.load(Ordering::Relaxed)
    }
}

impl<S: Store> Store for Distant<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.way.calls.fetch_add(1, Ordering::Relaxed);
        self.real.pass_ns(self.way.there_ns.load(Ordering::Relaxed));
        self.way.executed_ns.store(self.real.now_ns(), Ordering::Relaxed);
        let outcome = self.store.execute(key, command).await;
        self.real.pass_ns(self.way.back_ns.load(Ordering::Relaxed));
        outcome
    }
}
