//! A reference calendar, from the rules of two zones: UTC, and Berlin as the EU has it since 1996, in all years.

use lockage_core::{CalendarUnit, CalendarWindow, Limit, Timestamp, Zone};

const HOUR: i128 = 3_600_000_000;
const DAY: i128 = 24 * HOUR;

/// The days, weeks, months or years of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// The length of a window.
    pub unit: CalendarUnit,
    /// Whether the zone is Berlin's; otherwise it is UTC.
    pub is_berlin: bool,
}

/// All units, with the microseconds that a window of each lasts about, and at least.
const UNITS: [(CalendarUnit, i128, i128); 4] = [
    (CalendarUnit::Day, DAY, 23 * HOUR),
    (CalendarUnit::Week, 7 * DAY, 167 * HOUR),
    (CalendarUnit::Month, 30 * DAY, 28 * DAY),
    (CalendarUnit::Year, 365 * DAY, 365 * DAY),
];

impl Calendar {
    /// Returns one of all calendars, by a number.
    pub fn numbered(number: u64) -> Self {
        let (unit, ..) = UNITS[(number % 4) as usize];
        Calendar { unit, is_berlin: number / 4 % 2 == 1 }
    }

    /// Returns the calendar with this `span_us` in a [`Config`](crate::config::Config); an arbitrary one if none has
    /// it.
    pub fn of_span(span_us: u64) -> Self {
        let mut all = (0..8).map(Calendar::numbered);
        all.find(|it| it.span_us() == span_us).unwrap_or_else(|| Calendar::numbered(span_us))
    }

    /// Returns the calendar of a limit.
    pub fn of(window: &CalendarWindow) -> Self {
        Calendar { unit: window.unit(), is_berlin: window.zone() != Zone::UTC }
    }

    /// Returns about how long a window lasts; a microsecond more in Berlin, which distinguishes the two.
    pub fn span_us(self) -> u64 {
        let (_, about, _) = UNITS[self.unit as usize];
        about as u64 + u64::from(self.is_berlin)
    }

    /// Returns how long a window lasts at least, in microseconds.
    pub fn least_us(self) -> u64 {
        UNITS[self.unit as usize].2 as u64
    }

    /// Returns the zone.
    pub fn zone(self) -> Zone {
        let name = if self.is_berlin { "Europe/Berlin" } else { "UTC" };
        Zone::named(name).expect("both are in the table")
    }

    /// Returns when the window at this time began, and when it ends.
    pub fn window(self, at: i128) -> (i128, i128) {
        let day = (at + self.offset(at)).div_euclid(DAY);
        let (year, month, _) = civil(day);
        let (first, next) = match self.unit {
            CalendarUnit::Day => (day, day + 1),
            // The epoch was a Thursday.
            CalendarUnit::Week => {
                (day - (day + 3).rem_euclid(7), day - (day + 3).rem_euclid(7) + 7)
            }
            CalendarUnit::Month if month == 12 => (number(year, 12, 1), number(year + 1, 1, 1)),
            CalendarUnit::Month => (number(year, month, 1), number(year, month + 1, 1)),
            CalendarUnit::Year => (number(year, 1, 1), number(year + 1, 1, 1)),
        };
        (self.midnight(first), self.midnight(next))
    }

    /// Returns the number of the window at this time, one more than that of the window before.
    pub fn number(self, at: i128) -> i128 {
        let day = (at + self.offset(at)).div_euclid(DAY);
        let (year, month, _) = civil(day);
        match self.unit {
            CalendarUnit::Day => day,
            CalendarUnit::Week => (day + 3).div_euclid(7),
            CalendarUnit::Month => 12 * year + month,
            CalendarUnit::Year => year,
        }
    }

    /// Returns the boundaries of the window at this time, of the one before and of the one after it.
    pub fn boundaries(self, at: i128) -> [i128; 4] {
        let (begin, end) = self.window(at);
        [self.window(begin - 1).0, begin, end, self.window(end).1]
    }

    /// Returns the midnight of a day. Clocks change at one in the morning of UTC, never at midnight.
    fn midnight(self, day: i128) -> i128 {
        let before = day * DAY - 3 * HOUR;
        day * DAY - self.offset(before)
    }

    /// Returns how far the zone's clocks are ahead of UTC.
    fn offset(self, at: i128) -> i128 {
        if !self.is_berlin {
            return 0;
        }
        let (year, ..) = civil(at.div_euclid(DAY));
        let last_sunday = |month| {
            let last = number(year, month, 31);
            last - (last + 4).rem_euclid(7)
        };
        let is_summer = (last_sunday(3) * DAY + HOUR..last_sunday(10) * DAY + HOUR).contains(&at);
        if is_summer { 2 * HOUR } else { HOUR }
    }
}

/// Returns the limit with the boundaries around this time.
pub fn bounded(limit: Limit, now_us: u64) -> Limit {
    limit.with_calendar(|window| {
        let times = Calendar::of(&window).boundaries(now_us.into());
        window.with_boundaries(times.map(|at| u64::try_from(at).unwrap_or_default()))
    })
}

/// Returns the limit with boundaries as of windows that last two milliseconds each, which a machine cannot distinguish
/// from true ones.
///
/// At some times those windows begin half a millisecond later, as by other zone data, and at some no boundaries are
/// around the time, as by a wrong clock.
pub fn short(window: CalendarWindow, now: Timestamp) -> CalendarWindow {
    let now = now.as_micros();
    let shift = if now.is_multiple_of(11) { 500 } else { 0 };
    let off = if now.is_multiple_of(13) { 4_000 } else { 0 };
    let begin = (now - shift) / 2_000 * 2_000 + shift - off;
    window.with_boundaries([begin - 2_000, begin, begin + 2_000, begin + 4_000])
}

/// Returns the day of a date since the epoch, counted by leap years.
fn number(year: i128, month: i128, day: i128) -> i128 {
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let is_leap = year.rem_euclid(4) == 0 && (year % 100 != 0 || year % 400 == 0);
    let years = 365 * (year - 1970) + leaps(year - 1) - leaps(1969);
    years + before[(month - 1) as usize] + i128::from(is_leap && month > 2) + day - 1
}

fn leaps(year: i128) -> i128 {
    year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400)
}

/// Returns the date of a day since the epoch.
fn civil(day: i128) -> (i128, i128, i128) {
    let mut year = 1969 + (day * 10_000).div_euclid(3_652_425);
    while number(year + 1, 1, 1) <= day {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| number(year, *month, 1) <= day).expect("a month");
    (year, month, day - number(year, month, 1) + 1)
}
