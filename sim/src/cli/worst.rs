//! `lockage-sim worst`: the trace that embarrasses a limit most.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use lockage_core::Limit;

use crate::answers::laws;
use crate::engine::EngineKind;
use crate::input::printable;
use crate::report::{Grid, WorstReport, grouped, json, ratio, span};
use crate::scenario::Given;
use crate::study::worst_of;
use crate::terminal::width;
use crate::worst::Worst;

/// Search for the trace that embarrasses a limit most: the most admissions beyond its rate, or denials of what fits.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lockage-sim worst \"sliding-window 100/min\"")]
pub(super) struct WorstArgs {
    /// The limit, such as "sliding-window 100/min"
    #[arg(value_name = "LIMIT")]
    limit: Given<Limit>,
    /// Try about this many traces
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    budget: u32,
    /// The seed of the search: one seed, one result
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Decide the traces that are found by the shipped Lua scripts on a simulated store, the Rust machines, or the
    /// in-process store
    #[arg(long, value_enum, default_value_t = EngineKind::Lua)]
    engine: EngineKind,
    /// Write both traces to this file, one key each, for replay
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Searches, and prints the traces.
///
/// # Errors
/// If the limit cannot be searched, a trace cannot be decided, or the report cannot be written.
pub(super) fn run(args: &WorstArgs) -> Result<()> {
    let report = worst_of(args.limit.clone(), args.engine.builder(), args.seed, args.budget)?;
    if let Some(path) = &args.csv {
        std::fs::write(path, csv(&report))
            .with_context(|| format!("cannot write the traces to {}", path.display()))?;
    }
    let written = match args.json {
        true => write_json(&report),
        false => write_tables(&report, args),
    };
    written.context("cannot write to standard output")
}

fn csv(report: &WorstReport) -> String {
    let mut text = "timestamp,key,cost\n".to_owned();
    let found =
        [("most-admitted", &report.most_admitted), ("falsely-denied", &report.falsely_denied)];
    for (key, worst) in found {
        for step in worst.iter().flat_map(|worst| &worst.steps) {
            let (at, cost) = (step.at.as_micros(), step.cost);
            writeln!(text, "{at},{key},{cost}").expect("a String takes all that is written");
        }
    }
    text
}

fn write_tables(report: &WorstReport, args: &WorstArgs) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let limit = &report.limit.value;
    writeln!(
        out,
        "{}: the worst of about {} traces (seed {})",
        printable(&report.limit.text),
        grouped(2 * u64::from(report.budget)),
        report.seed
    )?;
    if let Some(worst) = &report.most_admitted {
        let Worst { amount, nominal, bound, window_us, .. } = *worst;
        let mut grid = timeline("Admits the most in one window", worst);
        grid.note = format!(
            "{} in {}, by its name {}: {}. Its envelope ({}) allows {}, of which that is {}.",
            grouped(amount),
            span(window_us),
            grouped(nominal),
            ratio(amount, nominal),
            laws(limit),
            grouped(bound),
            ratio(amount, bound)
        );
        writeln!(out, "{}", grid.to_text(width()))?;
    }
    match &report.falsely_denied {
        Some(worst) => {
            let (amount, nominal) = (grouped(worst.amount), grouped(worst.nominal));
            let mut grid = timeline("Denies what would fit", worst);
            grid.note = format!(
                "{amount} of {nominal} ({}), for which an exact log of the same capacity and rate has room.",
                ratio(worst.amount, worst.nominal)
            );
            writeln!(out, "{}", grid.to_text(width()))?;
        }
        None => writeln!(
            out,
            "\nNo trace was found in which it denies what an exact log of the same capacity and rate has room for."
        )?,
    }
    if let Some(path) = &args.csv {
        writeln!(out, "\nreplay {} --limit \"{}\" shows both.", path.display(), args.limit.text)?;
    }
    out.flush()
}

fn timeline(title: &str, worst: &Worst) -> Grid {
    let header = ["after", "a request for", "is", "in the window so far"];
    let mut grid = Grid::new(title, &header, 1);
    let Some(first) = worst.steps.first() else { return grid };
    for step in &worst.steps {
        grid.rows.push(vec![
            span(step.at.as_micros() - first.at.as_micros()),
            grouped(step.cost),
            if step.is_admitted { "admitted" } else { "denied" }.to_owned(),
            grouped(step.in_window),
        ]);
    }
    grid
}

fn write_json(report: &WorstReport) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    json::worst::write(report, &mut out)?;
    out.flush()
}
