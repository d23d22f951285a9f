//! Pools of other crates, which an application has already.

use std::time::Duration;

use deadpool_redis::{Config, Pool, Runtime};
use lockage::runtime::Tokio;
use lockage::{Error, Limiter, Locks, RetryStore, StoreError, limit};
use lockage_redis_rs::{RedisStore, Shared};
use lockage_suite::START_US;
use lockage_tests::server::{Server, VirtualClock};

use crate::stores;

pub(super) fn deadpool(url: &str) -> Pool {
    let pool = Config::from_url(url).builder().unwrap();
    pool.max_size(4).runtime(Runtime::Tokio1).build().unwrap()
}

pub(super) async fn bb8(url: &str) -> bb8::Pool<redis::Client> {
    let client = redis::Client::open(url).unwrap();
    bb8::Pool::builder().max_size(4).build(client).await.unwrap()
}

#[tokio::test]
async fn the_suite_passes_on_a_pool_of_deadpool() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    stores::run("deadpool", RedisStore::new(deadpool(&server.url())), &|now| clock.set(now)).await;
}

#[tokio::test]
async fn the_suite_passes_on_a_pool_of_bb8() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    stores::run("bb8", RedisStore::new(bb8(&server.url()).await), &|now| clock.set(now)).await;
}

#[tokio::test]
async fn a_small_pool_serves_many_tasks_and_locks() {
    let server = Server::start();
    let store = RedisStore::new(deadpool(&server.url()));
    let limiter = Limiter::new(store.clone(), limit!("fixed-window 5/min"));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.try_acquire("pool", 1).await })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += u32::from(task.await.unwrap().unwrap().is_allowed());
    }
    assert_eq!(admitted, 5);

    let store = RetryStore::new(store, Tokio, Duration::from_secs(1));
    let locks = Locks::new(store, Duration::from_secs(30)).unwrap();
    let lock = locks.lock("pool").unwrap();
    let held = lock.acquire().await.unwrap();
    let next = tokio::spawn(async move { lock.acquire().await.unwrap().token() });
    let token = held.token();
    held.release().await.unwrap();
    assert!(next.await.unwrap() > token);
}

#[tokio::test]
async fn a_pool_without_a_connection_has_done_nothing() {
    let mut server = Server::start();
    let store: RedisStore<Shared<Pool>> = RedisStore::new(deadpool(&server.url()));
    let limiter = Limiter::new(store, limit!("fixed-window 9/h"));
    _ = limiter.try_acquire("id", 1).await.unwrap();
    server.kill();
    // The connection that it has may have carried the call.
    let told = [limiter.try_acquire("id", 1).await, limiter.try_acquire("id", 1).await];
    let [_, Err(Error::Store(StoreError::NotDone(_)))] = told else { panic!("{told:?}") };
}
