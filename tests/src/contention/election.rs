//! Candidates of several processes on a real server: how long nobody leads after a fault, and whether two lead at once.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockage::fenced::{self, Fenced};
use lockage::locks::{LockHandle, Watch};
use lockage::notifications::Notifications;
use lockage::runtime::Tokio;
use lockage::{Locks, RetryStore};
use lockage_redis_rs::RedisStore;
use redis::Client as RedisClient;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::Worker;
use super::history::{self, Log};
use super::worker::{Client, Servers, Settings, Workload};
use crate::server::{Proxy, Server, VirtualClock};

/// The fault of a leader, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process is killed (SIGKILL), and another one begins.
    Killed,
    /// Its process is stopped (SIGSTOP) until another one leads.
    Stopped,
    /// Its way to the server of the lock is cut until another one leads. The value is within its reach.
    CutOff,
    /// The server's clock is set ahead by five leases.
    ClockAhead,
    /// The server's clock is set back by five leases, and the leader is killed.
    ClockBack,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Killed => "leader killed (SIGKILL)",
            Fault::Stopped => "leader stopped (SIGSTOP)",
            Fault::CutOff => "leader cut off from the lock",
            Fault::ClockAhead => "server's clock set ahead",
            Fault::ClockBack => "server's clock set back, leader killed",
        })
    }
}

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The fault.
    pub fault: Fault,
    /// How often it happens.
    pub times: usize,
    /// The duration of a grant.
    pub lease: Duration,
    /// The poll of candidates.
    pub poll: Duration,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    plan: Plan,
    /// From the last write of a leader that had a fault to the first write of the next leader, in order of length.
    pub without: Vec<Duration>,
    /// The accepted writes of all leaders.
    pub writes: usize,
    /// Writes that began after the first one of a later leader: the fence has refused these.
    pub refused: usize,
    /// And these it has accepted: two led at once.
    pub violations: Vec<String>,
}

/// One write of a leader to the value that its token guards.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    process: usize,
    token: u64,
    begun: u64,
    ended: u64,
    is_accepted: Option<bool>,
}

const CANDIDATES: usize = 3;

/// The time for a change of the leader.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs three candidates, each a process, under this fault; `program` is the worker. Returns `None` if there is no
/// server whose clock can be set.
///
/// # Panics
/// Where a process cannot be run, or no candidate leads within a minute.
pub fn elect(program: &Path, plan: &Plan) -> Option<Outcome> {
    let mut stage = Stage::new(program, plan)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut watch = stage.reader().watch(Duration::from_millis(5));
        let (mut token, mut leader) = next(&mut watch, 0).await;
        let chance = &mut fastrand::Rng::with_seed(7);
        for _ in 0..plan.times {
            // The fault comes at any time between two renewals.
            let pause = plan.lease + plan.lease.mul_f64(chance.f64() / 3.0);
            tokio::time::sleep(pause).await;
            stage.begin(leader);
            (token, leader) = next(&mut watch, token).await;
            stage.end();
        }
        // The last one writes too.
        tokio::time::sleep(plan.lease).await;
    });
    Some(stage.finish())
}

/// Waits for a leader whose token is another one; returns its token and process.
async fn next(watch: &mut Watch<RedisStore, Tokio>, before: u64) -> (u64, usize) {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < DEADLINE, "nobody leads after {before}");
        let seen = tokio::time::timeout(DEADLINE, watch.changed()).await;
        let Ok(Ok(seen)) = seen else { continue };
        if let (Some(token), Some(label)) = (seen.token(), seen.inspection.label)
            && token != before
        {
            return (token, label.as_str().parse().expect("a number of a process"));
        }
    }
}

struct Stage {
    program: PathBuf,
    plan: Plan,
    clock: Option<Clock>,
    server: Server,
    values: Server,
    /// The way of each candidate to the server of the lock.
    proxies: Vec<Proxy>,
    workers: Vec<Worker>,
    files: Vec<PathBuf>,
    folder: TempDir,
    /// The leader that has the fault, and the times of all.
    struck: usize,
    struck_at: Vec<u64>,
}

impl Stage {
    fn new(program: &Path, plan: &Plan) -> Option<Self> {
        let is_of_clock = matches!(plan.fault, Fault::ClockAhead | Fault::ClockBack);
        let clock = is_of_clock.then(Clock::start);
        let server = match &clock {
            Some(clock) => Server::with_clock(&clock.clock)?,
            None => Server::start(),
        };
        let proxies = (0..CANDIDATES).map(|_| Proxy::start(server.port())).collect();
        let mut stage = Stage {
            program: program.to_owned(),
            plan: *plan,
            clock,
            server,
            values: Server::start(),
            proxies,
            workers: Vec::new(),
            files: Vec::new(),
            folder: tempfile::tempdir().expect("a temporary folder can be made"),
            struck: 0,
            struck_at: Vec::new(),
        };
        for process in 0..CANDIDATES {
            let worker = stage.candidate(process);
            stage.workers.push(worker);
        }
        Some(stage)
    }

    /// Starts a candidate. Some call through each client.
    fn candidate(&mut self, process: usize) -> Worker {
        let file = self.folder.path().join(format!("{}.jsonl", self.files.len()));
        self.files.push(file.clone());
        let clients = [Client::RedisRs, Client::Fred];
        let settings = Settings {
            process,
            client: clients[process % clients.len()],
            locks: Servers::One(self.proxies[process].url()),
            others: Vec::new(),
            values: self.values.url(),
            keys: 1,
            tasks: 1,
            lease: self.plan.lease,
            seed: 0,
            guarded: true,
            workload: Workload::Lead { poll: self.plan.poll },
            file,
        };
        Worker::start(&self.program, &settings)
    }

    fn reader(&self) -> LockHandle<RedisStore, Tokio> {
        let store = RedisStore::connect(RedisClient::open(self.server.url()).expect("a URL"));
        let store = RetryStore::new(store, Tokio, self.plan.lease / 4);
        Locks::new(store, self.plan.lease).expect("a lease").lock("seat").expect("a name")
    }

    fn begin(&mut self, leader: usize) {
        self.struck = leader;
        self.struck_at.push(history::now());
        let jump = 5 * self.plan.lease.as_micros() as i64; // some seconds
        match self.plan.fault {
            Fault::Killed => self.kill(leader),
            Fault::Stopped => self.workers[leader].signal(Signal::STOP),
            Fault::CutOff => self.proxies[leader].black_hole(true),
            Fault::ClockAhead => self.clock().set(jump),
            Fault::ClockBack => {
                self.clock().set(-jump);
                self.kill(leader);
            }
        }
    }

    fn kill(&mut self, leader: usize) {
        self.workers[leader].signal(Signal::KILL);
        self.workers[leader] = self.candidate(leader);
    }

    fn end(&mut self) {
        match self.plan.fault {
            Fault::Stopped => self.workers[self.struck].signal(Signal::CONT),
            Fault::CutOff => self.proxies[self.struck].black_hole(false),
            Fault::Killed | Fault::ClockAhead | Fault::ClockBack => {}
        }
    }

    fn clock(&self) -> &Clock {
        self.clock.as_ref().expect("its faults have a clock")
    }

    fn finish(self) -> Outcome {
        self.workers.into_iter().for_each(Worker::finish);
        let mut lines: Vec<Line> = self.files.iter().flat_map(|file| history::read(file)).collect();
        lines.sort_by_key(|line| line.ended);
        Outcome::new(self.plan, &lines, &self.struck_at)
    }
}

impl Outcome {
    fn new(plan: Plan, lines: &[Line], struck_at: &[u64]) -> Self {
        let accepted: Vec<&Line> =
            lines.iter().filter(|line| line.is_accepted == Some(true)).collect();
        let mut without: Vec<Duration> = struck_at
            .iter()
            .map(|at| {
                // A leader that is cut off goes on until its own deadline, which is in time.
                let before = accepted.iter().rfind(|line| line.ended < *at).expect("one led");
                let after = accepted.iter().find(|line| line.token > before.token);
                let after = after.expect("another one leads");
                let last = accepted.iter().rfind(|line| line.token == before.token);
                let last = last.expect("it is one of them").ended;
                Duration::from_nanos(after.ended.saturating_sub(last))
            })
            .collect();
        without.sort();
        let (mut refused, mut violations) = (0, Vec::new());
        for line in lines {
            let later = accepted.iter().find(|it| it.token > line.token && it.ended < line.begun);
            match (later, line.is_accepted) {
                (Some(later), Some(true)) => violations.push(format!("{line:?} after {later:?}")),
                (Some(_), Some(false)) => refused += 1,
                _ => {}
            }
        }
        Outcome { plan, without, writes: accepted.len(), refused, violations }
    }

    /// Checks that leaders led, and never two at once by their tokens.
    ///
    /// # Panics
    /// Where that is not so.
    pub fn check(&self) {
        assert_eq!(self.without.len(), self.plan.times, "{self}");
        assert!(self.violations.is_empty(), "{:#?}\n{self}", self.violations);
        assert!(self.writes > self.plan.times * 10, "{self}");
    }
}

/// The head of the table.
pub const HEAD: &str = "\
| fault | times | lease | poll | without a leader: median | longest | writes | refused | two leaders |
|---|---:|---:|---:|---:|---:|---:|---:|---:|";

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { plan: Plan { fault, times, lease, poll }, without, .. } = self;
        let ms = |time: Option<&Duration>| time.map_or(0, Duration::as_millis);
        let (median, longest) = (ms(without.get(without.len() / 2)), ms(without.last()));
        let (lease, poll) = (lease.as_millis(), poll.as_millis());
        let Outcome { writes, refused, violations, .. } = self;
        write!(f, "| {fault} | {times} | {lease} ms | {poll} ms | {median} ms | {longest} ms | ")?;
        write!(f, "{writes} | {refused} | {} |", violations.len())
    }
}

/// A server's clock that goes on, and is set now and then.
struct Clock {
    clock: Arc<VirtualClock>,
    offset_us: Arc<std::sync::atomic::AtomicI64>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Clock {
    /// Starts a clock that a thread moves on.
    fn start() -> Self {
        let begin_us: i64 = 1_700_000_000_000_000;
        let clock = Arc::new(VirtualClock::new(begin_us as u64));
        let (offset_us, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (moved, offset, stops) = (clock.clone(), Arc::clone(&offset_us), stop.clone());
        let began = Instant::now();
        let go = move || {
            while !stops.load(Ordering::Relaxed) {
                let passed_us = began.elapsed().as_micros() as i64; // some minutes
                let offset: &std::sync::atomic::AtomicI64 = &offset;
                let now_us = begin_us + passed_us + offset.load(Ordering::Relaxed);
                moved.set(now_us as u64);
                std::thread::sleep(Duration::from_micros(500));
            }
        };
        Clock { clock, offset_us, stop, thread: Some(std::thread::spawn(go)) }
    }

    fn set(&self, by_us: i64) {
        self.offset_us.fetch_add(by_us, Ordering::Relaxed);
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

/// Campaigns in this process, and writes by the token of each term, until it is to stop.
pub(super) async fn campaign<S>(
    settings: &Settings,
    poll: Duration,
    (store, values): (S, S),
    stop: &AtomicBool,
) where
    S: Notifications + Clone + 'static,
{
    let Settings { process, lease, file, .. } = settings;
    let log = &Log::create(file).expect("a history can be written");
    let label = process.to_string().parse().expect("a number is a label");
    let locks = Locks::new(RetryStore::new(store, Tokio, *lease / 4), *lease).expect("a lease");
    let locks = locks.with_poll(poll).with_label(label);
    let seat = RetryStore::new(values, Tokio, *lease / 4);
    let seat = &Fenced::new(seat, Duration::from_secs(3600)).expect("an hour");
    let lock = locks.lock("seat").expect("a name");
    let leading = lock.lead(|token| async move {
        while !stop.load(Ordering::Relaxed) {
            let begun = history::now();
            let written = seat.write("seat", token, process.to_string()).await;
            let is_accepted = match written {
                Ok(access) => Some(matches!(access, fenced::Access::Accepted(()))),
                Err(_) => None,
            };
            let ended = history::now();
            log.push(&Line { process: *process, token, begun, ended, is_accepted });
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        ControlFlow::Break(())
    });
    let stopped = async {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ended = leading => ended.expect("no error lasts"),
        () = stopped => {}
    }
    locks.close().await;
}
