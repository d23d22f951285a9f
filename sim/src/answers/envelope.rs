//! The envelopes E1 to E5: the most that a limit admits in any span, whatever the traffic.

use std::time::Duration;

use lockage_core::Limit;

/// Returns the most that a limit may admit on one key in any half-open span of this many microseconds (at
/// least 1).
///
/// The least of all limits of a composite; saturates at 2^64 - 1.
pub fn envelope(limit: &Limit, span_us: u64) -> u64 {
    let span = u128::from(span_us);
    let bound = match limit {
        Limit::FixedWindow(window) => {
            let (limit, window) = (u128::from(window.limit()), micros(window.window()));
            let touched = limit * span.div_ceil(window);
            touched.max(limit * (1 + (span - 1).div_ceil(window)) - 1)
        }
        Limit::SlidingLog(log) => u128::from(log.limit()) * span.div_ceil(micros(log.window())),
        Limit::SlidingWindow(window) => {
            let (limit, window) = (u128::from(window.limit()), micros(window.window()));
            limit * (window + span) / window
        }
        Limit::TokenBucket(bucket) => {
            let amount = u128::from(bucket.amount());
            u128::from(bucket.burst()) + amount * (span - 1) / micros(bucket.period())
        }
        Limit::LeakyBucket(bucket) => {
            let amount = u128::from(bucket.amount());
            u128::from(bucket.queue()) + amount * (span - 1) / micros(bucket.period())
        }
        Limit::IntervalBucket(bucket) => {
            let (amount, interval) = (u128::from(bucket.amount()), micros(bucket.interval()));
            u128::from(bucket.burst()) + amount * ((span - 1) / interval + 1)
        }
        together => {
            let least = together.parts().map(|part| envelope(&part, span_us)).min();
            return least.unwrap_or(u64::MAX);
        }
    };
    u64::try_from(bound).unwrap_or(u64::MAX)
}

/// Returns the names of a limit's envelopes.
pub fn laws(limit: &Limit) -> String {
    let law = |part| match part {
        Limit::FixedWindow(_) => "E1",
        Limit::SlidingLog(_) => "E2",
        Limit::SlidingWindow(_) => "E3",
        Limit::IntervalBucket(_) => "E5",
        // A leaky bucket's queue is filled as a token bucket is emptied.
        _ => "E4",
    };
    limit.parts().map(law).collect::<Vec<_>>().join(" + ")
}

/// Returns the exact sliding log of a limit's capacity and rate, one for each limit of a composite: an amount
/// in any span of this many microseconds.
///
/// Of a window these are its limit and length, of a bucket its capacity and the time to fill it.
pub fn nominal(limit: &Limit) -> impl Iterator<Item = (u64, u64)> {
    limit.parts().map(|part| {
        let (amount, per) = rate(&part);
        let capacity = part.capacity();
        let fills = (u128::from(capacity) * u128::from(per)).div_ceil(u128::from(amount));
        (capacity, u64::try_from(fills).expect("a bucket fills within 2^51 us"))
    })
}

/// Returns the rate in the long run: an amount, and its microseconds.
pub(super) fn rate(single: &Limit) -> (u64, u64) {
    let (amount, per) = match single {
        Limit::FixedWindow(window) => (window.limit(), window.window()),
        Limit::SlidingLog(log) => (log.limit(), log.window()),
        Limit::SlidingWindow(window) => (window.limit(), window.window()),
        Limit::TokenBucket(bucket) => (bucket.amount(), bucket.period()),
        Limit::LeakyBucket(bucket) => (bucket.amount(), bucket.period()),
        Limit::IntervalBucket(bucket) => (bucket.amount(), bucket.interval()),
        together => unreachable!("one of several is a single limit: {together}"),
    };
    (amount, micros(per) as u64)
}

fn micros(time: Duration) -> u128 {
    time.as_micros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(limit: &str, spans: &[u64]) -> Vec<u64> {
        let limit = limit.parse().unwrap();
        spans.iter().map(|span| envelope(&limit, *span)).collect()
    }

    #[test]
    fn e1_two_windows_meet() {
        assert_eq!(bounds("fixed-window 5/10us", &[1, 2, 10, 11, 12, 21]), [5, 9, 9, 10, 14, 15]);
    }

    #[test]
    fn e2_a_log_is_exact_in_one_window() {
        assert_eq!(bounds("sliding-log 5/10us", &[1, 10, 11, 20, 21]), [5, 5, 10, 10, 15]);
    }

    #[test]
    fn e3_grows_with_the_span() {
        assert_eq!(bounds("sliding-window 5/10us", &[1, 2, 10, 11]), [5, 6, 10, 10]);
    }

    #[test]
    fn e4_is_the_burst_and_what_flows_in_strictly_within() {
        for text in ["token-bucket 2/10us burst 7", "leaky-bucket 2/10us queue 7"] {
            assert_eq!(bounds(text, &[1, 5, 6, 10, 11]), [7, 7, 8, 8, 9], "{text}");
        }
    }

    #[test]
    fn e5_counts_each_interval_that_can_end_within() {
        assert_eq!(bounds("token-bucket 2 every 10us burst 7", &[1, 10, 11]), [9, 9, 11]);
    }

    #[test]
    fn several_together_have_the_least_of_their_bounds() {
        let text = "sliding-log 5/10us + token-bucket 2/10us burst 7";
        assert_eq!(bounds(text, &[1, 11, 31]), [5, 9, 13]);
        let limit: Limit = text.parse().unwrap();
        assert_eq!(laws(&limit), "E2 + E4");
        assert_eq!(nominal(&limit).collect::<Vec<_>>(), [(5, 10), (7, 35)]);
    }

    #[test]
    fn a_bound_beyond_all_numbers_is_the_largest() {
        assert_eq!(bounds("fixed-window 1000000/us", &[u64::MAX]), [u64::MAX]);
    }
}
