//! Locks for callers that block, with threads and no runtime. They have the machine's own time.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use lockage::locks::{RunOutcome, TryLock};
use lockage::{BlockingLocks, Error};
use lockage_memory::MemoryStore;

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);
/// Longer than a busy machine stops a thread.
const LEASE: Duration = Duration::from_secs(60);

fn locks() -> (BlockingLocks<MemoryStore>, MemoryStore) {
    let store = MemoryStore::new();
    (BlockingLocks::new(store.clone(), LEASE, SECOND).unwrap(), store)
}

/// L1, for callers that wait for each other.
#[test]
fn threads_exclude_each_other() {
    let (locks, _) = locks();
    let locks = locks.with_poll(MILLI);
    let count = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let guard = locks.lock("counter").unwrap().acquire().unwrap();
                    *count.try_lock().expect("nobody else is in here") += 1;
                    guard.release().unwrap();
                }
            });
        }
    });
    assert_eq!(count.into_inner().unwrap(), 150);
}

#[test]
fn a_held_lock_is_renewed_by_a_thread() {
    let lease = MILLI * 1500;
    let locks = BlockingLocks::new(MemoryStore::new(), lease, MILLI * 100).unwrap();
    let lock = locks.lock("job").unwrap();
    let guard = lock.acquire().unwrap();
    let until = || lock.inspect().unwrap().holder.expect("it is held").hold.deadline;
    let first = until();
    while until() == first {
        thread::sleep(MILLI * 10);
    }
    assert!(!guard.is_lost());
}

/// A program may end right after it: the lock is free by then.
#[test]
fn a_dropped_guard_is_released_before_the_program_goes_on() {
    let (locks, store) = locks();
    let others = BlockingLocks::new(store, LEASE, SECOND).unwrap();
    let lock = locks.lock("one").unwrap();
    let guard = lock.acquire().unwrap();
    assert!(others.lock("one").unwrap().try_acquire().unwrap().taken().is_none());
    drop(guard);
    assert!(others.lock("one").unwrap().try_acquire().unwrap().taken().is_some());
}

#[test]
fn work_is_done_by_one_of_them() {
    let (locks, _) = locks();
    let lock = locks.lock("job").unwrap();
    let outcome = lock.try_run(|guard| {
        let elsewhere = lock.try_run(|_| unreachable!("it is done here")).unwrap();
        assert!(matches!(elsewhere, RunOutcome::Elsewhere(_)));
        guard.token()
    });
    let RunOutcome::Done(token) = outcome.unwrap() else { panic!("it was free") };
    let freed = lock.try_run(|guard| {
        assert!(guard.token() > token, "L5");
        assert!(lock.force_release(guard.token()).unwrap());
        // The holder learns of it with its next call.
        locks.clone().close();
        assert!(guard.is_lost());
    });
    assert!(matches!(freed.unwrap(), RunOutcome::Lost(_)));
    assert!(matches!(lock.try_acquire(), Err(Error::Closed)));
}

#[test]
fn permits_sides_latches_and_several_locks_are_there_too() {
    let (locks, _) = locks();
    let pool = locks.semaphore("pool", 2).unwrap();
    let both = pool.permits(2).unwrap().acquire().unwrap();
    assert!(pool.acquire_within(MILLI).unwrap().taken().is_none());
    assert_eq!((both.holds(), pool.inspect().unwrap().grants.len()), (2, 1));

    let (read, write) = (locks.read_lock("page").unwrap(), locks.write_lock("page").unwrap());
    let readers = [read.acquire().unwrap(), read.acquire().unwrap()];
    assert!(write.try_acquire().unwrap().taken().is_none());
    drop(readers);
    drop(write.try_acquire().unwrap().taken().expect("nobody reads"));

    let latch = locks.latch("started", SECOND * 60).unwrap();
    assert!(latch.set(2).unwrap());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| latch.wait_within(SECOND * 30).unwrap());
        assert_eq!((latch.count_down(1).unwrap(), latch.count_down(1).unwrap()), (1, 0));
        assert_eq!(waiter.join().unwrap(), 0);
    });

    let accounts = locks.many(["a", "b"]).unwrap();
    let TryLock::Taken(held) = accounts.try_acquire().unwrap() else { panic!("they are free") };
    assert!(held.token("a").is_some() && held.token("c").is_none());
    assert!(locks.lock("b").unwrap().try_acquire().unwrap().taken().is_none());
    assert_eq!(held.release().unwrap().len(), 2);
    drop(accounts.acquire().unwrap());
    drop(locks.lock("a").unwrap().try_acquire().unwrap().taken().expect("it is free at once"));
    let striped = locks.striped("accounts", 8).unwrap();
    let held = striped.many(["a", "b"]).unwrap().acquire().unwrap();
    assert!(held.token(&striped.lock_name("a")).is_some());
    assert!(striped.lock("b").unwrap().try_acquire().unwrap().taken().is_none());
    let owner = locks.new_owner();
    let lock = locks.lock("b").unwrap().as_owner(owner).fair();
    let (outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
    assert_eq!((outer.owner(), inner.holds()), (owner, 2), "L4");
}
