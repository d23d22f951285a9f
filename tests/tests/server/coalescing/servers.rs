//! Many callers on a few keys, most of them dropped somewhere, on every client of a real server.

use std::collections::HashSet;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fred::types::config::Config;
use lockage::runtime::Tokio;
use lockage::{Decision, Limiter, RetryStore, Store};
use lockage_fred::FredStore;
use lockage_memory::MemoryStore;
use lockage_memory::testing::FailingStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

const KEYS: u64 = 3;
const CALLERS: u64 = 200;
const ROUNDS: u64 = 200;
/// Some callers are denied.
const CAPACITY: u64 = 7500;
/// The longest time that it may take: a caller would wait for ever.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_rs_survives_dropped_callers() {
    let server = Server::start();
    survives(RedisStore::connect(redis::Client::open(server.url()).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fred_survives_dropped_callers() {
    let server = Server::start();
    survives(FredStore::connect(Config::from_url(&server.url()).unwrap())).await;
}

/// In this one a call wakes while it is polled, so that threads meet.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_survives_dropped_callers() {
    survives(FailingStore::new(MemoryStore::new())).await;
}

/// E1: the answers add up to the store's charges, except for dropped callers; no two callers get the same answer,
/// and none waits for ever.
async fn survives<S: Store + Clone + 'static>(store: S) {
    let limit = format!("fixed-window {CAPACITY}/day").parse().unwrap();
    let store = RetryStore::new(store, Tokio, DEADLINE);
    let limiter = Limiter::new(store, limit).with_coalescing(CALLERS as usize).unwrap();
    let mut tally: Vec<Tally> = (0..KEYS).map(|_| Tally::default()).collect();
    for round in 0..ROUNDS {
        let callers = (0..CALLERS).map(|caller| {
            let (limiter, key, cost) = (limiter.clone(), caller % KEYS, caller % 2 + 1);
            tokio::spawn(async move {
                let id = format!("id{key}");
                let end =
                    dropped_somewhere(limiter.try_acquire(&id, cost), round * CALLERS + caller);
                (key, cost, end.await.map(|told| told.expect("the server is up")))
            })
        });
        let callers = callers.collect::<Vec<_>>();
        for caller in callers {
            let end = tokio::time::timeout(DEADLINE, caller).await.expect("it waits for ever");
            let (key, cost, told) = end.unwrap();
            tally[key as usize].count(cost, told);
        }
    }
    for (key, tally) in tally.iter().enumerate() {
        let id = format!("id{key}");
        let peeked = tokio::time::timeout(DEADLINE, limiter.peek(&id, 0)).await.expect("an answer");
        let used = CAPACITY - peeked.unwrap().remaining;
        let account = format!("{used} charged, {tally:?}");
        assert!((tally.admitted..=tally.admitted + tally.lost).contains(&used), "{account}");
        assert!(tally.denied > 0 && tally.admitted > 0 && tally.lost > 0, "{account}");
    }
    let told = limiter.coalescing_stats().unwrap();
    assert_eq!(told.waiting, 0, "something is left behind");
    assert!(told.calls < told.requests && told.largest_call > 1, "{told:?}");
}

/// The answers of some callers for one key.
#[derive(Default)]
struct Tally {
    admitted: u64,
    denied: u64,
    lost: u64,
    /// The remainder after each admission.
    left: HashSet<u64>,
}

impl Tally {
    fn count(&mut self, cost: u64, told: Option<Decision>) {
        match told {
            Some(decision) if decision.is_allowed() => {
                self.admitted += cost;
                assert!(self.left.insert(decision.remaining), "told twice: {decision:?}");
            }
            Some(_) => self.denied += cost,
            None => self.lost += cost,
        }
    }
}

impl std::fmt::Debug for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} admitted, {} denied, {} lost", self.admitted, self.denied, self.lost)
    }
}

/// Keeps one of three callers, drops one after some polls, and one after some time, be it in the middle of being
/// woken.
async fn dropped_somewhere<F: Future>(future: F, number: u64) -> Option<F::Output> {
    let some = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    match number % 3 {
        0 => Some(future.await),
        1 => {
            let (mut future, mut polls) = (pin!(future), some % 6);
            std::future::poll_fn(|context| {
                if polls == 0 {
                    return Poll::Ready(None);
                }
                polls -= 1;
                future.as_mut().poll(context).map(Some)
            })
            .await
        }
        _ => tokio::time::timeout(Duration::from_micros(some % 3000), future).await.ok(),
    }
}
