//! A cluster of three masters and three replicas and its faults, on each client. `--nocapture`
//! prints each account.

use lockage_redis_rs::{Cluster as Link, RedisStore};
use lockage_tests::faults::cluster;
use lockage_tests::server::Cluster;
use redis::cluster::ClusterClientBuilder;

mod redis_rs {
    use super::*;

    fn store(cluster: &Cluster) -> RedisStore<Link> {
        RedisStore::cluster(ClusterClientBuilder::new(cluster.urls())).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn slot_moved() {
        let all = Cluster::start();
        let store = store(&all);
        cluster::slot_moved("redis-rs, slot moved", &all, store).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failed_over_by_hand() {
        let all = Cluster::start();
        let store = store(&all);
        cluster::failed_over_by_hand("redis-rs, manual failover", &all, store).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn master_killed() {
        let mut all = Cluster::start();
        let store = store(&all);
        cluster::master_killed("redis-rs, master killed", &mut all, store).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn master_frozen() {
        let mut all = Cluster::start();
        let store = store(&all);
        cluster::master_frozen("redis-rs, master frozen", &mut all, store).await;
    }
}
