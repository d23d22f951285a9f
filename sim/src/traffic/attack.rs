//! Requests placed so that a limit admits the most that its envelope allows.

use lockage_core::{Limit, Timestamp};

use super::composite_attack::CompositeAttack;
use crate::answers::envelope;

/// The worst placement of requests for one limit, of cost 1 and on one key. All of them are admitted.
///
/// The envelopes are those of the limits' own documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attack(Placement);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there are few, and a limit is plain data")]
enum Placement {
    /// One request opens the window; all others, and all of the next window, meet at its end.
    FixedWindow { limit: u64, window: u64 },
    /// All of the limit again as soon as it is free.
    SlidingLog { limit: u64, window: u64 },
    /// All of the limit at the end of a window (they are aligned to the epoch), then each request as soon as the
    /// earlier ones weigh less; then a window without a request.
    SlidingWindow { limit: u64, window: u64 },
    /// All of the burst at once, then each request as soon as its token is there.
    Continuous { burst: u64, amount: u64, period: u64 },
    /// One request starts the interval; the burst and its refill meet at its end, and each refill is taken.
    Interval { burst: u64, amount: u64, interval: u64 },
    /// The attack on one part after the other, as far as the other parts admit it.
    Together(Limit),
}

/// Requests that an attack on a part of a composite tries to have admitted.
pub(super) struct Wish {
    /// Their time, in microseconds after the attack's beginning.
    pub(super) offset: u64,
    /// Their number.
    pub(super) count: u64,
    /// Whether those that do not fit then should come before it rather than after it.
    pub(super) is_late: bool,
}

impl Attack {
    /// Returns the attack on a limit or a composite; `None` for an unknown kind.
    pub fn on(limit: &Limit) -> Option<Attack> {
        let micros = |time: std::time::Duration| time.as_micros() as u64;
        let placement = match limit {
            Limit::FixedWindow(l) => {
                Placement::FixedWindow { limit: l.limit(), window: micros(l.window()) }
            }
            Limit::SlidingLog(l) => {
                Placement::SlidingLog { limit: l.limit(), window: micros(l.window()) }
            }
            Limit::SlidingWindow(l) => {
                Placement::SlidingWindow { limit: l.limit(), window: micros(l.window()) }
            }
            Limit::TokenBucket(l) => {
                let (amount, period) = (l.amount(), micros(l.period()));
                Placement::Continuous { burst: l.burst(), amount, period }
            }
            // As if it were warm: what comes too early is denied.
            Limit::WarmupBucket(l) => {
                let (amount, period) = (l.amount(), micros(l.period()));
                Placement::Continuous { burst: l.burst(), amount, period }
            }
            Limit::LeakyBucket(l) => {
                let (amount, period) = (l.amount(), micros(l.period()));
                Placement::Continuous { burst: l.queue(), amount, period }
            }
            Limit::IntervalBucket(l) => {
                let (amount, interval) = (l.amount(), micros(l.interval()));
                Placement::Interval { burst: l.burst(), amount, interval }
            }
            Limit::Composite(_) => Placement::Together(*limit),
            _ => return None,
        };
        Some(Attack(placement))
    }

    /// Returns an estimate of its requests in this many microseconds, which is never too small.
    pub(super) fn expected(&self, micros: u128) -> u128 {
        let cycles = |length: u64| micros.div_ceil(u128::from(length));
        match self.0 {
            Placement::FixedWindow { limit, window } => u128::from(limit) * cycles(window),
            Placement::SlidingLog { limit, window } => u128::from(limit) * cycles(window),
            Placement::SlidingWindow { limit, window } => {
                (2 * u128::from(limit) - 1) * cycles(3 * window)
            }
            Placement::Continuous { burst, amount, period } => {
                u128::from(burst) + micros * u128::from(amount) / u128::from(period)
            }
            Placement::Interval { burst, amount, interval } => {
                u128::from(burst) + micros / u128::from(interval) * u128::from(amount)
            }
            Placement::Together(limit) => {
                u128::from(envelope(&limit, u64::try_from(micros).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Returns how many requests an attack on each part of a composite tries to place, however many of them come in
    /// time.
    pub(super) fn tries(&self) -> u128 {
        let Placement::Together(limit) = self.0 else { return 0 };
        let wishes =
            limit.parts().filter_map(|part| Attack::on(&part)).flat_map(|part| part.wishes(0));
        wishes.map(|wish| u128::from(wish.count)).sum()
    }

    /// Returns the requests of an attack on a part of a composite, which begins `from` microseconds after the epoch.
    pub(super) fn wishes(&self, from: u64) -> Vec<Wish> {
        let wish = |is_late: bool| move |(offset, count)| Wish { offset, count, is_late };
        let (soon, late) = (wish(false), wish(true));
        let begun = |opening: (u64, u64), filled: (u64, u64), rest: (u64, u64)| {
            vec![soon(opening), late(filled), soon(rest)]
        };
        match self.0 {
            Placement::FixedWindow { limit, window } => {
                begun((0, 1), (window - 1, limit - 1), (window, limit))
            }
            Placement::SlidingLog { limit, window } => {
                vec![soon((0, limit)), soon((window, limit))]
            }
            Placement::SlidingWindow { limit, window } => {
                // The end of the window after this one, which leaves a window's time to fill it.
                let end = 2 * window - 1 - from % window;
                vec![late((end, limit)), soon((end + 1, limit - 1))]
            }
            Placement::Continuous { burst, .. } => vec![soon((0, burst)), soon((1, burst))],
            Placement::Interval { burst, amount, interval } => {
                begun((0, 1), (interval - 1, burst - 1), (interval, amount))
            }
            Placement::Together(_) => Vec::new(),
        }
    }

    /// Returns the longest time of an attack on a part of a composite, in microseconds.
    pub(super) fn round_us(&self) -> u64 {
        match self.0 {
            Placement::FixedWindow { window, .. } | Placement::SlidingLog { window, .. } => {
                2 * window
            }
            Placement::SlidingWindow { window, .. } => 3 * window,
            Placement::Continuous { burst, amount, period } => {
                mul_div_ceil(burst, period, amount) + 1
            }
            Placement::Interval { interval, .. } => 2 * interval,
            Placement::Together(_) => 0,
        }
    }

    /// Calls `each` with the microseconds from `start` to every request before `micros`, in order.
    pub(super) fn each_offset(&self, start: Timestamp, micros: u64, each: &mut dyn FnMut(u64)) {
        for (offset, count) in self.groups(start) {
            if offset >= micros {
                return;
            }
            (0..count).for_each(|_| each(offset));
        }
    }

    /// Returns when requests come, in microseconds from a start that is given in microseconds since the epoch, and how
    /// many at once; without an end.
    pub(crate) fn groups_from(&self, start_us: u64) -> Box<dyn Iterator<Item = (u64, u64)>> {
        self.groups(Timestamp::from_micros(start_us).unwrap_or(Timestamp::MAX))
    }

    /// Returns when requests come, and how many at once, without an end.
    fn groups(&self, start: Timestamp) -> Box<dyn Iterator<Item = (u64, u64)>> {
        match self.0 {
            Placement::FixedWindow { limit, window } => {
                let cycle = [(0, 1), (window - 1, limit - 1), (window, limit)];
                repeated(2 * window, move || cycle)
            }
            Placement::SlidingLog { limit, window } => repeated(window, move || [(0, limit)]),
            Placement::SlidingWindow { limit, window } => {
                let end = window - 1 - start.as_micros() % window;
                repeated(3 * window, move || {
                    // The time in the next window after which this many requests weigh nothing any more.
                    let freed = move |count| mul_div_ceil(count, window, limit);
                    let trickle = (1..limit).map(freed).take_while(move |&after| after < window);
                    let trickle = trickle.map(move |after| (end + 1 + after, 1));
                    std::iter::once((end, limit)).chain(trickle)
                })
            }
            Placement::Continuous { burst, amount, period } => {
                let token = move |count| (mul_div_ceil(count, period, amount), 1);
                Box::new(std::iter::once((0, burst)).chain((1..).map(token)))
            }
            Placement::Interval { burst, amount, interval } => {
                let refills = (1..).map(move |count: u64| (count.saturating_mul(interval), amount));
                let opening = [(0, 1), (interval - 1, burst - 1)];
                Box::new(opening.into_iter().chain(refills))
            }
            Placement::Together(limit) => Box::new(CompositeAttack::new(limit, start)),
        }
    }
}

/// Returns the groups of one cycle, repeated for ever.
fn repeated<G: IntoIterator<Item = (u64, u64)> + 'static>(
    every: u64,
    cycle: impl Fn() -> G + 'static,
) -> Box<dyn Iterator<Item = (u64, u64)>> {
    Box::new((0..).flat_map(move |number: u64| {
        let begin = number.saturating_mul(every);
        cycle().into_iter().map(move |(offset, count)| (begin.saturating_add(offset), count))
    }))
}

/// Returns `a * b / c`, rounded up, or the largest number.
fn mul_div_ceil(a: u64, b: u64, c: u64) -> u64 {
    let exact = (u128::from(a) * u128::from(b)).div_ceil(u128::from(c));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Plan, Shape};
    use super::*;
    use crate::engine::EngineKind;
    use crate::replay::{Outcome, replay};

    const SECOND: u64 = 1_000_000;

    /// Returns the times of the attack on a limit, which must admit all of it.
    fn admitted(limit: &str, start: u64, seconds: u64) -> Vec<u64> {
        let shape: Shape = format!("boundary-attack {limit}").parse().unwrap();
        let start = Timestamp::from_micros(start).unwrap();
        let plan = Plan { start, duration: Duration::from_secs(seconds), ..Plan::new(shape) };
        let trace = plan.generate().unwrap();
        let expected = plan.shape.expected(plan.duration);
        assert!(trace.requests().len() as u128 <= expected, "{limit}: {expected}");
        let mut engine = EngineKind::Model.build().unwrap();
        let outcomes = replay(&trace, &limit.parse().unwrap(), &mut *engine, || ()).unwrap();
        let denied = outcomes.iter().position(|outcome| *outcome != Outcome::Admitted);
        assert_eq!(denied, None, "{limit}: request {:?}", denied.map(|i| trace.requests()[i]));
        trace.requests().iter().map(|request| request.at.as_micros()).collect()
    }

    /// Returns the most requests within any `span` microseconds.
    fn most(times: &[u64], span: u64) -> u64 {
        let within = |(first, from): (usize, &u64)| {
            times.partition_point(|time| time - times[0] < from - times[0] + span) - first
        };
        times.iter().enumerate().map(within).max().unwrap() as u64
    }

    #[test]
    fn e1_a_fixed_window_admits_twice_its_limit_less_one() {
        for (limit, window_us, text) in [
            (10, SECOND, "fixed-window 10/s"),
            (1, 7, "fixed-window 1/7us"),
            (3, 1, "fixed-window 3/us"),
        ] {
            let times = admitted(text, 12_345, if window_us < SECOND { 1 } else { 60 });
            // Within one microsecond there is no boundary.
            let expected = if window_us == 1 { limit } else { 2 * limit - 1 };
            assert_eq!(most(&times, window_us), expected, "{text}");
        }
    }

    #[test]
    fn e2_a_sliding_log_admits_its_limit_and_no_more() {
        let times = admitted("sliding-log 10/s", 12_345, 60);
        assert_eq!((most(&times, SECOND), most(&times, SECOND + 1)), (10, 20));
        assert_eq!(times.len(), 600);
    }

    #[test]
    fn e3_a_sliding_window_admits_twice_its_limit_less_one() {
        for start in [0, 1, 12_345, 999_999, 1_763_700_000_123_456] {
            let times = admitted("sliding-window 10/s", start, 60);
            assert_eq!(most(&times, SECOND), 19, "{start}");
        }
        // Three are freed in each microsecond: the last ones beyond the ten of this window.
        assert_eq!(most(&admitted("sliding-window 30/10us", 3, 1), 10), 54);
    }

    #[test]
    fn e4_a_bucket_admits_its_burst_and_all_that_flows_in() {
        for text in ["token-bucket 3/s burst 7", "leaky-bucket 3/s queue 7"] {
            let times = admitted(text, 12_345, 60);
            for span in [1, 333_334, 333_335, SECOND, SECOND + 1, 10 * SECOND, 59 * SECOND] {
                assert_eq!(most(&times, span), 7 + 3 * (span - 1) / SECOND, "{text}, {span} us");
            }
        }
    }

    #[test]
    fn combined_limits_admit_as_much_of_an_attack_as_each_alone() {
        const MINUTE: u64 = 60 * SECOND;
        for (text, seconds, expected) in [
            // Both are filled before the boundary of the longer one, which takes ten of the shorter ones.
            ("fixed-window 10/s + fixed-window 100/min", 600, [(SECOND, 19), (MINUTE, 199)]),
            ("sliding-log 3/7s + fixed-window 20/h", 30_000, [(7 * SECOND, 3), (60 * MINUTE, 39)]),
            ("sliding-window 10/s + sliding-log 25/min", 600, [(SECOND, 19), (MINUTE, 25)]),
            ("token-bucket 4/s burst 8 + fixed-window 40/min", 600, [(1, 8), (MINUTE, 79)]),
            ("token-bucket 5 every 1s burst 9 + leaky-bucket 2/s queue 30", 600, [(2, 13), (1, 9)]),
        ] {
            for start in [1, 12_345_678, 1_763_700_000_123_456] {
                let times = admitted(text, start, seconds);
                let found = expected.map(|(span, _)| (span, most(&times, span)));
                assert_eq!(found, expected, "{text}, {start}");
            }
        }
    }

    #[test]
    fn e5_an_interval_bucket_admits_its_burst_and_each_refill_but_one() {
        for (text, q, burst) in
            [("token-bucket 3 every 1s burst 7", 3, 7), ("token-bucket 5 every 1s burst 5", 5, 5)]
        {
            let times = admitted(text, 12_345, 60);
            for span in [2, SECOND + 1, SECOND + 2, 10 * SECOND + 2] {
                // From the end of the first interval on, without the token that started it, or with it.
                let from_the_end = burst - 1 + q * ((span - 2) / SECOND + 1);
                let from_the_start = burst + q * ((span - 1) / SECOND);
                let expected = from_the_end.max(from_the_start);
                assert_eq!(most(&times, span), expected, "{text}, {span} us");
            }
        }
    }
}
