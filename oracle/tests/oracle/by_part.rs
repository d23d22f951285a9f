//! Requests with a cost for each part of a limit.

use lockage_oracle::config::Limits;
use lockage_oracle::properties::{self, cases, property};
use lockage_oracle::strategies::{
    adjusted_by_part_trace, by_part_steps, by_part_trace, forward, unrepeated_by_part_trace,
};
use lockage_oracle::subject::Machine;
use proptest::prelude::*;

const DEFAULT_CASES: u32 = 600;
const STEPS: usize = 24;

#[test]
fn e1_to_e5_each_part_keeps_its_envelope() {
    property(
        "by_part_envelope",
        cases(DEFAULT_CASES),
        &unrepeated_by_part_trace(2 * STEPS),
        |trace| properties::admitted_stays_within_the_envelope(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d1_d2_d4_decisions_by_part_equal_the_reference() {
    let traces = prop_oneof![by_part_trace(STEPS), adjusted_by_part_trace(STEPS)];
    property("by_part_reference", cases(2 * DEFAULT_CASES), &traces, |trace| {
        properties::d1_equals_the_reference(&mut machine(&trace.limits), &trace)
    });
}

#[test]
fn d4_reset_after_is_exact_after_costs_by_part() {
    let input = (by_part_trace(STEPS), by_part_steps(STEPS));
    property("by_part_reset_after", cases(DEFAULT_CASES), &input, |(trace, then)| {
        let fresh = machine(&trace.limits);
        properties::d4_reset_after_is_exact(&mut machine(&trace.limits), fresh, &trace, &then)
    });
}

#[test]
fn d5_probes_change_no_decision_by_part() {
    let shift = prop_oneof![Just(0), -30..=30_i64, any::<i64>()];
    let probes = prop::collection::vec((0..STEPS, shift, 1..=u64::MAX), 1..8);
    let input = (by_part_trace(STEPS), probes);
    property("by_part_probes", cases(DEFAULT_CASES), &input, |(trace, probes)| {
        let plain = machine(&trace.limits);
        properties::d5_probes_are_transparent(plain, &mut machine(&trace.limits), &trace, &probes)
    });
}

#[test]
fn d9_a_forgettable_key_is_fresh_and_small() {
    let input = (by_part_trace(STEPS), by_part_steps(STEPS));
    property("by_part_forgotten", cases(DEFAULT_CASES), &input, |(trace, then)| {
        properties::d9_memory_is_bounded(&mut machine(&trace.limits), &trace)?;
        properties::d9_a_forgettable_key_is_fresh(machine(&trace.limits), &trace, &then)
    });
}

#[test]
fn d10_stored_time_never_decreases_and_a_lost_record_grants_one_allowance() {
    let on = forward(unrepeated_by_part_trace(STEPS));
    let input = (on, by_part_trace(STEPS), 0..2 * STEPS);
    property("by_part_time", cases(DEFAULT_CASES), &input, |(mut on, any, lost_before)| {
        properties::d10_stored_time_never_decreases(&mut machine(&any.limits), &any)?;
        on.steps.retain(|step| !matches!(step.ask, lockage_oracle::strategies::Ask::Reset));
        let mut machine = machine(&on.limits);
        properties::d10_a_lost_record_grants_one_allowance(&mut machine, &on, lost_before)
    });
}

#[test]
fn d11_a_repeated_request_by_part_changes_nothing() {
    let shift = prop_oneof![Just(0), -30..=30_i64, any::<i64>()];
    let repeats = prop::collection::vec((0..STEPS, 0..8_usize, shift), 1..16);
    let input = (unrepeated_by_part_trace(STEPS), repeats);
    property("by_part_repeats", cases(DEFAULT_CASES), &input, |(trace, repeats)| {
        let (mut plain, mut repeated) = (machine(&trace.limits), machine(&trace.limits));
        properties::d11_repeats_change_nothing(&mut plain, &mut repeated, &trace, &repeats)
    });
}

#[test]
fn d12_a_refused_operation_by_part_changes_nothing() {
    property("by_part_refused", cases(DEFAULT_CASES), &by_part_trace(2 * STEPS), |trace| {
        properties::d12_a_refusal_changes_nothing(&mut machine(&trace.limits), &trace)
    });
}

fn machine(limits: &Limits) -> Machine {
    Machine::new(limits.limit())
}
