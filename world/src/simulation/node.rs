//! A node: one process at a time, whose tasks are polled in an order from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::draw::Draw;
use super::host::{Host, Task};
use super::plan::Job;

/// No process needs this many polls in one moment, unless its tasks wake themselves for ever.
const MOST_POLLS: u32 = 50_000;

pub(super) struct Node {
    pub(super) host: Host,
    /// The number of its life.
    pub(super) life: u32,
    /// How often each runtime has ended.
    ended: BTreeMap<u64, u64>,
    /// Until when the threads of executors are blocked.
    blocked_until_us: BTreeMap<u64, u64>,
    /// Until when it stands still.
    pub(super) paused_until_us: u64,
    /// It dies after this many polls of its tasks, in the middle of a step.
    pub(super) dies_after: Option<u32>,
    /// Until when it is down.
    pub(super) down_until_us: u64,
    /// Until when its connection for messages is being made.
    pub(super) connected_us: u64,
    /// When the time causes its next poll. An event for another time is out of date.
    pub(super) timer_us: Option<u64>,
    tasks: BTreeMap<u64, Running>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
    /// The task of each job.
    jobs: BTreeMap<usize, u64>,
    numbers: u64,
    /// Jobs whose futures were dropped after their number of polls, since the last request for
    /// them.
    dropped: Vec<usize>,
    /// The tasks that left their runtime since the last request for them.
    moved: usize,
    /// Jobs that were on a blocked runtime since the last request for them.
    stood: Vec<usize>,
    draw: Draw,
}

/// The ways in which the tasks of a node come to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// No task is ready.
    Quiet,
    /// The process has died.
    Died,
    /// The tasks wake themselves for ever.
    Never,
}

/// The effect of the end or a block of a runtime.
pub(super) struct Struck {
    /// The jobs that run on it.
    pub(super) jobs: Vec<usize>,
    /// Whether it has tasks.
    pub(super) has_tasks: bool,
    /// Whether tasks that left it go on elsewhere.
    pub(super) is_outlived: bool,
}

struct Running {
    task: Task,
    executor: u64,
    /// The executor that it has left.
    home: Option<u64>,
    job: Option<usize>,
    /// After this many more polls its future is dropped, at once or on its next wake-up.
    polls: Option<u32>,
    when_woken: bool,
}

/// Marks a task as one to be polled.
struct Ready {
    ready: Arc<Mutex<BTreeSet<u64>>>,
    task: u64,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).insert(self.task);
    }
}

impl Node {
    pub(super) fn new(host: Host, draw: Draw) -> Self {
        Node {
            host,
            life: 0,
            ended: BTreeMap::new(),
            blocked_until_us: BTreeMap::new(),
            paused_until_us: 0,
            dies_after: None,
            down_until_us: 0,
            connected_us: 0,
            timer_us: None,
            tasks: BTreeMap::new(),
            ready: Arc::default(),
            jobs: BTreeMap::new(),
            numbers: 0,
            dropped: Vec::new(),
            moved: 0,
            stood: Vec::new(),
            draw,
        }
    }

    /// Runs a job until it ends, or until its last poll.
    pub(super) fn start_job(&mut self, index: usize, job: &Job, task: Task) {
        let Job { polls, when_woken, runtime, .. } = *job;
        let executor = self.executor(runtime);
        self.start(Running { task, executor, home: None, job: Some(index), polls, when_woken });
        self.jobs.insert(index, self.numbers);
    }

    /// Runs a task on the first runtime until it ends.
    pub(super) fn start_task(&mut self, task: Task) {
        self.start_on(self.executor(0), task);
    }

    fn start_on(&mut self, executor: u64, task: Task) {
        let (home, job, polls, when_woken) = (None, None, None, false);
        self.start(Running { task, executor, home, job, polls, when_woken });
    }

    /// Returns the number of a runtime's executor, which is unique in a life.
    pub(super) fn executor(&self, runtime: u64) -> u64 {
        runtime + 100 * self.ended.get(&runtime).copied().unwrap_or_default()
    }

    /// Ends a runtime and drops its tasks.
    pub(super) fn end_runtime(&mut self, runtime: u64) -> Struck {
        let executor = self.executor(runtime);
        let struck = self.struck(executor);
        *self.ended.entry(runtime).or_default() += 1;
        self.blocked_until_us.remove(&executor);
        let (ended, others): (BTreeMap<_, _>, _) = std::mem::take(&mut self.tasks)
            .into_iter()
            .partition(|(_, running)| running.executor == executor);
        self.tasks = others;
        self.jobs.retain(|_, task| !ended.contains_key(task));
        self.host.enter(None);
        drop(ended);
        struck
    }

    /// Blocks the thread of a runtime.
    pub(super) fn block_runtime(&mut self, runtime: u64, until_us: u64) -> Struck {
        let executor = self.executor(runtime);
        let blocked_until_us = self.blocked_until_us.entry(executor).or_default();
        *blocked_until_us = until_us.max(*blocked_until_us);
        self.struck(executor)
    }

    fn struck(&self, executor: u64) -> Struck {
        let on = || self.tasks.values().filter(move |running| running.executor == executor);
        Struck {
            jobs: on().filter_map(|running| running.job).collect(),
            has_tasks: on().next().is_some(),
            is_outlived: self
                .tasks
                .values()
                .any(|running| running.home == Some(executor) && running.executor != executor),
        }
    }

    /// Returns when the next block of a runtime ends.
    pub(super) fn unblocked_us(&self) -> Option<u64> {
        self.blocked_until_us.values().copied().min()
    }

    fn start(&mut self, running: Running) {
        self.numbers += 1;
        self.tasks.insert(self.numbers, running);
        self.mark(self.numbers);
    }

    /// Returns whether the node has tasks.
    pub(super) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns whether the node runs one of these jobs.
    pub(super) fn runs(&self, is: impl Fn(usize) -> bool) -> bool {
        self.tasks.values().filter_map(|running| running.job).any(is)
    }

    /// Returns whether this life has begun this job.
    pub(super) fn has_begun(&self, job: usize) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Drops the task of a job, wherever it is.
    pub(super) fn cancel(&mut self, job: usize) -> bool {
        let running = self.jobs.get(&job).and_then(|task| self.tasks.get(task));
        self.host.enter(running.map(|running| running.executor));
        let task = self.jobs.remove(&job).and_then(|task| self.tasks.remove(&task));
        task.is_some()
    }

    /// Ends the process at once, without a report.
    pub(super) fn crash(&mut self, host: Host, until_us: u64) {
        self.host.die();
        self.tasks.clear();
        self.jobs.clear();
        self.ready = Arc::default();
        self.host = host;
        self.life += 1;
        self.blocked_until_us.clear();
        self.down_until_us = until_us;
        self.paused_until_us = 0;
        self.dies_after = None;
        self.connected_us = 0;
        self.timer_us = None;
    }

    /// Polls all ready tasks, until none is left.
    pub(super) fn poll(&mut self) -> Rest {
        for _ in 0..MOST_POLLS {
            self.host.enter(None);
            for (executor, task) in self.host.take_spawned() {
                self.start_on(executor, task);
            }
            let Some(number) = self.next_ready() else { return Rest::Quiet };
            if let Some(left) = &mut self.dies_after {
                *left = left.saturating_sub(1);
            }
            let Some(mut running) = self.tasks.remove(&number) else { continue };
            self.host.enter(Some(running.executor));
            if let (Some(0), Some(job)) = (running.polls, running.job) {
                self.end(running, job);
                continue;
            }
            self.host.begin_poll();
            let waker = Waker::from(Arc::new(Ready { ready: self.ready.clone(), task: number }));
            if running.task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                continue;
            }
            if let Some(runtime) = self.host.take_move() {
                self.moves(&mut running, runtime);
            }
            running.polls = running.polls.map(|polls| polls - 1);
            match (running.polls, running.job) {
                (Some(0), Some(job)) if !running.when_woken => self.end(running, job),
                _ => _ = self.tasks.insert(number, running),
            }
            if self.dies_after == Some(0) {
                return Rest::Died;
            }
        }
        Rest::Never
    }

    /// A task leaves its runtime.
    fn moves(&mut self, running: &mut Running, runtime: u64) {
        self.moved += 1;
        running.home = Some(running.executor);
        running.executor = self.executor(runtime);
        let is_blocked = self.blocked_until_us.contains_key(&running.executor);
        self.stood.extend(running.job.filter(|_| is_blocked));
    }

    /// Drops the future of a job.
    fn end(&mut self, running: Running, job: usize) {
        drop(running);
        self.dropped.push(job);
    }

    /// Returns how many tasks left their runtime, and the jobs that are on a blocked one now.
    pub(super) fn take_moved(&mut self) -> (usize, Vec<usize>) {
        (std::mem::take(&mut self.moved), std::mem::take(&mut self.stood))
    }

    pub(super) fn take_dropped(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.dropped)
    }

    /// Returns until when the node handles no events.
    pub(super) fn away_until_us(&self) -> u64 {
        self.paused_until_us.max(self.down_until_us)
    }

    fn next_ready(&mut self) -> Option<u64> {
        let now_us = self.host.stood_until_us();
        self.blocked_until_us.retain(|_, until_us| *until_us > now_us);
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let goes = |task: &&u64| {
            let executor = self.tasks.get(*task).map(|running| running.executor);
            !executor.is_some_and(|executor| self.blocked_until_us.contains_key(&executor))
        };
        let last = ready.iter().filter(goes).count().checked_sub(1)?;
        let index = self.draw.between(0, last as u64) as usize;
        let task = ready.iter().filter(goes).nth(index).copied();
        task.inspect(|task| {
            ready.remove(task);
        })
    }

    fn mark(&self, task: u64) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).insert(task);
    }
}
