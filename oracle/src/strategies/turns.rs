//! Traffic in which turns in a queue are taken and cancelled.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{
    Ask, Move, Patience, Step, Trace, changing_trace, cost, moved, request_steps, trace_of,
};
use crate::config::{Kind, Shape};

/// Returns traces in which turns are taken and cancelled, without ids and resets.
pub fn turn_trace(shape: impl Into<Shape>, max_steps: usize) -> BoxedStrategy<Trace> {
    trace_of(shape, vec(step(), 1..=max_steps))
}

/// Returns such traces of a leaky bucket, with requests of all kinds.
pub fn mixed_turn_trace(max_steps: usize) -> BoxedStrategy<Trace> {
    let step =
        prop_oneof![3 => step(), 2 => request_steps(1).prop_map(|mut steps| steps.remove(0))];
    trace_of(Kind::LeakyBucket, vec(step, 1..=max_steps))
}

/// Returns such traces of any limits, with all other operations on a key.
pub fn any_turn_trace(max_steps: usize) -> BoxedStrategy<Trace> {
    let turns = vec((0..max_steps, step()), max_steps / 2);
    (changing_trace(max_steps), turns)
        .prop_map(|(mut trace, turns)| {
            for (at, step) in turns {
                trace.steps.insert(at.min(trace.steps.len()), step);
            }
            trace
        })
        .boxed()
}

fn step() -> BoxedStrategy<Step> {
    let ask = prop_oneof![
        3 => cost().prop_map(Ask::Acquire),
        1 => vec(cost(), 1..=5).prop_map(Ask::AcquireEach),
        1 => cost().prop_map(Ask::Peek),
        8 => (cost(), patience()).prop_map(|(cost, patience)| Ask::TakeTurn(cost, patience)),
        6 => prop_oneof![2 => Just(0), 1 => 0..4_usize].prop_map(Ask::CancelTurn),
    ];
    let moved = prop_oneof![6 => moved(), 1 => (-1..=1_i64).prop_map(Move::Turn)];
    (moved, ask).prop_map(|(moved, ask)| Step { moved, ask }).boxed()
}

fn patience() -> BoxedStrategy<Patience> {
    prop_oneof![
        3 => Just(Patience::Endless),
        1 => (0..=24_u64).prop_map(Patience::Eighths),
        2 => (-1..=1_i64).prop_map(Patience::Turn),
    ]
    .boxed()
}
