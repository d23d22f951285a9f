//! Locks of a real server, in a process of several runtimes that begin and end, and with an observer that panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lockage::observer::{LeaseChange, LeaseEvent, Observer};
use lockage::runtime::Tokio;
use lockage::{Locks, RetryStore, Store};
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

const LEASE: Duration = Duration::from_secs(2);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn locks<S: Store + 'static>(store: S) -> Locks<S, Tokio> {
    Locks::new(RetryStore::new(store, Tokio, Duration::from_millis(500)), LEASE).unwrap()
}

fn fred(server: &Server) -> Locks<FredStore, Tokio> {
    locks(FredStore::open(&server.url()).unwrap())
}

fn redis_rs(server: &Server) -> Locks<RedisStore, Tokio> {
    locks(RedisStore::open(&server.url()).unwrap())
}

/// L6: the runtime of the first acquire ends, and a lock on another one is held until it is released.
#[test]
fn l6_a_lock_outlives_the_runtime_of_the_first_acquire() {
    let server = Server::start();
    outlives(fred(&server));
    outlives(redis_rs(&server));
}

fn outlives<S: Store + Clone + 'static>(locks: Locks<S, Tokio>) {
    let first = runtime();
    first.block_on(async {
        locks.lock("first").unwrap().acquire().await.unwrap().release().await.unwrap();
    });
    let lock = locks.lock("second").unwrap();
    let second = thread::spawn(move || {
        runtime().block_on(async {
            let guard = lock.acquire().await.unwrap();
            let loss = timeout(LEASE * 3, guard.lost()).await.ok();
            assert_eq!(loss, None);
            // Nor is it lost to a holder that calls nothing.
            sleep(LEASE * 2).await;
            assert!(!guard.is_lost());
            guard.release().await.unwrap();
        });
    });
    first.block_on(async { sleep(LEASE / 4).await });
    drop(first);
    second.join().unwrap();
}

/// L8: a guard that is dropped after its runtime has ended does not panic, and the lock is free before its lease ends.
#[test]
fn l8_a_guard_that_outlives_its_runtime_is_given_back() {
    let server = Server::start();
    is_given_back(FredStore::open(&server.url()).unwrap());
    is_given_back(RedisStore::open(&server.url()).unwrap());
}

fn is_given_back<S: Store + Clone + 'static>(store: S) {
    let store = RetryStore::new(store, Tokio, Duration::from_millis(500));
    let locks = Locks::new(store, Duration::from_secs(300)).unwrap();
    let lock = locks.lock("third").unwrap();
    let ended = runtime();
    let guard = ended.block_on(lock.acquire()).unwrap();
    drop(ended);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(guard))).is_ok());
    runtime().block_on(async {
        let next = lock.acquire_within(Duration::from_secs(20)).await.unwrap();
        next.taken().unwrap().release().await.unwrap();
    });
}

/// Panics at each event, and counts renewals.
struct Panics(Arc<AtomicU64>);

impl Observer for Panics {
    fn lease(&self, event: &LeaseEvent<'_>) {
        if let LeaseChange::Renewed = event.change {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        panic!("each observation fails");
    }
}

/// L6: a lock is renewed whatever becomes of its observer.
#[tokio::test]
async fn l6_a_lock_does_not_depend_on_its_observer() {
    let server = Server::start();
    observed(redis_rs(&server)).await;
    observed(fred(&server)).await;
}

async fn observed<S: Store + 'static>(locks: Locks<S, Tokio>) {
    let renewals = Arc::new(AtomicU64::new(0));
    let locks = locks.with_observer("invoices", Panics(Arc::clone(&renewals)));
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    let token = guard.token();
    sleep(LEASE * 2).await;
    assert!(!guard.is_lost() && renewals.load(Ordering::Relaxed) > 2);
    guard.release().await.unwrap();
    let next = locks.lock("one").unwrap().acquire().await.unwrap();
    assert!(next.token() > token);
}
