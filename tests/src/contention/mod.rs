//! Limits and locks under contention by many tasks of several processes, on real servers with and without trouble:
//! the calls of the tasks, a check that they could have been done one after another, and the totals.
//!
//! [`contend`] has tasks that add to guarded values, on a server of its own that has no trouble, so that accepted
//! writes are kept. [`serve`] has the [`programs`] of the simulated worlds.

// The documents quote the reports.
#![allow(clippy::print_stdout)]

pub mod checker;
pub mod election;
pub mod history;
pub mod lock;
pub mod programs;
pub mod register;
pub mod report;
pub mod table;
#[cfg(test)]
mod tests;
mod trouble;
pub mod worker;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lockage_world::simulation::Theme;
use redis::Commands;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use checker::linearizable;
use history::Entry;
use report::Report;
use table::Row;
use trouble::Stage;
pub use trouble::Trouble;
use worker::{Client, Settings, Workload};

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The time for which tasks contend, at least; troubles that have begun go on to their end.
    pub duration: Duration,
    /// The number of tasks of each of the four processes.
    pub tasks: usize,
    /// The duration of a grant.
    pub lease: Duration,
    /// The number of locks.
    pub keys: usize,
    /// The seed.
    pub seed: u64,
    /// Whether locks are taken at all.
    pub guarded: bool,
}

/// The results of a run of [`contend`].
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The trouble during the run.
    pub trouble: Trouble,
    /// The number of troubles.
    pub troubles: usize,
    /// The number of calls made through redis-rs and fred.
    pub calls: [u64; 2],
    /// The calls without an answer.
    pub unknown: [u64; 2],
    /// The numbers.
    pub report: Report,
    /// For each lock, the reason why its calls have no order; nothing where they have one.
    pub locks: Vec<Option<String>>,
    /// The same for the guarded values.
    pub values: Vec<Option<String>>,
}

/// Lets four processes, two of each client, contend for locks under this trouble; `program` is the worker.
///
/// # Panics
/// Where a process cannot be run, or fails.
pub fn contend(program: &Path, plan: &Plan, trouble: Trouble) -> Outcome {
    assert!(trouble.keeps_history(), "the order of calls is found from all of them");
    let played = play(program, plan, trouble, Workload::Counters);
    let (mut calls, mut unknown) = ([0; 2], [0; 2]);
    let mut entries: Vec<Entry> = Vec::new();
    for (client, file) in &played.files {
        let own: Vec<Entry> = history::read(file);
        calls[*client as usize] += own.len() as u64;
        unknown[*client as usize] +=
            own.iter().filter(|entry| entry.call.is_unknown()).count() as u64;
        entries.extend(own);
    }
    entries.sort_by_key(|entry| entry.invoked);
    let (report, locks, values) = judge(&played, plan, &entries);
    Outcome { trouble, troubles: played.troubles, calls, unknown, report, locks, values }
}

/// Lets four processes, two of each client, run programs of the simulated worlds under this trouble, and judges
/// their answers.
///
/// # Panics
/// Where a process cannot be run, fails, or does not end.
pub fn serve(program: &Path, plan: &Plan, trouble: Trouble, theme: Theme) -> Row {
    let played = play(program, plan, trouble, Workload::Programs(theme));
    programs::judge(&played, theme, plan)
}

/// A finished run, before it is judged.
struct Played {
    stage: Stage,
    trouble: Trouble,
    /// The number of troubles.
    troubles: usize,
    /// The file of each process, and the client of its calls.
    files: Vec<(Client, PathBuf)>,
    /// The folder of the files.
    folder: TempDir,
}

fn play(program: &Path, plan: &Plan, trouble: Trouble, workload: Workload) -> Played {
    let mut stage = Stage::new(trouble, workload);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut files: Vec<(Client, PathBuf)> = Vec::new();
    let mut start = |stage: &Stage, client: Client| {
        let process = files.len();
        let file = folder.path().join(format!("{process}.jsonl"));
        files.push((client, file.clone()));
        let (locks, others, values) = (stage.servers(), stage.others(), stage.values.url());
        let Plan { tasks, lease, keys, seed, guarded, .. } = *plan;
        let settings = Settings {
            process,
            client,
            locks,
            others,
            values,
            keys,
            tasks,
            lease,
            seed,
            guarded,
            workload,
            file,
        };
        Worker::start(program, &settings)
    };
    let clients = [Client::RedisRs, Client::Fred, Client::RedisRs, Client::Fred];
    let mut workers = clients.map(|client| start(&stage, client));
    let began = Instant::now();
    // Time to contend without trouble between two of them, a few leases at most.
    let calm = (plan.duration / 4).min(plan.lease * 2);
    let mut troubles = 0;
    loop {
        std::thread::sleep(calm);
        let worker = troubles % workers.len();
        if trouble == Trouble::HolderKilled {
            workers[worker].signal(Signal::KILL);
            workers[worker] = start(&stage, clients[worker]);
        } else if trouble != Trouble::None {
            stage.make(trouble, &workers[worker], plan.lease);
        }
        troubles += usize::from(trouble != Trouble::None);
        if began.elapsed() + calm >= plan.duration {
            break;
        }
    }
    std::thread::sleep(calm);
    workers.into_iter().for_each(Worker::finish);
    Played { stage, trouble, troubles, files, folder }
}

/// Returns the numbers, and for each lock and for each value why there is no order of its calls.
fn judge(
    played: &Played,
    plan: &Plan,
    entries: &[Entry],
) -> (Report, Vec<Option<String>>, Vec<Option<String>>) {
    let (mut counted, mut updated) = (0, 0);
    let mut connection = played.stage.values.connection();
    let (mut locks, mut values) = (Vec::new(), Vec::new());
    for (key, entries) in report::by_key(entries) {
        let record: Option<String> =
            connection.get(format!("fenced:{{{key}}}")).expect("its server is up");
        let value = record.as_deref().and_then(|record| record.split_once('='));
        counted += value.map_or(0, |(_, value)| value.parse().expect("a number was written"));
        updated += connection.get::<_, Option<u64>>(key).expect("its server is up").unwrap_or(0);

        let entries: Vec<Entry> = entries.into_iter().cloned().collect();
        let (lease, answers_lost) = (plan.lease.as_nanos() as u64, played.trouble != Trouble::None);
        let read = lock::read(&entries, lock::Terms { lease, answers_lost });
        let order = read
            .and_then(|(model, calls)| linearizable(&model, &calls).map_err(|why| why.to_string()));
        locks.push(order.err().map(|why| format!("{key}: {why}")));
        let (model, calls) = register::read(&entries);
        let order = linearizable(&model, &calls);
        values.push(order.err().map(|why| format!("{key}: {why}")));
    }
    (Report::new(entries, counted, updated), locks, values)
}

impl Outcome {
    /// Checks the required properties.
    ///
    /// # Panics
    /// Where one does not hold.
    pub fn check(&self) {
        let Outcome { trouble, report, .. } = self;
        assert!(
            report.grants > 0 && report.writes > 0,
            "{trouble:?}: nobody had a lock:\n{report}"
        );
        let broken = self.broken();
        assert!(broken.is_empty(), "{trouble:?}: {broken:#?}\n{report}");
    }

    /// Returns the violated properties.
    pub fn broken(&self) -> Vec<String> {
        let Outcome { trouble, report, .. } = self;
        let mut broken: Vec<String> = Vec::new();
        let mut require = |holds: bool, what: &str| {
            if !holds {
                broken.push(what.to_owned());
            }
        };
        // L7, in real time, and in an order of all calls that gives the same answers.
        require(report.accepted_back == 0, "L7");
        // Two masters at once can grant the same token in the same microsecond, and no fence distinguishes the
        // two.
        require(report.tokens_twice > 0 || report.lost_writes() == 0, "fenced writes are lost");
        let (writes, counted) = (report.writes, report.counted);
        require(counted <= writes + report.unknown_writes, "more was counted than was written");
        // The clock of a machine goes on, whichever server reads it.
        require(report.tokens_back == 0, "L5: a token is not above an earlier one");
        if trouble.keeps_grants() {
            require(report.tokens_twice == 0, "L5: two grants have one token");
            require(report.overlaps == 0, "L1 and L6");
            // An update within the deadline is not lost, unless others were late.
            let is_lost = report.lost_updates() > 0 && report.late_updates == 0;
            require(!is_lost, "updates are lost");
            broken.extend(self.locks.iter().flatten().cloned());
        }
        broken.extend(self.values.iter().flatten().cloned());
        broken
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { trouble, troubles, report, locks, .. } = self;
        writeln!(f, "{trouble:?}, {troubles} times; {} entries", report.entries)?;
        let ordered = locks.iter().filter(|lock| lock.is_none()).count();
        writeln!(f, "  linearizable: {ordered} of {} locks, and the values of all", locks.len())?;
        write!(f, "{report}")
    }
}

/// A process that contends. Its input ends with it, and it ends then.
struct Worker(Child);

impl Worker {
    fn start(program: &Path, settings: &Settings) -> Self {
        let settings = serde_json::to_string(settings).expect("settings are JSON");
        let mut command = Command::new(program);
        command.arg(settings).stdin(Stdio::piped()).stdout(Stdio::null());
        Worker(command.spawn().expect("the worker can be run"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("the worker is up");
    }

    fn finish(mut self) {
        drop(self.0.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.0.try_wait().expect("a child of this process can be waited for") {
                Some(status) => return assert!(status.success(), "a worker ended with {status}"),
                None => assert!(Instant::now() < deadline, "a worker does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
