//! `lockage-sim advise`: limits for real traffic.

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use clap::error::ErrorKind;
use lockage_core::parse_duration;

use super::{command_error, page, read};
use crate::advise::{Denies, Share, check_windows, fitting_windows, work};
use crate::input::{By, ReadOptions};
use crate::report::{AdviceReport, advice_chart, html, json};
use crate::terminal::{Progress, width};
use crate::trace::Trace;

/// Propose limits that the traffic of a log would hardly have noticed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lockage-sim advise access.log --by user --deny-clients 0.5% --rules advised.toml")]
pub(super) struct AdviseArgs {
    /// An access log of Apache, nginx or another server, JSON, logfmt, or a CSV of
    /// timestamp,key[,cost], also packed as .gz or .zst; - is standard input
    #[arg(value_name = "LOG")]
    file: PathBuf,
    #[command(flatten)]
    options: ReadOptions,
    /// Deny fewer than this share of the clients at least once; with 0% none
    #[arg(long, value_name = "SHARE", default_value = "1%")]
    deny_clients: Share,
    /// Propose limits for this window, repeatable [default: 1s, 10s, 1min and 1h, as far as the log
    /// reaches]
    #[arg(long = "window", value_name = "DURATION", value_parser = parse_duration)]
    windows: Vec<Duration>,
    /// Write the limit to deploy as a rule on trial to this new file, for replay --rules and a server
    #[arg(long, value_name = "FILE.toml")]
    rules: Option<PathBuf>,
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

/// Proposes limits, and prints the report.
///
/// # Errors
/// If the log cannot be read, the report cannot be written, or no limit is large enough.
pub(super) fn run(args: &AdviseArgs) -> Result<()> {
    check_windows(&args.windows)
        .map_err(|error| command_error("advise", ErrorKind::ValueValidation, error.to_string()))?;
    if let Some(path) = &args.rules {
        check_new(path).map_err(|why| command_error("advise", ErrorKind::ValueValidation, why))?;
    }
    let study = read(&args.file, &args.options)?;
    let is_by_address = is_by_address(&study.trace);
    let mut windows = match args.windows.is_empty() {
        true => fitting_windows(&study.trace),
        false => args.windows.clone(),
    };
    windows.sort_unstable();
    windows.dedup();
    let mut progress = Progress::clients(work(&study.trace, windows.len()));
    let mut done = 0;
    let report = study.advise(&windows, args.deny_clients, || {
        done += 1;
        progress.at(done);
    })?;
    progress.finish();
    if let Some(path) = &args.rules {
        let text = rules(&report, &args.options, is_by_address);
        let file = File::create_new(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write the rules to {}", path.display()))?;
    }
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

/// Checks that rules can be written to this file. Rules that are there may be in force.
fn check_new(path: &Path) -> Result<(), String> {
    let name = path.display();
    match path.extension() {
        _ if path.exists() => Err(format!("--rules {name} exists: name a new file")),
        Some(ending) if ending == "toml" => Ok(()),
        _ => Err(format!("--rules {name}: the rules are TOML, so name a file that ends in .toml")),
    }
}

/// Returns the limit to deploy as a file of rules.
fn rules(report: &AdviceReport, options: &ReadOptions, is_by_address: bool) -> String {
    let key = match (&options.key, options.by) {
        (Some(field), _) => field.as_str(),
        (None, By::Address) if is_by_address => "address",
        // The key of a CSV is no part of a request that has a name.
        (None, By::Address) => "key",
        (None, By::Path) => "route",
        (None, By::Referer) => "header.referer",
        (None, By::Agent) => "header.user-agent",
        (None, By::All) => "",
        (None, by) => by.name(),
    };
    let key = key.replace(['{', '}', '|', '"', '\\'], "");
    // Lines without it are one client, as the advice counts them.
    let id = match &*key {
        "" => "all".to_owned(),
        "address" | "key" => format!("{key}:{{{key}}}"),
        key => format!("{key}:{{{key}|-}}"),
    };
    let Denies { limit, clients, .. } = report.advice.deploy;
    format!(
        "# It would have denied {clients} of {} clients. On trial: without `shadow`, it is enforced.\n\
         [[rules]]\nname = \"advised\"\nid = \"{id}\"\nlimit = \"{limit}\"\nshadow = true\n",
        report.advice.clients
    )
}

/// Returns whether all keys of a trace are addresses, or networks of them.
fn is_by_address(trace: &Trace) -> bool {
    let is_address = |key: &str| {
        let address = key.split_once('/').map_or(key, |(address, _)| address);
        address.parse::<IpAddr>().is_ok()
    };
    (0..).take(trace.key_count()).all(|key| is_address(trace.key(key)))
}

fn print(report: &AdviceReport, json: bool) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    match json {
        true => json::advice::write(report, &mut out)?,
        false => report.write(width(), &mut out)?,
    }
    out.flush()
}
