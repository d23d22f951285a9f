//! Equality of the lock with its reference, and of its stores with the machine.

use super::{OnKey, Subject, Trace};
use crate::key::Holds;
use crate::place::Model;
use crate::properties::{Check, require};

/// Checks that every outcome equals the reference's.
///
/// # Errors
/// The first operation on which they differ.
pub fn equals_the_reference(subject: &mut impl Subject, trace: &Trace) -> Check {
    trace.play(subject, |_, op, now_us, seen, right| {
        require(seen == right, || format!("{op:?} at {now_us}: {seen:?} where {right:?} is right"))
    })
}

/// Checks that every outcome of `store`, and the contents and the expiry of its key, equal the model's.
///
/// # Errors
/// The first difference.
pub fn equals_the_model(
    model: &mut OnKey<Model>,
    store: &mut OnKey<impl Holds>,
    trace: &Trace,
) -> Check {
    trace.play(model, |model, op, now_us, expected, _| {
        let seen = store.run(op, now_us);
        require(seen == expected, || {
            format!("{op:?} at {now_us}: {seen:?}, in Rust {expected:?}")
        })?;
        let (seen, expected) = (store.0.held(), model.0.held());
        require(seen == expected, || {
            format!("{op:?} at {now_us} leaves {seen:?}, in Rust {expected:?}")
        })
    })
}
