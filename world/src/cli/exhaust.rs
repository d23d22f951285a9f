//! `lockage-world exhaust`: searches small scopes of the lock.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use comfy_table::CellAlignment;
use lockage_sim::terminal;
use serde::Serialize;

use crate::exhaustive::{Law, Outcome, Scope, Shipped, Timeline, check};

/// Search small scopes of the lock completely, and show which laws hold.
#[derive(Debug, Args)]
#[command(after_long_help = JSON)]
pub(super) struct ExhaustArgs {
    /// The small scopes, which take seconds, or the large ones too
    #[arg(long, value_enum, default_value_t = Size::Small)]
    scope: Size,
    /// Only the scope of this name
    #[arg(long, value_name = "NAME", conflicts_with = "scope")]
    only: Option<String>,
    /// Name the scopes, and search none
    #[arg(long)]
    list: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Size {
    Small,
    Large,
}

/// The help on the output of `--json`.
const JSON: &str = "\
Fields of --json:
  scopes    of each its bounds, `states`, `steps`, laws that `held` or are `broken` with their `trace`, the `overlap` of
            L11, `missing` rare steps, and whether that is `right`
  took_sec  the only field that varies from run to run";

/// The JSON of a scope. Fields that vary from run to run end in `_sec`.
#[derive(Serialize)]
struct Line<'a> {
    scope: &'a str,
    about: &'a str,
    owners: usize,
    operations: u8,
    ticks: u64,
    failovers: u8,
    states: usize,
    steps: usize,
    held: Vec<&'static str>,
    broken: Vec<Broken<'a>>,
    overlap: Option<&'a [(u64, String)]>,
    missing: &'a [&'static str],
    right: bool,
}

#[derive(Serialize)]
struct Broken<'a> {
    law: &'static str,
    statement: &'static str,
    trace: &'a [(u64, String)],
}

/// Searches, and prints the results.
///
/// # Errors
/// Returns an error if the result of a scope is not the expected one, or standard output cannot be
/// written.
pub(super) fn run(args: &ExhaustArgs) -> Result<()> {
    let scopes: Vec<Scope> = Scope::all().into_iter().filter(|scope| args.wants(scope)).collect();
    if scopes.is_empty() {
        let names: Vec<&str> = Scope::all().iter().map(|scope| scope.name).collect();
        bail!("there is no such scope; there are {}", names.join(", "));
    }
    if args.list {
        return list(&scopes).context("cannot write to standard output");
    }
    let searched: Vec<(Scope, Outcome)> = scopes
        .into_iter()
        .map(|scope| {
            let outcome = check(&scope, Arc::new(Shipped));
            (scope, outcome)
        })
        .collect();
    let written = if args.json { write_json(&searched) } else { write_table(&searched) };
    written.context("cannot write to standard output")?;
    let is_wrong = |(scope, outcome): &&(Scope, Outcome)| !outcome.is_right(scope);
    let wrong: Vec<&str> = searched.iter().filter(is_wrong).map(|(scope, _)| scope.name).collect();
    if !wrong.is_empty() {
        bail!("not as it should be: {}", wrong.join(", "));
    }
    Ok(())
}

impl ExhaustArgs {
    fn wants(&self, scope: &Scope) -> bool {
        match &self.only {
            Some(name) => scope.name == name,
            None => self.list || self.scope == Size::Large || !scope.is_large,
        }
    }
}

fn list(scopes: &[Scope]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    for scope in scopes {
        let size = if scope.is_large { " (large)" } else { "" };
        writeln!(out, "{:11} {}{size}", scope.name, scope.about)?;
    }
    out.flush()
}

fn write_table(searched: &[(Scope, Outcome)]) -> io::Result<()> {
    let mut table = terminal::table(terminal::width());
    table.set_header(["scope", "states", "steps", "seconds", "holds", "broken", "L11"]);
    for column in 1..4 {
        let column = table.column_mut(column).expect("the header has it");
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (scope, outcome) in searched {
        let broken = outcome.broken.iter().map(|(law, _)| *law);
        let overlap = match (scope.failovers, &outcome.overlap) {
            (0, _) => "-",
            (_, Some(_)) => "found",
            (_, None) => "MISSED",
        };
        table.add_row([
            scope.name.to_owned(),
            outcome.states.to_string(),
            outcome.steps.to_string(),
            format!("{:.1}", outcome.took.as_secs_f64()),
            names(outcome.held.iter().copied()).join(" "),
            names(broken).join(" "),
            overlap.to_owned(),
        ]);
    }
    let mut out = anstream::stdout().lock();
    writeln!(out, "{table}")?;
    for (scope, outcome) in searched {
        for (law, trace) in &outcome.broken {
            writeln!(out, "\n{}: {law} is broken ({})\n{trace}", scope.name, law.statement())?;
        }
        if let Some(trace) = &outcome.overlap {
            let law = Law::L11;
            writeln!(out, "\n{}: {law} ({}):\n{trace}", scope.name, law.statement())?;
        }
        for missing in &outcome.missing {
            writeln!(out, "\n{}: it never happens that {missing}", scope.name)?;
        }
    }
    out.flush()
}

fn write_json(searched: &[(Scope, Outcome)]) -> io::Result<()> {
    let lines: Vec<Line<'_>> =
        searched.iter().map(|(scope, outcome)| line(scope, outcome)).collect();
    let seconds: f64 = searched.iter().map(|(_, outcome)| outcome.took.as_secs_f64()).sum();
    let mut out = anstream::stdout().lock();
    let report = serde_json::json!({ "scopes": lines, "took_sec": seconds });
    serde_json::to_writer_pretty(&mut out, &report)?;
    writeln!(out)?;
    out.flush()
}

fn line<'a>(scope: &'a Scope, outcome: &'a Outcome) -> Line<'a> {
    let broken = |(law, trace): &'a (Law, Timeline)| Broken {
        law: law.name(),
        statement: law.statement(),
        trace: &trace.steps,
    };
    Line {
        scope: scope.name,
        about: scope.about,
        owners: scope.owners,
        operations: scope.operations,
        ticks: scope.ticks,
        failovers: scope.failovers,
        states: outcome.states,
        steps: outcome.steps,
        held: names(outcome.held.iter().copied()),
        broken: outcome.broken.iter().map(broken).collect(),
        overlap: outcome.overlap.as_ref().map(|trace| &trace.steps[..]),
        missing: &outcome.missing,
        right: outcome.is_right(scope),
    }
}

fn names(laws: impl Iterator<Item = Law>) -> Vec<&'static str> {
    laws.map(Law::name).collect()
}
