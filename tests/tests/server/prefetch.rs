//! Many tasks on one id, on every client of a real server and in memory: all that is admitted was charged, and the
//! statistics report the rest of the charges as held or wasted.

use std::time::Duration;

use fred::types::config::Config;
use lockage::limiter::Prefetch;
use lockage::runtime::Tokio;
use lockage::{Limiter, RetryStore, Store};
use lockage_fred::FredStore;
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

const NODES: u64 = 3;
const TASKS: u64 = 20;
const REQUESTS: u64 = 50;
/// Some are denied.
const CAPACITY: u64 = NODES * TASKS * REQUESTS * 9 / 10;
/// More than the tests take.
const LEASE: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_rs() {
    let server = Server::start();
    adds_up(RedisStore::connect(redis::Client::open(server.url()).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fred() {
    let server = Server::start();
    adds_up(FredStore::connect(Config::from_url(&server.url()).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory() {
    adds_up(MemoryStore::new()).await;
}

async fn adds_up<S: Store + Clone + 'static>(store: S) {
    for limit in [
        format!("fixed-window {CAPACITY}/day"),
        format!("sliding-log {CAPACITY}/day"),
        format!("token-bucket 1/day burst {CAPACITY}"),
    ] {
        let node = |_| {
            let store = RetryStore::new(store.clone(), Tokio, Duration::from_secs(60));
            let limiter = Limiter::new(store, limit.parse().unwrap());
            let limiter = limiter.with_prefix(limit.split(' ').next().unwrap()).unwrap();
            limiter.with_prefetch(Prefetch::new(30, LEASE)).unwrap()
        };
        let nodes: Vec<_> = (0..NODES).map(node).collect();
        let tasks = nodes.iter().flat_map(|node| (0..TASKS).map(|_| node.clone()));
        let tasks: Vec<_> = tasks.map(|node| tokio::spawn(admitted(node))).collect();
        let mut total = 0;
        for task in tasks {
            total += task.await.unwrap();
        }
        let told: Vec<_> = nodes.iter().map(|node| node.prefetch_stats().unwrap()).collect();
        let held: u64 = told.iter().map(|told| told.granted - told.spent).sum();
        let used = CAPACITY - nodes[0].peek("id", 0).await.unwrap().remaining;
        assert_eq!(used, total + held, "{limit}: {told:?}");
        assert!(held <= NODES * 30 && total >= CAPACITY - NODES * 30, "{total} of {told:?}");
        assert!(told.iter().all(|told| told.lost == 0), "{limit}: {told:?}");
        assert!(told.iter().map(|told| told.hits).sum::<u64>() > 100, "{limit}: {told:?}");
    }
}

async fn admitted<S: Store>(limiter: Limiter<RetryStore<S, Tokio>>) -> u64 {
    let mut admitted = 0;
    for request in 0..REQUESTS {
        let cost = 1 + request % 2;
        let decision = limiter.try_acquire("id", cost).await.expect("the server is up");
        admitted += if decision.is_allowed() { cost } else { 0 };
    }
    admitted
}
