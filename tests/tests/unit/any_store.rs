//! A store whose type is chosen at run time behaves as the store inside.

use std::time::Duration;

use lockage::notifications::{Listener, Notifications, Wake};
use lockage::runtime::Tokio;
use lockage::store::Command;
use lockage::{AnyStore, Error, Key, Limiter, Locks, RetryStore, Store, StoreError, limit};
use lockage_memory::testing::paused_memory;

const SECOND: Duration = Duration::from_secs(1);

fn locks(store: AnyStore) -> Locks<AnyStore, Tokio> {
    Locks::new(RetryStore::new(store, Tokio, SECOND), SECOND * 30).unwrap()
}

/// The fields of a program name no type of a store, and messages still wake its waiters.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_through_it() {
    struct App {
        limiter: Limiter<AnyStore>,
        locks: Locks<AnyStore, Tokio>,
    }
    let store = AnyStore::new(paused_memory());
    let limiter = Limiter::new(store.clone(), limit!("fixed-window 1/min"));
    let app = App { limiter, locks: locks(store).with_wake_ups().with_poll(SECOND * 3600) };
    assert!(app.limiter.try_acquire("x", 1).await.unwrap().is_allowed());

    let lock = app.locks.lock("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap().token() });
    tokio::time::sleep(SECOND).await;
    let (token, begin) = (guard.token(), tokio::time::Instant::now());
    guard.release().await.unwrap();
    assert!(waiter.await.unwrap() > token);
    assert!(begin.elapsed() < SECOND, "it did not wait for its poll");
}

#[test]
fn batches_are_supported_if_the_store_inside_does() {
    assert!(AnyStore::new(WithBatches).supports_batch());
    assert!(!AnyStore::new(paused_memory()).supports_batch());
}

struct WithBatches;

impl Store for WithBatches {
    async fn execute<C>(&self, _: &Key, _: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        Err(StoreError::NotDone("it is never asked".into()))
    }

    fn supports_batch(&self) -> bool {
        true
    }
}

impl Notifications for WithBatches {
    async fn listen(&self, _: &Key, _: Wake) -> Result<Listener, StoreError> {
        Err(StoreError::NotDone("it is never asked".into()))
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledged_calls_on_a_store_without_replicas_are_not_done() {
    let locks = locks(AnyStore::new(paused_memory())).with_replicas(1);
    let error = locks.lock("x").unwrap().try_acquire().await.unwrap_err();
    let Error::Store(StoreError::NotDone(why)) = error else { panic!("{error:?}") };
    assert!(why.to_string().contains("AnyStore::replicated"), "{why}");
    // A grant without replicas is given back.
    tokio::time::sleep(SECOND).await;
    assert!(locks.lock("x").unwrap().inspect().await.unwrap().holder.is_none());
}
