//! Burstiness of requests over time, and fairness over keys.

use lockage_core::{Limit, Timestamp};

use super::envelope::nominal;
use crate::replay::Outcome;
use crate::trace::Trace;

/// The burstiness of the costs of all keys, counted in adjacent windows from the first request on. A last
/// partial window is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burstiness {
    /// The length of the windows in microseconds: the limit's, or the time to fill a bucket; the longest of
    /// a composite.
    pub window_us: u64,
    /// The requests.
    pub offered: Dispersion,
    /// The admissions; `None` if there are none.
    pub admitted: Option<Dispersion>,
}

/// Measures of unevenness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dispersion {
    /// The Fano factor, variance by mean: 0 for equal counts, about 1 for a Poisson process of cost 1.
    pub fano: f64,
    /// The largest count by the mean.
    pub peak_to_mean: f64,
}

impl Burstiness {
    /// Computes the burstiness of a trace and its admissions; `None` if it is shorter than two windows.
    pub fn of(
        limit: &Limit,
        trace: &Trace,
        outcomes: &[Outcome],
        decided: &[Timestamp],
    ) -> Option<Burstiness> {
        let window_us = nominal(limit).map(|(_, window)| window).max()?;
        let (first, last) = trace.span()?;
        let (first, length) = (first.as_micros(), last.as_micros() - first.as_micros() + 1);
        let count = length / window_us;
        if count < 2 {
            return None;
        }
        let window = |at: Timestamp| (at.as_micros() - first) / window_us;
        let requests = trace.requests().iter();
        let offered = requests.clone().map(|request| (window(request.at), request.cost));
        let admitted = requests.zip(outcomes).zip(decided);
        let admitted = admitted.filter(|((_, outcome), _)| **outcome == Outcome::Admitted);
        let mut admitted: Vec<_> =
            admitted.map(|((request, _), at)| (window(*at), request.cost)).collect();
        // Waiting callers are not decided in the order of their arrival.
        admitted.sort_by_key(|(window, _)| *window);
        Some(Burstiness {
            window_us,
            offered: Dispersion::of(offered, count)?,
            admitted: Dispersion::of(admitted.into_iter(), count),
        })
    }
}

impl Dispersion {
    /// Computes it from costs with ascending numbers of their windows, over this many windows.
    fn of(costs: impl Iterator<Item = (u64, u64)>, count: u64) -> Option<Dispersion> {
        let mut totals: Vec<(u64, f64)> = Vec::new();
        for (window, cost) in costs.filter(|(window, _)| *window < count) {
            match totals.last_mut() {
                Some((last, total)) if *last == window => *total += cost as f64,
                _ => totals.push((window, cost as f64)),
            }
        }
        // Windows without a request are not listed, and count as zero.
        let mean = totals.iter().map(|(_, total)| total).sum::<f64>() / count as f64;
        let square = |total: f64| (total - mean) * (total - mean);
        let listed: f64 = totals.iter().map(|(_, total)| square(*total)).sum();
        let squares = listed + square(0.0) * (count - totals.len() as u64) as f64;
        let peak = totals.iter().map(|(_, total)| *total).fold(0.0, f64::max);
        let (fano, peak_to_mean) = (squares / count as f64 / mean, peak / mean);
        (mean > 0.0).then_some(Dispersion { fano, peak_to_mean })
    }
}

/// Jain's index over the keys: 1 if all have the same, 1 / n if one of n has all.
///
/// See Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource allocation in
/// shared computer systems" (1984).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fairness {
    /// The index of the requested costs.
    pub offered: f64,
    /// The index of the admitted costs; `None` if there are none.
    pub admitted: Option<f64>,
    /// The index of the admitted share of each key; `None` if there are none.
    pub share: Option<f64>,
}

impl Fairness {
    /// Computes it over the keys with at least one request.
    pub fn of(trace: &Trace, outcomes: &[Outcome]) -> Option<Fairness> {
        let mut keys = vec![(0.0, 0.0); trace.key_count()];
        for (request, outcome) in trace.requests().iter().zip(outcomes) {
            let (offered, admitted) = &mut keys[request.key as usize];
            *offered += request.cost as f64;
            if *outcome == Outcome::Admitted {
                *admitted += request.cost as f64;
            }
        }
        let of = |part: fn(&(f64, f64)) -> f64| jain(keys.iter().map(part));
        Some(Fairness {
            offered: of(|(offered, _)| *offered)?,
            admitted: of(|(_, admitted)| *admitted),
            share: of(|(offered, admitted)| admitted / offered),
        })
    }
}

fn jain(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let sum: f64 = values.clone().sum();
    let squares: f64 = values.clone().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.count() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::super::measured::tests::trace;
    use super::*;
    use crate::traffic::Plan;
    use Outcome::{Admitted, Denied};

    fn burstiness(limit: &str, trace: &Trace, outcomes: &[Outcome]) -> Option<Burstiness> {
        let decided: Vec<Timestamp> = trace.requests().iter().map(|request| request.at).collect();
        Burstiness::of(&limit.parse().unwrap(), trace, outcomes, &decided)
    }

    #[test]
    fn dispersion_is_of_whole_windows_and_counts_empty_ones() {
        // Windows of 4, 0 and 2 (and one that is cut off): a mean of 2, a variance of 8/3.
        let requests = [(100, "a", 3), (109, "b", 1), (120, "a", 2), (131, "a", 9)];
        let outcomes = [Admitted, Denied, Denied, Admitted];
        let Burstiness { window_us, offered, admitted } =
            burstiness("fixed-window 5/10us", &trace(requests), &outcomes).unwrap();
        assert_eq!((window_us, offered.peak_to_mean), (10, 2.0));
        assert!((offered.fano - 4.0 / 3.0).abs() < 1e-12, "{offered:?}");
        assert_eq!(admitted, Some(Dispersion { fano: 2.0, peak_to_mean: 3.0 }));
        assert_eq!(burstiness("fixed-window 5/20us", &trace(requests), &outcomes), None);
    }

    #[test]
    fn poisson_traffic_has_a_fano_factor_of_one_and_constant_traffic_of_zero() {
        let fano = |shape: &str| {
            let trace = Plan::new(shape.parse().unwrap()).generate().unwrap();
            let outcomes = vec![Denied; trace.requests().len()];
            let burstiness = burstiness("token-bucket 2/s burst 2", &trace, &outcomes).unwrap();
            assert_eq!(burstiness.admitted, None);
            burstiness.offered.fano
        };
        assert_eq!(fano("constant 20/s"), 0.0);
        // Its standard error over 599 windows is (2 / 599)^0.5.
        let poisson = fano("poisson 20/s");
        assert!((poisson - 1.0).abs() < 4.0 * 0.058, "{poisson}");
    }

    #[test]
    fn fairness_covers_admitted_cost_and_its_share_of_the_offered() {
        let requests = trace([(1, "a", 1), (2, "b", 2), (3, "b", 6), (4, "c", 2)]);
        let fairness = Fairness::of(&requests, &[Admitted, Admitted, Denied, Denied]).unwrap();
        assert_eq!(fairness.offered, 121.0 / (3.0 * 69.0));
        assert_eq!(fairness.admitted, Some(9.0 / 15.0));
        // Shares of 1, 1/4 and 0.
        assert!((fairness.share.unwrap() - 25.0 / 51.0).abs() < 1e-12);
        let nothing = Fairness::of(&requests, &[Denied; 4]).unwrap();
        assert_eq!((nothing.admitted, nothing.share), (None, None));
    }
}
