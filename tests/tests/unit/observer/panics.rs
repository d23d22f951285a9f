//! A panic of an observer costs it that event, and nothing else.

use std::sync::atomic::{AtomicU64, Ordering};

use lockage::observer::ObservedStore;
use lockage::runtime::Tokio;
use lockage::{Locks, RetryStore};
use lockage_memory::testing::paused_memory;
use tokio::time::sleep;

use super::*;

const LEASE: Duration = Duration::from_secs(30);

/// Panics at each event, and when it is asked for the time.
#[derive(Clone, Default)]
struct Panics(Arc<AtomicU64>);

impl Panics {
    fn panic(&self) -> ! {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("as it is told");
    }
}

impl Observer for Panics {
    fn decision(&self, _: &DecisionEvent<'_>) {
        self.panic();
    }

    fn store_call(&self, _: &StoreCallEvent<'_>) {
        self.panic();
    }

    fn lease(&self, _: &LeaseEvent<'_>) {
        self.panic();
    }

    fn now(&self) -> Option<Duration> {
        self.panic();
    }
}

/// Another observer gets the events all the same.
fn beside(log: &Log) -> (Panics, Vec<Arc<dyn Observer>>) {
    let panics = Panics::default();
    (panics.clone(), vec![Arc::new(panics), Arc::new(log.clone())])
}

/// L6, L8: a lock is held, renewed, lost and released, and other observers get the events.
#[tokio::test(start_paused = true)]
async fn l6_a_lock_does_not_depend_on_its_observer() {
    let (log, store) = (Log::new(), FailingStore::new(paused_memory()));
    let (panics, both) = beside(&log);
    let timed = RetryStore::new(store, Tokio, SECOND);
    let locks = Locks::new(timed, LEASE).unwrap().with_observer("invoices", both);
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    sleep(LEASE * 3).await;
    assert!(guard.time_left().is_ok());
    let token = guard.token();
    assert!(locks.lock("one").unwrap().force_release(token).await.unwrap());
    guard.lost().await;
    drop(guard);
    locks.lock("one").unwrap().acquire().await.unwrap().release().await.unwrap();
    let told = log.take();
    assert!(told.len() > 10, "acquired, renewed, lost, acquired, released: {told:?}");
    assert_eq!(panics.0.load(Ordering::Relaxed), told.len() as u64);
}

/// Decisions are made and calls are answered, and other observers get the events.
#[tokio::test(start_paused = true)]
async fn limiters_and_stores_do_not_depend_on_their_observer() {
    let log = Log::new();
    let (_, both) = beside(&log);
    let store = ObservedStore::new(paused_memory(), "memory", both);
    let (_, both) = beside(&log);
    let limit = "fixed-window 1/min".parse().unwrap();
    let limiter = Limiter::new(store, limit).with_observer("login", both);
    assert!(limiter.try_acquire("id", 1).await.unwrap().is_allowed());
    assert!(!limiter.try_acquire("id", 1).await.unwrap().is_allowed());
    assert_eq!(log.take().len(), 4);
    // A dropped call reports its end while its caller may be unwinding.
    let silent = FailingStore::new(paused_memory());
    silent.always(lockage_memory::testing::Fate::Silence);
    let store =
        RetryStore::new(ObservedStore::new(silent, "memory", beside(&log).1), Tokio, SECOND);
    assert!(Limiter::new(store, limit).try_acquire("id", 1).await.is_err());
    assert_eq!(log.take().len(), 1);
}
