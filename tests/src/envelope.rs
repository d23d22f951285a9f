//! The envelopes E1 to E6: how much a limiter may admit in any span of time, whatever the traffic.
//!
//! A(T) is the largest total cost that was admitted in any half-open interval of T microseconds. It
//! only grows at those T at which an interval comes to hold one more pair of admitted requests, so
//! it is enough to look at every pair: the requests between them lie in an interval of `last -
//! first + 1`.

use num_bigint::BigInt;

use crate::config::{Config, Kind};

/// An interval in which more was admitted than the envelope allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Where the interval begins, in microseconds.
    pub start_us: u64,
    /// Its length T in microseconds.
    pub length_us: u64,
    /// What was admitted in it, less what was given back.
    pub admitted: i128,
}

/// Looks at all intervals of `admitted` (time in microseconds, cost; below zero what was given back),
/// in the order in which that was done, on the running maximum of the times (D10), with `extra` on
/// top of every bound.
///
/// # Errors
/// The first interval found with too much in it.
pub fn check(config: &Config, admitted: &[(u64, i128)], extra: u64) -> Result<(), Excess> {
    let mut latest_us = 0;
    let admitted: Vec<(u64, i128)> = admitted
        .iter()
        .map(|&(time_us, cost)| {
            latest_us = time_us.max(latest_us);
            (latest_us, cost)
        })
        .collect();
    for (index, &(start_us, _)) in admitted.iter().enumerate() {
        let mut total: i128 = 0;
        for &(end_us, cost) in &admitted[index..] {
            total += cost;
            let length_us = end_us - start_us + 1;
            if !within(config, total, length_us, extra) {
                return Err(Excess { start_us, length_us, admitted: total });
            }
        }
    }
    Ok(())
}

/// E6: looks at all intervals of turns (time in microseconds, cost), in their order. In T microseconds
/// those whose turn it is cost less than the rate allows in T, the last of them not counted.
///
/// # Errors
/// The first interval found with too much in it.
pub fn check_turns(config: &Config, turns: &[(u64, u64)]) -> Result<(), Excess> {
    for (index, &(start_us, first)) in turns.iter().enumerate() {
        let mut admitted = i128::from(first);
        for &(end_us, cost) in &turns[index + 1..] {
            let length_us = end_us - start_us + 1;
            let drained = BigInt::from(config.amount) * length_us;
            if BigInt::from(admitted) * config.span_us >= drained {
                return Err(Excess { start_us, length_us, admitted });
            }
            admitted += i128::from(cost);
        }
    }
    Ok(())
}

/// E7: looks at all intervals of what was admitted (time in microseconds of the store, cost), in any order, by callers
/// of whom some spend permits that were taken ahead: up to `ahead` of them at any moment, each for less than `lease_us`
/// after it was charged, by the store's clock. The request that they were brought along by is admitted when they are
/// charged.
///
/// # Errors
/// The first interval found with too much in it.
pub fn check_prefetched(
    config: &Config,
    admitted: &[(u64, u64)],
    ahead: u64,
    lease_us: u64,
) -> Result<(), Excess> {
    match tightest(admitted, |length_us| prefetched(config, length_us, ahead, lease_us)) {
        Some((slack, excess)) if slack < BigInt::ZERO => Err(excess),
        _ => Ok(()),
    }
}

/// By how much less than E7 allows was admitted, in the interval in which it was the least, and that interval.
pub fn prefetched_slack(
    config: &Config,
    admitted: &[(u64, u64)],
    ahead: u64,
    lease_us: u64,
) -> Option<(BigInt, Excess)> {
    tightest(admitted, |length_us| prefetched(config, length_us, ahead, lease_us))
}

fn prefetched(config: &Config, length_us: u64, ahead: u64, lease_us: u64) -> BigInt {
    let alone = bound(config, length_us);
    let shifted: BigInt = bound(config, length_us + lease_us) - 1;
    (&alone + ahead).min(shifted.max(alone))
}

/// The interval with the least room left, and how much that is.
fn tightest(admitted: &[(u64, u64)], bound: impl Fn(u64) -> BigInt) -> Option<(BigInt, Excess)> {
    let mut admitted = admitted.to_vec();
    admitted.sort_unstable();
    let mut least: Option<(BigInt, Excess)> = None;
    for (index, &(start_us, _)) in admitted.iter().enumerate() {
        let mut total = 0;
        for &(end_us, cost) in &admitted[index..] {
            total += i128::from(cost);
            let length_us = end_us - start_us + 1;
            let slack = bound(length_us) - total;
            if least.as_ref().is_none_or(|(known, _)| slack < *known) {
                least = Some((slack, Excess { start_us, length_us, admitted: total }));
            }
        }
    }
    least
}

/// Whether the envelope allows `total` in `length_us` microseconds, and `extra` more.
fn within(config: &Config, total: i128, length_us: u64, extra: u64) -> bool {
    BigInt::from(total) <= bound(config, length_us) + extra
}

/// The most that the envelope allows in `length_us` microseconds.
pub fn bound(config: &Config, length_us: u64) -> BigInt {
    let Config { kind, amount, span_us, burst } = *config;
    let (length, span) = (BigInt::from(length_us), BigInt::from(span_us));
    let (amount, burst) = (BigInt::from(amount), BigInt::from(burst));
    match kind {
        Kind::FixedWindow => {
            let touched = &amount * ceil(&length, &span);
            let straddled = &amount * (ceil(&(length - 1), &span) + 1) - 1;
            touched.max(straddled)
        }
        Kind::SlidingLog => amount * ceil(&length, &span),
        Kind::SlidingWindow => amount * (&span + length) / span,
        Kind::TokenBucket | Kind::LeakyBucket => burst + amount * (length - 1) / span,
        Kind::IntervalBucket => burst + amount * ((length - 1) / span + 1),
    }
}

fn ceil(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    (numerator + (denominator - 1)) / denominator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e1_the_bound_is_attained_and_not_passed() {
        let config = Config::window(Kind::FixedWindow, 5, 10);
        // One opens the window, four come in its last instant, five open the next one: 2L - 1
        // within two instants.
        let admitted = [(0, 1), (9, 4), (10, 5)];
        assert_eq!(check(&config, &admitted, 0), Ok(()));
        let excess = check(&config, &[(0, 1), (9, 5), (10, 5)], 0).unwrap_err();
        assert_eq!(excess, Excess { start_us: 0, length_us: 11, admitted: 11 });
    }

    #[test]
    fn e2_counts_half_open_intervals() {
        let config = Config::window(Kind::SlidingLog, 2, 10);
        assert_eq!(check(&config, &[(0, 2), (10, 2)], 0), Ok(()));
        assert!(check(&config, &[(0, 2), (9, 1)], 0).is_err());
        assert_eq!(check(&config, &[(0, 2), (9, 1)], 1), Ok(()));
    }

    #[test]
    fn e4_counts_what_came_back_strictly_within() {
        let config = Config::bucket(Kind::TokenBucket, 1, 10, 3);
        assert_eq!(check(&config, &[(0, 3), (10, 1)], 0), Ok(()));
        assert!(check(&config, &[(0, 3), (9, 1)], 0).is_err());
    }

    #[test]
    fn e6_counts_all_but_the_last_and_is_attained() {
        let config = Config::bucket(Kind::LeakyBucket, 2, 10, 9);
        assert_eq!(check_turns(&config, &[(0, 1), (5, 2), (15, 9)]), Ok(()));
        assert_eq!(check_turns(&config, &[(0, 1), (5, 2), (14, 9)]).unwrap_err().length_us, 15);
        // Turns are whole microseconds, rounded up: one of three every 10 us may be 3 us after the last.
        let config = Config::bucket(Kind::LeakyBucket, 3, 10, 9);
        assert_eq!(check_turns(&config, &[(0, 1), (4, 1), (7, 1), (10, 1)]), Ok(()));
        assert!(check_turns(&config, &[(0, 1), (4, 1), (6, 1)]).is_err());
    }

    #[test]
    fn d10_time_that_steps_back_counts_as_the_latest_seen() {
        let config = Config::window(Kind::SlidingLog, 2, 10);
        assert!(check(&config, &[(20, 2), (5, 1)], 0).is_err());
    }
}
