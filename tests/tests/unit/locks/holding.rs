//! Locks that are held: guards, renewal, and loss.

use super::*;

/// L1, L5: one at a time, with larger tokens, for two calls each.
#[tokio::test(start_paused = true)]
async fn a_lock_is_taken_and_given_back_with_two_calls() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(refused(&locks).await.owner, guard.owner());
    assert_eq!(holder(&store).await.unwrap().hold.token, guard.token());
    let (token, calls) = (guard.token(), store.calls());
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let again = taken(lock.try_acquire().await.unwrap());
    assert!(again.token() > token);
    assert_eq!(store.calls(), calls + 2);
    assert_eq!(
        (again.holds(), lock.inspect().await.unwrap().holder.unwrap().owner),
        (1, again.owner())
    );
}

/// L2: an owner's holds are its acquires less its releases.
#[tokio::test(start_paused = true)]
async fn an_owner_takes_it_more_than_once() {
    let (locks, _) = locks();
    let owner = locks.new_owner();
    let lock = locks.lock("one").unwrap().as_owner(owner);
    let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    assert_eq!((outer.holds(), inner.holds(), inner.token()), (1, 2, outer.token()));
    assert_eq!(outer.release().await.unwrap(), Released::Held(1));
    assert_eq!(refused(&locks).await.owner, owner);
    // The remaining hold is kept for longer than a lease.
    sleep(LEASE * 3).await;
    assert_eq!(inner.time_left().map(|left| left > LEASE / 2), Ok(true));
    assert_eq!(inner.release().await.unwrap(), Released::Free);
}

/// L2: an owner is a name, and no thread or task: another task can take the lock again for it, and give it back.
#[tokio::test(start_paused = true)]
async fn an_owner_is_no_thread() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    let owner: OwnerId = guard.owner().to_string().parse().unwrap();
    let elsewhere = tokio::spawn(async move {
        let again = taken(lock.as_owner(owner).try_acquire().await.unwrap());
        (again.holds(), guard.release().await.unwrap(), again.release().await.unwrap())
    });
    assert_eq!(elsewhere.await.unwrap(), (2, Released::Held(1), Released::Free));
    assert_eq!(holder(&store).await, None);
}

/// L6: a hold is renewed for as long as it is held, each third of the lease, and not once more.
#[tokio::test(start_paused = true)]
async fn a_hold_is_renewed_until_it_is_released() {
    let (locks, store) = locks();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    let calls = store.calls();
    for _ in 0..100 {
        sleep(LEASE / 10).await;
        let left = guard.time_left().unwrap();
        assert!(left > LEASE * 6 / 10 && left < LEASE, "{left:?}");
        let own = guard.deadline().unwrap() - lockage::runtime::Runtime::now(&Tokio);
        assert_eq!(own, left);
    }
    let renewals = store.calls() - calls;
    assert!((29..=31).contains(&renewals), "{renewals} renewals in ten leases");
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let calls = store.calls();
    sleep(LEASE * 5).await;
    assert_eq!(store.calls(), calls, "bug 25: nobody renews what was given back");
}

/// L6: without answers, the holder knows by its own clock that the lock is lost, before it is.
#[tokio::test(start_paused = true)]
async fn a_loss_is_noticed_without_the_store() {
    for fate in [Fate::Silence, Fate::NotDone, Fate::RequestLost] {
        let (locks, store) = locks();
        let guard = locks.lock("one").unwrap().acquire().await.unwrap();
        sleep(LEASE / 2).await; // once renewed, after a third
        let renewed = holder(&store).await.unwrap();
        let deadline = guard.deadline().unwrap();
        store.always(fate);
        assert_eq!(guard.lost().await, Loss::Expired, "{fate:?}");
        store.always(Fate::Answered);
        let now = lockage::runtime::Runtime::now(&Tokio);
        assert!(now >= deadline && now < deadline + MILLI * 2, "{fate:?}: {now:?}, {deadline:?}");
        assert_eq!(holder(&store).await.map(|it| it.owner), Some(renewed.owner), "{fate:?}");
        assert_eq!(guard.deadline(), Err(Loss::Expired));
        assert_eq!(guard.lost().await, Loss::Expired, "once lost, it stays lost");
    }
}

/// L6: at its deadline a lock is lost, and no renewal is sent from then on.
#[tokio::test(start_paused = true)]
async fn l6_a_lock_is_lost_at_its_deadline() {
    let (locks, store) = locks();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    store.always(Fate::NotDone);
    sleep(LEASE * 2 / 3).await;
    advance(guard.time_left().unwrap() - Duration::from_nanos(1)).await;
    assert_eq!(guard.time_left(), Ok(Duration::from_nanos(1)));
    advance(Duration::from_nanos(1)).await;
    assert_eq!(guard.time_left(), Err(Loss::Expired));
    sleep(MILLI).await;
    let calls = store.calls();
    sleep(LEASE).await;
    assert_eq!(store.calls(), calls);
}

/// A waiter for the loss makes no renewal that its task makes in time, and many acquires have one task.
#[tokio::test(start_paused = true)]
async fn one_task_renews_a_lock_that_is_worked_under() {
    let (locks, store) = locks();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    for _ in 0..5 {
        locks.lock("two").unwrap().acquire().await.unwrap().release().await.unwrap();
    }
    let calls = store.calls();
    assert_eq!(guard.run(sleep(LEASE * 10)).await, Ok(()));
    let renewals = store.calls() - calls;
    assert!((29..=31).contains(&renewals), "{renewals} renewals in ten leases");
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 1);
}

/// L3: a grant is not renewed under the name of an earlier one of the same owner.
#[tokio::test(start_paused = true)]
async fn l3_a_renewal_names_its_grant() {
    let (locks, store) = locks();
    let owner = locks.new_owner();
    let lock = locks.lock("one").unwrap().as_owner(owner);
    let first = lock.acquire().await.unwrap();
    assert!(lock.force_release(first.token()).await.unwrap());
    let second = lock.acquire().await.unwrap();
    sleep(LEASE / 2).await;
    assert!(matches!(first.time_left(), Err(Loss::Refused(_))) && second.time_left().is_ok());
    for writes in [true, false] {
        let side = match writes {
            true => locks.write_lock("two").unwrap().as_owner(owner),
            false => locks.read_lock("two").unwrap().as_owner(owner),
        };
        let first = side.acquire().await.unwrap();
        // The store is away until the lease has ended there, and the holder stands still.
        store.always(Fate::NotDone);
        advance(LEASE).await;
        store.always(Fate::Answered);
        let second = side.acquire().await.unwrap();
        sleep(LEASE / 2).await;
        assert!(first.is_lost() && second.time_left().is_ok(), "{writes}");
        drop(first);
        assert_eq!(second.release().await.unwrap(), Released::Free, "{writes}");
    }
}

/// L3: also where the clock of the store was set forward, so that an earlier grant has ended there alone.
#[tokio::test(start_paused = true)]
async fn l3_a_renewal_of_an_ended_grant_names_it() {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock));
    let locks = Locks::new(RetryStore::new(store, Tokio, SECOND), LEASE).unwrap();
    let owner = locks.new_owner();
    for side in [locks.write_lock("one").unwrap(), locks.read_lock("two").unwrap()] {
        let side = side.as_owner(owner);
        let first = side.acquire().await.unwrap();
        clock.advance(LEASE);
        let second = side.acquire().await.unwrap();
        sleep(LEASE / 2).await;
        assert!(matches!(first.time_left(), Err(Loss::Refused(_))), "{:?}", first.time_left());
        assert!(second.time_left().is_ok());
    }
}

/// A denial leaves nothing behind that would have to be released.
#[tokio::test(start_paused = true)]
async fn a_denied_attempt_is_one_call() {
    let (locks, store) = locks();
    let _held = locks.lock("one").unwrap().acquire().await.unwrap();
    let calls = store.calls();
    let denied = locks.lock("one").unwrap().try_acquire().await.unwrap();
    let TryLock::Busy(busy) = denied else { panic!("it is held") };
    assert!(busy.to_string().starts_with("another owner holds it, under the token "), "{busy}");
    sleep(SECOND * 5).await;
    assert_eq!(store.calls(), calls + 1);
}

/// A lock that is being released is not renewed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_release_ends_the_renewals() {
    let store = FailingStore::new(paused_memory());
    let slow = Slow::new(&store, vec![(MILLI * 100, MILLI * 100)]);
    let locks = Locks::new(RetryStore::new(slow, Tokio, SECOND), LEASE).unwrap();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    // The next renewal is due while the release is under way.
    sleep(guard.time_left().unwrap() - LEASE * 2 / 3).await;
    let calls = store.calls();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    sleep(SECOND).await;
    assert_eq!(store.calls() - calls, 1);
}

/// A renewal that failed at once is repeated soon, and not when its call would have timed out.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_failed_at_once_is_repeated_soon() {
    let (_, store) = locks();
    let locks = Locks::new(RetryStore::new(store.clone(), Tokio, LEASE / 3), LEASE).unwrap();
    let _guard = locks.lock("one").unwrap().acquire().await.unwrap();
    store.next([Fate::Misconfigured]);
    let calls = store.calls();
    while store.calls() == calls {
        sleep(MILLI * 100).await;
    }
    sleep(LEASE / 12).await;
    assert_eq!(store.calls(), calls + 2);
}

/// An outage that is over in time goes unnoticed.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_repeated_until_it_is_done() {
    let (locks, store) = locks();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    store.always(Fate::Silence);
    sleep(LEASE * 9 / 10).await;
    store.always(Fate::Answered);
    sleep(LEASE).await;
    assert!(guard.deadline().is_ok());
    assert_eq!(guard.release().await.unwrap(), Released::Free);
}

/// Work ends with the lock, and reports the reason.
#[tokio::test(start_paused = true)]
async fn work_is_stopped_when_the_lock_is_lost() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.run(async { 42 }).await, Ok(42));
    let work = async {
        sleep(LEASE * 2).await;
        assert!(lock.force_release(guard.token()).await.unwrap());
        assert!(lock.force_release(guard.token()).await.unwrap(), "it was");
        assert!(!lock.force_release(guard.token() - 1).await.unwrap());
        let next = lock.acquire().await.unwrap();
        std::mem::forget(next);
        sleep(LEASE * 9).await;
        panic!("it has no lock any more");
    };
    let start = Instant::now();
    let Err(Loss::Refused(Some(next))) = guard.run(work).await else { panic!("it was lost") };
    assert!(start.elapsed() <= LEASE * 2 + LEASE / 3 + SECOND, "with the next renewal");
    assert_eq!(holder(&store).await.map(|it| it.hold.token), Some(next.hold.token));
    // A holder that has lost it before does nothing of it.
    let never = async { panic!("it has no lock") };
    assert_eq!(guard.run(never).await, Err(Loss::Refused(Some(next))));
    let released = guard.release().await.unwrap();
    assert!(matches!(released, Released::NotHeld(Some(it)) if it.owner == next.owner));
}

/// A longest hold is not renewed beyond its end.
#[tokio::test(start_paused = true)]
async fn a_longest_hold_ends() {
    let (locks, store) = locks();
    let locks = locks.with_longest_hold(LEASE * 2).unwrap();
    let start = Instant::now();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    assert_eq!(guard.lost().await, Loss::HeldTooLong);
    assert!((LEASE * 2..LEASE * 2 + MILLI * 2).contains(&start.elapsed()), "{:?}", start.elapsed());
    drop(guard);
    sleep(SECOND).await;
    assert_eq!(holder(&store).await, None, "dropped, it is given back");
}

/// L6: while a holder is sure of its lock, the store agrees, however long its calls and
/// answers are under way.
#[test]
fn l6_a_holder_that_is_sure_of_its_lock_has_it() {
    let delays = prop::collection::vec((0..300_u32, 0..300_u32), 1..20);
    let stops = prop::collection::vec(prop_oneof![9 => Just(0), 1 => 0..3_000_u32], 1..20);
    let all = (delays, stops, 1..8_u32);
    property("l6_own_deadline", cases(60), &all, |(delays, stops, lease)| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(sure_of_a_lock(delays, stops, SECOND * lease))
    });
}

/// Checks the guards of a lock on a store whose calls take these thousandths of a lease on their way there, and
/// back. The process is then stopped for the thousandths in `stops`.
async fn sure_of_a_lock(delays: Vec<(u32, u32)>, stops: Vec<u32>, lease: Duration) -> Check {
    let direct = FailingStore::new(paused_memory());
    let part = |parts| lease / 1000 * parts;
    let delays = delays.into_iter().map(|(there, back)| (part(there), part(back)));
    let slow = Slow::new(&direct, delays.collect());
    let stopped = Stopped::new(slow, stops.into_iter().map(part).collect());
    let locks = Locks::new(RetryStore::new(stopped, Tokio, lease * 9 / 10), lease);
    let locks = locks.expect("a lease that outlasts a call");
    for _ in 0..5 {
        let outcome = locks.lock("one").expect("a name").acquire_within(SECOND * 10).await;
        let Ok(TryLock::Taken(guard)) = outcome else { continue };
        for _ in 0..200 {
            let by_the_store = holder(&direct).await.map(|it| it.hold.token);
            // After the store was asked: time may pass meanwhile.
            if guard.deadline().is_err() {
                break;
            }
            require(by_the_store == Some(guard.token()), || {
                format!("sure of {:?}, and it has {by_the_store:?}", guard.token())
            })?;
            sleep(lease / 40).await;
        }
    }
    Ok(())
}

/// Thousands of holds are renewed together.
#[tokio::test(start_paused = true)]
async fn ten_thousand_holds_are_renewed_a_thousand_at_a_time() {
    let (locks, store) = locks();
    let mut guards = Vec::new();
    for name in 0..10_000 {
        guards.push(locks.lock(&name.to_string()).unwrap().acquire().await.unwrap());
    }
    let calls = store.calls();
    store.always(Fate::Silence);
    sleep(LEASE / 3 + MILLI).await;
    assert_eq!(store.calls() - calls, 1000);
    // Nor are there more when something else is to be done.
    drop(guards.pop());
    sleep(MILLI).await;
    assert_eq!(store.calls() - calls, 1001);
    store.always(Fate::Answered);
    sleep(LEASE / 3).await;
    let calls = store.calls();
    sleep(LEASE).await;
    assert!(guards.iter().all(|guard| guard.deadline().is_ok()));
    let renewals = store.calls() - calls;
    assert!((20_000..=30_000).contains(&renewals), "{renewals} in a lease");
}

/// Bug 25: however releases and renewals meet, nothing is renewed or held once all is given back.
#[tokio::test(start_paused = true)]
async fn bug_25_releases_and_renewals_that_meet_leave_nothing_behind() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap();
    for round in 0..200_u32 {
        let guard = lock.acquire().await.unwrap();
        // Just before, at and after its renewal, of which each call takes a few polls.
        advance(LEASE / 3 - MILLI).await;
        for _ in 0..round % 20 {
            yield_now().await;
        }
        advance(MILLI * (round % 3)).await;
        for _ in 0..round % 7 {
            yield_now().await;
        }
        match round % 2 {
            0 => assert_eq!(guard.release().await.unwrap(), Released::Free),
            _ => drop(guard),
        }
        sleep(SECOND).await;
        assert_eq!(holder(&store).await, None, "round {round}");
        let calls = store.calls();
        sleep(LEASE).await;
        assert_eq!(store.calls(), calls, "round {round}");
    }
}

/// Runs the same program in a runtime, with its real timers.
async fn holds_for_more_than_a_lease<R: Spawn>(runtime: R) {
    let lease = SECOND * 2;
    let store = FailingStore::new(MemoryStore::new());
    let locks = Locks::new(RetryStore::new(store.clone(), runtime.clone(), SECOND), lease).unwrap();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    runtime.sleep(lease * 3 / 2).await;
    assert_eq!(guard.release().await.unwrap(), Released::Free);
}

#[test]
fn every_runtime_renews() {
    std::thread::scope(|threads| {
        threads.spawn(|| {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                tokio::spawn(holds_for_more_than_a_lease(Tokio)).await.unwrap();
            });
        });
        threads.spawn(|| {
            let holds = holds_for_more_than_a_lease(AsyncStd);
            async_std::task::block_on(async_std::task::spawn(holds));
        });
        threads.spawn(|| smol::block_on(smol::spawn(holds_for_more_than_a_lease(Smol))));
        threads.spawn(|| pollster::block_on(holds_for_more_than_a_lease(Smol)));
    });
}
