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
    tasks: BTreeMap<u64, Task>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
    /// Which task a job is.
    jobs: BTreeMap<usize, u64>,
    numbers: u64,
    draw: Draw,
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
            draw,
        }
    }

    pub(super) fn start(&mut self, job: Option<usize>, task: Task) {
        self.numbers += 1;
        self.tasks.insert(self.numbers, task);
        self.mark(self.numbers);
        if let Some(job) = job {
            self.jobs.insert(job, self.numbers);
        }
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
                self.start(None, task);
            }
            let Some(number) = self.next_ready() else { return };
            let Some(mut task) = self.tasks.remove(&number) else { continue };
            let waker = Waker::from(Arc::new(Ready { ready: self.ready.clone(), task: number }));
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.tasks.insert(number, task);
            }
        }
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
