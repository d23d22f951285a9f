//! A cluster of three masters and three replicas and its faults, on each client. `--nocapture`
//! prints each account.

use lockage::Store;
use lockage_tests::faults::cluster;
use lockage_tests::load::LONG_TIMEOUT;
use lockage_tests::server::Cluster;

/// A client, and how it connects.
trait Client {
    const NAME: &'static str;
    fn store(cluster: &Cluster) -> impl Store + Clone + 'static;

    /// Returns a store that leaves it to its caller how long a reply may take.
    fn patient_store(cluster: &Cluster) -> impl Store + Clone + 'static {
        Self::store(cluster)
    }
}

fn name<C: Client>(fault: &str) -> String {
    format!("{} on a cluster, {fault}", C::NAME)
}

async fn has_a_slot_moved<C: Client>() {
    let all = Cluster::start();
    let stores = [C::patient_store(&all), C::patient_store(&all)];
    cluster::slot_moved(&name::<C>("slot moved"), &all, stores).await;
}

async fn is_failed_over_by_hand<C: Client>() {
    let all = Cluster::start();
    let store = C::store(&all);
    cluster::failed_over_by_hand(&name::<C>("CLUSTER FAILOVER"), &all, store).await;
}

async fn has_a_master_killed<C: Client>() {
    let mut all = Cluster::start();
    let store = C::store(&all);
    cluster::master_killed(&name::<C>("master killed"), &mut all, store).await;
}

async fn has_a_master_frozen<C: Client>() {
    let mut all = Cluster::start();
    let store = C::store(&all);
    cluster::master_frozen(&name::<C>("master frozen"), &mut all, store).await;
}

async fn is_behind_faulty_proxies<C: Client>() {
    let all = Cluster::start_behind_proxies();
    let store = C::store(&all);
    cluster::behind_faulty_proxies(&name::<C>("proxies"), &all, store).await;
}

mod redis_rs {
    use lockage_redis_rs::RedisStore;
    use redis::cluster::ClusterClientBuilder;

    use super::*;

    struct This;

    impl Client for This {
        const NAME: &'static str = "redis-rs";

        fn store(cluster: &Cluster) -> impl Store + Clone + 'static {
            RedisStore::cluster(|| ClusterClientBuilder::new(cluster.urls())).unwrap()
        }

        fn patient_store(cluster: &Cluster) -> impl Store + Clone + 'static {
            let builder =
                || ClusterClientBuilder::new(cluster.urls()).response_timeout(LONG_TIMEOUT);
            RedisStore::cluster(builder).unwrap()
        }
    }

    tests_of_this! { 2 threads:
        has_a_slot_moved, is_failed_over_by_hand, has_a_master_killed, has_a_master_frozen,
        is_behind_faulty_proxies,
    }
}

/// For callers that block: each has a connection of its own, which is made anew after a redirection.
mod redis_rs_blocking {
    use std::time::Duration;

    use lockage::testing::Blocking;
    use lockage_redis_rs::BlockingRedisStore;
    use redis::cluster::ClusterClientBuilder;

    use super::*;

    struct This;

    impl Client for This {
        const NAME: &'static str = "redis-rs (blocking)";

        fn store(cluster: &Cluster) -> impl Store + Clone + 'static {
            let builder = ClusterClientBuilder::new(cluster.urls());
            let store = BlockingRedisStore::cluster(builder).unwrap();
            Blocking::new(store, Duration::from_secs(5))
        }
    }

    tests_of_this! { 2 threads:
        has_a_slot_moved, is_failed_over_by_hand,
    }
}

mod fred {
    use ::fred::types::config::Config;
    use lockage_fred::FredStore;

    use super::*;

    struct This;

    impl Client for This {
        const NAME: &'static str = "fred";

        fn store(cluster: &Cluster) -> impl Store + Clone + 'static {
            let nodes = cluster.urls();
            let nodes: Vec<&str> =
                nodes.iter().map(|url| url.trim_start_matches("redis://")).collect();
            let url = format!("redis-cluster://{}?node={}", nodes[0], nodes[1..].join("&node="));
            FredStore::connect(Config::from_url(&url).unwrap())
        }
    }

    tests_of_this! { 2 threads:
        has_a_slot_moved, is_failed_over_by_hand, has_a_master_killed, has_a_master_frozen,
        is_behind_faulty_proxies,
    }
}
