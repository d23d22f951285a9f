use std::collections::HashMap;
use std::time::Duration;

use lockage::locks::TryLock;
use lockage::observer::{ErrorKind, LeaseKind};
use lockage::runtime::Tokio;
use lockage::{AnyStore, BlockingLocks, Locks, RetryStore};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, lose, paused_memory};
use lockage_oracle::properties::{cases, property};
use proptest::prelude::*;
use tokio::time::sleep;

use super::{Change, Log, Memory, SECOND, Told};
use crate::late_calls::Replicas;

/// Cases when nothing is asked for.
const DEFAULT_CASES: u32 = 200;
const LEASE: Duration = Duration::from_secs(30);
const ZERO: Duration = Duration::ZERO;

fn locks() -> (Locks<Memory, Tokio>, Memory, Log) {
    let (store, log) = (FailingStore::new(paused_memory()), Log::new());
    let timed = RetryStore::new(store.clone(), Tokio, SECOND);
    let locks = Locks::new(timed, LEASE).unwrap().with_observer("invoices", log.clone());
    (locks, store, log)
}

fn changes(log: &Log) -> Vec<Change> {
    let change = |told| match told {
        Told::Lease { change, .. } => change,
        other => panic!("{other:?}"),
    };
    log.take().into_iter().map(change).collect()
}

/// A lock that is acquired, renewed and released, and another caller that waits for it.
#[tokio::test(start_paused = true)]
async fn holding_waiting_and_releasing_are_reported_with_their_times() {
    let (locks, _, log) = locks();
    let lock = locks.lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().taken().is_none());
    assert!(lock.acquire_within(SECOND).await.unwrap().taken().is_none());
    sleep(LEASE / 2).await;
    assert_eq!(
        changes(&log),
        [Change::Acquired(ZERO), Change::Busy(ZERO), Change::Busy(SECOND), Change::Renewed,]
    );
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    sleep(SECOND * 2).await;
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap();
    sleep(SECOND).await;
    drop(guard);
    let told = changes(&log);
    let [Change::Released(held), Change::Acquired(waited), Change::Released(SECOND)] = told[..]
    else {
        panic!("{told:?}");
    };
    assert!(held >= LEASE / 2 + SECOND * 2, "{held:?}");
    assert!(waited >= SECOND * 2 && waited < SECOND * 3, "{waited:?}");
}

/// A loss is reported once, whether the renewal or the holder notices it, and the guard's end after it is no
/// event.
#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_once() {
    let (locks, store, log) = locks();
    let lock = locks.lock("one").unwrap();

    let guard = lock.acquire().await.unwrap();
    lose(&store, "lock:{one}").await;
    sleep(LEASE).await;
    assert!(guard.is_lost() && guard.is_lost());
    drop(guard);
    let told = changes(&log);
    assert!(matches!(told[..], [Change::Acquired(_), Change::Lost(_)]), "{told:?}");

    let guard = lock.acquire().await.unwrap();
    store.always(Fate::NotDone);
    sleep(LEASE * 2).await;
    drop(guard);
    let told = changes(&log);
    let [Change::Acquired(_), .., Change::Lost(held)] = told[..] else { panic!("{told:?}") };
    assert!(held < LEASE, "its owner does not count on its last moments");
    assert!(told.len() > 2, "a renewal failed: {told:?}");
    let is_failure = |change: &&Change| **change == Change::RenewalFailed;
    assert_eq!(told.iter().filter(is_failure).count(), told.len() - 2);

    // A release that finds nothing.
    store.always(Fate::Answered);
    sleep(LEASE).await;
    let guard = lock.acquire().await.unwrap();
    lose(&store, "lock:{one}").await;
    guard.release().await.unwrap();
    assert_eq!(changes(&log), [Change::Acquired(ZERO), Change::Lost(ZERO)]);

    let guard = lock.acquire().await.unwrap();
    locks.close().await;
    drop(guard);
    assert_eq!(changes(&log), [Change::Acquired(ZERO), Change::Lost(ZERO)]);
    assert!(lock.acquire().await.is_err());
    assert_eq!(changes(&log), [Change::Failed(ErrorKind::Refused)]);
}

/// A grant that is not handed out was never acquired.
#[tokio::test(start_paused = true)]
async fn grants_not_handed_out_are_not_reported() {
    let (locks, store, log) = locks();
    let lock = locks.lock("one").unwrap();
    store.always(Fate::DoneInSilence);
    assert!(lock.try_acquire().await.is_err());
    tokio::select! {
        _ = lock.acquire() => panic!("it is silent"),
        () = sleep(SECOND / 2) => {}
    }
    store.always(Fate::Answered);
    sleep(LEASE * 2).await;
    assert_eq!(changes(&log), [Change::Failed(ErrorKind::Unknown)]);

    // Granted, and then given back for want of replicas.
    let timed = RetryStore::new(AnyStore::new(paused_memory()), Tokio, SECOND);
    let locks = Locks::new(timed, LEASE).unwrap().with_replicas(1);
    let locks = locks.with_observer("invoices", log.clone());
    assert!(locks.lock("one").unwrap().try_acquire().await.is_err());
    sleep(LEASE).await;
    assert_eq!(changes(&log), [Change::Failed(ErrorKind::NotDone)]);
}

/// A lease that is lost before its caller gets it, since its locks were closed meanwhile, has begun and ended.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_at_its_beginning_is_reported_whole() {
    let replicas = Replicas::new(&FailingStore::new(paused_memory()), 1, SECOND / 10);
    let log = Log::new();
    let locks = Locks::new(RetryStore::new(replicas, Tokio, SECOND), LEASE).unwrap();
    let locks = locks.with_replicas(1).with_observer("invoices", log.clone());
    let lock = locks.lock("one").unwrap();
    let attempt = tokio::spawn(async move { drop(lock.try_acquire().await) });
    // Its renewal has run, and is not yet acknowledged.
    sleep(SECOND * 3 / 40).await;
    tokio::join!(locks.close(), async { attempt.await.unwrap() });
    let seen = changes(&log);
    assert!(matches!(seen[..], [Change::Acquired(_), Change::Lost(ZERO)]), "{seen:?}");
}

/// Each kind reports its name.
#[tokio::test(start_paused = true)]
async fn each_kind_of_lease_is_reported() {
    let (locks, _, log) = locks();
    drop(locks.lock("one").unwrap().acquire().await.unwrap());
    drop(locks.semaphore("two", 3).unwrap().permits(2).unwrap().acquire().await.unwrap());
    drop(locks.read_lock("three").unwrap().acquire().await.unwrap());
    sleep(SECOND).await;
    drop(locks.write_lock("three").unwrap().acquire().await.unwrap());
    drop(locks.many(["four"]).unwrap().acquire().await.unwrap());
    let kinds = log.take().into_iter().filter_map(|told| match told {
        Told::Lease { name, kind, permits, change: Change::Acquired(_) } => {
            Some((name, kind, permits))
        }
        _ => None,
    });
    let expected = [
        ("one", LeaseKind::Lock, 1),
        ("two", LeaseKind::Semaphore, 2),
        ("three", LeaseKind::Read, 1),
        ("three", LeaseKind::Write, 1),
        ("four", LeaseKind::Lock, 1),
    ];
    let expected =
        expected.map(|(name, kind, permits)| (format!("lock:{{{name}}}"), kind, permits));
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
}

/// Callers that block have observers too.
#[test]
fn blocking_locks_are_observed() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let log = Log::new();
    let locks = BlockingLocks::new(MemoryStore::new(), LEASE, SECOND).unwrap();
    let locks = locks.with_observer("invoices", log.clone());
    locks.lock("one").unwrap().acquire().unwrap().release().unwrap();
    let told = changes(&log);
    assert!(matches!(told[..], [Change::Acquired(_), Change::Released(_)]), "{told:?}");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire(usize),
    Release(usize),
    Drop(usize),
    Force(usize),
    Sleep(u64),
    Fate(Fate),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![
        3 => Just(Fate::Answered),
        1 => Just(Fate::NotDone),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::Silence),
    ];
    let lock = || 0_usize..3;
    let step = prop_oneof![
        4 => lock().prop_map(Step::Acquire),
        2 => lock().prop_map(Step::Release),
        1 => lock().prop_map(Step::Drop),
        1 => lock().prop_map(Step::Force),
        3 => (0_u64..20).prop_map(Step::Sleep),
        2 => fate.prop_map(Step::Fate),
    ];
    prop::collection::vec(step, 1..40)
}

/// Whatever happens, each lease that is acquired ends once, and the reported leases are those that guards hold: a
/// number that goes up and down by these events comes back to zero.
#[test]
fn each_lease_that_is_acquired_ends_once() {
    property("observer_leases", cases(DEFAULT_CASES), &steps(), |steps| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(&steps));
        Ok(())
    });
}

async fn run(steps: &[Step]) {
    let (locks, store, log) = locks();
    let handles = ["a", "b", "c"].map(|name| locks.lock(name).unwrap());
    let mut guards = HashMap::new();
    let mut held = HashMap::<String, i64>::new();
    for &step in steps {
        match step {
            Step::Acquire(lock) => {
                if let Ok(TryLock::Taken(guard)) = handles[lock].try_acquire().await {
                    // A guard that is still there was lost before.
                    guards.insert(lock, guard);
                }
            }
            Step::Release(lock) => {
                if let Some(guard) = guards.remove(&lock) {
                    let _ = guard.release().await;
                }
            }
            Step::Drop(lock) => drop(guards.remove(&lock)),
            Step::Force(lock) => {
                if let Some(guard) = guards.get(&lock) {
                    let _ = handles[lock].force_release(guard.token()).await;
                }
            }
            Step::Sleep(seconds) => sleep(SECOND * u32::try_from(seconds).unwrap()).await,
            Step::Fate(fate) => store.always(fate),
        }
        let lives = guards.values().filter(|guard| !guard.is_lost()).count();
        count(&log, &mut held);
        assert_eq!(held.values().sum::<i64>(), i64::try_from(lives).unwrap(), "{step:?}");
    }
    guards.clear();
    count(&log, &mut held);
    assert!(held.values().all(|&held| held == 0), "{held:?}");
}

fn count(log: &Log, held: &mut HashMap<String, i64>) {
    for told in log.take() {
        let Told::Lease { name, change, .. } = told else { panic!("{told:?}") };
        let held = held.entry(name).or_default();
        match change {
            Change::Acquired(_) => *held += 1,
            Change::Lost(_) | Change::Released(_) => *held -= 1,
            _ => {}
        }
    }
}
