//! Mutants of the memory of requests and turns.

use lockage_core::ScriptId;
use lockage_oracle::config::Kind;
use lockage_oracle::properties;
use lockage_oracle::strategies::{
    Ask, Trace, forward, forward_trace, mixed_turn_trace, request_trace, turn_trace,
    unrepeated_request_trace,
};
use lockage_oracle::subject::Machine;
use proptest::prelude::*;

use super::{STEPS, Shipped};

#[test]
fn denied_ids_that_are_remembered_are_killed_by_d11() {
    let slow = ("if not admitted then id = nil end", "admitted = admitted or id");
    let fast = ("if not changed then", "if not changed and not id then");
    for (id, kind, (from, to)) in requested(fast, slow) {
        let mutant = Shipped::broken(id, from, to);
        mutant.killed(forward(request_trace(kind, STEPS)), |simulated, trace| {
            let fresh = &mut Machine::new(trace.limits.limit());
            properties::d11_a_denied_id_is_a_new_attempt(simulated, fresh, trace)
        });
    }
}

#[test]
fn a_request_that_is_charged_twice_is_killed_by_d11() {
    let (fast, slow) = (
        ("id then\n  if are_known then", "id then\n  if false then"),
        ("  if id then", "  if false then"),
    );
    for (id, kind, (from, to)) in requested(fast, slow) {
        let mutant = Shipped::broken(id, from, to);
        mutant.killed(with_repeats(kind), |simulated, (trace, repeats)| {
            let plain = &mut Machine::new(trace.limits.limit());
            properties::d11_repeats_change_nothing(plain, simulated, trace, repeats)
        });
    }
}

#[test]
fn a_ttl_that_ignores_request_ids_is_killed_by_d11() {
    let fast = ("new_till = math.max(till, kept)", "new_till = till");
    for (id, kind, (from, to)) in requested(fast, ("max(kept, blocked or 0)", "blocked or 0")) {
        let mutant = Shipped::broken(id, from, to);
        mutant.killed(with_repeats(kind), |simulated, (trace, repeats)| {
            let plain = &mut Machine::new(trace.limits.limit());
            properties::d11_repeats_change_nothing(plain, simulated, trace, repeats)
        });
    }
}

#[test]
fn an_id_that_is_remembered_for_too_long_is_killed_by_d11() {
    let fast = ("now < struct.unpack('<d', record, place + 16)", "true");
    for (id, kind, (from, to)) in requested(fast, ("now < tonumber(till) and", "true and")) {
        let mutant = Shipped::broken(id, from, to);
        let input = (forward(request_trace(kind, STEPS)), 2..=40_u64);
        mutant.killed(input, |simulated, (trace, remember_us)| {
            let fresh = &mut Machine::new(trace.limits.limit());
            properties::d11_after_r_an_id_is_new(simulated, fresh, trace, (1, *remember_us))
        });
    }
}

#[test]
fn patience_that_does_not_count_is_killed_by_d1() {
    let mutant = Shipped::broken(
        ScriptId::LeakyBucketAcquire,
        "last + math.ceil(deficit / rate) - now > max_wait",
        "last - now > max_wait",
    );
    mutant.killed(forward(turn_trace(Kind::LeakyBucket, STEPS)), |simulated, trace| {
        properties::d1_equals_the_reference(simulated, trace)
    });
}

#[test]
fn a_cancel_that_forgets_requests_is_killed_by_d1() {
    let mutant =
        Shipped::broken(ScriptId::LeakyBucketCancel, "head .. before .. behind", "head .. before");
    let no_resets = forward(mixed_turn_trace(2 * STEPS)).prop_map(|mut trace| {
        trace.steps.retain(|step| !matches!(step.ask, Ask::Reset));
        trace
    });
    mutant.killed(no_resets, |simulated, trace| {
        properties::d1_equals_the_reference(simulated, trace)
    });
}

#[test]
fn cancels_that_are_not_exact_are_killed_by_d14() {
    let taken = || {
        forward(turn_trace(Kind::LeakyBucket, STEPS)).prop_map(|mut trace| {
            trace.steps.retain(|step| !matches!(step.ask, Ask::CancelTurn(_)));
            trace
        })
    };
    for (from, to) in [
        ("if now >= turn then", "if now > turn then"),
        ("if state ~= after then", "if not state then"),
    ] {
        let mutant = Shipped::broken(ScriptId::LeakyBucketCancel, from, to);
        let input = (taken(), prop::collection::vec((0..STEPS, 0..STEPS), 1..32));
        mutant.killed(input, |simulated, (trace, cancels)| {
            let plain = &mut Machine::new(trace.limits.limit());
            properties::d14_what_is_not_exact_changes_nothing(plain, simulated, trace, cancels)
        });
    }
}

#[test]
fn a_cancel_that_keeps_the_charge_is_killed_by_d14() {
    let mutant = Shipped::broken(
        ScriptId::LeakyBucketCancel,
        "head .. before .. behind",
        "head .. after .. behind",
    );
    let others = (0..STEPS, [1..=9_u64, 1..=9_u64], 0..=40_u64);
    let input = (forward_trace(Kind::LeakyBucket, STEPS), prop::collection::vec(others, 1..16));
    mutant.killed(input, |simulated, (trace, others)| {
        let plain = &mut Machine::new(trace.limits.limit());
        properties::d14_a_cancelled_turn_was_never_asked_for(plain, simulated, trace, others)
    });
}

type Change = (&'static str, &'static str);

/// Returns both scripts that remember requests, each with a kind of limit and its mutation.
fn requested(fast: Change, slow: Change) -> [(ScriptId, Kind, Change); 2] {
    [
        (ScriptId::TokenBucketAcquire, Kind::TokenBucket, fast),
        (ScriptId::LimiterAcquire, Kind::SlidingLog, slow),
    ]
}

/// Traces, and the repeats in them: before which step, of which request, and how far off.
fn with_repeats(kind: Kind) -> impl Strategy<Value = (Trace, Vec<(usize, usize, i64)>)> {
    let shift = prop_oneof![Just(0), any::<i64>()];
    let repeats = prop::collection::vec((0..STEPS, 0..8_usize, shift), 1..16);
    (forward(unrepeated_request_trace(kind, STEPS)), repeats)
}
