//! One server: messages, lost connections, many listeners, and the subscriptions that a store leaves behind.

use fred::types::config::Config;
use lockage::notifications::{Listener, Notification, Notifications, Wake};
use lockage::{Key, StoreError};
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

use super::{fred, heard, key, publish, redis_rs, signal, subscribers, told, until, wait};

/// The behaviour through each client.
async fn a_message_arrives(server: &Server, store: impl Notifications) {
    let mut connection = server.connection();
    let (key, other) = (key("a"), key("b"));
    let mut first = store.listen(&key, Wake::All).await.unwrap();
    let mut second = store.listen(&key, Wake::All).await.unwrap();
    let mut third = store.listen(&other, Wake::All).await.unwrap();
    assert_eq!(subscribers(&mut connection, &key), 1);
    publish(&mut connection, &key);
    assert_eq!(signal(&mut first).await, Notification::Message);
    assert_eq!(signal(&mut second).await, Notification::Message);
    // A later message arrives later, so nothing was published to this one before.
    publish(&mut connection, &other);
    assert_eq!(signal(&mut third).await, Notification::Message);
    assert_eq!([wait(&mut first).await, wait(&mut third).await], [None, None]);
    drop((first, third));
    until("one unsubscribes", || subscribers(&mut connection, &other) == 0).await;
    assert_eq!(subscribers(&mut connection, &key), 1);
    // Not in the runtime.
    std::thread::spawn(move || drop(second)).join().unwrap();
    until("the last unsubscribes", || subscribers(&mut connection, &key) == 0).await;
    // At once again.
    for _ in 0..20 {
        drop(store.listen(&key, Wake::One).await.unwrap());
    }
    let mut last = store.listen(&key, Wake::One).await.unwrap();
    heard(&mut last, || publish(&mut connection, &key)).await;
    drop(last);
    until("nobody is left", || subscribers(&mut connection, &key) == 0).await;
}

#[tokio::test]
async fn a_message_arrives_through_redis_rs() {
    let server = Server::start();
    a_message_arrives(&server, redis_rs(&server)).await;
}

#[tokio::test]
async fn a_message_arrives_through_fred() {
    let server = Server::start();
    a_message_arrives(&server, fred(&server)).await;
}

#[test]
fn a_message_arrives_in_async_std() {
    let server = Server::start();
    async_std::task::block_on(a_message_arrives(&server, redis_rs(&server)));
    async_std::task::block_on(a_message_arrives(&server, fred(&server)));
}

#[test]
fn a_message_arrives_in_smol() {
    let server = Server::start();
    smol::block_on(a_message_arrives(&server, redis_rs(&server)));
    smol::block_on(async_compat::Compat::new(a_message_arrives(&server, fred(&server))));
}

/// L12: a message that woke a listener goes on to the next one if that listener is dropped, whether it had looked
/// or not.
async fn a_dropped_listener_leaves_its_message(server: &Server, store: impl Notifications) {
    let mut connection = server.connection();
    let key = key("a");
    let mut listeners = Vec::new();
    for _ in 0..4 {
        listeners.push(store.listen(&key, Wake::One).await.unwrap());
    }
    let mut all = store.listen(&key, Wake::All).await.unwrap();
    let [mut first, second, mut third, mut last] = <[Listener; 4]>::try_from(listeners).unwrap();
    publish(&mut connection, &key);
    assert_eq!(signal(&mut first).await, Notification::Message);
    drop(first);
    // Now the second one has the message, and does not look.
    drop(second);
    assert_eq!(signal(&mut third).await, Notification::Message);
    third.done();
    assert_eq!(wait(&mut last).await, None, "nothing was left");
    assert_eq!(signal(&mut all).await, Notification::Message);
}

#[tokio::test]
async fn a_dropped_listener_leaves_its_message_through_redis_rs() {
    let server = Server::start();
    a_dropped_listener_leaves_its_message(&server, redis_rs(&server)).await;
}

#[tokio::test]
async fn a_dropped_listener_leaves_its_message_through_fred() {
    let server = Server::start();
    a_dropped_listener_leaves_its_message(&server, fred(&server)).await;
}

async fn a_lost_connection_is_reported(server: &mut Server, store: impl Notifications) {
    let key = key("a");
    let mut both = [
        store.listen(&key, Wake::All).await.unwrap(),
        store.listen(&key, Wake::One).await.unwrap(),
    ];
    for restarted in [false, true] {
        match restarted {
            true => server.restart(),
            false => {
                let mut kill = redis::cmd("CLIENT");
                kill.arg("KILL").arg("TYPE").arg("pubsub").exec(&mut server.connection()).unwrap();
            }
        }
        for listener in &mut both {
            assert_eq!(told(listener).await, Notification::Lost);
        }
        // By the time they are notified, there is a new subscription.
        publish(&mut server.connection(), &key);
        for listener in &mut both {
            assert_eq!(signal(listener).await, Notification::Message);
        }
    }
}

#[tokio::test]
async fn a_lost_connection_is_reported_through_redis_rs() {
    let mut server = Server::start();
    let store = redis_rs(&server);
    a_lost_connection_is_reported(&mut server, store).await;
}

#[tokio::test]
async fn a_lost_connection_is_reported_through_fred() {
    let mut server = Server::start();
    let store = fred(&server);
    a_lost_connection_is_reported(&mut server, store).await;
}

/// A thousand listeners of a hundred keys take one connection and a hundred subscriptions.
async fn many_listen(server: &Server, store: impl Notifications) {
    let mut connection = server.connection();
    let keys: Vec<Key> = (0..100).map(|id| key(&id.to_string())).collect();
    let mut listeners = vec![];
    for key in keys.iter().cycle().take(1000) {
        listeners.push(store.listen(key, Wake::All).await.unwrap());
    }
    for key in &keys {
        assert_eq!(subscribers(&mut connection, key), 1);
        publish(&mut connection, key);
    }
    for listener in &mut listeners {
        assert_eq!(signal(listener).await, Notification::Message);
    }
    drop(listeners);
    for key in &keys {
        until("all unsubscribe", || subscribers(&mut connection, key) == 0).await;
    }
}

#[tokio::test]
async fn many_listen_through_redis_rs() {
    let server = Server::start();
    many_listen(&server, redis_rs(&server)).await;
}

#[tokio::test]
async fn many_listen_through_fred() {
    let server = Server::start();
    many_listen(&server, fred(&server)).await;
}

/// A store that is dropped leaves no connection behind that listened.
async fn a_dropped_store_leaves_no_connection(server: &Server, store: impl Notifications) {
    let mut connection = server.connection();
    let mut clients = || -> usize {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
        // The one that asks is on the unix socket.
        list.lines().filter(|line| line.contains(" addr=127.0.0.1:")).count()
    };
    let listener = store.listen(&key("a"), Wake::One).await.unwrap();
    assert!(clients() > 0);
    drop(listener);
    drop(store);
    until("no connection is left", || clients() == 0).await;
}

#[tokio::test]
async fn a_dropped_store_leaves_no_connection_through_redis_rs() {
    let server = Server::start();
    a_dropped_store_leaves_no_connection(&server, redis_rs(&server)).await;
}

#[tokio::test]
async fn a_dropped_store_leaves_no_connection_through_fred() {
    let server = Server::start();
    a_dropped_store_leaves_no_connection(&server, fred(&server)).await;
}

#[tokio::test]
async fn a_store_on_a_given_connection_reports_how_to_listen() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).unwrap();
    let store = RedisStore::new(client.get_multiplexed_async_connection().await.unwrap());
    let error = store.listen(&key("a"), Wake::One).await.unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
    a_message_arrives(&server, store.listening(client)).await;

    let config = Config::from_url(&server.url()).unwrap();
    let store = FredStore::new(fred::clients::Client::new(config.clone(), None, None, None));
    let error = store.listen(&key("a"), Wake::One).await.unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
    a_message_arrives(&server, store.listening(config)).await;
}
