//! Every configuration that the machines accept: tiny, common, arbitrary, and at the documented bounds.

use lockage_core::Composite;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::calendar::Calendar;
use crate::config::{Config, Kind, Limits, Shape};

/// The largest count that is exact in a double.
pub(super) const MAX_COUNT: u64 = (1 << 53) - 1;

/// The largest limit of a sliding log.
const MAX_LOG: u64 = 1 << 20;

/// The longest span that is remembered, in microseconds.
const MAX_SPAN_US: u64 = 1 << 51;

/// Returns accepted limits of one shape.
pub fn limits(shape: Shape) -> BoxedStrategy<Limits> {
    let any = || any_kind().prop_flat_map(config);
    // Small ones bind by turns.
    let small = (any_kind(), 1..=10_u64, 1..=60_u64, 1..=15_u64)
        .prop_map(|(kind, amount, span_us, burst)| fit(kind, amount, span_us, burst));
    let equal = (any(), 2..=Composite::MAX_LIMITS).prop_map(|(config, count)| vec![config; count]);
    let parts = Union::new_weighted(vec![
        (4, vec(small, 2..=Composite::MAX_LIMITS).boxed()),
        (2, vec(any(), 2..=Composite::MAX_LIMITS).boxed()),
        (1, equal.boxed()),
        (1, vec(config(Kind::SlidingLog), 2..=Composite::MAX_LIMITS).boxed()),
    ]);
    match shape {
        Shape::One(kind) => config(kind).prop_map(Limits::from).boxed(),
        Shape::Several => parts.prop_map(|parts| Limits { parts }).boxed(),
    }
}

/// Returns any of the kinds.
pub(super) fn any_kind() -> BoxedStrategy<Kind> {
    prop::sample::select(&Kind::ALL[..]).boxed()
}

/// Returns accepted configurations of one kind.
pub fn config(kind: Kind) -> BoxedStrategy<Config> {
    let tiny = (1..=10_u64, 1..=20_u64, 1..=15_u64);
    let small = (1..=50_u64, 1..=5_000_000_u64, 1..=60_u64);
    let mainstream = prop_oneof![
        Just((10, 60 * SECOND_US, 10)),
        Just((5, SECOND_US, 5)),
        Just((100, 60 * SECOND_US, 20)),
        Just((1_000, 3_600 * SECOND_US, 50)),
        Just((1_000_000, DAY_US, 1_000_000)),
        Just((1_000_000, DAY_US, 1_000)),
        Just((3, 7 * SECOND_US, 11)),
    ];
    let arbitrary = (count(), span(), count());
    let bound = (count(), span(), Just(u64::MAX));
    Union::new_weighted(vec![
        (8, tiny.boxed()),
        (4, small.boxed()),
        (3, mainstream.boxed()),
        (3, arbitrary.boxed()),
        (2, bound.boxed()),
    ])
    .prop_map(move |(amount, span_us, burst)| fit(kind, amount, span_us, burst))
    .boxed()
}

const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 86_400 * SECOND_US;

/// Returns counts of every magnitude.
fn count() -> BoxedStrategy<u64> {
    magnitudes(MAX_COUNT)
}

/// Returns spans of every magnitude.
fn span() -> BoxedStrategy<u64> {
    magnitudes(MAX_SPAN_US)
}

fn magnitudes(max: u64) -> BoxedStrategy<u64> {
    (0..64_u32, any::<u64>()).prop_map(move |(shift, bits)| (bits >> shift).clamp(1, max)).boxed()
}

/// Returns the nearest accepted configuration to numbers that may be zero or too large.
pub(super) fn nearest(kind: Kind, amount: u64, span_us: u64, burst: u64) -> Config {
    let count = |number: u64| number.clamp(1, MAX_COUNT);
    fit(kind, count(amount), span_us.clamp(1, MAX_SPAN_US), count(burst))
}

/// Returns the nearest configuration that the documented bounds allow; a burst or limit of `u64::MAX` becomes the
/// largest one.
///
/// The bounds are stated here once more, from the documentation: a machine that refuses one of these fails the suite.
fn fit(kind: Kind, amount: u64, span_us: u64, burst: u64) -> Config {
    let at_bound = burst == u64::MAX;
    match kind {
        Kind::FixedWindow | Kind::SlidingLog => {
            let max = if kind == Kind::SlidingLog { MAX_LOG } else { MAX_COUNT };
            Config::window(kind, if at_bound { max } else { amount.min(max) }, span_us)
        }
        Kind::SlidingWindow => {
            let window_us = span_us.min(1 << 50);
            // floor(limit / S) * window stays below 2^53, with S = floor(2^52 / window).
            let split = (1_u64 << 52) / window_us;
            let max = u128::from(MAX_COUNT / window_us) * u128::from(split) + u128::from(split - 1);
            let max = u64::try_from(max.min(MAX_COUNT.into())).expect("at most the largest count");
            Config::window(kind, if at_bound { max } else { amount.min(max) }, window_us)
        }
        Kind::InFlight => {
            Config::window(kind, if at_bound { MAX_COUNT } else { amount }, span_us.min(1 << 50))
        }
        Kind::CalendarWindow => {
            let limit = if at_bound { MAX_COUNT } else { amount };
            Config::window(kind, limit, Calendar::numbered(span_us).span_us())
        }
        Kind::TokenBucket | Kind::LeakyBucket => {
            let divisor = gcd(amount, span_us);
            let (numerator, denominator) = (amount / divisor, span_us / divisor);
            // Within the exact range, and full again within the longest span.
            let exact = MAX_COUNT / denominator;
            let filled = u128::from(MAX_SPAN_US) * u128::from(numerator) / u128::from(denominator);
            let max = exact.min(u64::try_from(filled).unwrap_or(u64::MAX));
            if max == 0 {
                return fit(kind, amount, span_us / 2, burst);
            }
            Config::bucket(kind, amount, span_us, burst.min(max))
        }
        Kind::WarmupBucket => {
            let span_us = span_us.min(1 << 50);
            let amount = amount.min(MAX_COUNT / 10);
            let divisor = gcd(amount, span_us);
            let (numerator, unit) = (amount / divisor, 10 * (span_us / divisor));
            // Within the exact range, and full again within half of the longest span.
            let filled = u128::from(MAX_SPAN_US / 2) * u128::from(numerator) / u128::from(unit);
            let max = (MAX_COUNT / unit).min(u64::try_from(filled).unwrap_or(u64::MAX));
            if max == 0 {
                return fit(kind, amount, span_us / 2, burst);
            }
            // Shorter and longer than the span.
            let warmup_us = match at_bound && span_us.is_multiple_of(4) {
                true => u64::MAX,
                false => 1 + (amount ^ burst ^ (3 * span_us)) % (8 * span_us),
            };
            let bucket = Config::bucket(kind, amount, span_us, burst.min(max));
            Config { warmup_us: warmup_us.min(1 << 50), ..bucket }
        }
        Kind::IntervalBucket => {
            // Full again within the longest span, and no refill above the burst.
            let intervals = u128::from(MAX_SPAN_US / span_us);
            let max = (intervals * u128::from(amount)).min(u128::from(MAX_COUNT));
            let max = u64::try_from(max).expect("at most the largest count");
            let burst = if at_bound { max } else { burst.clamp(amount, max) };
            Config::bucket(kind, amount, span_us, burst)
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_per_day_fits_every_limiter() {
        for kind in Kind::ALL {
            let config = fit(kind, 1_000_000, DAY_US, 1_000_000);
            assert_eq!((config.amount, config.burst), (1_000_000, 1_000_000));
            config.limit();
        }
    }
}
