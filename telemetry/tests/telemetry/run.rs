//! A run of limiters and locks in virtual time, with every source of a decision, and its expected counts by the
//! reference.

use std::collections::BTreeMap;
use std::time::Duration;

use lockage::limiter::{Clock, DenyCache, Prefetch, StoredLimits};
use lockage::observer::{ObservedStore, Observer};
use lockage::runtime::Tokio;
use lockage::{Fallback, Limit, Limiter, Locks, RetryStore};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, lose};
use lockage_oracle::ledger::Ledger;

type Memory = FailingStore<MemoryStore<TokioClock>>;
type Limited = Limiter<RetryStore<ObservedStore<Memory>, Tokio>>;

const SECOND: Duration = Duration::from_secs(1);

/// The number of requests of each policy that were allowed and denied, and their costs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) requests: BTreeMap<(&'static str, bool), u64>,
    pub(crate) cost: BTreeMap<(&'static str, bool), u64>,
}

/// One limiter, and the reference for its decisions.
struct Policy {
    name: &'static str,
    limiter: Limited,
    reference: Ledger,
    largest_cost: u64,
}

/// Makes a run under this observer, and returns its counts by the reference.
pub(crate) async fn run(observer: impl Observer + Clone, seed: u64) -> Counts {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut counts = Counts::default();
    let clock = TokioClock::new();
    for mut policy in policies(&observer, clock) {
        for _ in 0..200 {
            let cost = random.u64(1..=policy.largest_cost);
            let decision =
                policy.limiter.try_acquire("user:42", cost).await.expect("it is answered");
            let now_us = clock.now().as_micros();
            let is_allowed = policy.reference.decide(cost, now_us);
            assert_eq!(decision.is_allowed(), is_allowed, "{} with seed {seed}", policy.name);
            *counts.requests.entry((policy.name, is_allowed)).or_default() += 1;
            *counts.cost.entry((policy.name, is_allowed)).or_default() += cost;
            tokio::time::advance(Duration::from_millis(random.u64(0..400))).await;
        }
    }
    locks(observer).await;
    counts
}

fn policies(observer: &(impl Observer + Clone), clock: TokioClock) -> Vec<Policy> {
    let policy = |name: &'static str, limit: &str, fate: Fate, largest_cost| {
        let limit: Limit = limit.parse().expect("it is a limit");
        let store = FailingStore::new(MemoryStore::with_clock(clock));
        store.always(fate);
        let store = ObservedStore::new(store, name, observer.clone());
        let limiter = Limiter::new(RetryStore::new(store, Tokio, SECOND), limit);
        let limiter = limiter.with_observer(name, observer.clone());
        Policy { name, limiter, reference: Ledger::new(&limit), largest_cost }
    };
    let plain = policy("plain", "token-bucket 3/s burst 8", Fate::Answered, 3);
    let mut cached = policy("cached", "fixed-window 4/s", Fate::Answered, 2);
    cached.limiter = cached.limiter.with_deny_cache(DenyCache::new(100)).unwrap();
    // Permits that are held outlast the run, and none is left in the end.
    let mut ahead = policy("ahead", "fixed-window 90/h", Fate::Answered, 1);
    let hour = SECOND * 3600;
    ahead.limiter = ahead.limiter.with_prefetch(Prefetch::new(20, hour)).unwrap();
    let mut alone = policy("alone", "fixed-window 90/h", Fate::NotDone, 2);
    let share = Fallback::local_share(1, MemoryStore::with_clock(clock));
    alone.limiter = alone.limiter.with_fallback(share).unwrap();
    vec![plain, cached, ahead, alone]
}

/// Four locks: two are released, one is lost, one is busy; a semaphore of which two permits stay held; a limit that is
/// not stored.
async fn locks(observer: impl Observer + Clone) {
    let memory = MemoryStore::with_clock(TokioClock::new());
    let store = ObservedStore::new(memory, "locks", observer.clone());
    let timed = RetryStore::new(store.clone(), Tokio, SECOND);
    let locks = Locks::new(timed.clone(), SECOND * 30).unwrap();
    let locks = locks.with_observer("invoices", observer.clone());
    for name in ["one", "two"] {
        let guard = locks.lock(name).unwrap().acquire().await.unwrap();
        tokio::time::sleep(SECOND).await;
        guard.release().await.unwrap();
    }
    let guard = locks.lock("three").unwrap().acquire().await.unwrap();
    assert!(locks.lock("three").unwrap().try_acquire().await.unwrap().taken().is_none());
    lose(&store, "lock:{three}").await;
    guard.lost().await;
    let semaphore = locks.semaphore("four", 3).unwrap();
    drop(semaphore.acquire().await.unwrap());
    std::mem::forget(semaphore.permits(2).unwrap().acquire().await.unwrap());

    let stored = Limiter::stored(timed, StoredLimits::new()).with_observer("stored", observer);
    for _ in 0..2 {
        stored.try_acquire("user:42", 1).await.expect_err("there is no limit");
    }
}

/// A store that is away.
pub(crate) struct Outage {
    store: Memory,
    limiter: Limited,
}

impl Outage {
    /// Calls it.
    pub(crate) async fn begin(observer: impl Observer) -> Self {
        let store = FailingStore::new(MemoryStore::with_clock(TokioClock::new()));
        let observed = ObservedStore::new(store.clone(), "sessions", observer);
        let timed = RetryStore::new(observed, Tokio, SECOND);
        let limiter = Limiter::new(timed, "fixed-window 4/s".parse().unwrap());
        store.always(Fate::NotDone);
        limiter.try_acquire("user:42", 1).await.expect_err("it is away");
        Outage { store, limiter }
    }

    /// Calls it once more, when it is back.
    pub(crate) async fn end(self) {
        self.store.always(Fate::Answered);
        assert!(self.limiter.try_acquire("user:42", 1).await.expect("it is back").is_allowed());
    }
}
