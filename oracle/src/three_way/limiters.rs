//! Limits, alone and together, with adjustments, changes, turns, reservations, and stored with their keys.

// The bodies of tests, whose names state their properties.
#![allow(missing_docs)]

use proptest::prelude::*;

use crate::config::{Kind, Shape};
use crate::place::{Place, Time};
use crate::properties::{self, equals_the_model, property_on};
use crate::strategies::{
    Trace, adjusted_by_part_trace, adjusted_trace, any_turn_trace, by_part_trace,
    changing_by_part_trace, changing_trace, forward, mixed_turn_trace, request_trace, trace,
};
use crate::subject::Limiter;
use crate::{large_logs, largest_counts, reservations, stored};

/// The default number of cases per limiter.
const DEFAULT_CASES: u32 = 300;

/// The longest trace.
const STEPS: usize = 24;

pub fn the_fixed_window_is_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Kind::FixedWindow);
}

pub fn the_sliding_log_is_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Kind::SlidingLog);
}

pub fn the_sliding_window_is_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Kind::SlidingWindow);
}

pub fn the_token_bucket_is_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Kind::TokenBucket);
}

pub fn the_interval_bucket_is_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Kind::IntervalBucket);
}

pub fn the_bucket_with_a_warmup_is_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Kind::WarmupBucket);
}

pub fn the_limit_in_flight_is_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Kind::InFlight);
}

pub fn the_leaky_bucket_is_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Kind::LeakyBucket);
}

pub fn the_calendar_window_is_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Kind::CalendarWindow);
}

pub fn several_limits_in_one_are_one_machine_in_three_places(place: &impl Place) {
    one_machine(place, Shape::Several);
}

pub fn adjustments_of_each_limiter_are_one_machine_in_three_places(place: &impl Place) {
    for kind in Kind::ALL {
        one_adjusted_machine(place, kind);
    }
}

pub fn adjustments_of_several_limits_are_one_machine_in_three_places(place: &impl Place) {
    one_adjusted_machine(place, Shape::Several);
}

pub fn changes_of_limits_are_one_machine_in_three_places(place: &impl Place) {
    check(place, "three_way_changes", 2 * DEFAULT_CASES, changing_trace(2 * STEPS));
}

pub fn costs_by_part_are_one_machine_in_three_places(place: &impl Place) {
    let traces = prop_oneof![
        by_part_trace(2 * STEPS),
        adjusted_by_part_trace(2 * STEPS),
        changing_by_part_trace(2 * STEPS),
    ];
    check(place, "three_way_by_part", 2 * DEFAULT_CASES, traces);
}

pub fn turns_of_the_leaky_bucket_are_one_machine_in_three_places(place: &impl Place) {
    check(place, "three_way_turns", DEFAULT_CASES, mixed_turn_trace(2 * STEPS));
}

pub fn turns_are_one_machine_in_three_places_whatever_else_becomes_of_the_key(place: &impl Place) {
    check(place, "three_way_any_turns", DEFAULT_CASES, any_turn_trace(2 * STEPS));
}

pub fn d12_keys_are_independent(place: &impl Place) {
    let shape = || prop::sample::select(&Shape::ALL[..]);
    // Both keys share one clock, which never steps back: a step back past an expiry distinguishes a key in a store from
    // one alone.
    let traces = (shape(), shape()).prop_flat_map(|(one, other)| {
        (forward(adjusted_trace(one, STEPS)), forward(adjusted_trace(other, STEPS)))
    });
    property_on(place, "d12_independence", DEFAULT_CASES, &traces, |(one, other)| {
        let [first, second] = place.keys(Time::Caller { store_ahead_us: 0, skew_ms: 0 });
        let mut first = Limiter::on(first, one.limits.limit());
        let mut second = Limiter::on(second, other.limits.limit());
        properties::d12_keys_are_independent((&mut first, &one), (&mut second, &other))
    });
}

pub fn reservations_are_the_same_in_three_places(place: &impl Place) {
    same_reservations(place, "three_way_reservations", reservations::trace(30));
}

pub fn reservations_by_part_are_the_same_in_three_places(place: &impl Place) {
    same_reservations(place, "three_way_reservations_by_part", reservations::by_part_trace(30));
}

fn same_reservations(
    place: &impl Place,
    name: &str,
    traces: impl Strategy<Value = reservations::Trace>,
) {
    let input = (traces, Time::any(5));
    property_on(place, name, 2 * DEFAULT_CASES, &input, |(trace, time)| {
        // Its calendars contradict each other, which shows whether an expired record is still there.
        if place.is_behind_a_seam() && trace.limit.has_calendar() {
            return Ok(());
        }
        reservations::equals_the_model(&mut place.model(time), &mut place.key(time), &trace)
    });
}

pub fn logs_of_thousands_of_entries_are_the_same_in_three_places(place: &impl Place) {
    let time = Time::Caller { store_ahead_us: 0, skew_ms: 0 };
    for (seed, limit) in (0_u64..).zip(large_logs::LIMITS) {
        for reserves in [false, true] {
            // If calls take long: a log alone without reservations, the others with them.
            if place.one_case_in() > 1 && reserves == (seed == 0) {
                continue;
            }
            let (mut model, mut key) = (place.model(time), place.key(time));
            let limit = limit.parse().expect("a limit");
            let traffic = (seed, reserves, 8_000);
            let compared = large_logs::equals_the_model(&mut model, &mut key, limit, traffic);
            compared.unwrap_or_else(|difference| panic!("{limit}: {difference:?}"));
        }
    }
}

pub fn the_largest_counts_come_under_logs_alike_in_three_places(place: &impl Place) {
    let time = Time::Caller { store_ahead_us: 0, skew_ms: 0 };
    for limit in largest_counts::LIMITS {
        let keys = || (place.model(time), place.key(time));
        let compared = largest_counts::equals_the_model(keys, limit.parse().expect("a limit"));
        compared.unwrap_or_else(|difference| panic!("{limit}: {difference}"));
    }
}

pub fn stored_limits_are_the_same_in_three_places(place: &impl Place) {
    let input = (stored::trace(40), Time::any(5));
    property_on(place, "three_way_stored_limits", 1_000, &input, |(trace, time)| {
        let is_behind_a_seam = place.is_behind_a_seam();
        let trace = if is_behind_a_seam { stored::as_through_a_seam(trace) } else { trace };
        stored::equals_the_model(&mut place.model(time), &mut place.key(time), &trace)
    });
}

fn one_machine(place: &impl Place, shape: impl Into<Shape>) {
    let shape = shape.into();
    // Half of the traffic has no ids at all: its records are those of a store without ids.
    let traces = prop_oneof![trace(shape, STEPS), request_trace(shape, 2 * STEPS)];
    check(place, &format!("three_way_{}", shape.name()), DEFAULT_CASES, traces);
}

fn one_adjusted_machine(place: &impl Place, shape: impl Into<Shape>) {
    let shape = shape.into();
    let name = format!("three_way_adjusted_{}", shape.name());
    check(place, &name, DEFAULT_CASES, adjusted_trace(shape, 2 * STEPS));
}

fn check(place: &impl Place, name: &str, cases: u32, traces: impl Strategy<Value = Trace>) {
    property_on(place, name, cases, &(traces, Time::any(5_000)), |(trace, time)| {
        let trace = if place.is_behind_a_seam() { trace.forward() } else { trace };
        let limit = trace.limits.limit();
        let mut model = Limiter::on(place.model(time), limit);
        equals_the_model(&mut model, &mut Limiter::on(place.key(time), limit), &trace)
    });
}
