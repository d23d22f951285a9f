//! A master that three sentinels watch and its faults, on each client. `--nocapture` prints each
//! account.

use lockage_redis_rs::{Reconnecting, RedisStore};
use lockage_tests::faults::sentinels;
use lockage_tests::server::Sentinels;
use redis::sentinel::{SentinelClient, SentinelServerType};

mod redis_rs {
    use super::*;

    fn store(sentinels: &Sentinels) -> RedisStore<Reconnecting> {
        let name = sentinels.service_name().to_owned();
        let kind = SentinelServerType::Master;
        let client = SentinelClient::build(sentinels.sentinel_urls(), name, None, kind);
        RedisStore::sentinel(client.unwrap())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn master_killed() {
        let mut all = Sentinels::start();
        let store = store(&all);
        sentinels::master_killed("redis-rs, master killed", &mut all, store).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failed_over_by_hand() {
        let mut all = Sentinels::start();
        let store = store(&all);
        sentinels::failed_over_by_hand("redis-rs, manual failover", &mut all, store).await;
    }
}
