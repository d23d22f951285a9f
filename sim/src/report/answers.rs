//! Prints the answers beyond counts as tables.

use super::grid::Grid;
use super::words::{grouped, headline_date, key_name, ratio, span};
use super::{Limiter, Report};
use crate::answers::{Burstiness, Fairness, Measured, Used};
use crate::input::printable;

/// Returns the tables that are not empty.
pub(super) fn grids(report: &Report, width: usize) -> Vec<Grid> {
    let grids = [
        envelopes(report, width),
        windows(report, width),
        logs(report),
        bursts(report),
        fairness(report),
        stores(report),
    ];
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

fn logs(report: &Report) -> Grid {
    let header =
        ["limit", "exact log", "falsely\ndenied", "only it\nadmits", "only the log\nadmits"];
    let mut grid = Grid::new("Against an exact log of the same capacity and rate", &header, 2);
    grid.note =
        "Falsely denied: denied, where the log would have admitted after all that the limit had."
            .into();
    for limiter in &report.limiters {
        let Some(against) = limiter.answers.against_log else { continue };
        let log =
            |&(capacity, window): &(u64, u64)| format!("{} in {}", grouped(capacity), span(window));
        let logs: Vec<String> = limiter.answers.logs.iter().map(log).collect();
        let mut row = vec![printable(&limiter.spec).into_owned(), logs.join(" + ")];
        let counts = [against.false_denials, against.only_limit, against.only_log];
        row.extend(counts.map(grouped));
        grid.rows.push(row);
    }
    grid
}

fn bursts(report: &Report) -> Grid {
    let header =
        ["limit", "window", "Fano\noffered", "admitted", "peak / mean\noffered", "admitted"];
    let mut grid = Grid::new("Burstiness of all keys together", &header, 2);
    grid.note =
        "Of the costs in windows side by side: variance by mean (Poisson: 1), and largest by mean."
            .into();
    for limiter in &report.limiters {
        let Some(burstiness) = limiter.answers.burstiness else { continue };
        let Burstiness { window_us, offered, admitted } = burstiness;
        grid.rows.push(vec![
            printable(&limiter.spec).into_owned(),
            span(window_us),
            hundredths(Some(offered.fano)),
            hundredths(admitted.map(|admitted| admitted.fano)),
            hundredths(Some(offered.peak_to_mean)),
            hundredths(admitted.map(|admitted| admitted.peak_to_mean)),
        ]);
    }
    grid
}

fn fairness(report: &Report) -> Grid {
    let header = ["limit", "offered", "admitted", "share admitted"];
    let mut grid = Grid::new("Fairness over keys (Jain's index)", &header, 1);
    grid.note = "1: each key has the same. 1 / n: one of n has all.".into();
    // One key has no fairness.
    for limiter in report.limiters.iter().filter(|limiter| limiter.trace.key_count() > 1) {
        let Some(Fairness { offered, admitted, share }) = limiter.answers.fairness else {
            continue;
        };
        let mut row = vec![printable(&limiter.spec).into_owned()];
        row.extend([Some(offered), admitted, share].map(hundredths));
        grid.rows.push(row);
    }
    grid
}

fn stores(report: &Report) -> Grid {
    let header = ["limit", "commands a call, on average", "bytes of a\nrecord", "largest"];
    let mut grid = Grid::new("In the store", &header, 2);
    grid.note =
        "Each key counts with its largest record; key names and what a server adds are not in it."
            .into();
    for limiter in &report.limiters {
        let Some(store) = &limiter.answers.store else { continue };
        let each = |(name, count): (&&str, &u64)| {
            format!("{} {:.2}", name.to_uppercase(), *count as f64 / store.scripts.max(1) as f64)
        };
        let commands: Vec<String> = store.commands.iter().map(each).collect();
        grid.rows.push(vec![
            printable(&limiter.spec).into_owned(),
            commands.join(", "),
            format!("{:.1}", store.mean_record),
            grouped(store.largest_record),
        ]);
    }
    grid
}

fn hundredths(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
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
        ratio(used.admitted, used.allowed),
    ]
}
