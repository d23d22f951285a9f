//! A master that three sentinels watch and its faults, on each client. `--nocapture` prints each
//! account.

use lockage::Store;
use lockage_tests::faults::sentinels;
use lockage_tests::server::Sentinels;

/// A client, and how it connects.
trait Client {
    const NAME: &'static str;
    fn store(sentinels: &Sentinels) -> impl Store + Clone + 'static;
}

fn name<C: Client>(fault: &str) -> String {
    format!("{} with sentinels, {fault}", C::NAME)
}

async fn has_its_master_killed<C: Client>() {
    let mut all = Sentinels::start();
    let store = C::store(&all);
    sentinels::master_killed(&name::<C>("master killed"), &mut all, store).await;
}

async fn is_failed_over_by_hand<C: Client>() {
    let mut all = Sentinels::start();
    let store = C::store(&all);
    sentinels::failed_over_by_hand(&name::<C>("SENTINEL FAILOVER"), &mut all, store).await;
}

async fn is_failed_over_by_hand_with_min_replicas<C: Client>() {
    let mut all = Sentinels::start();
    let store = C::store(&all);
    let name = name::<C>("SENTINEL FAILOVER, min-replicas");
    sentinels::failed_over_by_hand_with_min_replicas(&name, &mut all, store).await;
}

mod redis_rs {
    use lockage_redis_rs::RedisStore;
    use redis::sentinel::{SentinelClient, SentinelServerType};

    use super::*;

    struct This;

    impl Client for This {
        const NAME: &'static str = "redis-rs";

        fn store(sentinels: &Sentinels) -> impl Store + Clone + 'static {
            let name = sentinels.service_name().to_owned();
            let kind = SentinelServerType::Master;
            let client = SentinelClient::build(sentinels.sentinel_urls(), name, None, kind);
            RedisStore::sentinel(client.unwrap())
        }
    }

    tests_of_this! { 2 threads:
        has_its_master_killed, is_failed_over_by_hand, is_failed_over_by_hand_with_min_replicas,
    }
}

mod fred {
    use ::fred::types::config::Config;
    use lockage_fred::FredStore;

    use super::*;

    struct This;

    impl Client for This {
        const NAME: &'static str = "fred";

        fn store(sentinels: &Sentinels) -> impl Store + Clone + 'static {
            let nodes = sentinels.sentinel_urls();
            let nodes: Vec<&str> =
                nodes.iter().map(|url| url.trim_start_matches("redis://")).collect();
            let url = format!(
                "redis-sentinel://{}?node={}&sentinelServiceName={}",
                nodes[0],
                nodes[1..].join("&node="),
                sentinels.service_name()
            );
            FredStore::connect(Config::from_url(&url).unwrap())
        }
    }

    tests_of_this! { 2 threads:
        has_its_master_killed, is_failed_over_by_hand, is_failed_over_by_hand_with_min_replicas,
    }
}
