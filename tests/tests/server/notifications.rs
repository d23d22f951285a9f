//! Listeners of a key are woken: in memory, on servers, in clusters and under sentinels, through both clients.

mod commands;
mod messages;
mod refused;
mod replicated;

use std::time::{Duration, Instant};

use fred::types::config::Config;
use lockage::notifications::{Listener, Notification, Notifications, Wake};
use lockage::{Key, StoreError};
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;
use redis::Connection;

/// The time that a caller waits before it polls.
const BOUND: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(60);

fn redis_rs(server: &Server) -> RedisStore {
    RedisStore::connect(redis::Client::open(server.url()).unwrap())
}

fn fred(server: &Server) -> FredStore {
    FredStore::connect(Config::from_url(&server.url()).unwrap())
}

fn key(id: &str) -> Key {
    Key::new("signals", id).unwrap()
}

/// Publishes as scripts do, without the name of a listener.
fn publish(connection: &mut Connection, key: &Key) {
    publish_to(connection, key, "");
}

fn publish_to(connection: &mut Connection, key: &Key, message: &str) {
    let script = concat!(
        "local key = KEYS[1]\n",
        include_str!("../../../lua/locks/publish.lua"),
        "publish(ARGV[1]) return 1"
    );
    let mut call = redis::cmd("EVAL");
    let done: i64 =
        call.arg(script).arg(1).arg(key.as_str()).arg(message).query(connection).unwrap();
    assert_eq!(done, 1);
}

/// Returns how many connections are subscribed to the key's channel there.
fn subscribers(connection: &mut Connection, key: &Key) -> i64 {
    let count = |word: &str| -> Result<(String, i64), _> {
        redis::cmd("PUBSUB").arg(word).arg(key.as_str()).query(connection)
    };
    let mut count = count;
    count("SHARDNUMSUB").or_else(|_| count("NUMSUB")).unwrap().1
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        smol::Timer::after(Duration::from_millis(5)).await;
    }
}

/// Waits once, not for ever, as callers wait. Its timer runs under any executor.
async fn wait(listener: &mut Listener) -> Option<Notification> {
    let signal = async { Some(listener.next().await) };
    smol::future::or(signal, async {
        smol::Timer::after(BOUND).await;
        None
    })
    .await
}

/// Waits until there is a signal.
async fn signal(listener: &mut Listener) -> Notification {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(signal) = wait(listener).await {
            return signal;
        }
        assert!(Instant::now() < deadline, "no signal: {listener:?}");
    }
}

/// Waits for a signal in few and long waits: too few for one that comes only after several silent ones.
async fn told(listener: &mut Listener) -> Notification {
    for _ in 0..3 {
        if let Ok(signal) = tokio::time::timeout(DEADLINE / 6, listener.next()).await {
            return signal;
        }
    }
    panic!("nothing is told: {listener:?}");
}

/// Publishes until it is heard: after a loss that was not reported, a subscription takes some waits.
async fn heard(listener: &mut Listener, mut publish: impl FnMut()) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        publish();
        match wait(listener).await {
            Some(Notification::Message) => return,
            _ => assert!(Instant::now() < deadline, "nothing is heard: {listener:?}"),
        }
    }
}

/// Also without a timeout of the caller's own.
async fn listening_on_a_silent_server_fails_in_time(store: &impl Notifications, key: &Key) {
    let listening = tokio::time::timeout(DEADLINE, store.listen(key, Wake::One));
    let error = listening.await.expect("an end").unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
}
