//! Clusters and sentinels: slots that move, masters that end, nodes that are silent.

use fred::types::config::Config;
use lockage::notifications::{Notification, Notifications, Wake};
use lockage_fred::FredStore;
use lockage_lua::SHARDED_CHANNELS;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::{Cluster, Sentinels};
use redis::cluster::ClusterClientBuilder;
use redis::sentinel::{SentinelClient, SentinelServerType};

use super::{
    heard, key, listening_on_a_silent_server_fails_in_time, publish, signal, subscribers, told,
    until,
};

/// A slot that moves, a failover and a master's end cost some messages, and then they arrive again.
async fn messages_arrive_in_a_cluster(
    all: &mut Cluster,
    store: impl Notifications,
    hears_that_a_slot_leaves: bool,
) {
    let key = key("a");
    let name = key.as_str();
    let mut listener = store.listen(&key, Wake::One).await.unwrap();
    let mut connection = all.connection(all.master_of(name));
    publish(&mut connection, &key);
    assert_eq!(signal(&mut listener).await, Notification::Message);

    let to = (all.master_of(name) + 1) % 3;
    all.begin_migration(name, to);
    all.end_migration(name);
    let mut connection = all.connection(to);
    let sharded: bool =
        redis::cmd("EVAL").arg(SHARDED_CHANNELS).arg(0).query(&mut connection).unwrap();
    if hears_that_a_slot_leaves && sharded {
        assert_eq!(told(&mut listener).await, Notification::Lost);
    }
    heard(&mut listener, || publish(&mut connection, &key)).await;

    all.fail_over(name);
    let mut connection = all.connection(all.master_of(name));
    heard(&mut listener, || publish(&mut connection, &key)).await;

    let master = all.master_of(name);
    all.kill(master);
    all.wait_for_failover_of(master);
    let mut connection = all.connection(all.master_of(name));
    heard(&mut listener, || publish(&mut connection, &key)).await;

    drop(listener);
    until("it unsubscribes", || subscribers(&mut connection, &key) == 0).await;
}

/// A silent node holds up no caller that listens there for the first time.
async fn a_silent_node_blocks_no_caller(all: &mut Cluster, store: impl Notifications) {
    let key = key("a");
    let master = all.master_of(key.as_str());
    let other = (0..100).map(|id| self::key(&id.to_string()));
    let other = other.into_iter().find(|other| all.master_of(other.as_str()) != master).unwrap();
    let listener = store.listen(&key, Wake::One).await.unwrap();
    all.freeze(all.master_of(other.as_str()));
    listening_on_a_silent_server_fails_in_time(&store, &other).await;
    drop(listener);
}

#[tokio::test]
async fn a_silent_node_blocks_no_caller_through_redis_rs() {
    let mut all = Cluster::start();
    let store = RedisStore::cluster(|| ClusterClientBuilder::new(all.urls())).unwrap();
    a_silent_node_blocks_no_caller(&mut all, store).await;
}

#[tokio::test]
async fn messages_arrive_in_a_cluster_through_redis_rs() {
    let mut all = Cluster::start();
    let store = RedisStore::cluster(|| ClusterClientBuilder::new(all.urls())).unwrap();
    messages_arrive_in_a_cluster(&mut all, store, true).await;
}

#[tokio::test]
async fn messages_arrive_in_a_cluster_through_fred() {
    let mut all = Cluster::start();
    let urls = all.urls();
    let nodes: Vec<&str> = urls.iter().map(|url| url.trim_start_matches("redis://")).collect();
    let url = format!("redis-cluster://{}?node={}", nodes[0], nodes[1..].join("&node="));
    let store = FredStore::connect(Config::from_url(&url).unwrap());
    messages_arrive_in_a_cluster(&mut all, store, false).await;
}

async fn messages_arrive_under_sentinels(all: &mut Sentinels, store: impl Notifications) {
    let key = key("a");
    let mut listener = store.listen(&key, Wake::One).await.unwrap();
    let mut connection = all.connection(all.master());
    heard(&mut listener, || publish(&mut connection, &key)).await;
    let master = all.master();
    all.kill(master);
    all.wait_for_failover();
    let mut connection = all.connection(all.master());
    heard(&mut listener, || publish(&mut connection, &key)).await;
}

#[tokio::test]
async fn messages_arrive_under_sentinels_through_redis_rs() {
    let mut all = Sentinels::start();
    let (urls, name) = (all.sentinel_urls(), all.service_name().to_owned());
    let client = SentinelClient::build(urls, name, None, SentinelServerType::Master).unwrap();
    messages_arrive_under_sentinels(&mut all, RedisStore::sentinel(client)).await;
}

#[tokio::test]
async fn messages_arrive_under_sentinels_through_fred() {
    let mut all = Sentinels::start();
    let urls = all.sentinel_urls();
    let nodes: Vec<&str> = urls.iter().map(|url| url.trim_start_matches("redis://")).collect();
    let (nodes, name) =
        (format!("{}?node={}", nodes[0], nodes[1..].join("&node=")), all.service_name());
    let url = format!("redis-sentinel://{nodes}&sentinelServiceName={name}");
    let store = FredStore::connect(Config::from_url(&url).unwrap());
    messages_arrive_under_sentinels(&mut all, store).await;
}
