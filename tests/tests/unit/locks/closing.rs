//! Locks that are closed give back their leases, and end their task.

use lockage::Error;

use super::*;

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// L6: a held lock is lost to its guard at once, and free for others by then, without any wait.
#[tokio::test(start_paused = true)]
async fn closed_locks_hold_nothing_and_acquire_nothing() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    let work = tokio::spawn(async move { guard.run(std::future::pending::<()>()).await });
    // The task sleeps until the next renewal.
    sleep(MILLI).await;
    let begin = Instant::now();
    locks.clone().close().await;
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(holder(&store).await, None);
    assert_eq!(work.await.unwrap(), Err(Loss::Closed));
    assert!(matches!(lock.try_acquire().await, Err(Error::Closed)));
    assert!(matches!(locks.lock("two").unwrap().acquire().await, Err(Error::Closed)));
    assert_eq!(tasks(), 0);
    // There is nothing left to close, and nothing to wait for.
    locks.close().await;
}

/// A store that is away for a moment is asked again.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_store() {
    let (locks, store) = locks();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    store.always(Fate::Silence);
    let closing = tokio::spawn(locks.close());
    sleep(SECOND * 5).await;
    assert!(!closing.is_finished() && guard.is_lost());
    store.always(Fate::Answered);
    closing.await.unwrap();
    assert_eq!(holder(&store).await, None);
}

/// And no longer than the leases last.
#[tokio::test(start_paused = true)]
async fn closing_ends_with_the_leases() {
    let (locks, store) = locks();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    store.always(Fate::Silence);
    timeout(LEASE * 2 + SECOND * 2, locks.close()).await.expect("the lease has ended");
    store.always(Fate::Answered);
    assert_eq!(holder(&store).await, None);
    assert!(guard.is_lost());
}

/// Also where a lease is little longer than a call.
#[tokio::test(start_paused = true)]
async fn a_short_lease_has_ended_when_closing_ends() {
    let (_, store) = locks();
    let short = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), SECOND * 3 / 2).unwrap();
    let _held = short.lock("one").unwrap().acquire().await.unwrap();
    store.always(Fate::Silence);
    short.close().await;
    store.always(Fate::Answered);
    assert_eq!(holder(&store).await, None);
}

/// An attempt that is under way is waited for, and its grant is given back.
#[tokio::test(start_paused = true)]
async fn an_attempt_under_way_leaves_nothing_behind() {
    let (_, store) = locks();
    let slow = Slow::new(&store, vec![(MILLI * 100, MILLI * 100)]);
    let locks = Locks::new(RetryStore::new(slow, Tokio, SECOND), LEASE).unwrap();
    let lock = locks.lock("one").unwrap();
    let attempt = tokio::spawn(async move { lock.try_acquire().await });
    // The first call only asks for the store's time.
    sleep(MILLI * 350).await;
    assert!(holder(&store).await.is_some(), "it is granted, and not answered");
    locks.close().await;
    assert!(matches!(attempt.await.unwrap(), Err(Error::Closed)));
    assert_eq!(holder(&store).await, None);
}

/// An attempt that is under way and refused is waited for, and no longer.
#[tokio::test(start_paused = true)]
async fn closing_ends_with_a_refused_attempt() {
    let (others, store) = locks();
    let slow = Slow::new(&store, vec![(MILLI * 100, MILLI * 100)]);
    let locks = Locks::new(RetryStore::new(slow, Tokio, SECOND), LEASE).unwrap();
    let _held = others.lock("one").unwrap().acquire().await.unwrap();
    let lock = locks.lock("one").unwrap();
    let attempt = tokio::spawn(async move { lock.try_acquire().await });
    sleep(MILLI * 350).await;
    let begin = Instant::now();
    locks.close().await;
    assert!(begin.elapsed() < MILLI * 60, "{:?}", begin.elapsed());
    assert!(attempt.await.unwrap().unwrap().taken().is_none());
}

/// The task of locks that hold nothing ends with their last handle, at once.
#[tokio::test(start_paused = true)]
async fn the_task_ends_with_the_last_handle() {
    let (locks, _) = locks();
    locks.lock("one").unwrap().acquire().await.unwrap().release().await.unwrap();
    sleep(MILLI).await;
    assert_eq!(tasks(), 1);
    drop(locks);
    sleep(MILLI).await;
    assert_eq!(tasks(), 0);
}
