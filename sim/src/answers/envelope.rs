//! A limit's envelope and its names, and the exact log that it is held against.

use lockage_core::Limit;
use lockage_oracle::config::Config;
use lockage_oracle::envelope::{bound_of_all, property};

/// Returns the most that a limit may admit on one key in any half-open span of this many microseconds (at
/// least 1).
///
/// The least of all limits of a composite; saturates at 2^64 - 1.
pub fn envelope(limit: &Limit, span_us: u64) -> u64 {
    u64::try_from(bound_of_all(limit, span_us)).unwrap_or(u64::MAX)
}

/// Returns the names of a limit's envelopes.
pub fn laws(limit: &Limit) -> String {
    let law = |part: Limit| property(&part.into()).name();
    limit.parts().map(law).collect::<Vec<_>>().join(" + ")
}

/// Returns the exact sliding log of a limit's capacity and rate, one for each limit of a composite: an amount
/// in any span of this many microseconds.
///
/// For a window these are its limit and length, for a bucket its capacity and the time to fill it.
pub fn nominal(limit: &Limit) -> impl Iterator<Item = (u64, u64)> {
    limit.parts().map(|part| {
        let Config { amount, span_us, burst, .. } = part.into();
        let fills = (u128::from(burst) * u128::from(span_us)).div_ceil(u128::from(amount));
        (burst, u64::try_from(fills).expect("a bucket fills within 2^51 us"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_together_have_names_and_logs_of_each() {
        let limit: Limit = "sliding-log 5/10us + token-bucket 2/10us burst 7".parse().unwrap();
        assert_eq!(laws(&limit), "E2 + E4");
        assert_eq!(nominal(&limit).collect::<Vec<_>>(), [(5, 10), (7, 35)]);
        assert_eq!([1, 11, 31].map(|span_us| envelope(&limit, span_us)), [5, 9, 13]);
    }

    #[test]
    fn a_bound_beyond_all_numbers_is_the_largest() {
        let limit = "fixed-window 1000000/us".parse().unwrap();
        assert_eq!(envelope(&limit, u64::MAX), u64::MAX);
    }
}
