//! Traffic in which requests have a cost for each part.

use lockage_core::Composite;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::adjustments::change;
use super::changes::any_limits;
use super::requests::{request, step};
use super::{Ask, ByPart, Step, Trace, cost, plain_ask, remember, trace_of};
use crate::config::Shape;

/// Returns traces in which most requests have a cost for each part, some with an id, some of which are repeated.
pub fn by_part_trace(max_steps: usize) -> BoxedStrategy<Trace> {
    trace_of(Shape::Several, vec(step(any_ask()), 1..=max_steps))
}

/// Returns such traces in which none is repeated.
pub fn unrepeated_by_part_trace(max_steps: usize) -> BoxedStrategy<Trace> {
    trace_of(Shape::Several, vec(step(first_ask()), 1..=max_steps))
}

/// Returns such traces with adjustments among the requests.
pub fn adjusted_by_part_trace(max_steps: usize) -> BoxedStrategy<Trace> {
    let ask = prop_oneof![6 => any_ask(), 2 => adjustment()];
    trace_of(Shape::Several, vec(step(ask), 1..=max_steps))
}

/// Returns such traces whose limits change.
pub fn changing_by_part_trace(max_steps: usize) -> BoxedStrategy<Trace> {
    let ask = prop_oneof![
        8 => any_ask(),
        2 => adjustment(),
        1 => any_limits().prop_map(Ask::Under),
    ];
    trace_of(Shape::Several, vec(step(ask), 1..=max_steps))
}

/// Returns steps without ids that continue a trace.
pub fn by_part_steps(max_steps: usize) -> BoxedStrategy<Vec<Step>> {
    let how = prop_oneof![5 => Just(ByPart::Acquire), 1 => Just(ByPart::Peek)];
    vec(step(prop_oneof![4 => by_part(how), 1 => plain_ask()]), 1..=max_steps).boxed()
}

fn any_ask() -> BoxedStrategy<Ask> {
    prop_oneof![
        8 => first_ask(),
        1 => (0..10_usize).prop_map(Ask::Repeat),
        1 => (0..10_usize).prop_map(Ask::Misuse),
    ]
    .boxed()
}

fn first_ask() -> BoxedStrategy<Ask> {
    let how = prop_oneof![
        5 => Just(ByPart::Acquire),
        2 => remember().prop_map(ByPart::Once),
        1 => Just(ByPart::Peek),
    ];
    prop_oneof![8 => by_part(how), 2 => plain_ask(), 1 => request()].boxed()
}

fn adjustment() -> BoxedStrategy<Ask> {
    let remembered = || option::weighted(0.3, remember());
    let how =
        prop_oneof![remembered().prop_map(ByPart::Refund), remembered().prop_map(ByPart::Penalty),];
    prop_oneof![by_part(how), change().prop_map(Ask::Adjust)].boxed()
}

fn by_part(how: impl Strategy<Value = ByPart> + 'static) -> BoxedStrategy<Ask> {
    let costs = vec(option::weighted(0.7, cost()), Composite::MAX_LIMITS);
    (costs, how).prop_map(|(costs, how)| Ask::ByPart(costs, how)).boxed()
}
