//! Three-way equality: the Rust machine, the shipped script in the simulated store, and the same script on a real
//! server agree on every decision and every stored byte.

use super::{Check, require};
use crate::key::Holds;
use crate::place::Model;
use crate::strategies::Trace;
use crate::subject::{Limiter, Machine, Op, Outcome, Subject};

/// Checks that every outcome of `store`, and the contents and the expiry of its key, equal the model's.
///
/// # Errors
/// The first difference.
pub fn equals_the_model(
    model: &mut Limiter<Model>,
    store: &mut Limiter<impl Holds>,
    trace: &Trace,
) -> Check {
    let mut step = 0;
    trace.play(model, |model, op, now_us, expected| {
        step += 1;
        let seen = store.run(op, now_us);
        require(seen == expected, || {
            format!("step {step}, {op:?} at {now_us}: {seen:?}, in Rust {expected:?}")
        })?;
        let (seen, expected) = (store.key.held(), model.key.held());
        require(seen == expected, || {
            format!("step {step}, {op:?} at {now_us} leaves {seen:?}, in Rust {expected:?}")
        })
    })
}

/// Checks D12: two keys that are used by turns each behave as if alone.
///
/// # Errors
/// The first operation that the other key changed.
pub fn d12_keys_are_independent<S: Subject>(
    one: (&mut S, &Trace),
    other: (&mut S, &Trace),
) -> Check {
    let mut waiting = alone(other.1).into_iter();
    for (op, now_us, expected) in alone(one.1) {
        let seen = one.0.run(&op, now_us);
        require(seen.decides_like(&expected), || {
            format!("{op:?} at {now_us}: {seen:?}, alone {expected:?}")
        })?;
        let Some((op, now_us, expected)) = waiting.next() else { continue };
        let seen = other.0.run(&op, now_us);
        require(seen.decides_like(&expected), || {
            format!("{op:?} at {now_us} on the other key: {seen:?}, alone {expected:?}")
        })?;
    }
    Ok(())
}

/// Checks D12: a refused operation leaves the record unchanged.
///
/// # Errors
/// The operation that changed it.
pub fn d12_a_refusal_changes_nothing(machine: &mut Machine, trace: &Trace) -> Check {
    let mut before = None;
    trace.play(machine, |machine, op, now_us, outcome| {
        let after = machine.key.0.clone();
        let held = !matches!(outcome, Outcome::Refused(_)) || after == before;
        require(held, || {
            format!("{op:?} at {now_us} is {outcome:?}, and {before:?} is {after:?}")
        })?;
        before = after;
        Ok(())
    })
}

/// Returns the operations and outcomes of a trace on a machine of its own.
fn alone(trace: &Trace) -> Vec<(Op, u64, Outcome)> {
    let mut steps = Vec::new();
    let mut machine = Machine::new(trace.limits.limit());
    let _: Check = trace.play(&mut machine, |_, op, now_us, outcome| {
        steps.push((op.clone(), now_us, outcome));
        Ok(())
    });
    steps
}
