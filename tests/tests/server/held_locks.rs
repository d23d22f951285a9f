//! Locks that are held on real servers, through both clients.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fred::types::config::Config;
use lockage::locks::{Loss, Quorum, Released};
use lockage::runtime::Tokio;
use lockage::{Locks, RetryStore, Store};
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::{Proxy, Server};
use redis::AsyncCommands;

const SECOND: Duration = Duration::from_secs(1);

fn redis_rs(server: &Server) -> RedisStore {
    RedisStore::connect(redis::Client::open(server.url()).unwrap())
}

fn fred(server: &Server) -> FredStore {
    FredStore::connect(Config::from_url(&server.url()).unwrap())
}

fn locks<S: Store + 'static>(store: S, lease: Duration) -> Locks<S, Tokio> {
    Locks::new(RetryStore::new(store, Tokio, SECOND), lease).unwrap()
}

/// An uncontended hold costs the server two calls.
#[tokio::test]
async fn an_uncontended_hold_is_two_calls() {
    let server = Server::start();
    two_calls(&server, redis_rs(&server)).await;
    two_calls(&server, fred(&server)).await;
}

async fn two_calls(server: &Server, store: impl Store + 'static) {
    let lock = locks(store, SECOND * 30).lock("one").unwrap();
    // The server learns the scripts.
    lock.acquire().await.unwrap().release().await.unwrap();
    let mut monitor = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    monitor.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(monitor).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "+OK");
    lock.acquire().await.unwrap().release().await.unwrap();
    redis::cmd("ECHO").arg("end").exec(&mut server.connection()).unwrap();
    let lines: Vec<String> = lines.take_while(|line| !line.contains("\"end\"")).collect();
    assert!(!lines.iter().any(|line| line.contains("PUBLISH")), "{lines:?}");
    let calls =
        lines.iter().filter(|line| !line.contains(" lua] ") && !line.contains("\"CLIENT\""));
    let calls: Vec<_> = calls.collect();
    // Without a waiter, nothing is published.
    assert!(calls.len() == 2 && calls.iter().all(|line| line.contains("\"EVALSHA\"")), "{calls:?}");
}

/// L1: an update that is guarded by the lock is never lost, whichever client it goes through. The waiters are
/// notified when it is free: by polling alone, once in ten seconds, they would take far too long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_guarded_update_is_lost() {
    const TASKS: u64 = 8;
    const UPDATES: u64 = 20;
    let server = Server::start();
    let start = Instant::now();
    let (one, other) = (redis_rs(&server), fred(&server));
    let one = locks(one, SECOND * 30).with_wake_ups().with_poll(SECOND * 10);
    let other = locks(other, SECOND * 30).with_wake_ups().with_poll(SECOND * 10);
    let tasks: Vec<_> = (0..TASKS)
        .flat_map(|_| {
            [
                tokio::spawn(count(server.url(), one.clone(), UPDATES)),
                tokio::spawn(count(server.url(), other.clone(), UPDATES)),
            ]
        })
        .collect();
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.extend(task.await.unwrap());
    }
    let counted: u64 = redis::cmd("GET").arg("counter").query(&mut server.connection()).unwrap();
    assert_eq!(counted, TASKS * 2 * UPDATES);
    assert!(start.elapsed() < SECOND * 60, "{:?}: wake-ups are lost", start.elapsed());
    // L5: in the order of the counts that they guarded, the tokens grow.
    tokens.sort();
    assert!(tokens.is_sorted_by(|(_, one), (_, next)| one < next), "{tokens:?}");
}

/// Adds to a counter, each time under the lock, in two steps: each count with the token it was under.
async fn count<S: Store + 'static>(
    url: String,
    locks: Locks<S, Tokio>,
    updates: u64,
) -> Vec<(u64, u64)> {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let lock = locks.lock("counter").unwrap();
    let mut tokens = Vec::new();
    for _ in 0..updates {
        let guard = lock.acquire().await.unwrap();
        let update = async {
            let count: Option<u64> = connection.get("counter").await.unwrap();
            tokio::task::yield_now().await;
            let next = count.unwrap_or_default() + 1;
            let _: () = connection.set("counter", next).await.unwrap();
            next
        };
        tokens.push((guard.run(update).await.expect("it is renewed"), guard.token()));
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
    tokens
}

/// A server that is silent for longer than the lease costs the holder its lock, and it knows in time.
#[tokio::test]
async fn a_silent_server_costs_the_lock() {
    let server = Server::start();
    let lock = locks(redis_rs(&server), SECOND * 2).lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    server.freeze();
    assert_eq!(guard.lost().await, Loss::Expired);
    server.thaw();
    drop(guard);
    let other = lock.acquire().await.unwrap();
    assert_eq!(other.release().await.unwrap(), Released::Free);
}

/// A server that has lost its keys does not know of the lock any more, and the holder learns of it.
#[tokio::test]
async fn a_server_that_forgets_costs_the_lock() {
    let mut server = Server::start();
    let lock = locks(fred(&server), SECOND * 3).lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    server.restart();
    assert_eq!(guard.lost().await, Loss::Refused(None));
    assert_eq!(guard.release().await.unwrap(), Released::NotHeld(None));
}

/// A lock that most of three servers have granted outlasts the death of one of them, and keeps others out.
#[tokio::test]
async fn a_majority_outlasts_a_server() {
    let mut servers = [(); 3].map(|()| Server::start());
    majority(&mut servers, redis_rs).await;
    majority(&mut servers, fred).await;
}

async fn majority<S: Store + 'static>(servers: &mut [Server; 3], connect: fn(&Server) -> S) {
    let quorum = || {
        let timed = |server| RetryStore::new(connect(server), Tokio, SECOND / 4);
        let locks = servers.iter().map(|server| Locks::new(timed(server), SECOND * 2).unwrap());
        Quorum::new(locks.collect()).unwrap().lock("one").unwrap()
    };
    let (one, other) = (quorum(), quorum());
    let guard = one.acquire().await.unwrap();
    servers[1].kill();
    assert!(guard.run(tokio::time::sleep(SECOND * 4)).await.is_ok());
    assert!(other.acquire_within(SECOND).await.unwrap().taken().is_none());
    assert!(guard.release().await >= 2);
    let guard = other.acquire().await.unwrap();
    assert_eq!((guard.granted(), guard.release().await), (2, 2));
    servers[1].restart();
}

/// L1, L2: permits and the sides of a read-write lock are held and renewed on a real server as in memory.
#[tokio::test]
async fn the_family_is_held() {
    let server = Server::start();
    family(redis_rs(&server)).await;
    family(fred(&server)).await;
}

async fn family(store: impl Store + 'static) {
    let locks = locks(store, SECOND * 2);
    let semaphore = locks.semaphore("permits", 2).unwrap();
    let (one, two) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    let (read, write) = (locks.read_lock("sides").unwrap(), locks.write_lock("sides").unwrap());
    let readers = (read.acquire().await.unwrap(), read.acquire().await.unwrap());
    tokio::time::sleep(SECOND * 3).await;
    assert!(semaphore.try_acquire().await.unwrap().taken().is_none());
    assert!(write.try_acquire().await.unwrap().taken().is_none());
    for guard in [one, two, readers.0, readers.1] {
        assert!(guard.time_left().is_ok());
        assert!(matches!(guard.release().await.unwrap(), Released::Free));
    }
    drop((semaphore.acquire().await.unwrap(), write.acquire().await.unwrap()));
}

/// L8: a dropped guard gives back its lock, long before its lease ends.
#[tokio::test]
async fn a_dropped_guard_gives_back() {
    let server = Server::start();
    let hours = SECOND * 7200;
    let (one, other) = (locks(redis_rs(&server), hours), locks(fred(&server), hours));
    given_back(&one, &other).await;
    given_back(&other, &one).await;
}

async fn given_back(
    held: &Locks<impl Store + 'static, Tokio>,
    wanted: &Locks<impl Store + 'static, Tokio>,
) {
    drop([
        held.lock("one").unwrap().acquire().await.unwrap(),
        held.semaphore("permits", 1).unwrap().acquire().await.unwrap(),
        held.write_lock("sides").unwrap().acquire().await.unwrap(),
    ]);
    let taken = [
        wanted.lock("one").unwrap().acquire_within(SECOND * 20).await,
        wanted.semaphore("permits", 1).unwrap().acquire_within(SECOND * 20).await,
        wanted.write_lock("sides").unwrap().acquire_within(SECOND * 20).await,
    ];
    for taken in taken {
        let guard = taken.unwrap().taken().expect("it was given back");
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
}

/// A reconnect while a lock is held changes nothing: it is still its owner's, by the same grant (rslock deleted its own
/// valid lock then).
#[tokio::test]
async fn a_reconnect_keeps_the_lock() {
    let server = Server::start();
    let (one, other) = (Proxy::start(server.port()), Proxy::start(server.port()));
    let through = |proxy: &Proxy| Config::from_url(&proxy.url()).unwrap();
    reconnects(&one, &server, RedisStore::connect(redis::Client::open(one.url()).unwrap())).await;
    reconnects(&other, &server, FredStore::connect(through(&other))).await;
}

async fn reconnects(proxy: &Proxy, server: &Server, store: impl Store + 'static) {
    let lock = locks(store, SECOND * 3).lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    for _ in 0..8 {
        proxy.disconnect();
        assert!(guard.run(tokio::time::sleep(SECOND / 2)).await.is_ok());
        // Asked by another connection.
        let other = locks(redis_rs(server), SECOND * 2).lock("one").unwrap();
        let holder = other.inspect().await.unwrap().holder.expect("it is held");
        assert_eq!((holder.owner, holder.hold.token), (guard.owner(), guard.token()));
    }
    assert_eq!(guard.release().await.unwrap(), Released::Free);
}

/// D9: an acquire whose answer is lost leaves a key that expires, and a lock without a holder (redis-py left one for
/// ever).
#[tokio::test]
async fn a_lost_answer_leaves_nothing_for_ever() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let store = RedisStore::connect(redis::Client::open(proxy.url()).unwrap());
    let locks = locks(store, SECOND * 30);
    // The server learns the scripts.
    locks.lock("two").unwrap().acquire().await.unwrap().release().await.unwrap();
    proxy.swallow_replies(u64::MAX);
    let lock = locks.lock("one").unwrap();
    lock.acquire().await.unwrap_err();
    let ttl: i64 = redis::cmd("PTTL").arg("lock:{one}").query(&mut server.connection()).unwrap();
    assert!(ttl > 0 && ttl <= 60_000, "{ttl}");
    proxy.swallow_replies(0);
    proxy.disconnect();
    let other = Locks::new(RetryStore::new(fred(&server), Tokio, SECOND), SECOND * 2).unwrap();
    let other = other.lock("one").unwrap();
    let guard = other.acquire_within(SECOND * 15).await.unwrap().taken();
    drop(guard.expect("it is given back long before its lease ends"));
}
