//! `lockage-world client`: a campaign over worlds of the shipped client.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use lockage_sim::terminal::Progress;
use serde_json::{Map, Value, json};

use crate::shipped::{Failure, Plan, Rare, Results, campaign, run};

/// Search for faults in the shipped client: programs on its public API, in virtual time, one world per seed
#[derive(Debug, Args)]
pub(super) struct ClientArgs {
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
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// A campaign of so many worlds comes to all rare states.
const ENOUGH_WORLDS: u64 = 5000;

/// Runs a campaign and prints its results; returns whether nothing failed.
pub(super) fn client(args: &ClientArgs) -> Result<bool> {
    let ClientArgs { seeds, start, timeline, json } = *args;
    let mut out = anstream::stdout().lock();
    if timeline {
        let plan = Plan::of(start);
        let outcome = run(&plan, true);
        write!(out, "{plan}")?;
        outcome.timeline.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if let Some(violation) = &outcome.violation {
            writeln!(out, "\nit does not hold that {}: {}", violation.kind, violation.what)?;
        }
        return Ok(outcome.violation.is_none());
    }
    // A panic is a failure of its world, and shown with that.
    std::panic::set_hook(Box::new(|_| ()));
    let progress = Progress::worlds(seeds);
    let since = Instant::now();
    let results = campaign(start, seeds, |done| progress.share(done));
    let elapsed = since.elapsed();
    progress.finish();
    let written = match json {
        true => write_json(&mut out, args, &results, elapsed),
        false => write_text(&mut out, args, &results, elapsed),
    };
    written.and_then(|()| out.flush()).context("cannot write to standard output")?;
    Ok(results.failed.is_empty() && unseen(args, &results).is_empty())
}

/// Returns the rare states that a campaign of this length should have met, and has not.
fn unseen(args: &ClientArgs, results: &Results) -> Vec<Rare> {
    if args.seeds >= ENOUGH_WORLDS { results.rare.never() } else { Vec::new() }
}

fn write_text(
    out: &mut impl Write,
    args: &ClientArgs,
    results: &Results,
    elapsed: Duration,
) -> io::Result<()> {
    if let Some(Failure { seed, violation, plan, timeline }) = &results.first {
        writeln!(out, "seed {seed}: it does not hold that {}", violation.kind)?;
        writeln!(
            out,
            "{}\n\nThe smallest world found in which it does not:\n{plan}",
            violation.what
        )?;
        timeline.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out, "\nAgain: lockage-world client --start {seed} --seeds 1\n")?;
    }
    write!(out, "{}", results.rare)?;
    for rare in unseen(args, results) {
        writeln!(out, "error: it never came about that {}", rare.words())?;
    }
    let (seconds, ClientArgs { seeds, start, .. }) = (elapsed.as_secs_f64(), args);
    writeln!(
        out,
        "{seeds} worlds from seed {start} on, {} events, {seconds:.1} s ({:.0} worlds a second): {} failed",
        results.events,
        *seeds as f64 / seconds,
        results.failed.len()
    )
}

fn write_json(
    out: &mut impl Write,
    args: &ClientArgs,
    results: &Results,
    elapsed: Duration,
) -> io::Result<()> {
    let first = results.first.as_ref().map(|failure| {
        json!({
            "seed": failure.seed,
            "statement": failure.violation.kind.to_string(),
            "what": failure.violation.what,
            "plan": failure.plan.to_string(),
            "timeline": failure.timeline.iter().map(|line| line.to_string()).collect::<Vec<_>>(),
        })
    });
    let counted = |rare: Rare| (rare.words().to_owned(), results.rare.of(rare).into());
    let rare: Map<String, Value> = Rare::ALL.iter().copied().map(counted).collect();
    let report = json!({
        "seeds": args.seeds,
        "start": args.start,
        "events": results.events,
        "failed": results.failed,
        "first": first,
        "rare": rare,
        "never": unseen(args, results).iter().map(|rare| rare.words()).collect::<Vec<_>>(),
        "elapsed_sec": elapsed.as_secs_f64(),
    });
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}
