//! Fenced values: traces of calls, on the machine and on another place.

use std::time::Duration;

use lockage_core::Timestamp;
use lockage_core::fenced::{FencedPeek, FencedRead, FencedWrite};
use proptest::prelude::*;

use crate::key::{Holds, Key};
use crate::place::Model;
use crate::properties::{Check, require};

const START_US: u64 = 1_763_700_000_000_000;

/// One call, and its microseconds after the one before (negative for before it).
#[derive(Clone, Debug)]
pub struct Step {
    moved_us: i64,
    call: Call,
    /// How long the value is to be kept, in microseconds.
    pub keep_us: u64,
}

/// A call.
#[derive(Clone, Debug)]
pub enum Call {
    /// Writes a value with a token.
    Write(u64, Vec<u8>),
    /// Removes the value with a token.
    Remove(u64),
    /// Reads with a token.
    Read(u64),
    /// Reads without a token.
    Peek,
}

/// Returns traces of calls.
pub fn trace() -> impl Strategy<Value = Vec<Step>> {
    let token = || prop_oneof![8 => 0..6_u64, 1 => Just((1 << 53) - 1)];
    let value = prop_oneof![
        4 => "[a-z]{0,14}".prop_map(String::into_bytes),
        1 => "[\\PC\\\\]{0,8}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    let call = prop_oneof![
        4 => (token(), value).prop_map(|(token, value)| Call::Write(token, value)),
        1 => token().prop_map(Call::Remove),
        4 => token().prop_map(Call::Read),
        1 => Just(Call::Peek),
    ];
    let moved = prop_oneof![3 => Just(0_i64), 3 => 1..2_000_i64, 1 => -3_000..0_i64];
    let step = (moved, call, 1..6_000_u64).prop_map(|(moved_us, call, keep_us)| Step {
        moved_us,
        call,
        keep_us,
    });
    prop::collection::vec(step, 1..25)
}

/// Runs the trace, and shows each call with its outcome and the time.
///
/// # Errors
/// The first error of `looks`, which ends the play.
///
/// # Panics
/// If the trace is out of range.
pub fn play<K: Key>(
    key: &mut K,
    trace: &[Step],
    mut looks: impl FnMut(&mut K, &Call, String, u64) -> Check,
) -> Check {
    let mut now_us = START_US;
    for Step { moved_us, call, keep_us } in trace {
        now_us = now_us.saturating_add_signed(*moved_us);
        let (now, keep) = (at(now_us), Duration::from_micros(*keep_us));
        let outcome = match call {
            Call::Write(token, value) => {
                let command = FencedWrite::new(*token, value, keep).expect("in range");
                format!("{:?}", key.execute(&command, now))
            }
            Call::Remove(token) => {
                let command = FencedWrite::removal(*token, keep).expect("in range");
                format!("{:?}", key.execute(&command, now))
            }
            Call::Read(token) => {
                let command = FencedRead::new(*token, keep).expect("in range");
                format!("{:?}", key.execute(&command, now))
            }
            Call::Peek => format!("{:?}", key.execute(&FencedPeek, now)),
        };
        looks(key, call, outcome, now_us)?;
    }
    Ok(())
}

fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(us).expect("a time")
}

/// Checks that every outcome and the key's contents equal the Rust machine's.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If the trace is out of range.
pub fn equals_the_model(model: &mut Model, other: &mut impl Holds, trace: &[Step]) -> Check {
    let mut expected = Vec::new();
    play(model, trace, |model, _, outcome, _| {
        expected.push((outcome, model.held()));
        Ok(())
    })?;
    let mut expected = expected.into_iter();
    play(other, trace, |other, call, outcome, now_us| {
        let expected = expected.next().expect("as many");
        let seen = (outcome, other.held());
        require(seen == expected, || format!("{call:?} at {now_us}: {seen:?}, not {expected:?}"))
    })
}
