//! `lockage-sim worst`: the trace that embarrasses a limit most.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use lockage_core::Limit;
use serde::Serialize;

use crate::answers::laws;
use crate::engine::EngineKind;
use crate::input::printable;
use crate::replay::{Outcome, replay};
use crate::report::{Grid, grouped, ratio, span};
use crate::scenario::Given;
use crate::terminal::width;
use crate::trace::{Request, TraceBuilder};
use crate::worst::{Goal, Step, Worst, worst};

/// Search for the trace that embarrasses a limit most: the most admissions beyond its rate, or denials of what fits.
#[derive(Debug, Args)]
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

/// The goals, and the keys of their traces.
const GOALS: [(Goal, &str); 2] =
    [(Goal::MostAdmitted, "most-admitted"), (Goal::FalselyDenied, "falsely-denied")];

/// Searches, and prints the traces.
///
/// # Errors
/// If the limit cannot be searched, a trace cannot be decided, or the report cannot be written.
pub(super) fn run(args: &WorstArgs) -> Result<()> {
    let (limit, seed) = (&args.limit.value, args.seed);
    let mut found = Vec::new();
    for (goal, key) in GOALS {
        let worst = worst(limit, goal, seed, args.budget);
        found.push((key, worst.with_context(|| format!("limit {:?}", args.limit.text))?));
    }
    for (key, worst) in &found {
        let steps = worst.as_ref().map_or(&[][..], |worst| &worst.steps);
        decide_again(limit, args.engine, key, steps)?;
    }
    let [admitted, denied] = [0, 1].map(|i| found[i].1.as_ref());
    if let Some(path) = &args.csv {
        std::fs::write(path, csv(&found))
            .with_context(|| format!("cannot write the traces to {}", path.display()))?;
    }
    let written = match args.json {
        true => write_json(args, admitted, denied),
        false => write_tables(args, admitted, denied),
    };
    written.context("cannot write to standard output")
}

/// Decides the found traces by this engine; the search itself runs the Rust machines.
fn decide_again(limit: &Limit, engine: EngineKind, key: &str, steps: &[Step]) -> Result<()> {
    let mut builder = TraceBuilder::default();
    for step in steps {
        let key = builder.key(key);
        builder.push(Request { at: step.at, key, cost: step.cost });
    }
    let outcomes = replay(&builder.finish(), limit, &mut *engine.build()?, || ())?;
    let agree =
        |(outcome, step): (&Outcome, &Step)| (*outcome == Outcome::Admitted) == step.is_admitted;
    let all_agree = outcomes.iter().zip(steps).all(agree);
    ensure!(all_agree, "the scripts decide otherwise than the machines: {outcomes:?} of {steps:?}");
    Ok(())
}

fn csv(found: &[(&str, Option<Worst>)]) -> String {
    let mut text = "timestamp,key,cost\n".to_owned();
    for (key, worst) in found {
        for step in worst.iter().flat_map(|worst| &worst.steps) {
            let (at, cost) = (step.at.as_micros(), step.cost);
            writeln!(text, "{at},{key},{cost}").expect("a String takes all that is written");
        }
    }
    text
}

fn write_tables(
    args: &WorstArgs,
    admitted: Option<&Worst>,
    denied: Option<&Worst>,
) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let limit = &args.limit.value;
    writeln!(
        out,
        "{}: the worst of about {} traces (seed {})",
        printable(&args.limit.text),
        grouped(2 * u64::from(args.budget)),
        args.seed
    )?;
    if let Some(worst) = admitted {
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
    match denied {
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

#[derive(Serialize)]
struct Object<'a> {
    limiter: &'a str,
    laws: String,
    seed: u64,
    budget: u32,
    most_admitted: Option<WorstObject>,
    falsely_denied: Option<WorstObject>,
}

#[derive(Serialize)]
struct WorstObject {
    amount: u64,
    nominal: u64,
    bound: u64,
    window_us: u64,
    trace: Vec<StepObject>,
}

#[derive(Serialize)]
struct StepObject {
    at_us: u64,
    cost: u64,
    admitted: bool,
    in_window: u64,
}

fn write_json(
    args: &WorstArgs,
    admitted: Option<&Worst>,
    denied: Option<&Worst>,
) -> io::Result<()> {
    let step = |step: &Step| StepObject {
        at_us: step.at.as_micros(),
        cost: step.cost,
        admitted: step.is_admitted,
        in_window: step.in_window,
    };
    let object = |worst: &Worst| WorstObject {
        amount: worst.amount,
        nominal: worst.nominal,
        bound: worst.bound,
        window_us: worst.window_us,
        trace: worst.steps.iter().map(step).collect(),
    };
    let report = Object {
        limiter: &args.limit.text,
        laws: laws(&args.limit.value),
        seed: args.seed,
        budget: args.budget,
        most_admitted: admitted.map(object),
        falsely_denied: denied.map(object),
    };
    let mut out = anstream::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &report)?;
    writeln!(out)?;
    out.flush()
}
