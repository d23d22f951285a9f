//! Mutation tests of the client: mutants of the texts of `client`, of the flows of `core` and of
//! `adapter-redis`, judged by simulated worlds and by tests. One copy of the workspace contains all
//! mutants and is compiled once; the environment selects the active one.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

mod copy;
mod judge;
mod living;
mod places;
mod planted;
mod runs;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;

use copy::Copy;
use judge::{Judge, Verdict};
use living::Living;
use planted::Mutant;

/// Plant mutants in a copy of the client, and find the ones that live. Each is judged by the tests and models of threads
/// that reach its place, the quick ones first, then by the worlds that do, and those of
/// `adapter-redis` by tests that start servers
#[derive(Debug, Parser)]
#[command(
    after_help = "Exit status: 0 if each mutant that lives has its reason, or is in a file that is not complete; else 1."
)]
struct Arguments {
    /// Only mutants of files whose path contains one of these texts
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Only mutants of files in which each living one has a reason
    #[arg(long)]
    complete: bool,
    /// Judge one of every N mutants
    #[arg(long, value_name = "N", default_value = "1")]
    one_in: NonZeroUsize,
    /// Skip the first N mutants
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Play at most N worlds for each mutant, half of them from seed 0 and half from 10^16
    #[arg(long, value_name = "N", default_value_t = 2000)]
    seeds: u64,
    /// Let only worlds judge, without tests
    #[arg(long)]
    worlds: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let living = Living::read()?;
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let mut copy = Copy::make(&root)?;
    let is_wanted = |it: &&Mutant| {
        let is_one = |text: &String| it.file.contains(text);
        (arguments.only.is_empty() || arguments.only.iter().any(is_one))
            && (!arguments.complete || living.complete.contains(&it.file))
    };
    let wanted = copy.mutants.iter().filter(is_wanted);
    let tried: Vec<_> = wanted.skip(arguments.skip).step_by(arguments.one_in.get()).collect();
    eprintln!("{} mutants, {} of them tried", copy.mutants.len(), tried.len());
    ensure!(!tried.is_empty(), "none of these is in such a file");
    // Its tests start servers.
    let needs_server = tried.iter().any(|mutant| judge::needs_server(mutant));
    copy.programs.retain(|program| needs_server || program.name != judge::SERVER);
    let runs = runs::all(&copy.programs, arguments.seeds, &copy.folder.join("runs.json"))?;
    eprintln!("{} tests and batches of worlds", runs.len());
    let judge = Judge::new(&copy.programs, runs);
    let verdicts = runs::in_parallel(&tried, |_, mutant| {
        let verdict = judge.verdict(mutant, !arguments.worlds)?;
        eprintln!("{verdict:?} {}:{} {}", mutant.file, mutant.line, mutant.is);
        Ok(verdict)
    });
    let verdicts = verdicts.into_iter().collect::<Result<Vec<_>>>()?;
    let judged: Vec<_> = tried.into_iter().zip(verdicts).collect();
    print!("{}", table(&judged, &living));
    let wrong = wrong(&copy.mutants, &judged, &living);
    wrong.iter().for_each(|it| eprintln!("{it}"));
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Lists the mutants that live without a reason, then all by file.
fn table(judged: &[(&Mutant, Verdict)], living: &Living) -> String {
    let mut text = String::new();
    let mut files: BTreeMap<&str, [usize; 6]> = BTreeMap::new();
    for (mutant, verdict) in judged {
        let place = match verdict {
            Verdict::KilledByTests => 1,
            Verdict::KilledByWorlds => 2,
            _ if living.excuses(mutant) => 3,
            _ => {
                text += &format!(
                    "{}:{} {verdict:?}\n  {:?},\n",
                    mutant.file,
                    mutant.line,
                    mutant.key()
                );
                if *verdict == Verdict::Lives { 4 } else { 5 }
            }
        };
        for file in [mutant.file.as_str(), "all"] {
            let counts = files.entry(file).or_default();
            counts[0] += 1;
            counts[place] += 1;
        }
    }
    text += "\n| file | mutants | killed by tests | by worlds | live with a reason | without | not reached |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|\n";
    for (file, [all, tests, worlds, excused, live, away]) in files {
        text += &format!("| {file} | {all} | {tests} | {worlds} | {excused} | {live} | {away} |\n");
    }
    text
}

/// Returns the false statements in the list of the living.
fn wrong(all: &[Mutant], judged: &[(&Mutant, Verdict)], living: &Living) -> Vec<String> {
    let unknown =
        living.unknown(all).into_iter().map(|it| format!("listed, and no mutant: {it:?}"));
    let is_alive = |verdict| matches!(verdict, Verdict::Lives | Verdict::NotReached);
    // Places with the same text have one name.
    let alive: BTreeSet<_> = judged
        .iter()
        .filter(|(_, verdict)| is_alive(*verdict))
        .map(|(mutant, _)| mutant.key())
        .collect();
    let judged = judged.iter().filter_map(|(mutant, verdict)| {
        let is_excused = living.excuses(mutant);
        match verdict {
            Verdict::Lives | Verdict::NotReached
                if !is_excused && living.complete.contains(&mutant.file) =>
            {
                Some(format!("lives without a reason: {:?}", mutant.key()))
            }
            Verdict::KilledByWorlds | Verdict::KilledByTests
                if is_excused && !alive.contains(&mutant.key()) =>
            {
                Some(format!("listed, and killed: {:?}", mutant.key()))
            }
            _ => None,
        }
    });
    unknown.chain(judged).collect()
}
