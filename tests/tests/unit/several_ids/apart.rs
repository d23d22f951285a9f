//! D18 on a cluster: requests for ids on several nodes are all charged, or none is.

use std::pin::pin;
use std::task::{Context, Waker};

use lockage::limiter::{Origin, Request};
use lockage::store::{AcquireAll, Identity, OneOutcome};
use lockage_memory::testing::TokioClock;
use lockage_oracle::properties::{cases, property, require};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// A cluster, each tag of which is on a node of its own.
#[derive(Clone)]
struct Nodes(FailingStore<MemoryStore<TokioClock>>);

impl Store for Nodes {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command).await
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::of_cluster(1))
    }

    async fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        match keys.iter().all(|key| key.hash_tag() == keys[0].hash_tag()) {
            true => self.0.execute_all(keys, command, patience).await,
            false => Err(StoreError::Misconfigured("they are on several nodes".into())),
        }
    }
}

type OnNodes = Limiter<RetryStore<Nodes, Tokio>>;

fn nodes() -> (FailingStore<MemoryStore<TokioClock>>, RetryStore<Nodes, Tokio>) {
    let store = FailingStore::new(paused_memory());
    (store.clone(), RetryStore::new(Nodes(store), Tokio, SECOND))
}

const LIMITS: [&str; 8] = [
    "fixed-window 9/min",
    "sliding-window 9/min",
    "sliding-log 9/min",
    "token-bucket 9/min burst 6",
    "token-bucket 3 every 20s burst 9",
    "leaky-bucket 30/min queue 9",
    "in-flight 8 lease 20s",
    "in-flight 9 lease 5s + token-bucket 20/min burst 9",
];

/// A pause in milliseconds, and the limit, id and cost of each request.
type Step = (u64, Vec<(usize, usize, u64)>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let requests = vec((0..LIMITS.len(), 0..2_usize, 1..=4_u64), 1..=4);
    vec((select(vec![0, 1, 500, 5000, 19_000, 61_000]), requests), 1..=40)
}

/// One after the other, calls are decided as where all keys are on one node.
#[test]
fn d18_nodes_decide_as_one_does() {
    property("several_ids_apart", cases(200), &steps(), |steps| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let one_node = RetryStore::new(paused_memory(), Tokio, SECOND);
            let (_, several) = nodes();
            let limiter = |at: usize| LIMITS[at].parse::<Limit>().unwrap();
            let names = LIMITS.map(|text| text.split(' ').next().unwrap().to_owned());
            let prefix = |at: usize| format!("{}{at}", names[at]);
            let all: Vec<_> = (0..LIMITS.len())
                .map(|at| {
                    let new = limiter(at);
                    let one = Limiter::new(one_node.clone(), new).with_prefix(&prefix(at));
                    let other = Limiter::new(several.clone(), new).with_prefix(&prefix(at));
                    (one.unwrap(), other.unwrap())
                })
                .collect();
            for (pause, mut requests) in steps {
                tokio::time::advance(Duration::from_millis(pause)).await;
                requests.sort_unstable();
                requests.dedup_by_key(|(limit, id, _)| (*limit, *id));
                let ids = ["ann", "bob"];
                let ask = |at: usize, id: usize, cost| all[at].0.request(ids[id], cost);
                let one: Vec<_> = requests.iter().map(|it| ask(it.0, it.1, it.2)).collect();
                let ask = |at: usize, id: usize, cost| all[at].1.request(ids[id], cost);
                let other: Vec<_> = requests.iter().map(|it| ask(it.0, it.1, it.2)).collect();
                let one = all[0].0.try_acquire_all(&one).await.unwrap();
                let mut other = all[0].1.try_acquire_all(&other).await.unwrap();
                // After a charge of a log that was given back, it may be late.
                for ((at, ..), (one, other)) in
                    requests.iter().zip(one.decisions.iter().zip(&mut other.decisions))
                {
                    if LIMITS[*at].starts_with("sliding-log") && other.reset_after > one.reset_after
                    {
                        other.reset_after = one.reset_after;
                    }
                }
                require(one == other, || format!("{requests:?}: {one:?}, {other:?}"))?;
            }
            Ok(())
        })
    });
}

fn three(store: &RetryStore<Nodes, Tokio>) -> [OnNodes; 3] {
    ["a", "b", "c"].map(|prefix| {
        let limiter = Limiter::new(store.clone(), limit("fixed-window 9/min"));
        limiter.with_prefix(prefix).unwrap()
    })
}

async fn used(limiter: &OnNodes, id: &str) -> u64 {
    9 - limiter.peek(id, 0).await.unwrap().remaining
}

/// D18: whichever call fails, and however, all are charged, or none is, or the caller knows that some may be.
#[tokio::test(start_paused = true)]
async fn a_failure_charges_none_or_is_unknown() {
    let fates = [Fate::NotDone, Fate::RequestLost, Fate::AnswerLost, Fate::Misconfigured];
    for fate in [Fate::Silence, Fate::DoneInSilence].into_iter().chain(fates) {
        for (before, costs) in (0..8).flat_map(|at| [(at, [2, 3, 4]), (at, [2, 3, 10])]) {
            for lasts in [false, true] {
                let (store, retrying) = nodes();
                let limiters = three(&retrying);
                let ids = ["x", "y", "z"];
                let requests: Vec<Request<'_>> =
                    (0..3).map(|at| limiters[at].request(ids[at], costs[at])).collect();
                store.next(vec![Fate::Answered; before]);
                match lasts {
                    true => store.always(fate),
                    false => store.next([fate]),
                }
                let decided = limiters[0].try_acquire_all(&requests).await;
                store.always(Fate::Answered);
                // Fates of calls that were not made.
                for _ in 0..before {
                    _ = limiters[0].peek("other", 0).await;
                }
                let mut sum = [0; 3];
                for at in 0..3 {
                    sum[at] = used(&limiters[at], ids[at]).await;
                }
                let place = format!("{fate:?} {lasts} after {before}, {costs:?}: {decided:?}");
                match decided {
                    Ok(all) if all.is_allowed() => assert_eq!(sum, costs, "{place}"),
                    Err(Error::Store(StoreError::Unknown(_))) => {}
                    _ => assert_eq!(sum, [0; 3], "{place}"),
                }
            }
        }
    }
}

/// Callers at the same time are admitted as far as there is room, and what is charged is what they were admitted for.
#[tokio::test(start_paused = true)]
async fn callers_at_the_same_time_are_charged_for_admissions() {
    let (_, retrying) = nodes();
    let limiters = three(&retrying);
    let tasks = (0..40).map(|task| {
        let limiters = limiters.clone();
        tokio::spawn(async move {
            let [first, second, _] = &limiters;
            // In either order, and in one call.
            let requests = [first.request("x", 1), second.request("y", 1)];
            let turned = [second.request("y", 1), first.request("x", 1)];
            let requests = if task % 2 == 0 { requests } else { turned };
            first.try_acquire_all(&requests).await.unwrap().is_allowed()
        })
    });
    let mut admitted = 0;
    for task in tasks.collect::<Vec<_>>() {
        admitted += u64::from(task.await.unwrap());
    }
    assert_eq!(admitted, 9);
    assert_eq!((used(&limiters[0], "x").await, used(&limiters[1], "y").await), (9, 9));
}

/// A caller that is dropped in between leaves a charge as any request does: until its window is over.
#[tokio::test(start_paused = true)]
async fn a_crash_in_between_charges_for_a_window() {
    let (store, retrying) = nodes();
    let limiters = three(&retrying);
    {
        let requests = [limiters[0].request("x", 2), limiters[1].request("y", 3)];
        let mut call = pin!(limiters[0].try_acquire_all(&requests));
        while store.executions() < 1 {
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    assert_eq!((used(&limiters[0], "x").await, used(&limiters[1], "y").await), (2, 0));
    tokio::time::advance(60 * SECOND).await;
    assert_eq!(used(&limiters[0], "x").await, 0);
}

/// Reservations that stay open would make the cancellation of an earlier one inexact.
#[tokio::test(start_paused = true)]
async fn a_busy_bucket_gets_back_all_that_was_cancelled() {
    let (store, retrying) = nodes();
    let everybody = Limiter::new(retrying.clone(), limit("token-bucket 1/min burst 100"));
    let everybody = everybody.with_prefix("all").unwrap();
    let users = three(&retrying)[0].clone().with_prefix("user").unwrap();
    let admitted = async |of: std::ops::Range<u64>, cost| {
        for user in of {
            let user = user.to_string();
            let requests = [users.request(&user, 1), everybody.request("all", cost)];
            assert!(users.try_acquire_all(&requests).await.unwrap().is_allowed());
        }
    };
    admitted(0..1, 1).await;
    let denied = [users.request("ann", 10), everybody.request("all", 4)];
    let mut denied = pin!(users.try_acquire_all(&denied));
    let before = store.executions();
    while store.executions() == before {
        assert!(denied.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    admitted(1..21, 4).await;
    assert!(!denied.await.unwrap().is_allowed());
    assert_eq!(everybody.peek("all", 0).await.unwrap().remaining, 100 - 1 - 20 * 4);
}

/// The lease of a stored limit is known to its store alone, and may have become shorter.
#[tokio::test(start_paused = true)]
async fn short_leases_of_stored_limits_are_found() {
    let (_, retrying) = nodes();
    let [first, second, _] = three(&retrying);
    let operator = first.under_stored(StoredLimits::new());
    let stored = first.under_stored(StoredLimits::new());
    for text in ["in-flight 2 lease 5s", "in-flight 2 lease 2s", "fixed-window 2/min"] {
        operator.set_limit("x", limit(text)).await.unwrap();
        for is_allowed in [true, true, false] {
            let requests = [stored.request("x", 1), second.request("y", 1)];
            let decided = stored.try_acquire_all(&requests).await.unwrap();
            assert_eq!(decided.is_allowed(), is_allowed, "{text}");
        }
        tokio::time::advance(20 * SECOND).await;
    }
}

/// A denial stands, also where the store is away before its charges are given back, or the others are looked at.
#[tokio::test(start_paused = true)]
async fn a_denial_is_not_left_to_a_fallback() {
    for answered in 1..8 {
        let (store, retrying) = nodes();
        let limiters =
            three(&retrying).map(|limiter| limiter.with_fallback(Fallback::open()).unwrap());
        let ids = ["x", "y", "z"];
        let requests: Vec<Request<'_>> =
            (0..3).map(|at| limiters[at].request(ids[at], 1)).collect();
        assert!(limiters[1].try_acquire("y", 9).await.unwrap().is_allowed());
        store.next(vec![Fate::Answered; answered]);
        store.always(Fate::NotDone);
        let decided = limiters[0].try_acquire_all(&requests).await;
        // The second answer is the denial, the third gives the first charge back, and two peeks follow.
        let is_allowed = decided.as_ref().map(AllDecision::is_allowed).ok();
        let expected = [Some(true), None, None, None, Some(false)][answered.min(5) - 1];
        assert_eq!(is_allowed, expected, "{answered}: {decided:?}");
        let is_unknown = matches!(decided, Err(Error::Store(StoreError::Unknown(_))));
        assert_eq!(is_unknown, answered == 2, "{answered}: {decided:?}");
    }
}

/// Under stored limits too; and an id of the caller's own names one call.
#[tokio::test(start_paused = true)]
async fn stored_limits_are_charged_apart_and_calls_with_an_id_are_refused() {
    let (_, retrying) = nodes();
    let [first, second, _] = three(&retrying);
    let limits = StoredLimits::new().with_default(limit("fixed-window 3/min"));
    let stored = second.under_stored(limits);
    for is_allowed in [true, false] {
        let requests = [first.request("x", 2), stored.request("y", 2)];
        let decided = first.try_acquire_all(&requests).await.unwrap();
        assert_eq!((decided.is_allowed(), decided.binding), (is_allowed, 1));
        assert!(decided.decisions.iter().all(|decision| decision.origin == Origin::Store));
    }
    assert_eq!(used(&first, "x").await, 2);
    let requests = [first.request("x", 1), second.request("z", 1)];
    let once = first.try_acquire_all_once(&requests, RequestId::from_u128(1), SECOND).await;
    assert!(matches!(once, Err(Error::Store(StoreError::Misconfigured(_)))), "{once:?}");
}
