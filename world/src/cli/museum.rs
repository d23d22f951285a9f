//! `lockage-world museum`: plays bugs that others shipped.

use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use clap::Args;
use comfy_table::{CellAlignment, ColumnConstraint};
use lockage_sim::terminal;
use serde::Serialize;

use crate::museum::{Entry, Event, Found, Played, Seen, Step, entries};

/// Play bugs that other projects shipped, and show which property finds each
#[derive(Debug, Args)]
#[command(after_long_help = JSON)]
pub(super) struct MuseumArgs {
    /// Only the entry of this name, or those of this bug number, step by step
    #[arg(value_name = "NAME|NUMBER")]
    entry: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The help on the output of `--json`.
const JSON: &str = "\
Fields of --json:
  entries  of each `bug` (null without a number), `name`, `kind`, `seen_in`, `about`, `scene`, `property`, `statement`,
           `killed`, `why`, `steps`, `trace`, and how many traces were `tried` and are `shorter`; of what is shipped here
           `control_holds`, and `control_passed` traces of `control_depth` steps";

/// The JSON of an entry.
#[derive(Serialize)]
struct Line {
    bug: Option<u8>,
    name: &'static str,
    seen_in: &'static str,
    kind: &'static str,
    about: &'static str,
    scene: &'static str,
    property: &'static str,
    statement: &'static str,
    killed: bool,
    why: Option<String>,
    steps: usize,
    /// The number of traces tried before the shown one.
    tried: usize,
    /// The number of shorter traces, none of which breaks the property; null for a given trace.
    shorter: Option<usize>,
    given_because: Option<&'static str>,
    trace: Vec<Moment>,
    control_holds: bool,
    control_passed: usize,
    control_depth: usize,
    control_broken: Option<ControlBroken>,
}

#[derive(Serialize)]
struct Moment {
    at_us: u64,
    step: String,
    seen: String,
    shipped: Option<String>,
}

#[derive(Serialize)]
struct ControlBroken {
    trace: Vec<String>,
    why: String,
}

/// Plays entries, and prints the results.
///
/// # Errors
/// Returns an error if there is no such entry, if one is not killed, if the shipped counterpart
/// breaks a property, or if standard output cannot be written.
pub(super) fn run(args: &MuseumArgs) -> Result<()> {
    let entries: Vec<Entry> = entries().into_iter().filter(|entry| args.wants(entry)).collect();
    if entries.is_empty() {
        let names: Vec<&str> = crate::museum::entries().iter().map(|entry| entry.name).collect();
        bail!("there is no such entry; there are {}", names.join(", "));
    }
    let play = |entry: Entry| {
        let played = entry.play();
        (entry, played)
    };
    let all: Vec<(Entry, Played)> = entries.into_iter().map(play).collect();
    let written = match (args.json, &args.entry) {
        (true, _) => write_json(&all),
        (false, None) => write_table(&all),
        (false, Some(_)) => all.iter().try_for_each(|(entry, played)| write_story(entry, played)),
    };
    written.context("cannot write to standard output")?;
    let wrong = all.iter().filter(|(_, played)| !played.is_right());
    let wrong: Vec<&str> = wrong.map(|(entry, _)| entry.name).collect();
    if !wrong.is_empty() {
        bail!("not as it should be: {}", wrong.join(", "));
    }
    Ok(())
}

impl MuseumArgs {
    fn wants(&self, entry: &Entry) -> bool {
        let Some(wanted) = &self.entry else { return true };
        wanted == entry.name || entry.bug.is_some_and(|bug| wanted.parse() == Ok(bug))
    }
}

fn write_table(all: &[(Entry, Played)]) -> io::Result<()> {
    let mut table = terminal::table(terminal::width());
    table.set_header(["bug", "name", "what", "seen in", "property", "steps", "tried"]);
    for column in [0, 5, 6] {
        let column = table.column_mut(column).expect("the header has it");
        column.set_cell_alignment(CellAlignment::Right);
    }
    // Names stay whole, so that they can be copied.
    let names = table.column_mut(1).expect("the header has it");
    names.set_constraint(ColumnConstraint::ContentWidth);
    for (entry, played) in all {
        let lives = if played.is_killed() { "" } else { " LIVES" };
        let tried = match played.found {
            Found::Minimal { .. } => played.tried.to_string(),
            Found::Given { .. } => "given".to_owned(),
        };
        table.add_row([
            entry.bug.map(|bug| bug.to_string()).unwrap_or_default(),
            entry.name.to_owned(),
            entry.kind.name().to_owned(),
            entry.seen_in.to_owned(),
            format!("{}{lives}", entry.property),
            played.trace.len().to_string(),
            tried,
        ]);
    }
    let count = |is_so: fn(&Played) -> bool| all.iter().filter(|(_, one)| is_so(one)).count();
    let passed: usize = all.iter().map(|(_, played)| played.control_passed).sum();
    let (killed, held) = (count(Played::is_killed), count(Played::control_holds));
    let mut out = anstream::stdout().lock();
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "{killed} of {} are killed. What is shipped here passes in {held}: {passed} traces.",
        all.len()
    )?;
    for (entry, played) in all {
        if let Some((trace, why)) = &played.control_broken {
            write_control(&mut out, entry, trace, why)?;
        }
    }
    out.flush()
}

/// Prints one entry, step by step.
fn write_story(entry: &Entry, played: &Played) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let bug = entry.bug.map_or("no number".to_owned(), |bug| format!("bug {bug}"));
    let (kind, seen_in) = (entry.kind.name(), entry.seen_in);
    writeln!(out, "{} ({bug}, a {kind}, seen in {seen_in})", entry.name)?;
    writeln!(out, "{}", wrapped(entry.about))?;
    writeln!(out, "Here: {}.\n", entry.scene)?;
    let property = entry.property;
    writeln!(out, "{}", wrapped(&format!("{property}: {}", property.statement())))?;
    match &played.why {
        Some(why) => writeln!(out, "broken: {why}")?,
        None => writeln!(out, "NOT BROKEN by any trace")?,
    }
    let mut table = terminal::table(terminal::width());
    table.set_header(["at", "what happens", "with the bug", "as shipped here"]);
    for moment in moments(played) {
        let at = format!("{}.{:06} s", moment.at_us / 1_000_000, moment.at_us % 1_000_000);
        table.add_row([at, moment.step, moment.seen, moment.shipped.unwrap_or_default()]);
    }
    writeln!(out, "{table}")?;
    match played.found {
        Found::Minimal { shorter: 0 } => writeln!(out, "Minimal: no trace is shorter.")?,
        Found::Minimal { shorter } => {
            writeln!(out, "Minimal: all {shorter} shorter traces were tried, and break nothing.")?;
        }
        Found::Given { because } => writeln!(out, "Given, not searched: {because}.")?,
    }
    match &played.control_broken {
        None => {
            let traces = match played.control_passed {
                1 => "this trace".to_owned(),
                count => format!("all {count} traces of up to {} steps", played.control_depth),
            };
            writeln!(out, "What is shipped here passes {traces}.\n")?;
        }
        Some((trace, why)) => write_control(&mut out, entry, trace, why)?,
    }
    out.flush()
}

/// Prints a shipped counterpart that breaks the property too: it or the judge is wrong.
fn write_control(out: &mut impl Write, entry: &Entry, trace: &[Step], why: &str) -> io::Result<()> {
    writeln!(out, "\nWHAT IS SHIPPED BREAKS {} ({}): {why}", entry.property, entry.name)?;
    trace.iter().try_for_each(|step| writeln!(out, "  {step}"))
}

fn write_json(all: &[(Entry, Played)]) -> io::Result<()> {
    let lines: Vec<Line> = all.iter().map(|(entry, played)| line(entry, played)).collect();
    let mut out = anstream::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &serde_json::json!({ "entries": lines }))?;
    writeln!(out)?;
    out.flush()
}

fn line(entry: &Entry, played: &Played) -> Line {
    let (shorter, given_because) = match played.found {
        Found::Minimal { shorter } => (Some(shorter), None),
        Found::Given { because } => (None, Some(because)),
    };
    let control_broken = played.control_broken.as_ref().map(|(trace, why)| ControlBroken {
        trace: trace.iter().map(ToString::to_string).collect(),
        why: why.clone(),
    });
    Line {
        bug: entry.bug,
        name: entry.name,
        seen_in: entry.seen_in,
        kind: entry.kind.name(),
        about: entry.about,
        scene: entry.scene,
        property: entry.property.name(),
        statement: entry.property.statement(),
        killed: played.is_killed(),
        why: played.why.clone(),
        steps: played.trace.len(),
        tried: played.tried,
        shorter,
        given_because,
        trace: moments(played).collect(),
        control_holds: played.control_holds(),
        control_passed: played.control_passed,
        control_depth: played.control_depth,
        control_broken,
    }
}

fn moments(played: &Played) -> impl Iterator<Item = Moment> {
    played.trace.iter().enumerate().map(|(at, Event { at_us, step, seen })| Moment {
        at_us: *at_us,
        step: step.to_string(),
        seen: seen.to_string(),
        shipped: played.shipped.get(at).map(Seen::to_string),
    })
}

/// Wraps a text to the width.
fn wrapped(text: &str) -> String {
    let width = usize::from(terminal::width());
    let (mut lines, mut len) = (String::new(), 0);
    for word in text.split(' ') {
        let fits = len + 1 + word.len() <= width;
        if len > 0 {
            lines.push(if fits { ' ' } else { '\n' });
        }
        len = if fits { len + 1 + word.len() } else { word.len() };
        lines.push_str(word);
    }
    lines
}
