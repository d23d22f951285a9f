//! A(T), the most that was admitted in any span of T, measured against the envelope for all T.

use lockage_core::{Limit, Timestamp};

use super::admitted::Admitted;
use super::envelope::{envelope, nominal};
use crate::replay::Outcome;
use crate::trace::Trace;

/// The points of a drawn curve.
const POINTS: u32 = 160;

/// How much of its envelope a limit uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The span, of all lengths, that uses the largest part of the envelope.
    pub worst: Used,
    /// The most in one window, against an exact log of the [same capacity and rate](nominal); of a
    /// composite, the log that it exceeds most.
    pub window: Used,
    /// A(T) and the envelope at logarithmically spaced lengths, and at that of the worst span.
    pub curve: Vec<Point>,
}

/// The most in a span of some length, and the allowed amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The span's length T, in microseconds.
    pub span_us: u64,
    /// A(T), in units of the limit.
    pub admitted: u64,
    /// The allowed amount.
    pub allowed: u64,
    /// The number of the key.
    pub key: u32,
    /// When the span begins.
    pub from: Timestamp,
}

impl Used {
    /// Returns the used part of the allowed amount.
    pub fn share(&self) -> f64 {
        self.admitted as f64 / self.allowed as f64
    }

    pub(super) fn exceeds(&self, other: &Used) -> bool {
        let part = |a: u64, b: u64| u128::from(a) * u128::from(b);
        part(self.admitted, other.allowed) > part(other.admitted, self.allowed)
    }
}

/// A point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// T, in microseconds.
    pub span_us: u64,
    /// A(T) of the key with the most.
    pub admitted: u64,
    /// The envelope at T.
    pub allowed: u64,
}

impl Measured {
    /// Measures the admissions of `limit`; `None` if there are none. `decided` has the time of each request's last
    /// decision, in the order of the trace.
    pub fn of(
        limit: &Limit,
        trace: &Trace,
        outcomes: &[Outcome],
        decided: &[Timestamp],
    ) -> Option<Measured> {
        let keys = Admitted::by_key(trace, outcomes, decided);
        let most = |span_us, allowed| {
            let all = keys.iter().map(|key| key.most(span_us, allowed));
            all.reduce(|a, b| if b.exceeds(&a) { b } else { a })
        };
        let windows = nominal(limit).filter_map(|(amount, window)| most(window, amount));
        let window = windows.reduce(|a, b| if b.exceeds(&a) { b } else { a })?;
        let used = lengths(limit, &keys).map(|span| most(span, envelope(limit, span)));
        let used: Vec<Used> = used.collect::<Option<_>>()?;
        let best = used.iter().copied().reduce(|a, b| if b.exceeds(&a) { b } else { a })?;
        let worst = Search { limit, best }.over(&keys);
        let point =
            |&Used { span_us, admitted, allowed, .. }: &Used| Point { span_us, admitted, allowed };
        let mut curve: Vec<Point> = used.iter().chain([&worst]).map(point).collect();
        curve.sort_by_key(|point| point.span_us);
        curve.dedup();
        Some(Measured { worst, window, curve })
    }
}

/// Returns logarithmically spaced lengths of spans, from a small part of the shortest window to the longest
/// that matters.
fn lengths(limit: &Limit, keys: &[Admitted]) -> impl Iterator<Item = u64> {
    let windows = || nominal(limit).map(|(_, window)| window);
    let (shortest, longest) = (windows().min().unwrap_or(1), windows().max().unwrap_or(1));
    let from = (shortest / 1000).max(1);
    let to = keys.iter().map(Admitted::length).max().unwrap_or(1).max(longest.saturating_mul(2));
    let step = libm::log(to as f64 / from as f64) / f64::from(POINTS);
    let length = move |i| (from as f64 * libm::exp(step * f64::from(i))).round() as u64;
    let mut last = 0;
    let lengths = (0..POINTS).map(length).chain([to]);
    lengths.filter(move |&length| length > std::mem::replace(&mut last, length))
}

/// Searches spans of all lengths for the one that uses the largest part of the envelope; the first of equals.
///
/// A(T) and the envelope only grow with T. So between two lengths, no span uses more than A of the longer
/// against the envelope of the shorter. Where that is not above the best so far, the lengths between are
/// skipped, for all spans or for those that begin at one time.
struct Search<'a> {
    limit: &'a Limit,
    best: Used,
}

impl Search<'_> {
    fn over(mut self, keys: &[Admitted]) -> Used {
        for key in keys {
            let starts: Vec<usize> = (0..key.times.len()).collect();
            let (shortest, longest) =
                (self.look(key, &starts, 1), self.look(key, &starts, key.length()));
            // A fully used envelope can only be exceeded.
            if self.best.admitted < self.best.allowed || !key.is_below_its_line(self.limit) {
                self.between(key, starts, shortest, longest);
            }
        }
        let key = keys.iter().find(|key| key.key == self.best.key);
        key.map_or(self.best, |key| key.tightened(self.best, self.limit))
    }

    /// Searches spans of lengths between these that begin at one of these.
    fn between(&mut self, key: &Admitted, mut starts: Vec<usize>, short: Used, long: Used) {
        let middle = match short.span_us.checked_mul(4) {
            // Over a wide range the used part depends on the order of magnitude.
            Some(wide) if wide < long.span_us => {
                (u128::from(short.span_us) * u128::from(long.span_us)).isqrt() as u64
            }
            _ => short.span_us + (long.span_us - short.span_us) / 2,
        };
        let is_flat = short.admitted == long.admitted || short.allowed == long.allowed;
        if is_flat || middle == short.span_us {
            return;
        }
        starts.retain(|&start| {
            let admitted = key.within(start, long.span_us);
            Used { admitted, allowed: short.allowed, ..long }.exceeds(&self.best)
        });
        if starts.is_empty() {
            return;
        }
        let middle = self.look(key, &starts, middle);
        self.between(key, starts.clone(), short, middle);
        self.between(key, starts, middle, long);
    }

    fn look(&mut self, key: &Admitted, starts: &[usize], span_us: u64) -> Used {
        let used = key.most_from(starts.iter().copied(), span_us, envelope(self.limit, span_us));
        if used.exceeds(&self.best) {
            self.best = used;
        }
        used
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::EngineKind;
    use crate::replay::replay;
    use crate::trace::{Request, TraceBuilder};
    use crate::traffic::Plan;
    use crate::traffic::random::{Chance, Stream};

    pub(in super::super) const LIMITS: [&str; 7] = [
        "fixed-window 5/10us",
        "sliding-log 5/10us",
        "sliding-window 5/10us",
        "token-bucket 3/10us burst 7",
        "leaky-bucket 3/10us queue 7",
        "token-bucket 3 every 10us burst 7",
        "sliding-log 5/10us + token-bucket 3/10us burst 7",
    ];

    pub(in super::super) fn trace(
        requests: impl IntoIterator<Item = (u64, &'static str, u64)>,
    ) -> Trace {
        let mut builder = TraceBuilder::default();
        for (micros, name, cost) in requests {
            let key = builder.key(name);
            builder.push(Request { at: Timestamp::from_micros(micros).unwrap(), key, cost });
        }
        builder.finish()
    }

    fn measured(limit: &Limit, trace: &Trace, outcomes: &[Outcome]) -> Option<Measured> {
        let decided: Vec<Timestamp> = trace.requests().iter().map(|request| request.at).collect();
        Measured::of(limit, trace, outcomes, &decided)
    }

    /// Returns the largest used part, over all pairs of requests of a key.
    fn by_pairs(limit: &Limit, trace: &Trace, outcomes: &[Outcome]) -> (u64, u64) {
        let mut best = (0, 1);
        let all =
            || trace.requests().iter().zip(outcomes).filter(|(_, o)| **o == Outcome::Admitted);
        for (first, _) in all() {
            for (last, _) in all().filter(|(last, _)| last.key == first.key && last.at >= first.at)
            {
                let span = last.at.as_micros() - first.at.as_micros() + 1;
                let within = all().filter(|(request, _)| {
                    request.key == first.key && request.at >= first.at && request.at <= last.at
                });
                let admitted: u64 = within.map(|(request, _)| request.cost).sum();
                let allowed = envelope(limit, span);
                if u128::from(admitted) * u128::from(best.1)
                    > u128::from(best.0) * u128::from(allowed)
                {
                    best = (admitted, allowed);
                }
            }
        }
        best
    }

    /// Returns thirty requests of two keys, some units apart, give or take a few microseconds.
    pub(in super::super) fn random_trace(seed: u64, unit_us: u64) -> Trace {
        let mut chance = Chance::new(seed, Stream::Times);
        let mut now = 1_000_000;
        trace((0..30).map(|_| {
            let bits = chance.bits();
            now += [0, 0, 1, 3, 9, 40][(bits % 6) as usize] * unit_us;
            now += (bits / 36 % 7) * u64::from(unit_us > 7);
            (now, ["a", "b"][(bits / 6 % 2) as usize], 1 + bits / 12 % 3)
        }))
    }

    #[test]
    fn the_worst_is_that_of_all_pairs() {
        // Long enough that the curve needs few lengths.
        for text in LIMITS.map(|text| text.replace("10us", "10ms")) {
            let limit: Limit = text.parse().unwrap();
            for seed in 0..40 {
                let trace = random_trace(seed, 1000);
                let mut engine = EngineKind::Model.build().unwrap();
                let replayed = replay(&trace, &limit, &mut *engine, || ()).unwrap();
                // The admissions of a broken limit are measured too.
                let broken = vec![Outcome::Admitted; 30];
                for outcomes in [replayed, broken] {
                    let worst = measured(&limit, &trace, &outcomes).unwrap().worst;
                    let (admitted, allowed) = by_pairs(&limit, &trace, &outcomes);
                    assert_eq!(worst.share(), admitted as f64 / allowed as f64, "{text}, {seed}");
                }
            }
        }
    }

    #[test]
    fn e1_to_e5_an_attack_uses_its_envelope_up_and_nothing_more() {
        for text in LIMITS.map(|text| text.replace("10us", "10s")) {
            let Ok(shape) = format!("boundary-attack {text}").parse() else { continue };
            let (limit, plan) = (text.parse().unwrap(), Plan::new(shape));
            let trace = plan.generate().unwrap();
            let outcomes = vec![Outcome::Admitted; trace.requests().len()];
            let worst = measured(&limit, &trace, &outcomes).unwrap().worst;
            assert!(worst.admitted <= worst.allowed, "{text}: {worst:?}");
            // E3 and E5 are upper bounds.
            let least = if text.starts_with("sliding-window") || text.contains("every") {
                0.7
            } else {
                1.0
            };
            assert!(worst.share() >= least, "{text}: {worst:?}");
        }
    }

    #[test]
    fn where_the_windows_meet_is_named() {
        let trace =
            trace([(5, "b", 1), (100, "a", 1), (109, "a", 4), (110, "a", 4), (111, "a", 1)]);
        let limit = "fixed-window 5/10us".parse().unwrap();
        let measured = measured(&limit, &trace, &[Outcome::Admitted; 5]).unwrap();
        let Used { span_us, admitted, allowed, key, from } = measured.window;
        let worst = (span_us, admitted, allowed, trace.key(key), from.as_micros());
        assert_eq!(worst, (10, 9, 5, "a", 109));
        assert_eq!((measured.worst.span_us, measured.worst.share()), (3, 1.0));
        let curve = &measured.curve;
        assert!(curve.iter().all(|point| point.admitted <= point.allowed));
        assert!(curve.is_sorted_by_key(|point| point.admitted) && curve.len() > 5);
        assert_eq!((curve[0].span_us, curve[curve.len() - 1].span_us), (1, 20));
    }

    #[test]
    fn e4_violations_between_curve_lengths_are_found() {
        // The second one comes 10 ms too early, and no length of the curve is between 0.99 s and 1 s.
        let trace = trace([(0, "a", 1), (990_000, "a", 1), (20_000_000, "a", 1)]);
        let limit = "token-bucket 1/s burst 1".parse().unwrap();
        let Measured { worst, curve, .. } =
            measured(&limit, &trace, &[Outcome::Admitted; 3]).unwrap();
        assert_eq!((worst.span_us, worst.admitted, worst.allowed), (990_001, 2, 1));
        let above = curve.iter().filter(|point| point.admitted > point.allowed);
        assert_eq!(above.map(|point| point.span_us).collect::<Vec<_>>(), [990_001]);
    }

    #[test]
    fn nothing_admitted_is_nothing_to_measure() {
        let trace = trace([(5, "a", 9)]);
        let limit = "fixed-window 5/10us".parse().unwrap();
        assert_eq!(measured(&limit, &trace, &[Outcome::Never]), None);
    }
}
