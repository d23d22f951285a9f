//! Traffic during which a key's limits change, once or back and forth.

use proptest::collection::vec;
use proptest::prelude::*;

use super::configs::{any_kind, config, limits};
use super::{Ask, Step, Trace, adjustment_steps, moved, start};
use crate::config::{Limits, Shape};

/// Returns traces in which the limits change between steps, to one of a few others and back.
pub fn changing_trace(max_steps: usize) -> BoxedStrategy<Trace> {
    (any_limits(), vec(successor(), 1..=3))
        .prop_map(|(first, successors)| {
            let mut all = vec![first];
            for successor in successors {
                all.push(successor.of(&all[all.len() - 1]));
            }
            all
        })
        .prop_flat_map(move |all| {
            let first = all[0].clone();
            (Just(first), start(), vec(steps_under(all), 1..=max_steps / 4))
        })
        .prop_map(|(limits, start_us, steps)| Trace {
            limits,
            start_us,
            earliest_us: 0,
            steps: steps.concat(),
        })
        .boxed()
}

/// Returns one or more limits of any kind.
pub fn any_limits() -> BoxedStrategy<Limits> {
    let one = any_kind().prop_flat_map(|kind| limits(Shape::One(kind)));
    prop_oneof![one, limits(Shape::Several)].boxed()
}

/// Returns a few steps, and then a change to one of `all`.
fn steps_under(all: Vec<Limits>) -> BoxedStrategy<Vec<Step>> {
    let change = (moved(), prop::sample::select(all))
        .prop_map(|(moved, limits)| Step { moved, ask: Ask::Under(limits) });
    (adjustment_steps(6), change)
        .prop_map(|(mut steps, change)| {
            steps.push(change);
            steps
        })
        .boxed()
}

/// How limits follow from earlier ones.
#[derive(Clone, Debug)]
enum Successor {
    /// Unrelated limits.
    Others(Limits),
    /// With one more part, in this place.
    With(usize, Limits),
    /// Without this part, if there are others.
    Without(usize),
    /// With another limit in the place of this part.
    Replaced(usize, Limits),
    /// With the amount, the span or the burst of another limit of its kind for this part.
    Retuned(usize, Tuning),
    /// With the parts reversed.
    Reversed,
}

#[derive(Clone, Copy, Debug)]
enum Tuning {
    Amount(u64, u64),
    Span(u64, u64),
}

impl Successor {
    fn of(&self, before: &Limits) -> Limits {
        let mut parts = before.parts.clone();
        let count = parts.len();
        match self {
            Successor::Others(others) => return others.clone(),
            Successor::With(at, one) if count < 4 => parts.insert(at % (count + 1), *one.only()),
            Successor::Without(at) if count > 1 => drop(parts.remove(at % count)),
            Successor::With(at, one) | Successor::Replaced(at, one) => {
                parts[at % count] = *one.only();
            }
            Successor::Retuned(at, tuning) => {
                let part = &mut parts[at % count];
                let scaled =
                    |number: u64, (times, by): (u64, u64)| number.saturating_mul(times) / by;
                let (amount, span_us, burst) = match *tuning {
                    Tuning::Amount(times, by) => {
                        let factor = (times, by);
                        (scaled(part.amount, factor), part.span_us, scaled(part.burst, factor))
                    }
                    Tuning::Span(times, by) => {
                        (part.amount, scaled(part.span_us, (times, by)), part.burst)
                    }
                };
                *part = super::configs::nearest(part.kind, amount, span_us, burst);
            }
            Successor::Without(_) | Successor::Reversed => parts.reverse(),
        }
        Limits { parts }
    }
}

fn successor() -> BoxedStrategy<Successor> {
    let at = || 0..4_usize;
    let one = || any_kind().prop_flat_map(config).prop_map(Limits::from);
    let factor = || (1..=5_u64, 1..=5_u64);
    let tuning = prop_oneof![
        factor().prop_map(|(times, by)| Tuning::Amount(times, by)),
        factor().prop_map(|(times, by)| Tuning::Span(times, by)),
    ];
    prop_oneof![
        2 => any_limits().prop_map(Successor::Others),
        2 => (at(), one()).prop_map(|(at, one)| Successor::With(at, one)),
        2 => at().prop_map(Successor::Without),
        2 => (at(), one()).prop_map(|(at, one)| Successor::Replaced(at, one)),
        4 => (at(), tuning).prop_map(|(at, tuning)| Successor::Retuned(at, tuning)),
        1 => Just(Successor::Reversed),
    ]
    .boxed()
}
