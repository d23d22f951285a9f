//! One server and its faults, on each client: the answers of the callers add up, nothing is done twice, and all
//! callers recover without help. `--nocapture` prints each account.

use lockage::Store;
use lockage_tests::faults::single;
use lockage_tests::server::{Proxy, Server};

/// A client, and how it connects.
trait Client {
    const NAME: &'static str;
    fn store(url: String) -> impl Store + Clone + 'static;
}

fn name<C: Client>(fault: &str) -> String {
    format!("{}, {fault}", C::NAME)
}

async fn is_killed_and_back<C: Client>() {
    let mut server = Server::start();
    let store = C::store(server.url());
    single::killed_and_back(&name::<C>("killed and back"), &mut server, store).await;
}

async fn is_restarted_with_its_keys<C: Client>() {
    let mut server = Server::start();
    let store = C::store(server.url());
    single::restarted_with_its_keys(&name::<C>("restarted"), &mut server, store).await;
}

async fn is_frozen<C: Client>() {
    let server = Server::start();
    single::frozen(&name::<C>("frozen"), &server, C::store(server.url())).await;
}

async fn has_its_scripts_flushed<C: Client>() {
    let server = Server::start();
    let store = C::store(server.url());
    single::scripts_flushed(&name::<C>("SCRIPT FLUSH"), &server, store).await;
}

async fn is_out_of_memory<C: Client>() {
    let server = Server::start();
    single::out_of_memory(&name::<C>("maxmemory"), &server, C::store(server.url())).await;
}

async fn is_busy<C: Client>() {
    let server = Server::start();
    single::busy(&name::<C>("BUSY"), &server, C::store(server.url())).await;
}

async fn is_paused<C: Client>() {
    let server = Server::start();
    single::paused(&name::<C>("CLIENT PAUSE"), &server, C::store(server.url())).await;
}

async fn is_behind_a_faulty_proxy<C: Client>() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let store = C::store(proxy.url());
    single::behind_a_faulty_proxy(&name::<C>("proxy"), &server, &proxy, store).await;
}

async fn is_moved_behind_its_address<C: Client>() {
    let servers = [Server::start(), Server::start()];
    let proxy = Proxy::start(servers[0].port());
    let store = C::store(proxy.url());
    single::moved_behind_its_address(&name::<C>("moved"), servers.each_ref(), &proxy, store).await;
}

async fn is_left_by_its_replicas<C: Client>() {
    let servers = [Server::start(), Server::start()];
    let proxy = Proxy::start(servers[0].port());
    let store = C::store(proxy.url());
    single::left_by_its_replicas(&name::<C>("left"), servers.each_ref(), &proxy, store).await;
}

async fn never_admits_more_than_the_limit<C: Client>() {
    let mut server = Server::start();
    let store = C::store(server.url());
    single::never_more_than_the_limit(&name::<C>("limit"), &mut server, store).await;
}

mod redis_rs {
    use lockage_redis_rs::RedisStore;

    use super::*;

    struct This;

    impl Client for This {
        const NAME: &'static str = "redis-rs";

        fn store(url: String) -> impl Store + Clone + 'static {
            RedisStore::connect(redis::Client::open(url).unwrap())
        }
    }

    tests_of_this! { 2 threads:
        is_killed_and_back, is_restarted_with_its_keys, is_frozen, has_its_scripts_flushed,
        is_out_of_memory, is_busy, is_paused, is_behind_a_faulty_proxy, is_moved_behind_its_address,
        is_left_by_its_replicas, never_admits_more_than_the_limit,
    }
}

mod redis_rs_sync {
    use std::time::Duration;

    use lockage::testing::Blocking;
    use lockage_redis_rs::BlockingRedisStore;

    use super::*;

    struct This;

    impl Client for This {
        const NAME: &'static str = "redis-rs, sync";

        fn store(url: String) -> impl Store + Clone + 'static {
            let store = BlockingRedisStore::new(redis::Client::open(url).unwrap());
            Blocking::new(store, Duration::from_secs(5))
        }
    }

    // Each caller blocks a thread.
    tests_of_this! { 12 threads:
        is_killed_and_back, is_frozen, is_behind_a_faulty_proxy, is_moved_behind_its_address,
        is_left_by_its_replicas, never_admits_more_than_the_limit,
    }
}

mod fred {
    use ::fred::types::config::Config;
    use lockage_fred::FredStore;

    use super::*;

    struct This;

    impl Client for This {
        const NAME: &'static str = "fred";

        fn store(url: String) -> impl Store + Clone + 'static {
            FredStore::connect(Config::from_url(&url).unwrap())
        }
    }

    tests_of_this! { 2 threads:
        is_killed_and_back, is_restarted_with_its_keys, is_frozen, has_its_scripts_flushed,
        is_out_of_memory, is_busy, is_paused, is_behind_a_faulty_proxy, is_moved_behind_its_address,
        is_left_by_its_replicas, never_admits_more_than_the_limit,
    }
}
