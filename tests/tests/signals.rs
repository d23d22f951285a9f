//! Who listens for a key is woken: in memory, on servers, in clusters and under sentinels, through both clients.

use std::time::{Duration, Instant};

use fred::types::config::Config;
use lockage::runtime::Tokio;
use lockage::{Key, Listener, RecordError, Signal, Signals, StoreError, Timed, Timestamp, Wake};
use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::{Arguments, Command, Publish, Record, ReplyError, ScriptId};
use lockage_fred::FredStore;
use lockage_lua::SHARDED_CHANNELS;
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::{Cluster, Sentinels, Server};
use redis::Connection;
use redis::cluster::ClusterClientBuilder;
use redis::sentinel::{SentinelClient, SentinelServerType};

/// How long a caller waits before it looks for itself.
const BOUND: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(60);

fn redis_rs(server: &Server) -> RedisStore<lockage_redis_rs::Reconnecting> {
    RedisStore::connect(redis::Client::open(server.url()).unwrap())
}

fn fred(server: &Server) -> FredStore<lockage_fred::Reconnecting> {
    FredStore::connect(Config::from_url(&server.url()).unwrap())
}

fn key(id: &str) -> Key {
    Key::new("signals", id).unwrap()
}

/// Publishes as scripts do, for nobody by name.
fn publish(connection: &mut Connection, key: &Key) {
    publish_to(connection, key, "");
}

fn publish_to(connection: &mut Connection, key: &Key, message: &str) {
    let script = concat!(
        "local key = KEYS[1]\n",
        include_str!("../../lua/scripts/publish.lua"),
        "publish(ARGV[1]) return 1"
    );
    let mut call = redis::cmd("EVAL");
    let done: i64 =
        call.arg(script).arg(1).arg(key.as_str()).arg(message).query(connection).unwrap();
    assert_eq!(done, 1);
}

/// How many connections are subscribed to the key's channel there.
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

/// One wait as callers wait: not for ever. Its timer runs under any executor.
async fn wait(listener: &mut Listener) -> Option<Signal> {
    let signal = async { Some(listener.next().await) };
    smol::future::or(signal, async {
        smol::Timer::after(BOUND).await;
        None
    })
    .await
}

/// Waits until there is a signal.
async fn signal(listener: &mut Listener) -> Signal {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(signal) = wait(listener).await {
            return signal;
        }
        assert!(Instant::now() < deadline, "no signal: {listener:?}");
    }
}

/// A signal that it takes no silence of several waits for: there are too few of them, and long ones.
async fn told(listener: &mut Listener) -> Signal {
    for _ in 0..3 {
        if let Ok(signal) = tokio::time::timeout(DEADLINE / 6, listener.next()).await {
            return signal;
        }
    }
    panic!("nothing is told: {listener:?}");
}

/// Publishes until it is heard: after a loss that nobody has told of, a subscription takes some waits.
async fn heard(listener: &mut Listener, mut publish: impl FnMut()) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        publish();
        match wait(listener).await {
            Some(Signal::Message) => return,
            _ => assert!(Instant::now() < deadline, "nothing is heard: {listener:?}"),
        }
    }
}

/// What holds through each client.
async fn a_message_arrives(server: &Server, store: impl Signals) {
    let mut connection = server.connection();
    let (key, other) = (key("a"), key("b"));
    let mut first = store.listen(&key, Wake::All).await.unwrap();
    let mut second = store.listen(&key, Wake::All).await.unwrap();
    let mut third = store.listen(&other, Wake::All).await.unwrap();
    assert_eq!(subscribers(&mut connection, &key), 1);
    publish(&mut connection, &key);
    assert_eq!(signal(&mut first).await, Signal::Message);
    assert_eq!(signal(&mut second).await, Signal::Message);
    // What was published later arrives later, so nothing was published to this one before.
    publish(&mut connection, &other);
    assert_eq!(signal(&mut third).await, Signal::Message);
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

async fn a_lost_connection_is_told_of(server: &mut Server, store: impl Signals) {
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
            assert_eq!(told(listener).await, Signal::Lost);
        }
        // There is a new subscription by the time they are told.
        publish(&mut server.connection(), &key);
        for listener in &mut both {
            assert_eq!(signal(listener).await, Signal::Message);
        }
    }
}

#[tokio::test]
async fn a_lost_connection_is_told_of_through_redis_rs() {
    let mut server = Server::start();
    let store = redis_rs(&server);
    a_lost_connection_is_told_of(&mut server, store).await;
}

#[tokio::test]
async fn a_lost_connection_is_told_of_through_fred() {
    let mut server = Server::start();
    let store = fred(&server);
    a_lost_connection_is_told_of(&mut server, store).await;
}

/// A thousand listeners of a hundred keys take one connection and a hundred subscriptions.
async fn many_listen(server: &Server, store: impl Signals) {
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
        assert_eq!(signal(listener).await, Signal::Message);
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

/// A slot that moves, a failover and a master's end cost some messages, and then they arrive again.
async fn messages_arrive_in_a_cluster(
    all: &mut Cluster,
    store: impl Signals,
    hears_that_a_slot_leaves: bool,
) {
    let key = key("a");
    let name = key.as_str();
    let mut listener = store.listen(&key, Wake::One).await.unwrap();
    let mut connection = all.connection(all.master_of(name));
    publish(&mut connection, &key);
    assert_eq!(signal(&mut listener).await, Signal::Message);

    let to = (all.master_of(name) + 1) % 3;
    all.begin_migration(name, to);
    all.end_migration(name);
    let mut connection = all.connection(to);
    let sharded: bool =
        redis::cmd("EVAL").arg(SHARDED_CHANNELS).arg(0).query(&mut connection).unwrap();
    if hears_that_a_slot_leaves && sharded {
        assert_eq!(told(&mut listener).await, Signal::Lost);
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

/// A node that is silent holds up nobody who listens there for the first time.
async fn a_silent_node_holds_nobody_up(all: &mut Cluster, store: impl Signals) {
    let key = key("a");
    let master = all.master_of(key.as_str());
    let other = (0..100).map(|id| self::key(&id.to_string()));
    let other = other.into_iter().find(|other| all.master_of(other.as_str()) != master).unwrap();
    let listener = store.listen(&key, Wake::One).await.unwrap();
    all.freeze(all.master_of(other.as_str()));
    nobody_waits_for_a_silent_server(&store, &other).await;
    drop(listener);
}

#[tokio::test]
async fn a_silent_node_holds_nobody_up_through_redis_rs() {
    let mut all = Cluster::start();
    let builder = || ClusterClientBuilder::new(all.urls());
    let store = RedisStore::cluster(builder()).unwrap().listening_in_cluster(builder()).unwrap();
    a_silent_node_holds_nobody_up(&mut all, store).await;
}

/// Also without a timeout of the caller's own.
async fn nobody_waits_for_a_silent_server(store: &impl Signals, key: &Key) {
    let listening = tokio::time::timeout(DEADLINE, store.listen(key, Wake::One));
    let error = listening.await.expect("an end").unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
}

#[tokio::test]
async fn messages_arrive_in_a_cluster_through_redis_rs() {
    let mut all = Cluster::start();
    let builder = || ClusterClientBuilder::new(all.urls());
    let store = RedisStore::cluster(builder()).unwrap().listening_in_cluster(builder()).unwrap();
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

async fn messages_arrive_under_sentinels(all: &mut Sentinels, store: impl Signals) {
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

/// Listening needs permissions that a script does without.
async fn what_is_forbidden_is_not_done(store: impl Signals, server: &Server, password: &str) {
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
    assert_eq!(signal(&mut listener).await, Signal::Message);
}

fn with_user(server: &Server, password: &str) -> String {
    server.url().replace("://", &format!("://waiter:{password}@"))
}

fn forbid_channels(server: &Server) {
    // What the documentation of the adapters names, but for the channels.
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
async fn what_is_forbidden_is_not_done_through_redis_rs() {
    let server = Server::start();
    forbid_channels(&server);
    let store = RedisStore::connect(redis::Client::open(with_user(&server, "p")).unwrap());
    what_is_forbidden_is_not_done(store, &server, "p").await;
}

#[tokio::test]
async fn what_is_forbidden_is_not_done_through_fred() {
    let server = Server::start();
    forbid_channels(&server);
    let store = FredStore::connect(Config::from_url(&with_user(&server, "p")).unwrap());
    what_is_forbidden_is_not_done(store, &server, "p").await;
}

#[tokio::test]
async fn a_silent_server_holds_nobody_up() {
    let server = Server::start();
    let (first, second) = (redis_rs(&server), fred(&server));
    let (first, second) = (Timed::new(first, Tokio, BOUND), Timed::new(second, Tokio, BOUND));
    let mut listener = first.listen(&key("a"), Wake::One).await.unwrap();
    let untimed = (redis_rs(&server), fred(&server));
    let others = (
        untimed.0.listen(&key("a"), Wake::One).await,
        untimed.1.listen(&key("a"), Wake::One).await,
    );
    server.freeze();
    nobody_waits_for_a_silent_server(&untimed.0, &key("b")).await;
    nobody_waits_for_a_silent_server(&untimed.1, &key("b")).await;
    drop(others);
    let error = first.listen(&key("b"), Wake::One).await.unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
    let error = second.listen(&key("b"), Wake::One).await.unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
    server.thaw();
    heard(&mut listener, || publish(&mut server.connection(), &key("a"))).await;
    let mut listener = second.listen(&key("b"), Wake::One).await.unwrap();
    heard(&mut listener, || publish(&mut server.connection(), &key("b"))).await;
}

/// A store that is dropped leaves no connection behind that listened.
async fn a_dropped_store_leaves_no_connection(server: &Server, store: impl Signals) {
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
async fn a_store_on_a_connection_of_ones_own_says_what_it_needs() {
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

/// A command that publishes where it is told to.
struct Knock(bool);

impl Command for Knock {
    type Outcome = bool;

    fn script(&self) -> ScriptId {
        ScriptId::LimiterReset
    }

    fn arguments(&self, _arguments: &mut Arguments) {}

    fn outcome(&self, _reply: &[i64]) -> Result<bool, ReplyError> {
        Err(ReplyError::Unexpected)
    }

    fn apply(&self, _slot: &mut Option<Record>, _now: Timestamp) -> Result<bool, RecordError> {
        Ok(self.0)
    }

    fn publishes(&self, outcome: &bool, _stored: Option<&Record>) -> Publish {
        if *outcome { Publish::Any } else { Publish::Nothing }
    }
}

#[test]
fn a_command_in_memory_publishes_what_its_outcome_says() {
    let store = MemoryStore::new();
    let other = store.clone();
    smol::block_on(async {
        let mut listener = other.listen(&key("a"), Wake::One).await.unwrap();
        store.run(key("a").as_str(), &Knock(false)).unwrap();
        store.run(key("b").as_str(), &Knock(true)).unwrap();
        assert_eq!(wait(&mut listener).await, None);
        store.run(key("a").as_str(), &Knock(true)).unwrap();
        assert_eq!(signal(&mut listener).await, Signal::Message);
    });
}

/// L9: when a lock is given back, or the first one in line leaves, who is next is told, and nobody else.
async fn who_is_next_is_told<S: Signals>(store: S) {
    let key = key("in-line");
    let lock = Lock::new(Duration::from_secs(60), Duration::from_secs(60)).unwrap();
    // A name of digits only, too, which looks like a number.
    let [alice, bob, carol, dora] = [0xa11ce, 7, 0xca401, 0xd04a].map(OwnerId::from_u128);
    let id = HoldId::from_u128;
    let acquire = |owner, number| lock.acquire(owner, id(number), Timestamp::MAX);
    let line = |owner, number| acquire(owner, number).queued(Duration::from_secs(60));
    store.execute(&key, &acquire(alice, 1)).await.unwrap();
    store.execute(&key, &line(bob, 2)).await.unwrap();
    store.execute(&key, &line(carol, 3)).await.unwrap();
    let mut any = store.listen(&key, Wake::One).await.unwrap();
    let mut of_bob = store.listen(&key, Wake::Named(bob.as_u128())).await.unwrap();
    let mut of_carol = store.listen(&key, Wake::Named(carol.as_u128())).await.unwrap();
    store.execute(&key, &lock.release(alice, id(1))).await.unwrap();
    assert_eq!(signal(&mut of_bob).await, Signal::Message);
    assert_eq!(wait(&mut of_carol).await, None);
    store.execute(&key, &lock.withdraw(bob)).await.unwrap();
    assert_eq!(signal(&mut of_carol).await, Signal::Message);
    let grant = store.execute(&key, &line(carol, 5)).await.unwrap();
    let lockage::lock::Answer::Held(hold) = grant.answer else { panic!("she is next: {grant:?}") };
    // While it is held there is nothing to tell.
    store.execute(&key, &line(bob, 6)).await.unwrap();
    store.execute(&key, &lock.withdraw(bob)).await.unwrap();
    for listener in [&mut any, &mut of_bob, &mut of_carol] {
        assert_eq!(wait(listener).await, None);
    }
    // Nobody is in line, and somebody waits.
    store.execute(&key, &acquire(dora, 7).waiting(Duration::from_secs(60))).await.unwrap();
    store.execute(&key, &lock.force_release(hold.token)).await.unwrap();
    assert_eq!(signal(&mut any).await, Signal::Message);
    assert_eq!([wait(&mut of_bob).await, wait(&mut of_carol).await], [None, None]);
}

#[tokio::test]
async fn l9_who_is_next_is_told_in_memory_and_through_both_clients() {
    who_is_next_is_told(MemoryStore::new()).await;
    let server = Server::start();
    who_is_next_is_told(redis_rs(&server)).await;
    redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    who_is_next_is_told(fred(&server)).await;
}
