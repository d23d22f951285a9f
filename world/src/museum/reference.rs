//! What limits decide and never admit more than: small, exact, and of no code that is shipped.

use lockage_core::Limit;

/// The most that a limit admits in any half-open interval of `length_us` (E1 to E5).
pub(super) fn envelope(limit: &Limit, length_us: u64) -> i128 {
    let t = i128::from(length_us);
    match *limit {
        Limit::FixedWindow(window) => {
            let (most, span) = (i128::from(window.limit()), micros(window.window()));
            (most * ceil(t, span)).max(most * (1 + ceil(t - 1, span)) - 1)
        }
        Limit::SlidingLog(log) => i128::from(log.limit()) * ceil(t, micros(log.window())),
        Limit::SlidingWindow(window) => {
            let (most, span) = (i128::from(window.limit()), micros(window.window()));
            most * (span + t) / span
        }
        Limit::TokenBucket(bucket) => {
            let refilled = i128::from(bucket.amount()) * (t - 1) / micros(bucket.period());
            i128::from(bucket.burst()) + refilled
        }
        Limit::IntervalBucket(bucket) => {
            let intervals = (t - 1) / micros(bucket.interval()) + 1;
            i128::from(bucket.burst()) + i128::from(bucket.amount()) * intervals
        }
        _ => panic!("{NO_REFERENCE}"),
    }
}

/// A limit that decides one request after another.
pub(super) struct Reference {
    limit: Limit,
    /// What was admitted, and when.
    admitted: Vec<(i128, i128)>,
    /// Of a bucket: what is missing in it, times its period, and since when.
    missing: i128,
    last: i128,
}

impl Reference {
    pub(super) fn new(limit: Limit) -> Self {
        Reference { limit, admitted: Vec::new(), missing: 0, last: 0 }
    }

    /// Whether a cost is admitted, which is then charged.
    pub(super) fn decide(&mut self, cost: u64, at_us: u64) -> bool {
        let (cost, now) = (i128::from(cost), i128::from(at_us));
        let is_admitted = cost <= self.left(now);
        if is_admitted {
            self.admitted.push((now, cost));
            if let Limit::TokenBucket(bucket) = self.limit {
                self.missing += cost * micros(bucket.period());
            }
        }
        is_admitted
    }

    fn left(&mut self, now: i128) -> i128 {
        match self.limit {
            Limit::FixedWindow(window) => {
                // Windows open with what is admitted after the one before.
                let span = micros(window.window());
                let opens = |opened: Option<i128>, at: i128| match opened {
                    Some(opened) if at < opened + span => Some(opened),
                    _ => Some(at),
                };
                let opened = self.admitted.iter().map(|(at, _)| *at).fold(None, opens);
                let is_open = opened.is_some_and(|opened| now < opened + span);
                let counts = |at: i128| is_open && Some(at) >= opened;
                i128::from(window.limit()) - self.used(counts)
            }
            Limit::SlidingLog(log) => {
                let span = micros(log.window());
                i128::from(log.limit()) - self.used(|at| now < at + span)
            }
            Limit::TokenBucket(bucket) => {
                let refilled = i128::from(bucket.amount()) * (now - self.last);
                self.missing = (self.missing - refilled).max(0);
                self.last = now;
                i128::from(bucket.burst()) - ceil(self.missing, micros(bucket.period()))
            }
            _ => panic!("{NO_REFERENCE}"),
        }
    }

    fn used(&self, counts: impl Fn(i128) -> bool) -> i128 {
        self.admitted.iter().filter(|(at, _)| counts(*at)).map(|(_, cost)| cost).sum()
    }
}

const NO_REFERENCE: &str = "no entry is judged by a reference of this limit";

fn micros(span: std::time::Duration) -> i128 {
    i128::try_from(span.as_micros()).expect("spans are below 2^52")
}

fn ceil(numerator: i128, denominator: i128) -> i128 {
    (numerator + denominator - 1).div_euclid(denominator)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    fn limit(spec: &str) -> Limit {
        spec.parse().expect("a limit")
    }

    #[test]
    fn envelopes_are_those_that_are_attained() {
        for (spec, length, most) in [
            ("fixed-window 5/s", S, 9),
            ("fixed-window 1/s", S, 1),
            ("sliding-log 5/s", S, 5),
            ("sliding-log 5/s", S + 1, 10),
            ("sliding-window 5/s", S, 10),
            ("token-bucket 1/s burst 3", S, 3),
            ("token-bucket 1/s burst 3", S + 1, 4),
            ("token-bucket 2 every 1s burst 3", S, 5),
            ("token-bucket 2 every 1s burst 3", S + 1, 7),
        ] {
            assert_eq!(envelope(&limit(spec), length), most, "{spec} in {length} us");
        }
    }

    #[test]
    fn references_decide_by_hand_counted_cases() {
        for (spec, asked) in [
            ("fixed-window 2/6s", &[(0, true), (5, true), (5, false), (6, true)][..]),
            ("sliding-log 2/6s", &[(0, true), (5, true), (6, true), (6, false), (11, true)]),
            ("token-bucket 1/6s burst 2", &[(0, true), (0, true), (5, false), (6, true)]),
        ] {
            let mut reference = Reference::new(limit(spec));
            for &(at, is_admitted) in asked {
                assert_eq!(reference.decide(1, at * S), is_admitted, "{spec} at {at} s");
            }
        }
    }
}
