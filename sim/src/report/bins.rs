//! Requests over time, in bins with round edges.

use lockage_core::Timestamp;

use crate::replay::Outcome;
use crate::trace::Trace;

/// Adjacent spans of time that cover a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bins {
    /// The start of the first, in microseconds since the epoch: a multiple of `width`.
    pub(super) start: u64,
    /// The length of each, in microseconds.
    pub(super) width: u64,
    /// Their number.
    pub(super) count: usize,
}

/// The outcomes of the requests in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) admitted: u64,
    pub(super) denied: u64,
}

impl Bins {
    /// Returns the narrowest round bins, at most `most`, that cover the span.
    pub(super) fn covering(span: (Timestamp, Timestamp), most: usize) -> Bins {
        let (from, to) = (span.0.as_micros(), span.1.as_micros());
        let count = |width: u64| to / width - from / width + 1;
        let width = bin_widths().find(|&width| count(width) <= most.max(1) as u64);
        let width = width.expect("the widest is longer than all time from the epoch on");
        Bins { start: from / width * width, width, count: count(width) as usize }
    }

    /// Returns the outcomes per bin.
    pub(super) fn fill(&self, trace: &Trace, outcomes: &[Outcome]) -> Vec<Bin> {
        let mut bins = vec![Bin::default(); self.count];
        for (request, outcome) in trace.requests().iter().zip(outcomes) {
            let bin = &mut bins[((request.at.as_micros() - self.start) / self.width) as usize];
            match outcome {
                Outcome::Admitted => bin.admitted += 1,
                Outcome::Denied | Outcome::Never => bin.denied += 1,
            }
        }
        bins
    }
}

pub(super) const SECOND: u64 = 1_000_000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;

/// Widths of bins, in microseconds, from the narrowest on: each fits a whole number of times into
/// a second, a minute, an hour or a day, so that their edges are round times.
fn bin_widths() -> impl Iterator<Item = u64> {
    let below_a_second = (0..6).flat_map(|power| [1, 2, 5].map(|n| n * 10u64.pow(power)));
    let seconds = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30].map(|n| n * SECOND);
    let minutes = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 45, 60, 90].map(|n| n * MINUTE);
    let hours = [2, 3, 4, 6, 8, 12].map(|n| n * HOUR);
    let days = (0..6).flat_map(|power| [1, 2, 3, 4, 5, 7].map(|n| n * 10u64.pow(power) * DAY));
    below_a_second.chain(seconds).chain(minutes).chain(hours).chain(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covering(from: u64, to: u64, most: usize) -> (u64, u64, usize) {
        let at = |micros| Timestamp::from_micros(micros).unwrap();
        let Bins { start, width, count } = Bins::covering((at(from), at(to)), most);
        (start, width, count)
    }

    #[test]
    fn bins_are_round_and_cover_the_span() {
        assert_eq!(covering(5, 5, 80), (5, 1, 1));
        assert_eq!(covering(61 * SECOND, 119 * SECOND, 60), (61 * SECOND, SECOND, 59));
        assert_eq!(covering(61 * SECOND, 121 * SECOND, 60), (60 * SECOND, 2 * SECOND, 31));
        assert_eq!(covering(59 * SECOND, 61 * SECOND, 1), (0, 2 * MINUTE, 1));
        let (start, width, count) = covering(0, Timestamp::MAX.as_micros(), 1);
        assert!(start + width * count as u64 > Timestamp::MAX.as_micros());
        assert!(bin_widths().is_sorted());
    }
}
