//! Limiters that wait for their turn in the queue of a leaky bucket.

use std::time::Duration;

use lockage::limiter::{Cancellation, DenyCache, Origin};
use lockage::runtime::Tokio;
use lockage::{BlockingLimiter, Fallback, Limiter, RetryStore, Verdict};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

type Memory = MemoryStore<TokioClock>;
type Limited = Limiter<RetryStore<FailingStore<Memory>, Tokio>>;

fn limiter(limit: &str) -> (Limited, FailingStore<Memory>) {
    let store = FailingStore::new(paused_memory());
    let timed = RetryStore::new(store.clone(), Tokio, SECOND);
    (Limiter::new(timed, limit.parse().unwrap()), store)
}

/// Returns whether a time is this one, as timers count: in milliseconds, rounded up.
fn is_at(time: Duration, expected: Duration) -> bool {
    (expected..expected + Duration::from_millis(2)).contains(&time)
}

/// D13: each goes ahead at its turn, in the order in which they came, with one call.
#[tokio::test(start_paused = true)]
async fn an_acquire_ends_at_its_turn() {
    let (limiter, store) = limiter("leaky-bucket 2/s queue 5");
    let start = Instant::now();
    let waits = (0..5).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            let decision = limiter.acquire_within("id", 1, SECOND * 9).await.unwrap();
            assert!(decision.is_allowed() && decision.turn_after.is_zero(), "{decision:?}");
            start.elapsed()
        })
    });
    for (place, wait) in (0..).zip(waits.collect::<Vec<_>>()) {
        let ended = wait.await.unwrap();
        assert!(is_at(ended, place * SECOND / 2), "{place}: {ended:?}");
    }
    assert_eq!(store.calls(), 5);
}

/// A turn that comes too late is not taken: the caller is denied at once, and no other waits behind it.
#[tokio::test(start_paused = true)]
async fn a_turn_after_the_timeout_is_not_taken() {
    let (limiter, store) = limiter("leaky-bucket 2/s queue 5");
    _ = limiter.try_acquire("id", 3).await.unwrap();
    let start = Instant::now();
    let denied = limiter.acquire_within("id", 1, SECOND).await.unwrap();
    assert_eq!(denied.verdict, Verdict::denied(SECOND / 2));
    assert_eq!((start.elapsed(), store.calls()), (Duration::ZERO, 2));
    assert_eq!(limiter.peek("id", 1).await.unwrap().remaining, 2);
    assert_eq!(limiter.acquire_within("id", 6, SECOND).await.unwrap().verdict, Verdict::Never);
    assert!(limiter.acquire_within("id", 1, SECOND * 3 / 2).await.unwrap().is_allowed());
    assert!(is_at(start.elapsed(), SECOND * 3 / 2), "{:?}", start.elapsed());
}

/// Where there is no room it comes back for it, if its turn can come in time, and then waits its turn.
#[tokio::test(start_paused = true)]
async fn a_caller_that_finds_no_room_comes_back() {
    let (limiter, store) = limiter("leaky-bucket 2/s queue 2");
    _ = limiter.try_acquire("id", 2).await.unwrap();
    let start = Instant::now();
    let denied = limiter.acquire_within("id", 1, SECOND * 9 / 10).await.unwrap();
    assert_eq!(denied.verdict, Verdict::denied(SECOND / 2));
    assert_eq!((start.elapsed(), store.calls()), (Duration::ZERO, 2), "there is room, but no turn");
    assert!(limiter.acquire_within("id", 1, SECOND * 2).await.unwrap().is_allowed());
    assert!(is_at(start.elapsed(), SECOND), "{:?}", start.elapsed());
    assert_eq!(store.calls(), 4);
}

/// Callers of different patience do not share a call.
#[tokio::test(start_paused = true)]
async fn each_patience_goes_by_itself() {
    let (limiter, store) = limiter("leaky-bucket 2/s queue 5");
    let limiter = limiter.with_coalescing(10).unwrap();
    _ = limiter.try_acquire("id", 3).await.unwrap();
    let (short, long) = tokio::join!(
        limiter.acquire_within("id", 1, SECOND),
        limiter.acquire_within("id", 1, SECOND * 9)
    );
    assert_eq!((short.unwrap().is_allowed(), long.unwrap().is_allowed()), (false, true));
    assert_eq!((limiter.coalescing_stats().unwrap().requests, store.calls()), (1, 3));
}

/// A deny cache learns nothing from a turn that is too late for one caller, and nothing stale stays in it
/// when a turn is given back.
#[tokio::test(start_paused = true)]
async fn a_deny_cache_knows_of_room_and_not_of_patience() {
    let (limiter, _) = limiter("leaky-bucket 2/s queue 5");
    let limiter = limiter.with_deny_cache(DenyCache::new(10)).unwrap();
    let entries = || limiter.deny_cache_stats().unwrap().entries;
    _ = limiter.try_acquire("id", 3).await.unwrap();
    assert!(!limiter.acquire_within("id", 1, SECOND).await.unwrap().is_allowed());
    assert_eq!(entries(), 0);
    let last = limiter.take_turn("id", 2).await.unwrap();
    let denied = limiter.try_acquire("id", 1).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.turn_after, entries()), (false, SECOND * 5 / 2, 1));
    tokio::time::advance(SECOND / 4).await;
    let known = limiter.take_turn("id", 1).await.unwrap();
    assert!(!known.decision.is_allowed() && known.ticket.is_none());
    assert!((SECOND * 2..=SECOND * 9 / 4).contains(&known.decision.turn_after), "{known:?}");
    assert_eq!(limiter.deny_cache_stats().unwrap().hits, 1);
    let given_back = limiter.cancel_turn("id", last.ticket.unwrap()).await.unwrap();
    assert_eq!((given_back, entries()), (Cancellation::GivenBack, 0));
    assert!(limiter.try_acquire("id", 1).await.unwrap().is_allowed());
}

/// In shadow mode each turn is at once, and the answers report the denials that there would have been.
#[tokio::test(start_paused = true)]
async fn a_shadow_waits_for_no_turn() {
    let (limiter, _) = limiter("leaky-bucket 2/s queue 5");
    let limiter = limiter.with_shadow();
    let start = Instant::now();
    _ = limiter.try_acquire("id", 3).await.unwrap();
    let in_time = limiter.acquire_within("id", 1, SECOND * 9).await.unwrap();
    assert!(in_time.is_allowed() && !in_time.would_deny());
    assert_eq!((in_time.turn_after, in_time.reset_after), (Duration::ZERO, SECOND * 2));
    let late = limiter.acquire_within("id", 1, SECOND).await.unwrap();
    assert!(late.is_allowed() && late.would_deny());
    let turn = limiter.take_turn("id", 1).await.unwrap();
    assert!(turn.decision.is_allowed() && turn.decision.turn_after.is_zero());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// In a composite the wait is for the turn in every queue, and patience counts for each.
#[tokio::test(start_paused = true)]
async fn several_queues_are_waited_for_together() {
    let (limiter, _) =
        limiter("leaky-bucket 2/s queue 5 + fixed-window 9/h + leaky-bucket 1/s queue 5");
    _ = limiter.try_acquire("id", 2).await.unwrap();
    let start = Instant::now();
    assert!(!limiter.acquire_within("id", 1, SECOND * 3 / 2).await.unwrap().is_allowed());
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(limiter.acquire_within("id", 1, SECOND * 2).await.unwrap().is_allowed());
    assert!(is_at(start.elapsed(), SECOND * 2), "{:?}", start.elapsed());
}

/// D14, through a limiter.
#[tokio::test(start_paused = true)]
async fn turns_are_given_back() {
    let (limiter, _) = limiter("leaky-bucket 2/s queue 5");
    _ = limiter.try_acquire("id", 1).await.unwrap();
    let [first, second] = [
        limiter.take_turn("id", 1).await.unwrap().ticket.unwrap(),
        limiter.take_turn("id", 1).await.unwrap().ticket.unwrap(),
    ];
    assert_eq!(limiter.cancel_turn("other", second).await.unwrap(), Cancellation::NotLast);
    assert_eq!(limiter.cancel_turn("id", first).await.unwrap(), Cancellation::NotLast);
    let third = limiter.take_turn("id", 1).await.unwrap();
    assert_eq!(third.decision.turn_after, SECOND * 3 / 2);
    tokio::time::advance(SECOND).await;
    let given_back = limiter.cancel_turn("id", third.ticket.unwrap()).await.unwrap();
    assert_eq!(given_back, Cancellation::GivenBack);
    let fourth = limiter.take_turn("id", 1).await.unwrap();
    assert_eq!(fourth.decision.turn_after, SECOND / 2);
    tokio::time::advance(SECOND / 2).await;
    let late = limiter.cancel_turn("id", fourth.ticket.unwrap()).await.unwrap();
    assert_eq!(late, Cancellation::TooLate);
}

/// D11: a turn whose answer was lost is asked for again, and taken once.
#[tokio::test(start_paused = true)]
async fn a_turn_with_an_id_is_taken_once() {
    let (limiter, store) = limiter("leaky-bucket 2/s queue 5");
    let limiter = limiter.with_idempotency(SECOND * 60).unwrap();
    for _ in 0..3 {
        store.next([Fate::AnswerLost]);
        assert!(limiter.take_turn("id", 1).await.unwrap().decision.is_allowed());
    }
    assert_eq!(limiter.peek("id", 1).await.unwrap().remaining, 2);
}

/// A share of the queue stands in for an absent store, with turns of its own, in time too.
#[tokio::test(start_paused = true)]
async fn a_share_has_turns_too() {
    let (limiter, store) = limiter("leaky-bucket 4/min queue 10");
    let limiter = limiter.with_fallback(Fallback::local_share(2, paused_memory())).unwrap();
    store.always(Fate::NotDone);
    let first = limiter.take_turn("id", 2).await.unwrap();
    assert!(
        first.decision.is_allowed()
            && first.decision.origin == Origin::Fallback
            && first.ticket.is_none()
    );
    // The next turn is in a minute.
    let start = Instant::now();
    let denied = limiter.acquire_within("id", 1, SECOND * 30).await.unwrap();
    assert!(denied.origin == Origin::Fallback && !denied.is_allowed(), "{denied:?}");
    let admitted = limiter.acquire_within("id", 1, SECOND * 90).await.unwrap();
    assert!(admitted.origin == Origin::Fallback && admitted.is_allowed(), "{admitted:?}");
    assert!((SECOND * 58..SECOND * 61).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(limiter.peek("id", 1).await.unwrap().limit, 5);
    assert!(first.decision.turn_after.is_zero());
}

/// Callers that block get the same.
#[test]
fn blocking_callers_wait_for_their_turn() {
    let limit = "leaky-bucket 100/s queue 9".parse().unwrap();
    let limiter = BlockingLimiter::new(MemoryStore::new(), limit, SECOND);
    let start = std::time::Instant::now();
    for _ in 0..4 {
        assert!(limiter.acquire_within("id", 1, SECOND * 10).unwrap().is_allowed());
    }
    assert!(start.elapsed() >= Duration::from_millis(30));
    _ = limiter.take_turn("id", 1).unwrap();
    let last = limiter.take_turn("id", 2).unwrap().ticket.expect("one is before it");
    assert_eq!(limiter.cancel_turn("id", last).unwrap(), Cancellation::GivenBack);
}
