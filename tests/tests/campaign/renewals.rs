//! The cost of many held locks for a real server. `--nocapture` prints the figures.

// The documents quote the figures.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use fred::types::config::Config;
use lockage::runtime::Tokio;
use lockage::{LockGuard, Locks, RetryStore, Store};
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

const LOCKS: u32 = 10_000;

/// The time for which a lock is held without a renewal on a machine that has time for these.
const LEASE: Duration = Duration::from_secs(6);

/// The number of locks that measure the speed of calls here.
const FEW: u32 = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_through_redis_rs() {
    let server = Server::start();
    let store = RedisStore::connect(redis::Client::open(server.url()).unwrap());
    many_locks("redis-rs", &server, store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_through_fred() {
    let server = Server::start();
    let store = FredStore::connect(Config::from_url(&server.url()).unwrap());
    many_locks("fred", &server, store).await;
}

/// A lock that is held costs one call in each third of its lease, and calls that are due together share one write
/// of the client. None is lost (L6).
async fn many_locks(name: &str, server: &Server, store: impl Store + Clone + 'static) {
    let store = RetryStore::new(store, Tokio, Duration::from_secs(2));
    let lease = {
        let (few, began) = (Locks::new(store.clone(), LEASE).unwrap(), Instant::now());
        drop(acquire(&few.with_prefix("few").unwrap(), FEW).await);
        // All are renewed in a third of a lease, by as many calls, and take three quarters of that time at most.
        let micros = (began.elapsed() * (LOCKS / FEW) * 4).as_micros();
        LEASE.max(Duration::from_micros(u64::try_from(micros).unwrap()))
    };
    let locks = Locks::new(store, lease).unwrap();
    let guards = acquire(&locks, LOCKS).await;

    let (before, began) = (counts(server), Instant::now());
    tokio::time::sleep(lease / 3 * 4).await;
    let (after, took) = (counts(server), began.elapsed());
    let [calls, reads] = [0, 1].map(|which| after[which] - before[which]);

    let thirds = took.as_secs_f64() / (lease / 3).as_secs_f64();
    println!(
        "{name}: {LOCKS} locks held, in each third of a lease: {:.0} calls in {:.0} reads of the server",
        calls as f64 / thirds,
        reads as f64 / thirds
    );
    // A renewal can be early by a 24th of a lease, so that many go together.
    let shortest = lease / 3 - lease / 24;
    let most = took.as_nanos() / shortest.as_nanos() + 1;
    assert!(u128::from(calls) <= u128::from(LOCKS) * most, "{calls} calls in {took:?}");
    assert!(calls >= u64::from(LOCKS) * 2, "{calls} calls in {took:?}: they are renewed");
    let lost = guards.iter().filter(|guard| guard.time_left().is_err()).count();
    assert_eq!(lost, 0, "of {LOCKS} locks");
}

async fn acquire<S: Store + 'static>(
    locks: &Locks<S, Tokio>,
    count: u32,
) -> Vec<LockGuard<S, Tokio>> {
    let mut guards = Vec::new();
    for first in (0..count).step_by(100) {
        let mut asked = tokio::task::JoinSet::new();
        for number in first..first + 100 {
            let lock = locks.lock(&number.to_string()).unwrap();
            asked.spawn(async move { lock.acquire().await.unwrap() });
        }
        guards.extend(asked.join_all().await);
    }
    guards
}

/// Returns how many scripts were called, and how often the server has read from a connection.
fn counts(server: &Server) -> [u64; 2] {
    let info: String =
        redis::cmd("INFO").arg("everything").query(&mut server.connection()).unwrap();
    let field = |label: &str| -> u64 {
        let (_, rest) = info.split_once(label).unwrap_or_else(|| panic!("no {label} in {info}"));
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    [field("cmdstat_evalsha:calls="), field("total_reads_processed:")]
}
