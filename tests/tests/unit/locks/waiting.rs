//! Waiters for a lock, and which of them are notified that it is free.

use lockage::StoreError;
use lockage::notifications::{Listener, Notifications, Wake};
use lockage::runtime::Runtime;
use lockage::store::Command;

use super::*;

/// Takes the lock for an owner that is never heard of again.
async fn hold_and_crash(store: &Memory) {
    let key = Key::new("lock", "one").unwrap();
    let crashed = Lock::new(LEASE, SECOND).unwrap();
    let acquire = crashed.acquire(OwnerId::from_u128(7), HoldId::from_u128(7), Timestamp::MAX);
    store.execute(&key, &acquire).await.unwrap();
}

/// Tokio with random numbers that are the same in each run: waiters that draw others now and then meet at one moment, and
/// one of them comes a poll later.
#[derive(Clone, Debug)]
struct Seeded(Arc<Mutex<fastrand::Rng>>);

impl Runtime for Seeded {
    fn now(&self) -> Duration {
        Tokio.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        Tokio.sleep(duration)
    }

    fn random(&self) -> u64 {
        self.0.lock().expect("no panic while held").u64(..)
    }
}

impl Spawn for Seeded {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        Tokio.spawn(task);
    }
}

/// L8: when its holder is gone, a waiter has the lock within its lease and one poll.
#[tokio::test(start_paused = true)]
async fn a_waiter_has_it_within_the_lease_and_one_poll() {
    let store = FailingStore::new(paused_memory());
    let seeded = Seeded(Arc::new(Mutex::new(fastrand::Rng::with_seed(0))));
    let locks = Locks::new(RetryStore::new(store.clone(), seeded, SECOND), LEASE).unwrap();
    hold_and_crash(&store).await;
    let start = Instant::now();
    let waits = (0..20).map(|_| {
        let lock = locks.lock("one").unwrap();
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let had = start.elapsed();
            guard.release().await.unwrap();
            had
        })
    });
    let mut had = Vec::new();
    for wait in waits.collect::<Vec<_>>() {
        had.push(wait.await.unwrap());
    }
    had.sort();
    assert!((LEASE..LEASE + POLL).contains(&had[0]), "{had:?}");
    assert!(had[19] < LEASE + POLL * 2, "{had:?}");
    // One question in each half of a poll at most, except for the first ones.
    let most = 20 * (LEASE.as_millis() / (POLL.as_millis() / 2) + 10);
    assert!(u128::from(store.calls()) < most, "{} calls", store.calls());
}

/// A waiter that is notified that a lock is free has it at once, and only one of many waiters polls.
#[tokio::test(start_paused = true)]
async fn waiters_are_notified_when_the_lock_is_free() {
    const WAITERS: u64 = 20;
    let (locks, store) = locks();
    let locks = locks.with_wake_ups().with_poll(LEASE);
    let first = locks.lock("one").unwrap().acquire().await.unwrap();
    let waits: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = locks.lock("one").unwrap();
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                sleep(SECOND).await;
                assert_eq!(guard.release().await.unwrap(), Released::Free);
                Instant::now()
            })
        })
        .collect();
    sleep(SECOND).await;
    let (calls, start) = (store.calls(), Instant::now());
    assert_eq!(first.release().await.unwrap(), Released::Free);
    let mut ends = Vec::new();
    for wait in waits {
        ends.push(wait.await.unwrap() - start);
    }
    ends.sort();
    for (waiter, end) in ends.iter().enumerate() {
        let expected = SECOND * (waiter as u32 + 1);
        assert!((expected..expected + MILLI * 100).contains(end), "{waiter}: {end:?}");
    }
    // Each takes it and gives it back, and none looks in vain, except for one look a poll.
    let most = 1 + 2 * WAITERS + WAITERS * 2;
    assert!(store.calls() - calls <= most, "{} calls", store.calls() - calls);
}

/// A waiter that was notified and is dropped leaves it to the next.
#[tokio::test(start_paused = true)]
async fn a_notified_waiter_that_gives_up_passes_the_lock_on() {
    let (locks, _) = locks();
    let locks = locks.with_wake_ups().with_poll(LEASE * 10);
    let lock = locks.lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    let spawned = |lock: LockHandle<Memory, Tokio>| {
        tokio::spawn(async move { drop(lock.acquire().await.unwrap()) })
    };
    let (first, second) = (spawned(lock.clone()), spawned(lock.clone()));
    sleep(SECOND).await;
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    first.abort();
    let start = Instant::now();
    second.await.unwrap();
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
}

/// L8: a holder that is gone sends no message; waiters look when the lease ends.
#[tokio::test(start_paused = true)]
async fn unnotified_waiters_poll_at_the_end_of_the_lease() {
    let (locks, store) = locks();
    hold_and_crash(&store).await;
    let start = Instant::now();
    let locks = locks.with_wake_ups().with_poll(SECOND);
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    assert!((LEASE..LEASE + SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
    drop(guard);
    assert!(store.calls() < 70, "{} calls", store.calls());
}

/// A wait that times out reports the holder.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_timeout() {
    let (locks, _) = locks();
    let lock = locks.lock("one").unwrap();
    let guard = lock.acquire().await.unwrap();
    let start = Instant::now();
    let outcome = lock.acquire_within(SECOND * 3).await.unwrap();
    let TryLock::Busy(Busy::Held(holder)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((holder.owner, holder.hold.token), (guard.owner(), guard.token()));
    assert!((SECOND * 3..SECOND * 3 + MILLI * 2).contains(&start.elapsed()));
}

/// A store that listens to channels without messages.
#[derive(Clone)]
struct Deaf(Memory);

impl Store for Deaf {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command).await
    }
}

impl Notifications for Deaf {
    async fn listen(&self, _: &Key, wake: Wake) -> Result<Listener, StoreError> {
        self.0.listen(&Key::new("lock", "another").unwrap(), wake).await
    }
}

/// A message that is lost costs a waiter a poll, and not the lease (Redisson slept through it).
#[tokio::test(start_paused = true)]
async fn a_lost_message_costs_a_poll() {
    let (locks, store) = locks();
    let deaf = Locks::new(RetryStore::new(Deaf(store), Tokio, SECOND), LEASE).unwrap();
    let deaf = deaf.with_wake_ups().lock("one").unwrap();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(async move { deaf.acquire().await.unwrap() });
    sleep(MILLI).await;
    let begin = Instant::now();
    guard.release().await.unwrap();
    drop(waiting.await.unwrap());
    assert!(begin.elapsed() <= SECOND, "{:?}", begin.elapsed());
}
