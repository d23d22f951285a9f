//! Three-way equality: Rust machine = shipped Lua in the simulated store = shipped Lua on an
//! unmodified server with an injected clock; decision by decision, field by field, stored bytes and
//! expiry included.

use std::cell::RefCell;

use lockage_sim::store::SimStore;
use lockage_tests::config::{Kind, Shape};
use lockage_tests::lock;
use lockage_tests::properties::{self, cases, equals_the_model, property};
use lockage_tests::stores::{Model, Real, Session, Simulated, Time};
use lockage_tests::strategies::{
    Trace, adjusted_trace, any_turn_trace, changing_trace, forward, mixed_turn_trace,
    request_trace, trace,
};
use lockage_tests::subject::Limiter;
use proptest::prelude::*;

/// Cases per limiter when nothing is asked for.
const DEFAULT_CASES: u32 = 300;

/// The longest trace.
const STEPS: usize = 24;

#[test]
fn the_fixed_window_is_one_machine_in_three_places() {
    three_way(Kind::FixedWindow);
}

#[test]
fn the_sliding_log_is_one_machine_in_three_places() {
    three_way(Kind::SlidingLog);
}

#[test]
fn the_sliding_window_is_one_machine_in_three_places() {
    three_way(Kind::SlidingWindow);
}

#[test]
fn the_token_bucket_is_one_machine_in_three_places() {
    three_way(Kind::TokenBucket);
}

#[test]
fn the_interval_bucket_is_one_machine_in_three_places() {
    three_way(Kind::IntervalBucket);
}

#[test]
fn the_leaky_bucket_is_one_machine_in_three_places() {
    three_way(Kind::LeakyBucket);
}

#[test]
fn several_limits_in_one_are_one_machine_in_three_places() {
    three_way(Shape::Several);
}

#[test]
fn adjustments_of_each_limiter_are_one_machine_in_three_places() {
    for kind in Kind::ALL {
        adjusted_three_way(kind);
    }
}

#[test]
fn adjustments_of_several_limits_are_one_machine_in_three_places() {
    adjusted_three_way(Shape::Several);
}

#[test]
fn changes_of_limits_are_one_machine_in_three_places() {
    check_three_way("three_way_changes", cases(2 * DEFAULT_CASES), changing_trace(2 * STEPS));
}

#[test]
fn turns_of_the_leaky_bucket_are_one_machine_in_three_places() {
    check_three_way("three_way_turns", cases(DEFAULT_CASES), mixed_turn_trace(2 * STEPS));
}

#[test]
fn turns_are_one_machine_in_three_places_whatever_else_becomes_of_the_key() {
    check_three_way("three_way_any_turns", cases(DEFAULT_CASES), any_turn_trace(2 * STEPS));
}

#[test]
fn the_lock_is_one_machine_in_three_places() {
    let simulated = simulated_store();
    let session = RefCell::new(Session::start());
    let input = (lock::trace(STEPS, true), time());
    property("three_way_lock", cases(DEFAULT_CASES), &input, |(trace, time)| {
        let model = || lock::OnKey(Model::new(time));
        let mut on_simulated = lock::OnKey(emptied(&simulated, time));
        lock::equality::equals_the_model(&mut model(), &mut on_simulated, &trace)?;
        let mut on_real = lock::OnKey(Real::new(&session, time));
        lock::equality::equals_the_model(&mut model(), &mut on_real, &trace)
    });
}

#[test]
fn d12_keys_are_independent() {
    let simulated = simulated_store();
    let session = RefCell::new(Session::start());
    let shape = || prop::sample::select(&Shape::ALL[..]);
    // Both keys share one clock, which only goes on: a step back past an expiry tells a key in a
    // store from one alone.
    let traces = (shape(), shape()).prop_flat_map(|(one, other)| {
        (forward(adjusted_trace(one, STEPS)), forward(adjusted_trace(other, STEPS)))
    });
    property("d12_independence", cases(DEFAULT_CASES), &traces, |(one, other)| {
        let sent = Time::Caller { store_ahead_us: 0, skew_ms: 0 };
        let limits = (one.limits.limit(), other.limits.limit());
        simulated.borrow_mut().flush_all();
        let mut first = Limiter::on(Simulated::new(&simulated, sent, "one"), limits.0);
        let mut second = Limiter::on(Simulated::new(&simulated, sent, "other"), limits.1);
        properties::d12_keys_are_independent((&mut first, &one), (&mut second, &other))?;
        let mut first = Limiter::on(Real::new(&session, sent), limits.0);
        let mut second = Limiter::on(Real::new(&session, sent), limits.1);
        properties::d12_keys_are_independent((&mut first, &one), (&mut second, &other))
    });
}

fn three_way(shape: impl Into<Shape>) {
    let shape = shape.into();
    // Half of the traffic has no ids at all: its records are those of a store that knows none.
    let traces = prop_oneof![trace(shape, STEPS), request_trace(shape, 2 * STEPS)];
    check_three_way(&format!("three_way_{}", shape.name()), cases(DEFAULT_CASES), traces);
}

fn adjusted_three_way(shape: impl Into<Shape>) {
    let shape = shape.into();
    let name = format!("three_way_adjusted_{}", shape.name());
    check_three_way(&name, cases(DEFAULT_CASES), adjusted_trace(shape, 2 * STEPS));
}

fn check_three_way(name: &str, cases: u32, traces: impl Strategy<Value = Trace>) {
    let simulated = simulated_store();
    let session = RefCell::new(Session::start());
    property(name, cases, &(traces, time()), |(trace, time)| {
        let limit = trace.limits.limit();
        let model = || Limiter::on(Model::new(time), limit);
        let mut on_simulated = Limiter::on(emptied(&simulated, time), limit);
        equals_the_model(&mut model(), &mut on_simulated, &trace)?;
        let mut on_real = Limiter::on(Real::new(&session, time), limit);
        equals_the_model(&mut model(), &mut on_real, &trace)
    });
}

fn simulated_store() -> RefCell<SimStore> {
    RefCell::new(SimStore::new().expect("Lua gets its memory"))
}

/// The only key of a store.
fn emptied(store: &RefCell<SimStore>, time: Time) -> Simulated<'_> {
    store.borrow_mut().flush_all();
    Simulated::new(store, time, "one")
}

/// Mostly the store's clock; else the caller's, with the store's within the skew of it.
fn time() -> impl Strategy<Value = Time> {
    let caller = (0..=5_000_u64).prop_flat_map(|skew_ms| {
        let skew_us = i64::try_from(skew_ms * 1000).expect("a few seconds");
        (-skew_us..=skew_us)
            .prop_map(move |store_ahead_us| Time::Caller { store_ahead_us, skew_ms })
    });
    prop_oneof![3 => Just(Time::Store), 1 => caller]
}
