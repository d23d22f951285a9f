//! Paths by which locks are given back: releases, dropped guards, and calls without an answer.

use super::*;

/// Dropped, a guard gives the lock back in the background, also when the store is away for a while.
#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_given_back() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap();
    drop(lock.acquire().await.unwrap());
    sleep(MILLI).await;
    assert_eq!(holder(&store).await, None);

    let guard = lock.acquire().await.unwrap();
    store.always(Fate::Silence);
    drop(guard);
    // Nor does it need its locks any more.
    drop((lock, locks));
    sleep(LEASE / 3).await;
    store.always(Fate::Answered);
    assert!(holder(&store).await.is_some());
    sleep(SECOND * 3).await;
    assert_eq!(holder(&store).await, None);
    sleep(LEASE * 2).await;
    assert_eq!(
        tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        0,
        "the task has ended"
    );
}

/// A release without an answer is repeated, and done once.
#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_repeated() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap().as_owner(locks.new_owner());
    let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    // Done, without an answer until long after its caller has given up.
    store.next([Fate::DoneInSilence; 4]);
    assert!(inner.release().await.is_err());
    sleep(SECOND).await;
    assert_eq!(holder(&store).await.map(|it| it.hold.holds), Some(1), "L10");
    assert_eq!(outer.release().await.unwrap(), Released::Free);
}

/// The ids of calls are remembered for four timeouts, and at most for half of the longest time.
#[tokio::test(start_paused = true)]
async fn a_released_lock_leaves_the_store() {
    let store = paused_memory();
    let locks = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), LEASE).unwrap();
    drop(locks.lock("one").unwrap().acquire().await.unwrap());
    sleep(LEASE * 2 + SECOND * 4).await;
    store.purge();
    assert!(store.is_empty());
    let years = SECOND * (3600 * 24 * 365);
    let slow = RetryStore::new(store, Tokio, years * 10);
    assert!(Locks::new(slow, years * 30).is_ok());
}

/// A lock taken by a call without an answer is given back, and nothing else.
#[tokio::test(start_paused = true)]
async fn locks_acquired_by_unanswered_calls_are_released() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap().as_owner(locks.new_owner());
    let outer = lock.acquire().await.unwrap();
    for fate in [Fate::DoneInSilence, Fate::AnswerLost, Fate::RequestLost, Fate::Silence] {
        store.always(fate);
        assert!(lock.acquire().await.is_err(), "{fate:?}");
        store.always(Fate::Answered);
        sleep(SECOND * 4).await;
        assert_eq!(holder(&store).await.map(|it| it.hold.holds), Some(1), "{fate:?}");
    }
    assert_eq!(outer.release().await.unwrap(), Released::Free);
}

/// The search for a lock that a call may have taken takes nothing itself.
#[tokio::test(start_paused = true)]
async fn cleanup_of_an_unacquired_lock_acquires_nothing() {
    let (_, store) = locks();
    let slow = Slow::new(&store, vec![(MILLI * 5, MILLI * 5)]);
    let locks = Locks::new(RetryStore::new(slow, Tokio, SECOND), LEASE).unwrap();
    let lock = locks.lock("one").unwrap();
    for fate in [Fate::RequestLost, Fate::Silence] {
        store.always(fate);
        assert!(lock.acquire().await.is_err(), "{fate:?}");
        store.always(Fate::Answered);
        for _ in 0..1000 {
            assert_eq!(holder(&store).await, None, "{fate:?}");
            sleep(MILLI * 3).await;
        }
    }
}

/// A caller that is dropped at any point leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_leaves_nothing_held() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap();
    let mut ended = 0;
    for polls in 0..12 {
        let held = polls % 2 == 1;
        let other = if held { Some(lock.acquire().await.unwrap()) } else { None };
        {
            let mut attempt = pin!(lock.acquire_within(SECOND * 5));
            for _ in 0..polls {
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(outcome) = attempt.as_mut().poll(&mut context) {
                    ended += 1;
                    assert!(outcome.unwrap().taken().is_some());
                    break;
                }
                advance(MILLI * 10).await;
            }
        }
        if let Some(other) = other {
            assert_eq!(other.release().await.unwrap(), Released::Free);
        }
        sleep(SECOND * 3).await;
        assert_eq!(holder(&store).await, None, "after {polls} polls");
    }
    assert!(ended > 0, "some attempts come to their end");
}

/// A release that fails is repeated soon, and seldom after a while.
#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_after_growing_pauses() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap();
    for (outage, most, pause) in [(MILLI * 50, 4, MILLI * 50), (SECOND * 10, 17, SECOND)] {
        let guard = lock.acquire().await.unwrap();
        // Nothing else repeats such a call.
        store.always(Fate::Misconfigured);
        let calls = store.calls();
        drop(guard);
        sleep(outage).await;
        assert!((3..=most).contains(&(store.calls() - calls)), "{}", store.calls() - calls);
        store.always(Fate::Answered);
        sleep(pause).await;
        assert_eq!(holder(&store).await, None, "{outage:?}");
    }
}

/// A refused caller, and one whose question for the store's time has no answer, leave nothing to look for.
#[tokio::test(start_paused = true)]
async fn what_can_take_nothing_is_not_looked_for() {
    let (others, store) = locks();
    let here = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), LEASE).unwrap();
    let lock = here.lock("one").unwrap();
    store.always(Fate::Silence);
    assert!(lock.try_acquire().await.is_err());
    store.always(Fate::Answered);
    let calls = store.calls();
    sleep(SECOND * 5).await;
    assert_eq!(store.calls(), calls);
    let _held = others.lock("one").unwrap().acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().taken().is_none());
    let calls = store.calls();
    assert!(lock.try_acquire().await.unwrap().taken().is_none());
    sleep(SECOND * 5).await;
    assert_eq!(store.calls() - calls, 1);
}
