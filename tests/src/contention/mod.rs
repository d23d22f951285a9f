//! Locks that many tasks of several processes want at once, on real servers with and without trouble: what the tasks
//! did, whether it could have been done one after another, and what it comes to.
//!
//! What the locks guard is on a server of its own that has no trouble, so that what is accepted there is kept.

// The reports are what the documents quote.
#![allow(clippy::print_stdout)]

pub mod checker;
pub mod history;
pub mod lock;
pub mod register;
pub mod report;
#[cfg(test)]
mod tests;
pub mod worker;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::Commands;
use rustix::process::{Pid, Signal, kill_process};

use crate::server::{Sentinels, Server};
use checker::linearizable;
use history::Entry;
use report::Report;
use worker::{Client, Servers, Settings};

/// What happens meanwhile, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// The server is killed and started with its keys.
    Restarted,
    /// It is killed, and started without its keys.
    Killed,
    /// It is stopped for longer than a lease.
    Paused,
    /// A process that wants and holds locks is stopped for longer than a lease.
    HolderPaused,
    /// The master is killed, and sentinels name another one.
    MasterKilled,
    /// Sentinels are told to name another one, while it goes on.
    FailedOver,
}

/// How a run is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// For how long tasks contend, at least; troubles that have begun go on to their end.
    pub duration: Duration,
    /// How many tasks each of the four processes has.
    pub tasks: usize,
    /// For how long a grant lasts.
    pub lease: Duration,
    /// How many locks there are.
    pub keys: usize,
    /// Where chance begins.
    pub seed: u64,
    /// Whether locks are taken at all.
    pub guarded: bool,
}

/// What a run has shown.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What happened meanwhile.
    pub trouble: Trouble,
    /// How often.
    pub troubles: usize,
    /// The numbers.
    pub report: Report,
    /// For each lock, why there is no order of its calls; nothing where there is one.
    pub locks: Vec<Option<String>>,
    /// The same for what they guard.
    pub values: Vec<Option<String>>,
}

impl Trouble {
    /// Whether the store keeps all that it has answered for.
    fn keeps_grants(self) -> bool {
        match self {
            Trouble::None | Trouble::Restarted | Trouble::Paused | Trouble::HolderPaused => true,
            Trouble::Killed | Trouble::MasterKilled | Trouble::FailedOver => false,
        }
    }

    fn needs_sentinels(self) -> bool {
        matches!(self, Trouble::MasterKilled | Trouble::FailedOver)
    }
}

/// Lets four processes, two of each client, contend under this trouble; `program` is the worker.
///
/// # Panics
/// Where a process cannot be run, or fails.
pub fn contend(program: &Path, plan: &Plan, trouble: Trouble) -> Outcome {
    let mut stage = Stage::new(trouble);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = |process: usize| folder.path().join(format!("{process}.jsonl"));
    let clients = [Client::RedisRs, Client::Fred, Client::RedisRs, Client::Fred];
    let start = |(process, client)| {
        let (locks, values) = (stage.servers(), stage.values.url());
        let Plan { tasks, lease, keys, seed, guarded, .. } = *plan;
        let file = file(process);
        Worker::start(
            program,
            &Settings { process, client, locks, values, keys, tasks, lease, seed, guarded, file },
        )
    };
    let workers: Vec<Worker> = clients.into_iter().enumerate().map(start).collect();
    let began = Instant::now();
    // Time to contend without trouble between two of them, a few leases at most.
    let calm = (plan.duration / 4).min(plan.lease * 2);
    let mut troubles = 0;
    loop {
        std::thread::sleep(calm);
        if trouble != Trouble::None {
            stage.make(trouble, &workers[troubles % workers.len()], plan.lease);
            troubles += 1;
        }
        if began.elapsed() + calm >= plan.duration {
            break;
        }
    }
    std::thread::sleep(calm);
    workers.into_iter().for_each(Worker::finish);
    let mut entries: Vec<Entry> =
        (0..clients.len()).flat_map(|at| history::read(&file(at))).collect();
    entries.sort_by_key(|entry| entry.invoked);
    stage.judge(trouble, troubles, plan, &entries)
}

impl Outcome {
    /// Checks what has to be so.
    ///
    /// # Panics
    /// Where it is not.
    pub fn check(&self) {
        let Outcome { trouble, report, .. } = self;
        assert!(
            report.grants > 0 && report.writes > 0,
            "{trouble:?}: nobody had a lock:\n{report}"
        );
        let orders = |of: &[Option<String>]| of.iter().flatten().next().cloned();
        // L7, in real time, and in an order of all calls that gives the same answers.
        assert_eq!(report.accepted_back, 0, "{trouble:?}, L7:\n{report}");
        assert_eq!(orders(&self.values), None, "{trouble:?}, the fenced values:\n{report}");
        // Two masters at once can grant the same token in the same microsecond, which no fence tells apart.
        let lost = if report.tokens_twice > 0 { 0 } else { report.lost_writes() };
        assert_eq!(lost, 0, "{trouble:?}, fenced writes are lost:\n{report}");
        let (writes, counted) = (report.writes, report.counted);
        assert!(counted <= writes + report.unknown_writes, "{trouble:?}:\n{report}");
        // The clock of a machine goes on, whichever server reads it.
        assert_eq!(report.tokens_back, 0, "{trouble:?}, L5:\n{report}");
        if trouble.keeps_grants() {
            assert_eq!(report.tokens_twice, 0, "{trouble:?}, L5:\n{report}");
            assert_eq!(report.overlaps, 0, "{trouble:?}, L1 and L6:\n{report}");
            assert_eq!(orders(&self.locks), None, "{trouble:?}, the locks:\n{report}");
            // What is done within the deadline is not lost, unless others were not done within theirs.
            let lost = report.lost_updates();
            assert!(
                lost == 0 || report.late_updates > 0,
                "{trouble:?}: {lost} updates lost:\n{report}"
            );
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outcome { trouble, troubles, report, locks, .. } = self;
        writeln!(f, "{trouble:?}, {troubles} times; {} entries", report.entries)?;
        let ordered = locks.iter().filter(|lock| lock.is_none()).count();
        writeln!(f, "  linearizable: {ordered} of {} locks, and the values of all", locks.len())?;
        write!(f, "{report}")
    }
}

/// The servers of a run.
struct Stage {
    one: Option<Server>,
    sentinels: Option<Sentinels>,
    values: Server,
}

impl Stage {
    fn new(trouble: Trouble) -> Self {
        let watched = trouble.needs_sentinels();
        let one = (!watched).then(Server::start);
        let sentinels = watched.then(Sentinels::start);
        Stage { one, sentinels, values: Server::start() }
    }

    fn servers(&self) -> Servers {
        match (&self.one, &self.sentinels) {
            (Some(server), _) => Servers::One(server.url()),
            (_, Some(sentinels)) => Servers::Sentinels {
                urls: sentinels.sentinel_urls(),
                service: sentinels.service_name().to_owned(),
            },
            _ => unreachable!("there are locks"),
        }
    }

    /// Makes trouble once, and waits until it is over.
    fn make(&mut self, trouble: Trouble, worker: &Worker, lease: Duration) {
        let longer = lease + lease / 2;
        match (trouble, &mut self.one, &mut self.sentinels) {
            (Trouble::Restarted, Some(server), _) => server.restart_with_keys(),
            (Trouble::Killed, Some(server), _) => {
                server.kill();
                std::thread::sleep(lease / 8);
                server.restart();
            }
            (Trouble::Paused, Some(server), _) => {
                server.freeze();
                std::thread::sleep(longer);
                server.thaw();
            }
            (Trouble::HolderPaused, ..) => {
                worker.signal(Signal::STOP);
                std::thread::sleep(longer);
                worker.signal(Signal::CONT);
            }
            (Trouble::MasterKilled, _, Some(sentinels)) => {
                let master = sentinels.master();
                sentinels.kill(master);
                sentinels.wait_for_failover();
                sentinels.restart(master);
            }
            (Trouble::FailedOver, _, Some(sentinels)) => {
                let master = sentinels.master();
                sentinels.fail_over();
                sentinels.wait_until_replica(master);
            }
            _ => unreachable!("each trouble has its servers"),
        }
    }

    fn judge(&self, trouble: Trouble, troubles: usize, plan: &Plan, entries: &[Entry]) -> Outcome {
        let (mut counted, mut updated) = (0, 0);
        let mut connection = self.values.connection();
        let (mut locks, mut values) = (Vec::new(), Vec::new());
        for (key, entries) in report::by_key(entries) {
            let record: Option<String> =
                connection.get(format!("fenced:{{{key}}}")).expect("its server is up");
            let value = record.as_deref().and_then(|record| record.split_once('='));
            counted += value.map_or(0, |(_, value)| value.parse().expect("a number was written"));
            updated +=
                connection.get::<_, Option<u64>>(key).expect("its server is up").unwrap_or(0);

            let entries: Vec<Entry> = entries.into_iter().cloned().collect();
            let (lease, answers_lost) = (plan.lease.as_nanos() as u64, trouble != Trouble::None);
            let read = lock::read(&entries, lock::Terms { lease, answers_lost });
            let order = read.and_then(|(model, calls)| {
                linearizable(&model, &calls).map_err(|why| why.to_string())
            });
            locks.push(order.err().map(|why| format!("{key}: {why}")));
            let (model, calls) = register::read(&entries);
            let order = linearizable(&model, &calls);
            values.push(order.err().map(|why| format!("{key}: {why}")));
        }
        let report = Report::new(entries, counted, updated);
        Outcome { trouble, troubles, report, locks, values }
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
