//! Concurrent requests as one call: those for one key, and, if the store supports batches, those for several.
//!
//! Callers leave their requests in a [`Queue`]. A [`Driver`] of their executor, a task that runs while there are any, puts
//! them into calls and wakes each caller once, with its answer. A call is formed when it is sent, after all tasks that could ask
//! have asked.

mod driver;
#[cfg(all(test, loom))]
mod loom_tests;
mod waiter;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use futures_channel::oneshot;
use lockage_core::{AcquireEach, ConfigError, Decision, ReplyError};

use self::driver::{Capacity, Driver, Queue, Sending, Wake};
use super::circuit_breaker::Report;
use super::limit_source::LimitSource;
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::runtime::{Executor, Spawn};
use crate::store::Store;

/// The common key and limit of requests that are decided in one command, and wait in one line.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) key: Key,
    pub(super) source: LimitSource,
}

/// A key has few limits at one time, and to hash one takes longer than to compare it.
impl Hash for Subject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

/// Statistics of coalescing, for a limiter and its clones together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoalescingStats {
    /// Requests that were queued.
    pub requests: u64,
    /// Calls that carried them, including calls dropped before they were sent.
    pub calls: u64,
    /// The most requests that were put into one call.
    pub largest_call: usize,
    /// Requests that were refused because the queue was full.
    pub refused: u64,
    /// Callers that wait for an answer now.
    pub waiting: usize,
}

/// A batch takes this many keys, during which a server does nothing else. Two calls at a time keep both sides busy;
/// more would be smaller.
const MANY_KEYS: Capacity = Capacity { keys: 128, calls: 2 };

/// All others get a call for each key.
const ONE_KEY: Capacity = Capacity { keys: 1, calls: usize::MAX };

/// Returns an outcome for each key.
async fn send<S: Store>(
    store: &S,
    asked: &[(Arc<Subject>, AcquireEach)],
) -> Vec<Result<Vec<Decision>, Error>> {
    match asked {
        // The same call as without coalescing.
        [(subject, command)] => vec![subject.source.execute(store, &subject.key, command).await],
        // On the heap, so that a call for one key is small.
        _ => Box::pin(send_batch(store, asked)).await,
    }
}

async fn send_batch<S: Store>(
    store: &S,
    asked: &[(Arc<Subject>, AcquireEach)],
) -> Vec<Result<Vec<Decision>, Error>> {
    let mut outcomes: Vec<_> = asked.iter().map(|_| None).collect();
    let mut left: Vec<usize> = (0..asked.len()).collect();
    // Views of a limiter under other limits share its lines.
    while let Some(&first) = left.first() {
        let source = &asked[first].0.source;
        let (these, others) = left.into_iter().partition(|&index| asked[index].0.source == *source);
        let these: Vec<usize> = these;
        let call = |&index: &usize| (&asked[index].0.key, asked[index].1.clone());
        let calls: Vec<_> = these.iter().map(call).collect();
        let answers = source.execute_batch(store, &calls).await;
        for (index, answer) in these.into_iter().zip(answers) {
            outcomes[index] = Some(answer);
        }
        left = others;
    }
    let missing = || Err(StoreError::from(ReplyError::Unexpected).into());
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
}

/// The shared part of a limiter and its clones.
pub(super) struct Coalescer {
    queue: Arc<Queue>,
    /// Returns the executor of the calling thread.
    executor: Box<dyn Fn() -> Executor + Send + Sync>,
    /// Starts a driver there.
    start: Box<dyn Fn(Arc<Queue>, Executor) + Send + Sync>,
}

impl Coalescer {
    /// Coalesces calls of `store` for at most `max_waiting` callers.
    pub(super) fn new(
        runtime: impl Spawn,
        store: impl Store + 'static,
        max_waiting: usize,
    ) -> Result<Self, ConfigError> {
        if max_waiting == 0 {
            return Err(ConfigError::Zero { what: "number of callers who may wait" });
        }
        let store = Arc::new(store);
        let capacity = if store.supports_batch() { MANY_KEYS } else { ONE_KEY };
        let dispatch = move |asked: Vec<(Arc<Subject>, AcquireEach)>| -> Sending {
            let store = Arc::clone(&store);
            Box::pin(async move { send(&*store, &asked).await })
        };
        Ok(Coalescer::of(runtime, max_waiting, capacity, dispatch))
    }

    fn of(
        runtime: impl Spawn,
        max_waiting: usize,
        capacity: Capacity,
        dispatch: impl Fn(Vec<(Arc<Subject>, AcquireEach)>) -> Sending + Send + Sync + 'static,
    ) -> Self {
        let (dispatch, queue) = (Arc::new(dispatch), Arc::new(Queue::new(max_waiting)));
        let spawn = runtime.clone();
        let start = move |queue, here| {
            spawn.spawn(Driver::new(queue, here, capacity, dispatch.clone()).run());
        };
        let executor = Box::new(move || runtime.executor());
        Coalescer { queue, executor, start: Box::new(start) }
    }

    pub(super) fn stats(&self) -> CoalescingStats {
        self.queue.stats()
    }

    pub(super) async fn wait(
        &self,
        subject: Subject,
        cost: u64,
        report: Option<Report>,
    ) -> Result<Decision, Error> {
        let (sender, answer) = oneshot::channel();
        let here = (self.executor)();
        let wake = self.queue.ask(here, subject, cost, report, sender)?;
        let mut waiting = Waiting { queue: &self.queue, here, is_answered: false };
        match wake {
            Wake::Nothing => {}
            Wake::Driver(waker) => waker.wake(),
            Wake::NewDriver => (self.start)(Arc::clone(&self.queue), here),
        }
        let answer = answer.await;
        waiting.is_answered = true;
        answer.expect("a request that is dropped is answered by that")
    }
}

/// A caller that waits for its answer.
struct Waiting<'a> {
    queue: &'a Queue,
    here: Executor,
    is_answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.leave(self.here, self.is_answered);
    }
}

impl fmt::Debug for Coalescer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}
