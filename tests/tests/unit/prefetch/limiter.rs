//! The store calls of limiters that take permits ahead, in virtual time, and the options that go together with it.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockage::limiter::{DenyCache, Origin, Prefetch, PrefetchStats};
use lockage::runtime::Tokio;
use lockage::store::ConfigError;
use lockage::{BlockingLimiter, Fallback, Limiter, RetryStore, StoreError, Verdict};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use tokio::time::advance;

const SECOND: Duration = Duration::from_secs(1);
pub(super) const LEASE: Duration = Duration::from_secs(10);

pub(super) type Store = FailingStore<MemoryStore<TokioClock>>;
pub(super) type Limited = Limiter<RetryStore<Store, Tokio>>;

pub(super) fn store() -> Store {
    FailingStore::new(paused_memory())
}

pub(super) fn plain(store: &Store, limit: &str) -> Limited {
    Limiter::new(RetryStore::new(store.clone(), Tokio, SECOND), limit.parse().unwrap())
}

/// Makes a limiter that takes up to ten permits ahead, and its store.
pub(super) fn limiter(limit: &str) -> (Limited, Store) {
    let store = store();
    (plain(&store, limit).with_prefetch(Prefetch::new(10, LEASE)).unwrap(), store)
}

pub(super) async fn allowed(limiter: &Limited, cost: u64) -> bool {
    limiter.try_acquire("id", cost).await.unwrap().is_allowed()
}

pub(super) fn stats(limiter: &Limited) -> PrefetchStats {
    limiter.prefetch_stats().unwrap()
}

/// Returns the remainder by the store.
async fn remaining(limiter: &Limited) -> u64 {
    limiter.peek("id", 0).await.unwrap().remaining
}

/// The store gets one request in eleven, for all limits, and clones of a limiter share its held permits.
#[tokio::test(start_paused = true)]
async fn one_call_brings_ten_more_along() {
    for limit in [
        "fixed-window 100/h",
        "sliding-log 100/h",
        "sliding-window 100/h",
        "token-bucket 100/h burst 100",
        "token-bucket 9 every 1h burst 100",
        "fixed-window 100/h + token-bucket 200/h burst 200",
    ] {
        let (limiter, store) = limiter(limit);
        let clone = limiter.clone();
        let first = limiter.try_acquire("id", 1).await.unwrap();
        assert!(first.origin != Origin::Prefetch && first.remaining == 89, "{limit}: {first:?}");
        for left in (0..10).rev() {
            let decision = clone.try_acquire("id", 1).await.unwrap();
            assert!(
                decision.origin == Origin::Prefetch && decision.origin != Origin::Fallback,
                "{limit}: {decision:?}"
            );
            assert_eq!((decision.verdict, decision.remaining), (Verdict::Allowed, left));
            assert_eq!(decision.limit, 100);
            assert!(decision.reset_after <= first.reset_after && !decision.reset_after.is_zero());
        }
        assert_eq!(store.executions(), 1, "{limit}");
        assert!(allowed(&limiter, 1).await);
        assert_eq!((store.executions(), remaining(&limiter).await), (2, 100 - 22), "{limit}");
        let told = stats(&limiter);
        assert_eq!((told.hits, told.spent, told.calls, told.granted), (10, 10, 2, 20));
        assert_eq!((told.denied, told.lost, told.keys), (0, 0, 1));
    }
}

/// D1: where there is no room for the permits ahead, a request is decided by itself, to the last permit.
#[tokio::test(start_paused = true)]
async fn nothing_is_denied_that_the_store_would_admit() {
    let (limiter, store) = limiter("fixed-window 17/h");
    let first = limiter.try_acquire("id", 1).await.unwrap();
    assert_eq!(first.remaining, 10, "more is held than the store has left");
    for request in 2..=11 {
        assert!(allowed(&limiter, 1).await, "{request}");
    }
    assert_eq!(store.executions(), 1);
    for _ in 12..=17 {
        assert!(allowed(&limiter, 1).await);
    }
    // Once with the permits ahead, and then each by itself.
    assert_eq!((store.executions(), stats(&limiter).denied), (1 + 1 + 6, 1));
    let denied = limiter.try_acquire("id", 1).await.unwrap();
    assert!(matches!(denied.verdict, Verdict::Denied { .. }) && denied.origin != Origin::Prefetch);
    assert_eq!(store.executions(), 9);
    // A lease later it is tried once more.
    advance(LEASE).await;
    assert!(!allowed(&limiter, 1).await);
    assert_eq!(store.executions(), 11);
}

/// Held permits are worth nothing after their lease, and stay charged.
#[tokio::test(start_paused = true)]
async fn a_lease_ends() {
    let (limiter, store) = limiter("fixed-window 100/h");
    assert!(allowed(&limiter, 1).await);
    advance(LEASE - Duration::from_millis(1)).await;
    assert!(allowed(&limiter, 1).await);
    assert_eq!(store.executions(), 1);
    advance(Duration::from_millis(1)).await;
    assert!(allowed(&limiter, 1).await);
    assert_eq!((store.executions(), remaining(&limiter).await), (2, 100 - 22));
}

/// Callers that come meanwhile wait for the call under way if it suffices for them, and send a call of their own
/// if not.
#[tokio::test(start_paused = true)]
async fn many_at_once_share_one_call() {
    let (limiter, store) = limiter("fixed-window 1000/h");
    let calls = (0..11).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { allowed(&limiter, 1).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap());
    }
    assert_eq!((store.executions(), stats(&limiter).hits), (1, 10));

    let calls = (0..100).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { allowed(&limiter, 1).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap());
    }
    // One with ten waiters, and all others by themselves.
    assert_eq!((store.executions(), stats(&limiter).calls), (1 + 90, 2));
    assert_eq!(remaining(&limiter).await, 1000 - 11 - 11 - 89);
}

/// A caller that is dropped while it asks keeps no other waiting, and its permits are lost.
#[tokio::test(start_paused = true)]
async fn a_caller_dropped_during_its_call_blocks_no_waiter() {
    let (limiter, store) = limiter("fixed-window 100/h");
    store.next([Fate::DoneInSilence]);
    let mut waits = pin!(limiter.try_acquire("id", 1));
    {
        let mut asks = pin!(limiter.try_acquire("id", 1));
        let context = &mut Context::from_waker(Waker::noop());
        while store.executions() == 0 {
            assert!(asks.as_mut().poll(context).is_pending());
        }
        assert!(waits.as_mut().poll(context).is_pending());
        assert_eq!(store.executions(), 1);
    }
    let told = waits.await.unwrap();
    assert!(told.is_allowed() && told.origin != Origin::Prefetch);
    assert_eq!((stats(&limiter).lost, stats(&limiter).hits), (1, 0));
    assert_eq!(remaining(&limiter).await, 100 - 11 - 1);
}

/// No answer is no grant: the permits of that call are wasted, once in a lease, and callers get the same answers
/// as without it.
#[tokio::test(start_paused = true)]
async fn unanswered_prefetches_waste_permits_once_per_lease() {
    let (limiter, store) = limiter("fixed-window 100/h");
    store.next([Fate::AnswerLost, Fate::AnswerLost]);
    for _ in 0..2 {
        let error = limiter.try_acquire("id", 1).await.unwrap_err();
        assert!(matches!(error, lockage::Error::Store(StoreError::Unknown(_))), "{error}");
    }
    assert_eq!(remaining(&limiter).await, 100 - 11 - 1, "the second one brought nothing along");
    assert!(allowed(&limiter, 1).await && stats(&limiter).hits == 0);
    advance(LEASE).await;
    assert!(allowed(&limiter, 1).await);
    assert_eq!(remaining(&limiter).await, 100 - 11 - 1 - 1 - 11);
    assert_eq!((stats(&limiter).lost, stats(&limiter).granted), (1, 10));
}

/// D11: with request ids the lost answer is asked for again, and nothing is wasted.
#[tokio::test(start_paused = true)]
async fn with_request_ids_a_lost_answer_is_asked_for_again() {
    let (limiter, store) = limiter("fixed-window 100/h");
    let limiter = limiter.with_idempotency(SECOND * 5).unwrap();
    store.next([Fate::AnswerLost, Fate::Answered]);
    assert!(allowed(&limiter, 1).await);
    for _ in 0..10 {
        assert!(limiter.try_acquire("id", 1).await.unwrap().origin == Origin::Prefetch);
    }
    assert_eq!((store.calls(), remaining(&limiter).await), (2, 100 - 11));
}

/// The policy for an absent store decides on the request alone, and its admissions are not held.
#[tokio::test(start_paused = true)]
async fn a_policy_stands_in_for_the_request_alone() {
    let (limiter, store) = limiter("fixed-window 100/h");
    let share = Fallback::local_share(10, MemoryStore::new()); // 10 for this process
    let limiter = limiter.with_fallback(share).unwrap();
    assert!(allowed(&limiter, 1).await);
    store.always(Fate::RequestLost);
    for _ in 0..10 {
        assert!(
            limiter.try_acquire("id", 1).await.unwrap().origin == Origin::Prefetch,
            "it is held already"
        );
    }
    for left in (0..10).rev() {
        let decision = limiter.try_acquire("id", 1).await.unwrap();
        assert!(
            decision.origin == Origin::Fallback
                && decision.is_allowed()
                && decision.remaining == left
        );
    }
    assert!(!allowed(&limiter, 1).await);
}

/// Held permits are spent before a denial is remembered, and denials of the whole are not those of the request.
#[tokio::test(start_paused = true)]
async fn a_deny_cache_answers_repeated_denials() {
    let (limiter, store) = limiter("fixed-window 17/h");
    let limiter = limiter.with_deny_cache(DenyCache::new(10)).unwrap();
    for _ in 0..17 {
        assert!(allowed(&limiter, 1).await);
    }
    assert!(!allowed(&limiter, 1).await);
    let asked = store.executions();
    for _ in 0..10 {
        assert!(!allowed(&limiter, 1).await);
        advance(LEASE).await;
    }
    assert_eq!(store.executions(), asked);
}

/// Requests that are sent one by one share a call with others where the limiter coalesces.
#[tokio::test(start_paused = true)]
async fn individually_sent_requests_are_coalesced() {
    let (limiter, store) = limiter("fixed-window 1000/h");
    let limiter = limiter.with_coalescing(1000).unwrap();
    let calls = (0..100).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { allowed(&limiter, 1).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap());
    }
    assert_eq!((stats(&limiter).calls, stats(&limiter).hits), (1, 10));
    let told = limiter.coalescing_stats().unwrap();
    assert_eq!((told.requests, told.calls + 1), (89, store.executions()));
    assert!(told.calls < told.requests, "{told:?}");
}

/// In shadow mode it is charged and counted as if it were enforced.
#[tokio::test(start_paused = true)]
async fn a_shadow_counts_as_an_enforced_one_does() {
    let (limiter, _store) = limiter("fixed-window 15/h");
    let limiter = limiter.with_shadow();
    for request in 1..=20 {
        let decision = limiter.try_acquire("id", 1).await.unwrap();
        assert_eq!(decision.would_deny(), request > 15);
    }
    let told = limiter.shadow_stats().unwrap();
    assert_eq!((told.allowed, told.would_deny, told.failed), (15, 5, 0));
}

/// A reset gives all of it back, and a block admits nothing more, from this limiter's held permits too.
#[tokio::test(start_paused = true)]
async fn a_reset_and_a_block_drop_held_permits() {
    let (limiter, store) = limiter("fixed-window 12/h");
    assert!(allowed(&limiter, 1).await);
    assert!(limiter.clone().reset("id").await.unwrap());
    assert_eq!(remaining(&limiter).await, 12);
    assert!(allowed(&limiter, 1).await && remaining(&limiter).await == 1);
    _ = limiter.block("id", SECOND * 60).await.unwrap();
    let denied = limiter.try_acquire("id", 1).await.unwrap();
    assert!(!denied.is_allowed() && denied.is_blocked());
    advance(SECOND * 60).await;

    // A grant from before a block whose answer comes after it is not available either.
    limiter.reset("id").await.unwrap();
    let before = store.executions();
    let mut late = pin!(limiter.try_acquire("id", 1));
    let context = &mut Context::from_waker(Waker::noop());
    while store.executions() == before {
        assert!(matches!(late.as_mut().poll(context), Poll::Pending));
    }
    _ = limiter.block("id", SECOND * 60).await.unwrap();
    assert!(late.await.unwrap().is_allowed());
    assert!(!allowed(&limiter, 1).await);
}

/// A waiter for a permit spends held permits, or waits as ever.
#[tokio::test(start_paused = true)]
async fn waiters_for_a_permit_spend_held_permits() {
    let (limiter, store) = limiter("token-bucket 10/s burst 20");
    for _ in 0..11 {
        assert!(limiter.acquire_within("id", 1, SECOND).await.unwrap().is_allowed());
    }
    assert_eq!(store.executions(), 1);
    for _ in 0..20 {
        assert!(limiter.acquire_within("id", 1, SECOND * 5).await.unwrap().is_allowed());
    }
}

/// However many ids there are, as many as were asked for are kept.
#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    for max_keys in [1, 3, 3000] {
        let prefetch = Prefetch::new(10, LEASE).with_max_keys(max_keys);
        let limiter = plain(&store(), "fixed-window 100/h").with_prefetch(prefetch).unwrap();
        for key in 0..4000 {
            let decision = limiter.try_acquire(&key.to_string(), 1).await.unwrap();
            assert!(decision.is_allowed() && decision.origin != Origin::Prefetch);
            assert!(stats(&limiter).keys <= max_keys);
        }
        assert!(stats(&limiter).keys > max_keys * 9 / 10);
        assert!(
            limiter.try_acquire("3999", 1).await.unwrap().origin == Origin::Prefetch,
            "it is kept"
        );
    }
}

/// D12: keys, and prefixes, hold their own.
#[tokio::test(start_paused = true)]
async fn keys_do_not_affect_each_other() {
    let (limiter, store) = limiter("fixed-window 100/h");
    let other = limiter.clone().with_prefix("other").unwrap();
    assert!(allowed(&limiter, 1).await && allowed(&other, 1).await);
    assert!(limiter.try_acquire("another", 1).await.unwrap().is_allowed());
    assert_eq!((store.executions(), stats(&limiter).hits), (3, 0));
}

/// Threads that block share held permits, and wait for no other.
#[test]
fn threads_share_held_permits() {
    let limit = "fixed-window 1000/h".parse().unwrap();
    // By the real clock: so long that a busy machine neither times out nor lets permits go to waste.
    let minutes = Duration::from_secs(600);
    let limiter = BlockingLimiter::new(MemoryStore::new(), limit, minutes)
        .with_prefetch(Prefetch::new(10, minutes))
        .unwrap();
    let spend = || (0..500).filter(|_| limiter.try_acquire("id", 1).unwrap().is_allowed()).count();
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(spend)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let told = limiter.prefetch_stats().unwrap();
    // E1: all of it is one window's, and the permits that are not admitted are held.
    assert_eq!(admitted as u64 + (told.granted - told.spent), 1000, "{told:?}");
    assert!(told.hits > 500, "{told:?}");
}

/// Senseless settings are refused when a limiter is built.
#[tokio::test]
async fn invalid_settings_are_refused() {
    let refused = |limit, prefetch| plain(&store(), limit).with_prefetch(prefetch).unwrap_err();
    for (prefetch, what) in [
        (Prefetch::new(0, LEASE), "number of permits to take ahead"),
        (Prefetch::new(1, Duration::ZERO), "lease of permits taken ahead"),
        (Prefetch::new(1, LEASE).with_max_keys(0), "number of keys with permits ahead"),
    ] {
        assert_eq!(refused("fixed-window 10/h", prefetch), ConfigError::Zero { what });
    }
    assert!(matches!(
        refused("fixed-window 10/h", Prefetch::new(10, LEASE)),
        ConfigError::TooLarge { max: 9, .. }
    ));
    assert!(matches!(
        refused("leaky-bucket 10/h queue 10", Prefetch::new(1, LEASE)),
        ConfigError::Conflict { .. }
    ));
}
