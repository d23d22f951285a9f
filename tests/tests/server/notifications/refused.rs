//! A caller that may not listen, or finds a server silent, gets an error.

use fred::types::config::Config;
use lockage::notifications::{Notification, Notifications, Wake};
use lockage::runtime::Tokio;
use lockage::{RetryStore, StoreError};
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::{Proxy, Server};

use super::{
    BOUND, fred, heard, key, listening_on_a_silent_server_fails_in_time, publish, redis_rs, signal,
};

/// Listening needs permissions that a script does without.
async fn listening_on_forbidden_channels_fails(
    store: impl Notifications,
    server: &Server,
    password: &str,
) {
    let mut connection =
        redis::Client::open(with_user(server, password)).unwrap().get_connection().unwrap();
    publish(&mut connection, &key("a"));
    let error = store.listen(&key("a"), Wake::One).await.unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
    assert!(error.to_string().to_uppercase().contains("NOPERM"), "{error}");
    let mut setuser = redis::cmd("ACL");
    setuser.arg("SETUSER").arg("waiter").arg("&signals:*").exec(&mut server.connection()).unwrap();
    let mut listener = store.listen(&key("a"), Wake::One).await.unwrap();
    publish(&mut connection, &key("a"));
    assert_eq!(signal(&mut listener).await, Notification::Message);
}

fn with_user(server: &Server, password: &str) -> String {
    as_waiter(&server.url(), password)
}

fn as_waiter(url: &str, password: &str) -> String {
    url.replace("://", &format!("://waiter:{password}@"))
}

fn forbid_channels(server: &Server) {
    // The rights in the adapters' documentation, except for the channels.
    let rules = ["on", ">p", "resetchannels", "~signals:*", "+eval", "+evalsha", "+publish"];
    let more = ["+subscribe", "+unsubscribe", "+ping", "+client", "+info", "+cluster"];
    let mut setuser = redis::cmd("ACL");
    setuser.arg("SETUSER").arg("waiter").arg("reset").arg(&rules).arg(&more);
    let mut connection = server.connection();
    setuser.exec(&mut connection).unwrap();
    let sharded = ["+spublish", "+ssubscribe", "+sunsubscribe"];
    // Commands that a server before 7.0 does not know.
    _ = redis::cmd("ACL").arg("SETUSER").arg("waiter").arg(&sharded).exec(&mut connection);
}

#[tokio::test]
async fn listening_on_forbidden_channels_fails_through_redis_rs() {
    let server = Server::start();
    forbid_channels(&server);
    let store = RedisStore::connect(redis::Client::open(with_user(&server, "p")).unwrap());
    listening_on_forbidden_channels_fails(store, &server, "p").await;
}

#[tokio::test]
async fn listening_on_forbidden_channels_fails_through_fred() {
    let server = Server::start();
    forbid_channels(&server);
    let store = FredStore::connect(Config::from_url(&with_user(&server, "p")).unwrap());
    listening_on_forbidden_channels_fails(store, &server, "p").await;
}

/// Valkey refuses to end a subscription that it has refused. fred takes that for the answer to the next request.
#[tokio::test]
async fn subscriptions_refused_by_valkey_are_requested_once() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    proxy.refuse_unsubscriptions();
    forbid_channels(&server);
    let url = as_waiter(&proxy.url(), "p");
    let store = FredStore::connect(Config::from_url(&url).unwrap());
    listening_on_forbidden_channels_fails(store, &server, "p").await;
    forbid_channels(&server);
    let store = RedisStore::connect(redis::Client::open(url).unwrap());
    listening_on_forbidden_channels_fails(store, &server, "p").await;
}

#[tokio::test]
async fn a_silent_server_blocks_no_caller() {
    let server = Server::start();
    let (first, second) = (redis_rs(&server), fred(&server));
    // Only while the server is silent: a busy machine may connect more slowly.
    let bounded = (
        RetryStore::new(first.clone(), Tokio, BOUND),
        RetryStore::new(second.clone(), Tokio, BOUND),
    );
    let mut listener = first.listen(&key("a"), Wake::One).await.unwrap();
    let untimed = (redis_rs(&server), fred(&server));
    let others = (
        untimed.0.listen(&key("a"), Wake::One).await,
        untimed.1.listen(&key("a"), Wake::One).await,
    );
    server.freeze();
    listening_on_a_silent_server_fails_in_time(&untimed.0, &key("b")).await;
    listening_on_a_silent_server_fails_in_time(&untimed.1, &key("b")).await;
    drop(others);
    let error = bounded.0.listen(&key("b"), Wake::One).await.unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
    let error = bounded.1.listen(&key("b"), Wake::One).await.unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
    server.thaw();
    heard(&mut listener, || publish(&mut server.connection(), &key("a"))).await;
    let mut listener = second.listen(&key("b"), Wake::One).await.unwrap();
    heard(&mut listener, || publish(&mut server.connection(), &key("b"))).await;
}
