//! Requests over time, in bins with round edges.

use jiff::SignedDuration;
use lockage_core::Timestamp;

use crate::dates;
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

    /// The round times within the bins that an axis names, as far apart as their labels need:
    /// `room` is how many bins a label of so many characters takes up. Each with its distance from
    /// the first bin's beginning, in bins; where there is no round time, the beginning itself.
    pub(super) fn ticks(&self, room: impl Fn(usize) -> f64) -> Vec<(f64, String)> {
        let end = self.start + self.width * self.count as u64;
        let label = |micros: u64, step: u64| {
            let time = Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX);
            dates::label(time, SignedDuration::from_micros(step as i64))
        };
        let fits =
            |&step: &u64| step as f64 / self.width as f64 >= room(label(self.start, step).len());
        let step = tick_widths().find(fits).unwrap_or(end);
        let first = self.start.next_multiple_of(step);
        let ticks: Vec<_> = (0..)
            .map(|i| first + i * step)
            .take_while(|&tick| tick < end)
            .map(|tick| ((tick - self.start) as f64 / self.width as f64, label(tick, step)))
            .collect();
        if ticks.is_empty() { vec![(0.0, label(self.start, self.width))] } else { ticks }
    }

    /// Returns the length of a bin in words.
    pub(super) fn width_in_words(&self) -> String {
        in_words(self.width)
    }
}

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

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

/// Distances between the labels of an axis, in microseconds, from the narrowest on: fewer than the
/// widths of bins, since a reader has to add them up.
fn tick_widths() -> impl Iterator<Item = u64> {
    let below_a_second = (0..6).flat_map(|power| [1, 2, 5].map(|n| n * 10u64.pow(power)));
    let seconds = [1, 2, 5, 10, 15, 30].map(|n| n * SECOND);
    let minutes = [1, 2, 5, 10, 15, 30].map(|n| n * MINUTE);
    let hours = [1, 2, 3, 6, 12].map(|n| n * HOUR);
    let days = (0..6).flat_map(|power| [1, 2, 5].map(|n| n * 10u64.pow(power) * DAY));
    below_a_second.chain(seconds).chain(minutes).chain(hours).chain(days)
}

/// Returns a width in the largest unit in which it is whole.
pub(super) fn in_words(width: u64) -> String {
    let units = [(DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (1000, "ms"), (1, "us")];
    let whole = units.into_iter().find(|(unit, _)| width.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or((1, "us"));
    format!("{} {name}", width / unit)
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
    }

    #[test]
    fn ticks_are_round_times_with_room_for_their_labels() {
        // 100 bins of a minute from 00:01 on; a label of 11 characters takes 13 of them.
        let bins = Bins { start: MINUTE, width: MINUTE, count: 100 };
        let ticks = bins.ticks(|characters| characters as f64 + 2.0);
        let expected = [(14.0, "01-01 00:15"), (29.0, "01-01 00:30"), (44.0, "01-01 00:45")];
        assert_eq!(ticks[..3], expected.map(|(place, label)| (place, label.to_owned())));
        let alone = Bins { start: MINUTE, width: 1, count: 1 };
        assert_eq!(alone.ticks(|_| 80.0), [(0.0, "00:01:00.000000".to_owned())]);
    }

    #[test]
    fn widths_grow_and_have_words() {
        assert!(bin_widths().is_sorted() && tick_widths().is_sorted());
        for (width, words) in
            [(500_000, "500 ms"), (90 * MINUTE, "90 min"), (2 * HOUR, "2 h"), (5 * DAY, "5 d")]
        {
            assert_eq!(in_words(width), words);
        }
    }
}
