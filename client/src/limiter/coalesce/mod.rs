//! Concurrent requests as one call: those for one key, and, where the store supports batches, those for several.
//!
//! Callers leave their requests in a [`Queue`]. A [`Driver`] of their executor, a task that runs while there are any, puts
//! them into calls and wakes each caller once, with its answer. A call is formed when it is sent, after all tasks that could ask
//! have asked.

mod driver;
#[cfg(all(test, loom))]
mod loom_tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::once;
use std::sync::Arc;

use futures_channel::oneshot;
use lockage_core::{AcquireEach, ConfigError, Decision, ReplyError};

use self::driver::{Driver, Queue, Ring, Room, Sending};
use super::call::{Call, Outcome};
use super::circuit_breaker::{OwnedReport, is_answered};
use super::limit_source::LimitSource;
use super::pipeline::{Next, Stage, Target};
use super::{COALESCING, Limiter};
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::runtime::{Executor, Spawn};
use crate::store::Store;

impl<S: Store + Clone + 'static> Limiter<S> {
    /// Puts requests that arrive for one id while a call for it is in flight into one next call.
    ///
    /// Requests keep their order. A call takes at most [`MAX_COSTS`](lockage_core::MAX_COSTS) of them, and the rest
    /// follow in later calls. Under a stored limit, or one of several with a log or a leaky bucket, a call takes at
    /// most [`MAX_SLOW_COSTS`](lockage_core::MAX_SLOW_COSTS). Each caller gets exactly the decision that it would have
    /// got alone. A request that finds no call in flight is sent as soon as `runtime` runs the sending task.
    ///
    /// A store that supports batches ([`Store::supports_batch`]: a single Redis or Valkey server, through both clients)
    /// gets the requests for several ids in one call, too: up to 128 ids and as many requests as above, at most two
    /// calls at a time, which share more than 8 ids that come together. During two calls, a request for any id waits
    /// until one of them ends.
    ///
    /// Only [`Limiter::try_acquire`] and `acquire_within` are coalesced; all other verbs go alone and do not queue. So
    /// does an `acquire_within` that waits for its turn in a [`LeakyBucket`](crate::limiter::LeakyBucket). At most
    /// `max_waiting` callers (at least 1) wait for an answer, for all ids together; one more gets [`Error::QueueFull`],
    /// even with a fallback, since the store is not away. Clones share the queue. Blocking callers have no coalescing.
    ///
    /// On a [`RetryStore`](crate::RetryStore) a waiter has an answer within two timeouts: that of the call in flight,
    /// and its own. Each call that earlier requests for the same id fill adds one; in batches, each thousand requests
    /// or 128 ids do.
    ///
    /// A request dropped before its call is sent is not sent. Dropped later, it may be charged: the call goes on for
    /// the others, and is dropped with the last of them. Each tokio runtime sends the requests of its own callers, which
    /// another one that ends or is blocked does not delay. If it ends itself, an unsent request is `NotDone`, and any
    /// other `Unknown`. In a batch, each id gets its own outcome, and all ids share a failure of the call. All callers
    /// in a failed call get its error; its shared cause is behind [`source`](std::error::Error::source). To
    /// [`Limiter::with_fallback`] it is one failure, and each caller gets the fallback's answer.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// use std::time::Duration;
    /// use lockage::runtime::Tokio;
    /// use lockage::{Limiter, RetryStore};
    /// # use lockage_memory::MemoryStore;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// # let store = MemoryStore::new();
    /// let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    /// let limiter = Limiter::new(store, "token-bucket 1000/s burst 200".parse()?)
    ///     .with_prefix("tenants")?
    ///     .with_coalescing(Tokio, 10_000)?;
    /// let (first, second) =
    ///     tokio::join!(limiter.try_acquire("tenant:7", 1), limiter.try_acquire("tenant:7", 1));
    /// assert_eq!((first?.remaining, second?.remaining), (199, 198));
    /// let told = limiter.coalescing().expect("it coalesces");
    /// println!("{} requests in {} calls", told.requests, told.calls);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::Zero`] for a `max_waiting` of zero, and [`ConfigError::Conflict`] for a limiter with request ids,
    /// which a shared call cannot carry.
    pub fn with_coalescing<R: Spawn>(
        mut self,
        runtime: R,
        max_waiting: usize,
    ) -> Result<Self, ConfigError> {
        if max_waiting == 0 {
            return Err(ConfigError::Zero { what: "number of callers who may wait" });
        }
        let store = Arc::new(self.store.clone());
        let room = if store.supports_batch() { MANY_KEYS } else { ONE_KEY };
        let dispatch =
            move |asked: Vec<(Arc<Subject>, AcquireEach)>, reports: Vec<OwnedReport>| -> Sending {
                let store = Arc::clone(&store);
                Box::pin(async move {
                    let outcomes = send(&*store, &asked).await;
                    // A store that answers for one key is there.
                    let told = outcomes.iter().find(|it| is_answered(it)).or(outcomes.first());
                    for report in reports {
                        told.into_iter().for_each(|told| report.tell(told));
                    }
                    outcomes
                })
            };
        let coalescer = Coalescer::new(runtime, max_waiting, room, dispatch);
        self.stages.coalescing = Some(Arc::new(coalescer));
        self.checked(COALESCING)
    }
}

impl<S> Limiter<S> {
    /// Returns the statistics of coalescing; `None` without [`Limiter::with_coalescing`].
    pub fn coalescing(&self) -> Option<Coalescing> {
        self.stages.coalescing.as_ref().map(|coalescer| coalescer.queue.told())
    }
}

impl Stage for Coalescer {
    async fn run<C: Call, N: Next>(
        &self,
        target: &Target<'_>,
        call: &C,
        next: &N,
    ) -> Result<C::Outcome, Error> {
        let Some(acquire) = call.as_acquire().filter(|acquire| !acquire.goes_alone) else {
            return next.run(target, call).await;
        };
        let subject = Subject { key: target.key.clone(), source: target.source.clone() };
        let report = target.report.map(|report| report.owned());
        let decision = self.wait(subject, acquire.cost, report).await?;
        C::Outcome::of(once(decision))
            .ok_or_else(|| StoreError::from(ReplyError::Unexpected).into())
    }
}

/// What requests must have in common to be decided in one command, and to wait in one line.
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
pub struct Coalescing {
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

/// Too many callers wait for an answer already. Nothing was sent, and it is safe to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full: {max_waiting} callers wait for an answer")]
pub struct QueueFull {
    /// The most callers that may wait.
    pub max_waiting: usize,
}

/// A batch takes this many keys, during which a server does nothing else. Two calls at a time keep both sides busy;
/// more would be smaller.
const MANY_KEYS: Room = Room { keys: 128, calls: 2 };

/// All others get a call for each key.
const ONE_KEY: Room = Room { keys: 1, calls: usize::MAX };

/// Returns an outcome for each key.
async fn send<S: Store>(
    store: &S,
    asked: &[(Arc<Subject>, AcquireEach)],
) -> Vec<Result<Vec<Decision>, Error>> {
    match asked {
        // As it would have gone by itself.
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

/// What callers of a limiter and its clones share.
pub(super) struct Coalescer {
    queue: Arc<Queue>,
    /// Returns the executor of this thread.
    executor: Box<dyn Fn() -> Executor + Send + Sync>,
    /// Starts a driver there.
    start: Box<dyn Fn(Arc<Queue>, Executor) + Send + Sync>,
}

impl Coalescer {
    fn new(
        runtime: impl Spawn,
        max_waiting: usize,
        room: Room,
        dispatch: impl Fn(Vec<(Arc<Subject>, AcquireEach)>, Vec<OwnedReport>) -> Sending
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let (dispatch, queue) = (Arc::new(dispatch), Arc::new(Queue::new(max_waiting)));
        let spawn = runtime.clone();
        let start = move |queue, here| {
            spawn.spawn(Driver::new(queue, here, room, dispatch.clone()).run());
        };
        let executor = Box::new(move || runtime.executor());
        Coalescer { queue, executor, start: Box::new(start) }
    }

    async fn wait(
        &self,
        subject: Subject,
        cost: u64,
        report: Option<OwnedReport>,
    ) -> Result<Decision, Error> {
        let (answer, told) = oneshot::channel();
        let here = (self.executor)();
        let ring = self.queue.ask(here, subject, cost, report, answer)?;
        let mut place = Place { queue: &self.queue, here, is_told: false };
        match ring {
            Ring::Nobody => {}
            Ring::Wake(waker) => waker.wake(),
            Ring::Start => (self.start)(Arc::clone(&self.queue), here),
        }
        let told = told.await;
        place.is_told = true;
        told.expect("a request that is dropped is answered by that")
    }
}

/// The place of a waiting caller.
struct Place<'a> {
    queue: &'a Queue,
    here: Executor,
    is_told: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.leave(self.here, self.is_told);
    }
}

impl fmt::Debug for Coalescer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.told().fmt(f)
    }
}
