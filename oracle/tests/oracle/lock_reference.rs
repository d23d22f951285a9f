//! The lock's machine against its reference. The laws (L1 to L5, L9, L10, D9) are in `lock_laws.rs`.
//!
//! `PROPTEST_CASES` says how many cases per property.

use std::cell::RefCell;
use std::time::Duration;

use lockage_core::lock::{Answer, HoldId, Lock, MAX_QUEUED, OwnerId};
use lockage_core::{Command, Timestamp};
use lockage_oracle::key::{Key, Slot};
use lockage_oracle::lock::equality as lock;
use lockage_oracle::lock::{OnKey, trace};
use lockage_oracle::place::Time;
use lockage_oracle::properties::{cases, property};
use lockage_sim::store::{SimStore, Simulated};
use proptest::prelude::*;

/// Cases per property when nothing is asked for.
const DEFAULT_CASES: u32 = 1_000;

/// The longest trace: a few grants, and more operations than are remembered.
const STEPS: usize = 32;

#[test]
fn the_machine_equals_the_reference() {
    let traces = any::<bool>().prop_flat_map(|backwards| trace(STEPS, backwards));
    property("lock_reference", cases(DEFAULT_CASES), &traces, |trace| {
        lock::equals_the_reference(&mut OnKey(Slot::default()), &trace)
    });
}

/// L9: an owner that comes when the queue is full has no place until another leaves; alike in Rust and in the scripts.
#[test]
fn a_full_queue_has_room_when_an_owner_leaves() {
    let store = RefCell::new(SimStore::new().unwrap());
    fills(&mut Slot::default());
    fills(&mut Simulated::new(&store, Time::Store, "full"));
}

fn fills(key: &mut impl Key) {
    let [lease, span] = [10, 60].map(Duration::from_secs);
    let lock = Lock::new(lease, lease).unwrap();
    let now = |second: u64| Timestamp::from_micros(1_000_000_000 + second * 1_000_000).unwrap();
    let owner = |number: usize| OwnerId::from_u128(number as u128);
    let mut ids = (1..).map(HoldId::from_u128);
    let mut ask = |key: &mut _, number, second| {
        let acquire = lock.acquire(owner(number), ids.next().unwrap(), Timestamp::MAX);
        Key::execute(key, &acquire.queued(span), now(second)).unwrap().answer
    };
    for number in 0..=MAX_QUEUED + 1 {
        assert_eq!(matches!(ask(key, number, 0), Answer::Held(_)), number == 0);
    }
    let queued =
        |key: &mut _, second| Key::execute(key, &lock.inspect(), now(second)).unwrap().queued;
    assert_eq!(queued(key, 0), 100);
    let until = now(90);
    let full = Answer::Queued { ahead: 100, until };
    assert_eq!(ask(key, MAX_QUEUED + 1, 10), full, "one too many");
    assert_eq!(ask(key, MAX_QUEUED, 10), Answer::Queued { ahead: 99, until }, "the last one");
    key.execute(&lock.withdraw(owner(2)), now(11)).unwrap();
    assert_eq!(queued(key, 11), 99);
    let last = Answer::Queued { ahead: 99, until };
    assert_eq!(ask(key, MAX_QUEUED + 1, 11), last, "there is room again");
    assert_eq!(queued(key, 11), 100);
    assert!(matches!(ask(key, 1, 12), Answer::Held(_)), "the first one");
}

/// L9: a refused waiter in line is recorded at most once in half of its span.
#[test]
fn a_place_is_written_no_more_often_than_needed() {
    let lock = Lock::new(Duration::from_secs(100), Duration::from_secs(1)).unwrap();
    let mut slot = None;
    let mut writes = Vec::new();
    for second in 0..=12 {
        // The first one holds it.
        let (owner, id) = (second.min(1), HoldId::from_u128(second));
        let acquire = lock.acquire(OwnerId::from_u128(owner), id, Timestamp::MAX);
        let now = Timestamp::from_micros(second as u64 * 1_000_000).unwrap();
        let before = slot.clone();
        acquire.queued(Duration::from_secs(8)).apply(&mut slot, now).unwrap();
        if slot != before {
            writes.push(second);
        }
    }
    assert_eq!(writes, [0, 1, 6, 11]);
}

/// L2: an owner holds it as often as can be, is refused then, and again when one hold is given back; alike in Rust
/// and in the scripts.
#[test]
fn l2_an_owner_holds_it_so_often_at_most() {
    let store = RefCell::new(SimStore::new().unwrap());
    holds_it_often(&mut Slot::default());
    holds_it_often(&mut Simulated::new(&store, Time::Store, "often"));
}

fn holds_it_often(key: &mut impl Key) {
    let lock = Lock::new(Duration::from_secs(10), Duration::from_secs(10)).unwrap();
    let (owner, id) = (OwnerId::from_u128(1), |number: usize| HoldId::from_u128(number as u128));
    let now = Timestamp::from_micros(1_000_000).unwrap();
    let acquire = |number| lock.acquire(owner, id(number), Timestamp::MAX);
    let mut holds = |operation: lockage_core::lock::Operation| match key
        .execute(&operation, now)
        .unwrap()
        .answer
    {
        Answer::Held(hold) => (true, hold.holds),
        Answer::Refused(Some(holder)) => (false, holder.hold.holds),
        Answer::Released { holds, .. } => (true, holds),
        other => panic!("{other:?}"),
    };
    for number in 1..=64 {
        assert_eq!(holds(acquire(number)), (true, number as u64));
    }
    assert_eq!(holds(acquire(65)), (false, 64));
    assert_eq!(holds(acquire(64)), (true, 64), "it is there");
    assert_eq!(holds(lock.release(owner, id(7))), (true, 63));
    assert_eq!(holds(acquire(65)), (true, 64));
}

#[test]
fn locks_with_the_longest_leases_share_a_key() {
    // Each is accepted by itself, so both together must not fail later.
    let (longest, shortest) = (Duration::from_micros(1 << 50), Duration::from_micros(1));
    let locks = [(longest, shortest), (shortest, longest)];
    let (owner, mut slot) = (OwnerId::from_u128(1), None);
    for (id, (lease, remember)) in locks.into_iter().enumerate() {
        let lock = Lock::new(lease, remember).unwrap();
        let acquire = lock.acquire(owner, HoldId::from_u128(id as u128), Timestamp::MAX);
        acquire.apply(&mut slot, Timestamp::MAX).unwrap();
        let record = slot.as_ref().expect("it was acquired");
        assert!(record.forget_at() > Timestamp::MAX);
    }
}
