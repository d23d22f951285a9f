//! Concurrent requests for one key as one call.
//!
//! Whoever asks for a key while a call for it is in flight stands in the key's line. When the call ends, the
//! first [`MAX_COSTS`](lockage_core::MAX_COSTS) of those who stand there are the next one, in the order in
//! which they came. Nothing is spawned: the call in flight is polled by anyone in the line, those who wait
//! for a later call among them, so that it depends on no single caller, who may be dropped or, alive,
//! not be polled again. All are woken where it can go on, and at its end.
//!
//! That is more than a future that is shared by its riders: `futures_util`'s `Shared` is polled by these alone,
//! and loses a wake-up where the one who polls it is woken meanwhile and then dropped.

mod lines;
#[cfg(all(test, loom))]
mod loom_tests;

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use lockage_core::flow::Route;
use lockage_core::{AcquireEach, ConfigError, Decision};

use super::Limiter;
use super::away::Away;
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::store::Store;
use crate::sync::{Mutex, MutexGuard, lock};
use lines::{After, Lines, Report, Turn};

/// What a [`ConfigError::Conflict`] is about.
pub(super) const REQUEST_IDS: &str = "request ids";
pub(super) const COALESCING: &str = "coalescing";

impl<S: Store + Clone + 'static> Limiter<S> {
    /// Puts the requests that come in for one id while a call for it is in flight into one next call, in
    /// the order in which they came: at most [`MAX_COSTS`](lockage_core::MAX_COSTS), and the others into
    /// those after it. Each caller gets exactly the decision that it would have got by itself. A
    /// request that finds no call in flight is sent at once.
    ///
    /// It is for [`Limiter::try_acquire`] and `acquire`; all others go by themselves and do not queue, and so
    /// does an `acquire` that waits for its turn in a [`LeakyBucket`](crate::LeakyBucket). At most
    /// `max_waiting` callers (at least 1) wait for a call in flight to end, for all ids together; one more
    /// gets [`Error::QueueFull`], also where a policy stands in for an absent store, since the store is not
    /// away. Clones share the queue. Callers that block have nothing like it.
    ///
    /// On a [`Timed`](crate::Timed) store the one who waits has an answer within two timeouts: that of the
    /// call in flight, and its own. There is one more for each thousand who wait for the same id before it.
    ///
    /// Dropped while it waits for the call in flight to end, a request is not sent. Dropped later, it may be
    /// charged: the call goes on for the others, and is dropped with the last of them. An error is
    /// every caller's whose request was in the call; its cause is behind
    /// [`source`](std::error::Error::source), as it is shared. To [`Limiter::when_away`] it is one failure,
    /// and each caller gets what the policy says.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// use std::time::Duration;
    /// use lockage::runtime::Tokio;
    /// use lockage::{Limiter, Timed};
    /// # use lockage_memory::MemoryStore;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// # let store = MemoryStore::new();
    /// let store = Timed::new(store, Tokio, Duration::from_millis(250));
    /// let limiter = Limiter::new(store, "token-bucket 1000/s burst 200".parse()?)
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
    pub fn with_coalescing(self, max_waiting: usize) -> Result<Self, ConfigError> {
        if max_waiting == 0 {
            return Err(ConfigError::Zero { what: "number of callers who may wait" });
        }
        if self.ids.is_some() {
            return Err(ConfigError::Conflict { what: COALESCING, with: REQUEST_IDS });
        }
        let (store, limit) = (Arc::new(self.store.clone()), self.limit);
        let lines = Lines::new(max_waiting, move |key, costs, reports| {
            let store = Arc::clone(&store);
            Box::pin(async move {
                let command = AcquireEach::new(limit, costs).expect("each was checked; they fit");
                let result = store.execute(&key, &command).await;
                reports.iter().for_each(|report| report.away.report(report.route, &result));
                result
            })
        });
        Ok(Limiter { coalescer: Some(Arc::new(Coalescer(Mutex::new(lines)))), ..self })
    }
}

impl<S> Limiter<S> {
    /// What coalescing has come to so far; nothing without [`Limiter::with_coalescing`].
    pub fn coalescing(&self) -> Option<Coalescing> {
        self.coalescer.as_ref().map(|coalescer| coalescer.lines().told())
    }
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

/// The lines of one limiter. Its lock is held for a look at a line, and never while a call is polled or
/// dropped, or anybody is woken.
pub(super) struct Coalescer(Mutex<Lines>);

impl Coalescer {
    /// Decides one request, or has the policy for an absent store decide it.
    pub(super) async fn decide(
        self: &Arc<Self>,
        key: Key,
        cost: u64,
        away: Option<&Arc<Away>>,
    ) -> Result<Decision, Error> {
        let Some(away) = away else {
            return self.wait(&key, cost, None).await;
        };
        let route = away.route();
        if route == Route::Away {
            return Ok(away.standby().acquire_one(&key, cost)?);
        }
        let report = Report { away: Arc::clone(away), route };
        match self.wait(&key, cost, Some(report)).await {
            Err(Error::Store(error)) if error.is_absence() => {
                Ok(away.standby().acquire_one(&key, cost)?)
            }
            decided => decided,
        }
    }

    async fn wait(
        self: &Arc<Self>,
        key: &Key,
        cost: u64,
        report: Option<Report>,
    ) -> Result<Decision, Error> {
        let bell = || Waker::from(Arc::new(Bell { coalescer: Arc::clone(self), key: key.clone() }));
        let ticket = self.lines().join(key, cost, report, bell)?;
        let waiting = Waiting { coalescer: self, key, ticket };
        Ok(poll_fn(|context| waiting.poll(context)).await?)
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
    key: &'a Key,
    ticket: u64,
}

impl Waiting<'_> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Decision, StoreError>> {
        loop {
            // What was there before is dropped here, without the lock.
            let mut waker = Some(context.waker().clone());
            let turn = self.coalescer.lines().turn(self.key, self.ticket, &mut waker);
            let (mut sending, bell) = match turn {
                Turn::Decided(result) => return Poll::Ready(result),
                Turn::Wait => return Poll::Pending,
                Turn::Drive(sending, bell) => (sending, bell),
            };
            let mut context = Context::from_waker(&bell);
            match catch_unwind(AssertUnwindSafe(|| sending.as_mut().poll(&mut context))) {
                Ok(Poll::Pending) => {
                    let put = |lines: &mut Lines| {
                        lines.put_back(self.key, self.ticket, sending, &mut waker)
                    };
                    self.coalescer.change(put);
                    return Poll::Pending;
                }
                Ok(Poll::Ready(result)) => {
                    self.coalescer.change(|lines| lines.finish(self.key, result));
                }
                Err(panic) => {
                    // The others are not to wait for it for ever.
                    let lost = StoreError::Unknown("the call panicked".into());
                    self.coalescer.change(|lines| lines.finish(self.key, Err(lost)));
                    resume_unwind(panic);
                }
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.coalescer.change(|lines| lines.leave(self.key, self.ticket));
    }
}

/// Wakes a line when its call can go on.
struct Bell {
    coalescer: Arc<Coalescer>,
    key: Key,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.coalescer.change(|lines| lines.ring(&self.key));
    }
}

impl fmt::Debug for Coalescer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().told().fmt(f)
    }
}
