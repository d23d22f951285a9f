//! Several executors in one process, in virtual time: one ends, or its only thread is blocked, and the others go on.

mod coalescing;
mod locks;
mod prefetch;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use lockage::runtime::{Runtime, Spawn, Tokio};
use tokio::task::{AbortHandle, JoinHandle};

const SECOND: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// The executor on which the present task runs, if any.
    static HERE: u64;
}

/// Executors by their numbers, all in tokio's time.
#[derive(Clone, Default)]
struct Executors(Arc<Mutex<BTreeMap<u64, Executor>>>);

#[derive(Default)]
struct Executor {
    tasks: Vec<AbortHandle>,
    is_blocked: bool,
    /// The tasks that were woken meanwhile.
    wakers: Vec<Waker>,
}

impl Executors {
    fn executor(&self, here: u64) -> MutexGuard<'_, BTreeMap<u64, Executor>> {
        let mut executors = self.0.lock().unwrap();
        executors.entry(here).or_default();
        executors
    }

    /// Runs a task on an executor.
    fn run<T: Send + 'static>(
        &self,
        here: u64,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let executors = self.clone();
        let gated = async move {
            let mut task = pin!(task);
            poll_fn(|context| {
                if let Some(executor) = executors.executor(here).get_mut(&here)
                    && executor.is_blocked
                {
                    executor.wakers.push(context.waker().clone());
                    return Poll::Pending;
                }
                task.as_mut().poll(context)
            })
            .await
        };
        let task = tokio::spawn(HERE.scope(here, gated));
        let mut executors = self.executor(here);
        executors.get_mut(&here).unwrap().tasks.push(task.abort_handle());
        task
    }

    /// Ends an executor: all its tasks are dropped.
    async fn end(&self, here: u64) {
        let executor = self.0.lock().unwrap().remove(&here);
        let tasks = executor.map(|executor| executor.tasks).unwrap_or_default();
        tasks.iter().for_each(AbortHandle::abort);
        while !tasks.iter().all(AbortHandle::is_finished) {
            tokio::task::yield_now().await;
        }
    }

    /// Blocks the only thread of an executor, or lets it go on.
    fn block(&self, here: u64, is_blocked: bool) {
        let mut executors = self.executor(here);
        let executor = executors.get_mut(&here).unwrap();
        executor.is_blocked = is_blocked;
        let wakers = std::mem::take(&mut executor.wakers);
        drop(executors);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Runtime for Executors {
    fn now(&self) -> Duration {
        Tokio.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        Tokio.sleep(duration)
    }

    fn random(&self) -> u64 {
        Tokio.random()
    }
}

impl Spawn for Executors {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.run(HERE.get(), task));
    }

    fn executor(&self) -> Option<u64> {
        HERE.try_with(|here| *here).ok()
    }
}
