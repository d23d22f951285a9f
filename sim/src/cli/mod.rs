//! The program `lockage-sim`: its arguments, and what it does with them.

mod check;
mod progress;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use lockage_core::{Limit, Timestamp, parse_duration};

use crate::dates;
use crate::engine::EngineKind;
use crate::input::{self, By, Format};
use crate::replay::{Tally, replay};
use crate::report::{self, Limiter, Report, Source};
use crate::trace::Trace;
use crate::traffic::{Plan, Shape, TrafficError};
use crate::waiting::{WaitTally, Waiting, replay_waiting};
use progress::Progress;

/// See how rate limits behave on real or made-up traffic before you ship them.
#[derive(Debug, Parser)]
#[command(name = "lockage-sim", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replay(ReplayArgs),
    Explore(ExploreArgs),
    Check(check::CheckArgs),
}

/// Put an access log or a CSV through limits.
#[derive(Debug, Args)]
struct ReplayArgs {
    /// An access log of Apache or nginx (common or combined format), or a CSV of
    /// timestamp,key[,cost]; - is standard input
    file: PathBuf,
    /// How the file is written
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// What of a log's line is the key that limits are kept per
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// What decides the waiting callers' jitter: one seed, one report
    #[arg(long, default_value_t = 1, requires = "wait")]
    seed: u64,
    #[command(flatten)]
    common: CommonArgs,
}

/// Put made-up traffic through limits.
#[derive(Debug, Args)]
struct ExploreArgs {
    /// When requests come: "constant 5/s", "poisson 5/s" or "burst 50 every 10s"
    #[arg(long, value_name = "SHAPE")]
    traffic: Given<Shape>,
    /// What decides all that is random: one seed, one trace
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For how long requests come
    #[arg(long, default_value = "10min", value_parser = parse_duration)]
    duration: Duration,
    /// Over how many keys they are spread, each equally likely
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    keys: u32,
    /// What each request costs
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    cost: u64,
    /// When the traffic begins: RFC 3339, or microseconds since 1970
    #[arg(long, value_name = "TIME", default_value = "2026-01-01T00:00:00Z")]
    #[arg(value_parser = dates::parse)]
    start: Timestamp,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// A limit, as often as you like: "fixed-window 10/60s", "sliding-log 5/s",
    /// "sliding-window 100/min", "token-bucket 100/min burst 20", "token-bucket 8 every 2s burst 8",
    /// "leaky-bucket 10/s queue 20", or several together: "sliding-log 3/7s + fixed-window 20/h"
    #[arg(long = "limit", value_name = "SPEC", required = true)]
    limits: Vec<Given<Limit>>,
    /// What decides: the shipped Lua scripts on a simulated store, or the Rust machines
    #[arg(long, value_enum, default_value_t = EngineKind::Lua)]
    engine: EngineKind,
    /// Let denied requests wait for their permits as the clients do, each at most so long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// From when a waiting caller asks the store until it has the answer
    #[arg(long, value_name = "DURATION", default_value = "0ms", requires = "wait")]
    #[arg(value_parser = parse_duration)]
    round_trip: Duration,
    /// How many of the keys that were denied most are named per limit
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Write a chart to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object instead of tables and timelines
    #[arg(long)]
    json: bool,
}

/// A value and the text that it was read from.
#[derive(Clone, Debug)]
struct Given<T> {
    text: String,
    value: T,
}

impl<T: FromStr> FromStr for Given<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Given { text: text.to_owned(), value: text.parse()? })
    }
}

/// Does what the arguments say, and prints the report on standard output. The exit status is not zero where
/// something was looked for that is not to be there, and found.
///
/// # Errors
/// A [`clap::Error`] where the arguments contradict themselves; otherwise what could not be read,
/// decided or written, in words that say what would be right.
pub fn run(cli: Cli) -> Result<ExitCode> {
    let (trace, source, seed, common) = match cli.command {
        Command::Replay(args) => {
            let (trace, source) = read(&args)?;
            (trace, source, args.seed, args.common)
        }
        Command::Explore(args) => {
            let (trace, source) = make_up(&args)?;
            (trace, source, args.seed, args.common)
        }
        Command::Check(args) => {
            let is_clean = check::check(&args)?;
            return Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    };
    let round_trip = common.round_trip;
    let waiting = common.wait.map(|timeout| Waiting { timeout, round_trip, seed });
    let limiters = replay_all(&trace, &common, waiting.as_ref())?;
    print(&Report { trace, source, engine: common.engine, waiting, limiters }, &common)?;
    Ok(ExitCode::SUCCESS)
}

fn read(args: &ReplayArgs) -> Result<(Trace, Source)> {
    let mut progress = Progress::bytes(&args.file);
    let input = input::read(&args.file, args.format, args.by, |bytes| progress.at(bytes))?;
    progress.finish();
    warn_of_other_units(&input.trace);
    let name = match args.file.file_name() {
        Some(name) if name != "-" => name.to_string_lossy().into_owned(),
        _ => "standard input".to_owned(),
    };
    let source = Source::File { name, unparsed: input.unparsed };
    Ok((input.trace, source))
}

/// Points out times that are probably in seconds or milliseconds: read as microseconds, those of
/// this century lie in January 1970, all of them in one window.
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

fn make_up(args: &ExploreArgs) -> Result<(Trace, Source)> {
    let plan = Plan {
        shape: args.traffic.value,
        start: args.start,
        duration: args.duration,
        keys: args.keys,
        cost: args.cost,
        seed: args.seed,
    };
    let trace = plan.generate().map_err(|error| match error {
        TrafficError::None => anyhow::Error::new(error),
        // What the arguments ask for cannot be: that is for the caller to mend, as a bad spec is.
        error => usage_error("explore", &error).into(),
    })?;
    Ok((trace, Source::Traffic { shape: args.traffic.text.clone(), seed: args.seed }))
}

fn usage_error(command: &str, error: &TrafficError) -> clap::Error {
    let mut cli = Cli::command();
    cli.build();
    let command = cli.find_subcommand_mut(command).expect("the caller is this command");
    command.error(ErrorKind::ValueValidation, error)
}

fn replay_all(
    trace: &Trace,
    common: &CommonArgs,
    waiting: Option<&Waiting>,
) -> Result<Vec<Limiter>> {
    let total = trace.requests().len() as u64 * common.limits.len() as u64;
    let mut progress = Progress::decisions(total);
    let mut done = 0;
    let mut count = || {
        done += 1;
        progress.at(done);
    };
    let replay_one = |Given { text, value }: &Given<Limit>| {
        // An engine each: limiters must not share keys.
        let mut engine = common.engine.build()?;
        let replayed = match waiting {
            None => replay(trace, value, &mut *engine, &mut count).map(|outcomes| (outcomes, None)),
            Some(waiting) => replay_waiting(trace, value, &mut *engine, waiting, &mut count)
                .map(|waited| (waited.outcomes(), Some(WaitTally::of(&waited)))),
        };
        let (outcomes, waits) = replayed.with_context(|| format!("--limit {text:?}"))?;
        let tally = Tally::of(trace, &outcomes, common.top);
        Ok(Limiter { spec: text.clone(), outcomes, tally, waits })
    };
    let limiters = common.limits.iter().map(replay_one).collect();
    progress.finish();
    limiters
}

fn print(report: &Report, common: &CommonArgs) -> Result<()> {
    write_report(report, common.json).context("cannot write to standard output")?;
    if let Some(path) = &common.svg {
        write_svg(report, path)?;
    }
    Ok(())
}

fn write_report(report: &Report, json: bool) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    if json {
        report::json::write(report, &mut out)?;
    } else {
        let width = width();
        report::table::write(report, width, &mut out)?;
        report::timeline::write(report, usize::from(width), &mut out)?;
    }
    out.flush()
}

fn write_svg(report: &Report, path: &Path) -> Result<()> {
    let chart = report::svg::to_string(report)?;
    std::fs::write(path, chart)
        .with_context(|| format!("cannot write the chart to {}", path.display()))
}

/// How many columns to fill: the terminal's, or what fits most pages where there is none; never
/// less than the tables need to stay readable.
fn width() -> u16 {
    terminal_size::terminal_size().map_or(100, |(width, _)| width.0.clamp(72, 200))
}
