//! A lock lives as long as its holder's executor.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};

use lockage::locks::{LockGuard, Loss};
use lockage::{Key, Locks, RetryStore, Store, StoreError};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use tokio::time::{Instant, sleep, timeout};

use super::*;

const LEASE: Duration = Duration::from_secs(30);

type Memory = FailingStore<MemoryStore<TokioClock>>;
type Guard = LockGuard<Memory, Executors>;

struct World {
    executors: Executors,
    store: Memory,
    locks: Locks<Memory, Executors>,
}

impl World {
    /// Makes a scene in which the first acquire was made on executor 1.
    async fn new() -> Self {
        let (executors, store) = (Executors::default(), FailingStore::new(paused_memory()));
        let timed = RetryStore::new(store.clone(), executors.clone(), SECOND);
        let world = World { executors, store, locks: Locks::new(timed, LEASE).unwrap() };
        world.acquire(1, "first").await.release().await.unwrap();
        world
    }

    async fn acquire(&self, here: u64, name: &str) -> Guard {
        let lock = self.locks.lock(name).unwrap();
        self.executors.run(here, async move { lock.acquire().await.unwrap() }).await.unwrap()
    }

    /// Returns whether it is free, by the store.
    async fn is_free(&self, name: &str) -> bool {
        is_free(&self.store, name).await
    }

    /// Ends or blocks executor 1.
    async fn fail_first(&self, ends: bool) {
        match ends {
            true => self.executors.end(1).await,
            false => self.executors.block(1, true),
        }
    }
}

/// Whether it is free, by the store.
async fn is_free(store: &Memory, name: &str) -> bool {
    let other = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), LEASE).unwrap();
    let lock = other.lock(name).unwrap();
    lock.inspect().await.unwrap().holder.is_none()
}

/// L6: the executor of the first acquire ends or is blocked, and holders on another one keep their locks, though they
/// call nothing.
#[tokio::test(start_paused = true)]
async fn l6_a_lock_outlives_the_executor_of_the_first_acquire() {
    for ends in [true, false] {
        let world = World::new().await;
        let guard = world.acquire(2, "one").await;
        world.fail_first(ends).await;
        sleep(LEASE * 5).await;
        assert!(guard.time_left().is_ok(), "{ends}");
        assert!(!world.is_free("one").await);
    }
}

/// L6: a guard that was moved away from its executor is renewed by any task that lives.
#[tokio::test(start_paused = true)]
async fn l6_a_lock_outlives_the_executor_of_its_acquire() {
    for ends in [true, false] {
        // A caller has acquired something on the other one; or the guard is looked at there; or it is waited for, to the
        // end or for a moment.
        for other in 0..4 {
            let world = World::new().await;
            let guard = world.acquire(1, "one").await;
            if other == 0 {
                drop(world.acquire(2, "two").await);
            }
            world.fail_first(ends).await;
            let held = world.executors.run(2, async move {
                if other == 1 {
                    assert!(!guard.is_lost());
                }
                let hold = sleep(LEASE * 5);
                if other == 3 {
                    guard.run(sleep(SECOND)).await?;
                }
                match other {
                    2 => guard.run(hold).await,
                    _ => {
                        hold.await;
                        Ok(())
                    }
                }
                .and_then(|()| guard.time_left())
            });
            let held = held.await.unwrap();
            assert!(held.is_ok(), "{ends} {other}: {held:?}");
        }
    }
}

/// L6: where no executor is, whoever runs work under the lock renews it.
#[tokio::test(start_paused = true)]
async fn l6_work_under_the_lock_renews_it() {
    let world = World::new().await;
    let guard = world.acquire(1, "one").await;
    world.executors.block(1, true);
    assert_eq!(guard.run(sleep(LEASE * 5)).await, Ok(()));
    // And no longer.
    sleep(LEASE).await;
    assert_eq!(guard.lost().await, Loss::Expired);
}

/// L6: a renewal that never ends, since its thread was blocked while it was under way, or that was dropped with its
/// executor, is made by another task.
#[tokio::test(start_paused = true)]
async fn l6_a_renewal_under_way_is_taken_over() {
    for ends in [true, false] {
        let world = World::new().await;
        let (guard, other) = (world.acquire(1, "one").await, world.acquire(2, "two").await);
        let begin = Instant::now();
        // Both are due at the same time; one of them is not answered.
        world.store.next([Fate::Silence; 2]);
        sleep(LEASE / 3 + SECOND / 10).await;
        assert!(world.store.calls() >= 2);
        world.fail_first(ends).await;
        sleep(LEASE * 2 - begin.elapsed()).await;
        assert!(guard.time_left().is_ok() && other.time_left().is_ok(), "{ends}");
    }
}

/// L8: a guard that is dropped after its executor has ended, inside of another one or outside of any, does not panic, and
/// the lock is free soon.
#[tokio::test(start_paused = true)]
async fn l8_a_guard_that_outlives_its_executor_is_given_back() {
    for is_inside in [true, false] {
        let world = World::new().await;
        let guard = world.acquire(1, "one").await;
        world.executors.end(1).await;
        match is_inside {
            true => world.executors.run(2, async move { drop(guard) }).await.unwrap(),
            false => {
                drop(guard);
                sleep(SECOND).await;
                assert!(!world.is_free("one").await, "nobody lives who could release it");
                let begin = Instant::now();
                drop(world.acquire(2, "one").await);
                assert!(begin.elapsed() < SECOND);
            }
        }
        sleep(SECOND).await;
        assert!(world.is_free("one").await, "{is_inside}");
    }
}

/// L8: a release that is under way when its executor ends is made by another task.
#[tokio::test(start_paused = true)]
async fn l8_a_release_under_way_is_taken_over() {
    let world = World::new().await;
    let (guard, other) = (world.acquire(1, "one").await, world.acquire(2, "two").await);
    // The first task alone is there to take it.
    world.executors.block(2, true);
    world.store.always(Fate::Silence);
    world.executors.run(1, async move { drop(guard) }).await.unwrap();
    sleep(SECOND * 2).await;
    world.executors.end(1).await;
    world.executors.block(2, false);
    world.store.always(Fate::Answered);
    sleep(SECOND * 2).await;
    assert!(world.is_free("one").await && other.time_left().is_ok());
}

/// L6: a lease is renewed by the task of its executor, each third of it, and by no other while that one lives.
#[tokio::test(start_paused = true)]
async fn l6_each_executor_renews_its_own_leases() {
    let (executors, calls) = (Executors::default(), Calls::default());
    let store = Noting { store: FailingStore::new(paused_memory()), calls: Arc::clone(&calls) };
    let timed = RetryStore::new(store, executors.clone(), SECOND);
    let locks = Locks::new(timed, LEASE).unwrap();
    let mut guards = Vec::new();
    for (here, name) in [(1, "one"), (2, "two"), (3, "three")] {
        let lock = locks.lock(name).unwrap();
        guards
            .push(executors.run(here, async move { lock.acquire().await.unwrap() }).await.unwrap());
        sleep(SECOND / 10).await;
    }
    calls.lock().unwrap().clear();
    sleep(LEASE * 10).await;
    let calls = std::mem::take(&mut *calls.lock().unwrap());
    for (here, name) in [(1, "one"), (2, "two"), (3, "three")] {
        let of_key = calls.iter().filter(|(key, _)| key == &format!("lock:{{{name}}}"));
        let executors: Vec<_> = of_key.map(|(_, here)| *here).collect();
        assert!(executors.iter().all(|it| *it == Some(here)), "{name}: {executors:?}");
        assert!((29..=31).contains(&executors.len()), "{name}: {}", executors.len());
    }
}

/// The keys that were called, and on which executors.
type Calls = Arc<Mutex<Vec<(String, Option<u64>)>>>;

/// A store that notes its calls.
#[derive(Clone)]
struct Noting {
    store: Memory,
    calls: Calls,
}

impl Store for Noting {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: lockage::store::Command<Outcome: Send> + Sync,
    {
        let here = HERE.try_with(|here| *here).ok();
        self.calls.lock().unwrap().push((key.as_str().to_owned(), here));
        sleep(SECOND / 10).await;
        self.store.execute(key, command).await
    }
}

/// L6: the renewals of a blocked executor are made once each, by another task or a waiter for the loss, though each takes
/// a while.
#[tokio::test(start_paused = true)]
async fn l6_late_renewals_are_made_once() {
    for by_waiters in [false, true] {
        let (executors, calls) = (Executors::default(), Calls::default());
        let store = Noting { store: FailingStore::new(paused_memory()), calls: Arc::clone(&calls) };
        let timed = RetryStore::new(store, executors.clone(), SECOND);
        let lock = Locks::new(timed, LEASE).unwrap().lock("one").unwrap();
        let (held, free) = (lock.clone(), lock.clone());
        let guard = executors.run(1, async move { held.acquire().await.unwrap() }).await.unwrap();
        if !by_waiters {
            // Its task lives on the other executor, and so do two more, one of which holds something.
            for here in [2, 3] {
                let lock = free.clone();
                drop(
                    executors
                        .run(here, async move { lock.try_acquire().await.unwrap().taken() })
                        .await,
                );
            }
        }
        executors.block(1, true);
        calls.lock().unwrap().clear();
        let work = async {
            let (one, other) =
                tokio::join!(guard.run(sleep(LEASE * 5)), guard.run(sleep(LEASE * 5)));
            one.and(other)
        };
        match by_waiters {
            true => assert_eq!(work.await, Ok(())),
            false => sleep(LEASE * 5).await,
        }
        assert!(guard.time_left().is_ok(), "{by_waiters}");
        // Each is late by a sixth of a lease: it comes after half of one.
        let renewals = calls.lock().unwrap().len();
        assert!((9..=10).contains(&renewals), "{by_waiters}: {renewals}");
    }
}

/// L6: an executor that ends and begins anew has a task again.
#[tokio::test(start_paused = true)]
async fn l6_an_executor_that_begins_anew_renews() {
    let world = World::new().await;
    let old = world.acquire(1, "old").await;
    world.executors.end(1).await;
    let guard = world.acquire(1, "one").await;
    drop(old);
    sleep(LEASE * 5).await;
    assert!(guard.time_left().is_ok());
    world.executors.run(1, async move { drop(guard) }).await.unwrap();
    sleep(SECOND).await;
    assert!(world.is_free("one").await && world.is_free("old").await);
}

/// Closing waits for the releases that the task of another executor makes.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_releases_of_other_executors() {
    let (executors, store) = (Executors::default(), FailingStore::new(paused_memory()));
    let noting = Noting { store: store.clone(), calls: Calls::default() };
    let locks = Locks::new(RetryStore::new(noting, executors.clone(), SECOND), LEASE).unwrap();
    let lock = locks.lock("one").unwrap();
    let held = async move { drop(lock.acquire().await.unwrap()) };
    executors.run(1, held).await.unwrap();
    sleep(SECOND / 20).await;
    assert!(!is_free(&store, "one").await, "its release is under way");
    let begin = Instant::now();
    executors.run(2, locks.close()).await.unwrap();
    assert!(is_free(&store, "one").await && begin.elapsed() < SECOND, "{:?}", begin.elapsed());
}

/// L8: closing depends on no executor that is blocked, and leaves nothing held.
#[tokio::test(start_paused = true)]
async fn l8_locks_are_closed_beside_a_blocked_executor() {
    let world = World::new().await;
    let (guard, other) = (world.acquire(1, "one").await, world.acquire(2, "two").await);
    // An attempt is under way there as well.
    world.store.next([Fate::Silence]);
    let lock = world.locks.lock("three").unwrap();
    let attempt = world.executors.run(1, async move { drop(lock.acquire().await) });
    tokio::task::yield_now().await;
    world.executors.block(1, true);
    let closing = world.executors.run(2, world.locks.clone().close());
    sleep(SECOND).await;
    assert!(world.is_free("one").await && world.is_free("two").await);
    assert_eq!((guard.time_left(), other.time_left()), (Err(Loss::Closed), Err(Loss::Closed)));
    timeout(LEASE * 3, closing).await.expect("the leases have ended").unwrap();
    world.executors.block(1, false);
    attempt.await.unwrap();
}

/// L8: nor on a task of this executor: closing starts one.
#[tokio::test(start_paused = true)]
async fn l8_locks_are_closed_where_they_have_no_task() {
    let world = World::new().await;
    let guard = world.acquire(1, "one").await;
    world.executors.block(1, true);
    let closing = world.executors.run(2, world.locks.clone().close());
    sleep(SECOND).await;
    assert!(world.is_free("one").await && guard.time_left() == Err(Loss::Closed));
    timeout(SECOND, closing).await.expect("nothing is left to do here").unwrap();
}

/// A store that panics at some calls.
#[derive(Clone)]
struct Panicking(Memory, Arc<AtomicU32>);

impl Store for Panicking {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: lockage::store::Command<Outcome: Send> + Sync,
    {
        let left = |left: u32| left.checked_sub(1);
        if self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok() {
            panic!("as it is told");
        }
        self.0.execute(key, command).await
    }
}

/// L6, L8: a store that panics in the background has not answered.
#[tokio::test(start_paused = true)]
async fn a_store_that_panics_has_not_answered() {
    let (panics, executors) = (Arc::new(AtomicU32::new(0)), Executors::default());
    let store = Panicking(FailingStore::new(paused_memory()), Arc::clone(&panics));
    let timed = RetryStore::new(store, executors.clone(), SECOND);
    let locks = Locks::new(timed, LEASE).unwrap();
    let lock = locks.lock("one").unwrap();
    let guard = executors.run(1, async move { lock.acquire().await.unwrap() }).await.unwrap();
    panics.store(3, Ordering::Relaxed);
    sleep(LEASE * 2).await;
    assert!(guard.time_left().is_ok());
    panics.store(3, Ordering::Relaxed);
    drop(guard);
    sleep(SECOND).await;
    let lock = locks.lock("one").unwrap();
    let again =
        executors.run(1, async move { lock.try_acquire().await.unwrap().taken().is_some() });
    assert!(again.await.unwrap());
}

/// The tasks end with the last handle, each on its executor.
#[tokio::test(start_paused = true)]
async fn tasks_end_with_the_last_handle() {
    let world = World::new().await;
    let guard = world.acquire(2, "one").await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let ever = world.executors.run(1, pending::<()>());
    assert_eq!(tasks(), 3);
    drop((world, guard));
    sleep(SECOND).await;
    assert_eq!(tasks(), 1);
    ever.abort();
}
