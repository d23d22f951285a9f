//! Decisions while the store is away, and the conditions under which it counts as away.

use std::sync::Arc;
use std::time::Duration;

use lockage::limiter::{CircuitBreakerConfig, Origin};
use lockage::runtime::Tokio;
use lockage::store::ConfigError;
use lockage::{Error, Fallback, Limit, Limiter, RetryStore, StoreError, Verdict};
use lockage_core::ManualClock;
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate};

type Memory = MemoryStore<Arc<ManualClock>>;
type Store = FailingStore<Memory>;

const TIMEOUT: Duration = Duration::from_millis(100);
const PROBE: Duration = Duration::from_secs(1);

fn memory() -> Memory {
    MemoryStore::with_clock(Arc::new(ManualClock::new()))
}

/// Makes a process: its view of the common store, and its policy.
fn process(store: &Store, policy: Fallback) -> Limiter<RetryStore<Store, Tokio>> {
    let limit: Limit = "fixed-window 40/h".parse().unwrap();
    let outage = CircuitBreakerConfig::new(2, PROBE, 3).unwrap();
    let timed = RetryStore::new(store.clone(), Tokio, TIMEOUT);
    Limiter::new(timed, limit).with_fallback(policy.with_circuit_breaker(outage)).unwrap()
}

async fn allowed(limiter: &Limiter<RetryStore<Store, Tokio>>) -> bool {
    limiter.try_acquire("id", 1).await.unwrap().is_allowed()
}

/// Without a policy callers get the error, each time.
#[tokio::test(start_paused = true)]
async fn without_a_policy_callers_get_the_error() {
    let store = FailingStore::new(memory());
    store.always(Fate::RequestLost);
    let timed = RetryStore::new(store.clone(), Tokio, TIMEOUT);
    let limiter = Limiter::new(timed, "fixed-window 40/h".parse().unwrap());
    for _ in 0..5 {
        let error = limiter.try_acquire("id", 1).await.unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::Unknown(_))), "{error:?}");
    }
    assert_eq!(store.calls(), 5);
}

/// A refusal that lasts is sent once, and is no absence: no policy answers it, and the circuit stays closed. Calls go on
/// as soon as the store takes them.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_lasts_is_the_callers() {
    for policy in [Fallback::open(), Fallback::closed(), Fallback::local_share(4, memory())] {
        let store = FailingStore::new(memory());
        let limiter = process(&store, policy);
        store.always(Fate::Misconfigured);
        for calls in 1..=5 {
            let error = limiter.try_acquire("id", 1).await.unwrap_err();
            assert!(matches!(error, Error::Store(StoreError::Misconfigured(_))), "{error:?}");
            assert!(!limiter.is_circuit_open());
            assert_eq!(store.calls(), calls);
        }
        store.always(Fate::Answered);
        assert_eq!(limiter.try_acquire("id", 1).await.unwrap().remaining, 39);
    }
}

/// Allow and deny answer in the store's place, and still report impossible costs as such.
#[tokio::test(start_paused = true)]
async fn allow_and_deny_answer_in_the_stores_place() {
    let store = FailingStore::new(memory());
    store.always(Fate::NotDone);
    let (open, closed) = (process(&store, Fallback::open()), process(&store, Fallback::closed()));
    for _ in 0..50 {
        assert!(allowed(&open).await && !allowed(&closed).await);
    }
    let denied = closed.try_acquire("id", 1).await.unwrap();
    assert_eq!(denied.verdict, Verdict::denied(PROBE));
    assert!(
        denied.origin == Origin::Fallback
            && open.peek("id", 1).await.unwrap().origin == Origin::Fallback
    );
    for limiter in [&open, &closed] {
        assert_eq!(limiter.try_acquire("id", 41).await.unwrap().verdict, Verdict::Never);
        assert_eq!(limiter.try_acquire_each("id", &[1, 1, 41]).await.unwrap().len(), 3);
        assert_eq!(limiter.peek("id", 0).await.unwrap().limit, 40);
        assert!(limiter.reset("id").await.is_err(), "a reset is no decision");
        assert!(limiter.try_acquire("id", 0).await.is_err(), "bad input stays bad");
    }
}

/// An away store is asked by one call now and then; the others neither ask nor wait.
#[tokio::test(start_paused = true)]
async fn an_away_store_is_left_alone_but_for_probes() {
    let store = FailingStore::new(memory());
    let limiter = process(&store, Fallback::open());
    store.always(Fate::Silence);
    for call in 1..=2 {
        assert!(!limiter.is_circuit_open());
        assert!(allowed(&limiter).await);
        assert_eq!(store.calls(), call);
    }
    assert!(limiter.is_circuit_open());
    let start = tokio::time::Instant::now();
    for _ in 0..100 {
        assert!(allowed(&limiter).await);
    }
    assert_eq!((start.elapsed(), store.calls()), (Duration::ZERO, 2));
    for probes in 1..=3 {
        tokio::time::advance(PROBE).await;
        for _ in 0..10 {
            assert!(allowed(&limiter).await);
        }
        assert_eq!(store.calls(), 2 + probes);
    }
}

/// Hysteresis: one failure does not send callers away, and one answer does not send them back.
#[tokio::test(start_paused = true)]
async fn it_takes_several_failures_to_leave_and_several_answers_to_return() {
    let store = FailingStore::new(memory());
    let limiter = process(&store, Fallback::closed());
    for _ in 0..5 {
        store.next([Fate::RequestLost]);
        assert!(!allowed(&limiter).await);
        assert!(allowed(&limiter).await, "the store was asked");
    }
    assert!(!limiter.is_circuit_open());
    store.next([Fate::RequestLost; 2]);
    assert!(!allowed(&limiter).await && !allowed(&limiter).await);
    assert!(limiter.is_circuit_open());

    // Answered, answered, lost: the count begins anew.
    for (fate, away) in [
        (Fate::Answered, true),
        (Fate::Answered, true),
        (Fate::RequestLost, true),
        (Fate::Answered, true),
        (Fate::Answered, true),
        (Fate::Answered, false),
    ] {
        tokio::time::advance(PROBE).await;
        store.next([fate]);
        assert_eq!(allowed(&limiter).await, fate == Fate::Answered, "a probe's own answer counts");
        assert_eq!(limiter.is_circuit_open(), away);
    }
    assert!(limiter.try_acquire("id", 1).await.unwrap().origin != Origin::Fallback);
}

/// The shares of all processes together admit no more than the limit, and each change between
/// store and shares at most the limit once more.
#[tokio::test(start_paused = true)]
async fn shares_together_stay_within_the_limit() {
    let store = FailingStore::new(memory());
    let processes: Vec<_> =
        (0..4).map(|_| process(&store, Fallback::local_share(4, memory()))).collect();
    let mut admitted = 0;
    let mut spend = async |calls: u32| {
        let before = admitted;
        for _ in 0..calls {
            for process in &processes {
                admitted += u64::from(allowed(process).await);
            }
        }
        admitted - before
    };
    assert_eq!(spend(100).await, 40, "present: the limit");
    store.always(Fate::NotDone);
    assert_eq!(spend(100).await, 40, "away: all shares, anew");
    store.always(Fate::Answered);
    for _ in 0..3 {
        tokio::time::advance(PROBE).await;
        assert_eq!(spend(1).await, 0, "probes are told by the store that nothing is left");
    }
    assert_eq!(spend(100).await, 0);
    assert!(processes.iter().all(|process| !process.is_circuit_open()));
    store.always(Fate::NotDone);
    assert_eq!(spend(100).await, 0, "away again: the shares remember what they admitted");
}

/// A limit that leaves nothing for each process is refused when it is built.
#[tokio::test]
async fn a_share_of_nothing_is_refused() {
    let timed = RetryStore::new(FailingStore::new(memory()), Tokio, TIMEOUT);
    let limiter = Limiter::new(timed, "sliding-log 3/s".parse().unwrap());
    let error = limiter.with_fallback(Fallback::local_share(4, memory())).unwrap_err();
    assert_eq!(error, ConfigError::NoShare { what: "limit", value: 3, shares: 4 });
}

/// A fallback decides as on a key that was never used, denies until the next probe, or goes by its share. A peek charges
/// none of it.
#[tokio::test(start_paused = true)]
async fn fallback_decisions_report_remaining() {
    let told = async |policy: Fallback, asks: u64| {
        let store = FailingStore::new(memory());
        let limiter = process(&store, policy);
        store.always(Fate::NotDone);
        _ = limiter.peek("id", 3).await.unwrap();
        let mut left = Vec::new();
        for _ in 0..asks {
            let decision = limiter.try_acquire("id", 3).await.unwrap();
            assert_eq!(decision.limit, if asks == 3 { 10 } else { 40 });
            left.push((decision.remaining, decision.retry_after()));
        }
        let never = limiter.try_acquire("id", 41).await.unwrap();
        assert_eq!(never.verdict, Verdict::Never);
        left
    };
    assert_eq!(told(Fallback::open(), 2).await, [(37, None); 2]);
    assert_eq!(told(Fallback::closed(), 2).await, [(0, Some(PROBE)); 2]);
    assert_eq!(
        told(Fallback::local_share(4, memory()), 3).await,
        [(7, None), (4, None), (1, None)]
    );
}
