//! The costs of the parts of a limit, as callers give them.

/// The costs of a request for the parts of its limit, by place or by name: `&[1, 950]`, or `&[("requests", 1), ("tokens",
/// 950)]`.
///
/// By place there is one for each part, in their order. By name the others are zero. A part with a cost of zero does not
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartCosts<'a> {
    /// One for each part.
    ByPlace(&'a [u64]),
    /// One for each part of a name.
    ByName(&'a [(&'a str, u64)]),
}

impl<'a> From<&'a [u64]> for PartCosts<'a> {
    fn from(costs: &'a [u64]) -> Self {
        PartCosts::ByPlace(costs)
    }
}

impl<'a, const N: usize> From<&'a [u64; N]> for PartCosts<'a> {
    fn from(costs: &'a [u64; N]) -> Self {
        PartCosts::ByPlace(costs)
    }
}

impl<'a> From<&'a [(&'a str, u64)]> for PartCosts<'a> {
    fn from(costs: &'a [(&'a str, u64)]) -> Self {
        PartCosts::ByName(costs)
    }
}

impl<'a, const N: usize> From<&'a [(&'a str, u64); N]> for PartCosts<'a> {
    fn from(costs: &'a [(&'a str, u64); N]) -> Self {
        PartCosts::ByName(costs)
    }
}
