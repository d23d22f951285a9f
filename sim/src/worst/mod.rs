//! Searches for the traces that embarrass a limit most: admissions beyond its rate, and denials of costs that fit.
//!
//! A local search from known bad placements keeps random changes that are no better for the limit. One seed gives one
//! result.

mod play;
mod search;

use lockage_core::{Limit, Timestamp};
use thiserror::Error;

use crate::answers::{envelope, nominal};
use play::{Play, Played};
use search::Search;

/// The goal of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The most admissions in one window, against an exact log of the same capacity and rate.
    MostAdmitted,
    /// The largest denied part of the capacity for which that log has room.
    FalselyDenied,
}

/// The worst trace found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worst {
    /// The amount admitted in one window, or denied falsely.
    pub amount: u64,
    /// The nominal amount, or the capacity.
    pub nominal: u64,
    /// The largest possible `amount` by the limit's envelope, or the capacity.
    pub bound: u64,
    /// The length of the window, in microseconds.
    pub window_us: u64,
    /// The requests, in their order. All are admitted, except the last of a false denial.
    pub steps: Vec<Step>,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its time.
    pub at: Timestamp,
    /// Its cost.
    pub cost: u64,
    /// Whether it is admitted.
    pub is_admitted: bool,
    /// The sum of admissions in the window that ends with it.
    pub in_window: u64,
}

/// A limit cannot be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorstError {
    /// Some windows of it would end later than times are exact.
    #[error(
        "a window of {window_us} us is too long to search: {SPAN} of them must end before the year 2184"
    )]
    TooLong {
        /// The longest window.
        window_us: u64,
    },
}

/// The length of traces, in longest windows.
const SPAN: u64 = 4;

/// The beginning of 2026, in microseconds.
const START_US: u64 = 1_767_225_600_000_000;

/// Searches about `budget` traces for the worst; `None` if none is bad.
///
/// # Errors
/// [`WorstError`] for a limit whose windows are too long.
pub fn worst(
    limit: &Limit,
    goal: Goal,
    seed: u64,
    budget: u32,
) -> Result<Option<Worst>, WorstError> {
    let window_us = nominal(limit).map(|(_, window)| window).max().unwrap_or(1);
    let start = START_US.checked_next_multiple_of(window_us);
    let end = start.and_then(|start| start.checked_add(SPAN.checked_mul(window_us)?));
    let (Some(start), Some(end)) = (start, end) else {
        return Err(WorstError::TooLong { window_us });
    };
    if Timestamp::from_micros(end).is_err() {
        return Err(WorstError::TooLong { window_us });
    }
    // Aligned windows begin with the trace.
    let play = Play { limit, start, length: end - start };
    let found = Search::new(&play, goal, seed).run(budget);
    Ok(found.map(|(mut wishes, score)| {
        // A falsely denied request has asked for all that remained before.
        if let (Goal::FalselyDenied, Some(last)) = (goal, wishes.last_mut()) {
            last.cost = u64::MAX;
        }
        let played = play.play(&wishes);
        Worst {
            amount: score.amount,
            nominal: score.nominal,
            bound: match goal {
                Goal::MostAdmitted => envelope(limit, score.window_us),
                Goal::FalselyDenied => score.nominal,
            },
            window_us: score.window_us,
            steps: steps(&play, goal, &played, score.window_us),
        }
    }))
}

/// Returns the requests of a trace up to its worst moment.
fn steps(play: &Play<'_>, goal: Goal, played: &[Played], window_us: u64) -> Vec<Step> {
    let step = |offset: u64, cost, is_admitted| {
        let recent = played.iter().filter(|p| p.offset <= offset && offset - p.offset < window_us);
        let at = Timestamp::from_micros(play.start + offset).expect("the end of the search fits");
        Step { at, cost, is_admitted, in_window: recent.map(|p| p.admitted).sum() }
    };
    let admitted = played.iter().filter(|p| p.admitted > 0);
    let mut steps: Vec<Step> = admitted.map(|p| step(p.offset, p.admitted, true)).collect();
    if let (Goal::FalselyDenied, Some(last)) = (goal, played.last()) {
        steps.push(step(last.offset, last.room - last.admitted, false));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(limit: &str, goal: Goal) -> Option<Worst> {
        worst(&limit.parse().unwrap(), goal, 1, 4000).unwrap()
    }

    #[test]
    fn e1_to_e5_the_search_attains_the_envelopes() {
        for (limit, amount) in [
            ("fixed-window 10/60s", 19),
            ("fixed-window 1000000/day", 1_999_999),
            ("sliding-log 10/60s", 10),
            ("sliding-window 10/60s", 19),
            ("token-bucket 10/60s burst 10", 19),
            ("token-bucket 1/s burst 20", 39),
            ("leaky-bucket 3/s queue 7", 13),
            ("token-bucket 10 every 60s burst 10", 19),
            ("token-bucket 3 every 1s burst 9", 17),
        ] {
            let worst = found(limit, Goal::MostAdmitted).unwrap();
            assert_eq!(worst.amount, amount, "{limit}: {worst:?}");
            assert!(worst.amount <= worst.bound && worst.steps.len() <= 4, "{limit}: {worst:?}");
            let last = worst.steps[worst.steps.len() - 1];
            assert_eq!((last.in_window, last.is_admitted), (amount, true));
        }
    }

    #[test]
    fn a_sliding_window_denies_all_of_its_limit_to_a_caller_that_used_none_of_it() {
        let worst = found("sliding-window 10/60s", Goal::FalselyDenied).unwrap();
        assert_eq!((worst.amount, worst.nominal), (10, 10), "{worst:?}");
        let [first, last] = worst.steps[..] else { panic!("{worst:?}") };
        assert_eq!((first.cost, last.cost, last.is_admitted, last.in_window), (10, 10, false, 0));
        assert!(last.at.as_micros() - first.at.as_micros() >= 60_000_000);
    }

    #[test]
    fn false_denials_are_counted_beyond_the_remaining_permits() {
        let worst = found("token-bucket 7 every 1s burst 11", Goal::FalselyDenied).unwrap();
        assert_eq!((worst.amount, worst.nominal), (4, 11), "{worst:?}");
        let [_, had, denied] = worst.steps[..] else { panic!("{worst:?}") };
        assert_eq!((had.at, had.cost, had.is_admitted), (denied.at, 7, true));
        assert_eq!((denied.cost, denied.is_admitted, denied.in_window), (4, false, 7));
    }

    #[test]
    fn d1_where_nothing_is_denied_falsely_nothing_is_found() {
        for limit in ["sliding-log 10/60s", "fixed-window 10/60s", "token-bucket 10/60s burst 7"] {
            assert_eq!(found(limit, Goal::FalselyDenied), None, "{limit}");
        }
    }

    #[test]
    fn several_limits_together_are_searched_too() {
        let limit = "fixed-window 10/60s + sliding-log 5/s";
        let worst = found(limit, Goal::MostAdmitted).unwrap();
        assert!(worst.amount * 10 >= worst.nominal * 19, "{worst:?}");
        assert!(worst.amount <= worst.bound, "{worst:?}");
    }

    #[test]
    fn one_seed_gives_one_result() {
        for goal in [Goal::MostAdmitted, Goal::FalselyDenied] {
            let limit = "token-bucket 3 every 7s burst 10";
            assert_eq!(found(limit, goal), found(limit, goal));
        }
    }

    #[test]
    fn a_window_that_does_not_fit_into_time_is_refused() {
        let limit = "sliding-log 1/25500day".parse().unwrap();
        let refused = worst(&limit, Goal::MostAdmitted, 1, 10);
        assert!(matches!(refused, Err(WorstError::TooLong { .. })), "{refused:?}");
    }
}
