//! E1: a server with the module serves the calls of scripts natively, and its replicas, its restarts and servers without
//! the module go on from the same records. Only where `LOCKAGE_MODULE` names the module, so these are run by name.

use std::time::Duration;

use lockage::runtime::Tokio;
use lockage::{Limiter, Locks, RetryStore};
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

const TIMEOUT: Duration = Duration::from_secs(20);

type Shared = RetryStore<RedisStore, Tokio>;

fn store(server: &Server) -> Shared {
    let store = RedisStore::open(&server.url()).expect("an address");
    RetryStore::new(store, Tokio, TIMEOUT)
}

fn limiter(store: &Shared, limit: &str) -> Limiter<Shared> {
    let limit = limit.parse().expect("a limit");
    Limiter::new(store.clone(), limit).with_prefix("module").expect("a plain prefix")
}

/// Uses a limit, a reservation, a lock and a stored limit.
async fn use_all(store: &Shared) {
    let bucket = limiter(store, "token-bucket 10/h burst 5");
    assert_eq!(bucket.try_acquire("bucket", 2).await.unwrap().remaining, 3);
    let window = limiter(store, "fixed-window 9/h");
    let reservation = window.reserve("window", 4, Duration::from_secs(60)).await.unwrap();
    let reservation = reservation.reservation.expect("it is admitted");
    let _ = window.commit("window", &reservation, 1).await.unwrap();
    assert_eq!(window.peek("window", 1).await.unwrap().remaining, 8);
    let locks = Locks::new(store.clone(), Duration::from_secs(60)).unwrap();
    let guard = locks.lock("held").unwrap().acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// Returns how often a command was called.
fn calls_of(server: &Server, command: &str) -> u64 {
    let mut connection = server.connection();
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let calls = stats.split_once(&format!("cmdstat_{command}:calls="));
    calls.map_or(0, |(_, rest)| rest.split(',').next().unwrap().parse().unwrap())
}

/// Returns each key, its value, and its expiry.
fn keys(server: &Server) -> Vec<(String, Vec<u8>, i64)> {
    let mut connection = server.connection();
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    keys.sort();
    let held = |key: String| {
        let value = redis::cmd("GET").arg(&key).query(&mut connection).unwrap();
        let expiry = redis::cmd("PEXPIRETIME").arg(&key).query(&mut connection).unwrap();
        (key, value, expiry)
    };
    keys.into_iter().map(held).collect()
}

#[tokio::test]
#[ignore = "it needs LOCKAGE_MODULE"]
async fn the_module_serves_the_calls_of_scripts() {
    let server = Server::start();
    use_all(&store(&server)).await;
    assert!(calls_of(&server, "lockage.call") >= 6);
    assert_eq!(calls_of(&server, "evalsha"), 0, "none of them is left to Lua");
    let log = limiter(&store(&server), "sliding-log 3/h");
    assert!(log.try_acquire("log", 1).await.unwrap().is_allowed());
    assert!(calls_of(&server, "evalsha") >= 1, "Lua keeps those of logs");
}

#[tokio::test]
#[ignore = "it needs LOCKAGE_MODULE"]
async fn a_replica_and_a_restart_have_the_same_records() {
    let server = Server::start();
    let replica = Server::replica_of(&server);
    let mut connection = server.connection();
    redis::cmd("CONFIG").arg(&["SET", "appendonly", "yes"]).exec(&mut connection).unwrap();
    // The file is whole once it was rewritten, which waits for the copy for the replica: until then it cannot be loaded.
    let is_whole = |info: String| {
        ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"].iter().all(|it| info.contains(it))
    };
    while !is_whole(redis::cmd("INFO").arg("persistence").query(&mut connection).unwrap()) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    use_all(&store(&server)).await;
    let written = keys(&server);
    assert_eq!(written.len(), 4, "{written:?}");
    // It waits for the last write of this connection, and so for all before it: a message is one, and leaves no key.
    redis::cmd("PUBLISH").arg("any").arg("thing").exec(&mut connection).unwrap();
    let replicas: u64 = redis::cmd("WAIT").arg(1).arg(10_000).query(&mut connection).unwrap();
    assert_eq!(replicas, 1);
    assert_eq!(keys(&replica), written, "the replica");
    redis::cmd("DEBUG").arg("LOADAOF").exec(&mut connection).unwrap();
    assert_eq!(keys(&server), written, "after a restart from the append-only file");
}

#[tokio::test]
#[ignore = "it needs LOCKAGE_MODULE"]
async fn a_server_without_the_module_goes_on_from_its_records() {
    let server = Server::with_file("enable-module-command local\n");
    let store = store(&server);
    use_all(&store).await;
    let mut connection = server.connection();
    redis::cmd("MODULE").arg(&["UNLOAD", "lockage"]).exec(&mut connection).unwrap();
    let bucket = limiter(&store, "token-bucket 10/h burst 5");
    assert_eq!(bucket.try_acquire("bucket", 2).await.unwrap().remaining, 1);
    assert!(calls_of(&server, "evalsha") + calls_of(&server, "eval") >= 1, "it is a script's");
    let module = std::env::var("LOCKAGE_MODULE").expect("it is set");
    let load = |arguments: &[&str]| redis::cmd("MODULE").arg("LOAD").arg(arguments).to_owned();
    assert!(load(&[&module, "extra"]).exec(&mut connection).is_err(), "it takes no arguments");
    load(&[&module]).exec(&mut connection).unwrap();
    assert_eq!(bucket.try_acquire("bucket", 1).await.unwrap().remaining, 0);
    assert!(!bucket.try_acquire("bucket", 1).await.unwrap().is_allowed());
}
