//! The envelopes E1 to E10: how much a limit may admit in any span of time, whatever the traffic.
//!
//! A(T) is the largest total cost that is admitted in any half-open span of T microseconds. It grows only at those T at
//! which a span can hold one more pair of admitted requests. So the spans that begin with one admitted request and end
//! with another one, of the length `last - first + 1`, are enough.

use lockage_core::Limit;

use crate::calendar::Calendar;
use crate::config::{Config, Kind};
use crate::property::Property;

/// A span in which more was admitted than the envelope allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The beginning of the span, in microseconds.
    pub start_us: u64,
    /// Its length T in microseconds.
    pub length_us: u64,
    /// The admitted cost in it, less refunds.
    pub admitted: i128,
    /// The most that is allowed in it.
    pub most: u128,
}

/// Returns the most that the limit may admit in any half-open span of `length_us` microseconds, at least 1 (E1 to E5).
pub fn bound(config: &Config, length_us: u64) -> u128 {
    if let Some(line) = Line::of(config) {
        return line.at(length_us);
    }
    let (amount, span) = (u128::from(config.amount), u128::from(config.span_us));
    let length = u128::from(length_us);
    match config.kind {
        Kind::FixedWindow => {
            let straddled = amount * ((length - 1).div_ceil(span) + 1) - 1;
            (amount * length.div_ceil(span)).max(straddled)
        }
        Kind::SlidingLog => amount * length.div_ceil(span),
        // The places of one window and of the next fit together.
        Kind::InFlight => {
            let windows = if length_us < 2 { 1 } else { (length - 2) / span + 2 };
            amount * windows.div_ceil(2)
        }
        // The most boundaries inside any such span.
        Kind::CalendarWindow if length_us < 2 => amount,
        Kind::CalendarWindow => {
            let least = u128::from(Calendar::of_span(config.span_us).least_us());
            amount * ((length - 2) / least + 2)
        }
        _ => u128::from(config.burst) + amount * ((length - 1) / span + 1),
    }
}

/// Returns the most that a composite may admit: the least of its limits' bounds.
pub fn bound_of_all(limit: &Limit, length_us: u64) -> u128 {
    let parts = limit.parts().map(|part| bound(&Config::from(part), length_us));
    parts.min().unwrap_or(u128::MAX)
}

/// Returns the bound of the cost of turns within `length_us`, without the last of them (E6).
///
/// It is `None` for a limit without a queue.
pub fn turns_bound(config: &Config, length_us: u64) -> Option<u128> {
    let drained = u128::from(config.amount) * u128::from(length_us);
    (config.kind == Kind::LeakyBucket).then(|| drained.div_ceil(u128::from(config.span_us)))
}

/// Returns the most that is admitted if up to `ahead` permits are taken ahead at any moment, each spent less than
/// `lease_us` after it was charged, by the store's clock (E7).
pub fn ahead_bound(config: &Config, length_us: u64, ahead: u64, lease_us: u64) -> u128 {
    let alone = bound(config, length_us);
    let shifted = bound(config, length_us.saturating_add(lease_us)) - 1;
    (alone + u128::from(ahead)).min(shifted.max(alone))
}

/// Returns the property of the limit's envelope.
pub fn property(config: &Config) -> Property {
    match config.kind {
        Kind::FixedWindow => Property::E1,
        Kind::SlidingLog => Property::E2,
        Kind::SlidingWindow => Property::E3,
        // A leaky bucket's queue fills as a token bucket empties, and a warm bucket is a token bucket.
        Kind::TokenBucket | Kind::LeakyBucket | Kind::WarmupBucket => Property::E4,
        Kind::IntervalBucket => Property::E5,
        Kind::CalendarWindow => Property::E8,
        Kind::InFlight => Property::E9,
    }
}

/// An envelope that is a straight line: a span of T microseconds may hold `(base + amount * (T - 1)) / per`, rounded
/// down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The cost that may be admitted at once, times `per`.
    pub base: u128,
    /// The additional cost in `per` microseconds.
    pub amount: u64,
    /// The span of `amount`, in microseconds.
    pub per: u64,
}

impl Line {
    /// Returns the line of a limit; `None` if its envelope has steps.
    pub fn of(config: &Config) -> Option<Line> {
        let (amount, per) = (config.amount, config.span_us);
        let at_once = u128::from(config.burst) * u128::from(per);
        let base = match config.kind {
            Kind::TokenBucket | Kind::LeakyBucket | Kind::WarmupBucket => at_once,
            Kind::SlidingWindow => at_once + u128::from(amount),
            Kind::FixedWindow
            | Kind::SlidingLog
            | Kind::IntervalBucket
            | Kind::CalendarWindow
            | Kind::InFlight => return None,
        };
        Some(Line { base, amount, per })
    }

    fn at(&self, length_us: u64) -> u128 {
        (self.base + u128::from(self.amount) * u128::from(length_us - 1)) / u128::from(self.per)
    }
}

/// Returns the first excess, among all spans that end with the first of `latest_first` (time in microseconds, cost;
/// negative for refunds), over `most` of its length.
///
/// Called at each charge, it checks all spans.
pub fn excess(
    latest_first: impl IntoIterator<Item = (u64, i128)>,
    most: impl Fn(u64) -> u128,
) -> Option<Excess> {
    let (mut end_us, mut admitted) = (None, 0);
    latest_first.into_iter().find_map(|(start_us, cost)| {
        admitted += cost;
        let length_us = *end_us.get_or_insert(start_us) - start_us + 1;
        let most = most(length_us);
        let is_over = u128::try_from(admitted).is_ok_and(|admitted| admitted > most);
        is_over.then_some(Excess { start_us, length_us, admitted, most })
    })
}

/// Checks all spans of `admitted` (time in microseconds, cost; negative for refunds), in the order of the calls, on the
/// running maximum of the times (D10), with `extra` on top of every bound.
///
/// # Errors
/// The first excess.
pub fn check(config: &Config, admitted: &[(u64, i128)], extra: u64) -> Result<(), Excess> {
    let mut latest_us = 0;
    let on_latest = |&(time_us, cost): &(u64, i128)| {
        latest_us = time_us.max(latest_us);
        (latest_us, cost)
    };
    let admitted: Vec<(u64, i128)> = admitted.iter().map(on_latest).collect();
    if config.kind == Kind::CalendarWindow {
        return each_end(&admitted, |until_now| dated_excess(config, until_now, extra));
    }
    let most = |length_us| bound(config, length_us) + u128::from(extra);
    each_end(&admitted, |until_now| excess(until_now.iter().rev().copied(), most))
}

/// Returns the first excess in spans that end with the last of `admitted`, each with the boundaries inside it (E8).
fn dated_excess(config: &Config, admitted: &[(u64, i128)], extra: u64) -> Option<Excess> {
    let calendar = Calendar::of_span(config.span_us);
    let (end_us, _) = *admitted.last()?;
    let mut total = 0;
    admitted.iter().rev().find_map(|&(start_us, cost)| {
        total += cost;
        let windows = calendar.number(end_us.into()) - calendar.number(start_us.into()) + 1;
        let windows = u128::try_from(windows).expect("times are in order");
        let most = u128::from(config.amount) * windows + u128::from(extra);
        let is_over = u128::try_from(total).is_ok_and(|admitted| admitted > most);
        let length_us = end_us - start_us + 1;
        is_over.then_some(Excess { start_us, length_us, admitted: total, most })
    })
}

/// Returns the first excess in spans that end with a turn at `turn_us`, after the turns of `latest_first` (time in
/// microseconds, cost) (E6).
pub fn turns_excess(
    config: &Config,
    turn_us: u64,
    latest_first: impl IntoIterator<Item = (u64, u64)>,
) -> Option<Excess> {
    let mut admitted = 0;
    latest_first.into_iter().find_map(|(start_us, cost)| {
        admitted += i128::from(cost);
        let length_us = turn_us.saturating_sub(start_us) + 1;
        let most = turns_bound(config, length_us)?;
        let is_over = u128::try_from(admitted).is_ok_and(|admitted| admitted >= most);
        is_over.then_some(Excess { start_us, length_us, admitted, most })
    })
}

/// Checks all spans of turns (time in microseconds, cost), in their order (E6).
///
/// # Errors
/// The first excess.
pub fn check_turns(config: &Config, turns: &[(u64, u64)]) -> Result<(), Excess> {
    each_end(turns, |until_now| match until_now {
        [before @ .., (turn_us, _)] => turns_excess(config, *turn_us, before.iter().rev().copied()),
        [] => None,
    })
}

/// Checks all spans of admitted requests (time in microseconds of the store, cost), in any order, of which some spend
/// permits that were taken ahead (E7, see [`ahead_bound`]).
///
/// The request that brought permits is admitted when they are charged.
///
/// # Errors
/// The first excess.
pub fn check_prefetched(
    config: &Config,
    admitted: &[(u64, u64)],
    ahead: u64,
    lease_us: u64,
) -> Result<(), Excess> {
    let most = |length_us| ahead_bound(config, length_us, ahead, lease_us);
    each_end(&in_order(admitted), |until_now| excess(until_now.iter().rev().copied(), most))
}

/// Returns the smallest difference between the bound of E7 and the admitted cost, over all spans; `None` without a
/// span.
pub fn prefetched_slack(
    config: &Config,
    admitted: &[(u64, u64)],
    ahead: u64,
    lease_us: u64,
) -> Option<(i128, Excess)> {
    let admitted = in_order(admitted);
    let spans = admitted.iter().enumerate().flat_map(|(first, &(start_us, _))| {
        let mut total = 0;
        admitted[first..].iter().map(move |&(end_us, cost)| {
            total += cost;
            (start_us, end_us - start_us + 1, total)
        })
    });
    let slack = spans.map(|(start_us, length_us, admitted)| {
        let most = ahead_bound(config, length_us, ahead, lease_us);
        let slack = i128::try_from(most).expect("bounds are far below 2^127") - admitted;
        (slack, Excess { start_us, length_us, admitted, most })
    });
    slack.min_by_key(|(slack, _)| *slack)
}

fn in_order(admitted: &[(u64, u64)]) -> Vec<(u64, i128)> {
    let mut admitted: Vec<(u64, i128)> =
        admitted.iter().map(|&(at_us, cost)| (at_us, cost.into())).collect();
    admitted.sort_unstable();
    admitted
}

/// Returns the first finding among the first, the first two, the first three ...
fn each_end<T>(all: &[T], mut found: impl FnMut(&[T]) -> Option<Excess>) -> Result<(), Excess> {
    (1..=all.len()).find_map(|count| found(&all[..count])).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(limit: &str, lengths: &[u64]) -> Vec<u128> {
        let limit = limit.parse().unwrap();
        lengths.iter().map(|length_us| bound_of_all(&limit, *length_us)).collect()
    }

    #[test]
    fn e1_two_windows_meet() {
        assert_eq!(bounds("fixed-window 5/10us", &[1, 2, 10, 11, 12, 21]), [5, 9, 9, 10, 14, 15]);
        assert_eq!(bounds("fixed-window 1/s", &[1_000_000]), [1]);
    }

    #[test]
    fn e2_a_log_is_exact_in_one_window() {
        assert_eq!(bounds("sliding-log 5/10us", &[1, 10, 11, 20, 21]), [5, 5, 10, 10, 15]);
    }

    #[test]
    fn e3_grows_with_the_span() {
        assert_eq!(bounds("sliding-window 5/10us", &[1, 2, 10, 11, 21]), [5, 6, 10, 10, 15]);
    }

    #[test]
    fn e4_is_the_burst_and_the_refill_strictly_within() {
        for text in ["token-bucket 2/10us burst 7", "leaky-bucket 2/10us queue 7"] {
            assert_eq!(bounds(text, &[1, 5, 6, 10, 11]), [7, 7, 8, 8, 9], "{text}");
        }
    }

    #[test]
    fn e5_counts_each_interval_that_can_end_within() {
        assert_eq!(bounds("token-bucket 2 every 10us burst 7", &[1, 10, 11]), [9, 9, 11]);
    }

    #[test]
    fn e8_counts_the_boundaries_inside() {
        let day = 86_400_000_000;
        let bound = |length_us| bounds("calendar-window 5/day", &[length_us])[0];
        assert_eq!([1, 2, day * 23 / 24 + 1, day * 23 / 24 + 2].map(bound), [5, 10, 10, 15]);
        let config = Config::window(Kind::CalendarWindow, 5, day);
        assert_eq!(check(&config, &[(day - 1, 5), (day, 5), (2 * day, 5)], 0), Ok(()));
        let excess = check(&config, &[(day - 1, 5), (day, 5), (2 * day - 1, 1)], 0).unwrap_err();
        assert_eq!((excess.start_us, excess.most), (day, 5));
    }

    #[test]
    fn e9_two_windows_fit_at_once() {
        let lengths = [1, 2, 11, 12, 21, 22, 31, 32];
        assert_eq!(bounds("in-flight 5 lease 10us", &lengths), [5, 5, 5, 10, 10, 10, 10, 15]);
        let config = Config::window(Kind::InFlight, 5, 10);
        assert_eq!(check(&config, &[(9, 5), (20, 5)], 0), Ok(()));
        assert!(check(&config, &[(9, 5), (19, 1)], 0).is_err());
        assert_eq!(check(&config, &[(9, 5), (19, -1), (19, 1)], 0), Ok(()));
    }

    #[test]
    fn several_together_have_the_least_of_their_bounds() {
        let text = "sliding-log 5/10us + token-bucket 2/10us burst 7";
        assert_eq!(bounds(text, &[1, 11, 31]), [5, 9, 13]);
    }

    #[test]
    fn e1_the_bound_is_attained_and_not_passed() {
        let config = Config::window(Kind::FixedWindow, 5, 10);
        // One opens the window, four come in its last instant, five open the next one: 2L - 1 within two instants.
        let admitted = [(0, 1), (9, 4), (10, 5)];
        assert_eq!(check(&config, &admitted, 0), Ok(()));
        let excess = check(&config, &[(0, 1), (9, 5), (10, 5)], 0).unwrap_err();
        assert_eq!(excess, Excess { start_us: 9, length_us: 2, admitted: 10, most: 9 });
    }

    #[test]
    fn e2_counts_half_open_intervals() {
        let config = Config::window(Kind::SlidingLog, 2, 10);
        assert_eq!(check(&config, &[(0, 2), (10, 2)], 0), Ok(()));
        assert!(check(&config, &[(0, 2), (9, 1)], 0).is_err());
        assert_eq!(check(&config, &[(0, 2), (9, 1)], 1), Ok(()));
    }

    #[test]
    fn e4_counts_the_refill_strictly_within() {
        let config = Config::bucket(Kind::TokenBucket, 1, 10, 3);
        assert_eq!(check(&config, &[(0, 3), (10, 1)], 0), Ok(()));
        assert!(check(&config, &[(0, 3), (9, 1)], 0).is_err());
    }

    #[test]
    fn e6_counts_all_but_the_last_and_is_attained() {
        let config = Config::bucket(Kind::LeakyBucket, 2, 10, 9);
        assert_eq!(check_turns(&config, &[(0, 1), (5, 2), (15, 9)]), Ok(()));
        assert_eq!(check_turns(&config, &[(0, 1), (5, 2), (14, 9)]).unwrap_err().length_us, 10);
        // Turns are whole microseconds, rounded up: one of three every 10 us may be 3 us after the last.
        let config = Config::bucket(Kind::LeakyBucket, 3, 10, 9);
        assert_eq!(check_turns(&config, &[(0, 1), (4, 1), (7, 1), (10, 1)]), Ok(()));
        assert!(check_turns(&config, &[(0, 1), (4, 1), (6, 1)]).is_err());
    }

    #[test]
    fn e7_adds_the_prefetched_permits_or_a_lease() {
        let config = Config::window(Kind::SlidingLog, 5, 10);
        assert_eq!([1, 8].map(|length_us| ahead_bound(&config, length_us, 2, 5)), [5, 7]);
        let admitted = [(4, 2), (0, 5)];
        assert_eq!(check_prefetched(&config, &admitted, 2, 100), Ok(()));
        assert!(check_prefetched(&config, &admitted, 1, 100).is_err());
        assert_eq!(prefetched_slack(&config, &admitted, 2, 100).map(|(slack, _)| slack), Some(0));
    }

    #[test]
    fn d10_time_that_steps_back_counts_as_the_latest_seen() {
        let config = Config::window(Kind::SlidingLog, 2, 10);
        assert!(check(&config, &[(20, 2), (5, 1)], 0).is_err());
    }

    #[test]
    fn a_bound_beyond_64_bits_is_counted() {
        let most = bounds("fixed-window 1000000/us", &[u64::MAX])[0];
        assert!(most > u128::from(u64::MAX));
    }
}
