//! Leases that end before their grants are answered: refused where that can be foreseen, and reported where it
//! happens.

use lockage::locks::{LockGuard, Quorum};
use lockage::notifications::{Listener, Notifications, Wake};
use lockage::store::ConfigError;
use lockage::{Error, StoreError};
use lockage_core::flow::{own_deadline, shortest_lease};

use super::*;
use crate::late_calls::Late;

/// Makes a store that answers at once, and stops the process with these answers.
fn stopped(stops: Vec<Duration>) -> (Locks<Stopped<Memory>, Tokio>, Memory) {
    let store = FailingStore::new(paused_memory());
    let stopped = Stopped::new(store.clone(), stops);
    (Locks::new(RetryStore::new(stopped, Tokio, SECOND), LEASE).unwrap(), store)
}

/// L6: a lease outlasts the call that asks for it, or is refused with the shortest that would do.
#[test]
fn l6_a_lease_that_can_end_before_its_grant_is_answered_is_refused() {
    let locks =
        |timeout, lease| Locks::new(RetryStore::new(MemoryStore::new(), Tokio, timeout), lease);
    for timeout in [Duration::ZERO, MILLI, SECOND, LEASE] {
        let min = shortest_lease(timeout);
        assert!(locks(timeout, min).is_ok(), "{timeout:?}");
        let span = min - Duration::from_micros(1);
        let error = locks(timeout, span).unwrap_err();
        assert_eq!(error, ConfigError::LeaseTooShort { what: "lease", span, timeout, min });
    }
    let error = locks(SECOND, SECOND).unwrap_err().to_string();
    assert_eq!(
        error,
        "a lease of 1s can end before a call is answered, which may take 1s: \
         it must be at least 1002003us, or the store's timeout shorter"
    );
    let longest = |longest| locks(SECOND, LEASE).unwrap().with_longest_hold(longest);
    assert!(longest(shortest_lease(SECOND)).is_ok());
    let what = "longest hold";
    assert!(
        matches!(longest(SECOND), Err(ConfigError::LeaseTooShort { what: it, .. }) if it == what)
    );
}

/// Bug 26: a grant that comes too late is not held. No caller waits for ever for a grant that comes in time.
#[tokio::test(start_paused = true)]
async fn bug_26_waiters_with_only_late_grants_get_too_slow() {
    fn told<G: std::fmt::Debug>(outcome: Result<G, Error>) {
        let Err(Error::TooSlow { took, lease }) = outcome else { panic!("{outcome:?}") };
        assert!(took >= LEASE * 2 && lease == LEASE, "{took:?}");
    }
    for name in ["lock", "in-line", "semaphore", "read", "write", "many", "quorum"] {
        let (locks, store) = stopped(vec![LEASE * 2]);
        let acquire = async {
            match name {
                "lock" => told(locks.lock("one").unwrap().acquire().await),
                "in-line" => told(locks.lock("one").unwrap().fair().acquire().await),
                "semaphore" => told(locks.semaphore("one", 1).unwrap().acquire().await),
                "read" => told(locks.read_lock("one").unwrap().acquire().await),
                "write" => told(locks.write_lock("one").unwrap().acquire().await),
                "many" => told(locks.many(["one", "other"]).unwrap().acquire().await),
                _ => {
                    let servers = [(); 3].map(|()| stopped(vec![LEASE * 2]).0);
                    told(Quorum::new(servers.into()).unwrap().lock("one").unwrap().acquire().await);
                }
            }
        };
        timeout(LEASE * 1000, acquire).await.expect(name);
        told(locks.lock("another").unwrap().try_acquire().await);
        told(locks.lock("another").unwrap().acquire_within(LEASE * 1000).await);
        sleep(LEASE * 10).await;
        if matches!(name, "lock" | "in-line") {
            assert_eq!(holder(&store).await, None, "{name}: it is given back");
        }
    }
}

/// The bound of an answer is the longest hold where that is shorter than the lease, and denials count like grants: those that
/// take exactly as long as a grant lasts come too late.
#[tokio::test(start_paused = true)]
async fn denials_that_take_as_long_as_a_grant_lasts_are_too_slow() {
    let longest = SECOND * 2;
    let sure = own_deadline(Duration::ZERO, LEASE);
    for (stop, longest) in [(sure, None), (longest, Some(longest))] {
        let (locks, store) = stopped(vec![stop]);
        let locks =
            longest.into_iter().fold(locks, |it, it_at| it.with_longest_hold(it_at).unwrap());
        let key = Key::new("lock", "one").unwrap();
        let machine = Lock::new(LEASE * 1000, SECOND).unwrap();
        let [owner, id] = [OwnerId::from_u128(7), OwnerId::from_u128(8)];
        let acquire = machine.acquire(owner, HoldId::from_u128(id.as_u128()), Timestamp::MAX);
        store.execute(&key, &acquire).await.unwrap();
        let outcome = timeout(LEASE * 20, locks.lock("one").unwrap().acquire()).await.unwrap();
        let Err(Error::TooSlow { took, lease }) = outcome else { panic!("{outcome:?}") };
        assert_eq!((took, lease), (stop, longest.unwrap_or(LEASE)));
    }
}

/// A process that is stopped now and then has the lock in the end.
#[tokio::test(start_paused = true)]
async fn one_grant_that_comes_too_late_is_asked_for_again() {
    let (locks, _) = stopped(vec![LEASE * 2, Duration::ZERO, Duration::ZERO]);
    let guard: LockGuard<_, _> = locks.lock("one").unwrap().acquire().await.unwrap();
    assert!(guard.time_left().is_ok());
}

/// L4: the answer to a renewal that comes after the deadline, since the process stood still, revives nothing.
#[tokio::test(start_paused = true)]
async fn l4_a_renewal_that_is_answered_too_late_revives_nothing() {
    let (locks, store) = stopped(vec![Duration::ZERO, Duration::ZERO, LEASE * 9 / 10]);
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    sleep(LEASE / 3 + LEASE * 9 / 10 + SECOND).await;
    assert!(holder(&store).await.is_some(), "the store has renewed it");
    assert_eq!(guard.time_left(), Err(Loss::Expired));
}

/// Its messages are lost.
impl Notifications for Late {
    async fn listen(&self, _: &Key, wake: Wake) -> Result<Listener, StoreError> {
        self.store.listen(&Key::new("lock", "another").unwrap(), wake).await
    }
}

/// L8: a waiter that polls less often than leases end goes on where a late copy of its first attempt was granted, and
/// that grant has ended before its second attempt.
#[tokio::test(start_paused = true)]
async fn l8_a_waiter_goes_on_where_a_late_copy_has_spent_its_id() {
    let (others, store) = locks();
    let guard = others.lock("one").unwrap().acquire().await.unwrap();
    // Behind the question for the store's time, the first copy comes last; the second one is refused.
    let late = Late::new(&store, [Duration::ZERO, SECOND * 9 / 10]);
    let waiters = Locks::new(RetryStore::new(late, Tokio, SECOND), SECOND * 2).unwrap();
    let lock = waiters.with_wake_ups().with_poll(LEASE / 2).lock("one").unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(SECOND / 2).await;
    guard.release().await.unwrap();
    sleep(SECOND).await;
    let copy = holder(&store).await.expect("the late copy is granted");
    sleep(SECOND * 2).await;
    assert_eq!(holder(&store).await, None, "its lease ends before the waiter asks again");
    let guard = waiter.await.unwrap().expect("the spent id is not its caller's error");
    assert_eq!(guard.owner(), copy.owner, "the copy was of this wait");
    assert!(guard.token() > copy.hold.token);
}

/// L8: a copy that was sent on a connection that broke is given back once it arrives, although another one was refused
/// right after; also where its caller waited on, and gave up before that, or was dropped.
#[tokio::test(start_paused = true)]
async fn l8_a_copy_on_a_broken_connection_is_given_back() {
    for way in ["once", "waits", "dropped"] {
        let (others, store) = locks();
        let guard = others.lock("one").unwrap().acquire().await.unwrap();
        let late = Late::new(&store, [Duration::ZERO, SECOND * 9 / 10]).on_broken_connections();
        let locks = Locks::new(RetryStore::new(late, Tokio, SECOND), LEASE).unwrap();
        let (lock, start) = (locks.lock("one").unwrap(), Instant::now());
        match way {
            "once" => assert!(lock.try_acquire().await.unwrap().taken().is_none()),
            "waits" => assert!(lock.acquire_within(POLL).await.unwrap().taken().is_none()),
            _ => assert!(timeout(POLL, lock.acquire()).await.is_err()),
        }
        assert!(start.elapsed() <= POLL + MILLI, "{way}: the second copy is sent at once");
        sleep(SECOND / 2).await;
        guard.release().await.unwrap();
        sleep(SECOND * 2).await;
        assert_eq!(holder(&store).await, None, "{way}");
    }
}

/// L10: a copy of an earlier attempt that arrives once a later one is granted takes nothing more.
#[tokio::test(start_paused = true)]
async fn l10_a_copy_of_an_earlier_attempt_takes_nothing_more() {
    let (others, store) = locks();
    let guard = others.lock("one").unwrap().acquire().await.unwrap();
    let late = Late::new(&store, [Duration::ZERO, SECOND * 9 / 10]).on_broken_connections();
    let locks = Locks::new(RetryStore::new(late, Tokio, SECOND), LEASE).unwrap();
    let lock = locks.lock("one").unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    sleep(SECOND / 2).await;
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap();
    // The copy is there.
    sleep(SECOND / 2).await;
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(holder(&store).await, None);
}

/// L10: where other callers' acquires may arrive for longer, since their timeout is longer, an acquire that
/// could be a late copy of one of theirs is refused, and asked for again at once. So the lock is neither busy nor
/// taken without a holder.
#[tokio::test(start_paused = true)]
async fn l10_a_caller_with_a_shorter_timeout_asks_once_more() {
    let (locks, store) = locks();
    let patient = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND * 10), LEASE).unwrap();
    let lock = locks.lock("one").unwrap();
    for _ in 0..3 {
        for _ in 0..6 {
            let guard = taken(patient.lock("one").unwrap().try_acquire().await.unwrap());
            guard.release().await.unwrap();
        }
        let calls = store.calls();
        let guard = taken(lock.try_acquire().await.unwrap());
        assert!(store.calls() - calls <= 3, "the store's time, the refusal, and the grant");
        let busy = patient.lock("one").unwrap().try_acquire().await.unwrap();
        assert!(matches!(busy, TryLock::Busy(_)));
        guard.release().await.unwrap();
    }
}

/// L10: no late copy takes the lock without a holder, also not one of the first acquire of its
/// process, and however many others have held the lock since.
#[tokio::test(start_paused = true)]
async fn l10_a_late_copy_of_a_forgotten_hold_takes_nothing() {
    let (others, store) = locks();
    // The copy that is sent first arrives last.
    let late = Late::new(&store, [Duration::ZERO, SECOND * 9 / 10]);
    let locks = Locks::new(RetryStore::new(late, Tokio, SECOND), LEASE).unwrap();
    let guard = locks.lock("one").unwrap().acquire().await.unwrap();
    guard.release().await.unwrap();
    for _ in 0..6 {
        let guard = others.lock("one").unwrap().acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    sleep(SECOND).await;
    assert_eq!(holder(&store).await, None);
}
