//! The laws, and the faults, on each way to a store: the tests that an adapter's author runs.

use std::sync::Arc;
use std::time::Duration;

use ::fred::types::config::Config;
use lockage::runtime::{AsyncStd, Runtime, Smol, Tokio};
use lockage::store::{Clock, Timestamp};
use lockage::testing::Blocking;
use lockage::testing::FailingStore;
use lockage::{AnyStore, Store};
use lockage_core::ManualClock;
use lockage_fred::FredStore;
use lockage_memory::MemoryStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_suite::{Bench, Faults, OwnClock, Proxy, START_US};
use lockage_tests::server::Server;
use redis::Client;

use crate::pools;

/// Puts the laws to a store that goes by this clock.
async fn laws<S: Store>(name: &str, store: impl FnOnce(Arc<ManualClock>) -> S) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(START_US).unwrap()));
    let store = store(Arc::clone(&clock));
    let set_us = |now_us| clock.set(Timestamp::from_micros(now_us).unwrap());
    Bench { name, store, set_us: &set_us }.laws().await;
}

/// The difference that the caller's clock may have from the server's.
const SKEW: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_laws_hold_in_memory() {
    laws("memory", MemoryStore::with_clock).await;
}

#[tokio::test]
async fn the_laws_hold_on_a_store_chosen_at_run_time() {
    laws("any", |clock| AnyStore::new(MemoryStore::with_clock(clock))).await;
}

#[tokio::test]
async fn the_laws_hold_on_redis_rs() {
    let server = Server::start();
    let store = RedisStore::connect(client(&server.url()));
    laws("redis-rs", |clock| store.with_clock(clock as Arc<dyn Clock>, SKEW)).await;
}

#[tokio::test]
async fn the_laws_hold_on_fred() {
    let server = Server::start();
    let store = FredStore::connect(config(&server.url()));
    laws("fred", |clock| store.with_clock(clock as Arc<dyn Clock>, SKEW)).await;
}

/// Runs the faults, and the tests by a server's own clock, on a store.
async fn faults<S: Store + Clone>(name: &str, store: S, proxy: &Proxy, runtime: impl Runtime) {
    OwnClock { name, store: store.clone() }.run().await;
    Faults { name, store, injector: proxy, runtime }.run().await;
}

fn start() -> (Server, Proxy) {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    (server, proxy)
}

#[tokio::test(start_paused = true)]
async fn faults_in_memory() {
    OwnClock { name: "memory", store: MemoryStore::new() }.run().await;
    let store = FailingStore::new(MemoryStore::new());
    let injector = store.clone();
    Faults { name: "memory", store, injector: &injector, runtime: Tokio }.run().await;
}

#[tokio::test]
async fn faults_of_redis_rs() {
    let (_server, proxy) = start();
    faults("redis-rs", RedisStore::connect(client(&proxy.url())), &proxy, Tokio).await;
}

#[tokio::test]
async fn faults_of_redis_rs_sync() {
    let (_server, proxy) = start();
    let store = BlockingRedisStore::new(client(&proxy.url()));
    let store = Blocking::new(store, Duration::from_secs(5));
    faults("sync", store, &proxy, Tokio).await;
}

#[test]
fn faults_of_redis_rs_in_async_std() {
    let (_server, proxy) = start();
    let store = RedisStore::connect(client(&proxy.url()));
    async_std::task::block_on(faults("async-std", store, &proxy, AsyncStd));
}

#[test]
fn faults_of_redis_rs_in_smol() {
    let (_server, proxy) = start();
    let store = RedisStore::connect(client(&proxy.url()));
    smol::block_on(faults("smol", store, &proxy, Smol));
}

#[tokio::test]
async fn faults_of_a_pool_of_deadpool() {
    let (_server, proxy) = start();
    faults("deadpool", RedisStore::new(pools::deadpool(&proxy.url())), &proxy, Tokio).await;
}

#[tokio::test]
async fn faults_of_a_pool_of_bb8() {
    let (_server, proxy) = start();
    faults("bb8", RedisStore::new(pools::bb8(&proxy.url()).await), &proxy, Tokio).await;
}

#[tokio::test]
async fn faults_of_fred() {
    let (_server, proxy) = start();
    faults("fred", FredStore::connect(config(&proxy.url())), &proxy, Tokio).await;
}

fn client(url: &str) -> Client {
    Client::open(url).unwrap()
}

fn config(url: &str) -> Config {
    Config::from_url(url).unwrap()
}
