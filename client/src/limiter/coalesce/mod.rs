//! Concurrent requests as one call: those for one key, and, where the store supports batches, those for several.
//!
//! A caller that asks for a key while a call for it is in flight stands in the key's line. When the call ends, the
//! first [`MAX_COSTS`](lockage_core::MAX_COSTS) of those who stand there are the next one, in the order in
//! which they came. Nothing is spawned: the call in flight is polled by anyone in the line, the waiters
//! for a later call among them, so that it depends on no single caller, who may be dropped or, alive,
//! not be polled again. All are woken where it can go on, and at its end.
//!
//! A store that supports batches takes several keys in one call. There are few calls at one time then, so that those who come
//! meanwhile are many: a line waits for room, and all waiters for that are woken with each call that can go on.
//!
//! That is more than a future that is shared by its riders: `futures_util`'s `Shared` is polled by these alone,
//! and loses a wake-up where the one who polls it is woken meanwhile and then dropped.

mod lines;
#[cfg(all(test, loom))]
mod loom_tests;

use std::fmt;
use std::future::poll_fn;
use std::iter::once;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use lockage_core::{AcquireEach, ConfigError, Decision, ReplyError};

use super::call::{Call, Outcome};
use super::circuit_breaker::OwnedReport;
use super::limit_source::LimitSource;
use super::pipeline::{Next, Stage, Target};
use super::{COALESCING, Limiter};
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::store::Store;
use crate::sync::{Mutex, MutexGuard, lock};
use lines::{After, Lines, Room, Sending, Turn};

impl<S: Store + Clone + 'static> Limiter<S> {
    /// Puts the requests that come in for one id while a call for it is in flight into one next call, in
    /// the order in which they came: at most [`MAX_COSTS`](lockage_core::MAX_COSTS), and the others into
    /// those after it. Under a stored limit, or one of several with a log or a leaky bucket, a call is for
    /// [`MAX_SLOW_COSTS`](lockage_core::MAX_SLOW_COSTS) at most. Each caller gets exactly the decision that it would have got by itself. A
    /// request that finds no call in flight is sent at once.
    ///
    /// A store that supports batches ([`Store::supports_batch`]: a single Redis or Valkey server does, through both clients) gets the
    /// requests for several ids in one call, too: up to 128 ids and as many requests as above, at most two calls
    /// at a time. While there are two, a request waits for one of them to end, whichever its id is.
    ///
    /// It is for [`Limiter::try_acquire`] and `acquire_within`; all others go by themselves and do not queue, and so
    /// does an `acquire_within` that waits for its turn in a [`LeakyBucket`](crate::limiter::LeakyBucket). At most
    /// `max_waiting` callers (at least 1) wait for a call in flight to end, for all ids together; one more
    /// gets [`Error::QueueFull`], also where a policy stands in for an absent store, since the store is not
    /// away. Clones share the queue. Callers that block have nothing like it.
    ///
    /// On a [`RetryStore`](crate::RetryStore) store a waiter has an answer within two timeouts: that of the
    /// call in flight, and its own. There is one more for each call that those before it for the same id
    /// fill, and where ids are gathered, for each thousand or each 128 ids.
    ///
    /// Dropped while it waits for the call in flight to end, a request is not sent. Dropped later, it may be
    /// charged: the call goes on for the others, and is dropped with the last of them. Of several ids each gets what
    /// became of it, and what became of the call is every one's. An error is
    /// every caller's whose request was in the call; its cause is behind
    /// [`source`](std::error::Error::source), as it is shared. To [`Limiter::with_fallback`] it is one failure,
    /// and each caller gets what the policy says.
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
    ///     .with_coalescing(10_000)?;
    /// let (first, second) =
    ///     tokio::join!(limiter.try_acquire("tenant:7", 1), limiter.try_acquire("tenant:7", 1));
    /// assert_eq!((first?.remaining, second?.remaining), (199, 198));
    /// let told = limiter.coalescing().expect("it coalesces");
    /// println!("{} requests in {} calls", told.requests, told.calls);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::Zero`] for a `max_waiting` of zero, and [`ConfigError::Conflict`] for a limiter with
    /// request ids: a call for several carries none.
    pub fn with_coalescing(mut self, max_waiting: usize) -> Result<Self, ConfigError> {
        if max_waiting == 0 {
            return Err(ConfigError::Zero { what: "number of callers who may wait" });
        }
        let store = Arc::new(self.store.clone());
        let room = if store.supports_batch() { MANY_KEYS } else { ONE_KEY };
        let dispatch =
            move |asked: Vec<(Arc<Subject>, Vec<u64>)>, reports: Vec<OwnedReport>| -> Sending {
                let store = Arc::clone(&store);
                Box::pin(async move {
                    let outcomes = send(&*store, asked).await;
                    // A store that answers for one key is there.
                    let told = outcomes.iter().find(|outcome| outcome.is_ok()).or(outcomes.first());
                    for report in reports {
                        told.into_iter().for_each(|told| report.tell(told));
                    }
                    outcomes
                })
            };
        self.stages.coalescing = Some(Coalescer::new(max_waiting, room, dispatch));
        self.checked(COALESCING)
    }
}

impl<S> Limiter<S> {
    /// Returns what coalescing has come to so far; nothing without [`Limiter::with_coalescing`].
    pub fn coalescing(&self) -> Option<Coalescing> {
        self.stages.coalescing.as_ref().map(|coalescer| coalescer.lines().told())
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
        let decision = self.wait(Arc::new(subject), acquire.cost, report).await?;
        C::Outcome::of(once(decision))
            .ok_or_else(|| StoreError::from(ReplyError::Unexpected).into())
    }
}

/// What requests must have in common to be decided in one command.
#[derive(PartialEq, Eq, Hash)]
struct Subject {
    key: Key,
    source: LimitSource,
}

/// What coalescing has come to, for a limiter and its clones together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coalescing {
    /// Requests that were taken on.
    pub requests: u64,
    /// Calls that they were put into, those included that were dropped before they were sent.
    pub calls: u64,
    /// The most requests that were put into one call.
    pub largest_call: usize,
    /// Requests that were refused because the queue was full.
    pub refused: u64,
    /// How many callers wait at present for a call in flight to end.
    pub waiting: usize,
    /// For how many ids anybody waits at present, for a call in flight or for the next.
    pub ids: usize,
}

/// Too many callers wait for calls in flight already. Nothing was sent, and it is safe to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full: {max_waiting} callers wait for calls in flight to end")]
pub struct QueueFull {
    /// How many may.
    pub max_waiting: usize,
}

/// Of a store that supports batches: so many keys go into a call, during which a server does nothing else; and there are two
/// calls at one time, so that neither side waits for the other. More of them would be smaller ones.
const MANY_KEYS: Room = Room { keys: 128, calls: 2 };

/// All others get a call for each key.
const ONE_KEY: Room = Room { keys: 1, calls: usize::MAX };

/// Returns an outcome for each key.
async fn send<S: Store>(
    store: &S,
    asked: Vec<(Arc<Subject>, Vec<u64>)>,
) -> Vec<Result<Vec<Decision>, Error>> {
    let riders: usize = asked.iter().map(|(_, costs)| costs.len()).sum();
    let mut outcomes: Vec<_> = asked.iter().map(|_| None).collect();
    let mut left: Vec<usize> = (0..asked.len()).collect();
    // Views of a limiter under other limits share its lines.
    while let Some(&first) = left.first() {
        let source = &asked[first].0.source;
        let (these, others) = left.into_iter().partition(|&index| asked[index].0.source == *source);
        let these: Vec<usize> = these;
        let call = |&index: &usize| {
            let (subject, costs) = &asked[index];
            let command = AcquireEach::new(source.nominal(), costs.clone());
            (&subject.key, command.expect("each was checked; they fit"))
        };
        let calls: Vec<_> = these.iter().map(call).collect();
        let answers = match &calls[..] {
            // As it would have gone by itself.
            [(key, command)] if riders == 1 || !store.supports_batch() => {
                vec![source.execute(store, key, command).await]
            }
            calls => source.execute_batch(store, calls).await,
        };
        for (index, answer) in these.into_iter().zip(answers) {
            outcomes[index] = Some(answer);
        }
        left = others;
    }
    let missing = || Err(StoreError::from(ReplyError::Unexpected).into());
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
}

/// The lines of one limiter. Its lock is held for a look at a line, and never while a call is polled or
/// dropped, or anybody is woken.
pub(super) struct Coalescer(Mutex<Lines>);

impl Coalescer {
    fn new(
        max_waiting: usize,
        room: Room,
        dispatch: impl Fn(Vec<(Arc<Subject>, Vec<u64>)>, Vec<OwnedReport>) -> Sending + Send + 'static,
    ) -> Arc<Self> {
        Arc::new_cyclic(|coalescer| {
            let coalescer = Weak::clone(coalescer);
            let bell = move |call| {
                let coalescer = Weak::clone(&coalescer);
                Waker::from(Arc::new(Bell { coalescer, call }))
            };
            Coalescer(Mutex::new(Lines::new(max_waiting, room, bell, dispatch)))
        })
    }

    async fn wait(
        &self,
        subject: Arc<Subject>,
        cost: u64,
        report: Option<OwnedReport>,
    ) -> Result<Decision, Error> {
        let (ticket, after) = self.lines().join(&subject, cost, report)?;
        after.perform();
        let waiting = Waiting { coalescer: self, ticket };
        poll_fn(|context| waiting.poll(context)).await
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        lock(&self.0)
    }

    /// Changes the lines, and does the rest once the lock is free.
    fn change(&self, change: impl FnOnce(&mut Lines) -> After) {
        let after = change(&mut self.lines());
        after.perform();
    }
}

/// One caller in a line.
struct Waiting<'a> {
    coalescer: &'a Coalescer,
    ticket: usize,
}

impl Waiting<'_> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Decision, Error>> {
        loop {
            // What was there before is dropped here, without the lock.
            let mut waker = Some(context.waker().clone());
            let turn = self.coalescer.lines().turn(self.ticket, &mut waker);
            let (call, mut sending, bell) = match turn {
                Turn::Decided(result) => return Poll::Ready(result),
                Turn::Wait => return Poll::Pending,
                Turn::Drive(call, sending, bell) => (call, sending, bell),
            };
            let mut context = Context::from_waker(&bell);
            match catch_unwind(AssertUnwindSafe(|| sending.as_mut().poll(&mut context))) {
                Ok(Poll::Pending) => {
                    let mut lines = self.coalescer.lines();
                    let (after, again) = lines.put_back(call, self.ticket, sending, &mut waker);
                    drop(lines);
                    after.perform();
                    if !again {
                        return Poll::Pending;
                    }
                }
                Ok(Poll::Ready(outcomes)) => {
                    self.coalescer.change(|lines| lines.finish(call, outcomes));
                }
                Err(panic) => {
                    // The others are not to wait for it for ever.
                    self.coalescer.change(|lines| lines.fail(call));
                    resume_unwind(panic);
                }
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.coalescer.change(|lines| lines.leave(self.ticket));
    }
}

/// Wakes the waiters for a call when it can go on.
struct Bell {
    coalescer: Weak<Coalescer>,
    call: usize,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Otherwise nobody is left to wait.
        if let Some(coalescer) = self.coalescer.upgrade() {
            coalescer.change(|lines| lines.ring(self.call));
        }
    }
}

impl fmt::Debug for Coalescer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().told().fmt(f)
    }
}
