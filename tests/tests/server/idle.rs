//! Connections that end while no call is made, on real servers: the next caller notices nothing, through each client.
//!
//! The suite's [`Faults`](lockage_suite::Faults) does the same behind a proxy.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ReconnectPolicy};
use lockage::notifications::{Notifications, Wake};
use lockage::runtime::{AsyncStd, Runtime, Smol, Tokio};
use lockage::testing::Blocking;
use lockage::{AnyStore, Key, Store, StoreError, limit};
use lockage_core::Acquire;
use lockage_fred::{FredStore, connection_config};
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_suite::{IDLE, Idle};
use lockage_tests::server::{Cluster, Proxy, Sentinels, Server};

use crate::pools;
use crate::topologies::{cluster, sentinels};

/// Within this time a client that is notified of an end has noticed it.
const NOTICE: Duration = Duration::from_millis(100);

/// Ends the connections of all clients, as a server does with idle ones.
fn close_idle(server: &Server) {
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("NORMAL").exec(&mut server.connection()).unwrap();
}

/// Closes connections, and restarts the server, this long before each call.
async fn survives(
    server: Server,
    pause: Duration,
    name: &str,
    store: impl Store,
    on: impl Runtime,
) {
    let server = RefCell::new(server);
    let idle = Idle { name, store, runtime: on.clone() };
    let closed = async || {
        close_idle(&server.borrow());
        on.sleep(pause).await;
    };
    idle.survives("idle close", closed).await;
    let restarted = async || {
        server.borrow_mut().restart_with_keys();
        on.sleep(pause).await;
    };
    idle.survives("restart while idle", restarted).await;
}

fn redis_rs(server: &Server) -> RedisStore {
    RedisStore::open(&server.url()).unwrap()
}

fn fred(server: &Server) -> FredStore {
    FredStore::open(&server.url()).unwrap()
}

/// Without a check: the client notices the end.
#[tokio::test]
async fn redis_rs_notices() {
    let server = Server::start();
    let store = redis_rs(&server).with_idle_check(Duration::MAX);
    survives(server, NOTICE, "notices", store, Tokio).await;
}

#[test]
fn redis_rs_in_smol_notices() {
    let server = Server::start();
    let store = redis_rs(&server).with_idle_check(Duration::MAX);
    smol::block_on(survives(server, NOTICE, "smol", store, Smol));
}

#[test]
fn redis_rs_in_async_std_notices() {
    let server = Server::start();
    let store = redis_rs(&server).with_idle_check(Duration::MAX);
    async_std::task::block_on(survives(server, NOTICE, "async-std", store, AsyncStd));
}

#[tokio::test]
async fn fred_notices() {
    let server = Server::start();
    let store = fred(&server).with_idle_check(Duration::MAX);
    survives(server, IDLE, "fred", store, Tokio).await;
}

#[tokio::test]
async fn redis_rs_sync() {
    let server = Server::start();
    let store = BlockingRedisStore::open(&server.url()).unwrap();
    survives(server, IDLE, "sync", Blocking::new(store, Duration::from_secs(5)), Tokio).await;
}

/// And without a pause.
#[tokio::test]
async fn redis_rs_sync_that_checks_each_call() {
    let server = Server::start();
    let store = BlockingRedisStore::open(&server.url()).unwrap().with_idle_check(Duration::ZERO);
    let store = Blocking::new(store, Duration::from_secs(5));
    survives(server, Duration::ZERO, "sync", store, Tokio).await;
}

#[tokio::test]
async fn pools_of_other_crates() {
    let server = Server::start();
    let store = RedisStore::new(pools::deadpool(&server.url()));
    survives(server, Duration::ZERO, "deadpool", store, Tokio).await;
    let server = Server::start();
    let store = RedisStore::new(pools::bb8(&server.url()).await);
    survives(server, Duration::ZERO, "bb8", store, Tokio).await;
}

/// By RESP2 nothing notifies a manager of the end, but a check does.
#[tokio::test]
async fn a_connection_manager() {
    for protocol in ["", "?protocol=resp3"] {
        let server = Server::start();
        let client = redis::Client::open(server.url() + protocol).unwrap();
        let store = RedisStore::new(client.get_connection_manager().await.unwrap());
        survives(server, IDLE, "manager", store, Tokio).await;
    }
}

/// Some time after a fault, longer than only a slow server leaves a connection in silence.
const SILENCE: Duration = IDLE.saturating_mul(2);

/// Connections to a master that sentinels name.
async fn sentinels_survive(
    all: Sentinels,
    pause: Duration,
    name: &str,
    store: impl Store,
    on: impl Runtime,
) {
    let idle = Idle { name, store, runtime: on.clone() };
    let all = RefCell::new(all);
    let closed = async || {
        all.borrow().proxy().disconnect();
        on.sleep(pause).await;
    };
    idle.survives("idle close", closed).await;
    let restarted = async || {
        all.borrow_mut().restart_with_keys(0);
        on.sleep(pause).await;
    };
    idle.survives("restart while idle", restarted).await;
    let silenced = async || {
        all.borrow().proxy().forget_connections();
        on.sleep(SILENCE).await;
    };
    idle.survives("silence", silenced).await;
}

#[tokio::test]
async fn redis_rs_under_sentinels() {
    let all = Sentinels::start_behind_a_proxy();
    let store = RedisStore::open(&sentinels(&all)).unwrap();
    sentinels_survive(all, NOTICE, "sentinels", store, Tokio).await;
}

#[tokio::test]
async fn fred_under_sentinels() {
    let all = Sentinels::start_behind_a_proxy();
    let store = FredStore::open(&sentinels(&all)).unwrap();
    sentinels_survive(all, IDLE, "fred sentinels", store, Tokio).await;
}

#[tokio::test]
async fn redis_rs_sync_under_sentinels() {
    let all = Sentinels::start_behind_a_proxy();
    let store = BlockingRedisStore::open(&sentinels(&all)).unwrap();
    let store = Blocking::new(store, Duration::from_secs(5));
    sentinels_survive(all, IDLE, "sync sentinels", store, Tokio).await;
}

/// The nodes of a cluster, all of which a fault meets. The one that restarts has the key.
async fn cluster_survives<S: Store>(
    pause: Duration,
    name: &str,
    open: impl FnOnce(&str) -> S,
    on: impl Runtime,
) {
    let all = Cluster::start_behind_proxies();
    let store = open(&cluster(&all));
    let idle = Idle { name, store, runtime: on.clone() };
    let all = RefCell::new(all);
    let each = |fault: fn(&Proxy)| (0..6).for_each(|node| fault(all.borrow().proxy(node)));
    let closed = async || {
        each(Proxy::disconnect);
        on.sleep(pause).await;
    };
    idle.survives("idle close", closed).await;
    let restarted = async || {
        let node = all.borrow().master_of(idle.key().as_str());
        all.borrow_mut().restart_with_keys(node);
        on.sleep(pause).await;
    };
    idle.survives("restart while idle", restarted).await;
    let silenced = async || {
        each(Proxy::forget_connections);
        on.sleep(SILENCE).await;
    };
    idle.survives("silence", silenced).await;
}

#[tokio::test]
async fn redis_rs_cluster() {
    cluster_survives(NOTICE, "cluster", |at| RedisStore::open(at).unwrap(), Tokio).await;
}

#[test]
fn redis_rs_cluster_in_smol() {
    let open = |at: &str| RedisStore::open(at).unwrap();
    smol::block_on(cluster_survives(NOTICE, "cluster smol", open, Smol));
}

#[tokio::test]
async fn fred_cluster() {
    cluster_survives(IDLE, "fred cluster", |at| FredStore::open(at).unwrap(), Tokio).await;
}

#[tokio::test]
async fn redis_rs_sync_cluster() {
    let open =
        |at: &str| Blocking::new(BlockingRedisStore::open(at).unwrap(), Duration::from_secs(5));
    cluster_survives(IDLE, "sync cluster", open, Tokio).await;
}

/// A client of the application's own recovers by its own settings, and nothing is sent into silence meanwhile.
#[tokio::test]
async fn a_client_and_a_pool_of_fred_with_the_settings_of_the_store() {
    let (settings, policy) = (connection_config(), ReconnectPolicy::new_constant(0, 1));
    let servers = [Server::start(), Server::start()];
    let [proxy, pooled] = servers.each_ref().map(|server| Proxy::start(server.port()));
    let config = |proxy: &Proxy| Config::from_url(&proxy.url()).unwrap();
    let client = Client::new(config(&proxy), None, Some(settings.clone()), Some(policy.clone()));
    client.init().await.unwrap();
    given_survives(&proxy, FredStore::new(client)).await;
    let pool = Pool::new(config(&pooled), None, Some(settings), Some(policy), 2).unwrap();
    pool.init().await.unwrap();
    given_survives(&pooled, FredStore::new(pool)).await;
}

async fn given_survives(proxy: &Proxy, store: impl Store + Clone) {
    let idle = Idle { name: "given", store: store.clone(), runtime: Tokio };
    let closed = async || {
        proxy.disconnect();
        Tokio.sleep(IDLE).await;
    };
    idle.survives("idle close", closed).await;
    let acquire = Acquire::new(limit!("fixed-window 99/h"), 1).unwrap();
    let key = Key::new("given", "silence").unwrap();
    let call = async || store.execute_within(&key, &acquire, IDLE).await;
    proxy.forget_connections();
    Tokio.sleep(IDLE).await;
    let (began, mut answer) = (Instant::now(), call().await);
    while let Err(error) = answer {
        assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "it has not recovered: {error}");
        // Its settings end a connection that leaves a command without a reply for 2 s, in which no other is sent.
        Tokio.sleep(5 * IDLE).await;
        answer = call().await;
    }
    assert_eq!(answer.unwrap().remaining, 98, "nothing was sent before");
}

/// The server's own timeout.
#[tokio::test]
async fn a_server_that_closes_idle_connections_by_itself() {
    let server = Server::start();
    let set = ["CONFIG", "SET", "timeout", "1"];
    redis::cmd(set[0]).arg(&set[1..]).exec(&mut server.connection()).unwrap();
    let sync = Blocking::new(BlockingRedisStore::open(&server.url()).unwrap(), IDLE);
    let closed = async || Tokio.sleep(Duration::from_millis(2500)).await;
    let (redis_rs, fred) = (redis_rs(&server), fred(&server));
    let redis_rs = Idle { name: "timeout redis-rs", store: redis_rs, runtime: Tokio };
    let fred = Idle { name: "timeout fred", store: fred, runtime: Tokio };
    let sync = Idle { name: "timeout sync", store: sync, runtime: Tokio };
    let idle = [
        tokio::spawn(async move { redis_rs.survives("idle close", closed).await }),
        tokio::spawn(async move { fred.survives("idle close", closed).await }),
        tokio::spawn(async move { sync.survives("idle close", closed).await }),
    ];
    for store in idle {
        store.await.unwrap();
    }
}

/// Returns the system's counts: connections to the server with a running keepalive timer, and all of them.
#[cfg(target_os = "linux")]
fn kept_alive(server: &Server) -> (usize, usize) {
    let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", server.port());
    // number local remote state queues timer...; a timer of kind 02 is that of keepalive.
    let timers = all.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[2].ends_with(&port) && words[3] == "01").then(|| words[5].starts_with("02:"))
    });
    let timers: Vec<bool> = timers.collect();
    (timers.iter().filter(|is_kept| **is_kept).count(), timers.len())
}

#[cfg(target_os = "linux")]
async fn keeps_alive(server: &Server, store: impl Notifications + 'static, count: usize) {
    let store = AnyStore::new(store);
    let idle = Idle { name: "keepalive", store: store.clone(), runtime: Tokio };
    idle.survives("nothing", async || ()).await;
    let key = Key::new("keepalive", "id").unwrap();
    let listener = store.listen(&key, Wake::All).await;
    assert_eq!(kept_alive(server), (count, count));
    drop(listener);
}

/// One connection for calls, and one for subscriptions.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connections_have_keepalive() {
    let server = Server::start();
    keeps_alive(&server, redis_rs(&server), 2).await;
    let server = Server::start();
    keeps_alive(&server, fred(&server), 2).await;
    let server = Server::start();
    let sync = BlockingRedisStore::open(&server.url()).unwrap();
    keeps_alive(&server, Blocking::new(sync, Duration::from_secs(5)), 1).await;
}
