//! Locks that are held for at least some time (L14).

use lockage::locks::RunOutcome;

use super::*;

const SHORTEST: Duration = Duration::from_secs(20);

/// Returns after how long the lock is free.
async fn free_after(store: &Memory, since: Instant) -> Duration {
    while holder(store).await.is_some() {
        sleep(MILLI * 100).await;
    }
    since.elapsed()
}

fn short(locks: &Locks<Memory, Tokio>) -> LockHandle<Memory, Tokio> {
    locks.lock("one").unwrap().hold_at_least(SHORTEST).unwrap()
}

/// The time is the end of a hold that ends early: released, dropped or run, and the caller of the latter two does not
/// wait.
#[tokio::test(start_paused = true)]
async fn a_hold_that_ends_early_is_kept() {
    let nearly = SHORTEST..SHORTEST + SECOND;
    for way in 0..5 {
        let (locks, store) = locks();
        let (lock, since) = (short(&locks), Instant::now());
        match way {
            0 => {
                let guard = lock.acquire().await.unwrap();
                assert_eq!(guard.release().await.unwrap(), Released::Free);
                assert!(nearly.contains(&since.elapsed()), "{:?}", since.elapsed());
            }
            1 => drop(lock.acquire().await.unwrap()),
            2 => {
                let ran = lock.try_run(async |_| 7).await.unwrap();
                assert_eq!(ran, RunOutcome::Done(7));
            }
            // Work that is dropped, and a release that is.
            3 => {
                let work = async |_| std::future::pending::<()>().await;
                assert!(timeout(SECOND, lock.try_run(work)).await.is_err());
            }
            _ => {
                let guard = lock.acquire().await.unwrap();
                assert!(timeout(SECOND, guard.release()).await.is_err());
            }
        }
        assert!(way == 0 || since.elapsed() <= SECOND, "way {way}");
        let free = free_after(&store, since).await;
        assert!(nearly.contains(&free), "way {way}: {free:?}");
    }
}

/// Also where its release is due before the next renewal of another lock.
#[tokio::test(start_paused = true)]
async fn a_hold_is_not_kept_until_a_renewal() {
    let (locks, store) = locks();
    let _other = locks.lock("other").unwrap().acquire().await.unwrap();
    let since = Instant::now();
    let lock = locks.lock("one").unwrap().hold_at_least(LEASE / 6).unwrap();
    drop(lock.acquire().await.unwrap());
    let free = free_after(&store, since).await;
    assert!((LEASE / 6..LEASE / 6 + SECOND).contains(&free), "{free:?}");
}

/// A lock that may end at once is free when its work's caller goes on.
#[tokio::test(start_paused = true)]
async fn a_run_ends_with_its_release() {
    let (_, store) = locks();
    let slow = Slow::new(&store, vec![(MILLI * 100, MILLI * 100)]);
    let locks = Locks::new(RetryStore::new(slow, Tokio, SECOND), LEASE).unwrap();
    let ran = locks.lock("one").unwrap().try_run(async |_| ()).await.unwrap();
    assert_eq!(ran, RunOutcome::Done(()));
    assert!(holder(&store).await.is_none());
}

/// The store has the grant of a lost lock until its lease ends: a release waits as if it was held (L14).
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_kept() {
    for loss in [Loss::HeldTooLong, Loss::Expired, Loss::Closed] {
        let (locks, store) = locks();
        let shortest = if loss == Loss::Expired { LEASE } else { SHORTEST };
        let locks = match loss {
            Loss::HeldTooLong => locks.with_longest_hold(shortest).unwrap(),
            _ => locks,
        };
        let lock = locks.lock("one").unwrap().hold_at_least(shortest).unwrap();
        let (guard, since) = (lock.acquire().await.unwrap(), Instant::now());
        let lose = async {
            if loss == Loss::Closed {
                locks.close().await;
            } else if loss == Loss::Expired {
                store.always(Fate::NotDone);
                // After its deadline, and before the end of its lease.
                sleep(LEASE - MILLI * 20).await;
                store.always(Fate::Answered);
            }
            assert!(holder(&store).await.is_some());
            since.elapsed()
        };
        let (released, lost_after) = tokio::join!(guard.release(), lose);
        let kept = since.elapsed();
        // Clocks may differ by a thousandth and a millisecond.
        let least = shortest + shortest / 1000 + MILLI;
        assert!((least..least + SECOND).contains(&kept), "{loss}: {kept:?}");
        assert!(lost_after < shortest, "{loss}: {lost_after:?}");
        let is_over = loss == Loss::Expired;
        assert_eq!(released.unwrap() == Released::NotHeld(None), is_over, "{loss}");
    }
}

/// Once it is freed by force, its holder has nothing to wait for.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_freed_by_force_is_not_kept() {
    let (locks, _store) = locks();
    let (lock, since) = (short(&locks), Instant::now());
    let guard = lock.acquire().await.unwrap();
    assert!(lock.force_release(guard.token()).await.unwrap());
    assert_eq!(guard.release().await.unwrap(), Released::NotHeld(None));
    assert!(since.elapsed() < SHORTEST, "{:?}", since.elapsed());
}

/// A hold that lasts longer is released at its end.
#[tokio::test(start_paused = true)]
async fn a_long_hold_is_not_kept() {
    let (locks, store) = locks();
    let (lock, since) = (short(&locks), Instant::now());
    let work = async |_| sleep(LEASE * 2).await;
    assert_eq!(lock.try_run(work).await.unwrap(), RunOutcome::Done(()));
    assert_eq!((since.elapsed(), holder(&store).await), (LEASE * 2, None));
}

/// The lock of a process that ends, or of closed locks, ends with its lease; closing does not wait for that.
#[tokio::test(start_paused = true)]
async fn without_a_task_the_lease_is_kept() {
    for is_closed in [false, true] {
        let (locks, store) = locks();
        let (lock, since) = (short(&locks), Instant::now());
        let guard = lock.acquire().await.unwrap();
        if is_closed {
            locks.close().await;
            assert_eq!(guard.time_left(), Err(Loss::Closed));
            drop((guard, lock));
        } else {
            drop((guard, lock, locks));
        }
        assert!(since.elapsed() < SECOND);
        let free = free_after(&store, since).await;
        assert!((LEASE..LEASE + SECOND).contains(&free), "{is_closed}: {free:?}");
    }
}

/// A grant that its caller does not get is released at once.
#[tokio::test(start_paused = true)]
async fn a_grant_that_nobody_gets_is_not_kept() {
    let (locks, store) = locks();
    store.next([Fate::AnswerLost]);
    let lock = short(&locks);
    let since = Instant::now();
    assert!(timeout(MILLI, lock.acquire()).await.is_err(), "it has no answer yet");
    assert!(free_after(&store, since).await < SHORTEST);
}

/// A crashed holder's lock ends with its lease, so that is the longest time.
#[test]
fn the_lease_is_the_longest_time() {
    let (locks, _) = locks();
    let lock = locks.lock("one").unwrap();
    assert!(lock.hold_at_least(LEASE).is_ok());
    let error = lock.hold_at_least(LEASE + Duration::from_micros(1)).unwrap_err();
    assert!(error.to_string().contains("shortest hold"), "{error}");
    let locks = locks.with_longest_hold(SECOND * 5).unwrap();
    assert!(locks.lock("one").unwrap().hold_at_least(SECOND * 6).is_err());
}
