//! The suite on clusters and under sentinels, for callers that block, and in every runtime.
//!
//! The servers keep their own time here, and the caller's clock decides.

use std::sync::Arc;
use std::time::Duration;

use ::fred::types::config::Config;
use lockage::notifications::Notifications;
use lockage::store::{Clock, Timestamp};
use lockage::testing::Blocking;
use lockage_core::ManualClock;
use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_suite::START_US;
use lockage_tests::server::{Cluster, Sentinels, Server};
use redis::Client;
use redis::cluster::ClusterClientBuilder;
use redis::sentinel::{SentinelClient, SentinelServerType};

use crate::stores;

/// The difference that the caller's clock may have from the server's: much, here.
const SKEW: Duration = Duration::from_secs(3600);

/// Runs the suite on a store that goes by this clock.
async fn run<S: Notifications + 'static>(name: &str, store: impl FnOnce(Arc<dyn Clock>) -> S) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(START_US).unwrap()));
    let store = store(Arc::clone(&clock) as Arc<dyn Clock>);
    let set_us = |now_us| clock.set(Timestamp::from_micros(now_us).unwrap());
    stores::run(name, store, &set_us).await;
}

/// Returns the address of these nodes, with this scheme.
fn address(scheme: &str, urls: &[String], more: &str) -> String {
    let nodes: Vec<&str> = urls.iter().map(|url| url.trim_start_matches("redis://")).collect();
    format!("{scheme}://{}?node={}{more}", nodes[0], nodes[1..].join("&node="))
}

pub(super) fn cluster(all: &Cluster) -> String {
    address("redis-cluster", &all.urls(), "")
}

pub(super) fn sentinels(all: &Sentinels) -> String {
    let service = format!("&sentinelServiceName={}", all.service_name());
    address("redis-sentinel", &all.sentinel_urls(), &service)
}

fn redis(server: &Server) -> Client {
    Client::open(server.url()).unwrap()
}

fn sentinel_client(all: &Sentinels) -> SentinelClient {
    let (urls, name) = (all.sentinel_urls(), all.service_name().to_owned());
    SentinelClient::build(urls, name, None, SentinelServerType::Master).unwrap()
}

#[tokio::test]
async fn redis_rs_cluster_of_six() {
    let all = Cluster::start();
    let store = RedisStore::open(&cluster(&all)).unwrap();
    run("cluster", |clock| store.with_clock(clock, SKEW)).await;
}

#[tokio::test]
async fn redis_rs_sentinel() {
    let all = Sentinels::start();
    let store = RedisStore::open(&sentinels(&all)).unwrap();
    run("sentinel", |clock| store.with_clock(clock, SKEW)).await;
}

fn blocking(store: BlockingRedisStore) -> Blocking<BlockingRedisStore> {
    Blocking::new(store, Duration::from_secs(5))
}

#[test]
fn redis_rs_sync() {
    let server = Server::start();
    let store = BlockingRedisStore::new(redis(&server));
    pollster::block_on(run("sync", |clock| blocking(store.with_clock(clock, SKEW))));
}

#[test]
fn redis_rs_sync_sentinel() {
    let all = Sentinels::start();
    let store = BlockingRedisStore::sentinel(sentinel_client(&all));
    pollster::block_on(run("sync sentinel", |clock| blocking(store.with_clock(clock, SKEW))));
}

#[test]
fn redis_rs_sync_cluster() {
    let all = Cluster::start();
    let store = BlockingRedisStore::open(&cluster(&all)).unwrap();
    pollster::block_on(run("sync cluster", |clock| blocking(store.with_clock(clock, SKEW))));
}

#[tokio::test]
async fn fred_cluster_of_six() {
    let all = Cluster::start();
    let store = FredStore::open(&cluster(&all)).unwrap();
    run("fred cluster", |clock| store.with_clock(clock, SKEW)).await;
}

#[tokio::test]
async fn fred_sentinel() {
    let all = Sentinels::start();
    let store = FredStore::open(&sentinels(&all)).unwrap();
    run("fred sentinel", |clock| store.with_clock(clock, SKEW)).await;
}

#[test]
fn fred_cluster_in_async_std() {
    let all = Cluster::start();
    let store = FredStore::open(&cluster(&all)).unwrap();
    async_std::task::block_on(run("fred cluster", |clock| store.with_clock(clock, SKEW)));
}

#[test]
fn fred_sentinel_in_async_std() {
    let all = Sentinels::start();
    let store = FredStore::open(&sentinels(&all)).unwrap();
    async_std::task::block_on(run("fred sentinel", |clock| store.with_clock(clock, SKEW)));
}

/// Tokio's part is played by `async-compat`.
#[test]
fn fred_in_smol() {
    let server = Server::start();
    let store = FredStore::connect(Config::from_url(&server.url()).unwrap());
    let suite = run("fred in smol", |clock| store.with_clock(clock, SKEW));
    smol::block_on(async_compat::Compat::new(suite));
}

/// Through `smol-comp`, with `tokio-comp` enabled as well.
#[test]
fn redis_rs_in_async_std() {
    let server = Server::start();
    let store = RedisStore::connect(redis(&server));
    async_std::task::block_on(run("async-std", |clock| store.with_clock(clock, SKEW)));
}

#[test]
fn redis_rs_in_smol() {
    let server = Server::start();
    let store = RedisStore::connect(redis(&server));
    smol::block_on(run("smol", |clock| store.with_clock(clock, SKEW)));
}

#[test]
fn redis_rs_cluster_in_async_std() {
    let all = Cluster::start();
    let store = RedisStore::cluster(|| ClusterClientBuilder::new(all.urls())).unwrap();
    async_std::task::block_on(run("cluster", |clock| store.with_clock(clock, SKEW)));
}

#[test]
fn redis_rs_sentinel_in_async_std() {
    let all = Sentinels::start();
    let store = RedisStore::sentinel(sentinel_client(&all));
    async_std::task::block_on(run("sentinel", |clock| store.with_clock(clock, SKEW)));
}
