//! redis-rs and fred on one server at once: one limiter, one lock, and the same bytes.

use std::time::Duration;

use fred::types::config::Config;
use lockage::store::lock::{Answer, HoldId, Lock, Operation, OwnerId};
use lockage::{Key, Limit, Limiter, Store};
use lockage_core::Timestamp;
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use lockage_suite::START_US;
use lockage_tests::server::{Server, VirtualClock};

const LIMITS: [&str; 6] = [
    "fixed-window 7/60s",
    "sliding-log 7/60s",
    "sliding-window 7/60s",
    "token-bucket 7/60s burst 7",
    "token-bucket 7 every 60s burst 7",
    "leaky-bucket 7/60s queue 7",
];

fn redis_rs(server: &Server) -> RedisStore {
    RedisStore::connect(redis::Client::open(server.url()).unwrap())
}

fn fred(server: &Server) -> FredStore {
    FredStore::connect(Config::from_url(&server.url()).unwrap())
}

/// Returns the bytes of a record, with its type.
fn bytes(server: &Server, key: &str) -> Vec<u8> {
    redis::cmd("DUMP").arg(key).query(&mut server.connection()).unwrap()
}

/// Charges through one client count for the other, and either gives the answers that one alone would give.
#[tokio::test]
async fn a_limiter_is_one() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    for (index, limit) in LIMITS.into_iter().enumerate() {
        let limit: Limit = limit.parse().unwrap();
        let prefix = format!("one{index}");
        let first = Limiter::new(redis_rs(&server), limit).with_prefix(prefix.as_str()).unwrap();
        let second = Limiter::new(fred(&server), limit).with_prefix(prefix.as_str()).unwrap();
        for step in 0..4 {
            clock.set(START_US + step * 1_000_000);
            let mixed = match step % 2 {
                0 => first.try_acquire("mixed", 2).await.unwrap(),
                _ => second.try_acquire("mixed", 2).await.unwrap(),
            };
            assert_eq!(mixed, first.try_acquire("first", 2).await.unwrap(), "{limit}");
            assert_eq!(mixed, second.try_acquire("second", 2).await.unwrap(), "{limit}");
            assert_eq!(mixed.is_allowed(), step < 3, "{limit}");
            let record = |id: &str| bytes(&server, &format!("{prefix}:{{{id}}}"));
            assert_eq!(record("mixed"), record("first"), "{limit}");
            assert_eq!(record("mixed"), record("second"), "{limit}");
            assert_eq!(
                first.peek("mixed", 1).await.unwrap(),
                second.peek("mixed", 1).await.unwrap(),
                "{limit}"
            );
        }
    }
}

/// E1: callers of both together are admitted within the limit.
#[tokio::test]
async fn together_they_admit_the_limit() {
    let server = Server::start();
    let limit: Limit = "fixed-window 50/day".parse().unwrap();
    let first = Limiter::new(redis_rs(&server), limit);
    let second = Limiter::new(fred(&server), limit);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (first, second) = (first.clone(), second.clone());
        calls.spawn(async move { first.try_acquire("id", 1).await.unwrap().is_allowed() });
        calls.spawn(async move { second.try_acquire("id", 1).await.unwrap().is_allowed() });
    }
    assert_eq!(calls.join_all().await.into_iter().filter(|allowed| *allowed).count(), 50);
}

/// L1 to L3, L5: a lock that is held through one client is held for the other.
#[tokio::test]
async fn a_lock_is_one() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let (first, second) = (redis_rs(&server), fred(&server));
    let lock = Lock::new(Duration::from_secs(30), Duration::from_secs(60)).unwrap();
    let (alice, bob) = (OwnerId::from_u128(0xA11CE), OwnerId::from_u128(0xB0B));
    let id = HoldId::from_u128;
    let acquire = |owner, number| lock.acquire(owner, id(number), Timestamp::MAX);

    let Answer::Held(held) = answer(&first, acquire(alice, 1)).await else { panic!("it is free") };
    for refused in [acquire(bob, 2), lock.release(bob, id(1))] {
        let Answer::Refused(Some(holder)) = answer(&second, refused).await else {
            panic!("L1, L3")
        };
        assert_eq!((holder.owner, holder.hold.token), (alice, held.token));
    }
    let Answer::Held(again) = answer(&second, acquire(alice, 4)).await else { panic!("L2") };
    assert_eq!((again.holds, again.token), (2, held.token), "L2");
    // L10: the same operation through the other one is done once.
    assert_eq!(answer(&first, acquire(alice, 4)).await, Answer::Held(again));
    for (number, holds) in [(1, 1), (4, 0)] {
        let released = Answer::Released { token: held.token, holds };
        assert_eq!(answer(&second, lock.release(alice, id(number))).await, released, "L3");
        assert_eq!(answer(&first, lock.release(alice, id(number))).await, released, "L10");
    }
    let Answer::Held(next) = answer(&second, acquire(bob, 7)).await else { panic!("it is free") };
    assert!(next.token > held.token, "L5");
    let (key, inspect) = (key("lock"), lock.inspect());
    assert_eq!(
        first.execute(&key, &inspect).await.unwrap(),
        second.execute(&key, &inspect).await.unwrap()
    );
}

/// The same operations at the same times leave the same bytes.
#[tokio::test]
async fn locks_have_the_same_bytes() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let lock = Lock::new(Duration::from_secs(30), Duration::from_secs(60)).unwrap();
    let owner = OwnerId::from_u128(7);
    let operations = [
        lock.acquire(owner, HoldId::from_u128(1), Timestamp::MAX),
        lock.acquire(owner, HoldId::from_u128(2), Timestamp::MAX),
        lock.renew(owner, None),
        lock.release(owner, HoldId::from_u128(1)),
    ];
    for (step, operation) in operations.iter().enumerate() {
        clock.set(START_US + step as u64 * 1_000_000);
        let first = redis_rs(&server).execute(&key("first"), operation).await.unwrap();
        assert_eq!(first, fred(&server).execute(&key("second"), operation).await.unwrap());
        assert_eq!(bytes(&server, "both:{first}"), bytes(&server, "both:{second}"));
    }
}

async fn answer(store: &impl Store, operation: Operation) -> Answer {
    store.execute(&key("lock"), &operation).await.unwrap().answer
}

fn key(id: &str) -> Key {
    Key::new("both", id).unwrap()
}
