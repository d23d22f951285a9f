//! A call that has no connection when its caller gives up was not sent, through each client.

use std::time::Duration;

use lockage::runtime::{Runtime, Smol, Tokio};
use lockage::testing::Blocking;
use lockage::{Error, Limiter, RetryStore, Store, StoreError, limit};
use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_suite::IDLE;
use lockage_tests::server::{Cluster, Proxy, Sentinels, Server};

use crate::pools;
use crate::topologies::{cluster, sentinels};

/// Shorter than a client waits for its connection.
const TIMEOUT: Duration = Duration::from_millis(200);

type Limited<S, R> = Limiter<RetryStore<S, R>>;

fn limiter<S: Store, R: Runtime>(store: S, on: R) -> Limited<S, R> {
    Limiter::new(RetryStore::new(store, on, TIMEOUT), limit!("fixed-window 99/h"))
}

async fn is_not_sent<S: Store, R: Runtime>(name: &str, limiter: &Limited<S, R>) {
    let answer = limiter.try_acquire("id", 1).await;
    assert!(matches!(answer, Err(Error::Store(StoreError::NotDone(_)))), "{name}: {answer:?}");
}

/// Starts a server that accepts connections, and never answers.
fn silent() -> (Server, Proxy) {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    proxy.black_hole(true);
    (server, proxy)
}

#[tokio::test]
async fn a_call_without_a_connection() {
    let (server, proxy) = silent();
    let url = proxy.url();
    let redis_rs = || RedisStore::open(&url).unwrap();
    is_not_sent("redis-rs", &limiter(redis_rs(), Tokio)).await;
    smol::block_on(is_not_sent("redis-rs in smol", &limiter(redis_rs(), Smol)));
    is_not_sent("fred", &limiter(FredStore::open(&url).unwrap(), Tokio)).await;
    is_not_sent("deadpool", &limiter(RedisStore::new(pools::deadpool(&url)), Tokio)).await;
    let sync = Blocking::new(BlockingRedisStore::open(&url).unwrap(), TIMEOUT);
    is_not_sent("sync", &limiter(sync, Tokio)).await;
    assert_eq!(server.executions(), 0);
}

/// The store waits for a pool, all of whose connections others use.
#[tokio::test]
async fn a_call_without_a_connection_of_a_pool() {
    let server = Server::start();
    let deadpool = pools::deadpool(&server.url());
    let mut used = Vec::new();
    for _ in 0..4 {
        used.push(deadpool.get().await.unwrap());
    }
    is_not_sent("deadpool", &limiter(RedisStore::new(deadpool), Tokio)).await;
    let bb8 = pools::bb8(&server.url()).await;
    let mut used = Vec::new();
    for _ in 0..4 {
        used.push(bb8.get().await.unwrap());
    }
    is_not_sent("bb8", &limiter(RedisStore::new(bb8.clone()), Tokio)).await;
    assert_eq!(server.executions(), 0);
}

#[tokio::test]
async fn a_call_without_a_connection_to_a_master_or_a_cluster() {
    let all = Sentinels::start_behind_a_proxy();
    all.proxy().black_hole(true);
    let url = sentinels(&all);
    is_not_sent("sentinels", &limiter(RedisStore::open(&url).unwrap(), Tokio)).await;
    is_not_sent("fred sentinels", &limiter(FredStore::open(&url).unwrap(), Tokio)).await;
    let sync = Blocking::new(BlockingRedisStore::open(&url).unwrap(), TIMEOUT);
    is_not_sent("sync sentinels", &limiter(sync, Tokio)).await;
    drop(all);
    let all = Cluster::start_behind_proxies();
    (0..6).for_each(|node| all.proxy(node).black_hole(true));
    let url = cluster(&all);
    is_not_sent("cluster", &limiter(RedisStore::open(&url).unwrap(), Tokio)).await;
    is_not_sent("fred cluster", &limiter(FredStore::open(&url).unwrap(), Tokio)).await;
    let sync = Blocking::new(BlockingRedisStore::open(&url).unwrap(), TIMEOUT);
    is_not_sent("sync cluster", &limiter(sync, Tokio)).await;
}

/// The time of the call ends while its connection is checked, and while another one is made.
#[tokio::test]
async fn calls_on_a_doubtful_connection_are_not_sent() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let redis_rs = limiter(RedisStore::open(&proxy.url()).unwrap(), Tokio);
    let fred = limiter(FredStore::open(&proxy.url()).unwrap(), Tokio);
    redis_rs.try_acquire("id", 1).await.unwrap().ok().unwrap();
    fred.try_acquire("id", 1).await.unwrap().ok().unwrap();
    proxy.black_hole(true);
    tokio::time::sleep(2 * IDLE).await;
    for _ in 0..3 {
        is_not_sent("redis-rs", &redis_rs).await;
        is_not_sent("fred", &fred).await;
    }
    assert_eq!(server.executions(), 2);
}
