//! One server and its faults, on each client: what callers are told adds up, nothing is done twice,
//! and everybody recovers without help. `--nocapture` prints each account.

use lockage_redis_rs::{Reconnecting, RedisStore};
use lockage_tests::faults::single;
use lockage_tests::server::{Proxy, Server};
use redis::Client;

mod redis_rs {
    use super::*;

    fn store(url: String) -> RedisStore<Reconnecting> {
        RedisStore::connect(Client::open(url).unwrap())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn killed_and_back() {
        let mut server = Server::start();
        let store = store(server.url());
        single::killed_and_back("redis-rs, killed", &mut server, store).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn restarted_with_its_keys() {
        let mut server = Server::start();
        let store = store(server.url());
        single::restarted_with_its_keys("redis-rs, restarted", &mut server, store).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn frozen() {
        let server = Server::start();
        single::frozen("redis-rs, frozen", &server, store(server.url())).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn scripts_flushed() {
        let server = Server::start();
        single::scripts_flushed("redis-rs, flushed", &server, store(server.url())).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn out_of_memory() {
        let server = Server::start();
        single::out_of_memory("redis-rs, out of memory", &server, store(server.url())).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn busy() {
        let server = Server::start();
        single::busy("redis-rs, busy", &server, store(server.url())).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn paused() {
        let server = Server::start();
        single::paused("redis-rs, paused", &server, store(server.url())).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn behind_a_faulty_proxy() {
        let server = Server::start();
        let proxy = Proxy::start(server.port());
        let store = store(proxy.url());
        single::behind_a_faulty_proxy("redis-rs, proxy", &server, &proxy, store).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn behind_a_faulty_proxy_with_request_ids() {
        let server = Server::start();
        let proxy = Proxy::start(server.port());
        let store = store(proxy.url());
        single::behind_a_faulty_proxy_with_request_ids("redis-rs, ids", &proxy, store).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn never_more_than_the_limit() {
        let mut server = Server::start();
        let store = store(server.url());
        single::never_more_than_the_limit("redis-rs, limit", &mut server, store).await;
    }
}
