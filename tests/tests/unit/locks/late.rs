//! Leases that end before their grants are answered: refused where that can be foreseen, and told where it happens.

use lockage::Error;
use lockage::locks::{LockGuard, Quorum};
use lockage::store::ConfigError;
use lockage_core::flow::shortest_lease;

use super::*;

/// A store that answers at once, and stops the process with these answers.
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
         it must be at least 1.002003s, or the store's timeout shorter"
    );
    let longest = |longest| locks(SECOND, LEASE).unwrap().with_longest_hold(longest);
    assert!(longest(shortest_lease(SECOND)).is_ok());
    let what = "longest hold";
    assert!(
        matches!(longest(SECOND), Err(ConfigError::LeaseTooShort { what: it, .. }) if it == what)
    );
}

/// Bug 26: what is granted too late is not held. Nobody waits for ever for a grant that comes in time.
#[tokio::test(start_paused = true)]
async fn bug_26_who_gets_each_grant_too_late_is_told_so() {
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

/// A process that is stopped now and then has the lock in the end.
#[tokio::test(start_paused = true)]
async fn one_grant_that_comes_too_late_is_asked_for_again() {
    let (locks, _) = stopped(vec![LEASE * 2, Duration::ZERO, Duration::ZERO]);
    let guard: LockGuard<_, _> = locks.lock("one").unwrap().acquire().await.unwrap();
    assert!(guard.time_left().is_ok());
}
