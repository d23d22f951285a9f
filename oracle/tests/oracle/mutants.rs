//! The properties of limiters have teeth: each kills shipped scripts with one text replaced, some of them bugs that
//! others shipped, whose numbers are those of the museum. On the same cases the script as it is shipped passes.

use std::cell::RefCell;

use lockage_core::ScriptId::{
    self, FixedWindowAcquire, LeakyBucketAcquire, LeakyBucketCancel, LimiterAcquire, LimiterAdjust,
    LimiterPeek, SlidingLogAcquire, TokenBucketAcquire,
};
use lockage_oracle::config::{Config, Kind, Limits, Shape};
use lockage_oracle::place::Time;
use lockage_oracle::properties::{self, Check, kills};
use lockage_oracle::strategies::{
    self, Ask, Trace, adjusted_trace, forward, forward_trace, mixed_turn_trace, request_trace,
    turn_trace, unrepeated_adjusted_trace, unrepeated_request_trace,
};
use lockage_oracle::subject::{Limiter, Machine};
use lockage_sim::store::{SimStore, Simulated};
use proptest::prelude::*;

use super::scripts::broken;

const CASES: u32 = 600;
const STEPS: usize = 24;

/// A script, the text that is replaced, by what, and what it is put through.
type Mutant<I> = (ScriptId, &'static str, &'static str, BoxedStrategy<I>);

/// Where the script for any limit decides.
const ADMITS: &str =
    "if (each and not blocked and fits(cost) or not each and cost <= least) and in_time() then";

const OFF_BY_ONE: &str = "if cost < least and in_time() then";

#[test]
fn d1_kills_other_decisions_than_the_reference() {
    let (bare, head) = ("math.min(amount, remaining())", "head .. before .. behind");
    let patience = "last + math.ceil(deficit / rate) - now > max_wait";
    let adjusted = |kind| forward(adjusted_trace(kind, STEPS));
    let turns =
        forward(mixed_turn_trace(2 * STEPS)).prop_map(without(|ask| matches!(ask, Ask::Reset)));
    let mutants = [
        (LimiterAcquire, ADMITS, OFF_BY_ONE, forward_trace(Shape::Several, STEPS)),
        // Bug 5: numbers compared as text.
        (
            FixedWindowAcquire,
            "if cost <= left then",
            "if tostring(cost) <= tostring(left) then",
            forward_trace(Kind::FixedWindow, STEPS),
        ),
        // Bug 13: an entry counts at its expiry.
        (
            SlidingLogAcquire,
            "local gone = clock - window",
            "local gone = clock - window - 1",
            forward_trace(Kind::SlidingLog, STEPS),
        ),
        // The patience of a caller does not count.
        (
            LeakyBucketAcquire,
            patience,
            "last - now > max_wait",
            forward(turn_trace(Kind::LeakyBucket, STEPS)),
        ),
        // A cancelled turn forgets requests.
        (LeakyBucketCancel, head, "head .. before", turns.boxed()),
    ];
    let one_less = "math.min(amount, max(0, remaining() - 1))";
    let adjusts = Kind::ALL.map(|kind| (LimiterAdjust, bare, one_less, adjusted(kind)));
    killed(mutants.into_iter().chain(adjusts), |store, trace| {
        properties::d1_equals_the_reference(&mut one(store, &trace.limits), trace)
    });
}

/// Bug 6.
#[test]
fn d1_kills_a_denial_of_exactly_all_that_remains() {
    let traces = forward_trace(Shape::Several, STEPS);
    killed([(LimiterAcquire, ADMITS, OFF_BY_ONE, traces)], |store, trace| {
        properties::d1_denies_as_the_reference(&mut one(store, &trace.limits), trace)
    });
}

/// Bug 9, upside down: one more is left than can be admitted.
#[test]
fn d4_kills_a_remaining_that_is_one_too_high() {
    let used = "local state = part.is_log and {part.used, last} or";
    let less = "local state = part.is_log and {max(0, part.used - 1), last} or";
    let input = (forward_trace(Kind::SlidingLog, STEPS), 1..=9_u64).boxed();
    killed([(LimiterPeek, used, less, input)], |store, (trace, cost)| {
        properties::d4_remaining_is_exact(&mut one(store, &trace.limits), trace, *cost)
    });
}

/// Bug 15.
#[test]
fn d2_kills_a_wait_that_is_rounded_down() {
    let wait = "log.freed = goal, (time or at) + log.window";
    let rounded = "log.freed = goal, now + floor(((time or at) + log.window - now) / 1000) * 1000";
    let input = (forward_trace(Kind::SlidingLog, STEPS), 1..=9_u64).boxed();
    killed([(LimiterPeek, wait, rounded, input)], |store, (trace, cost)| {
        properties::d2_retry_after_is_minimal(&mut one(store, &trace.limits), trace, *cost)
    });
}

#[test]
fn d5_kills_denials_that_charge() {
    // At the times of the steps: a step back does not bring back a record that a store lets expire.
    let probes = prop::collection::vec((0..STEPS, Just(0), 1..=20_u64), 1..8);
    let input = (forward_trace(Shape::Several, STEPS), probes).boxed();
    let mutants = [
        // Bug 3: denied requests burn what is left.
        "if least > 0 and in_time() then cost = math.min(cost, least)",
        // Bug 4: the check ignores the cost.
        "if least >= 1 and in_time() then",
    ];
    let mutants = mutants.map(|to| (LimiterAcquire, ADMITS, to, input.clone()));
    killed(mutants, |store, (trace, probes)| {
        let plain = key(store, &trace.limits, "plain");
        let mut probed = key(store, &trace.limits, "probed");
        properties::d5_probes_are_transparent(plain, &mut probed, trace, probes)
    });
}

/// Bug 17.
#[test]
fn d6_kills_a_floored_refill() {
    let (exact, floored) = ("(now - last) * rate", "math.floor((now - last) * rate / unit) * unit");
    let polls = prop::collection::vec((0..=20_u64, 1..=2_u64), 1..STEPS);
    let input = (strategies::config(Kind::TokenBucket), polls).boxed();
    let check = |store: &_, (config, polls): &(Config, Vec<(u64, u64)>)| {
        let limits = Limits::from(*config);
        let [mut polled, mut alone] = ["polled", "alone"].map(|id| key(store, &limits, id));
        let start = (config.capacity(), 1_763_700_000_000_000);
        properties::d6_refill_composes(&mut polled, &mut alone, start, polls, 0)
    };
    killed([(TokenBucketAcquire, exact, floored, input)], check);
}

#[test]
fn d11_kills_requests_that_are_done_again() {
    let (remembered, not) = ("max(kept, blocked or 0)", "blocked or 0");
    let mutants = [
        // A request is charged twice.
        (TokenBucketAcquire, "id then\n  if are_known then", "id then\n  if false then"),
        (LimiterAcquire, "  if id then", "  if false then"),
        // The record does not outlive its requests.
        (TokenBucketAcquire, "new_till = math.max(till, kept)", "new_till = till"),
        (LimiterAcquire, remembered, not),
    ];
    let mutants = mutants.map(|(script, from, to)| {
        let traces = forward(unrepeated_request_trace(remembering(script), STEPS));
        (script, from, to, (traces, repeats()).boxed())
    });
    // Bug 21: a refund is done again.
    let (known, again) = ("local again = repeated(amount, letter)", "local again");
    let adjusted = forward(unrepeated_adjusted_trace(Shape::Several, STEPS));
    let refund = (LimiterAdjust, known, again, (adjusted, repeats()).boxed());
    killed(mutants.into_iter().chain([refund]), |store, (trace, repeats)| {
        let plain = &mut Machine::new(trace.limits.limit());
        let mut repeated = one(store, &trace.limits);
        properties::d11_repeats_change_nothing(plain, &mut repeated, trace, repeats)
    });
}

#[test]
fn d11_kills_denied_ids_that_are_remembered() {
    let mutants = [
        (TokenBucketAcquire, "if not changed then", "if not changed and not id then"),
        (LimiterAcquire, "if not admitted then id = nil end", "admitted = admitted or id"),
    ];
    let mutants = mutants.map(|(script, from, to)| {
        (script, from, to, forward(request_trace(remembering(script), STEPS)))
    });
    killed(mutants, |store, trace| {
        let fresh = &mut Machine::new(trace.limits.limit());
        let mut denied = one(store, &trace.limits);
        properties::d11_a_denied_id_is_a_new_attempt(&mut denied, fresh, trace)
    });
}

#[test]
fn d11_kills_an_id_that_is_remembered_for_too_long() {
    let mutants = [
        (TokenBucketAcquire, "now < struct.unpack('<d', record, place + 16)", "true"),
        (LimiterAcquire, "now < tonumber(till) and", "true and"),
    ];
    let mutants = mutants.map(|(script, from, to)| {
        let traces = forward(request_trace(remembering(script), STEPS));
        (script, from, to, (traces, 2..=40_u64).boxed())
    });
    killed(mutants, |store, (trace, remember_us)| {
        let fresh = &mut Machine::new(trace.limits.limit());
        let mut again = one(store, &trace.limits);
        properties::d11_after_r_an_id_is_new(&mut again, fresh, trace, (1, *remember_us))
    });
}

#[test]
fn d14_kills_cancels_that_are_not_exact() {
    let taken = forward(turn_trace(Kind::LeakyBucket, STEPS))
        .prop_map(without(|ask| matches!(ask, Ask::CancelTurn(_))));
    let input = (taken, prop::collection::vec((0..STEPS, 0..STEPS), 1..32)).boxed();
    let mutants = [
        (LeakyBucketCancel, "if now >= turn then", "if now > turn then", input.clone()),
        (LeakyBucketCancel, "if state ~= after then", "if not state then", input),
    ];
    killed(mutants, |store, (trace, cancels)| {
        let plain = &mut Machine::new(trace.limits.limit());
        let mut cancelled = one(store, &trace.limits);
        properties::d14_what_is_not_exact_changes_nothing(plain, &mut cancelled, trace, cancels)
    });
}

#[test]
fn d14_kills_a_cancel_that_keeps_the_charge() {
    let others = (0..STEPS, [1..=9_u64, 1..=9_u64], 0..=40_u64);
    let input = (forward_trace(Kind::LeakyBucket, STEPS), prop::collection::vec(others, 1..16));
    let (before, after) = ("head .. before .. behind", "head .. after .. behind");
    killed([(LeakyBucketCancel, before, after, input.boxed())], |store, (trace, others)| {
        let plain = &mut Machine::new(trace.limits.limit());
        let mut cancelled = one(store, &trace.limits);
        properties::d14_a_cancelled_turn_was_never_asked_for(plain, &mut cancelled, trace, others)
    });
}

#[test]
fn e2_kills_logs_that_admit_too_much() {
    let mutants = [
        // Bug 11: entries lose their microseconds.
        (
            SlidingLogAcquire,
            "entry = struct.pack('<dd', clock, added)",
            "entry = struct.pack('<dd', tonumber(clock .. ''), added)",
            forward_trace(Kind::SlidingLog, 2 * STEPS),
        ),
        // Bug 21: a refund comes back a second time.
        (
            LimiterAdjust,
            "log.used = log.used - math.min(log.used, cost)",
            "log.used = log.used - math.min(log.used, 2 * cost)",
            forward(unrepeated_adjusted_trace(Kind::SlidingLog, 2 * STEPS)),
        ),
    ];
    killed(mutants, |store, trace| {
        properties::admitted_stays_within_the_envelope(&mut one(store, &trace.limits), trace)
    });
}

/// Checks that on the same case the shipped script passes and the mutant fails.
fn killed<I: std::fmt::Debug>(
    mutants: impl IntoIterator<Item = Mutant<I>>,
    check: impl Fn(&RefCell<SimStore>, &I) -> Check,
) {
    for (script, from, to, inputs) in mutants {
        let shipped = lockage_lua::script(script).source();
        let mutant = broken(shipped, from, to);
        let on = |source: &str, input: &I| {
            let store = SimStore::new().expect("Lua gets its memory");
            check(&RefCell::new(store.with_script(script, source)), input)
        };
        let killed = kills(CASES, &inputs, |input| on(shipped, input), |input| on(&mutant, input));
        assert_eq!(killed, Ok(()), "{script:?} with {to}");
    }
}

fn one<'s>(store: &'s RefCell<SimStore>, limits: &Limits) -> Limiter<Simulated<'s>> {
    key(store, limits, "one")
}

fn key<'s>(store: &'s RefCell<SimStore>, limits: &Limits, id: &str) -> Limiter<Simulated<'s>> {
    Limiter::on(Simulated::new(store, Time::Store, id), limits.limit())
}

/// The kind of limit with which a script that remembers requests is tried: one for the fast path, one for the slow path.
fn remembering(script: ScriptId) -> Kind {
    if script == TokenBucketAcquire { Kind::TokenBucket } else { Kind::SlidingLog }
}

/// Repetitions: before which step, of which request, and how far off.
fn repeats() -> impl Strategy<Value = Vec<(usize, usize, i64)>> {
    let shift = prop_oneof![Just(0), any::<i64>()];
    prop::collection::vec((0..STEPS, 0..8_usize, shift), 1..16)
}

fn without(is_left_out: fn(&Ask) -> bool) -> impl Fn(Trace) -> Trace {
    move |mut trace| {
        trace.steps.retain(|step| !is_left_out(&step.ask));
        trace
    }
}
