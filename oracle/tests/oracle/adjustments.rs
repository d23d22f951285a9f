//! The effects of adjusting a key, and their absence: taking, giving back, penalties and blocks, on
//! the Rust machines, one limit at a time and several in one; and the usage that a change of limits
//! keeps.
//!
//! `PROPTEST_CASES` says how many cases per limiter.

use lockage_oracle::config::{Kind, Limits, Shape};
use lockage_oracle::properties::{self, cases, property};
use lockage_oracle::strategies::{
    MAX_REMEMBER_US, adjusted_trace, adjustment_steps, any_limits, changing_trace, config, forward,
    steps, trace, unrepeated_adjusted_trace, with_cost,
};
use lockage_oracle::subject::{Adjustment, Machine};
use proptest::prelude::*;

/// Cases per limiter and property when nothing is asked for.
const DEFAULT_CASES: u32 = 150;

/// The longest trace.
const STEPS: usize = 24;

#[test]
fn e1_to_e5_refunds_are_not_refilled_again() {
    each(
        "adjusted_envelope",
        |shape| forward(unrepeated_adjusted_trace(shape, 2 * STEPS)),
        |trace| properties::admitted_stays_within_the_envelope(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d1_adjustments_equal_the_reference() {
    each(
        "adjusted_reference",
        |shape| adjusted_trace(shape, 2 * STEPS),
        |trace| properties::d1_equals_the_reference(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d2_retry_after_is_minimal_with_debts_and_blocks() {
    let input = |shape| with_cost(adjusted_trace(shape, STEPS));
    each("adjusted_retry_after", input, |(trace, cost)| {
        properties::d2_retry_after_is_minimal(&mut machine(&trace.limits), &trace, cost)
    });
}

#[test]
fn d4_remaining_is_exact_with_debts_and_blocks() {
    let input = |shape| with_cost(adjusted_trace(shape, STEPS));
    each("adjusted_remaining", input, |(trace, cost)| {
        properties::d4_remaining_is_exact(&mut machine(&trace.limits), &trace, cost)
    });
}

#[test]
fn d4_reset_after_is_exact_with_debts_and_blocks() {
    let input = |shape| (adjusted_trace(shape, STEPS), steps(STEPS));
    each("adjusted_reset_after", input, |(trace, then)| {
        let fresh = machine(&trace.limits);
        properties::d4_reset_after_is_exact(&mut machine(&trace.limits), fresh, &trace, &then)
    });
}

#[test]
fn d5_probes_are_transparent_between_adjustments() {
    let shift = prop_oneof![Just(0), -30..=30_i64, any::<i64>()];
    let probes = prop::collection::vec((0..STEPS, shift, 1..=u64::MAX), 1..8);
    let input = |shape| (adjusted_trace(shape, STEPS), probes.clone());
    each("adjusted_probes", input, |(trace, probes)| {
        let plain = machine(&trace.limits);
        properties::d5_probes_are_transparent(plain, &mut machine(&trace.limits), &trace, &probes)
    });
}

#[test]
fn d9_an_adjusted_key_that_may_be_forgotten_acts_like_a_fresh_one() {
    let input = |shape| (adjusted_trace(shape, STEPS), adjustment_steps(STEPS));
    each("adjusted_forgettable", input, |(trace, then)| {
        properties::d9_a_forgettable_key_is_fresh(machine(&trace.limits), &trace, &then)
    });
}

#[test]
fn d9_memory_is_bounded_under_adjustments() {
    let input = |shape| adjusted_trace(shape, 2 * STEPS);
    each("adjusted_memory", input, |trace| {
        properties::d9_memory_is_bounded(&mut machine(&trace.limits), &trace)
    });
}

#[test]
fn d11_repeated_adjustments_change_nothing() {
    let shift = prop_oneof![Just(0), -30..=30_i64, any::<i64>()];
    let repeats = prop::collection::vec((0..STEPS, 0..8_usize, shift), 1..16);
    let input = |shape| (unrepeated_adjusted_trace(shape, STEPS), repeats.clone());
    each("adjusted_repeats", input, |(trace, repeats)| {
        let (mut plain, mut repeated) = (machine(&trace.limits), machine(&trace.limits));
        properties::d11_repeats_change_nothing(&mut plain, &mut repeated, &trace, &repeats)
    });
}

#[test]
fn d11_an_adjustment_is_done_once() {
    let wait = prop_oneof![0..=40_u64, 0..MAX_REMEMBER_US];
    let input =
        |shape| (with_cost(trace(shape, STEPS)), 0..5_usize, wait.clone(), adjustment_steps(STEPS));
    each("adjusted_once", input, |((trace, cost), which, wait_us, then)| {
        let adjustment = [
            Adjustment::TakeUpTo(cost),
            Adjustment::Refund(cost.into()),
            Adjustment::Penalty(cost.into()),
            Adjustment::Block(cost.min(MAX_REMEMBER_US)),
            Adjustment::Unblock,
        ][which];
        let once = machine(&trace.limits);
        let asked = (adjustment, wait_us);
        properties::d11_an_adjustment_is_done_once(
            &mut machine(&trace.limits),
            once,
            &trace,
            asked,
            &then,
        )
    });
}

#[test]
fn d12_a_refused_adjustment_changes_nothing() {
    let input = |shape| adjusted_trace(shape, 2 * STEPS);
    each("adjusted_refused", input, |trace| {
        properties::d12_a_refusal_changes_nothing(&mut machine(&trace.limits), &trace)
    });
}

#[test]
fn taking_up_to_is_an_acquire_of_what_fits() {
    let input = |shape| (with_cost(adjusted_trace(shape, STEPS)), adjustment_steps(STEPS));
    each("take_up_to", input, |((trace, most), then)| {
        let twin = machine(&trace.limits);
        let taker = &mut machine(&trace.limits);
        properties::taking_up_to_is_an_acquire_of_what_fits(taker, twin, &trace, most, &then)
    });
}

#[test]
fn a_refund_gives_back_what_was_used() {
    // A block hides the remaining capacity.
    let input = |shape| with_cost(trace(shape, STEPS));
    each("refund", input, |(trace, cost)| {
        properties::a_refund_gives_back_what_was_used(&mut machine(&trace.limits), &trace, cost)
    });
}

#[test]
fn a_penalty_is_charged_in_full_and_admits_nothing() {
    let later = prop_oneof![0..=40_u64, any::<u64>()];
    let share = prop_oneof![1..=30_u64, (0..=53_u32).prop_map(|shift| ((1 << shift) - 1).max(1))];
    let input = |shape| (with_cost(adjusted_trace(shape, STEPS)), share.clone(), later.clone());
    each("penalty", input, |((trace, cost), penalty, later_us)| {
        let (mut punished, mut spared) = (machine(&trace.limits), machine(&trace.limits));
        let asked = (penalty, cost, later_us);
        properties::a_penalty_is_charged_in_full_and_admits_nothing(
            &mut punished,
            &mut spared,
            &trace,
            asked,
        )
    });
}

#[test]
fn a_blocked_key_admits_nothing_until_the_end() {
    let input = |shape| (adjusted_trace(shape, STEPS), (span(), span()), adjustment_steps(STEPS));
    each("block", input, |(trace, spans, then)| {
        let never = machine(&trace.limits);
        let blocked = &mut machine(&trace.limits);
        properties::a_blocked_key_admits_nothing_until_the_end(blocked, never, &trace, spans, &then)
    });
}

#[test]
fn unblocking_ends_a_block_at_once() {
    let input = |shape| (adjusted_trace(shape, STEPS), (span(), span()), adjustment_steps(STEPS));
    each("unblock", input, |(trace, spans, then)| {
        let never = machine(&trace.limits);
        let unblocked = &mut machine(&trace.limits);
        properties::unblocking_ends_a_block_at_once(unblocked, never, &trace, spans, &then)
    });
}

#[test]
fn a_change_of_limits_gives_nothing_away() {
    property("change", cases(4 * DEFAULT_CASES), &changing_trace(2 * STEPS), |trace| {
        properties::a_change_gives_nothing_away(&mut machine(&trace.limits), &trace)
    });
}

#[test]
fn e2_a_log_with_a_shorter_window_counts_its_own_entries() {
    let shorter = (any::<u64>(), config(Kind::SlidingLog));
    let input = (trace(Kind::SlidingLog, STEPS), shorter);
    property("change_of_a_log", cases(DEFAULT_CASES), &input, |(trace, (share, mut log))| {
        log.span_us = 1 + share % trace.limits.only().span_us;
        let subject = &mut machine(&trace.limits);
        properties::a_log_with_a_shorter_window_counts_its_own_entries(subject, &trace, &log)
    });
}

#[test]
fn d2_and_d4_hold_after_a_change() {
    let input = (changing_trace(STEPS), any_limits(), 1..=20_u64);
    property("change_decisions", cases(4 * DEFAULT_CASES), &input, |(trace, new, cost)| {
        let subject = &mut machine(&trace.limits);
        properties::d2_and_d4_hold_after_a_change(subject, &trace, (&new, cost))
    });
}

#[test]
fn a_block_outlasts_a_change() {
    let input = (forward(changing_trace(STEPS)), any_limits(), span(), steps(4));
    property(
        "change_of_a_blocked_key",
        cases(DEFAULT_CASES),
        &input,
        |(trace, new, span, write)| {
            let subject = &mut machine(&trace.limits);
            properties::a_block_outlasts_a_change(subject, &trace, (&new, span), &write)
        },
    );
}

/// Checks one property on every limiter, and on several in one.
fn each<S: Strategy>(
    name: &str,
    input: impl Fn(Shape) -> S,
    check: impl Fn(S::Value) -> properties::Check,
) where
    S::Value: std::fmt::Debug,
{
    properties::each(name, cases(DEFAULT_CASES), Shape::ALL, input, check);
}

fn machine(limits: &Limits) -> Machine {
    Machine::new(limits.limit())
}

/// Returns how long to block, in microseconds.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![1..=40_u64, (0..=50_u32).prop_map(|shift| 1 << shift)]
}
