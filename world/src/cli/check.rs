//! `lockage-world check`: a campaign over worlds.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use lockage_sim::terminal::Progress;
use serde_json::{Map, Value, json};

use crate::simulation::{
    Campaign, Engine, Exempt, Failure, LEADERS, Plan, Rare, Results, Stage, Violation,
};

/// Search for faults: programs on the shipped client, a network, a store and clocks in virtual time, one world per seed
#[derive(Debug, Args)]
#[command(after_long_help = JSON)]
pub(super) struct CheckArgs {
    /// The number of worlds
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed; the others follow
    #[arg(long, value_name = "S", default_value_t = 0)]
    start: u64,
    /// Show the world of --start and everything that happens in it, and run no other
    #[arg(long, conflicts_with_all = ["seeds", "json"])]
    timeline: bool,
    /// Engine that decides [default: the machines, and also the scripts in one of eight worlds]
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Show in how many worlds each rare state occurred, and how many checks were skipped for each
    /// reason
    #[arg(long, conflicts_with_all = ["json", "timeline"])]
    details: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// The help on the output of `--json`.
const JSON: &str = "\
Fields of --json:
  start, seeds, engine  what ran
  events                how many there were
  failed                all seeds that failed
  first                 the first of them, shrunk: `seed`, `property`, `statement`, `what`, `plan` in words, `timeline` of
                        `at_us`, `who`, `what`, and `replay`, the command that finds it again
  rare                  in how many worlds each rare state came about
  missed                those that did not, although so many worlds make it certain: they count as a failure
  exempt                how much was not judged, by the reason
  elapsed_sec           the only field that varies from run to run

Exit status: 0 if all is well, 1 for a failure or a rare state that was missed, 2 for wrong arguments.";

/// Runs a campaign and prints its results; returns whether nothing failed.
pub(super) fn check(args: &CheckArgs) -> Result<bool> {
    let CheckArgs { seeds, start, engine, .. } = *args;
    let campaign = Campaign { start, seeds, engine };
    if args.timeline {
        return show(&campaign);
    }
    // A panic is a failure of its world, and appears in its report.
    std::panic::set_hook(Box::new(|_| ()));
    let progress = Progress::worlds(seeds);
    let since = Instant::now();
    let results = campaign.run(|done| progress.share(done))?;
    let elapsed = since.elapsed();
    progress.finish();
    let mut out = anstream::stdout().lock();
    let written = match args.json {
        true => write_json(&mut out, &campaign, &results, elapsed),
        false => write_text(&mut out, &campaign, &results, elapsed, args.details),
    };
    written.and_then(|()| out.flush()).context("cannot write to standard output")?;
    Ok(is_clean(&campaign, &results))
}

/// Prints the first world and its timeline; returns whether nothing failed in it.
fn show(campaign: &Campaign) -> Result<bool> {
    let plan = Plan::of(campaign.start);
    let outcome = Stage::new(campaign.engine)?.play(&plan, true);
    let mut out = anstream::stdout().lock();
    let mut write = || {
        writeln!(out, "{plan}")?;
        outcome.timeline.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if let Some(violation) = &outcome.violation {
            writeln!(out, "\nit breaks {violation}")?;
        }
        out.flush()
    };
    write().context("cannot write to standard output")?;
    Ok(outcome.violation.is_none())
}

fn is_clean(campaign: &Campaign, results: &Results) -> bool {
    results.failed.is_empty() && missed(campaign, results).is_empty()
}

/// Returns the states that were missed. Worlds of leaders do not reach those of others.
fn missed(campaign: &Campaign, results: &Results) -> Vec<Rare> {
    match campaign.start >= LEADERS {
        true => Vec::new(),
        false => results.rare.missed(campaign.seeds),
    }
}

fn write_text(
    out: &mut impl Write,
    campaign: &Campaign,
    results: &Results,
    elapsed: Duration,
    details: bool,
) -> io::Result<()> {
    if let Some(failure) = &results.first {
        write_failure(out, campaign, failure)?;
    }
    let Campaign { start, seeds, engine } = *campaign;
    let (seconds, failed) = (elapsed.as_secs_f64(), results.failed.len());
    let (all, never) = (Rare::ALL.len(), results.rare.never().count());
    let missed = missed(campaign, results);
    let engine = match engine {
        Some(Engine::Model) => "the machines",
        Some(Engine::Lua) => "the machines, and the scripts beside them",
        None => "the machines, in one world of eight the scripts beside them",
    };
    writeln!(out, "ran     programs on the shipped client, by {engine}")?;
    writeln!(out, "worlds  {seeds} from seed {start} on: {failed} failed")?;
    for seed in results.failed.iter().take(10) {
        writeln!(out, "failed  lockage-world check --start {seed} --seeds 1")?;
    }
    let states = format!("{} of {all} rare ones, in {} events", all - never, results.events);
    match missed.len() {
        0 => writeln!(out, "states  {states}")?,
        count => writeln!(out, "states  {states}: {count} missed, which is a failure")?,
    }
    let (exempt, reasons) = (results.exempt.all(), Exempt::ALL.len());
    writeln!(out, "exempt  {exempt} answers, spans and waits, for one of {reasons} reasons")?;
    writeln!(out, "time    {seconds:.1} s, {:.0} worlds a second", seeds as f64 / seconds)?;
    writeln!(out, "again   {campaign}")?;
    if details {
        write!(out, "{}{}", results.rare, results.exempt)?;
    }
    for rare in missed {
        let (words, one_in) = (rare.words(), rare.one_in());
        writeln!(
            out,
            "error: in none of {seeds} worlds it came about that {words}, as usual in one of {one_in}"
        )?;
    }
    Ok(())
}

fn write_failure(out: &mut impl Write, campaign: &Campaign, failure: &Failure) -> io::Result<()> {
    let Failure { seed, violation, plan, timeline } = failure;
    writeln!(out, "seed {seed} breaks {violation}")?;
    writeln!(out, "\nThe smallest world found that does:\n{plan}")?;
    timeline.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "\nAgain: {}\n", campaign.again(failure))
}

fn write_json(
    out: &mut impl Write,
    campaign: &Campaign,
    results: &Results,
    elapsed: Duration,
) -> io::Result<()> {
    let first = results.first.as_ref().map(|failure| {
        let Failure { seed, violation: Violation { kind, what }, plan, timeline } = failure;
        let lines = timeline.iter().map(
            |line| json!({ "at_us": line.at_us, "who": line.who.to_string(), "what": line.what }),
        );
        json!({
            "seed": seed,
            "property": kind.property(),
            "statement": kind.to_string(),
            "what": what,
            "plan": plan.to_string(),
            "timeline": lines.collect::<Vec<_>>(),
            "replay": campaign.again(failure).to_string(),
        })
    });
    let counted = |rare: Rare| (rare.words().to_owned(), results.rare.of(rare).into());
    let rare: Map<String, Value> = Rare::ALL.iter().copied().map(counted).collect();
    let excused = |exempt: Exempt| (exempt.words().to_owned(), results.exempt.of(exempt).into());
    let exempt: Map<String, Value> = Exempt::ALL.iter().copied().map(excused).collect();
    let report = json!({
        "start": campaign.start,
        "seeds": campaign.seeds,
        "engine": campaign.engine.map(Engine::name),
        "events": results.events,
        "failed": results.failed,
        "first": first,
        "rare": rare,
        "missed": missed(campaign, results).iter().map(|rare| rare.words()).collect::<Vec<_>>(),
        "exempt": exempt,
        "elapsed_sec": elapsed.as_secs_f64(),
    });
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::simulation::Planted;

    const CAMPAIGN: Campaign = Campaign { start: 2, seeds: 9, engine: Some(Engine::Lua) };

    /// Returns a failure of a world in which clocks are off by more than is allowed.
    fn failure() -> Failure {
        let planted = Planted { slower_ppm: 100_000, ..Planted::default() };
        let mut stage = Stage::new(None).unwrap().with_planted(planted);
        (0..100).find_map(|seed| stage.explain(&Plan::of(seed))).unwrap()
    }

    #[test]
    fn a_failure_is_shown_with_the_command_that_finds_it_again() {
        let failure = failure();
        let mut out = Vec::new();
        write_failure(&mut out, &CAMPAIGN, &failure).unwrap();
        let text = String::from_utf8(out).unwrap();
        let title = format!("seed {} breaks {}", failure.seed, failure.violation.kind.property());
        assert!(text.starts_with(&title) && text.contains(&failure.violation.what), "{text}");
        assert!(failure.timeline.iter().all(|line| text.contains(&line.to_string())));
        let command = text.trim_end().rsplit_once("Again: ").unwrap().1;
        let Command::Check(args) = Cli::parse_from(command.split(' ')).command else {
            panic!("{command}")
        };
        let found = (args.start, args.seeds, args.engine);
        assert_eq!(found, (failure.seed, 1, Some(Engine::Lua)));
    }

    #[test]
    fn a_failure_and_a_rare_state_that_is_missing_are_no_success() {
        let first = failure();
        let failed = Results { failed: vec![2], first: Some(first), ..Results::default() };
        assert!(!is_clean(&CAMPAIGN, &failed) && is_clean(&CAMPAIGN, &Results::default()));
        let long = Campaign { seeds: 1_000_000, ..CAMPAIGN };
        assert!(!is_clean(&long, &Results::default()));
        let mut out = Vec::new();
        write_json(&mut out, &long, &failed, Duration::from_secs(2)).unwrap();
        let report: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(report["failed"], json!([2]));
        assert_eq!(report["missed"].as_array().unwrap().len(), Rare::ALL.len());
        assert_eq!(report["elapsed_sec"], 2.0);
    }

    /// A state is required once the worlds are 18 times as many as it usually takes to reach it.
    #[test]
    fn a_rare_state_is_missed_where_enough_worlds_make_it_certain() {
        let written = |seeds| {
            let campaign = Campaign { seeds, ..CAMPAIGN };
            let (mut out, results) = (Vec::new(), Results::default());
            write_text(&mut out, &campaign, &results, Duration::from_secs(1), false).unwrap();
            (is_clean(&campaign, &results), String::from_utf8(out).unwrap())
        };
        let soonest = Rare::ALL.iter().map(|rare| rare.one_in()).min().unwrap();
        let (is_clean, text) = written(18 * soonest - 1);
        assert!(is_clean && !text.contains("missed") && !text.contains("error"), "{text}");
        let (is_clean, text) = written(18 * soonest);
        assert!(!is_clean && text.contains(": 0 failed\n"), "{text}");
        assert!(text.contains(" missed, which is a failure\n"), "{text}");
        assert!(text.contains(&format!("as usual in one of {soonest}\n")), "{text}");
    }
}
