//! A node: one process at a time, whose tasks are polled in an order that the seed says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::draw::Draw;
use super::host::{Host, Task};
use super::plan::Job;

/// No process comes to so many polls in one moment, unless its tasks wake themselves for ever.
const MOST_POLLS: u32 = 50_000;

pub(super) struct Node {
    pub(super) host: Host,
    /// Which of its lives this is.
    pub(super) life: u32,
    /// Until then it stands still.
    pub(super) paused_until_us: u64,
    /// Once so many of its tasks were polled it dies, in the middle of a step.
    pub(super) dies_after: Option<u32>,
    /// Until then it is down.
    pub(super) down_until_us: u64,
    /// Until then its connection for messages is being made.
    pub(super) connected_us: u64,
    /// When it is polled next because of the time. An event for another time is out of date.
    pub(super) timer_us: Option<u64>,
    tasks: BTreeMap<u64, Running>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
    /// Which task a job is.
    jobs: BTreeMap<usize, u64>,
    numbers: u64,
    /// Jobs that were dropped after so many polls, since this was last asked.
    dropped: Vec<usize>,
    draw: Draw,
}

/// How the tasks of a node come to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// None is ready.
    Quiet,
    /// The process has died.
    Died,
    /// They wake themselves for ever.
    Never,
}

struct Running {
    task: Task,
    job: Option<usize>,
    /// After so many polls more it is dropped, at once or when it is woken.
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
            draw,
        }
    }

    /// Runs a job until it ends, or was polled so often.
    pub(super) fn start_job(&mut self, index: usize, job: &Job, task: Task) {
        let Job { polls, when_woken, .. } = *job;
        self.start(Running { task, job: Some(index), polls, when_woken });
        self.jobs.insert(index, self.numbers);
    }

    /// Runs a task until it ends.
    pub(super) fn start_task(&mut self, task: Task) {
        self.start(Running { task, job: None, polls: None, when_woken: false });
    }

    fn start(&mut self, running: Running) {
        self.numbers += 1;
        self.tasks.insert(self.numbers, running);
        self.mark(self.numbers);
    }

    /// Whether it has tasks.
    pub(super) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Whether it runs one of these jobs.
    pub(super) fn runs(&self, is: impl Fn(usize) -> bool) -> bool {
        self.tasks.values().filter_map(|running| running.job).any(is)
    }

    /// Whether this life has begun this job.
    pub(super) fn has_begun(&self, job: usize) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Drops the task of a job, wherever it is.
    pub(super) fn cancel(&mut self, job: usize) -> bool {
        let task = self.jobs.remove(&job).and_then(|task| self.tasks.remove(&task));
        task.is_some()
    }

    /// The process ends at once: it cannot say so.
    pub(super) fn crash(&mut self, host: Host, until_us: u64) {
        self.host.die();
        self.tasks.clear();
        self.jobs.clear();
        self.ready = Arc::default();
        self.host = host;
        self.life += 1;
        self.down_until_us = until_us;
        self.paused_until_us = 0;
        self.dies_after = None;
        self.connected_us = 0;
        self.timer_us = None;
    }

    /// Polls what is ready, until nothing is.
    pub(super) fn poll(&mut self) -> Rest {
        for _ in 0..MOST_POLLS {
            for task in self.host.take_spawned() {
                self.start_task(task);
            }
            let Some(number) = self.next_ready() else { return Rest::Quiet };
            if let Some(left) = &mut self.dies_after {
                *left = left.saturating_sub(1);
            }
            let Some(mut running) = self.tasks.remove(&number) else { continue };
            if let (Some(0), Some(job)) = (running.polls, running.job) {
                self.end(running, job);
                continue;
            }
            self.host.begin_poll();
            let waker = Waker::from(Arc::new(Ready { ready: self.ready.clone(), task: number }));
            if running.task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                continue;
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

    /// Drops the future of a job.
    fn end(&mut self, running: Running, job: usize) {
        drop(running);
        self.dropped.push(job);
    }

    pub(super) fn take_dropped(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.dropped)
    }

    /// Until when it takes notice of nothing.
    pub(super) fn away_until_us(&self) -> u64 {
        self.paused_until_us.max(self.down_until_us)
    }

    fn next_ready(&mut self) -> Option<u64> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let last = ready.len().checked_sub(1)?;
        let index = self.draw.between(0, last as u64) as usize;
        let task = ready.iter().nth(index).copied();
        task.inspect(|task| {
            ready.remove(task);
        })
    }

    fn mark(&self, task: u64) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).insert(task);
    }
}
