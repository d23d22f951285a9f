//! What is said of the limits beyond their counts, as tables for people.

use super::grid::Grid;
use super::{Limiter, Report, grouped, headline_date, key_name, span};
use crate::answers::{Measured, Used};
use crate::input::printable;

/// The tables, as far as there is something in them.
pub(super) fn grids(report: &Report, width: usize) -> Vec<Grid> {
    let grids = [envelopes(report, width), windows(report, width)];
    grids.into_iter().filter(|grid| !grid.rows.is_empty()).collect()
}

fn envelopes(report: &Report, width: usize) -> Grid {
    let header = ["limit", "law", "key", "from", "in", "admitted", "allowed", "used"];
    let mut grid = Grid::new("Against the envelope", &header, 4);
    grid.note =
        "The span, of all lengths, in which most of what the envelope allows was admitted.".into();
    for (limiter, measured) in measured(report) {
        let mut row = vec![printable(&limiter.spec).into_owned(), limiter.answers.laws.clone()];
        row.extend(used(limiter, &measured.worst, width));
        grid.rows.push(row);
    }
    grid
}

fn windows(report: &Report, width: usize) -> Grid {
    let header = ["limit", "key", "from", "in", "admitted", "nominal", "used"];
    let mut grid = Grid::new("The most in one window", &header, 3);
    grid.note =
        "A window's length, or the time in which a bucket fills; nominal is what it holds.".into();
    for (limiter, measured) in measured(report) {
        let mut row = vec![printable(&limiter.spec).into_owned()];
        row.extend(used(limiter, &measured.window, width));
        grid.rows.push(row);
    }
    grid
}

fn measured(report: &Report) -> impl Iterator<Item = (&Limiter, &Measured)> {
    let limiters = report.limiters.iter();
    limiters.filter_map(|limiter| Some((limiter, limiter.answers.measured.as_ref()?)))
}

fn used(limiter: &Limiter, used: &Used, width: usize) -> [String; 6] {
    [
        key_name(limiter.trace.key(used.key), (width / 6).clamp(16, 40)),
        headline_date(used.from),
        span(used.span_us),
        grouped(used.admitted),
        grouped(used.allowed),
        share(used),
    ]
}

/// How much of what is allowed was admitted. What is above it, or just below, never looks as if it were all.
pub(super) fn share(used: &Used) -> String {
    let percent = used.share() * 100.0;
    match used.admitted.cmp(&used.allowed) {
        std::cmp::Ordering::Less => format!("{:.1}%", percent.min(99.9)),
        std::cmp::Ordering::Equal => "100%".to_owned(),
        std::cmp::Ordering::Greater if percent > 1000.0 => format!("{percent:.0}%"),
        std::cmp::Ordering::Greater => format!("{:.1}%", percent.max(100.1)),
    }
}

#[cfg(test)]
mod tests {
    use lockage_core::Timestamp;

    use super::*;

    #[test]
    fn all_that_is_allowed_is_neither_less_nor_more() {
        let used = |admitted, allowed| {
            let from = Timestamp::EPOCH;
            share(&Used { span_us: 1, admitted, allowed, key: 0, from })
        };
        assert_eq!(used(9_999, 10_000), "99.9%");
        assert_eq!(used(10_000, 10_000), "100%");
        assert_eq!(used(10_001, 10_000), "100.1%");
        assert_eq!(used(19, 10), "190.0%");
    }
}
