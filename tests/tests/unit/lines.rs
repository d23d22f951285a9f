//! D16: callers wait for permits in line. Aims, in virtual time; cancellation, futures that are not polled, failures.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use lockage::limiter::{Origin, Prefetch};
use lockage::observer::ErrorKind;
use lockage::runtime::{Smol, Tokio};
use lockage::{BlockingLimiter, Error, Fallback, Limit, Limiter, RetryStore, StoreError, Verdict};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

type Memory = FailingStore<MemoryStore<TokioClock>>;
type Limited = Limiter<RetryStore<Memory, Tokio>>;

fn on(store: &Memory, limit: &str) -> Limited {
    let timed = RetryStore::new(store.clone(), Tokio, SECOND / 4);
    Limiter::new(timed, limit.parse::<Limit>().unwrap())
}

fn limiter(limit: &str) -> (Limited, Memory) {
    let store = FailingStore::new(paused_memory());
    (on(&store, limit), store)
}

fn within(time: Duration, expected: Duration) -> bool {
    (expected..=expected + Duration::from_millis(2)).contains(&time)
}

/// In one process, 98 of 100 a second with 1.5 calls for each; in four, with 2. Of four, the last one may pause for
/// 100 ms at the end.
#[tokio::test(start_paused = true)]
async fn five_hundred_waiters_use_the_full_rate_with_few_calls() {
    for (processes, most_calls, longest) in [(1, 750, 5.1), (4, 1000, 5.25)] {
        let (_, store) = limiter("token-bucket 100/s burst 1");
        let limiters: Vec<_> =
            (0..processes).map(|_| on(&store, "token-bucket 100/s burst 1")).collect();
        let start = Instant::now();
        let mut waits = JoinSet::new();
        for number in 0..500 {
            let limiter = limiters[number % processes].clone();
            waits.spawn(async move {
                assert!(limiter.acquire_within("id", 1, MINUTE).await.unwrap().is_allowed());
                number
            });
        }
        let order = waits.join_all().await;
        assert!(start.elapsed() <= SECOND.mul_f64(longest), "{:?}: {processes}", start.elapsed());
        assert!(store.calls() <= most_calls, "{} calls: {processes}", store.calls());
        assert!(processes > 1 || order.is_sorted(), "{order:?}");
    }
}

/// A large cost among small ones is admitted once it fits after those before it, whether they wait or not.
#[tokio::test(start_paused = true)]
async fn large_costs_do_not_starve() {
    for waits in [true, false] {
        let (limiter, _) = limiter("token-bucket 20/s burst 20");
        assert!(limiter.try_acquire("id", 20).await.unwrap().is_allowed());
        let mut others = JoinSet::new();
        for _ in 0..8 {
            let limiter = limiter.clone();
            others.spawn(async move {
                loop {
                    if waits {
                        _ = limiter.acquire_within("id", 1, MINUTE).await.unwrap();
                    } else {
                        _ = limiter.try_acquire("id", 1).await.unwrap();
                        sleep(Duration::from_millis(1)).await;
                    }
                }
            });
        }
        sleep(Duration::from_millis(220)).await;
        let start = Instant::now();
        assert!(limiter.acquire_within("id", 20, MINUTE).await.unwrap().is_allowed());
        // Its own second, and the 50 ms of each that waits before it.
        let longest = SECOND + if waits { SECOND * 8 / 20 } else { Duration::ZERO };
        assert!(start.elapsed() <= longest + Duration::from_millis(5), "{:?}", start.elapsed());
    }
}

/// A request that does not wait is denied rather than overtake, and its denial gives the time of its turn.
#[tokio::test(start_paused = true)]
async fn no_request_overtakes_the_line() {
    let (limiter, store) = limiter("token-bucket 10/s burst 10");
    _ = limiter.try_acquire("id", 10).await.unwrap();
    let waiter = limiter.clone();
    let wait = tokio::spawn(async move { waiter.acquire_within("id", 10, MINUTE).await });
    sleep(SECOND / 2).await;
    let calls = store.calls();
    let denied = limiter.try_acquire("id", 2).await.unwrap();
    assert_eq!((denied.origin, denied.remaining), (Origin::Line, 0));
    assert!(within(denied.retry_after().unwrap(), SECOND * 7 / 10), "{denied:?}");
    let each = limiter.try_acquire_each("id", &[1, 11]).await.unwrap();
    assert!(each[0].verdict != Verdict::Allowed && each[1].verdict == Verdict::Never, "{each:?}");
    assert_eq!(store.calls(), calls, "no call was made");
    assert_eq!(limiter.peek("id", 5).await.unwrap().origin, Origin::Store, "it takes nothing");
    assert!(limiter.try_acquire("other", 1).await.unwrap().is_allowed());
    // In shadow mode the store is asked as usual.
    assert!(!limiter.clone().with_shadow().try_acquire("id", 1).await.unwrap().would_deny());
    wait.abort();
    _ = wait.await;
    assert!(limiter.try_acquire("id", 1).await.unwrap().is_allowed(), "nobody waits any more");
}

/// Permits that are given back are there for the first in line at once.
#[tokio::test(start_paused = true)]
async fn a_line_learns_of_changes() {
    let (limiter, _) = limiter("fixed-window 2/h");
    _ = limiter.try_acquire("id", 2).await.unwrap();
    let start = Instant::now();
    let waiter = limiter.clone();
    let wait = tokio::spawn(async move { waiter.acquire_within("id", 1, MINUTE * 90).await });
    sleep(SECOND).await;
    assert!(limiter.reset("id").await.unwrap());
    assert!(wait.await.unwrap().unwrap().is_allowed());
    assert!(start.elapsed() < SECOND * 2, "{:?}", start.elapsed());
}

/// A dropped waiter leaves at once, wherever it is, and the next one goes.
#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_makes_room() {
    for polls in 1..8 {
        let (limiter, _) = limiter("token-bucket 10/s burst 10");
        _ = limiter.try_acquire("id", 10).await.unwrap();
        let start = Instant::now();
        let next = {
            let mut large = Box::pin(limiter.acquire_within("id", 10, MINUTE));
            for _ in 0..polls {
                assert!(large.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            let next = limiter.clone();
            let next =
                tokio::spawn(async move { next.acquire_within("id", 1, MINUTE).await.unwrap() });
            yield_now().await;
            next
        };
        assert!(next.await.unwrap().is_allowed());
        assert!(start.elapsed() <= SECOND / 5, "{polls}: {:?}", start.elapsed());
    }
}

/// A future that is not polled, before or during its call, holds up the others for the store's timeout.
#[tokio::test(start_paused = true)]
async fn unpolled_waiters_are_passed_over() {
    for polls in 1..8 {
        let (limiter, _) = limiter("token-bucket 10/s burst 1");
        _ = limiter.try_acquire("id", 1).await.unwrap();
        let mut stuck = pin!(limiter.acquire_within("id", 1, MINUTE));
        for _ in 0..polls {
            assert!(stuck.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let start = Instant::now();
        let mut others = JoinSet::new();
        for _ in 0..9 {
            let limiter = limiter.clone();
            others.spawn(async move { limiter.acquire_within("id", 1, MINUTE).await.unwrap() });
        }
        assert!(others.join_all().await.iter().all(lockage::Decision::is_allowed));
        assert!(start.elapsed() <= SECOND * 3 / 2, "{polls}: {:?}", start.elapsed());
        // It is back. A call that it had begun has timed out.
        let is_back = stuck.await.map_or_else(
            |error| error.kind() == ErrorKind::Unknown,
            |decision| decision.is_allowed(),
        );
        assert!(is_back, "{polls}");
    }
}

/// A failure is that of the caller whose call it was; of a store that is away all learn soon.
#[tokio::test(start_paused = true)]
async fn each_failure_belongs_to_one_caller() {
    let (limiter, store) = limiter("token-bucket 10/s burst 1");
    let wait = |limiter: &Limited| {
        let limiter = limiter.clone();
        async move { limiter.acquire_within("id", 1, MINUTE).await }
    };
    let mut waits = JoinSet::new();
    (0..5).for_each(|_| drop(waits.spawn(wait(&limiter))));
    store.next([Fate::Answered, Fate::AnswerLost]);
    let answers = waits.join_all().await;
    let failed =
        |answer: &Result<_, Error>| matches!(answer, Err(Error::Store(StoreError::Unknown(_))));
    assert_eq!(answers.iter().filter(|answer| failed(answer)).count(), 1);
    assert!(answers.iter().flatten().all(lockage::Decision::is_allowed));

    store.always(Fate::Silence);
    let start = Instant::now();
    let mut waits = JoinSet::new();
    (0..500).for_each(|_| drop(waits.spawn(wait(&limiter))));
    assert!(waits.join_all().await.iter().all(failed));
    assert!(start.elapsed() <= SECOND * 3 / 2, "{:?}", start.elapsed());
}

/// Admits this many waiters, and returns how long they wait, and in which order their answers come.
async fn all_are_admitted(limiter: &Limited, count: usize) -> (Duration, Vec<usize>) {
    let (start, mut waits) = (Instant::now(), JoinSet::new());
    for number in 0..count {
        let limiter = limiter.clone();
        waits.spawn(async move {
            limiter.acquire_within("id", 1, MINUTE).await.unwrap().ok().unwrap();
            number
        });
    }
    let order = waits.join_all().await;
    (start.elapsed(), order)
}

/// Permits that the first in line takes ahead serve those behind it in their order, and nothing is charged twice (E7).
#[tokio::test(start_paused = true)]
async fn a_line_spends_permits_taken_ahead() {
    let (limiter, store) = limiter("token-bucket 100/s burst 10");
    let limiter = limiter.with_prefetch(Prefetch::new(4, SECOND)).unwrap();
    let (took, order) = all_are_admitted(&limiter, 50).await;
    assert!(order.is_sorted(), "{order:?}");
    let stats = limiter.prefetch_stats().unwrap();
    assert!(stats.hits > 0 && stats.lost == 0, "{stats:?}");
    // All that is charged is admitted or held: 4 at most.
    assert!(took <= SECOND * 44 / 100 + Duration::from_millis(1), "{took:?}");
    assert!(store.calls() <= 75, "{} calls", store.calls());
}

/// D11: an answer that is lost costs its caller a retry, and costs no caller a permit or a place.
#[tokio::test(start_paused = true)]
async fn a_line_with_request_ids_loses_nothing_with_an_answer() {
    // A key remembers eight requests.
    let (six, store) = limiter("token-bucket 1/min burst 6");
    let six = six.with_idempotency(MINUTE).unwrap();
    store.next([Fate::AnswerLost, Fate::Answered].into_iter().cycle().take(8));
    let (took, _) = all_are_admitted(&six, 6).await;
    assert!(took < SECOND * 3 / 2, "{took:?}");
    assert!(!six.try_acquire("id", 1).await.unwrap().is_allowed(), "each is charged");
    // One that waits has one id for all its attempts.
    let (one, store) = limiter("token-bucket 1/s burst 1");
    let one = one.with_idempotency(MINUTE).unwrap();
    store.next([Fate::Answered, Fate::Answered, Fate::AnswerLost]);
    let (took, _) = all_are_admitted(&one, 3).await;
    assert!(took < SECOND * 9 / 4, "{took:?}");
}

/// While the store is away the fallback answers those in line, and once it is back they wait for its permits.
#[tokio::test(start_paused = true)]
async fn a_line_follows_the_fallback() {
    let (limiter, store) = limiter("token-bucket 10/s burst 1");
    let open = limiter.clone().with_fallback(Fallback::open()).unwrap();
    store.always(Fate::NotDone);
    assert!(all_are_admitted(&open, 20).await.0 < SECOND * 2);
    let closed = limiter.with_fallback(Fallback::closed()).unwrap();
    let start = Instant::now();
    let denied = closed.acquire_within("id", 1, SECOND).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.origin), (false, Origin::Fallback));
    assert!(start.elapsed() <= SECOND * 5 / 4, "{:?}", start.elapsed());
    let waits = tokio::spawn({
        let closed = closed.clone();
        async move { all_are_admitted(&closed, 5).await }
    });
    sleep(SECOND).await;
    assert!(!waits.is_finished());
    store.always(Fate::Answered);
    // Three probes, and the time of the permits.
    assert!(waits.await.unwrap().0 <= SECOND * 4);
    assert!(!closed.is_circuit_open());
}

/// Callers of other runtimes go on where one runtime ends, and where one stands still.
#[test]
fn a_line_is_of_no_runtime() {
    let store = FailingStore::new(MemoryStore::new());
    let timed = RetryStore::new(store.clone(), Smol, SECOND / 10);
    let limiter = Limiter::new(timed, "token-bucket 50/s burst 1".parse::<Limit>().unwrap());
    smol::block_on(limiter.try_acquire("id", 1)).unwrap().ok().unwrap();
    // Each is polled once, and then never again.
    let ends = smol::LocalExecutor::new();
    let stands = smol::LocalExecutor::new();
    for executor in [&ends, &stands] {
        let limiter = limiter.clone();
        executor.spawn(async move { limiter.acquire_within("id", 1, MINUTE).await }).detach();
        assert!(executor.try_tick());
    }
    drop(ends);
    for _ in 0..3 {
        assert!(smol::block_on(limiter.acquire_within("id", 1, MINUTE)).unwrap().is_allowed());
    }
    drop(stands);
}

/// Threads stand in line as tasks do.
#[test]
fn blocking_callers_wait_in_line() {
    let store = FailingStore::new(MemoryStore::new());
    let limit = "token-bucket 200/s burst 1".parse().unwrap();
    let limiter = BlockingLimiter::new(store.clone(), limit, SECOND);
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| limiter.acquire_within("id", 1, MINUTE).unwrap().is_allowed()))
            .collect();
        assert!(waits.into_iter().all(|wait| wait.join().unwrap()));
    });
    assert!(store.calls() <= 40, "{} calls", store.calls());
}

/// A wait in shadow mode does not wait.
#[tokio::test(start_paused = true)]
async fn a_shadow_does_not_wait() {
    let (limiter, _) = limiter("token-bucket 1/min burst 1");
    let limiter = limiter.with_shadow();
    let start = Instant::now();
    let waits = (0..3).map(|_| limiter.acquire_within("id", 1, MINUTE * 9));
    for (number, wait) in waits.enumerate() {
        let decision = wait.await.unwrap();
        assert_eq!((decision.is_allowed(), decision.would_deny()), (true, number > 0));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}
