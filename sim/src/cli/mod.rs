//! The program `lockage-sim`.

mod advise;
mod clocks;
mod compare;
mod page;
mod rules;
mod source;
mod worst;

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{ArgGroup, Args, CommandFactory, Parser, Subcommand};
use lockage_core::{Limit, parse_duration};

use crate::dates;
use crate::engine::EngineKind;
use crate::input::{self, ReadOptions, Reading, Unparsed};
use crate::report::table::Tables;
use crate::report::{self, Report, Source};
use crate::scenario::{Given, Scenario};
use crate::study::{Decider, Study};
use crate::terminal::{Progress, width};
use crate::trace::Trace;
use crate::traffic::{Shape, TrafficError};
use crate::waiting::Waiting;
use clocks::ClocksArgs;
use source::{TrafficArgs, read_scenario};

/// See how rate limits behave on real or synthetic traffic before you ship them.
#[derive(Debug, Parser)]
#[command(name = "lockage-sim", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replay(ReplayArgs),
    Explore(Box<ExploreArgs>),
    Compare(compare::CompareArgs),
    Worst(Box<worst::WorstArgs>),
    Advise(advise::AdviseArgs),
    Rules(rules::RulesArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff
    Man,
}

/// Replay an access log or a CSV through limits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lockage-sim replay access.log --limit \"token-bucket 100/min burst 20\"
  lockage-sim replay access.log --rules rules.toml
  zcat access.log.*.gz | lockage-sim replay - --by user --limit \"sliding-log 5/s\" --html report.html")]
#[command(group(ArgGroup::new("callers").args(["wait", "nodes"])))]
struct ReplayArgs {
    /// An access log of Apache, nginx or another server, JSON, logfmt, or a CSV of
    /// timestamp,key[,cost], also packed as .gz or .zst; - is standard input
    file: PathBuf,
    #[command(flatten)]
    options: ReadOptions,
    #[arg(long = "limit", value_name = "SPEC", required_unless_present = "rules", help = LIMIT)]
    limits: Vec<Given<Limit>>,
    /// A file of rules (see rules --help) instead of limits: each line is a request, whose fields have the names of the
    /// rules' keys; user, method, route and address are those of an access log, and `key` is the part of --by or --key
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["limits", "wait", "nodes", "engine", "svg", "html", "full"])]
    rules: Option<PathBuf>,
    /// The seed of jitter and clocks: one seed, one report
    #[arg(long, default_value_t = 1, requires = "callers")]
    seed: u64,
    #[command(flatten)]
    waits: WaitArgs,
    #[command(flatten)]
    clocks: ClocksArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Put synthetic traffic through limits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lockage-sim explore --traffic \"burst 200 every 30s\" --wait 10s --limit \"fixed-window 50/s\"
  lockage-sim explore --scenario sim/scenarios/api-flash-crowd.toml --full")]
#[command(group(ArgGroup::new("callers").args(["wait", "nodes"])))]
#[command(group(ArgGroup::new("requests").required(true).args(["traffic", "scenario"])))]
struct ExploreArgs {
    /// A TOML file with the limits, the traffic, waiting callers and the seed
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["traffic", "limits", "wait", "round_trip", "processes", "no_jitter", "nodes"])]
    #[arg(conflicts_with_all = TrafficArgs::NAMES)]
    scenario: Option<PathBuf>,
    /// When requests come: "constant 5/s", "poisson 5/s", "burst 50 every 10s",
    /// "on-off 100/s for 1s, 1/s for 9s", "pareto 5/s tail 1.5", "diurnal 1/s to 50/s every 1day",
    /// "ramp 1/s to 50/s over 5min", "steps 1/s for 1min, 10/s for 30s",
    /// "flash-crowd 2/s peak 200/s at 2min half-life 30s", "closed-loop 20 clients think 1s" or
    /// "boundary-attack fixed-window 10/60s", also of a composite
    #[arg(long, value_name = "SHAPE", requires = "limits")]
    traffic: Option<Given<Shape>>,
    #[arg(long = "limit", value_name = "SPEC", help = LIMIT)]
    limits: Vec<Given<Limit>>,
    #[command(flatten)]
    how: TrafficArgs,
    #[command(flatten)]
    waits: WaitArgs,
    #[command(flatten)]
    clocks: ClocksArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// How callers react to a denial.
#[derive(Debug, Args)]
struct WaitArgs {
    /// Let denied requests wait for their permits as clients do, each at most this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// The time from a question of a waiting caller to its answer
    #[arg(long, value_name = "DURATION", default_value = "0ms", requires = "wait")]
    #[arg(value_parser = parse_duration)]
    round_trip: Duration,
    /// Spread waiting callers over this many processes; those of one process and key wait in line
    #[arg(long, value_name = "N", default_value = "1", requires = "wait")]
    processes: NonZeroU32,
    /// Let processes whose callers are denied again come back exactly at `retry_after`, all at once
    #[arg(long, requires = "wait")]
    no_jitter: bool,
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// Decide by the shipped Lua scripts on a simulated store, the Rust machines, or the in-process store
    #[arg(long, value_enum, default_value_t = EngineKind::Lua)]
    engine: EngineKind,
    /// Name this many of the keys denied most per limit
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Write a chart to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the whole report to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print all tables: also against the envelope and an exact log, burstiness, fairness, and the work of the store
    #[arg(long)]
    full: bool,
    /// Print one JSON object instead of tables and timelines
    #[arg(long)]
    json: bool,
}

const LIMIT: &str = "A limit, as often as you like: \"fixed-window 10/60s\", \"sliding-log 5/s\", \
    \"sliding-window 100/min\", \"token-bucket 100/min burst 20\", \"token-bucket 8 every 2s burst 8\", \
    \"leaky-bucket 10/s queue 20\", or several together: \"sliding-log 3/7s + fixed-window 20/h\"";

/// Runs the command, and prints the report on standard output.
///
/// # Errors
/// A [`clap::Error`] if the arguments contradict each other; otherwise an error that names the thing that could not be
/// read, decided or written, and the remedy.
pub fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Replay(ReplayArgs { file, options, rules: Some(rules), common, .. }) => {
            rules::replay(&rules, &file, &options, &common)
        }
        Command::Replay(args) => {
            let study = read(&args.file, &args.options)?;
            let waiting = args.waits.waiting(args.seed);
            let clocks = args.clocks.clocks(args.seed);
            report(Study { waiting, clocks, ..study }, &args.limits, &args.common)
        }
        Command::Explore(args) => {
            let by_arguments = args.traffic.is_some();
            let (scenario, common) = args.scenario()?;
            let (study, limits) = Study::of(scenario).map_err(|error| match error {
                // The arguments ask for something impossible: they have to be corrected, like a malformed limit.
                error if by_arguments && error != TrafficError::None => {
                    let kind = ErrorKind::ValueValidation;
                    command_error("explore", kind, error.to_string()).into()
                }
                error => anyhow::Error::new(error),
            })?;
            report(study, &limits, &common)
        }
        Command::Compare(args) => compare::run(&args),
        Command::Worst(args) => worst::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "lockage-sim", &mut text);
            write_out(&text)
        }
        Command::Man => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut text)?;
            write_out(&text)
        }
    }
}

fn write_out(text: &[u8]) -> Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).context("cannot write to standard output")
}

fn report(study: Study, limits: &[Given<Limit>], common: &CommonArgs) -> Result<()> {
    let mut decisions = Decisions::of(&study, limits.len());
    let report = study.replay(limits, common.decider(), || decisions.count())?;
    decisions.finish();
    print(&report, common)
}

/// The progress of deciding.
struct Decisions {
    progress: Progress,
    done: u64,
}

impl Decisions {
    fn of(study: &Study, limits: usize) -> Decisions {
        let total = study.trace.requests().len() as u64 * limits as u64;
        Decisions { progress: Progress::decisions(total), done: 0 }
    }

    fn count(&mut self) {
        self.done += 1;
        self.progress.at(self.done);
    }

    fn finish(self) {
        self.progress.finish();
    }
}

impl CommonArgs {
    fn decider(&self) -> Decider {
        Decider { kind: self.engine, build: self.engine.builder(), top: self.top }
    }
}

impl WaitArgs {
    fn waiting(&self, seed: u64) -> Option<Waiting> {
        let (round_trip, jitter, processes) = (self.round_trip, !self.no_jitter, self.processes);
        self.wait.map(|timeout| Waiting { timeout, round_trip, jitter, processes, seed })
    }
}

fn read(file: &Path, options: &ReadOptions) -> Result<Study> {
    let mut progress = Progress::bytes(file);
    let input = input::read(file, options, |bytes| progress.at(bytes))?;
    progress.finish();
    warn_of_other_units(&input.trace);
    let source = source_of(file, input.unparsed, input.reading);
    let trace = Rc::new(input.trace);
    Ok(Study { trace, source, plans: Vec::new(), waiting: None, clocks: None })
}

fn source_of(file: &Path, unparsed: Unparsed, reading: Reading) -> Source {
    let name = match file.file_name() {
        Some(name) if name != "-" => name.to_string_lossy().into_owned(),
        _ => "standard input".to_owned(),
    };
    Source::File { name, unparsed, reading }
}

/// Warns of times that are probably in seconds or milliseconds: read as microseconds, those of this century
/// are in January 1970.
fn warn_of_other_units(trace: &Trace) {
    let Some((from, to)) = trace.span() else { return };
    if from.as_micros() < 1_000_000_000 || to.as_micros() > 5_000_000_000_000 {
        return;
    }
    let (from, to) = (dates::to_calendar(from), dates::to_calendar(to));
    // A warning that cannot be shown is no reason to fail.
    let _ = writeln!(
        io::stderr(),
        "warning: the times are {from} to {to}; whole numbers are read as microseconds, not as seconds or milliseconds"
    );
}

impl ExploreArgs {
    /// Returns the scenario of these arguments, or of the file that they name.
    fn scenario(self) -> Result<(Scenario, CommonArgs)> {
        let Some(shape) = self.traffic else {
            let file = self.scenario.expect("one of the two is required");
            return Ok((read_scenario(&file)?, self.common));
        };
        let plan = self.how.plan(shape.value);
        let waiting = self.waits.waiting(plan.seed);
        let clocks = self.clocks.clocks(plan.seed);
        let plans = vec![plan];
        let scenario = Scenario { limits: self.limits, shape: shape.text, plans, waiting, clocks };
        Ok((scenario, self.common))
    }
}

/// Returns an error about the arguments of this command, in the form of clap.
fn command_error(command: &str, kind: ErrorKind, text: String) -> clap::Error {
    let mut cli = Cli::command();
    cli.build();
    let command = cli.find_subcommand_mut(command).expect("the caller is this command");
    command.error(kind, text)
}

fn print(report: &Report, common: &CommonArgs) -> Result<()> {
    write_report(report, common).context("cannot write to standard output")?;
    if let Some(path) = &common.svg {
        write_svg(report, path)?;
    }
    if let Some(path) = &common.html {
        page::write(path, |command| report::html::of_report(report, command))?;
    }
    Ok(())
}

fn write_report(report: &Report, common: &CommonArgs) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    if common.json {
        report::json::write(report, &mut out)?;
    } else {
        let width = width();
        let tables = if common.full { Tables::Full } else { Tables::Summary };
        report::table::write(report, tables, width, &mut out)?;
        report::timeline::write(report, usize::from(width), &mut out)?;
    }
    out.flush()
}

fn write_svg(report: &Report, path: &Path) -> Result<()> {
    let chart = report::svg::to_string(report)?;
    std::fs::write(path, chart)
        .with_context(|| format!("cannot write the chart to {}", path.display()))
}
