//! The waiters to notify that a key has room, as each command reports from the record that it leaves.

use std::time::Duration;

use lockage_core::lock::{HoldId, Lock, Operation, OwnerId};
use lockage_core::{Command, Publish, Record, Timestamp};

const LEASE_US: u64 = 1_000_000;
const SPAN: Duration = Duration::from_micros(100);

fn lock() -> Lock {
    Lock::new(Duration::from_micros(LEASE_US), Duration::from_secs(60)).unwrap()
}

fn acquire(owner: u128) -> Operation {
    lock().acquire(OwnerId::from_u128(owner), HoldId::from_u128(owner), Timestamp::MAX)
}

fn release(owner: u128) -> Operation {
    lock().release(OwnerId::from_u128(owner), HoldId::from_u128(owner))
}

/// Returns a lock that the first owner has held since 1000.
fn held() -> Option<Record> {
    let mut slot = None;
    assert_eq!(told(&mut slot, acquire(1), 1_000), Publish::Nothing);
    slot
}

fn told<C: Command>(slot: &mut Option<Record>, command: C, now: u64) -> Publish {
    let outcome = command.apply(slot, Timestamp::from_micros(now).unwrap()).unwrap();
    command.publishes(&outcome, slot.as_ref())
}

/// L9: a waiter is notified of a release for as long as it announced to wait; without waiters there is no
/// message.
#[test]
fn l9_releases_notify_waiters_only_while_they_wait() {
    for (released, expected) in
        [(1_010, Publish::Any), (1_109, Publish::Any), (1_110, Publish::Nothing)]
    {
        let mut slot = held();
        assert_eq!(told(&mut slot, acquire(2).waiting(SPAN), 1_010), Publish::Nothing);
        assert_eq!(told(&mut slot, release(1), released), expected, "{released}");
    }
    assert_eq!(told(&mut held(), release(1), 1_010), Publish::Nothing, "nobody waits");
    let break_up = lock().force_release(1_000);
    let mut slot = held();
    told(&mut slot, acquire(2).waiting(SPAN), 1_010);
    assert_eq!(told(&mut slot, break_up, 1_011), Publish::Any);
}

/// L9: with a queue, its first waiter is notified, by name, of a release and of departures before it.
#[test]
fn l9_the_first_in_the_queue_is_notified_by_name() {
    let mut slot = held();
    for owner in [2, 3] {
        assert_eq!(told(&mut slot, acquire(owner).queued(SPAN), 1_010), Publish::Nothing);
    }
    let withdraw = |owner| lock().withdraw(OwnerId::from_u128(owner));
    let mut other = slot.clone();
    assert_eq!(told(&mut slot, release(1), 1_020), Publish::To(2));
    assert_eq!(told(&mut slot, withdraw(2), 1_021), Publish::To(3));
    // The last one leaves; others may wait without a place.
    assert_eq!(told(&mut slot, withdraw(3), 1_022), Publish::Any);
    // While the lock is held there is nothing to publish.
    assert_eq!(told(&mut other, withdraw(2), 1_020), Publish::Nothing);
    assert_eq!(told(&mut other, withdraw(3), 1_020), Publish::Nothing);
}

/// L9: a withdrawal without a place in line leaves the record unchanged, with places in it that have ended.
#[test]
fn l9_leaving_without_a_place_changes_nothing() {
    let mut slot = held();
    told(&mut slot, acquire(2).queued(SPAN), 1_010);
    let before = slot.clone();
    told(&mut slot, lock().withdraw(OwnerId::from_u128(3)), 1_500);
    assert_eq!(slot, before);
    told(&mut slot, lock().withdraw(OwnerId::from_u128(2)), 1_020);
    assert_ne!(slot, before);
}

/// L9: an owner that gives back one of two holds keeps the lock.
#[test]
fn l9_a_release_of_one_of_two_holds_notifies_no_waiter() {
    let mut slot = held();
    let again = lock().acquire(OwnerId::from_u128(1), HoldId::from_u128(9), Timestamp::MAX);
    told(&mut slot, again, 1_005);
    told(&mut slot, acquire(2).waiting(SPAN), 1_010);
    assert_eq!(told(&mut slot, release(1), 1_020), Publish::Nothing);
    let last = lock().release(OwnerId::from_u128(1), HoldId::from_u128(9));
    assert_eq!(told(&mut slot, last, 1_021), Publish::Any);
}
