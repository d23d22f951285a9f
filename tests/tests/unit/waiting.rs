//! Waiting for a permit: in every runtime, with cancellation at every point.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockage::limiter::StoredLimits;
use lockage::runtime::{AsyncStd, Runtime, Smol, Tokio};
use lockage::{BlockingLimiter, Limit, Limiter, RetryStore, Verdict};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, TokioClock, paused_memory};
use smol::future::yield_now;
use tokio::time::{Instant, sleep};

use crate::late_calls::Late;

const SECOND: Duration = Duration::from_secs(1);

type Limited = Limiter<RetryStore<FailingStore<MemoryStore<TokioClock>>, Tokio>>;

fn parsed(limit: &str) -> Limit {
    limit.parse().unwrap()
}

fn limiter(limit: &str) -> (Limited, FailingStore<MemoryStore<TokioClock>>) {
    let store = FailingStore::new(paused_memory());
    let timed = RetryStore::new(store.clone(), Tokio, SECOND);
    (Limiter::new(timed, limit.parse().unwrap()), store)
}

/// A waiter is admitted no earlier than the reported time (D2), and not much later.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_permit_is_there() {
    let (limiter, store) = limiter("token-bucket 2/s burst 2");
    assert!(limiter.acquire_within("id", 2, Duration::ZERO).await.unwrap().is_allowed());
    let start = Instant::now();
    assert!(limiter.acquire_within("id", 1, SECOND).await.unwrap().is_allowed());
    let waited = start.elapsed();
    // The chance is up to a quarter of the store's wait; timers count in milliseconds.
    assert!((SECOND / 2..SECOND * 63 / 100).contains(&waited), "{waited:?}");
    assert_eq!(store.calls(), 3, "one to be told when, and one then");
}

/// D11: of one wait each attempt is the same request, so that a late copy of a denied one is charged once with it.
#[tokio::test(start_paused = true)]
async fn d11_a_late_copy_of_a_denied_attempt_is_not_charged_beside_the_admitted_one() {
    let (others, store) = limiter("fixed-window 2/s");
    assert!(others.try_acquire("id", 2).await.unwrap().is_allowed());
    sleep(SECOND / 2).await;
    // The first copy comes in the next window; the second one is denied, and the next attempt admitted.
    let late = RetryStore::new(Late::new(&store, [SECOND * 9 / 10]), Tokio, SECOND);
    let waiter =
        Limiter::new(late, parsed("fixed-window 2/s")).with_idempotency(SECOND * 9).unwrap();
    let decision = waiter.acquire_within("id", 1, SECOND).await.unwrap();
    assert!(decision.is_allowed() && decision.remaining == 1, "{decision:?}");
    sleep(SECOND * 2 / 5).await;
    assert_eq!(store.executions(), 4, "all copies have come");
    assert_eq!(others.peek("id", 1).await.unwrap().remaining, 1);
}

/// A waiter comes back under the limit that is stored by then.
#[tokio::test(start_paused = true)]
async fn a_wait_is_under_the_limit_that_is_stored_by_then() {
    let store = RetryStore::new(paused_memory(), Tokio, SECOND);
    let limiter = Limiter::stored(
        store,
        StoredLimits::new().with_default(parsed("token-bucket 1/s burst 1")),
    );
    _ = limiter.try_acquire("id", 1).await.unwrap();
    let start = Instant::now();
    let waiter = limiter.clone();
    let wait = tokio::spawn(async move { waiter.acquire_within("id", 1, SECOND * 10).await });
    yield_now().await;
    limiter.set_limit("id", parsed("fixed-window 2/4s")).await.unwrap();
    assert!(wait.await.unwrap().unwrap().is_allowed());
    assert!(limiter.try_acquire("id", 1).await.unwrap().retry_after() > Some(SECOND));
    // A queue admits no caller to a turn that it would not wait for.
    limiter.set_limit_afresh("id", parsed("leaky-bucket 1/s queue 9")).await.unwrap();
    assert!(start.elapsed() < SECOND * 2);
    for turn in 0..3 {
        let allowed = limiter.try_acquire("id", 1).await.unwrap();
        assert_eq!(allowed.turn_after, SECOND * turn);
    }
    let queued = Instant::now();
    let denied =
        limiter.acquire_within("id", 1, SECOND * 3 - Duration::from_millis(1)).await.unwrap();
    assert!(!denied.is_allowed());
    assert!(limiter.acquire_within("id", 1, SECOND * 3).await.unwrap().is_allowed());
    assert!(queued.elapsed() <= SECOND * 3 + Duration::from_millis(1));
}

/// A wait that cannot fit ends at once, and one for more than the capacity never begins.
#[tokio::test(start_paused = true)]
async fn a_wait_that_cannot_fit_is_given_up_at_once() {
    let (limiter, store) = limiter("token-bucket 2/s burst 2");
    _ = limiter.try_acquire("id", 2).await.unwrap();
    let start = Instant::now();
    let decision =
        limiter.acquire_within("id", 2, SECOND - Duration::from_millis(1)).await.unwrap();
    assert_eq!(decision.verdict, Verdict::denied(SECOND));
    assert_eq!(limiter.acquire_within("id", 3, SECOND * 9).await.unwrap().verdict, Verdict::Never);
    assert_eq!((start.elapsed(), store.calls()), (Duration::ZERO, 3));
    assert!(
        limiter.acquire_within("id", 2, SECOND).await.unwrap().is_allowed(),
        "this one just fits"
    );
}

/// E4: however many wait, admissions match the limit; no caller waits past the timeout, and they do not come back
/// all at once.
#[tokio::test(start_paused = true)]
async fn many_waiters_are_spread_and_stay_within_the_limit() {
    let (limiter, store) = limiter("token-bucket 50/s burst 10");
    let start = Instant::now();
    let waits = (0..100).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            let decision = limiter.acquire_within("id", 1, SECOND * 4).await.unwrap();
            (decision.is_allowed(), start.elapsed())
        })
    });
    let mut ends = Vec::new();
    for wait in waits.collect::<Vec<_>>() {
        ends.push(wait.await.unwrap());
    }
    let admitted = ends.iter().filter(|(allowed, _)| *allowed).count();
    assert!(ends.iter().all(|(_, end)| *end <= SECOND * 4));
    for (_, end) in ends.iter().filter(|(allowed, _)| *allowed) {
        let by_then = ends.iter().filter(|(allowed, other)| *allowed && other <= end).count();
        let bound = 10 + (50 * end.as_millis() as usize).div_ceil(1000);
        assert!(by_then <= bound, "{by_then} by {end:?}");
    }
    assert!(admitted >= 90, "{admitted} of 100, where 210 would fit in the time");
    assert!(store.calls() <= 12 * 100, "{} calls for 100 permits", store.calls());
}

/// Dropped at any await point: nothing is charged after that, except at most for one call that was under way.
#[tokio::test(start_paused = true)]
async fn a_dropped_wait_charges_nothing_more() {
    let mut ended = false;
    for polls in 1..60 {
        let (limiter, store) = limiter("token-bucket 2/s burst 2");
        _ = limiter.try_acquire("id", 2).await.unwrap();
        let calls_before = store.executions();
        {
            let mut wait = pin!(limiter.acquire_within("id", 1, SECOND * 5));
            for _ in 0..polls {
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(decision) = wait.as_mut().poll(&mut context) {
                    ended = decision.unwrap().is_allowed();
                    break;
                }
                tokio::time::advance(Duration::from_millis(100)).await;
            }
        }
        let executions = store.executions();
        tokio::time::advance(SECOND * 10).await;
        yield_now().await;
        assert_eq!(store.executions(), executions, "something is still under way");
        assert!(executions - calls_before <= 2, "one to be told when, and one then");
    }
    assert!(ended, "some waits come to their end");
}

/// Runs the same program in a runtime, with its real timers.
async fn waits_for_three<R: Runtime>(runtime: R) {
    let store = FailingStore::new(MemoryStore::new());
    let timed = RetryStore::new(store.clone(), runtime, SECOND);
    let limiter = Limiter::new(timed, "token-bucket 100/s burst 1".parse::<Limit>().unwrap());
    for _ in 0..3 {
        assert!(limiter.acquire_within("id", 1, SECOND * 10).await.unwrap().is_allowed());
    }
    assert!(store.calls() < 10, "{} calls: it does not sleep", store.calls());
}

/// All three runtimes in one program, and a future that moves between threads.
#[test]
fn every_runtime_waits() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        tokio::spawn(waits_for_three(Tokio)).await.unwrap();
    });
    async_std::task::block_on(async_std::task::spawn(waits_for_three(AsyncStd)));
    smol::block_on(smol::spawn(waits_for_three(Smol)));
    // Timers that need no executor of their own serve any.
    pollster::block_on(waits_for_three(Smol));
    pollster::block_on(waits_for_three(AsyncStd));
}

/// Callers that block wait as well, with no runtime at all.
#[test]
fn blocking_callers_wait() {
    let store = FailingStore::new(MemoryStore::new());
    let limit = "token-bucket 100/s burst 1".parse().unwrap();
    let limiter = BlockingLimiter::new(store.clone(), limit, SECOND);
    for _ in 0..3 {
        assert!(limiter.acquire_within("id", 1, SECOND * 10).unwrap().is_allowed());
    }
    assert!(store.calls() < 10, "{} calls: it does not sleep", store.calls());
}

/// A wait that does not fit is denied at once. The wait itself would be 20 s.
#[test]
fn blocking_callers_give_up_at_once() {
    let store = FailingStore::new(MemoryStore::new());
    let limit = "token-bucket 3/min burst 1".parse().unwrap();
    let limiter = BlockingLimiter::new(store.clone(), limit, SECOND);
    assert!(limiter.try_acquire("id", 1).unwrap().is_allowed());
    assert!(!limiter.acquire_within("id", 1, SECOND).unwrap().is_allowed());
    assert_eq!(store.calls(), 2);
}
