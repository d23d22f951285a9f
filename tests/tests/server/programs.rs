//! Programs as users write them, on a real server: each imports all names from one crate.

use std::time::Duration;

use lockage_tests::server::Server;

/// An adapter has the API and its client inside, and `?` turns a caller away.
#[tokio::test]
async fn one_dependency_is_enough() {
    use lockage_redis_rs::{Limiter, RedisStore, limit};

    async fn serve(limiter: &Limiter<RedisStore>) -> Result<(), Box<dyn std::error::Error>> {
        limiter.try_acquire("user:42", 1).await?.ok()?;
        Ok(())
    }

    let server = Server::start();
    let limit = limit!("token-bucket 1/min burst 20");
    let limiter = Limiter::new(RedisStore::open(&server.url()).unwrap(), limit);
    for _ in 0..20 {
        serve(&limiter).await.unwrap();
    }
    let turned_away = serve(&limiter).await.unwrap_err().to_string();
    assert!(turned_away.contains("retry in"), "{turned_away}");
}

/// A program keeps its limiter and its locks in fields, whichever store it is configured with.
#[tokio::test]
async fn a_store_is_chosen_by_configuration() {
    use lockage_tests::lockage::runtime::Tokio;
    use lockage_tests::lockage::{AnyStore, Limiter, Locks, RetryStore, limit};
    use lockage_tests::{lockage_fred, lockage_memory, lockage_redis_rs};

    struct App {
        limiter: Limiter<AnyStore>,
        locks: Locks<AnyStore, Tokio>,
    }

    let server = Server::start();
    for configured in ["memory", "redis", "fred"] {
        let store = match configured {
            "redis" => AnyStore::new(lockage_redis_rs::RedisStore::open(&server.url()).unwrap()),
            "fred" => AnyStore::replicated(lockage_fred::FredStore::open(&server.url()).unwrap()),
            _ => AnyStore::new(lockage_memory::MemoryStore::new()),
        };
        let limiter = Limiter::new(store.clone(), limit!("fixed-window 1/min"));
        let store = RetryStore::new(store, Tokio, Duration::from_secs(1));
        let locks = Locks::new(store, Duration::from_secs(30)).unwrap();
        let app = App { limiter, locks };
        app.limiter.reset("x").await.unwrap();
        let guard = app.locks.lock("x").unwrap().acquire().await.unwrap();
        let first = app.limiter.try_acquire("x", 1).await.unwrap().ok().unwrap();
        assert_eq!(first.remaining, 0, "{configured}");
        assert!(app.limiter.try_acquire("x", 1).await.unwrap().ok().is_err());
        guard.release().await.unwrap();
        app.locks.close().await;
    }
}

/// Threads without a runtime hold a lock for longer than its lease.
#[test]
fn threads_hold_locks_that_are_renewed() {
    use lockage_redis_rs::{BlockingLocks, BlockingRedisStore};

    let server = Server::start();
    let (lease, timeout) = (Duration::from_secs(2), Duration::from_millis(500));
    let store = BlockingRedisStore::open(&server.url()).unwrap();
    let locks = BlockingLocks::new(store, lease, timeout).unwrap();
    let locks = locks.with_poll(Duration::from_millis(5));
    let total = std::sync::Mutex::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (locks, total) = (&locks, &total);
            scope.spawn(move || {
                for turn in 0..50 {
                    let lock = locks.lock("counter").unwrap();
                    let guard = lock.acquire().unwrap();
                    let deadline = || lock.inspect().unwrap().holder.unwrap().hold.deadline;
                    let first = deadline();
                    while (thread, turn) == (0, 0) && deadline() == first {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    assert!(!guard.is_lost());
                    *total.try_lock().expect("nobody else is in here") += 1;
                    guard.release().unwrap();
                }
            });
        }
    });
    assert_eq!(total.into_inner().unwrap(), 100);
    locks.close();
}
