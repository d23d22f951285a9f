use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockage::observer::{DecisionEvent, ErrorKind, ObservedStore, Observer, StoreCallEvent};
use lockage::runtime::Tokio;
use lockage::store::BlockingStore;
use lockage::{AnyStore, Key, Limiter, Locks, RetryStore, limit};
use lockage_core::Reset;
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, paused_memory};
use tokio::time::sleep;

use super::{How, Log, Memory, SECOND, Told};

fn observed() -> (RetryStore<ObservedStore<Memory>, Tokio>, Memory, Log) {
    let (store, log) = (FailingStore::new(paused_memory()), Log::new());
    let observed = ObservedStore::new(store.clone(), "memory", log.clone());
    (RetryStore::new(observed, Tokio, SECOND), store, log)
}

fn calls(log: &Log) -> Vec<(&'static str, How, Duration)> {
    let call = |told| match told {
        Told::Called { command, commands: 1, how, took } => (command, how, took),
        other => panic!("{other:?}"),
    };
    log.take().into_iter().map(call).collect()
}

/// Each attempt is a call, also one that got no answer in time.
#[tokio::test(start_paused = true)]
async fn each_attempt_is_reported_with_its_outcome() {
    let (timed, store, log) = observed();
    let limiter = Limiter::new(timed, limit!("fixed-window 9/min"));
    store.next([Fate::NotDone, Fate::NotDone]);
    assert!(limiter.try_acquire("id", 1).await.is_ok());
    let (acquire, zero) = ("limiter_acquire", Duration::ZERO);
    let not_done = How::Failed(ErrorKind::NotDone);
    assert_eq!(
        calls(&log),
        [(acquire, not_done, zero), (acquire, not_done, zero), (acquire, How::Done, zero)]
    );
    store.next([Fate::AnswerLost]);
    assert!(limiter.try_acquire("id", 1).await.is_err());
    assert_eq!(calls(&log), [(acquire, How::Failed(ErrorKind::Unknown), zero)]);
    store.next([Fate::Silence]);
    assert!(limiter.try_acquire("id", 1).await.is_err());
    assert_eq!(calls(&log), [(acquire, How::TimedOut, SECOND)]);
}

/// A caller that goes away is no sign of the store's state.
#[tokio::test(start_paused = true)]
async fn dropped_calls_are_distinguished_from_unanswered_ones() {
    let (timed, store, log) = observed();
    let limiter = Limiter::new(timed, limit!("fixed-window 9/min"));
    store.always(Fate::Silence);
    tokio::select! {
        _ = limiter.try_acquire("id", 1) => panic!("it is silent"),
        () = sleep(SECOND / 2) => {}
    }
    assert_eq!(calls(&log), [("limiter_acquire", How::Dropped, SECOND / 2)]);
}

/// Calls are named by their commands, through a store without a type on either side too.
#[tokio::test(start_paused = true)]
async fn locks_subscriptions_and_type_erased_stores_are_reported() {
    let log = Log::new();
    let inside = ObservedStore::new(paused_memory(), "memory", log.clone());
    let outside = ObservedStore::new(AnyStore::new(paused_memory()), "memory", log.clone());
    for store in [AnyStore::new(inside), AnyStore::new(outside)] {
        let locks = Locks::new(RetryStore::new(store, Tokio, SECOND), SECOND * 30).unwrap();
        let lock = locks.with_wake_ups().lock("one").unwrap();
        let guard = lock.acquire().await.unwrap();
        assert!(lock.acquire_within(SECOND / 10).await.unwrap().taken().is_none());
        guard.release().await.unwrap();
        let mut names: Vec<_> = calls(&log).into_iter().map(|(name, ..)| name).collect();
        names.dedup();
        assert_eq!(names, ["lock_acquire", "listen", "lock_acquire", "lock_release"]);
    }
}

/// A batch is one call.
#[tokio::test(start_paused = true)]
async fn a_batch_is_one_call_of_many_commands() {
    let key = |id: &str| Key::new("lockage", id).unwrap();
    let (one, two) = (key("1"), key("2"));
    let log = Log::new();
    let store = ObservedStore::new(paused_memory(), "memory", log.clone());
    let outcomes =
        lockage::Store::execute_batch(&store, &[(&one, &Reset), (&two, &Reset)], SECOND).await;
    assert_eq!(outcomes.len(), 2);
    let told = log.take();
    assert!(
        matches!(
            told[..],
            [Told::Called { command: "limiter_reset", commands: 2, how: How::Done, .. }]
        ),
        "{told:?}"
    );
}

/// An answer that comes as the timeout ends, by another clock, is one too late.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_about_its_timeout_has_timed_out() {
    let (store, log) = (FailingStore::new(paused_memory()), Log::new());
    store.always(Fate::Silence);
    let store = ObservedStore::new(store, "memory", log.clone());
    let key = Key::new("lockage", "id").unwrap();
    let (almost, millisecond) = (SECOND * 7 / 8, SECOND / 1000);
    for (dropped, how) in [(almost - millisecond, How::Dropped), (almost, How::TimedOut)] {
        let call = lockage::Store::execute_within(&store, &key, &Reset, SECOND);
        assert!(tokio::time::timeout(dropped, call).await.is_err());
        assert_eq!(calls(&log), [("limiter_reset", how, dropped)]);
    }
}

/// The system's clock measures where an observer has none of its own.
#[tokio::test]
async fn an_observer_without_a_clock_measures_time() {
    #[derive(Clone, Default)]
    struct Times(Arc<Mutex<Vec<Option<Duration>>>>);
    impl Observer for Times {
        fn decision(&self, event: &DecisionEvent<'_>) {
            self.0.lock().unwrap().push(event.elapsed);
        }

        fn store_call(&self, event: &StoreCallEvent<'_>) {
            self.0.lock().unwrap().push(event.elapsed);
        }
    }
    let times = Times::default();
    let store = ObservedStore::new(MemoryStore::new(), "memory", times.clone());
    let limiter =
        Limiter::new(store, limit!("fixed-window 9/min")).with_observer("all", times.clone());
    assert!(limiter.try_acquire("id", 1).await.unwrap().is_allowed());
    let times = times.0.lock().unwrap();
    assert!(times.len() == 2 && times.iter().all(Option::is_some), "{times:?}");
}

/// Calls that block are reported likewise.
#[tokio::test(start_paused = true)]
async fn blocking_calls_are_reported() {
    let log = Log::new();
    let store = ObservedStore::new(MemoryStore::new(), "memory", log.clone());
    let key = Key::new("lockage", "id").unwrap();
    assert!(!BlockingStore::execute(&store, &key, &Reset, SECOND).unwrap());
    assert_eq!(calls(&log), [("limiter_reset", How::Done, Duration::ZERO)]);
}
