//! The properties of the limiters (E1 to E5, D1 to D12), on the Rust machines.
//!
//! Each runs on every limiter that it speaks of. `PROPTEST_CASES` says how many cases per limiter.

use lockage_oracle::config::{Kind, Limits, Shape};
use lockage_oracle::properties::{self, cases};
use lockage_oracle::strategies::{
    self, MAX_REMEMBER_US, forward_trace, request_steps, request_trace, steps, trace,
    unrepeated_request_trace, with_cost,
};
use lockage_oracle::subject::Machine;
use proptest::prelude::*;

/// Cases per limiter and property when nothing is asked for: a few seconds in all.
const DEFAULT_CASES: u32 = 150;

/// The longest trace: long enough to fill, empty and refill a limiter a few times.
const STEPS: usize = 24;

#[test]
fn e1_to_e5_no_interval_holds_more_than_the_envelope() {
    each(
        "e1_to_e5_envelope",
        Shape::ALL,
        |shape| trace(shape, 2 * STEPS),
        |trace| properties::admitted_stays_within_the_envelope(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d1_decisions_equal_the_reference() {
    each(
        "d1_reference",
        Shape::ALL,
        |shape| trace(shape, STEPS),
        |trace| properties::d1_equals_the_reference(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d1_denies_exactly_when_the_reference_does() {
    each(
        "d1_denials",
        Shape::ALL,
        |shape| trace(shape, 2 * STEPS),
        |trace| properties::d1_denies_as_the_reference(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d2_retry_after_is_minimal() {
    let input = |shape| with_cost(trace(shape, STEPS));
    each("d2_retry_after", Shape::ALL, input, |(trace, cost)| {
        properties::d2_retry_after_is_minimal(&mut machine(&trace.limits), &trace, cost)
    });
}

#[test]
fn d3_retry_after_is_the_expiry_of_the_smallest_prefix_that_frees_enough() {
    each(
        "d3_weighted_log",
        [Shape::One(Kind::SlidingLog)],
        |shape| trace(shape, 2 * STEPS),
        |trace| properties::d3_retry_after_frees_a_prefix(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d4_remaining_is_exact() {
    let input = |shape| with_cost(trace(shape, STEPS));
    each("d4_remaining", Shape::ALL, input, |(trace, cost)| {
        properties::d4_remaining_is_exact(&mut machine(&trace.limits), &trace, cost)
    });
}

#[test]
fn d4_reset_after_is_exact() {
    // The memory of requests with an id does not count.
    let input = |shape| (request_trace(shape, STEPS), steps(STEPS));
    each("d4_reset_after", Shape::ALL, input, |(trace, then)| {
        let fresh = machine(&trace.limits);
        properties::d4_reset_after_is_exact(&mut machine(&trace.limits), fresh, &trace, &then)
    });
}

#[test]
fn d5_probes_are_transparent() {
    let shift = prop_oneof![Just(0), -30..=30_i64, any::<i64>()];
    let probes = prop::collection::vec((0..STEPS, shift, 1..=u64::MAX), 1..8);
    let input = |shape| (trace(shape, STEPS), probes.clone());
    each("d5_probes", Shape::ALL, input, |(trace, probes)| {
        let plain = machine(&trace.limits);
        properties::d5_probes_are_transparent(plain, &mut machine(&trace.limits), &trace, &probes)
    });
}

#[test]
fn d6_refill_composes() {
    // Waits in sixteenths of the time of a token, so that most polls see a part of one.
    let polls = prop::collection::vec((0..=40_u64, 1..=3_u64), 1..STEPS);
    let input = |shape| (strategies::limits(shape), 0..1_u64 << 50, polls.clone(), 0..=40_u64);
    each(
        "d6_refill",
        [Kind::TokenBucket, Kind::IntervalBucket, Kind::LeakyBucket, Kind::WarmupBucket]
            .map(Shape::One),
        input,
        |(limits, start_us, polls, later)| {
            let bucket = limits.only();
            let token_us = (bucket.span_us / bucket.amount).max(1);
            let scaled = |sixteenths: u64| {
                u64::try_from(u128::from(sixteenths) * u128::from(token_us) / 16).unwrap()
            };
            let polls: Vec<(u64, u64)> =
                polls.into_iter().map(|(wait, cost)| (scaled(wait), cost)).collect();
            let (mut polled, mut alone) = (machine(&limits), machine(&limits));
            let start = (limits.capacity(), start_us);
            properties::d6_refill_composes(&mut polled, &mut alone, start, &polls, scaled(later))
        },
    );
}

#[test]
fn d7_gcra_and_the_token_bucket_decide_alike() {
    each(
        "d7_gcra",
        [Shape::One(Kind::TokenBucket)],
        |shape| trace(shape, STEPS),
        |trace| properties::d7_gcra_decides_alike(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d8_less_cost_more_tokens_and_more_time_never_deny() {
    let later = prop_oneof![0..=40_u64, any::<u64>()];
    let input = |shape| (with_cost(trace(shape, STEPS)), spend(), later.clone());
    each("d8_monotone", Shape::ALL, input, |((trace, cost), spent, later_us)| {
        let (mut more, mut less) = (machine(&trace.limits), machine(&trace.limits));
        properties::d8_monotone_in_one_state(&mut more, &mut less, &trace, (cost, spent, later_us))
    });
}

#[test]
fn d9_a_key_that_may_be_forgotten_acts_like_a_fresh_one() {
    let input = |shape| (request_trace(shape, STEPS), request_steps(STEPS));
    each("d9_forgettable", Shape::ALL, input, |(trace, then)| {
        properties::d9_a_forgettable_key_is_fresh(machine(&trace.limits), &trace, &then)
    });
}

#[test]
fn d9_memory_is_bounded_by_the_configuration() {
    let input = |shape| request_trace(shape, 2 * STEPS);
    each("d9_memory", Shape::ALL, input, |trace| {
        properties::d9_memory_is_bounded(&mut machine(&trace.limits), &trace)
    });
}

#[test]
fn d10_a_lost_record_grants_at_most_one_fresh_allowance() {
    let no_resets = |shape| {
        forward_trace(shape, 2 * STEPS).prop_map(|mut trace| {
            trace.steps.retain(|step| !matches!(step.ask, strategies::Ask::Reset));
            trace
        })
    };
    let input = |shape| (no_resets(shape), 0..2 * STEPS);
    each("d10_lost_record", Shape::ALL, input, |(trace, lost_before)| {
        properties::d10_a_lost_record_grants_one_allowance(
            &mut machine(&trace.limits),
            &trace,
            lost_before,
        )
    });
}

#[test]
fn d10_a_step_back_stalls_no_longer_than_itself() {
    let back = prop_oneof![0..=40_u64, 0..1_u64 << 53];
    let input = |shape| (with_cost(trace(shape, STEPS)), back.clone());
    each("d10_stall", Shape::ALL, input, |((trace, cost), back_us)| {
        let mut machine = machine(&trace.limits);
        properties::d10_a_step_back_stalls_no_longer_than_itself(
            &mut machine,
            &trace,
            (cost, back_us),
        )
    });
}

#[test]
fn d10_stored_time_never_decreases() {
    each(
        "d10_stored_time",
        Shape::ALL,
        |shape| trace(shape, STEPS),
        |trace| properties::d10_stored_time_never_decreases(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d11_decisions_on_requests_equal_the_reference() {
    each(
        "d11_reference",
        Shape::ALL,
        |shape| request_trace(shape, 2 * STEPS),
        |trace| properties::d1_equals_the_reference(&mut machine(&trace.limits), &trace),
    );
}

#[test]
fn d11_repeats_change_nothing() {
    let shift = prop_oneof![Just(0), -30..=30_i64, any::<i64>()];
    let repeats = prop::collection::vec((0..STEPS, 0..8_usize, shift), 1..16);
    let input = |shape| (unrepeated_request_trace(shape, STEPS), repeats.clone());
    each("d11_repeats", Shape::ALL, input, |(trace, repeats)| {
        let (mut plain, mut repeated) = (machine(&trace.limits), machine(&trace.limits));
        properties::d11_repeats_change_nothing(&mut plain, &mut repeated, &trace, &repeats)
    });
}

#[test]
fn d11_a_denied_id_is_a_new_attempt() {
    let input = |shape| request_trace(shape, STEPS);
    each("d11_denied", Shape::ALL, input, |trace| {
        let (mut denied, mut fresh) = (machine(&trace.limits), machine(&trace.limits));
        properties::d11_a_denied_id_is_a_new_attempt(&mut denied, &mut fresh, &trace)
    });
}

#[test]
fn d11_after_r_or_k_others_an_id_is_new() {
    let remember = prop_oneof![1..=40_u64, 1..=MAX_REMEMBER_US];
    let input = |shape| (with_cost(request_trace(shape, STEPS)), remember.clone());
    each("d11_forgotten", Shape::ALL, input, |((trace, cost), remember_us)| {
        let [mut again, mut fresh] = [(); 2].map(|()| machine(&trace.limits));
        let request = (cost, remember_us);
        properties::d11_after_r_an_id_is_new(&mut again, &mut fresh, &trace, request)?;
        let [mut again, mut fresh] = [(); 2].map(|()| machine(&trace.limits));
        properties::d11_after_k_others_an_id_is_new(&mut again, &mut fresh, trace.start_us)
    });
}

#[test]
fn d11_without_an_id_a_retry_only_under_admits() {
    let wait = || prop_oneof![0..=40_u64, any::<u64>()];
    let input = |shape| (with_cost(trace(shape, STEPS)), wait(), wait());
    each("d11_no_id", Shape::ALL, input, |((trace, cost), wait_us, later_us)| {
        let (mut once, mut twice) = (machine(&trace.limits), machine(&trace.limits));
        let request = (cost, wait_us, later_us);
        properties::d11_without_an_id_a_retry_costs_itself(&mut once, &mut twice, &trace, request)
    });
}

#[test]
fn d12_a_refused_operation_changes_nothing() {
    each(
        "d12_refused",
        Shape::ALL,
        |shape| request_trace(shape, 2 * STEPS),
        |trace| properties::d12_a_refusal_changes_nothing(&mut machine(&trace.limits), &trace),
    );
}

/// Checks one property on each of `shapes`.
fn each<S: Strategy>(
    name: &str,
    shapes: impl IntoIterator<Item = Shape>,
    input: impl Fn(Shape) -> S,
    check: impl Fn(S::Value) -> properties::Check,
) where
    S::Value: std::fmt::Debug,
{
    properties::each(name, cases(DEFAULT_CASES), shapes, input, check);
}

fn machine(limits: &Limits) -> Machine {
    Machine::new(limits.limit())
}

fn spend() -> impl Strategy<Value = u64> {
    prop_oneof![1..=9_u64, any::<u64>().prop_map(|bits| (bits >> 20).max(1))]
}
