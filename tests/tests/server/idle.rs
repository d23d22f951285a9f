//! Connections that end while no call is made, on real servers: the next caller notices nothing, through each client.
//!
//! The suite's [`Faults`](lockage_suite::Faults) does the same behind a proxy.

use std::cell::RefCell;
use std::time::Duration;

use lockage::notifications::{Notifications, Wake};
use lockage::runtime::{AsyncStd, Runtime, Smol, Tokio};
use lockage::testing::Blocking;
use lockage::{AnyStore, Key, Store};
use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_suite::{IDLE, Idle};
use lockage_tests::server::{Cluster, Sentinels, Server};

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
async fn redis_rs_under_sentinels_notices() {
    let all = Sentinels::start();
    let store = RedisStore::open(&sentinels(&all)).unwrap().with_idle_check(Duration::MAX);
    let idle = Idle { name: "sentinel", store, runtime: Tokio };
    let closed = async || {
        let mut connection = all.connection(all.master());
        redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("NORMAL").exec(&mut connection).unwrap();
        Tokio.sleep(NOTICE).await;
    };
    idle.survives("idle close", closed).await;
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

/// Closes all connections of clients to all nodes.
fn close_all(all: &Cluster) {
    for node in 0..6 {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("NORMAL").exec(&mut all.connection(node)).unwrap();
    }
}

async fn cluster_survives(all: Cluster, name: &str, store: impl Store, on: impl Runtime) {
    let closed = async || {
        close_all(&all);
        on.sleep(NOTICE).await;
    };
    Idle { name, store, runtime: on.clone() }.survives("idle close", closed).await;
}

#[tokio::test]
async fn redis_rs_cluster_notices() {
    let all = Cluster::start();
    let store = RedisStore::open(&cluster(&all)).unwrap().with_idle_check(Duration::MAX);
    cluster_survives(all, "cluster", store, Tokio).await;
}

#[test]
fn redis_rs_cluster_in_smol_notices() {
    let all = Cluster::start();
    let store = RedisStore::open(&cluster(&all)).unwrap().with_idle_check(Duration::MAX);
    smol::block_on(cluster_survives(all, "cluster smol", store, Smol));
}

#[tokio::test]
async fn fred_cluster_notices() {
    let all = Cluster::start();
    let store = FredStore::open(&cluster(&all)).unwrap();
    cluster_survives(all, "fred cluster", store, Tokio).await;
}

#[tokio::test]
async fn redis_rs_sync_cluster() {
    let all = Cluster::start();
    let store = BlockingRedisStore::open(&cluster(&all)).unwrap().with_idle_check(Duration::ZERO);
    cluster_survives(all, "sync cluster", Blocking::new(store, Duration::from_secs(5)), Tokio)
        .await;
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

/// As the system lists them: connections to the server of which a keepalive timer runs, and all of them.
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

/// Of calls, and of listening.
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
