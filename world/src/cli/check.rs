//! `lockage-world check`: a campaign over worlds.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lockage_sim::engine::EngineKind;
use lockage_sim::terminal::Progress;
use serde_json::{Map, Value, json};

use crate::simulation::campaign::{Campaign, ENOUGH_WORLDS, Failure, Results};
use crate::simulation::{Coverage, Outcome, PROPERTIES, Property, Scenario, Violation};

/// Search for faults: clients, network, store and clocks in one simulation, one world per seed
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The number of seeds, of one world each: half with a limiter, half with a lock, semaphore, read-write lock or latch
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed; the others follow
    #[arg(long, value_name = "S", default_value_t = 0)]
    start: u64,
    /// Run the one world that this file describes, as --save writes it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "start"])]
    scenario: Option<PathBuf>,
    /// Write the smallest world found of the first failure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Show the world of --start or --scenario and everything that happens in it, and run no other
    #[arg(long, conflicts_with_all = ["seeds", "json", "save", "only"])]
    timeline: bool,
    /// Search for violations of this property only
    #[arg(long, value_parser = property(), value_name = "PROPERTY", ignore_case = true)]
    only: Option<Property>,
    /// Decide by one of: the Rust machines, the shipped Lua scripts on a simulated store, the in-process store
    /// [default: the machines, and again the scripts]
    #[arg(long, value_enum)]
    engine: Option<EngineKind>,
    /// Show how often each rare state came about, too
    #[arg(long, conflicts_with_all = ["json", "timeline"])]
    details: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

fn property() -> impl TypedValueParser<Value = Property> {
    let of_name = |name: String| {
        let mut all = PROPERTIES.into_iter();
        all.find(|property| property.name().eq_ignore_ascii_case(&name)).ok_or("no property")
    };
    PossibleValuesParser::new(PROPERTIES.map(Property::name)).try_map(of_name)
}

/// Runs a campaign and prints its results; returns whether nothing failed.
pub(super) fn check(args: &CheckArgs) -> Result<bool> {
    let CheckArgs { seeds, start, only, engine, json, details, .. } = *args;
    let engines = engine.map_or(vec![EngineKind::Model, EngineKind::Lua], |engine| vec![engine]);
    let campaign = match &args.scenario {
        None => Campaign { start, seeds, only, engines, scenario: None },
        Some(path) => {
            let scenario = read(path)?;
            Campaign { start: scenario.seed, seeds: 1, only, engines, scenario: Some(scenario) }
        }
    };
    if args.timeline {
        return show(&campaign);
    }
    let progress = Progress::worlds(campaign.worlds());
    let since = Instant::now();
    let results = campaign.run(|done| progress.share(done))?;
    let elapsed = since.elapsed();
    progress.finish();
    if let (Some(path), Some((_, failure))) = (&args.save, results.failures.first()) {
        let text = serde_json::to_string_pretty(&failure.scenario)?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = anstream::stdout().lock();
    let written = match json {
        true => write_json(&mut out, &campaign, &results, elapsed),
        false => write_text(&mut out, &campaign, &results, elapsed, details),
    };
    written.and_then(|()| out.flush()).context("cannot write to standard output")?;
    Ok(is_clean(&campaign, &results))
}

/// Prints the first world and its timeline; returns whether nothing failed in it.
fn show(campaign: &Campaign) -> Result<bool> {
    let (scenario, Outcome { violation, timeline, .. }) = campaign.first()?;
    let mut out = anstream::stdout().lock();
    let mut write = || {
        writeln!(out, "{scenario}")?;
        timeline.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if let Some(Violation { property, what }) = &violation {
            writeln!(out, "\nit breaks {property}: {}\n{what}", property.statement())?;
        }
        out.flush()
    };
    write().context("cannot write to standard output")?;
    Ok(violation.is_none())
}

fn read(path: &Path) -> Result<Scenario> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    Scenario::from_json(&text).with_context(|| format!("{} is no scenario", path.display()))
}

fn is_clean(campaign: &Campaign, results: &Results) -> bool {
    results.failed.is_empty() && unseen(campaign, results).is_empty()
}

/// Returns the rare states that a campaign of this length should have met, and has not.
fn unseen(campaign: &Campaign, results: &Results) -> Vec<Coverage> {
    match campaign.seeds >= ENOUGH_WORLDS {
        true => results.rare.never(),
        false => Vec::new(),
    }
}

fn write_text(
    out: &mut impl Write,
    campaign: &Campaign,
    results: &Results,
    elapsed: Duration,
    details: bool,
) -> io::Result<()> {
    for (engine, failure) in &results.failures {
        write_failure(out, campaign, *engine, failure)?;
    }
    let (worlds, seconds) = (campaign.worlds(), elapsed.as_secs_f64());
    let engines: Vec<&str> = campaign.engines.iter().map(|engine| engine.name()).collect();
    let (all, never) = (Coverage::ALL.len(), results.rare.never().len());
    writeln!(out, "ran     clients, a network, a store and clocks, by {}", engines.join(" and "))?;
    let failed = results.failed.len();
    writeln!(out, "worlds  {worlds} from seed {} on: {failed} failed", campaign.start)?;
    writeln!(out, "states  {} of {all} rare ones, in {} events", all - never, results.events)?;
    writeln!(out, "time    {seconds:.1} s, {:.0} worlds a second", worlds as f64 / seconds)?;
    writeln!(out, "again   {}", again(campaign))?;
    if let (Some(only), 1..) = (campaign.only, results.others) {
        let others = results.others;
        writeln!(
            out,
            "{others} broke another property than {only}, and were played no further: leave --only out to see them"
        )?;
    }
    if details {
        write!(out, "{}", results.rare)?;
    }
    for rare in unseen(campaign, results) {
        writeln!(out, "error: it never came about that {}", rare.words())?;
    }
    Ok(())
}

fn write_failure(
    out: &mut impl Write,
    campaign: &Campaign,
    engine: EngineKind,
    failure: &Failure,
) -> io::Result<()> {
    let property = failure.violation.property;
    writeln!(out, "seed {} breaks {property}: {}", failure.seed, property.statement())?;
    writeln!(out, "{}", failure.violation.what)?;
    writeln!(out, "\nThe smallest world found that does:\n{}", failure.scenario)?;
    for line in &failure.timeline {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "\nAgain: {}\n", replay(campaign, engine, failure))
}

/// Returns the command that finds a failure again.
fn replay(campaign: &Campaign, engine: EngineKind, failure: &Failure) -> String {
    let engines = vec![engine];
    again(&Campaign { start: failure.seed, seeds: 1, only: None, engines, ..campaign.clone() })
}

/// Returns the command that runs all of it again.
fn again(campaign: &Campaign) -> String {
    let Campaign { start, seeds, only, engines, scenario } = campaign;
    let mut command = match scenario {
        None => format!("lockage-world check --start {start} --seeds {seeds}"),
        Some(_) => "lockage-world check --scenario FILE".to_owned(),
    };
    if let [engine] = engines[..] {
        command += &format!(" --engine {}", engine.name());
    }
    if let Some(only) = only {
        command += &format!(" --only {only}");
    }
    command
}

fn write_json(
    out: &mut impl Write,
    campaign: &Campaign,
    results: &Results,
    elapsed: Duration,
) -> io::Result<()> {
    let rare: Map<String, Value> = Coverage::ALL
        .iter()
        .map(|it| (it.words().to_owned(), results.rare.of(*it).into()))
        .collect();
    let failure = |(engine, failure): &(EngineKind, Failure)| {
        json!({
            "seed": failure.seed,
            "engine": engine.name(),
            "property": failure.violation.property.to_string(),
            "statement": failure.violation.property.statement(),
            "what": failure.violation.what,
            "scenario": failure.scenario,
            "in_words": failure.scenario.to_string(),
            "timeline": failure.timeline.iter().map(|line| json!({
                "at_us": line.at_us,
                "who": line.who.to_string(),
                "what": line.what,
            })).collect::<Vec<_>>(),
            "replay": replay(campaign, *engine, failure),
        })
    };
    let seconds = elapsed.as_secs_f64();
    let report = json!({
        "seeds": campaign.seeds,
        "start": campaign.start,
        "only": campaign.only.map(|only| only.to_string()),
        "engines": campaign.engines.iter().map(|engine| engine.name()).collect::<Vec<_>>(),
        "events": results.events,
        "rare": rare,
        "never": unseen(campaign, results).iter().map(|rare| rare.words()).collect::<Vec<_>>(),
        "failed": results.failed,
        "broke_another": results.others,
        "failures": results.failures.iter().map(failure).collect::<Vec<_>>(),
        "elapsed_sec": seconds,
        "worlds_per_sec": campaign.worlds() as f64 / seconds,
    });
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::simulation::campaign::explain;
    use crate::simulation::{Model, Scenario};

    fn campaign(seeds: u64) -> Campaign {
        let engines = vec![EngineKind::Model, EngineKind::Lua];
        Campaign { start: 2, seeds, only: None, engines, scenario: None }
    }

    /// A world in which leases end before their time.
    fn failure() -> Failure {
        explain(&Scenario { store_ppm: 100_000, ..Scenario::of(2) }, &mut Model::default()).unwrap()
    }

    #[test]
    fn a_failure_is_shown_with_the_command_that_finds_it_again() {
        let failure = failure();
        let mut out = Vec::new();
        write_failure(&mut out, &campaign(9), EngineKind::Lua, &failure).unwrap();
        let text = String::from_utf8(out).unwrap();
        let title = format!("seed 2 breaks L6: {}\n", Property::L6.statement());
        assert!(text.starts_with(&title) && text.contains(&failure.violation.what), "{text}");
        assert!(failure.timeline.iter().all(|line| text.contains(&line.to_string())));
        let command = text.trim_end().rsplit_once("Again: ").unwrap().1;
        let Command::Check(args) = Cli::parse_from(command.split(' ')).command else {
            panic!("{command}")
        };
        assert_eq!((args.start, args.seeds, args.engine), (2, 1, Some(EngineKind::Lua)));
    }

    #[test]
    fn a_failure_and_a_rare_state_that_is_missing_are_no_success() {
        let failures = vec![(EngineKind::Model, failure())];
        let failed = Results { failed: vec![2], failures, ..Results::default() };
        assert!(!is_clean(&campaign(1), &failed) && is_clean(&campaign(1), &Results::default()));
        let long = campaign(ENOUGH_WORLDS);
        assert!(!is_clean(&long, &Results::default()));
        let mut out = Vec::new();
        write_json(&mut out, &long, &failed, Duration::from_secs(2)).unwrap();
        let report: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(report["failed"], json!([2]));
        assert_eq!(report["failures"][0]["property"], "L6");
        assert_eq!(report["never"].as_array().unwrap().len(), Coverage::ALL.len());
        assert_eq!(report["elapsed_sec"], 2.0);
    }
}
