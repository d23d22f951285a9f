//! Reserve, then commit or cancel: the same in three places, exact, and once.

use std::cell::RefCell;

use lockage_core::ScriptId;
use lockage_sim::store::SimStore;
use lockage_tests::key::Slot;
use lockage_tests::properties::{Check, cases, property, try_out};
use lockage_tests::reservations::{
    equals_the_model, estimates, only_the_first_settlement_changes_anything,
    settled_is_as_if_charged, trace,
};
use lockage_tests::stores::{Model, Real, Session, Simulated, Time};
use proptest::prelude::*;

const STEPS: usize = 30;

#[test]
fn reservations_are_the_same_in_three_places() {
    let simulated = store();
    let session = RefCell::new(Session::start());
    let input = (trace(STEPS), time());
    property("three_way_reservations", cases(600), &input, |(trace, time)| {
        equals_the_model(&mut Model::new(time), &mut emptied(&simulated, time), &trace)?;
        equals_the_model(&mut Model::new(time), &mut Real::new(&session, time), &trace)
    });
}

#[test]
fn a_settled_reservation_is_as_if_its_true_cost_had_been_charged() {
    property("settled_as_if_charged", cases(20_000), &estimates(STEPS), |estimates| {
        settled_is_as_if_charged(&mut Slot::default(), &estimates)
    });
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
        "reservations[index] = {id = id, now + reserved[1] - reserved[3], actual, now, unpack(reply, 4)}",
        "",
        |key, trace| only_the_first_settlement_changes_anything(key, trace),
        trace(STEPS),
    );
}

#[test]
fn a_settlement_that_gives_back_what_has_come_back_is_killed() {
    killed(
        ScriptId::LimiterAcquire,
        "reservation[upto] = math.min(reservation[upto], field and all[i].state[field] or 0)",
        "",
        |key, estimates| settled_is_as_if_charged(key, estimates),
        estimates(STEPS),
    );
}

#[test]
fn a_settlement_that_forgets_the_other_reservations_is_killed() {
    killed(
        ScriptId::LimiterSettle,
        "other[at] = i < index and math.min(other[at], upto - given) or max(0, other[at] - given)",
        "",
        |key, estimates| settled_is_as_if_charged(key, estimates),
        estimates(STEPS),
    );
}

/// The shipped script passes on the cases on which it fails with this text replaced.
fn killed<S: Strategy<Value: std::fmt::Debug>>(
    id: ScriptId,
    from: &str,
    to: &str,
    check: impl Fn(&mut Simulated<'_>, &S::Value) -> Check,
    input: S,
) {
    let source = lockage_lua::script(id).source();
    assert_eq!(source.matches(from).count(), 1, "the text to break is there once: {from}");
    let on = |source: &str| {
        let store = SimStore::new().expect("Lua gets its memory");
        let store = RefCell::new(store.with_script(id, source));
        try_out(400, &input, |input| check(&mut emptied(&store, Time::Store), &input))
    };
    assert_eq!(on(source), Ok(()), "the source as it stands");
    on(&source.replacen(from, to, 1)).expect_err("the mutant lives");
}

fn store() -> RefCell<SimStore> {
    RefCell::new(SimStore::new().expect("Lua gets its memory"))
}

/// The only key of a store.
fn emptied(store: &RefCell<SimStore>, time: Time) -> Simulated<'_> {
    store.borrow_mut().flush_all();
    Simulated::new(store, time, "one")
}

/// The store's clock, or the caller's with the store's within the skew of it.
fn time() -> impl Strategy<Value = Time> {
    let caller = (0..=5_u64).prop_flat_map(|skew_ms| {
        let skew_us = i64::try_from(skew_ms * 1000).expect("a few milliseconds");
        (-skew_us..=skew_us)
            .prop_map(move |store_ahead_us| Time::Caller { store_ahead_us, skew_ms })
    });
    prop_oneof![3 => Just(Time::Store), 1 => caller]
}
