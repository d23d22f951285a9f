//! Prints counts as tables.

use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::grid::Grid;
use super::words::{counted, grouped, key_name, percent};
use super::{Report, Source, answers, clocks, pairs};
use crate::engine::EngineKind;
use crate::input::{Reading, printable};

/// Which tables are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Counts, the requested comparisons (pairs, waits, clocks), and the keys denied most.
    Summary,
    /// Further answers too: the envelope, an exact log, burstiness, fairness, and the store.
    Full,
}

/// Writes the headline, the unparsed lines and the tables, at most `width` columns wide.
///
/// # Errors
/// The error of `out`.
pub fn write(report: &Report, tables: Tables, width: u16, out: &mut dyn Write) -> io::Result<()> {
    let engine = match report.engine {
        EngineKind::Lua => "the Lua scripts",
        EngineKind::Model => "the Rust machines",
        EngineKind::Memory => "the store in process",
    };
    writeln!(out, "{}, decided by {engine}\n{}", report.headline(), report.period())?;
    write_source(&report.source, out)?;
    for grid in grids(report, tables, usize::from(width)) {
        writeln!(out, "{}", grid.to_text(width))?;
    }
    if report.limiters.iter().all(|limiter| limiter.tally.worst.is_empty()) {
        writeln!(out, "\nNo key was denied.")?;
    }
    Ok(())
}

/// Returns the tables: counts, pairs, waits, clocks, further answers if they are wanted, and the keys denied most, with
/// names cut to fit the width.
pub(crate) fn grids(report: &Report, tables: Tables, width: usize) -> Vec<Grid> {
    let mut grids = vec![counts(report)];
    grids.extend(pairs::grids(report, width));
    grids.extend(report.waiting.as_ref().map(|waiting| {
        let jitter = if waiting.jitter { "" } else { ", without jitter" };
        waits(report, &format!("Waiting for at most {:?}{jitter}", waiting.timeout))
    }));
    grids.extend(clocks::grid(report));
    if tables == Tables::Full {
        grids.extend(answers::grids(report, width));
    }
    grids.extend(worst(report, width));
    grids
}

/// Writes the fields that were read as key, time and cost, and the lines that are no requests.
pub(super) fn write_source(source: &Source, out: &mut dyn Write) -> io::Result<()> {
    for line in source.reading().map(Reading::lines).unwrap_or_default() {
        writeln!(out, "{}", printable(&line))?;
    }
    let unparsed = source.unparsed();
    if unparsed.count == 0 {
        return Ok(());
    }
    let yellow = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    let are =
        if unparsed.count == 1 { "is no request and was" } else { "are no requests and were" };
    writeln!(out, "{yellow}{} {are} left out:{yellow:#}", counted(unparsed.count, "line"))?;
    for line in &unparsed.samples {
        writeln!(out, "  line {}: {}\n    {}", line.line, printable(&line.reason), line.text)?;
    }
    let more = unparsed.count - unparsed.samples.len() as u64;
    if more > 0 {
        writeln!(out, "  and {} more", grouped(more))?;
    }
    writeln!(out)
}

fn counts(report: &Report) -> Grid {
    // A column that is mostly zero is shown only if it is not.
    let never = report.limiters.iter().any(|limiter| limiter.tally.never > 0);
    let mut header = vec!["limit", "requests", "keys", "admitted", "denied"];
    header.extend(never.then_some("never"));
    header.extend(["denied %", "keys\ndenied"]);
    let mut grid = Grid::new("", &header, 1);
    for limiter in &report.limiters {
        let (tally, trace) = (&limiter.tally, &limiter.trace);
        let (requests, keys) = (trace.requests().len() as u64, trace.key_count() as u64);
        let mut row = vec![printable(&limiter.spec).into_owned()];
        row.extend([requests, keys, tally.admitted, tally.denied].map(grouped));
        row.extend(never.then(|| grouped(tally.never)));
        row.extend([percent(tally.denied, requests), grouped(tally.keys_denied)]);
        grid.rows.push(row);
    }
    grid
}

fn waits(report: &Report, title: &str) -> Grid {
    let header = ["limit", "at once", "after\nwaiting", "gave up"];
    let times = ["p50 ms", "p99 ms", "max ms"];
    let calls = ["calls per\nadmitted", "calls in\n10 ms"];
    let mut grid = Grid::new(title, &[&header[..], &times, &calls].concat(), 1);
    for limiter in &report.limiters {
        let Some(waits) = &limiter.waits else { continue };
        let millis = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
        let times = match waits.times {
            Some(times) => [times.p50, times.p99, times.max].map(millis),
            None => ["-"; 3].map(str::to_owned),
        };
        let per_admitted = waits.calls_per_admitted();
        let per_admitted = per_admitted.map_or("-".to_owned(), |calls| format!("{calls:.1}"));
        let mut row = vec![printable(&limiter.spec).into_owned()];
        row.extend([waits.at_once, waits.after_waiting, waits.gave_up].map(grouped));
        row.extend(times);
        row.extend([per_admitted, grouped(waits.calls_in_10ms)]);
        grid.rows.push(row);
    }
    grid
}

fn worst(report: &Report, width: usize) -> Option<Grid> {
    let header = ["limit", "key", "requests", "denied", "denied %"];
    let mut grid = Grid::new("Denied most", &header, 2);
    // Keys can be whole user agents: they get the rest of the width.
    let longest_spec =
        report.limiters.iter().map(|limiter| limiter.spec.chars().count()).max().unwrap_or(0);
    let longest_key = width.saturating_sub(longest_spec + 38).clamp(16, 80);
    for limiter in &report.limiters {
        for (i, key) in limiter.tally.worst.iter().enumerate() {
            let spec = if i == 0 { printable(&limiter.spec).into_owned() } else { String::new() };
            grid.rows.push(vec![
                spec,
                key_name(limiter.trace.key(key.key), longest_key),
                grouped(key.requests),
                grouped(key.denied),
                percent(key.denied, key.requests),
            ]);
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}
