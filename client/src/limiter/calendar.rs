//! The beginnings of calendar windows, by the rules of time zones.

use std::sync::LazyLock;

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, ToSpan};
use lockage_core::{CalendarUnit, CalendarWindow, Timestamp};

/// The data that is built in, so that all processes of one version agree.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Returns the limit with the boundaries of the window at `now`, of the one before and of the one after it.
///
/// A day begins at its first moment, which is not midnight if the clock skips midnight.
pub fn bounded_at(window: CalendarWindow, now: Timestamp) -> CalendarWindow {
    let zone = ZONES.get(window.zone().name()).expect("each zone of the table has built-in data");
    let micros = i64::try_from(now.as_micros()).expect("a time is below 2^53");
    let instant = jiff::Timestamp::from_microsecond(micros).expect("years up to 9999 are known");
    let (start, unit) = start(window.unit(), instant.to_zoned(zone.clone()).date());
    let begins = |count: i64| begins(&zone, start, unit * count);
    // A date comes twice where the clock is set back over midnight: it then is the later one already.
    let first = if begins(1) <= now.as_micros() { 0 } else { -1 };
    window.with_boundaries([0, 1, 2, 3].map(|index| begins(first + index)))
}

/// Returns the first date of the window that contains this date, and the length of a window.
fn start(unit: CalendarUnit, date: Date) -> (Date, Span) {
    let since_monday = i64::from(date.weekday().to_monday_zero_offset());
    match unit {
        CalendarUnit::Day => (date, 1.day()),
        CalendarUnit::Week => (date.saturating_sub(since_monday.days()), 1.week()),
        CalendarUnit::Month => (date.first_of_month(), 1.month()),
        CalendarUnit::Year => (date.first_of_year(), 1.year()),
    }
}

/// Returns the first moment of the date `later`, in microseconds since the epoch, at least 0.
fn begins(zone: &TimeZone, start: Date, later: Span) -> u64 {
    let day = start.saturating_add(later).to_zoned(zone.clone());
    let day = day.and_then(|day| day.start_of_day()).expect("years up to 9999 are known");
    u64::try_from(day.timestamp().as_microsecond()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockage_core::{Limit, Zone};

    /// Returns the beginnings of the windows around a time, as the zone's clocks show them.
    fn boundaries(limit: &str, at: &str) -> Vec<String> {
        let Limit::CalendarWindow(window) = limit.parse().unwrap() else { panic!("{limit}") };
        let at: jiff::Timestamp = at.parse().unwrap();
        let at = Timestamp::from_micros(at.as_microsecond() as u64).unwrap();
        let zone = ZONES.get(window.zone().name()).unwrap();
        let show = |micros: u64| {
            let time = jiff::Timestamp::from_microsecond(micros as i64).unwrap();
            time.to_zoned(zone.clone()).strftime("%a %F %R %:z").to_string()
        };
        bounded_at(window, at).boundaries().map(show).to_vec()
    }

    #[test]
    fn windows_begin_at_midnight_of_their_zone() {
        let days = boundaries("calendar-window 1/day in Europe/Berlin", "2026-03-29T00:59:00Z");
        let expected = ["Sat 2026-03-28", "Sun 2026-03-29", "Mon 2026-03-30", "Tue 2026-03-31"];
        let offsets = ["+01:00", "+01:00", "+02:00", "+02:00"];
        for ((day, date), offset) in days.iter().zip(expected).zip(offsets) {
            assert_eq!(*day, format!("{date} 00:00 {offset}"));
        }
        for (unit, at, expected) in [
            (
                "week",
                "2026-11-23T00:00:00Z",
                ["Mon 2026-11-16", "Mon 2026-11-23", "Mon 2026-11-30", "Mon 2026-12-07"],
            ),
            (
                "month",
                "2024-01-31T12:00:00Z",
                ["Fri 2023-12-01", "Mon 2024-01-01", "Thu 2024-02-01", "Fri 2024-03-01"],
            ),
            (
                "year",
                "2024-12-31T23:59:59Z",
                ["Sun 2023-01-01", "Mon 2024-01-01", "Wed 2025-01-01", "Thu 2026-01-01"],
            ),
        ] {
            let expected = expected.map(|date| format!("{date} 00:00 +00:00"));
            assert_eq!(boundaries(&format!("calendar-window 1/{unit}"), at), expected, "{unit}");
        }
    }

    #[test]
    fn a_day_without_midnight_begins_at_its_first_moment() {
        let days = boundaries("calendar-window 1/day in America/Sao_Paulo", "2018-11-04T12:00:00Z");
        assert_eq!(days[1..3], ["Sun 2018-11-04 01:00 -02:00", "Mon 2018-11-05 00:00 -02:00"]);
        // A date that is left out lasts no time.
        let days = boundaries("calendar-window 1/day in Pacific/Apia", "2011-12-30T09:59:00Z");
        let skipped = [
            "Thu 2011-12-29 00:00 -10:00",
            "Sat 2011-12-31 00:00 +14:00",
            "Sat 2011-12-31 00:00 +14:00",
        ];
        assert_eq!(days[1..], skipped);
    }

    #[test]
    fn a_date_that_comes_twice_begins_once() {
        // A minute after midnight the clock is set back by an hour.
        let days = boundaries("calendar-window 1/day in America/St_Johns", "2010-11-07T02:45:00Z");
        let expected = [
            "Sat 2010-11-06 00:00 -02:30",
            "Sun 2010-11-07 00:00 -02:30",
            "Mon 2010-11-08 00:00 -03:30",
        ];
        assert_eq!(days[..3], expected);
    }

    #[test]
    fn every_time_of_every_zone_is_between_its_boundaries() {
        let units =
            [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year];
        for (zone, unit) in Zone::all().flat_map(|zone| units.map(|unit| (zone, unit))) {
            let window = CalendarWindow::new(1, unit, zone).unwrap();
            // Some hundred hours of all those from 1970 to 2184.
            for hour in (0..1_875_000_u64).step_by(19_937) {
                let at = Timestamp::from_micros(hour * 3_600_000_000).unwrap();
                let [first, begin, end, last] = bounded_at(window, at).boundaries();
                let at = at.as_micros();
                assert!(
                    first <= begin && begin <= at && at < end && end <= last,
                    "{zone:?} {unit:?} {at}"
                );
            }
        }
    }
}
