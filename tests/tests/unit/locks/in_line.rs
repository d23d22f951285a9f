//! Waiters in line for a lock.

use super::*;

/// A place lasts for two polls and a call's timeout, and half as much again at most.
const LONGEST_PLACE: Duration = Duration::from_millis((2 * 100 + 1000) * 3 / 2);

type Line = LockHandle<Memory, Tokio>;

/// Waits for it, and is done with it at once; when it came in, by its number.
fn wait(lock: &Line, number: u64, order: &Arc<Mutex<Vec<u64>>>) -> tokio::task::JoinHandle<()> {
    let (lock, order) = (lock.clone(), Arc::clone(order));
    tokio::spawn(async move {
        let guard = lock.acquire().await.unwrap();
        order.lock().unwrap().push(number);
        sleep(MILLI * 7).await;
        guard.release().await.unwrap();
    })
}

/// L9: the first to come has it first, with wake-ups and without. No other comes between, not even a caller that does
/// not wait in line, or asks at the right moment.
#[tokio::test(start_paused = true)]
async fn l9_the_first_to_come_is_the_first_to_have_it() {
    let (plain, _) = locks();
    let (told, _) = locks();
    for locks in [plain, told.with_wake_ups()] {
        let lock = locks.lock("one").unwrap();
        let (order, fair) = (Arc::new(Mutex::new(Vec::new())), lock.fair());
        let guard = lock.acquire().await.unwrap();
        let mut all = Vec::new();
        for number in 0..9 {
            all.push(wait(&fair, number, &order));
            sleep(MILLI * 3).await;
        }
        let barger = wait(&lock, 9, &order);
        assert_eq!(lock.inspect().await.unwrap().queued, 9);
        let begin = Instant::now();
        guard.release().await.unwrap();
        match lock.try_acquire().await.unwrap() {
            // No waiter has been notified, or the first one has it already.
            TryLock::Busy(Busy::Queued { ahead: 9 } | Busy::Held(_)) => {}
            other => panic!("{other:?}"),
        }
        for task in all {
            task.await.unwrap();
        }
        barger.await.unwrap();
        assert_eq!(*order.lock().unwrap(), (0..=9).collect::<Vec<_>>());
        assert!(begin.elapsed() < SECOND * 2, "{:?}", begin.elapsed());
    }
}

/// The next waiter in line is notified and comes, and no other.
#[tokio::test(start_paused = true)]
async fn only_the_next_waiter_comes_to_look() {
    let (locks, store) = locks();
    let lock = locks.with_wake_ups().with_poll(LEASE).lock("one").unwrap().fair();
    let guard = lock.acquire().await.unwrap();
    let order = Arc::default();
    let all: Vec<_> = (0..20).map(|number| wait(&lock, number, &order)).collect();
    sleep(MILLI * 100).await;
    let calls = store.calls();
    guard.release().await.unwrap();
    for task in all {
        task.await.unwrap();
    }
    // Each release brings in one that asks once, and gives it back.
    assert_eq!(store.calls() - calls, 1 + 20 * 2);
}

/// L9: a waiter that gives up leaves no gap: the next one has the lock as if it had not been there.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_is_not_waited_for() {
    let (locks, _) = locks();
    let lock = locks.with_wake_ups().lock("one").unwrap().fair();
    let guard = lock.acquire().await.unwrap();
    let order = Arc::default();
    let gone = wait(&lock, 0, &order);
    sleep(MILLI).await;
    let last = wait(&lock, 1, &order);
    sleep(MILLI).await;
    assert!(lock.acquire_within(MILLI * 50).await.unwrap().taken().is_none());
    gone.abort();
    sleep(MILLI).await;
    assert_eq!(lock.inspect().await.unwrap().queued, 1);
    let begin = Instant::now();
    guard.release().await.unwrap();
    last.await.unwrap();
    assert!(begin.elapsed() <= MILLI * 8, "{:?}", begin.elapsed());
}

/// L9: dead waiters hold up the others for the longest time of a place, however many they are.
#[tokio::test(start_paused = true)]
async fn l9_the_dead_hold_up_the_others_for_one_place_at_most() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap().fair();
    let guard = lock.acquire().await.unwrap();
    let machine = Lock::new(LEASE, SECOND).unwrap();
    for number in 0..5 {
        // It asks as a waiter does, and is never heard of again.
        let [owner, id] = [1000 + number, 2000 + number];
        let (owner, id) = (OwnerId::from_u128(owner), HoldId::from_u128(id));
        let dead = machine.acquire(owner, id, Timestamp::MAX).queued(POLL * 2 + SECOND);
        store.execute(&Key::new("lock", "one").unwrap(), &dead).await.unwrap();
    }
    let order = Arc::default();
    let living = wait(&lock, 0, &order);
    sleep(MILLI).await;
    let begin = Instant::now();
    guard.release().await.unwrap();
    living.await.unwrap();
    assert!(begin.elapsed() <= LONGEST_PLACE + POLL, "{:?}", begin.elapsed());
    assert!(begin.elapsed() >= SECOND, "{:?}: nobody was waited for", begin.elapsed());
}

/// An inspection shows the label of a lock's holder, and since when it holds the lock.
#[tokio::test(start_paused = true)]
async fn inspection_shows_the_label_and_since_when() {
    let (locks, _) = locks();
    let lock = locks.lock("one").unwrap();
    let here = locks.with_label("web-1:4711".parse().unwrap());
    let before = lock.inspect().await.unwrap();
    assert_eq!((before.holder, before.since, before.label), (None, None, None));
    let guard = here.lock("one").unwrap().acquire().await.unwrap();
    sleep(LEASE).await;
    let seen = lock.inspect().await.unwrap();
    assert_eq!(seen.label.unwrap().to_string(), "web-1:4711");
    assert_eq!(seen.since, Some(before.now));
    assert_eq!(seen.holder.unwrap().owner, guard.owner());
}
