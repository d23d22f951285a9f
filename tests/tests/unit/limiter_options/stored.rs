//! Each option of a limiter on stored limits.

use super::*;

/// A denial holds under the stored limit as under any, until this limiter changes that limit.
#[tokio::test(start_paused = true)]
async fn a_stored_limit_has_a_deny_cache() {
    let store = store();
    let limiter = stored(&store, "fixed-window 2/h").with_deny_cache(DenyCache::new(100)).unwrap();
    for _ in 0..50 {
        _ = limiter.try_acquire("id", 1).await.unwrap();
    }
    let stats = limiter.deny_cache_stats().unwrap();
    assert_eq!((store.calls(), stats.misses, stats.hits), (3, 3, 47));
    let never = limiter.try_acquire("id", 3).await.unwrap();
    assert_eq!((never.verdict, never.origin), (Verdict::Never, Origin::DenyCache));

    limiter.set_limit("id", limit("fixed-window 3/h")).await.unwrap();
    assert!(limiter.try_acquire("id", 1).await.unwrap().is_allowed());
    assert!(!limiter.try_acquire("id", 1).await.unwrap().is_allowed());
    limiter.reset("id").await.unwrap();
    let afresh = limiter.try_acquire("id", 1).await.unwrap();
    assert!(afresh.is_allowed() && afresh.limit == 2, "under the default again: {afresh:?}");
}

/// A waiter for a permit of a stored limit teaches the deny cache too, and a denial for want of an early
/// turn does not hold for callers that take a later one.
#[tokio::test(start_paused = true)]
async fn waiters_under_a_stored_limit_teach_the_deny_cache() {
    let store = store();
    let limiter = stored(&store, "fixed-window 1/h").with_deny_cache(DenyCache::new(100)).unwrap();
    _ = limiter.try_acquire("id", 1).await.unwrap();
    for _ in 0..2 {
        assert!(!limiter.acquire_within("id", 1, SECOND).await.unwrap().is_allowed());
    }
    assert_eq!(store.calls(), 2);
    let queue = stored(&store, "leaky-bucket 1/s queue 9").with_deny_cache(DenyCache::new(100));
    let queue = queue.unwrap();
    for _ in 0..3 {
        assert!(queue.try_acquire("queue", 1).await.unwrap().is_allowed());
    }
    assert!(!queue.acquire_within("queue", 1, SECOND).await.unwrap().is_allowed());
    assert!(queue.try_acquire("queue", 1).await.unwrap().is_allowed(), "its turn comes in 3 s");
}

/// Requests under stored limits share calls, as many as one carries, each with exactly its own decision, whichever limit is
/// stored.
#[tokio::test(start_paused = true)]
async fn a_stored_limit_coalesces() {
    for per_client in [false, true] {
        let far = Far(store());
        let mut default = StoredLimit::new(limit("fixed-window 40/h"));
        if per_client {
            default = default.per_client();
        }
        let limits = StoredLimits::new().with_default(default).as_client("one").unwrap();
        let limiter = Limiter::stored(timed(&far), limits).with_coalescing(1000).unwrap();
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.try_acquire("id", 1).await.unwrap() })
            })
            .collect();
        let mut left = Vec::new();
        for task in tasks {
            let decision = task.await.unwrap();
            left.extend(decision.is_allowed().then_some(decision.remaining));
        }
        assert_eq!(left, (0..40).rev().collect::<Vec<_>>());
        let told = limiter.coalescing_stats().unwrap();
        let calls = 100_usize.div_ceil(lockage_core::MAX_SLOW_COSTS) as u64;
        assert_eq!((told.requests, told.calls), (100, calls), "{told:?}");
    }
}

/// Without a limit, and without a name where the limit is per client, each caller of a shared call gets the error.
#[tokio::test(start_paused = true)]
async fn requests_that_share_a_call_share_its_refusal() {
    let far = Far(store());
    let limiter = Limiter::stored(timed(&far), StoredLimits::new()).with_coalescing(100).unwrap();
    let three = async || tokio::join!(ask(&limiter), ask(&limiter), ask(&limiter));
    let (one, two, last) = three().await;
    assert!([one, two, last].iter().all(|told| matches!(told, Err(Error::NoLimit))));
    let each = StoredLimit::new(limit("fixed-window 9/h")).per_client();
    limiter.set_limit("id", each).await.unwrap();
    let (one, two, last) = three().await;
    assert!([one, two, last].iter().all(|told| matches!(told, Err(Error::NoClient))));
}

/// E7: permits are taken ahead under a stored limit once it is known, and dropped when this limiter changes it.
#[tokio::test(start_paused = true)]
async fn a_stored_limit_takes_permits_ahead() {
    let store = store();
    let unread = Limiter::stored(timed(&store), StoredLimits::new());
    let limiter = unread.with_prefetch(Prefetch::new(10, SECOND)).unwrap();
    limiter.set_limit("id", limit("token-bucket 1/s burst 100")).await.unwrap();
    for request in 0..12 {
        let decision = limiter.try_acquire("id", 1).await.unwrap();
        let origin = if request % 11 == 0 { Origin::Store } else { Origin::Prefetch };
        assert_eq!((decision.is_allowed(), decision.origin), (true, origin), "{request}");
    }
    assert_eq!(store.calls(), 3);
    limiter.set_limit("id", limit("token-bucket 1/s burst 30")).await.unwrap();
    // 22 are charged, of which 10 were dropped.
    let next = limiter.try_acquire("id", 1).await.unwrap();
    assert_eq!((next.origin, next.limit), (Origin::Store, 30));
}

/// In a queue each turn belongs to one request: none is taken ahead, also if the limit becomes a queue meanwhile.
#[tokio::test(start_paused = true)]
async fn no_turn_is_taken_ahead_under_a_stored_limit() {
    let store = store();
    let queue = limit("leaky-bucket 1/s queue 50");
    let limiter = stored(&store, "token-bucket 1/s burst 100");
    let limiter = limiter.with_prefetch(Prefetch::new(10, SECOND * 60)).unwrap();
    let others = stored(&store, "token-bucket 1/s burst 100");
    others.set_limit("queue", queue).await.unwrap();
    limiter.stored_limit("queue").await.unwrap();
    for turn in 0..5 {
        assert_eq!(limiter.try_acquire("queue", 1).await.unwrap().turn_after, SECOND * turn);
    }
    assert_eq!(limiter.prefetch_stats().unwrap().calls, 0);

    others.set_limit("changed", queue).await.unwrap();
    // It asks as under the default, and learns of the queue by the answer, which is its own.
    let calls = store.calls();
    assert!(limiter.try_acquire("changed", 1).await.unwrap().is_allowed());
    assert_eq!(store.calls() - calls, 1);
    let second = limiter.try_acquire("changed", 1).await.unwrap();
    assert!(second.origin == Origin::Store && second.turn_after >= SECOND, "{second:?}");
}

/// Shadow mode lets everything through under a stored limit, and without one.
#[tokio::test(start_paused = true)]
async fn a_stored_limit_can_be_tried_in_shadow() {
    let store = store();
    let limiter = Limiter::stored(timed(&store), StoredLimits::new()).with_shadow();
    let without = limiter.try_acquire("id", 1).await.unwrap();
    assert!(without.is_allowed() && without.origin == Origin::Fallback && without.limit == 0);
    limiter.set_limit("id", limit("fixed-window 1/h")).await.unwrap();
    for request in 0..3 {
        let decision = limiter.try_acquire("id", 1).await.unwrap();
        assert!(decision.is_allowed() && decision.origin == Origin::Store);
        assert_eq!(decision.shadow.is_some(), request > 0);
    }
    store.always(Fate::RequestLost);
    assert_eq!(limiter.try_acquire("id", 1).await.unwrap().limit, 1, "as it was read last");
    let stats = limiter.shadow_stats().unwrap();
    assert_eq!((stats.allowed, stats.would_deny, stats.failed), (1, 2, 2));
}

/// D11: a lost answer is asked for again under its id, and charged once.
#[tokio::test(start_paused = true)]
async fn a_stored_limit_is_charged_once() {
    let store = store();
    let limiter = stored(&store, "fixed-window 9/h").with_idempotency(SECOND * 60).unwrap();
    store.next([Fate::AnswerLost, Fate::Answered]);
    assert_eq!(limiter.try_acquire("id", 4).await.unwrap().remaining, 5);
    store.next([Fate::AnswerLost, Fate::Answered]);
    assert_eq!(limiter.refund("id", 2).await.unwrap().amount, 2);
    assert_eq!(limiter.peek("id", 0).await.unwrap().remaining, 7);
}

/// The limit that was read last applies while the store is away: divided, unless it is the client's own.
#[tokio::test(start_paused = true)]
async fn a_fallback_applies_the_stored_limit_that_was_read() {
    for (per_client, share) in [(false, 10), (true, 20)] {
        let store = store();
        let mut twenty = StoredLimit::new(limit("fixed-window 20/h"));
        if per_client {
            twenty = twenty.per_client();
        }
        let limits = StoredLimits::new().as_client("one").unwrap();
        let limiter = Limiter::stored(timed(&store), limits);
        let limiter = limiter.with_fallback(Fallback::local_share(2, MemoryStore::new())).unwrap();
        limiter.set_limit("id", twenty).await.unwrap();
        _ = limiter.try_acquire("id", 1).await.unwrap();
        store.always(Fate::NotDone);
        let decision = limiter.try_acquire("id", 3).await.unwrap();
        assert_eq!((decision.limit, decision.remaining), (share, share - 3));
        assert_eq!(decision.origin, Origin::Fallback);
        let too_many = limiter.try_acquire("id", 21).await.unwrap();
        assert_eq!(too_many.verdict, Verdict::Never);
    }
}

/// A limit too small to be divided admits nothing.
#[tokio::test(start_paused = true)]
async fn a_share_of_nothing_denies() {
    let store = store();
    let limiter = stored(&store, "fixed-window 3/h");
    let limiter = limiter.with_fallback(Fallback::local_share(4, MemoryStore::new())).unwrap();
    store.always(Fate::NotDone);
    let decision = limiter.try_acquire("id", 1).await.unwrap();
    assert!(!decision.is_allowed() && decision.limit == 3 && decision.origin == Origin::Fallback);
    let refused = stored(&store, "fixed-window 3/h");
    let none = refused.with_fallback(Fallback::local_share(0, MemoryStore::new())).unwrap_err();
    assert_eq!(none, ConfigError::Zero { what: "number of shares" });
}

/// An id whose limit was not read is under the fallback's limit: the limit read last, a given one, or none.
#[tokio::test(start_paused = true)]
async fn a_limit_that_was_not_read_is_as_configured() {
    let nine = StoredLimit::new(limit("fixed-window 9/h"));
    let told = async |limits: StoredLimits, unread: Option<UnreadLimit>, reads: bool| {
        let store = store();
        let mut fallback = Fallback::open();
        if let Some(unread) = unread {
            fallback = fallback.with_unread_limit(unread);
        }
        let limiter = Limiter::stored(timed(&store), limits).with_fallback(fallback).unwrap();
        if reads {
            limiter.set_limit("read", limit("fixed-window 5/h")).await.unwrap();
            _ = limiter.try_acquire("read", 1).await.unwrap();
        }
        store.always(Fate::NotDone);
        let read = limiter.try_acquire("read", 1).await.map(|decision| decision.limit);
        let unread = limiter.try_acquire("unread", 1).await.map(|decision| decision.limit);
        assert!(!reads || matches!(read, Ok(5)), "{read:?}");
        unread.map_err(|error| matches!(error, Error::Store(StoreError::NotDone(_))))
    };
    let (none, seven) =
        (StoredLimits::new, || StoredLimits::new().with_default(limit("fixed-window 7/h")));
    let given = Some(UnreadLimit::Given(nine));
    for reads in [false, true] {
        assert_eq!(told(none(), None, reads).await, Err(true), "refused without a default");
        assert_eq!(told(seven(), None, reads).await, Ok(7), "the limiter's default");
        assert_eq!(told(none(), given, reads).await, Ok(9));
        assert_eq!(told(seven(), given, reads).await, Ok(9));
        assert_eq!(told(seven(), Some(UnreadLimit::Refused), reads).await, Err(true));
    }
    assert_eq!(told(none(), Some(UnreadLimit::LastSeen), true).await, Ok(5));
    assert_eq!(told(none(), Some(UnreadLimit::LastSeen), false).await, Err(true));
}

/// All options of a stored limit at once, for callers that block.
#[test]
fn blocking_callers_have_stored_limits_with_options() {
    let limits = StoredLimits::new().with_default(limit("fixed-window 30/h"));
    let limiter = BlockingLimiter::stored(MemoryStore::new(), limits, SECOND)
        .with_deny_cache(DenyCache::new(10))
        .and_then(|limiter| limiter.with_prefetch(Prefetch::new(9, SECOND * 60)))
        .and_then(|limiter| limiter.with_idempotency(SECOND * 60))
        .and_then(|limiter| limiter.with_fallback(Fallback::closed()))
        .unwrap();
    let admitted = (0..60).filter(|_| limiter.try_acquire("id", 1).unwrap().is_allowed()).count();
    assert_eq!(admitted, 30);
    assert!(limiter.prefetch_stats().unwrap().hits > 20);
    assert!(limiter.deny_cache_stats().unwrap().hits > 20);
    assert_eq!(limiter.stored_limit("id").unwrap().unwrap().limit().capacity(), 30);
    assert!(limiter.reset("id").unwrap());
}

/// A limiter with a limit of its own stores none: its own calls would be refused.
#[tokio::test(start_paused = true)]
async fn a_limiter_of_one_limit_stores_none() {
    let store = store();
    let limiter = given(&store, "fixed-window 5/h");
    let nine = limit("fixed-window 9/h");
    assert!(matches!(limiter.set_limit("id", nine).await, Err(Error::GivenLimit)));
    assert!(matches!(limiter.try_set_limit("id", nine).await, Err(Error::GivenLimit)));
    assert!(matches!(limiter.set_limit_afresh("id", nine).await, Err(Error::GivenLimit)));
    assert_eq!(limiter.stored_limit("id").await.unwrap(), None);
    assert_eq!((store.calls(), limiter.limit()), (1, Some(limit("fixed-window 5/h"))));
}

/// A store that takes several keys in one call.
#[derive(Clone)]
struct Batching(Store);

impl lockage::Store for Batching {
    fn supports_batch(&self) -> bool {
        true
    }

    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command).await
    }
}

/// Requests for several keys share a call, each with its own decision: under a limit of all, under one per client, and
/// without any.
#[tokio::test(start_paused = true)]
async fn stored_limits_of_several_keys_share_calls() {
    let batching = Batching(store());
    let limits = StoredLimits::new().as_client("one").unwrap();
    let limiter = Limiter::stored(timed(&batching), limits).with_coalescing(100).unwrap();
    limiter.set_limit("all", limit("fixed-window 5/h")).await.unwrap();
    let each = StoredLimit::new(limit("fixed-window 7/h")).per_client();
    limiter.set_limit("each", each).await.unwrap();
    let ask = |id| limiter.try_acquire(id, 1);
    for spent in 1..=2 {
        let (all, each, none) = tokio::join!(ask("all"), ask("each"), ask("none"));
        assert_eq!((all.unwrap().remaining, each.unwrap().remaining), (5 - spent, 7 - spent));
        assert!(matches!(none, Err(Error::NoLimit)), "{none:?}");
    }
    let view = limiter.under(limit("fixed-window 9/h"));
    let (stored, given) = tokio::join!(ask("all"), view.try_acquire("all", 1));
    assert_eq!(stored.unwrap().limit, 5);
    let refused =
        |error| matches!(error, Error::Store(StoreError::Record(RecordError::LimitIsStored)));
    assert!(given.is_err_and(refused), "it goes by itself");
    assert_eq!(limiter.coalescing_stats().unwrap().calls, 3);
}

/// A store that answers for one key of a call is there.
#[tokio::test(start_paused = true)]
async fn one_answer_in_a_shared_call_is_the_stores() {
    for fates in [[Fate::RequestLost, Fate::Answered], [Fate::Misconfigured, Fate::RequestLost]] {
        let batching = Batching(store());
        let fallback = Fallback::open().with_circuit_breaker(tripped_once());
        let limiter = Limiter::new(timed(&batching), limit("fixed-window 9/h"))
            .with_coalescing(100)
            .and_then(|limiter| limiter.with_fallback(fallback))
            .unwrap();
        batching.0.next(fates);
        _ = tokio::join!(limiter.try_acquire("one", 1), limiter.try_acquire("two", 1));
        assert!(!limiter.is_circuit_open(), "{fates:?}");
    }
}

/// A fallback goes by the limit that was read last, until it is gone: reset by this limiter, or found to be.
#[tokio::test(start_paused = true)]
async fn a_fallback_forgets_a_limit_that_is_gone() {
    let store = store();
    let unread = Limiter::stored(timed(&store), StoredLimits::new().as_client("one").unwrap());
    let breaker = CircuitBreakerConfig::new(1000, SECOND, 1).unwrap();
    let limiter = unread.with_fallback(Fallback::open().with_circuit_breaker(breaker)).unwrap();
    let other = Limiter::stored(timed(&store), StoredLimits::new());
    let known = async || {
        store.always(Fate::NotDone);
        let told = limiter.try_acquire("id", 1).await;
        store.always(Fate::Answered);
        told.ok().map(|decision| decision.limit)
    };
    assert_eq!(known().await, None);
    for afterwards in ["reset", "read", "acquire"] {
        let each = StoredLimit::new(limit("fixed-window 9/h")).per_client();
        other.set_limit("id", each).await.unwrap();
        assert!(ask(&limiter).await.unwrap().is_allowed());
        assert_eq!(known().await, Some(9));
        // It is there already, so it is not this one.
        assert!(!limiter.try_set_limit("id", limit("fixed-window 3/h")).await.unwrap());
        assert_eq!(known().await, Some(9));
        match afterwards {
            "reset" => assert!(limiter.reset("id").await.unwrap()),
            _ => assert!(other.reset("id").await.unwrap()),
        }
        match afterwards {
            "read" => assert_eq!(limiter.stored_limit("id").await.unwrap(), None),
            "acquire" => assert!(matches!(ask(&limiter).await, Err(Error::NoLimit))),
            _ => {}
        }
        assert_eq!(known().await, None, "{afterwards}");
    }
}
