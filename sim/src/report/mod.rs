//! Reports of a replay: tables, timelines, charts, HTML and JSON.

pub(crate) mod advice;
pub(crate) mod advice_chart;
mod answers;
mod answers_json;
mod axis;
mod bins;
mod clocks;
mod envelope_chart;
mod grid;
pub(crate) mod html;
pub mod json;
mod pairs;
mod panel;
mod state_chart;
pub mod svg;
pub mod table;
pub mod timeline;

use std::cmp::Ordering;
use std::rc::Rc;

use lockage_core::Timestamp;

use crate::answers::{Answers, Pair};
use crate::clocks::{ByWay, Clocks};
use crate::dates;
use crate::engine::EngineKind;
use crate::input::{Unparsed, printable, shorten};
use crate::replay::{Outcome, Tally};
use crate::trace::Trace;
use crate::waiting::{WaitTally, Waiting};
pub(crate) use grid::Grid;

/// A report.
#[derive(Debug)]
pub struct Report {
    /// The source of the requests.
    pub source: Source,
    /// The engine that decided.
    pub engine: EngineKind,
    /// How callers waited, if they did.
    pub waiting: Option<Waiting>,
    /// The callers' clocks, if they have any.
    pub clocks: Option<Clocks>,
    /// The results of each limit, in their order.
    pub limiters: Vec<Limiter>,
    /// The pairs of compared limits.
    pub pairs: Vec<Pair>,
}

/// The source of a trace.
#[derive(Debug)]
pub enum Source {
    /// A file.
    File {
        /// Its name.
        name: String,
        /// Its lines that are no requests.
        unparsed: Unparsed,
    },
    /// Synthetic traffic.
    Traffic {
        /// The shape as given.
        shape: String,
        /// The seed.
        seed: u64,
    },
}

/// The results of one limit.
#[derive(Debug)]
pub struct Limiter {
    /// The limit as given.
    pub spec: String,
    /// The outcome of each request, in the order of the trace.
    pub outcomes: Vec<Outcome>,
    /// The requests; in a closed loop that waits, each limit has its own.
    pub trace: Rc<Trace>,
    /// The counts.
    pub tally: Tally,
    /// The waits, if callers waited.
    pub waits: Option<WaitTally>,
    /// The answers beyond counts.
    pub answers: Answers,
    /// What the callers' clocks change; empty without clocks.
    pub clocks: Vec<ByWay>,
}

impl Report {
    /// Returns the times of the first and the last request.
    ///
    /// # Panics
    /// Without requests, which no command reports.
    pub fn span(&self) -> (Timestamp, Timestamp) {
        let spans = self.limiters.iter().filter_map(|limiter| limiter.trace.span());
        let span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        span.expect("input and traffic refuse to give a trace without a request")
    }

    /// Returns the requests, if they are the same for all limits.
    fn shared_trace(&self) -> Option<&Trace> {
        let first = &self.limiters.first()?.trace;
        let is_shared = self.limiters.iter().all(|limiter| Rc::ptr_eq(&limiter.trace, first));
        is_shared.then_some(first)
    }

    /// Returns the most requests of a limit.
    fn most_requests(&self) -> u64 {
        let counts = self.limiters.iter().map(|limiter| limiter.trace.requests().len());
        counts.max().unwrap_or(0) as u64
    }

    /// Returns the source and size of the trace, in words.
    fn headline(&self) -> String {
        let source = match &self.source {
            Source::File { name, .. } => shorten(&printable(name), 40),
            Source::Traffic { shape, seed } => format!("{} (seed {seed})", printable(shape)),
        };
        let Some(trace) = self.shared_trace() else {
            return format!("{source}: each limit with the requests that its answers led to");
        };
        let requests = counted(trace.requests().len() as u64, "request");
        let keys = counted(trace.key_count() as u64, "key");
        format!("{source}: {requests} of {keys}")
    }

    /// Returns the time of the trace, in words.
    fn period(&self) -> String {
        let (from, to) = self.span();
        format!("{} to {} UTC", headline_date(from), headline_date(to))
    }
}

/// Returns a number of things, in words.
fn counted(count: u64, thing: &str) -> String {
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
        micros => bins::in_words(micros),
    }
}

/// Returns a start time, as exact as it matters.
fn headline_date(time: Timestamp) -> String {
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
fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 * 100.0 / whole as f64;
    match share {
        share if part > 0 && share < 0.1 => "<0.1%".to_owned(),
        share if part < whole && share > 99.9 => ">99.9%".to_owned(),
        share => format!("{share:.1}%"),
    }
}

/// Returns the used part of what is allowed, as a percentage that shows 100 % only if exact.
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
fn key_name(name: &str, longest: usize) -> String {
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
