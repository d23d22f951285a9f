//! Servers that are full, take no writes or no connections for a while, on each client: the answers to callers of
//! limiters and locks, and the fate of held locks.

use std::time::Duration;

use fred::types::config::Config;
use lockage::fenced::{Access, Fenced};
use lockage::limiter::{Cancellation, Renewal, Settlement};
use lockage::locks::{Released, RunOnce};
use lockage::observer::ErrorKind;
use lockage::runtime::Tokio;
use lockage::testing::Blocking;
use lockage::{Limiter, Locks, RetryStore, Store};
use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_tests::faults::states::{self, nothing_is_done};
use lockage_tests::server::Server;
use tokio::task::JoinSet;

const STATES: [states::State; 7] = [
    states::CANNOT_SAVE,
    states::READ_ONLY,
    states::WITHOUT_MASTER,
    states::WITHOUT_REPLICAS,
    states::LOADING,
    states::BUSY,
    states::NO_CONNECTIONS,
];

/// Runs each state at once, each on a server of its own.
async fn in_each_state<S: Store + Clone + 'static>(name: &'static str, store: fn(&Server) -> S) {
    let mut all = JoinSet::new();
    for state in STATES {
        all.spawn(async move {
            let server = Server::start();
            nothing_is_done(name, &server, store(&server), state).await;
        });
    }
    all.join_all().await;
}

fn redis_rs(server: &Server) -> RedisStore {
    RedisStore::connect(redis::Client::open(server.url()).unwrap())
}

fn redis_rs_sync(server: &Server) -> Blocking<BlockingRedisStore> {
    let store = BlockingRedisStore::new(redis::Client::open(server.url()).unwrap());
    Blocking::new(store, Duration::from_secs(5))
}

fn fred(server: &Server) -> FredStore {
    FredStore::connect(Config::from_url(&server.url()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn redis_rs_does_nothing_while_the_server_takes_no_writes() {
    in_each_state("redis-rs", redis_rs).await;
}

/// Each caller blocks a thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 24)]
async fn redis_rs_sync_does_nothing_while_the_server_takes_no_writes() {
    in_each_state("redis-rs, sync", redis_rs_sync).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn fred_does_nothing_while_the_server_takes_no_writes() {
    in_each_state("fred", fred).await;
}

fn set_full(server: &Server, is_full: bool) {
    let bytes = if is_full { "1" } else { "0" };
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("maxmemory")
        .arg(bytes)
        .exec(&mut server.connection())
        .unwrap();
}

/// Shorter than the memory is full here.
const LEASE: Duration = Duration::from_secs(2);

/// Held leases are kept for longer than a lease, and all calls that give something back are done; calls that would
/// take memory are not.
async fn frees_and_keeps<S: Store + Clone + 'static>(server: &Server, store: S) {
    let store = RetryStore::new(store, Tokio, Duration::from_millis(500));
    let limiter = |limit: &str| {
        Limiter::new(store.clone(), limit.parse().unwrap()).with_prefix("limits").unwrap()
    };
    let locks = Locks::new(store.clone(), LEASE).unwrap();
    let once = RunOnce::new(&locks, LEASE * 10).unwrap();
    let fenced = Fenced::new(store.clone(), LEASE * 10).unwrap();
    let latch = locks.latch("latch", LEASE * 10).unwrap();

    // With memory left.
    let lock = locks.lock("lock").unwrap().acquire().await.unwrap();
    let again = locks.lock("lock").unwrap().as_owner(lock.owner()).acquire().await.unwrap();
    let fair = locks.lock("fair").unwrap().fair().acquire().await.unwrap();
    let forced = locks.lock("forced").unwrap().acquire().await.unwrap();
    let permits = locks.semaphore("permits", 3).unwrap().acquire().await.unwrap();
    let read = locks.read_lock("both").unwrap().acquire().await.unwrap();
    let write = locks.write_lock("other").unwrap().acquire().await.unwrap();
    assert!(latch.set(1).await.unwrap());
    let written = fenced.write("value", lock.token(), b"known").await.unwrap();
    assert_eq!(written, Access::Accepted(()));
    let limits = [
        "in-flight 5 lease 20s",
        "token-bucket 5/h",
        "token-bucket 5/h warmup 1h",
        "token-bucket 5 every 1h",
        "calendar-window 5/week",
        "fixed-window 5/h",
        "sliding-window 5/h",
        "sliding-log 5/h",
        "sliding-log 5/h + fixed-window 9/day",
    ];
    let mut reserved = Vec::new();
    for limit in limits {
        let limiter = limiter(limit);
        assert!(limiter.try_acquire(limit, 2).await.unwrap().is_allowed());
        reserved.push(limiter.reserve(limit, 2, LEASE * 10).await.unwrap().reservation.unwrap());
        let blocked = limiter.block(&format!("{limit}, blocked"), LEASE * 10).await.unwrap();
        assert!(blocked.amount > 0, "{limit}");
    }
    let queue = limiter("leaky-bucket 1/h queue 5");
    assert!(queue.take_turn("id", 1).await.unwrap().decision.is_allowed());
    let turn = queue.take_turn("id", 1).await.unwrap().ticket.unwrap();

    set_full(server, true);
    for limit in limits {
        assert_eq!(
            limiter(limit).try_acquire("other", 1).await.unwrap_err().kind(),
            ErrorKind::NotDone
        );
    }
    let refused = locks.lock("other lock").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotDone, "{refused}");
    tokio::time::sleep(LEASE * 2).await;
    for guard in [&lock, &again, &fair, &forced, &permits, &read, &write] {
        assert!(!guard.is_lost());
    }
    for (limit, charged) in limits.iter().zip(reserved) {
        let limiter = limiter(limit);
        let renewed = limiter.renew(limit, &charged, LEASE * 5).await.unwrap();
        assert!(matches!(renewed, Renewal::Renewed(_)), "{limit}: {renewed:?}");
        let settled = limiter.commit(limit, &charged, 1).await.unwrap();
        assert!(matches!(settled, Settlement::Settled { .. }), "{limit}: {settled:?}");
        assert_eq!(limiter.refund(limit, 1).await.unwrap().amount, 1, "{limit}");
        let left = if limit.starts_with("in-flight") { 4 } else { 3 };
        assert_eq!(limiter.peek(limit, 1).await.unwrap().remaining, left, "{limit}");
        assert_eq!(
            limiter.unblock(&format!("{limit}, blocked")).await.unwrap().amount,
            1,
            "{limit}"
        );
        assert!(limiter.reset(limit).await.unwrap(), "{limit}");
    }
    assert_eq!(queue.cancel_turn("id", turn).await.unwrap(), Cancellation::GivenBack);
    assert_eq!(again.release().await.unwrap(), Released::Held(1));
    assert!(locks.lock("forced").unwrap().force_release(forced.token()).await.unwrap());
    for guard in [lock, fair, permits, read, write] {
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
    latch.reset().await.unwrap();
    let removed = fenced.remove("value", u64::MAX >> 12).await.unwrap();
    assert_eq!(removed, Access::Accepted(()));
    assert!(fenced.peek("value").await.unwrap().is_none());
    let not_run = once.run("work", async |_| Ok::<_, std::io::Error>("done".to_owned())).await;
    assert!(not_run.is_err(), "its lock takes memory");

    set_full(server, false);
    assert!(locks.lock("lock").unwrap().try_acquire().await.unwrap().taken().is_some());
    assert!(locks.lock("other lock").unwrap().try_acquire().await.unwrap().taken().is_some());
    locks.close().await;
}

#[tokio::test]
async fn redis_rs_frees_and_keeps_on_a_full_server() {
    let server = Server::start();
    frees_and_keeps(&server, redis_rs(&server)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn redis_rs_sync_frees_and_keeps_on_a_full_server() {
    let server = Server::start();
    frees_and_keeps(&server, redis_rs_sync(&server)).await;
}

#[tokio::test]
async fn fred_frees_and_keeps_on_a_full_server() {
    let server = Server::start();
    frees_and_keeps(&server, fred(&server)).await;
}
