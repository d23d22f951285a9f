//! The properties of turns in the queue of a leaky bucket (D13, D14, E6), on the Rust machine.

use lockage_oracle::config::{Config, Kind};
use lockage_oracle::properties::{self, Check, cases, property, try_out};
use lockage_oracle::strategies::{Ask, Trace, forward, mixed_turn_trace, trace, turn_trace};
use lockage_oracle::subject::{Failure, Machine, Op, Outcome, Subject};
use proptest::prelude::*;

/// Cases per property when nothing is asked for.
const DEFAULT_CASES: u32 = 500;

/// The longest trace.
const STEPS: usize = 32;

#[test]
fn d1_turns_and_patience_equal_the_reference() {
    // Two turns in one microsecond with a reset between them can be alike; the reference distinguishes
    // them.
    let no_resets = without(mixed_turn_trace(STEPS), |ask| matches!(ask, Ask::Reset));
    property("turns_d1_reference", cases(DEFAULT_CASES), &no_resets, |trace| {
        properties::d1_equals_the_reference(&mut machine(&trace), &trace)
    });
}

#[test]
fn d13_turns_are_in_order_and_bounded() {
    let traces = forward(turn_trace(Kind::LeakyBucket, 2 * STEPS));
    property("turns_d13_order", cases(DEFAULT_CASES), &traces, |trace| {
        properties::d13_turns_are_in_order_and_bounded(&mut machine(&trace), &trace)
    });
}

#[test]
fn e6_turns_are_spaced_by_the_rate() {
    property(
        "turns_e6_spacing",
        cases(DEFAULT_CASES),
        &turn_trace(Kind::LeakyBucket, 2 * STEPS),
        |trace| properties::e6_turns_are_spaced_by_the_rate(&mut machine(&trace), &trace),
    );
}

#[test]
fn d14_a_cancelled_turn_was_never_asked_for() {
    let cost = || prop_oneof![1..=9_u64, any::<u64>().prop_map(|bits| (bits >> 20).max(1))];
    let later = prop_oneof![Just(0), 0..=40_u64, any::<u64>()];
    let other = (0..STEPS, [cost(), cost()], later);
    let input = (trace(Kind::LeakyBucket, STEPS), prop::collection::vec(other, 1..16));
    property("turns_d14_cancelled", cases(DEFAULT_CASES), &input, |(trace, others)| {
        let (mut plain, mut cancelling) = (machine(&trace), machine(&trace));
        properties::d14_a_cancelled_turn_was_never_asked_for(
            &mut plain,
            &mut cancelling,
            &trace,
            &others,
        )?;
        // The records are alike, too.
        let records = [plain.key.0, cancelling.key.0];
        let held = records[0] == records[1];
        held.then_some(()).ok_or_else(|| Failure::new(format!("{records:?}")))
    });
}

#[test]
fn d14_what_is_not_exact_changes_nothing() {
    let traces =
        without(turn_trace(Kind::LeakyBucket, STEPS), |ask| matches!(ask, Ask::CancelTurn(_)));
    let input = (traces, prop::collection::vec((0..STEPS, 0..STEPS), 1..16));
    property("turns_d14_not_exact", cases(DEFAULT_CASES), &input, |(trace, cancels)| {
        let (mut plain, mut cancelling) = (machine(&trace), machine(&trace));
        properties::d14_what_is_not_exact_changes_nothing(
            &mut plain,
            &mut cancelling,
            &trace,
            &cancels,
        )
    });
}

#[test]
fn d9_cancels_do_not_see_expiry() {
    let traces = forward(turn_trace(Kind::LeakyBucket, 2 * STEPS));
    property("turns_d9_expiry", cases(DEFAULT_CASES), &traces, |trace| {
        properties::d9_cancels_do_not_see_expiry(&trace)
    });
}

/// The checks of turns see a turn that is a microsecond early, late ones, and a queue that is a stack.
#[test]
fn turns_that_are_not_right_are_seen() {
    let early = |_: &Trace, turn_us: u64| turn_us.saturating_sub(1);
    let late = |_: &Trace, turn_us: u64| turn_us * 2;
    let reversed = |trace: &Trace, turn_us: u64| longest_us(trace).saturating_sub(turn_us);
    let traces = forward(turn_trace(Kind::LeakyBucket, 2 * STEPS));
    let seen = |bend: fn(&Trace, u64) -> u64, check: fn(&mut Bent<'_>, &Trace) -> Check| {
        try_out(DEFAULT_CASES, &traces, |trace| {
            check(&mut Bent { machine: machine(&trace), trace: &trace, bend }, &trace)
        })
    };
    let order = |bent: &mut Bent<'_>, trace: &Trace| {
        properties::d13_turns_are_in_order_and_bounded(bent, trace)
    };
    let spacing = |bent: &mut Bent<'_>, trace: &Trace| {
        properties::e6_turns_are_spaced_by_the_rate(bent, trace)
    };
    assert_eq!(seen(|_, turn_us| turn_us, order), Ok(()));
    assert_eq!(seen(|_, turn_us| turn_us, spacing), Ok(()));
    assert!(seen(late, order).is_err(), "D13 does not see turns that are late");
    assert!(seen(reversed, order).is_err(), "D13 does not see turns out of order");
    assert!(seen(early, spacing).is_err(), "E6 does not see turns that are early");
}

/// A machine that replies other turns than it has.
struct Bent<'a> {
    machine: Machine,
    trace: &'a Trace,
    bend: fn(&Trace, u64) -> u64,
}

impl Subject for Bent<'_> {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        let mut outcome = self.machine.run(op, now_us);
        if let Outcome::Decided(answers) = &mut outcome {
            for answer in answers {
                answer.turn_after_us = (self.bend)(self.trace, answer.turn_after_us);
            }
        }
        outcome
    }

    fn forget(&mut self) {
        self.machine.forget();
    }
}

/// Returns how long a full queue takes to drain.
fn longest_us(trace: &Trace) -> u64 {
    let Config { amount, span_us, burst, .. } = *trace.limits.only();
    u64::try_from(u128::from(burst) * u128::from(span_us) / u128::from(amount)).unwrap()
}

fn machine(trace: &Trace) -> Machine {
    Machine::new(trace.limits.limit())
}

fn without(
    traces: impl Strategy<Value = Trace>,
    left_out: impl Fn(&Ask) -> bool,
) -> impl Strategy<Value = Trace> {
    traces.prop_map(move |mut trace| {
        trace.steps.retain(|step| !left_out(&step.ask));
        trace
    })
}
