//! The labels of an axis of time: round times, and widths in words.

use jiff::SignedDuration;
use lockage_core::Timestamp;

use super::bins::{Bins, DAY, HOUR, MINUTE, SECOND};
use crate::dates;

impl Bins {
    /// Returns the labelled round times within the bins, each with its distance from the first bin's beginning, in
    /// bins, as far apart as their labels need: `room` returns the number of bins under a label of a given number of
    /// characters. Without a round time, returns the beginning.
    pub(super) fn ticks(&self, room: impl Fn(usize) -> f64) -> Vec<(f64, String)> {
        let end = self.start + self.width * self.count as u64;
        let label = |micros: u64, step: u64| {
            let time = Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX);
            date_label(time, SignedDuration::from_micros(step as i64))
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

/// Formats a time for an axis or headline, in UTC, as fine as `step` needs.
fn date_label(time: Timestamp, step: SignedDuration) -> String {
    let format = match step {
        step if step >= SignedDuration::from_hours(24) => "%Y-%m-%d",
        step if step >= SignedDuration::from_mins(1) => "%m-%d %H:%M",
        step if step >= SignedDuration::from_secs(1) => "%H:%M:%S",
        step if step >= SignedDuration::from_millis(1) => "%H:%M:%S.%3f",
        _ => "%H:%M:%S.%6f",
    };
    dates::to_calendar(time).strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(tick_widths().is_sorted());
        for (width, words) in
            [(500_000, "500 ms"), (90 * MINUTE, "90 min"), (2 * HOUR, "2 h"), (5 * DAY, "5 d")]
        {
            assert_eq!(in_words(width), words);
        }
    }

    #[test]
    fn labels_are_as_fine_as_they_need_to_be() {
        let time = dates::parse("2015-05-17T10:05:03.25Z").unwrap();
        assert_eq!(date_label(time, SignedDuration::from_hours(24)), "2015-05-17");
        assert_eq!(date_label(time, SignedDuration::from_mins(30)), "05-17 10:05");
        assert_eq!(date_label(time, SignedDuration::from_secs(5)), "10:05:03");
        assert_eq!(date_label(time, SignedDuration::from_millis(10)), "10:05:03.250");
    }
}
