//! End to end, from a caller's task to the server and back: decisions per second, processor time of
//! both sides, and latencies.

mod candidates;
mod load;
mod report;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::measure::check_part;
use crate::process::Server;
use candidates::Candidate;
use load::{Keys, Latencies, Throughput};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server's program.
    #[arg(long, default_value = "redis-server")]
    program: String,
    /// Shorter rounds: less than two minutes in all.
    #[arg(long)]
    quick: bool,
    /// The rounds of which each figure is the median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Measures only one table: throughput, latency, denied, locks or striped.
    #[arg(long, value_name = "TABLE", value_parser = ["throughput", "latency", "denied", "locks", "striped"])]
    only: Option<String>,
    /// Measures only candidates with this in their name.
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// Measures only with this many tasks.
    #[arg(long)]
    tasks: Option<usize>,
    /// Measures only with this many keys.
    #[arg(long)]
    keys: Option<usize>,
    /// The permits per key that prefetch takes at a time.
    #[arg(long, default_value_t = 1000)]
    ahead: u64,
}

/// The numbers of tasks and keys.
const TASKS: [usize; 3] = [1, 64, 512];
const KEYS: [usize; 3] = [1, 100, 100_000];
/// Requests that start per second, whether or not earlier ones have ended.
const RATES: [u64; 2] = [1_000, 5_000];

pub(super) fn run(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir().context("a folder for the server")?;
    let mut server = Server::start(Command::new(&args.program), folder, false)?;
    let version = server.info("server", "redis_version:")?.concat();
    println!(
        "redis-server {version}, one thread for all of the client; medians of {} rounds",
        args.rounds
    );
    // One thread, so that figures are per core.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (seen, tables) = (RefCell::default(), Cell::new(0));
    let bench = Bench { args, server, runtime, seen, tables };
    if bench.wants("throughput") {
        let admitted = async |url: &str| candidates::admitted(url, args.ahead).await;
        bench.throughput("Admitted", admitted, &TASKS, &KEYS)?;
    }
    if bench.wants("denied") {
        bench.throughput("Denied", candidates::denied, &[1, 512], &KEYS)?;
    }
    if bench.wants("locks") {
        bench.throughput("Locks, acquired and released", candidates::locks, &TASKS, &[100_000])?;
    }
    if bench.wants("striped") {
        let title = "Striped locks, acquired and released";
        bench.throughput(title, candidates::striped, &[64], &[1_000])?;
    }
    if bench.wants("latency") {
        bench.latency()?;
    }
    let names: Vec<&str> = bench.seen.into_inner().into_iter().collect();
    check_part(args.candidate.as_deref(), &names)?;
    ensure!(
        bench.tables.get() > 0,
        "no table has so many tasks and keys; there are {TASKS:?} tasks, and {KEYS:?} keys; denied has 1 or 512 tasks, \
         locks have 100000 keys, striped ones 64 tasks and 1000 keys"
    );
    Ok(())
}

struct Bench<'a> {
    args: &'a Args,
    server: Server,
    runtime: tokio::runtime::Runtime,
    /// The names of all candidates, and how many tables had any that is wanted.
    seen: RefCell<BTreeSet<&'static str>>,
    tables: Cell<usize>,
}

impl Bench<'_> {
    fn wants(&self, table: &str) -> bool {
        self.args.only.as_ref().is_none_or(|only| only == table)
    }

    /// Measures the throughput of candidates in turns.
    fn throughput(
        &self,
        title: &str,
        candidates: impl AsyncFn(&str) -> Result<Vec<Candidate>>,
        tasks: &[usize],
        keys: &[usize],
    ) -> Result<()> {
        let round = Duration::from_millis(if self.args.quick { 80 } else { 400 });
        let wanted = |wanted: Option<usize>, one: usize| wanted.is_none_or(|wanted| wanted == one);
        for &keys in keys.iter().filter(|&&keys| wanted(self.args.keys, keys)) {
            let ids = Keys::new(keys);
            for &tasks in tasks.iter().filter(|&&tasks| wanted(self.args.tasks, tasks)) {
                let candidates = self.fresh(&candidates)?;
                if candidates.is_empty() {
                    continue;
                }
                let mut measured: Vec<Vec<Throughput>> = vec![Vec::new(); candidates.len()];
                for candidate in candidates.iter().filter(|candidate| candidate.remembers) {
                    self.runtime.block_on(load::warm(candidate, &ids))?;
                }
                for turn in 0..=self.args.rounds {
                    for (candidate, rounds) in candidates.iter().zip(&mut measured) {
                        let load = load::closed(candidate, tasks, &ids, round, self.server.id());
                        let figures = self.runtime.block_on(load)?;
                        // The first turn warms connections, scripts and caches.
                        if turn > 0 {
                            rounds.push(figures);
                        }
                    }
                }
                let what = format!("{title}, {tasks} tasks, {keys} keys");
                println!("\n{what}\n{}", report::throughput(&candidates, &measured));
            }
        }
        Ok(())
    }

    /// Measures the latencies of candidates in turns, at the same rates.
    fn latency(&self) -> Result<()> {
        let round = Duration::from_millis(if self.args.quick { 100 } else { 1000 });
        for keys in KEYS {
            let ids = Keys::new(keys);
            for rate in RATES {
                let admitted = async |url: &str| candidates::admitted(url, self.args.ahead).await;
                let candidates = self.fresh(&admitted)?;
                if candidates.is_empty() {
                    continue;
                }
                let mut measured: Vec<Vec<Latencies>> = vec![Vec::new(); candidates.len()];
                for turn in 0..=self.args.rounds {
                    for (candidate, rounds) in candidates.iter().zip(&mut measured) {
                        let latencies =
                            self.runtime.block_on(load::open(candidate, rate, &ids, round))?;
                        if turn > 0 {
                            rounds.push(latencies);
                        }
                    }
                }
                println!(
                    "\nAt {rate} requests a second, {keys} keys: microseconds from the intended start\n{}",
                    report::latency(&candidates, &measured)
                );
            }
        }
        Ok(())
    }

    fn fresh(
        &self,
        candidates: &impl AsyncFn(&str) -> Result<Vec<Candidate>>,
    ) -> Result<Vec<Candidate>> {
        let mut all = self.runtime.block_on(candidates(&self.server.url()))?;
        self.seen.borrow_mut().extend(all.iter().map(|candidate| candidate.name));
        let wanted = |candidate: &Candidate| {
            self.args.candidate.as_ref().is_none_or(|name| candidate.name.contains(name.as_str()))
        };
        all.retain(wanted);
        self.tables.update(|tables| tables + usize::from(!all.is_empty()));
        Ok(all)
    }
}
