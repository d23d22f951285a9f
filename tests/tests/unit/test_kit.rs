//! The test kit that users have: tests as they would write them, and its own behaviour.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lockage::locks::Loss;
use lockage::runtime::Tokio;
use lockage::store::{BlockingStore, Clock as _, Timestamp};
use lockage::{Decision, Error, Key, Limiter, Locks, RetryStore, StoreError, limit};
use lockage_core::Acquire;
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, ManualClock, TokioClock, lose, paused_memory};
use tokio::time::{Instant, advance, timeout};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn turned_away_then_served_a_second_later() {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::with_clock(clock.clone());
    let limiter = Limiter::new(store, "token-bucket 1/s".parse().unwrap());
    assert!(limiter.try_acquire("a", 1).await.unwrap().is_allowed());
    assert!(limiter.try_acquire("a", 1).await.unwrap().ok().is_err());
    clock.advance(SECOND);
    assert!(limiter.try_acquire("a", 1).await.unwrap().ok().is_ok());
}

#[tokio::test(start_paused = true)]
async fn waits_in_virtual_time() {
    let store = RetryStore::new(paused_memory(), Tokio, SECOND);
    let limiter = Limiter::new(store, "token-bucket 1/min".parse().unwrap());
    let start = Instant::now();
    for _ in 0..60 {
        limiter.acquire_within("a", 1, SECOND * 90).await.unwrap().ok().unwrap();
    }
    assert!(start.elapsed() >= SECOND * 60 * 59);
}

#[tokio::test(start_paused = true)]
async fn my_job_stops_when_the_lock_is_lost() {
    let store = paused_memory();
    let locks = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), LEASE).unwrap();
    let guard = locks.lock("job").unwrap().acquire().await.unwrap();
    lose(&store, "lock:{job}").await;
    let stopped = timeout(LEASE / 3 + SECOND / 1000, guard.run(pending::<()>())).await;
    assert_eq!(stopped.expect("at the next renewal"), Err(Loss::Refused(None)));
    assert!(locks.lock("job").unwrap().try_acquire().await.unwrap().taken().is_some());
}

/// Through whatever is around the store, and of any name.
#[tokio::test(start_paused = true)]
async fn a_lock_is_lost_through_any_store() {
    let store = FailingStore::new(RetryStore::new(paused_memory(), Tokio, SECOND));
    let locks = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), LEASE).unwrap();
    let locks = locks.with_prefix("jobs").unwrap();
    let guard = locks.lock("a:{b}").unwrap().acquire().await.unwrap();
    lose(&store, "jobs:{a:{b}}").await;
    assert_eq!(timeout(LEASE, guard.lost()).await, Ok(Loss::Refused(None)));
}

#[tokio::test]
#[should_panic(expected = "nobody holds the lock `lock:{job}`")]
async fn losing_a_lock_without_a_holder_fails() {
    lose(&MemoryStore::new(), "lock:{job}").await;
}

#[tokio::test]
#[should_panic(expected = "`lock:job` is no key: expected `prefix:{name}`")]
async fn losing_an_invalid_key_fails() {
    lose(&MemoryStore::new(), "lock:job").await;
}

#[tokio::test]
#[should_panic(expected = "`login:{a}`: refused")]
async fn losing_a_key_of_another_kind_fails() {
    let store = MemoryStore::new();
    let limiter = Limiter::new(store.clone(), "fixed-window 1/h".parse().unwrap());
    let limiter = limiter.with_prefix("login").unwrap();
    assert!(limiter.try_acquire("a", 1).await.unwrap().is_allowed());
    lose(&store, "login:{a}").await;
}

fn blocking_call(store: &FailingStore<MemoryStore<TokioClock>>) -> Result<Decision, StoreError> {
    let acquire = Acquire::new(limit!("fixed-window 10/h"), 1).unwrap();
    let key = Key::new("lockage", "a").unwrap();
    BlockingStore::execute(store, &key, &acquire, SECOND)
}

/// Each fate keeps its word: done or not, and answered, unknown or without an answer.
#[tokio::test(start_paused = true)]
async fn calls_meet_their_fates() {
    let told = |error: StoreError| match error {
        StoreError::NotDone(_) => "not done",
        StoreError::Unknown(_) => "unknown",
        other => panic!("{other}"),
    };
    let asked = |result: Result<_, Error>| match result {
        Ok(_) => "answered",
        Err(Error::Store(error)) => told(error),
        Err(other) => panic!("{other}"),
    };
    let fates = [
        (Fate::Answered, true, "answered"),
        (Fate::NotDone, false, "not done"),
        (Fate::RequestLost, false, "unknown"),
        (Fate::AnswerLost, true, "unknown"),
        (Fate::Silence, false, "silence"),
        (Fate::DoneInSilence, true, "silence"),
    ];
    for (fate, is_done, expected) in fates {
        let store = FailingStore::new(paused_memory());
        let limiter = Limiter::new(store.clone(), "fixed-window 10/h".parse().unwrap());
        store.always(fate);
        // `next` is for one call only, and precedes `always`.
        store.next([Fate::Answered]);
        assert!(limiter.try_acquire("a", 1).await.unwrap().is_allowed());
        let ended = timeout(SECOND, limiter.try_acquire("a", 1)).await;
        assert_eq!(ended.map_or("silence", asked), expected, "{fate:?}");
        assert_eq!((store.calls(), store.executions()), (2, 1 + u64::from(is_done)), "{fate:?}");

        // Where a caller blocks, silence ends at once, as its patience would.
        let expected = if expected == "silence" { "unknown" } else { expected };
        assert_eq!(blocking_call(&store).map_or_else(told, |_| "answered"), expected, "{fate:?}");

        store.always(Fate::Answered);
        let used = 1 + 2 * u64::from(is_done);
        assert_eq!(limiter.peek("a", 0).await.unwrap().remaining, 10 - used, "{fate:?}");
    }
}

#[tokio::test]
async fn a_store_that_fails_for_some_keys_answers_for_others() {
    let store = FailingStore::new(MemoryStore::new()).only("login:");
    store.always(Fate::NotDone);
    let limiter = Limiter::new(store.clone(), "fixed-window 1/h".parse().unwrap());
    let login = limiter.clone().with_prefix("login").unwrap();
    assert!(login.try_acquire("a", 1).await.is_err());
    assert!(limiter.with_prefix("api").unwrap().try_acquire("login:", 1).await.is_ok());
    assert_eq!(store.calls(), 1);
}

/// A caller that never waits would keep paused time from moving, and the test from ending.
#[test]
#[should_panic(expected = "a caller repeats calls without end")]
fn calls_without_end_fail() {
    let store = FailingStore::new(MemoryStore::with_clock(TokioClock::new()));
    store.always(Fate::NotDone);
    while blocking_call(&store).is_err() {}
}

#[tokio::test(start_paused = true)]
async fn clocks_begin_with_a_day_a_week_a_month_and_a_year() {
    let clock = TokioClock::new();
    assert_eq!((ManualClock::new().now(), clock.now()), (ManualClock::START, ManualClock::START));
    let micro = Duration::from_micros(1);
    for unit in ["day", "week", "month", "year"] {
        let start = ManualClock::START.as_micros();
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(start - 1).unwrap()));
        let limit = format!("calendar-window 1/{unit} in UTC").parse().unwrap();
        let limiter = Limiter::new(MemoryStore::with_clock(clock.clone()), limit);
        let decision = limiter.with_clock(clock).try_acquire("a", 1).await.unwrap();
        assert_eq!(decision.reset_after, micro, "{unit}");
    }
    advance(SECOND).await;
    assert_eq!(clock.now(), ManualClock::START.saturating_add(SECOND));
}
