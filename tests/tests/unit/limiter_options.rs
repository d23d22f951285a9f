//! Each option of a limiter on limits per call and (`stored`) on stored limits, the origin of its decisions,
//! and the order in which a call passes through its options.

mod stored;

use std::time::Duration;

use lockage::limiter::{
    CircuitBreakerConfig, DenyCache, Origin, Prefetch, StoredLimit, StoredLimits, UnreadLimit,
};
use lockage::runtime::Tokio;
use lockage::store::{Command, ConfigError, RecordError};
use lockage::{
    BlockingLimiter, Error, Fallback, Key, Limit, Limiter, RetryStore, StoreError, Verdict,
};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use tokio::time::advance;

const SECOND: Duration = Duration::from_secs(1);
/// The round trip of a call, where a store is far away.
const WAY: Duration = Duration::from_millis(20);

type Store = FailingStore<MemoryStore<TokioClock>>;
type Limited<S = Store> = Limiter<RetryStore<S, Tokio>>;

fn store() -> Store {
    FailingStore::new(paused_memory())
}

fn timed<S>(store: &S) -> RetryStore<S, Tokio>
where
    S: Clone,
{
    RetryStore::new(store.clone(), Tokio, SECOND)
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn given(store: &Store, text: &str) -> Limited {
    Limiter::new(timed(store), limit(text))
}

/// Makes a limiter of stored limits with this default.
fn stored(store: &Store, text: &str) -> Limited {
    Limiter::stored(timed(store), StoredLimits::new().with_default(limit(text)))
}

fn tripped_once() -> CircuitBreakerConfig {
    CircuitBreakerConfig::new(1, SECOND * 10, 1).unwrap()
}

/// A store that takes its time.
#[derive(Clone)]
struct Far(Store);

impl lockage::Store for Far {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        tokio::time::sleep(WAY / 2).await;
        let answer = self.0.execute(key, command).await;
        tokio::time::sleep(WAY / 2).await;
        answer
    }
}

async fn ask<S: lockage::Store>(limiter: &Limiter<S>) -> Result<lockage::Decision, Error> {
    limiter.try_acquire("id", 1).await
}

// Limits per call.

/// Knowledge about an id counts only for its own limit.
#[tokio::test(start_paused = true)]
async fn a_view_under_another_limit_has_all_options() {
    let store = store();
    let one = given(&store, "fixed-window 1/h").with_deny_cache(DenyCache::new(100)).unwrap();
    let two = one.under(limit("fixed-window 2/h"));
    assert!(one.try_acquire("id", 1).await.unwrap().is_allowed());
    for _ in 0..2 {
        assert!(!one.try_acquire("id", 1).await.unwrap().is_allowed());
    }
    assert_eq!(store.calls(), 2);
    assert!(two.try_acquire("id", 1).await.unwrap().is_allowed(), "no denial of this limit");
    assert_eq!(two.deny_cache_stats(), one.deny_cache_stats());

    let some = given(&store, "token-bucket 1/s burst 100");
    let some = some.with_prefetch(Prefetch::new(10, SECOND * 60)).unwrap();
    assert!(some.try_acquire("ahead", 1).await.unwrap().is_allowed());
    let more = some.under(limit("token-bucket 1/s burst 200"));
    let decision = more.try_acquire("ahead", 1).await.unwrap();
    assert_eq!(decision.origin, Origin::Store, "what was held was another limit's");
    assert_eq!(more.try_acquire("ahead", 1).await.unwrap().origin, Origin::Prefetch);
    let few = some.under(limit("token-bucket 1/s burst 5"));
    assert_eq!(few.try_acquire("few", 1).await.unwrap().remaining, 4, "no room for 10 ahead");
}

/// Requests under different limits go into one call, each under its own.
#[tokio::test(start_paused = true)]
async fn views_under_other_limits_coalesce() {
    let far = Far(store());
    let five = Limiter::new(timed(&far), limit("fixed-window 5/h")).with_coalescing(100).unwrap();
    let nine = five.under(limit("fixed-window 9/h"));
    let (one, other) = tokio::join!(five.try_acquire("one", 1), nine.try_acquire("other", 1));
    assert_eq!((one.unwrap().remaining, other.unwrap().remaining), (4, 8));
    let (one, other) = tokio::join!(five.try_acquire("same", 1), nine.try_acquire("same", 1));
    assert_eq!((one.unwrap().remaining, other.unwrap().remaining), (4, 7));
}

// The order of the stages, pair by pair: each of these fails if the two are swapped.

/// Shadow mode sees the fallback's decisions.
#[tokio::test(start_paused = true)]
async fn shadow_mode_lets_the_fallbacks_denials_through() {
    let store = store();
    let limiter = given(&store, "fixed-window 5/h").with_fallback(Fallback::closed()).unwrap();
    let limiter = limiter.with_shadow();
    store.always(Fate::NotDone);
    let decision = limiter.try_acquire("id", 1).await.unwrap();
    assert!(decision.is_allowed() && decision.would_deny(), "{decision:?}");
    assert_eq!(limiter.shadow_stats().unwrap().failed, 0);
}

/// The fallback charges a request, without the permits ahead.
#[tokio::test(start_paused = true)]
async fn the_fallback_answers_the_request_without_permits_ahead() {
    let store = store();
    let limiter = given(&store, "fixed-window 40/h")
        .with_prefetch(Prefetch::new(10, SECOND))
        .and_then(|limiter| limiter.with_fallback(Fallback::local_share(1, MemoryStore::new())))
        .unwrap();
    store.always(Fate::NotDone);
    let decision = limiter.try_acquire("id", 1).await.unwrap();
    assert_eq!((decision.origin, decision.remaining), (Origin::Fallback, 39));
}

/// Permits that are held are spent, whatever is known to be denied.
#[tokio::test(start_paused = true)]
async fn held_permits_are_spent_before_a_denial_is_believed() {
    let store = store();
    let limiter = given(&store, "fixed-window 20/h")
        .with_prefetch(Prefetch::new(5, SECOND))
        .and_then(|limiter| limiter.with_deny_cache(DenyCache::new(10)))
        .unwrap();
    _ = limiter.try_acquire("id", 1).await.unwrap();
    let other = given(&store, "fixed-window 20/h");
    assert!(other.try_acquire("id", 14).await.unwrap().is_allowed());
    assert!(!limiter.reserve("id", 1, SECOND).await.unwrap().decision.is_allowed());
    for _ in 0..5 {
        assert_eq!(limiter.try_acquire("id", 1).await.unwrap().origin, Origin::Prefetch);
    }
    let denied = limiter.try_acquire("id", 1).await.unwrap();
    assert!(!denied.is_allowed() && denied.origin == Origin::DenyCache, "{denied:?}");
}

/// A denial that holds is the store's own: it counts while the circuit is open.
#[tokio::test(start_paused = true)]
async fn a_known_denial_holds_while_the_circuit_is_open() {
    let store = store();
    let fallback = Fallback::open().with_circuit_breaker(tripped_once());
    let limiter = given(&store, "fixed-window 1/h")
        .with_deny_cache(DenyCache::new(10))
        .and_then(|limiter| limiter.with_fallback(fallback))
        .unwrap();
    _ = limiter.try_acquire("id", 1).await.unwrap();
    _ = limiter.try_acquire("id", 1).await.unwrap();
    store.always(Fate::NotDone);
    _ = limiter.peek("id", 1).await.unwrap();
    assert!(limiter.is_circuit_open());
    let denied = limiter.try_acquire("id", 1).await.unwrap();
    assert!(!denied.is_allowed() && denied.origin == Origin::DenyCache, "{denied:?}");
}

/// E7: permits that are held when a change begins, or are granted while it is on its way, are dropped.
#[tokio::test(start_paused = true)]
async fn a_change_drops_permits_until_it_ends() {
    let store = store();
    let limiter = given(&store, "token-bucket 1/h burst 33");
    let limiter = limiter.with_prefetch(Prefetch::new(10, SECOND * 60)).unwrap();
    let ask = async || {
        let decision = ask(&limiter).await.unwrap();
        (decision.origin, decision.remaining)
    };
    assert_eq!(ask().await, (Origin::Store, 22));
    assert_eq!(ask().await.0, Origin::Prefetch);
    store.next([Fate::NotDone]);
    let changing = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.reset("id").await }
    });
    tokio::task::yield_now().await;
    assert_eq!(ask().await, (Origin::Store, 11));
    assert!(changing.await.unwrap().unwrap());
    assert_eq!(ask().await, (Origin::Store, 22));
    assert_eq!(ask().await.0, Origin::Prefetch);
}

/// Bad names and windows are refused where a limiter is built.
#[tokio::test(start_paused = true)]
async fn no_limiter_is_built_of_bad_input() {
    let limiter = given(&store(), "fixed-window 9/h");
    assert_eq!(limiter.prefix(), None);
    assert!(limiter.clone().with_prefix("").is_err());
    assert_eq!(limiter.clone().with_prefix("mine").unwrap().prefix(), Some("mine"));
    assert!(limiter.with_idempotency(Duration::ZERO).is_err());
    assert!(StoredLimits::new().as_client("").is_err());
}

/// Calls that only the store can answer reach it while the circuit is open.
#[tokio::test(start_paused = true)]
async fn an_open_circuit_stops_no_call_that_needs_the_store() {
    let store = store();
    let fallback = Fallback::open().with_circuit_breaker(tripped_once());
    let limiter = given(&store, "fixed-window 9/h").with_fallback(fallback).unwrap();
    store.always(Fate::NotDone);
    _ = ask(&limiter).await.unwrap();
    store.always(Fate::Answered);
    assert!(limiter.is_circuit_open());
    assert!(!limiter.reset("id").await.unwrap());
    assert!(limiter.is_circuit_open(), "it is no probe");
}

/// While the circuit is open, no request queues behind the probe.
#[tokio::test(start_paused = true)]
async fn no_request_queues_while_the_circuit_is_open() {
    let far = Far(store());
    let fallback = Fallback::open().with_circuit_breaker(tripped_once());
    let limiter = Limiter::new(timed(&far), limit("fixed-window 9/h"))
        .with_coalescing(100)
        .and_then(|limiter| limiter.with_fallback(fallback))
        .unwrap();
    far.0.always(Fate::RequestLost);
    _ = ask(&limiter).await.unwrap();
    assert!(limiter.is_circuit_open());
    far.0.always(Fate::Silence);
    advance(SECOND * 10).await;
    let prober = limiter.clone();
    let probe = tokio::spawn(async move { ask(&prober).await });
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    assert_eq!(ask(&limiter).await.unwrap().origin, Origin::Fallback);
    assert_eq!(start.elapsed(), Duration::ZERO, "it waits for no call");
    assert_eq!(probe.await.unwrap().unwrap().origin, Origin::Fallback);
    assert_eq!(limiter.coalescing_stats().unwrap().calls, 2);
}

/// Ids and coalescing exclude each other, in either order; every other pair of options is accepted.
#[tokio::test(start_paused = true)]
async fn only_ids_and_coalescing_exclude_each_other() {
    let conflict = |built: Result<Limited, ConfigError>| {
        matches!(built.unwrap_err(), ConfigError::Conflict { .. })
    };
    let limiter = || given(&store(), "fixed-window 20/h");
    let named = || limiter().with_idempotency(SECOND).unwrap();
    let shared = || limiter().with_coalescing(9).unwrap();
    assert!(conflict(named().with_coalescing(9)) && conflict(shared().with_idempotency(SECOND)));
    for each in [named(), shared()] {
        let built = each
            .with_prefetch(Prefetch::new(5, SECOND))
            .and_then(|limiter| limiter.with_deny_cache(DenyCache::new(10)))
            .and_then(|limiter| limiter.with_fallback(Fallback::closed()));
        assert!(built.unwrap().with_shadow().shadow_stats().is_some());
    }
}
