//! Stores by the addresses of configurations: a user, a database, a socket, TLS. Sentinels and clusters are in
//! `topologies`.

use std::process::Command;
use std::time::Duration;

use lockage::{BlockingLimiter, Error, Limiter, Store, StoreError, limit};
use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_tests::server::Server;

/// Asks by each client for the one request that this id has, and returns which one was admitted: all of one server
/// share the key.
async fn admitted(address: &str) -> Vec<bool> {
    let limit = limit!("fixed-window 1/h");
    let redis_rs = Limiter::new(RedisStore::open(address).unwrap(), limit);
    let fred = Limiter::new(FredStore::open(address).unwrap(), limit);
    let store = BlockingRedisStore::open(address).unwrap();
    let blocking = BlockingLimiter::new(store, limit, Duration::from_secs(5));
    let decisions = [
        redis_rs.try_acquire("id", 1).await,
        fred.try_acquire("id", 1).await,
        tokio::task::spawn_blocking(move || blocking.try_acquire("id", 1)).await.unwrap(),
    ];
    decisions.into_iter().map(|decision| decision.unwrap().is_allowed()).collect()
}

#[tokio::test]
async fn a_user_a_database_and_a_socket_stand_in_an_address() {
    let server = Server::start();
    redis::cmd("ACL")
        .arg(&["SETUSER", "lock", "on", ">s3cret", "~*", "&*", "+@all"])
        .exec(&mut server.connection())
        .unwrap();
    let once = vec![true, false, false];
    assert_eq!(admitted(&server.url()).await, once);
    // Another database has other keys.
    let port = server.port();
    assert_eq!(admitted(&format!("redis://lock:s3cret@127.0.0.1:{port}/3")).await, once);
    assert_eq!(admitted(&server.unix_url()).await, [false; 3], "it is the first server");
    let socket = format!("{}?db=4&user=lock&pass=s3cret", server.unix_url());
    assert_eq!(admitted(&socket).await, once);
    assert_eq!(admitted(&format!("redis://lock:s3cret@127.0.0.1:{port}/4")).await, [false; 3]);
    // A user whose password is empty.
    redis::cmd("ACL")
        .arg(&["SETUSER", "open", "on", "nopass", "~*", "&*", "+@all"])
        .exec(&mut server.connection())
        .unwrap();
    assert_eq!(admitted(&format!("redis://open:@127.0.0.1:{port}/5")).await, once);
    let wrong = format!("redis://lock:wr0ng@127.0.0.1:{port}");
    misconfigured(RedisStore::open(&wrong).unwrap(), "wr0ng").await;
    misconfigured(FredStore::open(&wrong).unwrap(), "wr0ng").await;
}

/// Asserts that a call can never be done, and that its error does not show the secret.
async fn misconfigured(store: impl Store, secret: &str) {
    let error = Limiter::new(store, limit!("fixed-window 1/h")).try_acquire("id", 1).await;
    let Err(Error::Store(error @ StoreError::Misconfigured(_))) = error else {
        panic!("{error:?}")
    };
    assert!(!error.to_string().contains(secret), "{error}");
}

/// Clients trust the system's authorities, which a variable of the process can replace: so a process of its own
/// asks.
#[tokio::test]
async fn tls_is_spoken_with_a_server_that_is_trusted() {
    let Some(server) = Server::with_tls() else { return };
    let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/certificates/authority.pem");
    let served = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "addresses::served_by_tls", "--ignored", "--nocapture"])
        .env("SSL_CERT_FILE", authority)
        .env("LOCKAGE_TLS_ADDRESS", server.tls_address())
        .output()
        .unwrap();
    assert!(served.status.success(), "{}", String::from_utf8_lossy(&served.stdout));
    // Here no authority vouches for it.
    misconfigured(RedisStore::open(&server.tls_address()).unwrap(), "secret").await;
    misconfigured(FredStore::open(&server.tls_address()).unwrap(), "secret").await;
}

#[tokio::test]
#[ignore = "run by `tls_is_spoken_with_a_server_that_is_trusted`"]
async fn served_by_tls() {
    let address = std::env::var("LOCKAGE_TLS_ADDRESS").expect("the address of a server");
    assert_eq!(admitted(&address).await, [true, false, false]);
}
