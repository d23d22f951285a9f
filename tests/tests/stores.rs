//! The suite on every store.

use std::sync::Arc;
use std::time::Duration;

use lockage::{Clock, Store};
use lockage_core::{ManualClock, Timestamp};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::{Server, VirtualClock};
use lockage_tests::suite::simulated::Simulated;
use lockage_tests::suite::{Bench, START_US};
use redis::Client;

fn manual_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_micros(START_US).unwrap()))
}

fn set(clock: &ManualClock, now_us: u64) {
    clock.set(Timestamp::from_micros(now_us).unwrap());
}

async fn run<S: Store + Clone>(name: &str, store: S, set_us: &dyn Fn(u64)) {
    Bench { name, store, set_us }.run().await;
}

#[tokio::test]
async fn memory() {
    let clock = manual_clock();
    run("memory", MemoryStore::with_clock(Arc::clone(&clock)), &|now| set(&clock, now)).await;
}

#[tokio::test]
async fn simulated_store() {
    let store = Simulated::start();
    run("simulated", store.clone(), &|now| store.set_us(now)).await;
}

#[tokio::test]
async fn redis_rs_multiplexed() {
    let clock = VirtualClock::new(START_US);
    let server = Server::with_clock(&clock);
    let client = Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    run("multiplexed", RedisStore::new(connection), &|now| clock.set(now)).await;
}

#[tokio::test]
async fn redis_rs_manager_over_a_unix_socket() {
    let clock = VirtualClock::new(START_US);
    let server = Server::with_clock(&clock);
    let client = Client::open(server.unix_url()).unwrap();
    let connection = client.get_connection_manager().await.unwrap();
    run("manager", RedisStore::new(connection), &|now| clock.set(now)).await;
}

#[tokio::test]
async fn redis_rs_cluster() {
    let clock = VirtualClock::new(START_US);
    let server = Server::cluster_of_one(&clock);
    let client =
        redis::cluster::ClusterClientBuilder::new([server.url()]).retries(0).build().unwrap();
    let connection = client.get_async_connection().await.unwrap();
    run("cluster", RedisStore::new(connection), &|now| clock.set(now)).await;
}

/// The caller's clock decides; the server goes by its own, which is off by a year.
#[tokio::test]
async fn redis_rs_with_the_callers_clock() {
    let server = Server::start();
    let client = Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let clock = manual_clock();
    let injected: Arc<dyn Clock> = Arc::clone(&clock) as _;
    let store = RedisStore::new(connection).with_clock(injected, Duration::from_secs(3600));
    run("callers clock", store, &|now| set(&clock, now)).await;
}
