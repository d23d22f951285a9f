//! Traffic in which some requests have an id, and some of those are repeated.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Ask, Cost, Lasting, Move, Step, Trace, cost, moved, plain_ask, trace_of};
use crate::config::Shape;

/// Returns traces in which some requests have an id; some of those are repeated, some for another cost.
pub fn request_trace(shape: impl Into<Shape>, max_steps: usize) -> BoxedStrategy<Trace> {
    trace_of(shape, request_steps(max_steps))
}

/// Returns traces in which some requests have an id, and none is repeated.
pub fn unrepeated_request_trace(shape: impl Into<Shape>, max_steps: usize) -> BoxedStrategy<Trace> {
    trace_of(shape, vec(step(prop_oneof![1 => plain_ask(), 2 => request()]), 1..=max_steps))
}

/// Returns steps that continue a trace. Their ids are those of the trace, from the first on.
pub fn request_steps(max_steps: usize) -> BoxedStrategy<Vec<Step>> {
    let ask = prop_oneof![
        3 => plain_ask(),
        5 => request(),
        4 => (0..10_usize).prop_map(Ask::Repeat),
        1 => (0..10_usize).prop_map(Ask::Misuse),
    ];
    vec(step(ask), 1..=max_steps).boxed()
}

/// Returns how long to remember: a few ticks, some of the span, up to the longest.
pub fn remember() -> BoxedStrategy<Lasting> {
    prop_oneof![
        2 => (1..=20_u64).prop_map(Lasting::Micros),
        4 => (1..=24_u64).prop_map(Lasting::Eighths),
        2 => (0..=50_u32).prop_map(|shift| Lasting::Micros(1 << shift)),
    ]
    .boxed()
}

pub(super) fn step(ask: impl Strategy<Value = Ask> + 'static) -> BoxedStrategy<Step> {
    let moved = prop_oneof![8 => moved(), 1 => (-1..=1_i64).prop_map(Move::Forgotten)];
    (moved, ask).prop_map(|(moved, ask)| Step { moved, ask }).boxed()
}

pub(super) fn request() -> BoxedStrategy<Ask> {
    let any = (cost(), remember()).prop_map(|(cost, remember)| Ask::Request(cost, remember));
    // Small and remembered for long, so that there are more of them than a record remembers.
    let small = Just(Ask::Request(Cost::Units(1), Lasting::Micros(1 << 50)));
    prop_oneof![any, small].boxed()
}
