//! Acknowledgements count only replicas that have the write, on each client and topology.

use std::time::Duration;

use fred::types::config::Config;
use lockage::runtime::Tokio;
use lockage::store::lock::{Answer, HoldId, Lock, Operation, OwnerId};
use lockage::store::{Command, Replicated, Timestamp};
use lockage::{AnyStore, Error, Key, Locks, RetryStore, Store, StoreError};
use lockage_core::{Acquire, Limit, Peek};
use lockage_fred::FredStore;
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate};
use lockage_redis_rs::RedisStore;
use lockage_tests::server::{Cluster, Proxy, Sentinels, Server};
use redis::cluster::ClusterClientBuilder;
use redis::sentinel::{SentinelClient, SentinelServerType};
use tokio::time::Instant;

/// Long enough to be sent.
const PATIENCE: Duration = Duration::from_millis(300);
/// Longer than the clients wait for other replies.
const LONG: Duration = Duration::from_millis(1500);
/// Much longer than that.
const DEADLINE: Duration = Duration::from_secs(20);

fn key(id: &str) -> Key {
    Key::new("replicated", id).unwrap()
}

fn lock() -> Lock {
    Lock::new(Duration::from_secs(60), Duration::from_secs(60)).unwrap()
}

/// Returns an acquire by an owner of its own, which the id of its operation identifies.
fn acquire(id: u128) -> Operation {
    lock().acquire(OwnerId::from_u128(id), HoldId::from_u128(id), Timestamp::MAX)
}

fn redis_rs(url: &str) -> RedisStore {
    RedisStore::connect(redis::Client::open(url).unwrap())
}

fn fred(url: &str) -> FredStore {
    FredStore::connect(Config::from_url(url).unwrap())
}

/// Tries until it is done: a server or a client that has just come up may need more than one call. How many
/// replicas have acknowledged it.
async fn acknowledged<C>(store: &impl Replicated, key: &Key, command: &C, patience: Duration) -> u32
where
    C: Command<Outcome: Send> + Sync,
{
    let start = Instant::now();
    loop {
        match store.execute_acknowledged(key, command, 1, patience).await {
            Ok((_, count)) => return count,
            Err(error) => assert!(start.elapsed() < DEADLINE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The behaviour with one master and one replica.
async fn a_replica_is_waited_for(url: &str, replica: &Server, store: impl Replicated) {
    let (first, _) = store.execute_acknowledged(&key("a"), &acquire(1), 1, DEADLINE).await.unwrap();
    assert!(matches!(first.answer, Answer::Held(_)), "{first:?}");
    let (refused, count) =
        store.execute_acknowledged(&key("a"), &acquire(2), 1, DEADLINE).await.unwrap();
    assert!(matches!(refused.answer, Answer::Refused(_)), "{refused:?}");
    assert_eq!(count, 1);

    replica.freeze();
    let waits = Instant::now();
    let (done, count) = store.execute_acknowledged(&key("b"), &acquire(1), 1, LONG).await.unwrap();
    assert!(matches!(done.answer, Answer::Held(_)), "{done:?}");
    assert_eq!(count, 0);
    assert!(waits.elapsed() >= LONG / 2, "it has waited");
    // One that is done again, by a connection that has written nothing itself, finds a write that no replica has.
    let repeat = acquire(1);
    let (again, count) =
        redis_rs(url).execute_acknowledged(&key("b"), &repeat, 1, PATIENCE).await.unwrap();
    assert_eq!((again.answer, count), (done.answer, 0));
    let (again, count) =
        fred(url).execute_acknowledged(&key("b"), &repeat, 1, PATIENCE).await.unwrap();
    assert_eq!((again.answer, count), (done.answer, 0));
    replica.thaw();
    let (_, count) = store.execute_acknowledged(&key("b"), &repeat, 1, DEADLINE).await.unwrap();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn a_replica_is_waited_for_through_redis_rs() {
    let master = Server::start();
    let replica = Server::replica_of(&master);
    a_replica_is_waited_for(&master.url(), &replica, redis_rs(&master.url())).await;
}

#[tokio::test]
async fn a_replica_is_waited_for_through_fred() {
    let master = Server::start();
    let replica = Server::replica_of(&master);
    // And through a store whose type is not known.
    let store = AnyStore::replicated(fred(&master.url()));
    a_replica_is_waited_for(&master.url(), &replica, store).await;
}

/// A lock is held only where a replica has acknowledged it; where none has, that is said, and the lock is free.
async fn a_lock_is_held_with_its_replica(
    store: impl Replicated + Clone + 'static,
    replica: &Server,
) {
    let timed = RetryStore::new(store, Tokio, Duration::from_secs(2));
    let locks = Locks::new(timed, Duration::from_secs(60)).unwrap();
    let (plain, lock) = (locks.lock("one").unwrap(), locks.with_replicas(1).lock("one").unwrap());
    let guard = lock.acquire().await.unwrap();
    // A refused caller waits for no replica.
    replica.freeze();
    let begin = Instant::now();
    assert!(lock.try_acquire().await.unwrap().taken().is_none());
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    guard.release().await.unwrap();
    let error = lock.try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::NotReplicated { acknowledged: 0, wanted: 1 }), "{error:?}");
    let guard = plain.acquire_within(DEADLINE).await.unwrap().taken().expect("it was given back");
    guard.release().await.unwrap();
    replica.thaw();
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lock_is_held_with_its_replica_through_both() {
    let master = Server::start();
    let replica = Server::replica_of(&master);
    a_lock_is_held_with_its_replica(redis_rs(&master.url()), &replica).await;
    a_lock_is_held_with_its_replica(fred(&master.url()), &replica).await;
}

/// While some calls wait, others go on: those that do not wait, and those that wait as well.
async fn waits_for_replicas_do_not_block_other_calls(
    store: impl Replicated + Clone + 'static,
    replica: &Server,
) {
    acknowledged(&store, &key("a"), &acquire(1), DEADLINE).await;
    replica.freeze();
    let waiting = [(); 3].map(|()| {
        let store = store.clone();
        tokio::spawn(async move {
            store.execute_acknowledged(&key("b"), &acquire(1), 1, DEADLINE).await.unwrap().1
        })
    });
    let inspect = lock().inspect();
    // Until they have been sent.
    while store.execute(&key("b"), &inspect).await.unwrap().holder.is_none() {}
    for _ in 0..100 {
        store.execute(&key("a"), &inspect).await.unwrap();
    }
    let (_, count) = store.execute_acknowledged(&key("c"), &inspect, 1, PATIENCE).await.unwrap();
    assert_eq!(count, 0);
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "they wait all the while");
    replica.thaw();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), 1);
    }
}

#[tokio::test]
async fn waits_for_replicas_do_not_block_other_calls_through_redis_rs() {
    let master = Server::start();
    let replica = Server::replica_of(&master);
    waits_for_replicas_do_not_block_other_calls(redis_rs(&master.url()), &replica).await;
}

#[tokio::test]
async fn waits_for_replicas_do_not_block_other_calls_through_fred() {
    let master = Server::start();
    let replica = Server::replica_of(&master);
    waits_for_replicas_do_not_block_other_calls(fred(&master.url()), &replica).await;
}

/// A connection that is lost between a command and its wait acknowledges nothing, and the next connection
/// acknowledges none of its writes.
async fn a_lost_wait_acknowledges_nothing(store: impl Replicated, replica: &Server, proxy: &Proxy) {
    acknowledged(&store, &key("a"), &acquire(1), DEADLINE).await;
    replica.freeze();
    proxy.cut_before_waits(1);
    let error = store.execute_acknowledged(&key("b"), &acquire(1), 1, PATIENCE).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    let inspect = lock().inspect();
    assert!(store.execute(&key("b"), &inspect).await.unwrap().holder.is_some(), "it was done");
    assert_eq!(acknowledged(&store, &key("b"), &acquire(1), PATIENCE).await, 0);
    // By itself, where it may be done again.
    let store = RetryStore::new(store, Tokio, 4 * PATIENCE);
    proxy.cut_before_waits(1);
    let (done, count) =
        store.execute_acknowledged(&key("c"), &acquire(1), 1, PATIENCE).await.unwrap();
    assert!(matches!(done.answer, Answer::Held(_)), "{done:?}");
    assert_eq!(count, 0);
    replica.thaw();
}

#[tokio::test]
async fn a_lost_wait_acknowledges_nothing_through_redis_rs() {
    let master = Server::start();
    let replica = Server::replica_of(&master);
    let proxy = Proxy::start(master.port());
    a_lost_wait_acknowledges_nothing(redis_rs(&proxy.url()), &replica, &proxy).await;
}

#[tokio::test]
async fn a_lost_wait_acknowledges_nothing_through_fred() {
    let master = Server::start();
    let replica = Server::replica_of(&master);
    let proxy = Proxy::start(master.port());
    a_lost_wait_acknowledges_nothing(fred(&proxy.url()), &replica, &proxy).await;
}

/// Records of each kind are as they were, and expire as they did.
async fn a_wait_changes_nothing(store: impl Replicated, server: &Server) {
    let mut connection = server.connection();
    let limits =
        ["sliding-log 5/h", "token-bucket 5/h"].map(|limit| limit.parse::<Limit>().unwrap());
    for (index, limit) in limits.into_iter().enumerate() {
        let key = key(&index.to_string());
        _ = store.execute(&key, &Acquire::new(limit, 2).unwrap()).await.unwrap();
        let mut seen = || -> (Vec<u8>, i64) {
            let mut both = redis::pipe();
            both.cmd("DUMP").arg(key.as_str()).cmd("PTTL").arg(key.as_str());
            both.query(&mut connection).unwrap()
        };
        let (before, expiry) = seen();
        let peek = Peek::new(limit, 1);
        _ = store.execute_acknowledged(&key, &peek, 0, PATIENCE).await.unwrap();
        let (after, later) = seen();
        assert_eq!(before, after, "{limit}");
        assert!(later > 0 && later <= expiry && expiry - later < 60_000, "{expiry} {later}");
    }
    store.execute_acknowledged(&key("none"), &lock().inspect(), 0, PATIENCE).await.unwrap();
    let left: bool = redis::cmd("EXISTS").arg(key("none").as_str()).query(&mut connection).unwrap();
    assert!(!left);
}

#[tokio::test]
async fn a_wait_changes_nothing_through_both() {
    let server = Server::start();
    a_wait_changes_nothing(redis_rs(&server.url()), &server).await;
    a_wait_changes_nothing(fred(&server.url()), &server).await;
}

/// A cluster's slot moves, and its master is replaced: a command finds its way, and is acknowledged where it was done.
async fn acknowledged_in_a_cluster(all: &mut Cluster, store: impl Replicated) {
    let (key, other) = (key("a"), key("b"));
    let name = key.as_str();
    assert_eq!(acknowledged(&store, &key, &acquire(1), DEADLINE).await, 1);
    let to = (all.master_of(name) + 1) % 3;
    all.begin_migration(name, to);
    assert_eq!(acknowledged(&store, &key, &acquire(2), DEADLINE).await, 1, "not moved yet");
    all.move_keys(name);
    assert_eq!(acknowledged(&store, &key, &acquire(3), DEADLINE).await, 1, "it follows ASK");
    all.end_migration(name);
    assert_eq!(acknowledged(&store, &key, &acquire(4), DEADLINE).await, 1, "it follows MOVED");
    // The owner has been the same all the while.
    let (last, _) = store.execute_acknowledged(&key, &acquire(1), 1, DEADLINE).await.unwrap();
    assert!(matches!(last.answer, Answer::Held(_)), "{last:?}");
    all.fail_over(name);
    assert_eq!(acknowledged(&store, &key, &acquire(1), DEADLINE).await, 1);
    let master = all.master_of(other.as_str());
    all.freeze((master + 3) % 6);
    assert_eq!(acknowledged(&store, &other, &acquire(1), PATIENCE).await, 0);
    all.thaw((master + 3) % 6);
}

#[tokio::test]
async fn acknowledged_in_a_cluster_through_redis_rs() {
    let mut all = Cluster::start();
    // Longer than the patience.
    let builder = || ClusterClientBuilder::new(all.urls()).response_timeout(2 * DEADLINE);
    let store = RedisStore::cluster(builder).unwrap();
    acknowledged_in_a_cluster(&mut all, store).await;
}

#[tokio::test]
async fn acknowledged_in_a_cluster_through_fred() {
    let mut all = Cluster::start();
    let config = nodes("redis-cluster", &all.urls(), "");
    acknowledged_in_a_cluster(&mut all, FredStore::connect(config)).await;
}

/// Returns the client's configuration for these nodes, by a URL of this kind.
fn nodes(scheme: &str, urls: &[String], more: &str) -> Config {
    let nodes: Vec<&str> = urls.iter().map(|url| url.trim_start_matches("redis://")).collect();
    let url = format!("{scheme}://{}?node={}{more}", nodes[0], nodes[1..].join("&node="));
    Config::from_url(&url).unwrap()
}

async fn acknowledged_under_sentinels(all: &mut Sentinels, store: impl Replicated) {
    let (_, count) = store.execute_acknowledged(&key("a"), &acquire(1), 2, DEADLINE).await.unwrap();
    assert_eq!(count, 2);
    let master = all.master();
    all.kill(master);
    all.wait_for_failover();
    assert_eq!(acknowledged(&store, &key("b"), &acquire(1), DEADLINE).await, 1, "one is left");
    let (held, _) = store.execute_acknowledged(&key("a"), &acquire(2), 0, PATIENCE).await.unwrap();
    assert!(matches!(held.answer, Answer::Refused(_)), "the replica had it: {held:?}");
}

#[tokio::test]
async fn acknowledged_under_sentinels_through_redis_rs() {
    let mut all = Sentinels::start();
    let (urls, name) = (all.sentinel_urls(), all.service_name().to_owned());
    let client = SentinelClient::build(urls, name, None, SentinelServerType::Master).unwrap();
    acknowledged_under_sentinels(&mut all, RedisStore::sentinel(client)).await;
}

#[tokio::test]
async fn acknowledged_under_sentinels_through_fred() {
    let mut all = Sentinels::start();
    let more = format!("&sentinelServiceName={}", all.service_name());
    let config = nodes("redis-sentinel", &all.sentinel_urls(), &more);
    acknowledged_under_sentinels(&mut all, FredStore::connect(config)).await;
}

/// A store whose replicas are always there, and which sees to it that no call waits for them until another is over.
struct Counting<S> {
    store: FailingStore<S>,
    longest: Duration,
}

impl<S: Store> Store for Counting<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.store.execute(key, command).await
    }
}

impl<S: Store> Replicated for Counting<S> {
    async fn execute_acknowledged<C>(
        &self,
        key: &Key,
        command: &C,
        replicas: u32,
        patience: Duration,
    ) -> Result<(C::Outcome, u32), StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        assert!(patience < self.longest && !patience.is_zero(), "{patience:?}");
        Ok((self.store.execute(key, command).await?, replicas))
    }
}

/// D11: as a call that does not wait.
#[tokio::test(start_paused = true)]
async fn with_a_timeout_a_call_without_an_answer_is_repeated_where_it_may_be() {
    let flaky = FailingStore::new(MemoryStore::new());
    let timeout = Duration::from_secs(1);
    let timed =
        |longest| RetryStore::new(Counting { store: flaky.clone(), longest }, Tokio, timeout);
    flaky.next([Fate::AnswerLost, Fate::DoneInSilence, Fate::NotDone]);
    let (done, count) = timed(timeout / 4)
        .execute_acknowledged(&key("a"), &acquire(1), 2, Duration::MAX)
        .await
        .unwrap();
    assert!(matches!(done.answer, Answer::Held(_)), "{done:?}");
    assert_eq!((count, flaky.calls()), (2, 4));

    let charge = Acquire::new("fixed-window 5/s".parse::<Limit>().unwrap(), 1).unwrap();
    for fate in [Fate::AnswerLost, Fate::Silence] {
        flaky.next([Fate::NotDone, fate]);
        let error = timed(timeout)
            .execute_acknowledged(&key("b"), &charge, 2, Duration::MAX)
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    }
    assert_eq!(flaky.calls(), 8, "what may have been done is not sent again");
}
