//! `lockage-sim rules`: checks rules in a file, and shows what requests meet.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{ArgGroup, Args, ValueEnum};
use lockage_rules::{
    Costs, LoadError, Matched, Mistakes, Request, RuleFallback, RuleLimit, Rules, import,
};
use serde::Serialize;

use super::{CommonArgs, source_of, warn_of_other_units, write_out};
use crate::by_rules::{Log, replay_rules};
use crate::input::{Input, ReadOptions, printable};
use crate::report::by_rules;
use crate::terminal::{Progress, width};

/// Check rules in a file, or show which limits requests meet by them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lockage-sim rules rules.toml --check
  lockage-sim rules ratelimit.yaml --import envoy > rules.yaml
  lockage-sim rules rules.yaml --request \"route=/search method=GET user=42 address=192.0.2.7\"")]
#[command(group(ArgGroup::new("use").required(true).multiple(true).args(["check", "import", "requests", "samples"])))]
pub(super) struct RulesArgs {
    /// A file of rules: .toml, .yaml, .yml or .json; or one to import
    file: PathBuf,
    /// Print every mistake with its line and column, and nothing else; exit status 1 if there is one
    #[arg(long, conflicts_with_all = ["requests", "samples", "json"])]
    check: bool,
    /// Print the file of another rate limiter as rules, in YAML; a warning names each thing that cannot be said
    #[arg(long, value_enum, value_name = "FROM", conflicts_with_all = ["check", "requests", "samples", "json"])]
    import: Option<Peer>,
    /// A request as key=value pairs, repeatable: route, method, user, tenant, tier, address, header.NAME,
    /// cost.NAME or other keys; values with spaces in double quotes
    #[arg(long = "request", value_name = "PAIRS")]
    requests: Vec<String>,
    /// A file of such requests, one a line; lines that begin with # are comments; - is standard input
    #[arg(long = "requests", value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Print one JSON object a request instead of lines
    #[arg(long)]
    json: bool,
}

/// Another rate limiter.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Peer {
    /// envoyproxy/ratelimit
    Envoy,
    /// Kuadrant/limitador
    Limitador,
}

/// Checks the rules, and prints what the requests meet.
///
/// # Errors
/// If the file has mistakes, which are printed, or a request is malformed.
pub(super) fn run(args: &RulesArgs) -> Result<()> {
    if let Some(from) = args.import {
        return print_imported(&args.file, from);
    }
    let rules = load(&args.file)?;
    if args.check {
        for doubt in rules.doubts() {
            // A warning that cannot be shown is no reason to fail.
            let _ = writeln!(io::stderr(), "warning: {}", printable(&doubt));
        }
        let name = args.file.display();
        return write_out(
            format!("{name}: {}, no mistakes\n", counted(rules.len(), "rule")).as_bytes(),
        );
    }
    let mut lines = args.requests.clone();
    if let Some(file) = &args.samples {
        lines.extend(read_samples(file)?);
    }
    let mut answers = Vec::new();
    for line in &lines {
        let pairs = pairs(line).with_context(|| format!("in the request {line:?}"))?;
        let mut request = Request::new();
        for (key, value) in &pairs {
            request = request.with_text(key, value).with_context(|| format!("in {line:?}"))?;
        }
        let meets = rules.matches(&request).into_iter().map(Meets::of).collect();
        answers.push(Answer { request: line, meets });
    }
    match args.json {
        true => {
            let mut text = Vec::new();
            for answer in &answers {
                serde_json::to_writer(&mut text, answer)?;
                text.push(b'\n');
            }
            write_out(&text)
        }
        false => write_out(to_text(&answers).as_bytes()),
    }
}

/// Puts a log through the rules of a file, and prints the outcome of each.
///
/// # Errors
/// If the file has mistakes, which are printed, the log cannot be read, or a request gets no decision.
pub(super) fn replay(
    file: &Path,
    log: &Path,
    options: &ReadOptions,
    common: &CommonArgs,
) -> Result<()> {
    let rules = load(file)?;
    let mut progress = Progress::bytes(log);
    let read = Log::read(log, options, &rules, |bytes| progress.at(bytes))?;
    progress.finish();
    warn_of_other_units(&read.input.trace);
    let total = read.input.trace.requests().len() as u64;
    let (mut progress, mut done) = (Progress::decisions(total), 0);
    let tally = replay_rules(&read, &rules, common.top, || {
        done += 1;
        progress.at(done);
    })?;
    progress.finish();
    let mut text = Vec::new();
    if common.json {
        serde_json::to_writer(&mut text, &tally)?;
        text.push(b'\n');
    } else {
        let Input { trace, unparsed, reading, .. } = read.input;
        let source = source_of(log, unparsed, reading);
        by_rules::write(&tally, &source, &trace, width(), &mut text)?;
    }
    write_out(&text)
}

fn load(file: &Path) -> Result<Rules> {
    Rules::load(file).map_err(|error| match error {
        LoadError::Mistakes(mistakes) => refused(&mistakes, file),
        error => error.into(),
    })
}

fn print_imported(file: &Path, from: Peer) -> Result<()> {
    let text = read_text(file)?;
    let imported = match from {
        Peer::Envoy => import::envoy(&text),
        Peer::Limitador => import::limitador(&text),
    };
    let name = file.display().to_string();
    let imported = imported.map_err(|mistakes| refused(&mistakes.in_file(&name), file))?;
    if let Some(left_out) = imported.left_out {
        for line in left_out.in_file(&name).to_string().lines() {
            // A warning that cannot be shown is no reason to fail.
            let _ = writeln!(io::stderr(), "warning: {}", printable(line));
        }
    }
    write_out(imported.rules.as_bytes())
}

/// Prints each mistake on a line of its own, and returns their number as the error.
fn refused(mistakes: &Mistakes, file: &Path) -> anyhow::Error {
    // If standard error is gone, the exit status remains.
    let _ = writeln!(io::stderr(), "{mistakes}");
    anyhow!("{} in {}", counted(mistakes.iter().len(), "mistake"), file.display())
}

fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn read_samples(file: &Path) -> Result<Vec<String>> {
    let text = read_text(file)?;
    let lines = text.lines().map(str::trim);
    Ok(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

fn read_text(file: &Path) -> Result<String> {
    let text = match file.as_os_str() == "-" {
        true => io::read_to_string(io::stdin()),
        false => std::fs::read_to_string(file),
    };
    text.with_context(|| format!("cannot read {}", file.display()))
}

/// Returns the pairs of a line such as `route=/search agent="a b"`.
fn pairs(line: &str) -> Result<Vec<(String, String)>> {
    let (mut pairs, mut rest) = (Vec::new(), line.trim_start());
    while !rest.is_empty() {
        let end = rest.find(|next: char| next == '=' || next.is_whitespace()).unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let Some(value) = behind.strip_prefix('=').filter(|_| !key.is_empty()) else {
            bail!("expected key=value, found {key:?}");
        };
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').context("a quote that does not end")?,
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        pairs.push((key.to_owned(), value.to_owned()));
        rest = behind.trim_start();
    }
    Ok(pairs)
}

/// A request and the limits that it meets.
#[derive(Serialize)]
struct Answer<'a> {
    request: &'a str,
    meets: Vec<Meets>,
}

#[derive(Serialize)]
struct Meets {
    rule: String,
    id: String,
    limit: String,
    costs: Vec<u64>,
    shadow: bool,
    overdraft: bool,
    fallback: Option<String>,
    priority: &'static str,
}

impl Meets {
    fn of(matched: Matched) -> Self {
        let rule = &matched.rule;
        Meets {
            rule: rule.name.clone(),
            limit: match matched.limit() {
                RuleLimit::Given(limit) => limit.to_string(),
                RuleLimit::Stored(None) => "stored".to_owned(),
                RuleLimit::Stored(Some(default)) => format!("stored, or {default}"),
                RuleLimit::Blocked => "blocked".to_owned(),
            },
            costs: match &matched.costs {
                Costs::One(cost) => vec![*cost],
                Costs::Parts(costs) => costs.to_vec(),
            },
            shadow: rule.shadow,
            overdraft: rule.overdraft,
            fallback: rule.fallback.map(|fallback| match fallback {
                RuleFallback::Open => "open".to_owned(),
                RuleFallback::Closed => "closed".to_owned(),
                RuleFallback::LocalShare(shares) => format!("local-share {shares}"),
            }),
            priority: rule.priority.unwrap_or_default().name(),
            id: matched.id,
        }
    }

    /// Returns the settings that are not the usual ones.
    fn remarks(&self) -> String {
        let shadow = self.shadow.then(|| ", shadow".to_owned());
        let overdraft = self.overdraft.then(|| ", overdraft".to_owned());
        let fallback = self.fallback.as_ref().map(|fallback| format!(", fallback {fallback}"));
        let priority = (self.priority != "normal").then(|| format!(", priority {}", self.priority));
        [shadow, overdraft, fallback, priority].into_iter().flatten().collect()
    }
}

/// Returns each request with a line for each limit that it meets.
fn to_text(answers: &[Answer<'_>]) -> String {
    let mut text = String::new();
    for Answer { request, meets } in answers {
        text += &printable(request);
        text.push('\n');
        if meets.is_empty() {
            text.push_str("  no limit\n");
        }
        for one in meets {
            let costs: Vec<String> = one.costs.iter().map(u64::to_string).collect();
            let (costs, remarks) = (costs.join(" + "), one.remarks());
            let line = format!("{}: {}, {}, cost {costs}{remarks}", one.rule, one.id, one.limit);
            text.extend(["  ", &printable(&line), "\n"]);
        }
    }
    text
}
