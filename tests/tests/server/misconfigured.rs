//! Refusals that last until someone changes something: one kind of error on each client, at once, with a hint. No
//! fallback admits them, nothing is changed, and calls go on by themselves once the setup is right.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use lockage::locks::Released;
use lockage::observer::ErrorKind;
use lockage::runtime::Tokio;
use lockage::testing::Blocking;
use lockage::{Error, Fallback, Limit, Limiter, Locks, RetryStore, Store, StoreError, limit};
use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_tests::server::{Cluster, Sentinels, Server};

const LIMIT: Limit = limit!("token-bucket 5/h");

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(20);

/// Runs a check on a store of each client at this address. The store's address may be one for all three.
macro_rules! on_each_client {
    ($address:expr, $check:expr) => {{
        let address = $address;
        $check("redis-rs", RedisStore::open(&address).unwrap()).await;
        let store = BlockingRedisStore::open(&address).unwrap();
        $check("redis-rs, sync", Blocking::new(store, LONG)).await;
        $check("fred", FredStore::open(&address).unwrap()).await;
    }};
}

/// Asserts that calls on this id are refused for ever, whatever the fallback and the time that there is, and locks
/// at once.
async fn is_misconfigured<S: Store + Clone + 'static>(
    client: &str,
    store: S,
    id: &str,
    hint: &str,
) {
    let store = RetryStore::new(store, Tokio, LONG);
    let limiter = Limiter::new(store.clone(), LIMIT).with_fallback(Fallback::open()).unwrap();
    let begun = Instant::now();
    // More often than the circuit breaker takes for an absence.
    for _ in 0..4 {
        let error = limiter.try_acquire(id, 1).await.expect_err(&format!("{client}, {hint}"));
        let is_expected = matches!(error, Error::Store(StoreError::Misconfigured(_)));
        assert!(is_expected && error.to_string().contains(hint), "{client}: {error}");
        assert!(!limiter.is_circuit_open(), "{client}");
    }
    let locks = Locks::new(store, LONG * 2).unwrap();
    let error = locks.lock(id).unwrap().acquire().await.expect_err(client);
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{client}: {error}");
    // A call that was tried again would have been so until its timeout.
    assert!(begun.elapsed() < LONG, "{client}: it is tried again");
}

/// Returns how much is left of the limit, by a connection that may do everything.
async fn remaining(server: &Server, id: &str) -> u64 {
    let limiter = Limiter::new(RedisStore::open(&server.url()).unwrap(), LIMIT);
    limiter.peek(id, 1).await.unwrap().remaining
}

fn acl(server: &Server, rules: &[&str]) {
    redis::cmd("ACL").arg("SETUSER").arg(rules).exec(&mut server.connection()).unwrap();
}

fn address(server: &Server, user: &str) -> String {
    server.url().replace("://", &format!("://{user}@"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_one_too_many_and_none() {
    let server = Server::start();
    acl(&server, &["one", "on", ">right", "~*", "&*", "+@all"]);
    let hint = "password";
    on_each_client!(address(&server, "one:wrong"), async |name, store| {
        is_misconfigured(name, store, "id", hint).await;
    });
    on_each_client!(address(&server, "nobody:wrong"), async |name, store| {
        is_misconfigured(name, store, "id", hint).await;
    });
    // Clients that name the user, as by RESP3, are let in: any password of this user is right.
    let store = BlockingRedisStore::open(&address(&server, ":any")).unwrap();
    is_misconfigured("redis-rs, sync", Blocking::new(store, LONG), "id", hint).await;
    acl(&server, &["default", "resetpass", ">secret"]);
    on_each_client!(server.url(), async |name, store| {
        is_misconfigured(name, store, "id", hint).await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_becomes_right_is_enough() {
    let server = Server::start();
    on_each_client!(address(&server, "one:right"), async |name, store| {
        acl(&server, &["one", "reset", "on", ">other", "~*", "&*", "+@all"]);
        let limiter = Limiter::new(store, LIMIT);
        let error = limiter.try_acquire(name, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{name}: {error}");
        acl(&server, &["one", ">right"]);
        assert!(limiter.try_acquire(name, 1).await.unwrap().is_allowed(), "{name}");
        // And is another one again: its connections end.
        redis::cmd("ACL").arg("DELUSER").arg("one").exec(&mut server.connection()).unwrap();
        let deadline = Instant::now() + LONG;
        while limiter.try_acquire(name, 1).await.map_err(|error| error.kind())
            != Err(ErrorKind::Misconfigured)
        {
            assert!(Instant::now() < deadline, "{name}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        acl(&server, &["one", "reset", "on", ">right", "~*", "&*", "+@all"]);
        while limiter.try_acquire(name, 1).await.is_err() {
            assert!(Instant::now() < deadline, "{name}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

/// D12: and nothing is changed.
#[tokio::test(flavor = "multi_thread")]
async fn missing_rights() {
    let server = Server::start();
    // Some for the key and some for the commands, of the call and of the script.
    for rules in [
        &["~other:*", "+@all"][..],
        &["~*", "+@all", "-evalsha"],
        &["~*", "+@all", "-eval", "-evalsha"],
        &["~*", "+@all", "-set"],
        &["~*", "+@all", "-get"],
        &["~*", "+evalsha", "+eval"],
        &["~*"],
    ] {
        acl(&server, &["one", "reset", "on", ">right", "&*"]);
        acl(&server, &[&["one"], rules].concat());
        on_each_client!(address(&server, "one:right"), async |name, store| {
            is_misconfigured(name, store, "id", "grant").await;
        });
        assert_eq!(remaining(&server, "id").await, 5, "{rules:?}");
    }
}

/// A held lock is kept over a time without rights, and released after it.
#[tokio::test(flavor = "multi_thread")]
async fn rights_that_come_back() {
    let server = Server::start();
    on_each_client!(address(&server, "one:right"), async |name, store| {
        acl(&server, &["one", "reset", "on", ">right", "~*", "&*", "+@all"]);
        let lease = Duration::from_secs(4);
        let locks = Locks::new(RetryStore::new(store, Tokio, Duration::from_millis(500)), lease);
        let locks = locks.unwrap();
        let [held, dropped] =
            ["held", "dropped"].map(|id| locks.lock(&format!("{id}, {name}")).unwrap());
        let (guard, other) = (held.acquire().await.unwrap(), dropped.acquire().await.unwrap());
        acl(&server, &["one", "-evalsha", "-eval"]);
        drop(other);
        let error = dropped.try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{name}: {error}");
        tokio::time::sleep(lease / 2).await;
        assert!(!guard.is_lost(), "{name}");
        acl(&server, &["one", "+@all"]);
        tokio::time::sleep(lease).await;
        assert!(!guard.is_lost(), "{name}: it is renewed again");
        assert_eq!(guard.release().await.unwrap(), Released::Free, "{name}");
        assert!(dropped.try_acquire().await.unwrap().taken().is_some(), "{name}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_renamed_or_turned_off() {
    let server = Server::with_file("rename-command EVALSHA \"\"\nrename-command EVAL other\n");
    on_each_client!(server.url(), async |name, store| {
        is_misconfigured(name, store, "id", "Redis 6.2").await;
    });
    let server = Server::with_file("rename-command SET \"\"\n");
    on_each_client!(server.url(), async |name, store| {
        is_misconfigured(name, store, "id", "Redis 6.2").await;
    });
}

/// A node of a cluster has some of the ids; the others are of no use there.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_by_the_address_of_one_server_and_the_reverse() {
    let cluster = Cluster::start();
    let own = |id: &&String| cluster.master_of(&format!("lockage:{{{id}}}")) == 0;
    let ids: Vec<String> = (0..100).map(|number| format!("id{number}")).collect();
    let (own, other) = (ids.iter().find(own).unwrap(), ids.iter().find(|id| !own(id)).unwrap());
    let url = cluster.nodes()[0].url();
    on_each_client!(url.clone(), async |name, store| {
        is_misconfigured(name, store, other, "redis-cluster://").await;
    });
    on_each_client!(url.clone(), async |name, store: _| {
        let limiter = Limiter::new(store, LIMIT);
        assert!(limiter.try_acquire(own, 1).await.unwrap().is_allowed(), "{name}");
    });
    on_each_client!(format!("{url}/1"), async |name, store| {
        is_misconfigured(name, store, own, "database").await;
    });
    // The blocking client keeps the server's words to itself.
    let server = Server::start();
    let address = server.url().replace("redis:", "redis-cluster:");
    is_misconfigured("redis-rs", RedisStore::open(&address).unwrap(), "id", "redis://").await;
    is_misconfigured("fred", FredStore::open(&address).unwrap(), "id", "redis://").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_none() {
    let server = Server::start();
    on_each_client!(format!("{}/99", server.url()), async |name, store| {
        is_misconfigured(name, store, "id", "database").await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_another_protocol() {
    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = http.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in http.incoming() {
            let mut connection = connection.unwrap();
            // It may end before it is answered.
            _ = connection.read(&mut [0; 1024]);
            _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    on_each_client!(format!("redis://127.0.0.1:{port}"), async |name, store| {
        is_misconfigured(name, store, "id", "no Redis server answers").await;
    });
}

/// With TLS on one side only, a server is silent or resets the connection, as one that is away may: nothing was sent.
/// It is misconfigured where the client shows more.
#[tokio::test(flavor = "multi_thread")]
async fn tls_on_one_side_only() {
    let without = Server::start();
    let with = Server::with_tls();
    let mut addresses = vec![without.url().replace("redis:", "rediss:")];
    addresses.extend(with.iter().map(|with| with.tls_address().replace("rediss:", "redis:")));
    for address in &addresses {
        on_each_client!(address, async |name, store| {
            let store = RetryStore::new(store, Tokio, Duration::from_millis(1500));
            let begun = Instant::now();
            let error = Limiter::new(store, LIMIT).try_acquire("id", 1).await.expect_err(name);
            let kinds = [ErrorKind::NotDone, ErrorKind::Misconfigured];
            assert!(kinds.contains(&error.kind()), "{name}: {address}: {error}");
            assert!(begun.elapsed() < LONG, "{name}: {address}");
        });
    }
    assert_eq!(without.executions(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_in_the_place_of_a_server_and_the_wrong_password_for_them() {
    let sentinels = Sentinels::start();
    let url = sentinels.sentinel_urls().remove(0);
    on_each_client!(url.clone(), async |name, store| {
        is_misconfigured(name, store, "id", "sentinel").await;
    });
    let url = url.replace("redis:", "redis-sentinel:");
    let url = format!("{url}?sentinelServiceName={}", sentinels.service_name());
    let wrong = format!("{url}&sentinelUsername=nobody&sentinelPassword=wrong");
    on_each_client!(wrong, async |name, store| {
        is_misconfigured(name, store, "id", "the sentinels: ").await;
    });
    let wrong = url.replace("://", "://nobody:wrong@");
    on_each_client!(wrong, async |name, store| {
        is_misconfigured(name, store, "id", "the master: ").await;
    });
    // Connections that are there stay logged in.
    acl(&sentinels.nodes()[0], &["default", "resetpass", ">secret"]);
    on_each_client!(url.clone(), async |name, store| {
        is_misconfigured(name, store, "id", "the master: ").await;
    });
    let sentinel = redis::Client::open(sentinels.sentinel_urls().remove(0)).unwrap();
    redis::cmd("ACL")
        .arg(&["SETUSER", "default", "resetpass", ">other"])
        .exec(&mut sentinel.get_connection().unwrap())
        .unwrap();
    on_each_client!(url.clone(), async |name, store| {
        is_misconfigured(name, store, "id", "sentinelPassword").await;
    });
    let right = format!("{}&sentinelPassword=other", url.replace("://", "://:secret@"));
    on_each_client!(right, async |name, store| {
        let decision = Limiter::new(store, LIMIT).try_acquire(name, 1).await;
        assert!(decision.unwrap().is_allowed(), "{name}");
    });
}
