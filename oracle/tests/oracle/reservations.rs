//! Reserve, then commit or cancel: exact, and once.

use std::cell::RefCell;

use lockage_core::ScriptId;
use lockage_oracle::estimates::{by_part_estimates, estimates, settled_is_as_if_charged};
use lockage_oracle::key::Slot;
use lockage_oracle::place::{Model, Time};
use lockage_oracle::properties::{Check, cases, kills, property};
use lockage_oracle::reservations::{
    TOGETHER, by_part_trace, only_the_first_settlement_changes_anything, trace,
};
use lockage_sim::store::{SimStore, Simulated};
use proptest::prelude::*;

const STEPS: usize = 30;

#[test]
fn a_settled_reservation_is_as_if_its_true_cost_had_been_charged() {
    property("settled_as_if_charged", cases(8_000), &estimates(STEPS), |estimates| {
        settled_is_as_if_charged(&mut Slot::default(), &estimates)
    });
}

#[test]
fn d15_each_part_is_as_if_its_true_cost_had_been_charged() {
    property(
        "settled_by_part",
        cases(4_000),
        &by_part_estimates(STEPS, &TOGETHER[..6]),
        |estimates| settled_is_as_if_charged(&mut Slot::default(), &estimates),
    );
}

#[test]
fn only_the_first_settlement_by_part_changes_the_record() {
    property("settled_once_by_part", cases(2_500), &by_part_trace(STEPS), |trace| {
        only_the_first_settlement_changes_anything(&mut Model::new(Time::Store), &trace)
    });
}

#[test]
fn a_settlement_that_ends_the_step_of_another_part_is_killed() {
    killed(
        ScriptId::LimiterSettle,
        "if not part.is_bucket or reserved(i) == 0 then",
        "if not part.is_bucket then",
        |key, estimates| settled_is_as_if_charged(key, estimates),
        // Of eight parts, hardly one is left with nothing reserved.
        by_part_estimates(STEPS, &TOGETHER[..5]),
    );
}

#[test]
fn only_the_first_settlement_changes_the_record() {
    property("settled_once", cases(5_000), &trace(STEPS), |trace| {
        only_the_first_settlement_changes_anything(&mut Model::new(Time::Store), &trace)
    });
}

#[test]
fn a_settlement_that_counts_twice_is_killed() {
    killed(
        ScriptId::LimiterSettle,
        "store_reservation(is_by_part and 3 or 1, 2 * reservation.till - reservation.made, costs, estimates, {unpack(reply, 4)})",
        "",
        |key, trace| only_the_first_settlement_changes_anything(key, trace),
        trace(STEPS),
    );
}

#[test]
fn a_settlement_that_refunds_refilled_permits_is_killed() {
    killed(
        ScriptId::TokenBucketAcquire,
        "if low and deficit < low then low = deficit end",
        "",
        |key, estimates| settled_is_as_if_charged(key, estimates),
        estimates(STEPS),
    );
}

#[test]
fn a_settlement_that_takes_from_the_first_step_is_killed() {
    killed(
        ScriptId::TokenBucketSettle,
        "if struct.unpack('<d', steps, 24 * at - 23) <= number then count = at else most = at - 1 end",
        "most = at - 1",
        |key, estimates| settled_is_as_if_charged(key, estimates),
        estimates(STEPS),
    );
}

/// Checks that the shipped script passes on the case on which it fails with this text replaced.
fn killed<S: Strategy<Value: std::fmt::Debug>>(
    id: ScriptId,
    from: &str,
    to: &str,
    check: impl Fn(&mut Simulated<'_>, &S::Value) -> Check + Copy,
    input: S,
) {
    let source = lockage_lua::script(id).source();
    assert_eq!(source.matches(from).count(), 1, "the text to break is there once: {from}");
    let on = |source: &str| {
        let store = SimStore::new().expect("Lua gets its memory");
        let store = RefCell::new(store.with_script(id, source));
        move |input: &S::Value| check(&mut emptied(&store, Time::Store), input)
    };
    assert_eq!(kills(400, &input, on(source), on(&source.replacen(from, to, 1))), Ok(()));
}

/// Empties a store, and returns its only key.
fn emptied(store: &RefCell<SimStore>, time: Time) -> Simulated<'_> {
    store.borrow_mut().flush_all();
    Simulated::new(store, time, "one")
}
