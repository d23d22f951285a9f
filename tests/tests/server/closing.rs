//! A store that is closed ends its connections and tasks, and says so to later callers.

use std::time::{Duration, Instant};

use lockage::notifications::{Notifications, Wake};
use lockage::store::{BlockingStore, Replicated};
use lockage::{Error, Key, Limiter, Store, StoreError, limit};
use lockage_core::Acquire;
use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_tests::server::Server;

const PATIENCE: Duration = Duration::from_secs(5);

/// Waits until a server has no client but the one that asks.
async fn is_left(server: &Server) {
    let mut connection = server.connection();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
        if clients.lines().count() == 1 {
            return;
        }
        assert!(Instant::now() < deadline, "these are left: {clients}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_closed<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    let Err(error @ StoreError::NotDone(_)) = result else { panic!("{result:?}") };
    assert!(error.to_string().contains("the store is closed"), "{error}");
}

/// Closes a store that has connections for calls, for replicas and for listening.
async fn closes<S>(open: impl Fn(&str) -> S, close: impl AsyncFn(&S))
where
    S: Store + Notifications + Replicated + Clone,
{
    let server = Server::start();
    let store = open(&server.url());
    let (key, limit) = (Key::new("closing", "id").unwrap(), limit!("fixed-window 9/h"));
    let limiter = Limiter::new(store.clone(), limit);
    assert!(limiter.try_acquire("id", 1).await.unwrap().is_allowed());
    let acquire = Acquire::new(limit, 1).unwrap();
    _ = store.execute_acknowledged(&key, &acquire, 0, PATIENCE).await.unwrap();
    let listener = store.listen(&key, Wake::All).await.unwrap();

    close(&store).await;
    is_left(&server).await;
    drop(listener);
    let Err(Error::Store(error)) = limiter.try_acquire("id", 1).await else { panic!("it is open") };
    is_closed::<()>(Err(error));
    is_closed(store.execute_within(&key, &acquire, PATIENCE).await);
    for result in store.execute_batch(&[(&key, &acquire), (&key, &acquire)], PATIENCE).await {
        is_closed(result);
    }
    is_closed(store.execute_acknowledged(&key, &acquire, 0, PATIENCE).await);
    is_closed(store.listen(&key, Wake::All).await);
    is_left(&server).await;
}

#[tokio::test]
async fn redis_rs_leaves_nothing_behind() {
    closes(|url| RedisStore::open(url).unwrap(), async |store| store.close().await).await;
}

#[tokio::test]
async fn fred_leaves_nothing_behind() {
    closes(|url| FredStore::open(url).unwrap(), async |store| store.close().await).await;
}

#[tokio::test]
async fn redis_rs_sync_leaves_nothing_behind() {
    let server = Server::start();
    let store = BlockingRedisStore::open(&server.url()).unwrap();
    let key = Key::new("closing", "id").unwrap();
    let acquire = Acquire::new(limit!("fixed-window 9/h"), 1).unwrap();
    let execute = || BlockingStore::execute(&store.clone(), &key, &acquire, PATIENCE);
    assert!(execute().unwrap().is_allowed());
    store.close();
    is_left(&server).await;
    is_closed(execute());
}

#[tokio::test]
async fn a_connection_of_ones_own_stays_open() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let store = RedisStore::new(connection.clone());
    let key = Key::new("closing", "id").unwrap();
    let acquire = Acquire::new(limit!("fixed-window 9/h"), 1).unwrap();
    assert!(store.execute(&key, &acquire).await.unwrap().is_allowed());
    store.close().await;
    is_closed(store.execute(&key, &acquire).await);
    redis::cmd("PING").exec_async(&mut connection).await.unwrap();
}
