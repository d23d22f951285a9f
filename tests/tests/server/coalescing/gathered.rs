//! Several keys in one call, through both clients.

use std::sync::Arc;
use std::time::Duration;

use fred::types::config::Config;
use lockage::runtime::Tokio;
use lockage::store::{Clock, RecordError, Timestamp};
use lockage::{Decision, Key, Limit, RetryStore, Store, StoreError};
use lockage_core::{AcquireEach, ManualClock, StoredLimit, StoredLimitOutcome, WithStoredLimit};
use lockage_fred::FredStore;
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate};
use lockage_redis_rs::RedisStore;
use lockage_tests::server::{Cluster, Server};

/// One of each kind, and several together.
const LIMITS: [&str; 7] = [
    "fixed-window 9/10s",
    "sliding-log 9/10s",
    "sliding-window 9/10s",
    "token-bucket 9/10s burst 9",
    "token-bucket 4 every 3s burst 9",
    "leaky-bucket 1/s queue 9",
    "sliding-log 9/10s + fixed-window 20/h",
];
const KEYS: u64 = 30;
const ROUNDS: u64 = 6;

type Outcomes = Vec<Result<Vec<Decision>, StoreError>>;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_763_697_600_000_000).unwrap()))
}

#[tokio::test]
async fn redis_rs_decides_for_each_key_as_by_itself() {
    let (server, clock) = (Server::start(), clock());
    let store = RedisStore::connect(redis::Client::open(server.url()).unwrap());
    assert!(store.supports_batch());
    let store = store.with_clock(Arc::clone(&clock) as Arc<dyn Clock>, Duration::ZERO);
    as_by_itself(&server, &store, &clock).await;
}

#[tokio::test]
async fn fred_decides_for_each_key_as_by_itself() {
    let (server, clock) = (Server::start(), clock());
    let store = FredStore::connect(Config::from_url(&server.url()).unwrap());
    assert!(store.supports_batch());
    let store = store.with_clock(Arc::clone(&clock) as Arc<dyn Clock>, Duration::ZERO);
    as_by_itself(&server, &store, &clock).await;
}

/// D12: with equal costs and others, under records of other limits, and next to keys of another type, each key
/// gets the answer of a call of its own.
async fn as_by_itself(server: &Server, store: &impl Store, clock: &Arc<ManualClock>) {
    let memory = MemoryStore::with_clock(Arc::clone(clock));
    let foreign = Key::new("gathered", "foreign").unwrap();
    let mut connection = server.connection();
    let push = redis::cmd("HSET").arg(foreign.as_str()).arg("a").arg("b").exec(&mut connection);
    push.unwrap();
    for (number, limit) in LIMITS.iter().enumerate() {
        let limit: Limit = limit.parse().unwrap();
        for round in 0..ROUNDS {
            // Costs from a fixed formula, so that each run is the same.
            let cost = |key: u64, at: u64| match round {
                0 => 1,
                _ => (key * 31 + round * 17 + at * 7 + number as u64) % 4 + 1,
            };
            let costs = |key: u64| (0..=(key + round) % 3).map(|at| cost(key, at)).collect();
            let each = |key: u64| AcquireEach::new(limit, costs(key)).unwrap();
            // Half of the keys were used under the limit before, which only their own scripts convert.
            let key =
                |key: u64| Key::new("gathered", &format!("{key}:{}", number as u64 * (key % 2)));
            let mut calls: Vec<(Key, AcquireEach)> =
                (0..KEYS).map(|number| (key(number).unwrap(), each(number))).collect();
            calls.insert(3, (foreign.clone(), each(3)));
            let refs: Vec<_> = calls.iter().map(|(key, command)| (key, command)).collect();
            let mut told = store.execute_batch(&refs, Duration::MAX).await;
            let refused = told.remove(3).unwrap_err();
            assert!(matches!(refused, StoreError::Record(RecordError::OtherKind)), "{refused:?}");
            calls.remove(3);
            for ((key, command), told) in calls.iter().zip(told) {
                assert_eq!(told.unwrap(), memory.execute(key, command).await.unwrap(), "{key}");
            }
            clock.advance(Duration::from_micros(1_300_001));
        }
    }
    let stored: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    assert!(stored.len() as u64 > KEYS);
    under_stored_limits(store).await;
}

/// D12: calls that are alike, each under the limit that is stored with its key.
async fn under_stored_limits(store: &impl Store) {
    let limit: StoredLimit = "fixed-window 5/h".parse().unwrap();
    let each = AcquireEach::new(limit.limit(), vec![1]).unwrap();
    let call = WithStoredLimit::or_under(&each, limit);
    let keys = twenty_keys("stored");
    for left in [4, 3] {
        let calls: Vec<_> = keys.iter().map(|key| (key, &call)).collect();
        for told in store.execute_batch(&calls, Duration::MAX).await {
            let StoredLimitOutcome::Done { outcome, .. } = told.unwrap() else { panic!("{left}") };
            assert_eq!(outcome[0].remaining, left);
        }
    }
}

fn twenty_keys(prefix: &str) -> Vec<Key> {
    (0..20).map(|number| Key::new(prefix, &number.to_string()).unwrap()).collect()
}

/// In a cluster each goes to its own node. A store that is not configured for a cluster learns so, and does the
/// same.
#[tokio::test]
async fn in_a_cluster_each_key_is_a_call() {
    let cluster = Cluster::start();
    let url = cluster.urls().remove(0);
    let builder = || redis::cluster::ClusterClientBuilder::new(cluster.urls());
    let of_cluster = RedisStore::cluster(builder).unwrap();
    assert!(!of_cluster.supports_batch());
    assert_eq!(admitted(&of_cluster, "a").await, 20);
    let fred_url = url.replace("redis://", "redis-cluster://");
    let fred = FredStore::connect(Config::from_url(&fred_url).unwrap());
    assert!(!fred.supports_batch());
    assert_eq!(admitted(&fred, "b").await, 20);
    // Those of one node's slots are done, and those of others are sent elsewhere, which it does not follow.
    let one = RedisStore::connect(redis::Client::open(url).unwrap());
    let done = admitted(&one, "c").await;
    assert!((1..20).contains(&done), "{done}");
}

async fn admitted(store: &impl Store, prefix: &str) -> usize {
    twenty(store, prefix).await.iter().filter(|one| one.is_ok()).count()
}

async fn twenty(store: &impl Store, prefix: &str) -> Outcomes {
    let limit: Limit = "fixed-window 5/h".parse().unwrap();
    let each = AcquireEach::new(limit, vec![1]).unwrap();
    let keys = twenty_keys(prefix);
    let calls: Vec<_> = keys.iter().map(|key| (key, &each)).collect();
    store.execute_batch(&calls, Duration::MAX).await
}

/// The calls of a batch that were not done are tried again, and no others; after a lost answer the outcome is
/// unknown.
#[tokio::test(start_paused = true)]
async fn only_batched_calls_not_done_are_retried() {
    let store = FailingStore::new(MemoryStore::new());
    let timed = RetryStore::new(store.clone(), Tokio, Duration::from_secs(5));
    store.next([Fate::Answered, Fate::NotDone, Fate::AnswerLost, Fate::NotDone]);
    let told = twenty(&timed, "a").await;
    let unknown = |one: &Result<_, _>| matches!(one, Err(StoreError::Unknown(_)));
    assert!(told.iter().enumerate().all(|(index, one)| match index {
        2 => unknown(one),
        _ => one.as_ref().is_ok_and(|decisions| decisions[0].remaining == 4),
    }));
    assert_eq!((store.calls(), store.executions()), (22, 20));

    // A store that never answers has certainly taken none of them.
    store.always(Fate::Silence);
    assert!(twenty(&timed, "a").await.iter().all(unknown));
    store.always(Fate::NotDone);
    let told = twenty(&timed, "a").await;
    assert!(told.iter().all(|one| matches!(one, Err(StoreError::NotDone(_)))), "{told:?}");
}
