//! The properties of the lock (L1 to L5, L10, and D9 for its record), on the Rust machine.
//!
//! `PROPTEST_CASES` says how many cases per property.

use std::time::Duration;

use lockage_core::lock::{Lock, OperationId, OwnerId};
use lockage_core::{Command, Timestamp};
use lockage_tests::key::Slot;
use lockage_tests::lock::properties as lock;
use lockage_tests::lock::{OnKey, Trace, trace};
use lockage_tests::properties::{Check, cases, property};
use proptest::prelude::*;

/// Cases per property when nothing is asked for.
const DEFAULT_CASES: u32 = 1_000;

/// The longest trace: a few grants, and more operations than are remembered.
const STEPS: usize = 32;

#[test]
fn the_machine_equals_the_reference() {
    holds("lock_reference", lock::equals_the_reference);
}

#[test]
fn l1_and_l5_one_live_lease_and_growing_tokens() {
    holds("l1_l5_exclusion_and_fencing", lock::l1_l5_one_live_lease_and_growing_tokens);
}

#[test]
fn l2_holds_are_counted() {
    holds("l2_counting", lock::l2_holds_are_counted);
}

#[test]
fn l3_refusals_change_nothing() {
    holds("l3_ownership", lock::l3_refusals_change_nothing);
}

#[test]
fn l4_leases_only_grow() {
    holds("l4_leases", lock::l4_leases_only_grow);
}

#[test]
fn l10_repetitions_are_idle() {
    holds("l10_idempotence", lock::l10_repetitions_are_idle);
}

#[test]
fn d9_a_lock_that_may_be_forgotten_acts_like_a_fresh_one() {
    let input = (trace(STEPS, true), trace(STEPS, false));
    property("d9_lock", cases(DEFAULT_CASES), &input, |(trace, then)| {
        lock::d9_a_forgettable_lock_is_fresh(&mut OnKey(Slot::default()), &trace, &then)
    });
}

#[test]
fn locks_with_the_longest_leases_share_a_key() {
    let (longest, shortest) = (Duration::from_micros((1 << 51) - 1), Duration::from_micros(1));
    // A configuration may be refused when it is built, and nothing that was accepted may fail
    // later.
    let locks = [Lock::new(longest, shortest), Lock::new(shortest, longest)];
    let (owner, mut slot) = (OwnerId::from_u128(1), None);
    for (id, lock) in locks.into_iter().flatten().enumerate() {
        let acquire = lock.acquire(owner, OperationId::from_u128(id as u128), Timestamp::MAX);
        acquire.apply(&mut slot, Timestamp::MAX).unwrap();
        let record = slot.as_ref().expect("it was acquired");
        assert!(record.forget_at() > Timestamp::MAX);
    }
}

/// Checks a property with a clock that may step back.
fn holds(name: &str, check: impl Fn(&mut OnKey<Slot>, &Trace) -> Check) {
    let traces = any::<bool>().prop_flat_map(|backwards| trace(STEPS, backwards));
    property(name, cases(DEFAULT_CASES), &traces, |trace| {
        check(&mut OnKey(Slot::default()), &trace)
    });
}
