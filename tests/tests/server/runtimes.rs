//! A store that several tokio runtimes share, each of which may end or rest: no caller in another one is failed by that.

use std::time::{Duration, Instant};

use lockage::notifications::{Notification, Notifications, Wake};
use lockage::runtime::Tokio;
use lockage::{Error, Key, Limiter, RetryStore, Store, StoreError, limit};
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use lockage_suite::IDLE;
use lockage_tests::server::{Cluster, Proxy, Server};
use tokio::runtime::{Builder, Runtime};

use crate::pools;
use crate::topologies::cluster;

fn resting() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn running() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn limiter<S: Store>(store: S) -> Limiter<S> {
    Limiter::new(store, limit!("fixed-window 1000/h"))
}

/// Calls, and returns how many permits are left.
async fn call(limiter: &Limiter<impl Store>) -> Result<u64, Error> {
    limiter.try_acquire("id", 1).await.map(|decision| decision.remaining)
}

/// Each runtime ends before the next one begins, as those of tests do.
fn one_after_another<S: Store>(name: &str, open: impl FnOnce(&Runtime) -> S) {
    let mut runtime = resting();
    let limiter = limiter(open(&runtime));
    for round in 1..6 {
        let left = runtime.block_on(call(&limiter));
        assert_eq!(left.map_err(|error| error.to_string()), Ok(1000 - round), "{name}");
        runtime = if round % 2 == 0 { resting() } else { running() };
    }
}

#[test]
fn each_may_end_after_a_call() {
    let servers: Vec<Server> = (0..7).map(|_| Server::start()).collect();
    let url = |index: usize| servers[index].url();
    one_after_another("redis-rs", |_| RedisStore::open(&url(0)).unwrap());
    one_after_another("fred", |_| FredStore::open(&url(1)).unwrap());
    one_after_another("deadpool", |_| RedisStore::new(pools::deadpool(&url(2))));
    one_after_another("bb8", |on| RedisStore::new(on.block_on(pools::bb8(&url(3)))));
    for (index, protocol) in [(4, ""), (5, "?protocol=resp3")] {
        let client = redis::Client::open(url(index) + protocol).unwrap();
        let manager = |on: &Runtime| on.block_on(client.get_connection_manager()).unwrap();
        one_after_another("manager", |on| RedisStore::new(manager(on)));
    }
}

#[test]
fn each_may_end_after_a_call_to_a_cluster() {
    let all = Cluster::start();
    one_after_another("redis-rs", |_| RedisStore::open(&cluster(&all)).unwrap());
    let all = Cluster::start();
    one_after_another("fred", |_| FredStore::open(&cluster(&all)).unwrap());
}

/// Nothing but its own client could reconnect a connection of the application's own.
#[test]
fn a_connection_of_ones_own_is_lost_with_its_runtime_and_nothing_is_sent() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).unwrap();
    let first = resting();
    let connection = first.block_on(client.get_multiplexed_async_connection()).unwrap();
    let limiter = limiter(RedisStore::new(connection));
    first.block_on(call(&limiter)).unwrap();
    drop(first);
    for _ in 0..2 {
        let error = resting().block_on(call(&limiter)).unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::NotDone(_))), "{error:?}");
    }
}

/// Nothing polls the connection's task meanwhile, in its own runtime or for another one.
#[test]
fn each_may_rest_while_a_connection_is_idle() {
    let (redis_rs, fred) = (Server::start(), Server::start());
    rests(redis_rs, |url| RedisStore::open(url).unwrap());
    rests(fred, |url| FredStore::open(url).unwrap());
}

fn rests<S: Store>(mut server: Server, open: impl FnOnce(&str) -> S) {
    let limiter = limiter(open(&server.url()));
    let (first, second) = (resting(), resting());
    let left = |runtime: &Runtime| runtime.block_on(call(&limiter)).map_err(|it| it.to_string());
    assert_eq!(left(&first), Ok(999));
    // Old enough to be replaced.
    std::thread::sleep(2 * IDLE);
    assert_eq!(left(&second), Ok(998));
    server.restart_with_keys();
    std::thread::sleep(2 * IDLE);
    assert_eq!(left(&second), Ok(997));
}

#[test]
fn each_may_end_or_rest_while_it_connects() {
    let server = Server::start();
    for ends in [true, false] {
        connects(&server, ends, |url| RedisStore::open(url).unwrap());
        connects(&server, ends, |url| FredStore::open(url).unwrap());
    }
}

fn connects<S: Store>(server: &Server, ends: bool, open: impl FnOnce(&str) -> S) {
    let proxy = Proxy::start(server.port());
    let limiter = limiter(open(&proxy.url()));
    let mut first = Some(resting());
    proxy.black_hole(true);
    let given_up = async { tokio::time::timeout(Duration::from_millis(50), call(&limiter)).await };
    assert!(first.as_ref().unwrap().block_on(given_up).is_err());
    if ends {
        first.take();
    }
    proxy.black_hole(false);
    let left = resting().block_on(call(&limiter));
    assert!(left.is_ok(), "ends: {ends}, {left:?}");
}

/// It is unknown whether the call was carried out, and no caller waits for ever.
#[test]
fn a_call_in_flight_ends_with_the_runtime_of_its_connection() {
    let server = Server::start();
    flies(&server, |url| RedisStore::open(url).unwrap());
    flies(&server, |url| FredStore::open(url).unwrap());
}

fn flies<S: Store>(server: &Server, open: impl FnOnce(&str) -> S) {
    let proxy = Proxy::start(server.port());
    let limiter = limiter(open(&proxy.url()));
    let first = running();
    first.block_on(call(&limiter)).unwrap();
    proxy.delay_replies(Duration::from_millis(300));
    let second = running();
    let flying = second.block_on(async {
        let (end, flying) = (async move { first.shutdown_background() }, call(&limiter));
        tokio::join!(flying, async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            end.await;
        })
    });
    assert!(matches!(flying.0, Err(Error::Store(StoreError::Unknown(_)))), "{:?}", flying.0);
    proxy.delay_replies(Duration::ZERO);
    second.block_on(call(&limiter)).unwrap();
}

#[test]
fn waiters_are_notified_and_listen_again_when_the_runtime_of_their_connection_ends() {
    let server = Server::start();
    listens(&server, "redis-rs", RedisStore::open(&server.url()).unwrap());
    listens(&server, "fred", FredStore::open(&server.url()).unwrap());
}

fn listens(server: &Server, prefix: &str, store: impl Notifications) {
    let key = |id| Key::new(prefix, id).unwrap();
    let (first, second) = (running(), running());
    let listener = first.block_on(store.listen(&key("first"), Wake::All)).unwrap();
    let mut waiter = second.block_on(store.listen(&key("second"), Wake::All)).unwrap();
    drop((listener, first));
    let patience = Duration::from_secs(10);
    let lost = second.block_on(async { tokio::time::timeout(patience, waiter.next()).await });
    assert_eq!(lost, Ok(Notification::Lost), "{prefix}");
    let deadline = Instant::now() + patience;
    loop {
        let mut channels = redis::cmd("PUBSUB");
        channels.arg("SHARDNUMSUB").arg(key("second").as_str());
        let (_, listening): (String, u32) = channels.query(&mut server.connection()).unwrap();
        if listening == 1 {
            return;
        }
        assert!(Instant::now() < deadline, "{prefix}: {listening} listen");
        second.block_on(async { tokio::time::timeout(IDLE / 10, waiter.next()).await.ok() });
    }
}

/// A runtime that is blocked drives the connection. Waiters in another one poll meanwhile, and listen again by one of their
/// own: on the same channel as the blocked one, and on another.
#[test]
fn waiters_listen_again_when_the_runtime_of_their_connection_is_blocked() {
    let server = Server::start();
    moves(&server, "redis-rs", RedisStore::open(&server.url()).unwrap());
    moves(&server, "fred", FredStore::open(&server.url()).unwrap());
}

fn moves(server: &Server, prefix: &str, store: impl Notifications) {
    let store = RetryStore::new(store, Tokio, IDLE);
    let key = |id| Key::new(prefix, id).unwrap();
    let (blocked, live) = (resting(), running());
    let kept = blocked.block_on(store.listen(&key("kept"), Wake::All)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    for id in ["other", "kept"] {
        'polls: loop {
            assert!(Instant::now() < deadline, "{prefix}: no message for `{id}`");
            let Ok(mut waiter) = live.block_on(store.listen(&key(id), Wake::All)) else { continue };
            // The number of times that a waiter without messages goes on listening.
            for _ in 0..9 {
                let mut publish = redis::cmd("SPUBLISH");
                publish.arg(key(id).as_str()).arg("").exec(&mut server.connection()).unwrap();
                let next = async { tokio::time::timeout(IDLE / 10, waiter.next()).await };
                if live.block_on(next) == Ok(Notification::Message) {
                    break 'polls;
                }
            }
        }
    }
    drop(kept);
}
