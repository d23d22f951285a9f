//! Numbers for the parts of a world's limits, which have two at most.

use lockage_core::{Cost, Decision};

/// A number for each part. If a limit has one part, or a cost is for all, both are equal.
pub(super) type ByPart<T = u64> = [T; 2];

/// Returns the costs of the parts.
pub(super) fn costs_of(cost: &Cost) -> ByPart {
    [0, 1].map(|part| cost.of_part(part))
}

/// Returns the cost with these numbers.
pub(super) fn as_cost(costs: ByPart) -> Cost {
    match costs {
        [one, other] if one == other => one.into(),
        costs => Cost::by_part(&costs).expect("there are two"),
    }
}

/// Returns the permits that remain of the parts.
pub(super) fn remaining(decision: &Decision) -> ByPart {
    [0, 1].map(|part| decision.parts.get(part).map_or(decision.remaining, |part| part.remaining))
}

/// Adds to the number of each part.
pub(super) fn add([one, two]: &mut ByPart, more: ByPart) {
    *one += more[0];
    *two += more[1];
}

/// Returns the result for each part.
pub(super) fn each<A: Copy, B: Copy, T>(
    [one, two]: ByPart<A>,
    other: ByPart<B>,
    of: impl Fn(A, B) -> T,
) -> ByPart<T> {
    [of(one, other[0]), of(two, other[1])]
}

/// Returns the larger number.
pub(super) fn most([one, other]: ByPart) -> u64 {
    one.max(other)
}

/// Returns whether each number is at most the other's.
pub(super) fn is_within(costs: ByPart, other: ByPart) -> bool {
    each(costs, other, |one, other| one <= other) == [true; 2]
}
