//! Headlines, numbers and names as tables and charts show them.

use std::cmp::Ordering;
use std::time::Duration;

use lockage_core::Timestamp;

use super::{AdviceReport, Report, Source, ticks};
use crate::dates;
use crate::input::{printable, shorten};

impl Source {
    /// Returns the file or the shape, in words.
    pub(super) fn headline(&self) -> String {
        match self {
            Source::File { name, .. } => shorten(&printable(name), 40),
            Source::Traffic { shape, seed } => format!("{} (seed {seed})", printable(shape)),
        }
    }
}

impl AdviceReport {
    /// Returns the source and number of requests, in words.
    pub(super) fn headline(&self) -> String {
        let (requests, clients) = (self.advice.requests, self.advice.clients);
        let (requests, clients) = (counted(requests, "request"), counted(clients, "client"));
        format!("{}: {requests} of {clients}", self.source.headline())
    }

    /// Returns the span of time, in words.
    pub(super) fn period(&self) -> String {
        period(self.span)
    }
}

impl Report {
    /// Returns the most requests of a limit.
    pub(super) fn most_requests(&self) -> u64 {
        let counts = self.limiters.iter().map(|limiter| limiter.trace.requests().len());
        counts.max().unwrap_or(0) as u64
    }

    /// Returns the source and size of the trace, in words.
    pub(super) fn headline(&self) -> String {
        let source = self.source.headline();
        let Some(trace) = self.shared_trace() else {
            return format!("{source}: each limit with the requests that its answers led to");
        };
        let requests = counted(trace.requests().len() as u64, "request");
        let keys = counted(trace.key_count() as u64, "key");
        format!("{source}: {requests} of {keys}")
    }

    /// Returns the time of the trace, in words.
    pub(super) fn period(&self) -> String {
        period(self.span())
    }
}

pub(super) fn period((from, to): (Timestamp, Timestamp)) -> String {
    format!("{} to {} UTC", headline_date(from), headline_date(to))
}

/// Returns a number of things, in words.
pub(super) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(count))
}

/// Returns an exact span in the largest unit in which it is short.
pub(crate) fn span(micros: u64) -> String {
    match micros {
        0 => "0 s".to_owned(),
        micros if micros >= 1_000_000 && !micros.is_multiple_of(1_000_000) => {
            let fraction = format!("{:06}", micros % 1_000_000);
            format!("{}.{} s", micros / 1_000_000, fraction.trim_end_matches('0'))
        }
        micros => ticks::in_words(micros),
    }
}

/// Returns the length of a window in words.
pub(super) fn duration(window: Duration) -> String {
    span(u64::try_from(window.as_micros()).unwrap_or(u64::MAX))
}

/// Returns a start time, as exact as it matters.
pub(super) fn headline_date(time: Timestamp) -> String {
    let whole_second = time.as_micros().is_multiple_of(1_000_000);
    let format = if whole_second { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M:%S.%6f" };
    dates::to_calendar(time).strftime(format).to_string()
}

/// Returns a number with separated thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a share as a percentage that shows 0 % or 100 % only if exact.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 * 100.0 / whole as f64;
    match share {
        share if part > 0 && share < 0.1 => "<0.1%".to_owned(),
        share if part < whole && share > 99.9 => ">99.9%".to_owned(),
        share => format!("{share:.1}%"),
    }
}

/// Returns the used part of an allowed amount, as a percentage that shows 100 % only if exact.
pub(crate) fn ratio(had: u64, allowed: u64) -> String {
    let percent = had as f64 * 100.0 / allowed as f64;
    match had.cmp(&allowed) {
        Ordering::Less => format!("{:.1}%", percent.min(99.9)),
        Ordering::Equal => "100%".to_owned(),
        Ordering::Greater if percent > 1000.0 => format!("{percent:.0}%"),
        Ordering::Greater => format!("{:.1}%", percent.max(100.1)),
    }
}

/// Returns a key's name as a table shows it.
pub(super) fn key_name(name: &str, longest: usize) -> String {
    shorten(&printable(name), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn all_that_is_allowed_is_neither_less_nor_more() {
        for (had, text) in
            [(9_999, "99.9%"), (10_000, "100%"), (10_001, "100.1%"), (19_000, "190.0%")]
        {
            assert_eq!(ratio(had, 10_000), text);
        }
    }

    #[test]
    fn spans_are_exact_and_short() {
        for (micros, text) in [
            (0, "0 s"),
            (1, "1 us"),
            (1500, "1500 us"),
            (60_000_000, "1 min"),
            (60_000_001, "60.000001 s"),
            (90_500_000, "90.5 s"),
            (7_200_000_000, "2 h"),
        ] {
            assert_eq!(span(micros), text);
        }
    }

    #[test]
    fn a_share_is_rounded_but_never_to_all_or_nothing() {
        assert_eq!(percent(0, 10), "0.0%");
        assert_eq!(percent(1, 100_000), "<0.1%");
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(99_999, 100_000), ">99.9%");
        assert_eq!(percent(10, 10), "100.0%");
    }
}
