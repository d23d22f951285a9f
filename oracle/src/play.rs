//! Machines compared with references of their own: traces whose operations and times refer to the reference's state,
//! and the checks that play them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::judged::Seen;
use crate::key::{Holds, Key, MAX_TIME_US, Slot, is_there};
use crate::place::Model;
use crate::properties::{Check, require, try_out};
use crate::property::{Property, Violation};

/// A reference for a machine, as simple as possible.
pub trait Reference: Default {
    /// An operation in a trace, relative to the reference's state.
    type Ask: Clone + Debug;
    /// An operation.
    type Op: Debug;
    /// The outcome of an operation.
    type Outcome: Debug + PartialEq;

    /// Returns the operation of `ask` at this time, in microseconds.
    fn op(&self, ask: &Self::Ask, now_us: u64) -> Self::Op;

    /// Runs an operation on the reference.
    fn run(&mut self, op: &Self::Op, now_us: u64) -> Self::Outcome;

    /// Runs an operation on a key.
    fn run_on(op: &Self::Op, key: &mut impl Key, now_us: u64) -> Self::Outcome;

    /// Returns the times, in microseconds, at which something ends.
    fn ends_us(&self) -> Vec<u64>;
}

/// A machine that laws judge by its replies to callers.
pub trait Judged: Reference<Op: Copy> {
    /// The laws, and their state.
    type Laws: Clone + Debug + Default;

    /// Returns the violations of an operation.
    fn judge(laws: &mut Self::Laws, seen: &Seen<Self::Op, Self::Outcome>) -> Vec<Violation>;
}

/// Operations on one key.
#[derive(Clone, Debug)]
pub struct Trace<A> {
    start_us: u64,
    backwards: bool,
    steps: Vec<(Move, A)>,
}

/// A move of the clock before an operation; offsets are in microseconds.
#[derive(Clone, Copy, Debug)]
enum Move {
    Stay,
    Tick(i64),
    /// To one of the reference's ends, and so much further.
    End(usize, i64),
}

impl<A: Debug> Trace<A> {
    /// Returns the same steps, without steps back of the clock.
    #[must_use]
    pub fn forward(self) -> Self {
        Trace { backwards: false, ..self }
    }

    /// Plays the trace on the reference, and passes each operation, its time and its outcome to `seen`.
    ///
    /// # Errors
    /// The first error of `seen`, which ends the play.
    pub fn play<R: Reference<Ask = A>>(
        &self,
        mut seen: impl FnMut(&R::Op, u64, R::Outcome) -> Check,
    ) -> Check {
        let mut reference = R::default();
        let mut now_us = self.start_us;
        for (moved, ask) in &self.steps {
            now_us = self.time(now_us, *moved, &reference.ends_us());
            let op = reference.op(ask, now_us);
            let right = reference.run(&op, now_us);
            seen(&op, now_us, right)?;
        }
        Ok(())
    }

    fn time(&self, now_us: u64, moved: Move, ends_us: &[u64]) -> u64 {
        let to = match moved {
            Move::Stay => now_us,
            Move::Tick(ticks) => now_us.saturating_add_signed(ticks),
            Move::End(_, offset) if ends_us.is_empty() => now_us.saturating_add_signed(offset),
            Move::End(which, offset) => {
                ends_us[which % ends_us.len()].saturating_add_signed(offset)
            }
        };
        let earliest = if self.backwards { 0 } else { now_us };
        to.clamp(earliest, MAX_TIME_US)
    }
}

/// Returns traces of up to `max_steps`.
pub fn trace<A: Debug>(
    ask: impl Strategy<Value = A> + 'static,
    max_steps: usize,
    backwards: bool,
) -> BoxedStrategy<Trace<A>> {
    let start = prop_oneof![
        6 => Just(1_763_700_000_000_000_u64),
        2 => 0..100_u64,
        1 => (MAX_TIME_US - 10_000)..=MAX_TIME_US,
    ];
    let moved = prop_oneof![
        6 => Just(Move::Stay),
        3 => (1..=20_i64).prop_map(Move::Tick),
        2 => (20..=2_000_i64).prop_map(Move::Tick),
        1 => (-2_000..=-1_i64).prop_map(Move::Tick),
        4 => (0..100_usize, -1..=1_i64).prop_map(|(which, offset)| Move::End(which, offset)),
    ];
    let steps = vec((moved, ask), 1..=max_steps);
    (start, steps).prop_map(move |(start_us, steps)| Trace { start_us, backwards, steps }).boxed()
}

/// Returns traces of `max_steps` to twice as many steps, within so short a time that records forget many operations
/// that may come again.
pub fn brisk<A: Debug>(
    ask: impl Strategy<Value = A> + 'static,
    max_steps: usize,
) -> BoxedStrategy<Trace<A>> {
    let moved = prop_oneof![3 => Just(Move::Stay), 1 => (1..=3_i64).prop_map(Move::Tick)];
    let steps = vec((moved, ask), max_steps..=2 * max_steps);
    let start_us = 1_763_700_000_000_000;
    steps.prop_map(move |steps| Trace { start_us, backwards: false, steps }).boxed()
}

/// Returns the acquire that was sent `back` acquires ago, for `by_us` later: `later` sets its `not_after`.
pub(crate) fn again<O: Copy>(
    sent: &[(O, u64)],
    back: usize,
    by_us: u64,
    later: impl FnOnce(&mut O, u64),
) -> Option<O> {
    let (mut op, not_after_us) = sent.iter().rev().nth(back).copied()?;
    later(&mut op, not_after_us.saturating_add(by_us).min(MAX_TIME_US));
    Some(op)
}

/// Checks that the machine equals its reference, operation by operation.
///
/// # Errors
/// The first difference.
pub fn equals_the_reference<R: Reference>(trace: &Trace<R::Ask>) -> Check {
    let mut slot = Slot::default();
    trace.play::<R>(|op, now_us, right| {
        let seen = R::run_on(op, &mut slot, now_us);
        require(seen == right, || format!("{op:?} at {now_us}: {seen:?} where {right:?} is right"))
    })
}

/// Checks that every outcome of a store, and the contents and the expiry of its key, equal the model's.
///
/// # Errors
/// The first difference.
pub fn equals_the_model<R: Reference>(
    model: &mut Model,
    store: &mut impl Holds,
    trace: &Trace<R::Ask>,
) -> Check {
    trace.play::<R>(|op, now_us, _| {
        let expected = R::run_on(op, model, now_us);
        let seen = R::run_on(op, store, now_us);
        require(seen == expected, || {
            format!("{op:?} at {now_us}: {seen:?}, in Rust {expected:?}")
        })?;
        let (held, expected) = (store.held(), model.held());
        require(held == expected, || {
            format!("{op:?} at {now_us} leaves {held:?}, in Rust {expected:?}")
        })
    })
}

/// Checks laws on the effects of a trace, without steps back, on a fresh key.
///
/// # Errors
/// The first operation that breaks one.
pub fn obeys<R: Judged>(obeyed: &[Property], key: &mut impl Holds, trace: &Trace<R::Ask>) -> Check {
    let mut laws = R::Laws::default();
    trace.play::<R>(|op, now_us, _| {
        let before = key.held();
        let outcome = R::run_on(op, key, now_us);
        // A key that holds nothing any more has expired: no operation drops it.
        let changed = key.held().is_some_and(|held| before.as_ref() != Some(&held));
        let (known, was_there) = (laws.clone(), is_there(&before, now_us));
        let seen = Seen { op: *op, now_us, outcome, was_there, changed: Some(changed) };
        let broken = R::judge(&mut laws, &seen);
        let is_it = broken.iter().find(|broken| obeyed.contains(&broken.property));
        require(is_it.is_none(), || {
            let outcome = &seen.outcome;
            format!("{is_it:?}: {op:?} at {now_us} is {outcome:?}, knowing {known:?}, {before:?}")
        })
    })
}

/// Checks D9: a record that is dropped as soon as it may be is never missed, and each stored record can be read.
///
/// # Errors
/// The first operation that shows a difference.
pub fn d9_expiry_is_invisible<R: Reference>(trace: &Trace<R::Ask>) -> Check {
    let (mut kept, mut dropped) = (Slot::default(), Slot::default());
    trace.play::<R>(|op, now_us, _| {
        if dropped.forget_at_us().is_some_and(|forget_at_us| forget_at_us <= now_us) {
            dropped.forget();
        }
        let expected = R::run_on(op, &mut kept, now_us);
        let seen = R::run_on(op, &mut dropped, now_us);
        require(seen == expected, || format!("{op:?} at {now_us}: {seen:?}, kept {expected:?}"))?;
        let Some(record) = &dropped.0 else { return Ok(()) };
        let read = lockage_core::Record::read(&record.stored());
        require(read.as_ref() == Ok(record), || format!("{record:?} is read as {read:?}"))
    })
}

/// Checks that traces often reach each of these outcomes, by their names: an outcome that is not reached is not
/// tested.
///
/// # Panics
/// If they hardly reach one.
pub fn reach<R: Reference>(traces: &impl Strategy<Value = Trace<R::Ask>>, outcomes: &[&str]) {
    let counts = RefCell::new(BTreeMap::new());
    let counted = try_out(1_000, traces, |trace| {
        trace.play::<R>(|_, _, right| {
            let told = format!("{right:?}");
            let name = told.split(['(', ' ']).next().unwrap_or_default().to_owned();
            *counts.borrow_mut().entry(name).or_insert(0) += 1;
            Ok(())
        })
    });
    assert_eq!(counted, Ok(()));
    let counts = counts.into_inner();
    for outcome in outcomes {
        let count = counts.get(*outcome).copied().unwrap_or(0);
        assert!(count >= 100, "{outcome}: only {count}");
    }
}
