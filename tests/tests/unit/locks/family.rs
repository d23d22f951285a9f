//! Guards of the lock's family: permits of a semaphore, and the two sides of a read-write lock; and the latch.

use lockage::Error;
use lockage::locks::{RwLockHandle, SemaphoreHandle};

use super::*;
use crate::late_calls::Replicas;

fn busy<G: std::fmt::Debug>(outcome: TryLock<G>) -> Busy {
    match outcome {
        TryLock::Busy(busy) => busy,
        TryLock::Taken(guard) => panic!("it was free: {guard:?}"),
    }
}

async fn used(semaphore: &SemaphoreHandle<Memory, Tokio>) -> u64 {
    semaphore.inspect().await.unwrap().used
}

/// L1: no more permits than the semaphore has are in use, each under a renewed lease; one that is dropped is free
/// again.
#[tokio::test(start_paused = true)]
async fn permits_are_held_and_given_back() {
    let (locks, _) = locks();
    let semaphore = locks.semaphore("one", 3).unwrap();
    let two = taken(semaphore.permits(2).unwrap().try_acquire().await.unwrap());
    let one = taken(semaphore.try_acquire().await.unwrap());
    assert_eq!((two.holds(), one.holds()), (2, 1));
    assert!(one.token() > two.token());
    assert_eq!(busy(semaphore.try_acquire().await.unwrap()), Busy::InUse { retry_after: LEASE });
    sleep(LEASE * 3).await;
    assert_eq!(used(&semaphore).await, 3);
    assert!(two.time_left().is_ok() && one.time_left().is_ok());
    drop(two);
    sleep(MILLI).await;
    assert_eq!(used(&semaphore).await, 1);
    assert_eq!(one.release().await.unwrap(), Released::Free);
    assert_eq!(used(&semaphore).await, 0);
}

/// Bad input is refused before anything is sent.
#[tokio::test(start_paused = true)]
async fn permits_that_can_never_be_had_are_refused_at_once() {
    let (locks, store) = locks();
    assert!(matches!(locks.semaphore("one", 0), Err(Error::Config(_))));
    assert!(matches!(locks.semaphore("one", 1001), Err(Error::Config(_))));
    let semaphore = locks.semaphore("one", 3).unwrap();
    assert!(semaphore.permits(0).is_err() && semaphore.permits(4).is_err());
    assert_eq!(store.calls(), 0);
}

/// L8: the permit of a holder that is gone is free when its lease ends, and a waiter has it within one poll.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_a_permit_has_it_within_the_lease_and_one_poll() {
    let (locks, store) = locks();
    let others = Locks::new(RetryStore::new(store, Tokio, SECOND), LEASE).unwrap();
    // It is not renewed any more, and never given back.
    let gone = others.with_longest_hold(SECOND * 2).unwrap().semaphore("one", 1).unwrap();
    std::mem::forget(gone.acquire().await.unwrap());
    let begin = Instant::now();
    let guard = locks.semaphore("one", 1).unwrap().acquire().await.unwrap();
    assert!(begin.elapsed() <= LEASE + POLL, "{:?}", begin.elapsed());
    assert!(begin.elapsed() >= LEASE - MILLI && guard.time_left().is_ok());
}

/// L1, L2: readers share the lock, a writer has it alone.
#[tokio::test(start_paused = true)]
async fn readers_share_and_a_writer_is_alone() {
    let (locks, _) = locks();
    let (read, write) = (locks.read_lock("one").unwrap(), locks.write_lock("one").unwrap());
    let readers = [read.acquire().await.unwrap(), read.acquire().await.unwrap()];
    assert!(matches!(busy(write.try_acquire().await.unwrap()), Busy::InUse { .. }));
    sleep(LEASE * 2).await;
    assert!(readers.iter().all(|reader| reader.time_left().is_ok()));
    drop(readers);
    sleep(MILLI).await;
    let writer = taken(write.try_acquire().await.unwrap());
    assert!(matches!(busy(read.try_acquire().await.unwrap()), Busy::InUse { .. }));
    assert!(matches!(busy(write.try_acquire().await.unwrap()), Busy::InUse { .. }));
    assert_eq!(writer.release().await.unwrap(), Released::Free);
    assert_eq!(read.inspect().await.unwrap().holders, []);
}

/// A writer that waits keeps new readers out, and comes after those that were there.
#[tokio::test(start_paused = true)]
async fn a_waiting_writer_is_not_starved() {
    let (locks, _) = locks();
    let (read, write) = (locks.read_lock("one").unwrap(), locks.write_lock("one").unwrap());
    let reader = read.acquire().await.unwrap();
    let writing = tokio::spawn(async move { write.acquire().await.unwrap() });
    sleep(SECOND).await;
    assert!(matches!(busy(read.try_acquire().await.unwrap()), Busy::InUse { .. }));
    reader.release().await.unwrap();
    let writer = writing.await.unwrap();
    assert!(writer.time_left().is_ok());
}

/// A writer may go on as a reader; a reader may write as the only one, and is refused at once where it is not.
#[tokio::test(start_paused = true)]
async fn one_owner_goes_from_side_to_side() {
    let (locks, _) = locks();
    let owner = locks.new_owner();
    let side = |side: RwLockHandle<Memory, Tokio>| side.as_owner(owner);
    let read = side(locks.read_lock("one").unwrap());
    let write = side(locks.write_lock("one").unwrap());
    let writer = write.acquire().await.unwrap();
    let reader = read.acquire().await.unwrap();
    writer.release().await.unwrap();
    let other = locks.read_lock("one").unwrap().acquire().await.unwrap();
    assert!(matches!(busy(write.try_acquire().await.unwrap()), Busy::Upgrade { .. }));
    let begin = Instant::now();
    assert!(matches!(write.acquire().await, Err(Error::Upgrade)));
    assert!(matches!(busy(write.acquire_within(LEASE).await.unwrap()), Busy::Upgrade { .. }));
    assert!(begin.elapsed() < POLL);
    other.release().await.unwrap();
    let writer = write.acquire().await.unwrap();
    assert_eq!(reader.owner(), writer.owner());
}

/// L2: a waiter goes on when it is counted down, and within a poll.
#[tokio::test(start_paused = true)]
async fn a_latch_lets_all_go_on_at_zero() {
    let (locks, _) = locks();
    let latch = locks.latch("one", LEASE).unwrap();
    assert!(latch.set(2).await.unwrap() && !latch.set(1).await.unwrap());
    let begin = Instant::now();
    let waiting = [(); 3].map(|()| {
        let latch = latch.clone();
        tokio::spawn(async move { latch.wait().await.unwrap() })
    });
    assert_eq!(latch.wait_within(SECOND).await.unwrap(), 2);
    assert_eq!(latch.count_down(1).await.unwrap(), 1);
    assert_eq!(latch.count_down(5).await.unwrap(), 0);
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert!(begin.elapsed() < SECOND + POLL * 2, "{:?}", begin.elapsed());
    assert_eq!(latch.reset().await.unwrap(), Some(0));
}

/// A waiter for a latch that is forgotten does not wait for ever.
#[tokio::test(start_paused = true)]
async fn a_latch_that_is_not_kept_is_open() {
    let (locks, _) = locks();
    let latch = locks.latch("one", LEASE).unwrap();
    latch.set(1).await.unwrap();
    let begin = Instant::now();
    latch.wait().await.unwrap();
    assert!(begin.elapsed() >= LEASE && begin.elapsed() < LEASE + POLL, "{:?}", begin.elapsed());
}

/// A waiter that no countdown wakes looks half a poll after it is open at the latest.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_a_latch_looks_when_it_is_open() {
    let (locks, _) = locks();
    let (locks, mut all) = (locks.with_wake_ups(), JoinSet::new());
    let begin = Instant::now();
    for number in 0..20 {
        let latch = locks.latch(&format!("latch {number}"), LEASE).unwrap();
        latch.set(1).await.unwrap();
        all.spawn(async move {
            latch.wait().await.unwrap();
            begin.elapsed()
        });
    }
    let waits = all.join_all().await;
    assert!(waits.iter().all(|wait| *wait <= LEASE + SECOND / 2 + MILLI * 10), "{waits:?}");
}

/// With wake-ups no waiter waits for a poll: each one that a release concerns comes, one after another.
#[tokio::test(start_paused = true)]
async fn waiters_for_each_kind_of_lease_are_notified() {
    let (locks, store) = locks();
    let locks = locks.with_wake_ups().with_poll(LEASE);
    let semaphore = locks.semaphore("one", 3).unwrap();
    let all = semaphore.permits(3).unwrap().acquire().await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..3 {
        let semaphore = semaphore.clone();
        waiting.spawn(async move { semaphore.acquire().await.unwrap() });
    }
    sleep(MILLI).await;
    all.release().await.unwrap();
    let held = timeout(SECOND, waiting.join_all()).await.expect("there is room for all");
    drop(held);
    let (read, write) = (locks.read_lock("two").unwrap(), locks.write_lock("two").unwrap());
    let writer = write.acquire().await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..3 {
        let read = read.clone();
        waiting.spawn(async move { read.acquire().await.unwrap() });
    }
    sleep(MILLI).await;
    let calls = store.calls();
    writer.release().await.unwrap();
    let readers = timeout(SECOND, waiting.join_all()).await.expect("they read together");
    assert_eq!(store.calls() - calls, 4);
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { write.acquire().await.unwrap() });
    sleep(MILLI).await;
    drop(readers);
    timeout(SECOND, waiting.join_all()).await.expect("the last reader tells the writer");
    let latch = locks.latch("three", LEASE).unwrap();
    latch.set(1).await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..3 {
        let latch = latch.clone();
        waiting.spawn(async move { latch.wait().await.unwrap() });
    }
    sleep(MILLI).await;
    latch.count_down(1).await.unwrap();
    timeout(SECOND, waiting.join_all()).await.expect("all go on");
}

/// A prefix that could not be one is refused.
#[tokio::test(start_paused = true)]
async fn locks_have_a_prefix_that_keys_can_have() {
    assert!(["", "{", "}"].iter().all(|prefix| locks().0.with_prefix(prefix).is_err()));
    assert!(locks().0.with_prefix("mine").is_ok());
}

/// L10: a change of a latch whose first question, for the store's time, was answered only the second time is made once.
#[tokio::test(start_paused = true)]
async fn l10_a_change_is_made_though_its_first_question_was_repeated() {
    let (locks, store) = locks();
    store.next([Fate::AnswerLost]);
    let latch = locks.latch("one", LEASE).unwrap();
    assert!(latch.set(3).await.unwrap());
    assert_eq!(latch.count_down(1).await.unwrap(), 2);
}

/// Locks show how they wait, and the calls that they were asked for.
#[tokio::test(start_paused = true)]
async fn locks_show_their_options() {
    let (plain, _) = locks();
    let shown = format!("{plain:?}");
    let options = |on| format!("wake_ups: {on}, replicas: {on}, observer: {on}, ..");
    assert!(shown.contains(&options(false)), "{shown}");
    let replicas = Replicas::new(&FailingStore::new(paused_memory()), 1, Duration::ZERO);
    let full = Locks::new(RetryStore::new(replicas, Tokio, SECOND), LEASE).unwrap();
    let full = full.with_wake_ups().with_replicas(1).with_observer("one", Unmoved);
    let shown = format!("{full:?}");
    assert!(shown.contains(&options(true)), "{shown}");
}

/// An observer that does nothing.
struct Unmoved;

impl lockage::observer::Observer for Unmoved {}
