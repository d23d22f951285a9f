//! The envelopes E1 to E6: how much a limiter may admit in any span of time, whatever the traffic.

use std::time::Duration;

use lockage_core::Limit;

/// The most that may be admitted in a half-open interval of `span_us` microseconds (at least 1). A leaky
/// bucket admits as a token bucket does, and several limits what the strictest of them does.
pub(super) fn envelope(limit: &Limit, span_us: u64) -> u128 {
    let span = u128::from(span_us);
    match limit {
        Limit::FixedWindow(it) => {
            let (most, window) = (u128::from(it.limit()), it.window().as_micros());
            let straddled = most * ((span - 1).div_ceil(window) + 1) - 1;
            (most * span.div_ceil(window)).max(straddled)
        }
        Limit::SlidingLog(it) => u128::from(it.limit()) * span.div_ceil(it.window().as_micros()),
        Limit::SlidingWindow(it) => {
            let most = u128::from(it.limit());
            most + most * span / it.window().as_micros()
        }
        Limit::TokenBucket(it) => refilled(it.burst(), it.amount(), it.period(), span),
        Limit::LeakyBucket(it) => refilled(it.queue(), it.amount(), it.period(), span),
        Limit::IntervalBucket(it) => {
            let intervals = (span - 1) / it.interval().as_micros() + 1;
            u128::from(it.burst()) + u128::from(it.amount()) * intervals
        }
        Limit::Composite(_) => {
            limit.parts().map(|part| envelope(&part, span_us)).min().unwrap_or_default()
        }
        // A kind that is not known here has no envelope.
        _ => u128::MAX,
    }
}

/// What is to be more than all those cost, but for the last, whose turns come within `span_us` microseconds (E6).
pub(super) fn spaced(limit: &Limit, span_us: u64) -> u128 {
    match limit {
        Limit::LeakyBucket(it) => {
            (u128::from(it.amount()) * u128::from(span_us)).div_ceil(it.period().as_micros())
        }
        _ => u128::MAX,
    }
}

fn refilled(burst: u64, amount: u64, period: Duration, span: u128) -> u128 {
    u128::from(burst) + u128::from(amount) * (span - 1) / period.as_micros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e1_to_e5_are_what_is_promised() {
        for (limit, expected) in [
            ("fixed-window 5/10us", [5, 9, 10, 15]),
            ("sliding-log 5/10us", [5, 5, 10, 15]),
            ("sliding-window 5/10us", [5, 10, 10, 15]),
            ("token-bucket 2/10us burst 3", [3, 4, 5, 7]),
            ("leaky-bucket 2/10us queue 3", [3, 4, 5, 7]),
            ("token-bucket 2 every 10us burst 3", [5, 5, 7, 9]),
            ("sliding-log 5/10us + token-bucket 2/10us burst 3", [3, 4, 5, 7]),
        ] {
            let limit: Limit = limit.parse().unwrap();
            assert_eq!(
                [1, 10, 11, 21].map(|span_us| envelope(&limit, span_us)),
                expected,
                "{limit}"
            );
        }
    }
}
