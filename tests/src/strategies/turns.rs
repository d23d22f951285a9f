//! Traffic in which turns in a queue are taken, and given back.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Ask, Move, Patience, Step, Trace, config, cost, moved, request_steps, start};
use crate::config::Kind;

/// Traces of a leaky bucket in which turns are taken and given back: with no ids and no reset.
pub fn turn_trace(max_steps: usize) -> impl Strategy<Value = Trace> {
    trace_of(vec(step(), 1..=max_steps))
}

/// The same, with all else that can be asked.
pub fn mixed_turn_trace(max_steps: usize) -> impl Strategy<Value = Trace> {
    let step =
        prop_oneof![3 => step(), 2 => request_steps(1).prop_map(|mut steps| steps.remove(0))];
    trace_of(vec(step, 1..=max_steps))
}

fn trace_of(steps: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Trace> {
    (config(Kind::LeakyBucket), start(), steps).prop_map(|(config, start_us, steps)| Trace {
        config,
        start_us,
        earliest_us: 0,
        steps,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let ask = prop_oneof![
        3 => cost().prop_map(Ask::Acquire),
        1 => vec(cost(), 1..=5).prop_map(Ask::AcquireEach),
        1 => cost().prop_map(Ask::Peek),
        8 => (cost(), patience()).prop_map(|(cost, patience)| Ask::TakeTurn(cost, patience)),
        6 => prop_oneof![2 => Just(0), 1 => 0..4_usize].prop_map(Ask::CancelTurn),
    ];
    let moved = prop_oneof![6 => moved(), 1 => (-1..=1_i64).prop_map(Move::Turn)];
    (moved, ask).prop_map(|(moved, ask)| Step { moved, ask })
}

fn patience() -> impl Strategy<Value = Patience> {
    prop_oneof![
        3 => Just(Patience::Endless),
        1 => (0..=24_u64).prop_map(Patience::Eighths),
        2 => (-1..=1_i64).prop_map(Patience::Turn),
    ]
}
