//! The lock's machine against its reference. The laws (L1 to L5, L10, D9) are in `lock_laws.rs`.
//!
//! `PROPTEST_CASES` says how many cases per property.

use std::time::Duration;

use lockage_core::lock::{Lock, OperationId, OwnerId};
use lockage_core::{Command, Timestamp};
use lockage_tests::key::Slot;
use lockage_tests::lock::equality as lock;
use lockage_tests::lock::{OnKey, trace};
use lockage_tests::properties::{cases, property};
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

#[test]
fn locks_with_the_longest_leases_share_a_key() {
    // Each is accepted by itself, so both together must not fail later.
    let (longest, shortest) = (Duration::from_micros(1 << 50), Duration::from_micros(1));
    let locks = [(longest, shortest), (shortest, longest)];
    let (owner, mut slot) = (OwnerId::from_u128(1), None);
    for (id, (lease, remember)) in locks.into_iter().enumerate() {
        let lock = Lock::new(lease, remember).unwrap();
        let acquire = lock.acquire(owner, OperationId::from_u128(id as u128), Timestamp::MAX);
        acquire.apply(&mut slot, Timestamp::MAX).unwrap();
        let record = slot.as_ref().expect("it was acquired");
        assert!(record.forget_at() > Timestamp::MAX);
    }
}
