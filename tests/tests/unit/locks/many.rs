//! Several locks at once.

use super::*;

/// All are held, each with a token of its own, and all are given back.
#[tokio::test(start_paused = true)]
async fn all_are_taken_and_given_back() {
    let (locks, _) = locks();
    let many = locks.many(["one", "two", "one"]).unwrap();
    let guard = many.acquire().await.unwrap();
    assert_eq!(refused(&locks).await.hold.token, guard.of("one").unwrap().token());
    assert!(guard.of("two").is_some() && guard.of("three").is_none() && !guard.is_lost());
    let released = guard.release().await.unwrap();
    assert_eq!(released.into_values().collect::<Vec<_>>(), [Released::Free; 2]);
    drop(many.try_acquire().await.unwrap().taken().expect("all are free"));
}

/// All or none: where one is held, none is taken.
#[tokio::test(start_paused = true)]
async fn none_is_taken_where_one_is_held() {
    let (locks, _) = locks();
    let two = locks.lock("two").unwrap().acquire().await.unwrap();
    let many = locks.many(["two", "one"]).unwrap();
    let outcome = many.try_acquire().await.unwrap();
    assert!(matches!(outcome, TryLock::Busy(Busy::Held(holder)) if holder.owner == two.owner()));
    sleep(MILLI).await;
    drop(taken(locks.lock("one").unwrap().try_acquire().await.unwrap()));
    let begin = Instant::now();
    assert!(many.acquire_within(SECOND).await.unwrap().taken().is_none());
    assert!(begin.elapsed() >= SECOND && begin.elapsed() < SECOND + POLL);
    sleep(MILLI).await;
    drop(taken(locks.lock("one").unwrap().try_acquire().await.unwrap()));
}

/// Callers that name the same locks in different orders do not wait for each other for ever.
#[tokio::test(start_paused = true)]
async fn there_is_no_ring_of_waiters() {
    let (locks, _) = locks();
    let orders = [["one", "two", "three"], ["three", "two", "one"], ["two", "three", "one"]];
    let mut all = JoinSet::new();
    for names in orders {
        let many = locks.many(names).unwrap();
        all.spawn(async move {
            for _ in 0..20 {
                let guard = many.acquire().await.unwrap();
                guard.run(sleep(MILLI)).await.unwrap();
                guard.release().await.unwrap();
            }
        });
    }
    timeout(LEASE, all.join_all()).await.expect("nobody waits for ever");
}

/// Work ends with the first that is lost, and the others are given back.
#[tokio::test(start_paused = true)]
async fn work_ends_when_one_is_lost() {
    let (locks, _) = locks();
    let guard = locks.many(["one", "two"]).unwrap().acquire().await.unwrap();
    let token = guard.of("two").unwrap().token();
    assert!(locks.lock("two").unwrap().force_release(token).await.unwrap());
    assert!(matches!(guard.run(sleep(LEASE * 9)).await, Err(Loss::Refused(None))));
    assert!(guard.time_left().is_err());
    drop(guard);
    sleep(MILLI).await;
    drop(taken(locks.lock("one").unwrap().try_acquire().await.unwrap()));
}

/// L6: all are sure for as long as the one that ends first.
#[tokio::test(start_paused = true)]
async fn the_first_to_end_counts() {
    let (locks, _) = locks();
    let two = locks.lock("two").unwrap().acquire().await.unwrap();
    let many = locks.many(["one", "two"]).unwrap();
    let waiting = tokio::spawn(async move { many.acquire().await.unwrap() });
    sleep(SECOND * 5).await;
    two.release().await.unwrap();
    let guard = waiting.await.unwrap();
    let [one, two] = ["one", "two"].map(|name| guard.of(name).unwrap().time_left().unwrap());
    assert!(one + SECOND * 4 < two, "{one:?} {two:?}");
    assert_eq!(guard.time_left(), Ok(one));
}

/// One that is lost while another is waited for is taken anew: all are held in the end, also by a caller whose time is over
/// by then.
#[tokio::test(start_paused = true)]
async fn locks_lost_while_waiting_are_reacquired() {
    for within in [None, Some(LEASE * 9), Some(LEASE + SECOND)] {
        let (locks, _) = locks();
        let two = locks.lock("two").unwrap().acquire().await.unwrap();
        let (many, begin) = (locks.many(["one", "two"]).unwrap(), Instant::now());
        let waiting = tokio::spawn(async move {
            match within {
                None => many.acquire().await.unwrap(),
                Some(time) => taken(many.acquire_within(time).await.unwrap()),
            }
        });
        sleep(SECOND).await;
        let one = refused(&locks).await;
        assert!(locks.lock("one").unwrap().force_release(one.hold.token).await.unwrap());
        // The last question comes when the time of the third is over.
        sleep(LEASE - MILLI).await;
        two.release().await.unwrap();
        let guard = waiting.await.unwrap();
        assert!(begin.elapsed() <= LEASE + SECOND + POLL, "{within:?}: {:?}", begin.elapsed());
        assert!(!guard.is_lost(), "{within:?}");
        assert_eq!(refused(&locks).await.hold.token, guard.of("one").unwrap().token());
    }
}

/// No locks are always free, and never lost.
#[tokio::test(start_paused = true)]
async fn none_at_all_are_held_at_once() {
    let none = locks().0.many([]).unwrap();
    let guard = taken(none.acquire_within(SECOND).await.unwrap());
    assert_eq!(guard.run(sleep(LEASE)).await, Ok(()));
    assert_eq!((guard.time_left(), guard.is_lost()), (Ok(Duration::MAX), false));
    assert!(guard.release().await.unwrap().is_empty());
}
