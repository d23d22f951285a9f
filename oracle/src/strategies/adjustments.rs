//! Traffic with adjustments and blocks, some of them under ids.

use proptest::collection::vec;
use proptest::prelude::*;

use super::requests::{request, step};
use super::{Ask, Change, Cost, Lasting, Move, Step, Trace, cost, plain_ask, remember, trace_of};
use crate::config::Shape;

/// Returns traces with adjustments; some have an id, and some of those are repeated.
pub fn adjusted_trace(shape: impl Into<Shape>, max_steps: usize) -> BoxedStrategy<Trace> {
    trace_of(shape, adjustment_steps(max_steps))
}

/// Returns traces with adjustments, of which some have an id, and none is repeated.
pub fn unrepeated_adjusted_trace(
    shape: impl Into<Shape>,
    max_steps: usize,
) -> BoxedStrategy<Trace> {
    trace_of(shape, vec(adjusted(first_ask()), 1..=max_steps))
}

/// Returns steps that continue a trace.
pub fn adjustment_steps(max_steps: usize) -> BoxedStrategy<Vec<Step>> {
    let ask = prop_oneof![
        12 => first_ask(),
        1 => (0..10_usize).prop_map(Ask::Repeat),
        1 => (0..10_usize).prop_map(Ask::Misuse),
    ];
    vec(adjusted(ask), 1..=max_steps).boxed()
}

fn first_ask() -> BoxedStrategy<Ask> {
    prop_oneof![
        5 => plain_ask(),
        1 => request(),
        5 => change().prop_map(Ask::Adjust),
        2 => (change(), remember()).prop_map(|(change, remember)| Ask::AdjustOnce(change, remember)),
    ].boxed()
}

fn adjusted(ask: impl Strategy<Value = Ask> + 'static) -> BoxedStrategy<Step> {
    let end_of_block = (-1..=1_i64).prop_map(Move::Unblocked);
    (prop_oneof![8 => Just(None), 1 => end_of_block.prop_map(Some)], step(ask))
        .prop_map(|(moved, step)| Step { moved: moved.unwrap_or(step.moved), ..step })
        .boxed()
}

pub(super) fn change() -> BoxedStrategy<Change> {
    let block = prop_oneof![
        2 => (1..=20_u64).prop_map(Lasting::Micros),
        3 => (1..=24_u64).prop_map(Lasting::Eighths),
        1 => (0..=50_u32).prop_map(|shift| Lasting::Micros(1 << shift)),
    ];
    prop_oneof![
        3 => amount().prop_map(Change::TakeUpTo),
        4 => amount().prop_map(Change::Refund),
        3 => amount().prop_map(Change::Penalty),
        2 => block.prop_map(Change::Block),
        1 => Just(Change::Unblock),
    ]
    .boxed()
}

/// Returns an amount to take, refund or charge: around the used cost, the remaining cost and the capacity.
fn amount() -> BoxedStrategy<Cost> {
    prop_oneof![4 => cost(), 2 => (-1..=1_i64).prop_map(Cost::Used)].boxed()
}
