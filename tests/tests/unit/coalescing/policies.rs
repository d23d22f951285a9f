//! Coalescing together with the other options: an absent store, and callers that wait for their permit.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockage::limiter::{CircuitBreakerConfig, Origin};
use lockage::runtime::{AsyncStd, Runtime, Smol, Spawn, Tokio};
use lockage::store::Command;
use lockage::{Decision, Error, Fallback, Key, Limiter, RetryStore, Store, StoreError};
use lockage_core::ManualClock;
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate};

type Memory = FailingStore<MemoryStore<Arc<ManualClock>>>;
type Limited<R = Tokio> = Limiter<RetryStore<Far<R>, R>>;

/// A store far away.
#[derive(Clone)]
struct Far<R>(Memory, R);

impl<R: Runtime> Store for Far<R> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.1.sleep(WAY).await;
        let answer = self.0.execute(key, command).await;
        self.1.sleep(WAY).await;
        answer
    }
}

/// A store that takes several keys in one call.
#[derive(Clone)]
struct OfManyKeys(FailingStore<MemoryStore>);

impl Store for OfManyKeys {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command).await
    }

    fn supports_batch(&self) -> bool {
        true
    }
}

/// From here to the store.
const WAY: Duration = Duration::from_millis(5);

/// Long: some of these tests run in real time.
const TIMEOUT: Duration = Duration::from_secs(20);
const PROBE: Duration = Duration::from_secs(1);

fn limiter(limit: &str, max_waiting: usize) -> (Limited, Memory, Arc<ManualClock>) {
    limiter_on(Tokio, limit, max_waiting)
}

fn limiter_on<R: Spawn>(
    runtime: R,
    limit: &str,
    max_waiting: usize,
) -> (Limited<R>, Memory, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let store = FailingStore::new(MemoryStore::with_clock(Arc::clone(&clock)));
    let timed = RetryStore::new(Far(store.clone(), runtime.clone()), runtime.clone(), TIMEOUT);
    let limiter = Limiter::new(timed, limit.parse().unwrap()).with_coalescing(max_waiting);
    (limiter.unwrap(), store, clock)
}

/// Returns the answers of this many callers at once.
async fn at_once(limiter: &Limited, callers: usize) -> Vec<Result<Decision, Error>> {
    let tasks = (0..callers).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.try_acquire("id", 1).await })
    });
    let mut told = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        told.push(task.await.unwrap());
    }
    told
}

/// One failed call is one failure, however many wait for it, and each of them gets the fallback's answer.
#[tokio::test(start_paused = true)]
async fn one_failed_call_is_one_failure() {
    let (limiter, store, _) = limiter("fixed-window 40/h", 100);
    let outage = CircuitBreakerConfig::new(3, PROBE, 1).unwrap();
    let limiter = limiter.with_fallback(Fallback::open().with_circuit_breaker(outage)).unwrap();
    let degraded = async |callers: usize| {
        let told = at_once(&limiter, callers).await;
        told.iter().filter(|told| told.as_ref().unwrap().origin == Origin::Fallback).count()
    };
    store.next([Fate::RequestLost, Fate::RequestLost, Fate::Answered]);
    assert_eq!((degraded(50).await, degraded(20).await, degraded(20).await), (50, 20, 0));
    assert_eq!((store.calls(), limiter.is_circuit_open()), (3, false), "two calls failed");
    store.next([Fate::RequestLost; 3]);
    assert_eq!((degraded(2).await, degraded(20).await, degraded(9).await), (2, 20, 9));
    assert_eq!((store.calls(), limiter.is_circuit_open()), (6, true), "three in a row");
    assert_eq!(degraded(30).await, 30);
    assert_eq!(store.calls(), 6, "nobody asks it");
    tokio::time::advance(PROBE).await;
    assert_eq!(degraded(30).await, 29, "one is the probe");
    assert_eq!((store.calls(), limiter.is_circuit_open()), (7, false));
}

/// D17: a probe that shares its call with earlier requests is answered by it.
#[tokio::test(start_paused = true)]
async fn a_probe_in_a_shared_call_is_answered() {
    let (limiter, store, _) = limiter("fixed-window 40/h", 100);
    let breaker = CircuitBreakerConfig::new(1, TIMEOUT / 2, 1).unwrap();
    let limiter = limiter.with_fallback(Fallback::open().with_circuit_breaker(breaker)).unwrap();
    store.next([Fate::Silence, Fate::RequestLost, Fate::Answered]);
    let ask = |id: &'static str| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.try_acquire(id, 1).await.unwrap().origin })
    };
    let silent = ask("id");
    tokio::time::sleep(WAY * 2).await;
    let behind = ask("id");
    assert_eq!(ask("other").await.unwrap(), Origin::Fallback);
    assert!(limiter.is_circuit_open());
    tokio::time::sleep(TIMEOUT / 2).await;
    let probe = ask("id");
    assert_eq!(silent.await.unwrap(), Origin::Fallback);
    assert_eq!((behind.await.unwrap(), probe.await.unwrap()), (Origin::Store, Origin::Store));
    assert!(!limiter.is_circuit_open());
    assert_eq!(store.calls(), 3);
}

/// D17: a refusal for one key is an answer of the store, whatever comes of another key of the call.
#[tokio::test(start_paused = true)]
async fn a_refusal_for_one_key_of_a_call_is_an_answer() {
    let store = FailingStore::new(MemoryStore::new());
    let timed = RetryStore::new(OfManyKeys(store.clone()), Tokio, TIMEOUT);
    let breaker = CircuitBreakerConfig::new(1, PROBE, 1).unwrap();
    let limiter = Limiter::new(timed, "fixed-window 40/h".parse().unwrap())
        .with_coalescing(100)
        .and_then(|it| it.with_fallback(Fallback::open().with_circuit_breaker(breaker)))
        .unwrap();
    store.next([Fate::RequestLost, Fate::Misconfigured]);
    let ask = |id| limiter.try_acquire(id, 1);
    let (lost, refused) = tokio::join!(ask("lost"), ask("refused"));
    assert_eq!(lost.unwrap().origin, Origin::Fallback);
    assert!(matches!(refused, Err(Error::Store(StoreError::Misconfigured(_)))));
    assert_eq!((limiter.coalescing_stats().unwrap().calls, store.calls()), (1, 2));
    assert!(!limiter.is_circuit_open());
}

/// A full queue is not the store's absence: no policy answers it, and nothing is counted.
#[tokio::test(start_paused = true)]
async fn a_full_queue_is_no_absence() {
    let (limiter, store, _) = limiter("fixed-window 40/h", 4);
    let outage = CircuitBreakerConfig::new(1, PROBE, 1).unwrap();
    let limiter = limiter.with_fallback(Fallback::open().with_circuit_breaker(outage)).unwrap();
    let told = at_once(&limiter, 20).await;
    let refused = told.iter().filter(|told| matches!(told, Err(Error::QueueFull(_)))).count();
    let decided = told
        .iter()
        .filter(|told| told.as_ref().is_ok_and(|one| one.origin != Origin::Fallback))
        .count();
    assert_eq!((decided, refused, limiter.is_circuit_open()), (4, 16, false));
    assert_eq!(store.calls(), 1);
}

/// A silent store delays waiters for two timeouts, and no longer.
#[tokio::test(start_paused = true)]
async fn a_silent_store_costs_two_timeouts() {
    let (limiter, store, _) = limiter("fixed-window 40/h", 100);
    store.always(Fate::Silence);
    let start = tokio::time::Instant::now();
    let meanwhile = async {
        // The first is on its way.
        tokio::time::sleep(WAY / 2).await;
        at_once(&limiter, 50).await
    };
    let (first, meanwhile) = tokio::join!(at_once(&limiter, 1), meanwhile);
    assert!(first.iter().chain(&meanwhile).all(Result::is_err));
    assert_eq!((start.elapsed(), store.calls()), (2 * TIMEOUT, 2));
}

/// E4: callers that wait for their permit ask together, and are admitted as the limit says.
#[tokio::test(start_paused = true)]
async fn waiters_for_a_permit_ask_together() {
    let (limiter, store, clock) = limiter("token-bucket 50/s burst 10", 1000);
    let start = tokio::time::Instant::now();
    // The store's clock goes with tokio's.
    let ticking = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            clock.advance(Duration::from_millis(1));
        }
    });
    let waits = (0..100).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire_within("id", 1, Duration::from_secs(4)).await })
    });
    let mut admitted = 0;
    for wait in waits.collect::<Vec<_>>() {
        admitted += u64::from(wait.await.unwrap().unwrap().is_allowed());
    }
    let elapsed = u64::try_from(start.elapsed().as_millis()).unwrap();
    ticking.abort();
    assert!((90..=10 + (50 * elapsed).div_ceil(1000)).contains(&admitted), "{admitted}");
    let told = limiter.coalescing_stats().unwrap();
    assert_eq!(told.calls, store.calls());
    assert!(told.largest_call >= 5, "those whose permits are there ask at once: {told:?}");
}

/// Each runtime does, with its real timers.
#[test]
fn every_runtime_coalesces() {
    async fn thirty<R: Spawn, T: Future<Output = bool>>(
        runtime: R,
        spawn: impl Fn(Pin<Box<dyn Future<Output = bool> + Send>>) -> T,
    ) {
        let (limiter, store, _) = limiter_on(runtime, "fixed-window 20/h", 100);
        let tasks = (0..30).map(|_| {
            let limiter = limiter.clone();
            spawn(Box::pin(async move { limiter.try_acquire("id", 1).await.unwrap().is_allowed() }))
        });
        let mut admitted = 0;
        for task in tasks.collect::<Vec<_>>() {
            admitted += u64::from(task.await);
        }
        assert_eq!(admitted, 20);
        assert!(store.calls() < 30, "{} calls for 30", store.calls());
    }
    tokio::runtime::Runtime::new().unwrap().block_on(thirty(Tokio, |task| {
        let task = tokio::spawn(task);
        async { task.await.unwrap() }
    }));
    async_std::task::block_on(thirty(AsyncStd, async_std::task::spawn));
    smol::block_on(thirty(Smol, smol::spawn));
}
