//! The calls that a deny cache saves the store, the changes that it heeds, and its bounded size.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockage::limiter::{DenyCache, DenyCacheStats, Origin, RequestId};
use lockage::runtime::Tokio;
use lockage::store::ConfigError;
use lockage::{BlockingLimiter, Fallback, Limiter, RetryStore, Verdict};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use tokio::time::{Instant, advance};

const SECOND: Duration = Duration::from_secs(1);
const MICROSECOND: Duration = Duration::from_micros(1);

type Store = FailingStore<MemoryStore<TokioClock>>;
type Limited = Limiter<RetryStore<Store, Tokio>>;

fn store() -> Store {
    FailingStore::new(paused_memory())
}

fn limiter_on(store: &Store, limit: &str) -> Limited {
    Limiter::new(RetryStore::new(store.clone(), Tokio, SECOND), limit.parse().unwrap())
}

fn limiter(limit: &str) -> (Limited, Store) {
    let store = store();
    let limiter = limiter_on(&store, limit).with_deny_cache(DenyCache::new(100)).unwrap();
    (limiter, store)
}

async fn allowed(limiter: &Limited, cost: u64) -> bool {
    limiter.try_acquire("id", cost).await.unwrap().is_allowed()
}

fn stats(limiter: &Limited) -> DenyCacheStats {
    limiter.deny_cache_stats().unwrap()
}

/// Polls until the future is ready or the number of polls is reached.
fn poll_times<F: Future>(future: std::pin::Pin<&mut F>, times: usize) -> Option<F::Output> {
    let (mut future, mut context) = (future, Context::from_waker(Waker::noop()));
    (0..times).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// The store hears of one denial, and again once it has ended, for all limits.
#[tokio::test(start_paused = true)]
async fn a_flood_of_denied_requests_asks_the_store_once() {
    for limit in [
        "fixed-window 3/s",
        "sliding-log 3/s",
        "sliding-window 3/s",
        "token-bucket 3/s burst 3",
        "token-bucket 3 every 1s burst 3",
    ] {
        let (limiter, store) = limiter(limit);
        assert!(allowed(&limiter, 3).await);
        let told = limiter.try_acquire("id", 3).await.unwrap();
        let until = told.retry_after().unwrap();
        for tenth in 0..9 {
            let decision = limiter.try_acquire("id", 3).await.unwrap();
            assert!(decision.retry_after().unwrap() <= until - until * tenth / 10, "{limit}");
            assert!(decision.origin != Origin::Fallback);
            assert!(!allowed(&limiter, 3).await);
            advance(until / 10).await;
        }
        assert_eq!(store.executions(), 2, "{limit}");
        advance(until / 10).await;
        assert!(allowed(&limiter, 3).await, "{limit}");
        let seen = stats(&limiter);
        assert_eq!((seen.hits, seen.misses, store.executions()), (18, 3, 3), "{limit}");
        assert_eq!((seen.entries, seen.evictions), (0, 0), "{limit}: it is over");
    }
}

/// A remembered denial of a cost answers for larger ones, also for those that are never admitted, and not for
/// smaller ones.
#[tokio::test(start_paused = true)]
async fn a_denied_cost_answers_for_larger_ones_alone() {
    let (limiter, store) = limiter("fixed-window 10/h");
    assert!(allowed(&limiter, 5).await && !allowed(&limiter, 7).await);
    let larger = limiter.try_acquire("id", 8).await.unwrap();
    assert!(matches!(larger.verdict, Verdict::Denied { .. }));
    assert_eq!((larger.limit, larger.remaining), (10, 6), "7 do not fit: 6 may");
    let never = limiter.try_acquire("id", 11).await.unwrap();
    assert_eq!((never.verdict, never.remaining), (Verdict::Never, 6));
    assert_eq!(store.executions(), 2);

    assert!(
        !allowed(&limiter, 6).await && allowed(&limiter, 5).await && !allowed(&limiter, 1).await
    );
    assert_eq!(store.executions(), 5);
    // The smallest is the one that is kept.
    _ = limiter.peek("id", 9).await.unwrap();
    assert!(!allowed(&limiter, 1).await && !allowed(&limiter, 2).await);
    assert_eq!(store.executions(), 6);
    let seen = stats(&limiter);
    assert_eq!((seen.entries, seen.evictions), (1, 0), "one key, and room for it");
}

/// The cache answers a list of which it denies every request. It learns the store's answers for each.
#[tokio::test(start_paused = true)]
async fn a_list_is_answered_here_where_all_of_it_is_denied() {
    let (limiter, store) = limiter("fixed-window 10/h");
    let verdicts = async |costs: &[u64]| {
        let decisions = limiter.try_acquire_each("id", costs).await.unwrap();
        decisions.iter().map(|decision| decision.is_allowed()).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(&[7, 5, 1]).await, [true, false, true]);
    assert_eq!(verdicts(&[6, 5, 11]).await, [false; 3]);
    assert_eq!(store.executions(), 1);
    assert_eq!(verdicts(&[5, 1]).await, [false, true]);
    assert_eq!(store.executions(), 2);
    assert_eq!((stats(&limiter).hits, stats(&limiter).misses), (1, 2));
}

/// It asks again a little before the denial ends, by a thousandth of it: the clocks may differ.
#[tokio::test(start_paused = true)]
async fn the_store_is_asked_again_before_the_denial_ends() {
    let (limiter, store) = limiter("fixed-window 1/1000s");
    assert!(allowed(&limiter, 1).await && !allowed(&limiter, 1).await);
    advance(SECOND * 999 - Duration::from_millis(1)).await;
    assert!(!allowed(&limiter, 1).await);
    assert_eq!(store.executions(), 2);
    advance(Duration::from_millis(1)).await;
    assert!(!allowed(&limiter, 1).await);
    assert_eq!(store.executions(), 3);
}

/// A peek asks the store, and its denial is not kept: it converts no record of another limit (D1).
#[tokio::test(start_paused = true)]
async fn a_peek_asks_the_store() {
    let (limiter, store) = limiter("fixed-window 1/h");
    assert!(allowed(&limiter, 1).await);
    for _ in 0..2 {
        assert!(!limiter.peek("id", 1).await.unwrap().is_allowed());
    }
    assert_eq!(store.executions(), 3);
    assert!(!allowed(&limiter, 1).await);
    assert_eq!((store.executions(), stats(&limiter).hits), (4, 0));
}

/// D11: a repeated request gets its answer again, whatever has been denied since.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_gets_its_answer_again() {
    let (limiter, _store) = limiter("fixed-window 2/h");
    let once = || limiter.try_acquire_once("id", 2, RequestId::from_u128(7), SECOND);
    let first = once().await.unwrap();
    assert!(first.is_allowed() && !allowed(&limiter, 2).await && !allowed(&limiter, 1).await);
    assert_eq!(once().await.unwrap(), first);
    assert!(!allowed(&limiter, 2).await, "which gives nothing back");
}

/// A reset through this limiter counts at once, for its clones too.
#[tokio::test(start_paused = true)]
async fn a_reset_is_heeded() {
    let (limiter, _store) = limiter("fixed-window 1/h");
    let clone = limiter.clone();
    for _ in 0..3 {
        assert!(allowed(&limiter, 1).await && !allowed(&limiter, 1).await);
        assert!(clone.reset("id").await.unwrap());
    }
}

/// A denial that was decided before a reset, and is answered after it, is not believed.
#[tokio::test(start_paused = true)]
async fn a_denial_from_before_a_reset_is_not_believed_after_it() {
    let (limiter, store) = limiter("fixed-window 1/h");
    assert!(allowed(&limiter, 1).await);
    let mut late = pin!(limiter.try_acquire("id", 1));
    assert!(poll_times(late.as_mut(), 2).is_none());
    assert_eq!(store.executions(), 2, "it is decided, and its answer under way");
    limiter.reset("id").await.unwrap();
    assert!(!late.await.unwrap().is_allowed());
    assert!(allowed(&limiter, 1).await);
}

/// Denials known before a reset are not answered once the reset is under way, for it may be done.
#[tokio::test(start_paused = true)]
async fn cached_denials_are_not_returned_during_a_reset() {
    let (limiter, store) = limiter("fixed-window 1/h");
    assert!(allowed(&limiter, 1).await && !allowed(&limiter, 1).await);
    let mut reset = pin!(limiter.reset("id"));
    assert!(poll_times(reset.as_mut(), 2).is_none());
    assert_eq!(store.executions(), 3, "it is done, and its answer under way");
    assert!(allowed(&limiter, 1).await);
    assert!(reset.await.unwrap());
}

/// Nor is a denial believed that is learned while the reset is under way, however that ends.
#[tokio::test(start_paused = true)]
async fn a_denial_from_during_a_reset_is_not_believed_after_it() {
    for (fate, polls) in [(Fate::Answered, 9), (Fate::AnswerLost, 9), (Fate::DoneInSilence, 3)] {
        let (limiter, store) = limiter("fixed-window 1/h");
        assert!(allowed(&limiter, 1).await);
        {
            let mut reset = pin!(limiter.reset("id"));
            store.next([fate]);
            assert!(poll_times(reset.as_mut(), 1).is_none());
            assert!(!allowed(&limiter, 1).await, "it is not done yet");
            let ended = poll_times(reset.as_mut(), polls);
            assert_eq!(ended.is_none(), fate == Fate::DoneInSilence, "given up, or at its end");
        }
        assert!(allowed(&limiter, 1).await, "{fate:?}");
    }
}

/// Refunds by others are seen where the store reports them, and otherwise at the end of the longest age.
#[tokio::test(start_paused = true)]
async fn refunds_by_others_are_seen_in_time() {
    let store = store();
    let other = limiter_on(&store, "fixed-window 3/h");
    let limiter = limiter_on(&store, "fixed-window 3/h")
        .with_deny_cache(DenyCache::new(1).with_max_age(SECOND * 5))
        .unwrap();
    assert!(allowed(&limiter, 1).await && !allowed(&limiter, 3).await);
    other.reset("id").await.unwrap();
    assert!(!allowed(&limiter, 3).await, "nobody knows");
    assert!(allowed(&limiter, 1).await);
    assert!(
        !allowed(&limiter, 3).await && allowed(&limiter, 2).await && !allowed(&limiter, 2).await
    );
    other.reset("id").await.unwrap();
    assert!(allowed(&limiter, 1).await, "two are left, it says");
    assert!(allowed(&limiter, 2).await);

    let told = limiter.try_acquire("id", 1).await.unwrap().retry_after().unwrap();
    other.reset("id").await.unwrap();
    advance(SECOND * 5 - MICROSECOND).await;
    let local = limiter.try_acquire("id", 1).await.unwrap().retry_after().unwrap();
    assert!(told - SECOND * 9 < local && local < told, "{local:?}: an hour is told, not the age");
    advance(MICROSECOND).await;
    assert!(allowed(&limiter, 1).await);
}

/// A fallback's decision is not the store's, and an error is no decision.
#[tokio::test(start_paused = true)]
async fn only_decisions_of_the_store_are_cached() {
    let (limiter, store) = limiter("fixed-window 1/h");
    store.next([Fate::RequestLost]);
    assert!(limiter.try_acquire("id", 1).await.is_err());
    let limiter = limiter.with_fallback(Fallback::closed()).unwrap();
    store.always(Fate::RequestLost);
    assert!(limiter.try_acquire("id", 1).await.unwrap().origin == Origin::Fallback);
    assert!(limiter.peek("id", 1).await.unwrap().origin == Origin::Fallback);
    assert!(limiter.try_acquire_each("id", &[1]).await.unwrap()[0].origin == Origin::Fallback);
    assert_eq!(stats(&limiter).entries, 0);
    store.always(Fate::Answered);
    advance(SECOND).await; // to the next probe
    assert!(allowed(&limiter, 1).await);

    // And one that is known holds while the store is away.
    advance(SECOND).await;
    assert!(!allowed(&limiter, 1).await);
    store.always(Fate::RequestLost);
    let denied = limiter.try_acquire("id", 1).await.unwrap();
    assert!(!denied.is_allowed() && denied.origin != Origin::Fallback);
}

/// However many keys are denied, as many as were asked for are remembered.
#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    const KEYS: u64 = 6000;
    for max_keys in [1, 3, 5000] {
        let store = store();
        let limiter = limiter_on(&store, "fixed-window 1/h")
            .with_deny_cache(DenyCache::new(max_keys))
            .unwrap();
        for key in 0..KEYS {
            for _ in 0..2 {
                _ = limiter.try_acquire(&key.to_string(), 1).await.unwrap();
            }
            assert!(stats(&limiter).entries <= max_keys);
        }
        let full = stats(&limiter);
        assert!(full.entries > max_keys * 9 / 10, "{full:?}");
        assert_eq!(
            full.entries as u64 + full.evictions,
            KEYS,
            "each denial is here or was evicted"
        );
        // Those that were evicted are asked for again; those that are here are the latest.
        assert!(!limiter.try_acquire(&(KEYS - 1).to_string(), 1).await.unwrap().is_allowed());
        assert_eq!((stats(&limiter).hits, store.executions()), (1, 2 * KEYS));
        assert!(!limiter.try_acquire("0", 1).await.unwrap().is_allowed());
        assert_eq!(store.executions(), 2 * KEYS + 1);
        assert_eq!(stats(&limiter).hits + stats(&limiter).misses, 2 * KEYS + 2);
    }
}

/// D12: keys, and prefixes, do not affect each other.
#[tokio::test(start_paused = true)]
async fn keys_do_not_affect_each_other() {
    let (limiter, _store) = limiter("fixed-window 1/h");
    assert!(allowed(&limiter, 1).await && !allowed(&limiter, 1).await);
    let other = limiter.clone().with_prefix("other").unwrap();
    assert!(limiter.try_acquire("other", 1).await.unwrap().is_allowed());
    assert!(allowed(&other, 1).await && !allowed(&other, 1).await && !allowed(&limiter, 1).await);
}

/// Waiters sleep on known denials, and ask the store when it may have changed.
#[tokio::test(start_paused = true)]
async fn many_waiters_ask_the_store_less() {
    let (limiter, store) = limiter("fixed-window 50/s");
    assert!(allowed(&limiter, 50).await);
    let waits = (0..50).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire_within("id", 1, SECOND * 3).await.unwrap() })
    });
    for wait in waits.collect::<Vec<_>>() {
        assert!(wait.await.unwrap().is_allowed());
    }
    let seen = stats(&limiter);
    assert_eq!(seen.misses, store.executions());
    // All of them asked before the first got its answer.
    assert!(store.executions() <= 1 + 50 + 50 + 10, "{seen:?}");

    let (asked, start) = (store.executions(), Instant::now());
    assert!(!allowed(&limiter, 1).await);
    for _ in 0..50 {
        assert!(!limiter.acquire_within("id", 1, SECOND / 10).await.unwrap().is_allowed());
    }
    assert_eq!((store.executions(), start.elapsed()), (asked + 1, Duration::ZERO));
}

/// A wait that cannot fit is given up at once, also where a smaller cost is known to be denied for
/// less long.
#[tokio::test(start_paused = true)]
async fn a_wait_that_cannot_fit_is_still_given_up_at_once() {
    let (limiter, store) = limiter("token-bucket 1/s burst 10");
    assert!(allowed(&limiter, 10).await && !allowed(&limiter, 1).await);
    let start = Instant::now();
    assert!(!limiter.acquire_within("id", 9, SECOND * 8).await.unwrap().is_allowed());
    assert_eq!((start.elapsed(), store.executions()), (Duration::ZERO, 3));
    assert!(!limiter.acquire_within("id", 9, SECOND / 2).await.unwrap().is_allowed());
    assert_eq!((start.elapsed(), store.executions()), (Duration::ZERO, 3), "that is known here");
    assert!(limiter.acquire_within("id", 9, SECOND * 10).await.unwrap().is_allowed());
}

/// D1: a caller with little time is denied for want of an early turn as well as for a block. Others take a later turn.
#[tokio::test(start_paused = true)]
async fn a_denial_by_a_block_is_not_for_want_of_a_turn_for_others() {
    let limit = "leaky-bucket 1/3s queue 7";
    let (limiter, store) = limiter(limit);
    assert!(allowed(&limiter, 2).await);
    _ = limiter_on(&store, limit).block("id", SECOND * 9 / 10).await.unwrap();
    let denied = limiter.acquire_within("id", 1, SECOND).await.unwrap();
    assert!(denied.is_blocked() && denied.retry_after() > Some(SECOND * 2));
    advance(SECOND).await;
    assert!(allowed(&limiter, 2).await);
}

/// Callers that block have it too.
#[test]
fn blocking_callers_are_answered_here() {
    let store = FailingStore::new(MemoryStore::new());
    let limit = "fixed-window 1/h".parse().unwrap();
    let limiter = BlockingLimiter::new(store.clone(), limit, SECOND)
        .with_deny_cache(DenyCache::new(10))
        .unwrap();
    assert!(limiter.try_acquire("id", 1).unwrap().is_allowed());
    for _ in 0..10 {
        assert!(!limiter.try_acquire("id", 1).unwrap().is_allowed());
        assert!(!limiter.acquire_within("id", 1, SECOND).unwrap().is_allowed());
    }
    assert_eq!((store.executions(), limiter.deny_cache_stats().unwrap().hits), (2, 19));
}

/// E1, D1: threads that share a cache get exactly the limit.
#[test]
fn threads_that_share_a_cache_share_one_limit() {
    let limit = "fixed-window 1000/h".parse().unwrap();
    let limiter = BlockingLimiter::new(MemoryStore::new(), limit, SECOND)
        .with_deny_cache(DenyCache::new(10))
        .unwrap();
    let spend = || (0..500).filter(|_| limiter.try_acquire("id", 1).unwrap().is_allowed()).count();
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(spend)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let seen = limiter.deny_cache_stats().unwrap();
    assert_eq!((admitted, seen.hits + seen.misses), (1000, 2000));
}

/// A cache that could hold nothing is refused when it is built.
#[tokio::test]
async fn a_cache_of_nothing_is_refused() {
    for (cache, what) in [
        (DenyCache::new(0), "number of keys with denials"),
        (DenyCache::new(1).with_max_age(Duration::ZERO), "longest age of a denial"),
    ] {
        let limiter = limiter_on(&store(), "fixed-window 1/h");
        assert_eq!(limiter.with_deny_cache(cache).unwrap_err(), ConfigError::Zero { what });
    }
}

/// The cache keeps the later of two denials of one cost, and the last of two limits, and then answers by itself.
#[tokio::test(start_paused = true)]
async fn the_denial_that_holds_longest_is_kept() {
    let (limiter, store) = limiter("sliding-log 1/10s");
    assert!(allowed(&limiter, 1).await && !allowed(&limiter, 1).await);
    advance(SECOND * 5).await;
    // Half of the part that is taken off for clocks that differ is left of it.
    assert!(!limiter.reserve("id", 1, SECOND).await.unwrap().decision.is_allowed());
    advance(Duration::from_micros(4_992_500)).await;
    assert!(!allowed(&limiter, 1).await);
    assert_eq!(store.executions(), 3);
    let other = limiter.under("fixed-window 9/h".parse().unwrap());
    assert!(limiter.block("id", SECOND * 60).await.unwrap().amount > 0);
    assert!(!allowed(&limiter, 1).await && !allowed(&other, 2).await && !allowed(&other, 2).await);
    assert_eq!(store.executions(), 6);
}

/// A caller that waits for just as long as a smaller cost is denied asks the store.
#[tokio::test(start_paused = true)]
async fn a_caller_that_may_wait_until_a_denial_ends_asks() {
    let (limiter, store) = limiter("sliding-log 10/10s");
    assert!(allowed(&limiter, 6).await && !allowed(&limiter, 5).await);
    let known = SECOND * 10 - SECOND / 100;
    for (patience, executions) in [(known - MICROSECOND, 2), (known, 3)] {
        let denied = limiter.acquire_within("id", 7, patience).await.unwrap();
        assert!(!denied.is_allowed());
        assert_eq!(store.executions(), executions, "{patience:?}");
    }
}
