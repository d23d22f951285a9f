//! Peers on Redis and in process in one table: their costs, and their errors.

mod list;
mod published;
mod servers;
mod wrong;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::in_process;
use crate::measure::Rounds;
use crate::server::cases::{Case, own};
use list::Peer;
use servers::{Cost, Servers};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// The server's program.
    #[arg(long, default_value = "redis-server")]
    program: String,
    /// A folder with clones of the peers' repositories, whose addresses are in `bench/peers.json`.
    #[arg(long, value_name = "DIR")]
    scripts: PathBuf,
}

/// The rows of lockage, each with its two outcomes. Its peers follow it.
const OWN: [(&str, [&str; 2]); 6] = [
    ("token bucket", ["admitted", "denied"]),
    ("interval bucket", ["admitted", "denied"]),
    ("fixed window", ["admitted", "denied"]),
    ("sliding window", ["admitted", "denied"]),
    ("sliding log", ["admitted", "denied"]),
    ("lock", ["acquired and released", "refused"]),
];

const HEAD: &str = "\
Each decision is admitted, or denied; of a lock, acquired and released, or refused. Decisions a second are those of a
core of the server, or of a thread in process. Bytes are those of all keys of one limit, at the end of a round; in
process, of one of 1,000,000 keys. Before `museum` stand the [properties](../properties.md) that the script, as
published, breaks in the museum's trial; after it, the entries of `lockage-world museum` that were seen in the project,
also in older versions.

| | instructions | denied | of lockage's | denied | a second | denied | bytes | gets wrong |
|---|---:|---:|---:|---:|---:|---:|---:|---|";

pub(super) fn run(args: &Args) -> Result<()> {
    let (mut peers, mut absent) = (Vec::new(), Vec::new());
    for peer in Peer::all()? {
        match peer.read(&args.scripts) {
            Ok(scripts) => peers.push((peer, scripts)),
            Err(error) => absent.push(format!("{}: {error}", peer.name)),
        }
    }
    let is_any = peers.iter().any(|(peer, _)| peer.repository.is_some());
    ensure!(is_any, "no peer has its scripts:\n{}", absent.join("\n"));
    absent.iter().for_each(|absent| eprintln!("left out: {absent}"));

    let mut servers = Servers::start(&args.program, args.rounds.rounds)?;
    println!(
        "redis-server {}, medians of {} rounds.\n\n{HEAD}",
        servers.version()?,
        args.rounds.rounds
    );
    let mut notes = Vec::new();
    for (name, outcomes) in OWN {
        let mut ours = Vec::new();
        let is_it = |case: &Case| case.name == name && outcomes.contains(&case.outcome);
        for case in own().into_iter().filter(is_it) {
            ours.push(servers.measure(&case)?);
        }
        row(&format!("**lockage, {name}**"), &ours, &ours, "");
        for (peer, scripts) in peers.iter().filter(|(peer, _)| peer.beside == name) {
            let mut costs = Vec::new();
            for outcome in outcomes {
                let case = servers.case(peer, scripts, outcome)?;
                costs.push(servers.measure(&case)?);
            }
            let (wrong, traces) = wrong::of(peer, scripts);
            row(peer.name, &costs, &ours, &wrong);
            notes.extend(traces);
        }
    }
    for (name, rates, bytes) in in_process::beside_governor(&args.rounds)? {
        let costs = rates.map(|per_second| Cost { instructions: None, per_second, bytes });
        match name {
            "lockage" => row("**lockage, in process**", &costs, &[], ""),
            other => {
                row(other, &costs, &[], &format!("not tried; {}", wrong::reported(other, false)))
            }
        }
    }
    println!("\nThe shortest traces:\n");
    notes.iter().for_each(|note| println!("- {note}"));
    println!("\nThe scripts:\n");
    peers.iter().for_each(|(peer, scripts)| println!("- {}", peer.published(scripts)));
    absent.iter().for_each(|absent| println!("- **left out**: {absent}"));
    Ok(())
}

/// Prints a row, with ratios to the costs of lockage's own.
fn row(name: &str, costs: &[Cost], ours: &[Cost], wrong: &str) {
    let none = || "-".to_owned();
    let counted = |cost: &Cost| cost.instructions.map_or_else(none, |count| format!("{count:.0}"));
    let ratio = |at: usize| {
        let counts = (costs[at].instructions, ours.get(at).and_then(|ours| ours.instructions));
        if let (Some(count), Some(ours)) = counts { format!("{:.2}", count / ours) } else { none() }
    };
    let rate = |cost: &Cost| format!("{:.0}", cost.per_second);
    let [admitted, denied] = [&costs[0], &costs[1]];
    let cells = [
        name.to_owned(),
        counted(admitted),
        counted(denied),
        ratio(0),
        ratio(1),
        rate(admitted),
        rate(denied),
        format!("{:.0}", admitted.bytes),
        wrong.to_owned(),
    ];
    println!("| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_peer_is_beside_a_row_of_lockage() {
        for peer in Peer::all().expect("the file is as it should be") {
            assert!(OWN.iter().any(|(name, _)| *name == peer.beside), "{peer:?}");
        }
    }

    #[test]
    fn a_folder_without_scripts_is_refused_with_the_clone_command() {
        let rounds = Rounds { rounds: 1, millis: 1 };
        let (program, scripts) = ("no-such-server".to_owned(), PathBuf::from("no-such-folder"));
        let refused = run(&Args { rounds, program, scripts }).expect_err("there is none");
        let right = "there is no no-such-folder/redis_rate/lua.go: `git clone https://github.com/go-redis/redis_rate`";
        assert!(refused.to_string().contains(right), "{refused}");
    }

    /// D2, and nothing else: the waits of GCRA as redis-cell has it are whole seconds.
    #[test]
    fn errors_of_our_own_script_are_found() {
        let peers = Peer::all().expect("the file is as it should be");
        let cell = peers.iter().find(|peer| peer.repository.is_none()).expect("it is ours");
        let scripts = cell.read(Path::new("")).expect("it is in this repository");
        let (wrong, traces) = wrong::of(cell, &scripts);
        assert_eq!(wrong, "D2; museum: D2 `retry-after-rounded-down`");
        assert!(traces[0].contains("a microsecond sooner it is admitted too"), "{traces:?}");
    }
}
