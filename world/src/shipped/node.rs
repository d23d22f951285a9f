//! A node: one process at a time, whose tasks are polled in an order that the seed says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::host::{Host, Task};
use crate::simulation::Draw;

pub(super) struct Node {
    pub(super) host: Host,
    /// Which of its lives this is.
    pub(super) life: u32,
    /// Until then it stands still.
    pub(super) paused_until_us: u64,
    /// Until then it is down.
    pub(super) down_until_us: u64,
    tasks: BTreeMap<u64, Running>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
    /// Which task a job is.
    jobs: BTreeMap<usize, u64>,
    numbers: u64,
    /// Jobs that were dropped after so many polls, since this was last asked.
    dropped: Vec<usize>,
    draw: Draw,
}

struct Running {
    task: Task,
    job: Option<usize>,
    /// After so many polls more it is dropped.
    polls: Option<u32>,
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
            down_until_us: 0,
            tasks: BTreeMap::new(),
            ready: Arc::default(),
            jobs: BTreeMap::new(),
            numbers: 0,
            dropped: Vec::new(),
            draw,
        }
    }

    /// Runs a task until it ends, or was polled so often.
    pub(super) fn start(&mut self, job: Option<usize>, polls: Option<u32>, task: Task) {
        self.numbers += 1;
        self.tasks.insert(self.numbers, Running { task, job, polls });
        self.mark(self.numbers);
        if let Some(job) = job {
            self.jobs.insert(job, self.numbers);
        }
    }

    /// Whether it has tasks.
    pub(super) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
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
    }

    /// Polls what is ready, until nothing is.
    pub(super) fn poll(&mut self) {
        loop {
            for task in self.host.take_spawned() {
                self.start(None, None, task);
            }
            let Some(number) = self.next_ready() else { return };
            let Some(mut running) = self.tasks.remove(&number) else { continue };
            let waker = Waker::from(Arc::new(Ready { ready: self.ready.clone(), task: number }));
            if running.task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                continue;
            }
            running.polls = running.polls.map(|polls| polls - 1);
            match (running.polls, running.job) {
                (Some(0), Some(job)) => {
                    drop(running);
                    self.jobs.remove(&job);
                    self.dropped.push(job);
                }
                _ => _ = self.tasks.insert(number, running),
            }
        }
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
