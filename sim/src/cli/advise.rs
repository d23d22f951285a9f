//! `lockage-sim advise`: limits for real traffic.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use lockage_core::{MAX_SPAN, parse_duration};

use super::{command_error, page, read};
use crate::advise::{Share, advise, work};
use crate::input::{By, Format};
use crate::report::advice::AdviceReport;
use crate::report::{Source, advice_chart, html};
use crate::terminal::{Progress, width};

/// Propose limits that the traffic of a log would hardly have noticed.
#[derive(Debug, Args)]
pub(super) struct AdviseArgs {
    /// An access log of Apache or nginx (common or combined format), or a CSV of
    /// timestamp,key[,cost]; - is standard input
    #[arg(value_name = "LOG")]
    file: PathBuf,
    /// The format of the file
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The part of a log line that is the client
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// Deny fewer than this share of the clients at least once; with 0% none
    #[arg(long, value_name = "SHARE", default_value = "1%")]
    deny_clients: Share,
    /// Propose limits for this window, repeatable [default: 1s, 10s, 1min and 1h, as far as the log
    /// reaches]
    #[arg(long = "window", value_name = "DURATION", value_parser = parse_duration)]
    windows: Vec<Duration>,
    /// Write a chart of the trade-off to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the whole report to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

const WINDOWS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(3600),
];

/// Proposes limits, and prints the report.
///
/// # Errors
/// If the log cannot be read, the report cannot be written, or no limit is large enough.
pub(super) fn run(args: &AdviseArgs) -> Result<()> {
    check_windows(&args.windows)?;
    let (trace, source) = read(&args.file, args.format, args.by)?;
    let span = trace.span().expect("input refuses to give a trace without a request");
    let mut windows = match args.windows.is_empty() {
        true => fitting(span.1.saturating_since(span.0)),
        false => args.windows.clone(),
    };
    windows.sort_unstable();
    windows.dedup();
    let mut progress = Progress::clients(work(&trace, windows.len()));
    let mut done = 0;
    let advice = advise(&trace, &windows, args.deny_clients, || {
        done += 1;
        progress.at(done);
    })?;
    progress.finish();
    let (name, unparsed) = match source {
        Source::File { name, unparsed } => (name, unparsed),
        Source::Traffic { .. } => unreachable!("it was read from a file"),
    };
    let report = AdviceReport { name, unparsed, span, share: args.deny_clients, advice };
    print(&report, args.json).context("cannot write to standard output")?;
    if let Some(path) = &args.svg {
        std::fs::write(path, advice_chart::to_string(&report)?)
            .with_context(|| format!("cannot write the chart to {}", path.display()))?;
    }
    if let Some(path) = &args.html {
        page::write(path, |command| html::of_advice(&report, command))?;
    }
    Ok(())
}

/// Returns the windows that are shorter than the log, and always the first.
fn fitting(length: Duration) -> Vec<Duration> {
    let (first, others) = (WINDOWS[0], &WINDOWS[1..]);
    let longer = others.iter().copied().filter(|window| *window <= length);
    std::iter::once(first).chain(longer).collect()
}

/// Refuses windows that no limit can have.
fn check_windows(windows: &[Duration]) -> Result<()> {
    let longest = MAX_SPAN / 2;
    let wrong = windows.iter().find(|window| window.is_zero() || **window > longest);
    let Some(wrong) = wrong else { return Ok(()) };
    let text = format!(
        "--window {wrong:?}: expected a window from 1us to {} days",
        longest.as_secs() / 86_400
    );
    Err(command_error("advise", clap::error::ErrorKind::ValueValidation, text).into())
}

fn print(report: &AdviceReport, json: bool) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    match json {
        true => report.write_json(&mut out)?,
        false => report.write(width(), &mut out)?,
    }
    out.flush()
}
