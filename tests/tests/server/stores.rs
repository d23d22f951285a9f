//! The suite on every store.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Pool;
use fred::interfaces::ClientLike;
use fred::types::Builder;
use fred::types::config::{Config, ReconnectPolicy};
use lockage::notifications::Notifications;
use lockage::store::Clock;
use lockage::{AnyStore, Error, Limit, Limiter, StoreError};
use lockage_core::{ManualClock, Timestamp};
use lockage_fred::FredStore;
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_suite::{Bench, START_US};
use lockage_tests::server::{Server, VirtualClock};
use lockage_tests::simulated::Simulated;
use redis::Client;
use redis::cluster::ClusterClientBuilder;

fn manual_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at(Timestamp::from_micros(START_US).unwrap()))
}

fn set(clock: &ManualClock, now_us: u64) {
    clock.set(Timestamp::from_micros(now_us).unwrap());
}

/// Runs the suite on this store without its type: it is compiled once, not once for each store.
pub(super) async fn run(name: &str, store: impl Notifications + 'static, set_us: &dyn Fn(u64)) {
    Bench { name, store: AnyStore::new(store), set_us }.run().await;
}

#[tokio::test]
async fn memory() {
    let clock = manual_clock();
    let store = MemoryStore::with_clock(Arc::clone(&clock));
    Bench { name: "memory", store, set_us: &|now| set(&clock, now) }.run().await;
}

#[tokio::test]
async fn a_store_chosen_at_run_time() {
    let clock = manual_clock();
    let memory = MemoryStore::with_clock(Arc::clone(&clock));
    run("any store", memory, &|now| set(&clock, now)).await;
}

#[tokio::test]
async fn simulated_store() {
    let store = Simulated::start();
    run("simulated", store.store(), &|now| store.set_us(now)).await;
}

/// D18, with seeds of the day: a failure names its own.
#[tokio::test]
async fn several_keys_in_one_decision() {
    let first = u64::from(fastrand::u32(..));
    let clock = manual_clock();
    let store = MemoryStore::with_clock(Arc::clone(&clock));
    let bench = Bench { name: "memory", store, set_us: &|now| set(&clock, now) };
    bench.several_keys(first..first + 300).await;
    let simulated = Simulated::start();
    let set_us = |now| simulated.set_us(now);
    let bench = Bench { name: "simulated", store: simulated.store(), set_us: &set_us };
    bench.several_keys(first..first + 50).await;
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let store = RedisStore::connect(Client::open(server.url()).unwrap());
    let bench = Bench { name: "redis", store, set_us: &|now| clock.set(now) };
    bench.several_keys(first..first + 50).await;
}

/// D12, D18: a full server refuses requests on several keys before any of them is charged.
#[tokio::test]
async fn several_keys_on_a_full_server() {
    let limits = ["fixed-window 5/d", "sliding-log 5/d", "token-bucket 5/d + fixed-window 5/d"];
    let limits = limits.map(|limit| limit.replace("/d", "/day").parse::<Limit>().unwrap());
    for (at, limit) in limits.iter().enumerate() {
        let simulated = Simulated::start();
        simulated.set_us(START_US);
        let first = Limiter::new(simulated.store(), *limit);
        let second = first.under(limits[(at + 1) % limits.len()]);
        // Without records, with one, and with both.
        for used in [[0, 0], [0, 1], [1, 2]] {
            for (limiter, id, used) in [(&first, "a", used[0]), (&second, "b", used[1])] {
                limiter.reset(id).await.unwrap();
                for _ in 0..used {
                    assert!(limiter.try_acquire(id, 1).await.unwrap().is_allowed());
                }
            }
            let requests = [first.request("a", 1), second.request("b", 1)];
            simulated.set_full(true);
            let refused = first.try_acquire_all(&requests).await;
            assert!(matches!(refused, Err(Error::Store(StoreError::NotDone(_)))), "{refused:?}");
            simulated.set_full(false);
            assert_eq!(first.peek("a", 0).await.unwrap().remaining, 5 - used[0]);
            assert_eq!(second.peek("b", 0).await.unwrap().remaining, 5 - used[1]);
            assert!(first.try_acquire_all(&requests).await.unwrap().is_allowed());
        }
    }
}

#[tokio::test]
async fn redis_rs_multiplexed() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let client = Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    run("multiplexed", RedisStore::new(connection), &|now| clock.set(now)).await;
}

#[tokio::test]
async fn redis_rs_manager_over_a_unix_socket() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let client = Client::open(server.unix_url()).unwrap();
    let connection = client.get_connection_manager().await.unwrap();
    run("manager", RedisStore::new(connection), &|now| clock.set(now)).await;
}

#[tokio::test]
async fn redis_rs_cluster() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::cluster_of_one(&clock) else { return };
    let store = RedisStore::cluster(|| ClusterClientBuilder::new([server.url()])).unwrap();
    run("cluster", store, &|now| clock.set(now)).await;
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

fn fred_config(url: &str) -> Config {
    Config::from_url(url).unwrap()
}

#[tokio::test]
async fn fred_client() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let client = Builder::from_config(fred_config(&server.url()))
        .set_policy(ReconnectPolicy::default())
        .build()
        .unwrap();
    client.init().await.unwrap();
    run("fred client", FredStore::new(client), &|now| clock.set(now)).await;
}

#[tokio::test]
async fn fred_over_a_unix_socket() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let store = FredStore::connect(fred_config(&server.unix_url()));
    run("fred by itself", store, &|now| clock.set(now)).await;
}

#[tokio::test]
async fn fred_pool() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let pool =
        Pool::new(fred_config(&server.url()), None, None, Some(ReconnectPolicy::default()), 3)
            .unwrap();
    pool.init().await.unwrap();
    run("fred pool", FredStore::new(pool), &|now| clock.set(now)).await;
}

#[tokio::test]
async fn fred_cluster_of_one() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::cluster_of_one(&clock) else { return };
    let url = server.url().replace("redis://", "redis-cluster://");
    let store = FredStore::connect(fred_config(&url));
    run("fred cluster", store, &|now| clock.set(now)).await;
}

/// The client runs on tokio, which async-std brings with it by its feature `tokio1`.
#[test]
fn fred_under_async_std() {
    async_std::task::block_on(async {
        let clock = VirtualClock::new(START_US);
        let Some(server) = Server::with_clock(&clock) else { return };
        let store = FredStore::connect(fred_config(&server.url()));
        run("fred under async-std", store, &|now| clock.set(now)).await;
    });
}
