//! The task that puts requests into calls: it runs while there are any. Each executor has one of its own, so that
//! callers depend on no other executor.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::poll_fn;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use foldhash::quality::RandomState;
use futures_channel::oneshot;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use lockage_core::{AcquireEach, Decision, MAX_COSTS};
use slab::Slab;

use super::waiter::{Outcome, Waiter, answer_all, unexpected};
use super::{CoalescingStats, Subject};
use crate::error::{Error, QueueFull, StoreError};
use crate::limiter::circuit_breaker::{Report, is_answered};
use crate::runtime::Executor;
use crate::sync::{Mutex, MutexGuard, lock};

/// A call, with an outcome for each of its keys.
pub(super) type Sending = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send>>;

/// Makes a call of its keys and the requests for each.
pub(super) type Dispatch = dyn Fn(Vec<(Arc<Subject>, AcquireEach)>) -> Sending + Send + Sync;

/// How much may be in flight at one time.
#[derive(Clone, Copy)]
pub(super) struct Capacity {
    /// In a call.
    pub(super) keys: usize,
    pub(super) calls: usize,
}

/// The number of keys that fill a call before a concurrent one is made: while a server decides one call, its client
/// makes the other.
const FEWEST_KEYS: usize = 8;

/// Requests that no driver has taken on yet. Its lock is held for a look, and never while a task is woken, polled or
/// dropped.
pub(super) struct Queue {
    asked: Mutex<Asked>,
    max_waiting: usize,
}

#[derive(Default)]
struct Asked {
    /// The executors on which a driver runs, or is about to.
    inboxes: BTreeMap<Executor, Inbox>,
    stats: CoalescingStats,
}

/// The requests of one executor's callers, until its driver takes them.
#[derive(Default)]
struct Inbox {
    requests: Vec<(Subject, Waiter)>,
    /// Whether a caller has left before its answer.
    has_left: bool,
    /// The driver's waker, while it waits.
    waker: Option<Waker>,
    /// Whether it waits for requests, and not only for callers that leave.
    has_capacity: bool,
}

/// The driver that a caller has to wake or start, so that its request is sent.
pub(super) enum Wake {
    Nothing,
    Driver(Waker),
    NewDriver,
}

impl Queue {
    pub(super) fn new(max_waiting: usize) -> Self {
        Queue { asked: Mutex::default(), max_waiting }
    }

    pub(super) fn stats(&self) -> CoalescingStats {
        self.asked().stats
    }

    /// Accepts a request, which is sent on this executor.
    pub(super) fn ask(
        &self,
        here: Executor,
        subject: Subject,
        cost: u64,
        report: Option<Report>,
        answer: oneshot::Sender<Result<Decision, Error>>,
    ) -> Result<Wake, QueueFull> {
        let mut asked = self.asked();
        if asked.stats.waiting == self.max_waiting {
            asked.stats.refused += 1;
            return Err(QueueFull { max_waiting: self.max_waiting });
        }
        asked.stats.waiting += 1;
        asked.stats.requests += 1;
        let waiter = Waiter { cost, report, is_sent: false, answer: Some(answer) };
        let mut is_driven = true;
        let inbox = asked.inboxes.entry(here).or_insert_with(|| {
            is_driven = false;
            Inbox::default()
        });
        inbox.requests.push((subject, waiter));
        if !is_driven {
            return Ok(Wake::NewDriver);
        }
        let waker = if inbox.has_capacity { inbox.waker.take() } else { None };
        Ok(waker.map_or(Wake::Nothing, Wake::Driver))
    }

    /// Records that a caller on this executor has left, with its answer or before.
    pub(super) fn leave(&self, here: Executor, is_answered: bool) {
        let mut asked = self.asked();
        asked.stats.waiting -= 1;
        if is_answered {
            return;
        }
        let Some(inbox) = asked.inboxes.get_mut(&here) else { return };
        inbox.has_left = true;
        let waker = inbox.waker.take();
        drop(asked);
        waker.into_iter().for_each(Waker::wake);
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        lock(&self.asked)
    }
}

/// Puts requests into calls. Each key has one call in flight at a time, in the order of its requests; keys go in the
/// order in which they come.
pub(super) struct Driver {
    queue: Arc<Queue>,
    here: Executor,
    capacity: Capacity,
    dispatch: Arc<Dispatch>,
    /// The queue of each key that has requests or a call in flight.
    keys: Slab<KeyQueue>,
    /// The index of each key's queue.
    by_subject: HashMap<Arc<Subject>, usize, RandomState>,
    /// The keys with requests and no call in flight.
    ready: VecDeque<usize>,
    /// The waiters of each call.
    in_flight: Slab<Call>,
    calls: FuturesUnordered<Numbered>,
    /// Whether it ended by itself: callers may have started another one since.
    has_ended: bool,
}

struct KeyQueue {
    subject: Arc<Subject>,
    /// The waiters that are in no call.
    waiters: VecDeque<Waiter>,
}

struct Call {
    /// The waiters of each of its keys.
    waiters: Vec<(usize, VecDeque<Waiter>)>,
    /// One for each circuit breaker of its waiters.
    reports: Vec<Report>,
    end: AbortHandle,
}

/// A call with its number. Its outcome is `None` if it panicked or was given up.
type Numbered = Pin<Box<dyn Future<Output = (usize, Option<Vec<Outcome>>)> + Send>>;

impl Driver {
    pub(super) fn new(
        queue: Arc<Queue>,
        here: Executor,
        capacity: Capacity,
        dispatch: Arc<Dispatch>,
    ) -> Self {
        let (keys, by_subject, ready, in_flight, calls) = Default::default();
        let has_ended = false;
        Driver {
            queue,
            here,
            capacity,
            dispatch,
            keys,
            by_subject,
            ready,
            in_flight,
            calls,
            has_ended,
        }
    }

    /// Runs until no request is left, and nothing is in flight.
    pub(super) async fn run(mut self) {
        loop {
            // All tasks that can ask now do so before the next call is made.
            yield_now().await;
            if !self.take_requests() {
                return;
            }
            self.give_up_abandoned();
            self.begin_calls();
            if let Some((number, outcomes)) = poll_fn(|context| self.poll(context)).await {
                self.finish(number, outcomes);
            }
        }
    }

    /// Takes the new requests. Returns `false` if nothing is left to do: the next caller starts another driver.
    fn take_requests(&mut self) -> bool {
        let mut asked = self.queue.asked();
        let inbox = asked.inboxes.entry(self.here).or_default();
        let requests = mem::take(&mut inbox.requests);
        if requests.is_empty() && self.keys.is_empty() {
            let left = asked.inboxes.remove(&self.here);
            drop(asked);
            drop(left);
            self.has_ended = true;
            return false;
        }
        drop(asked);
        for (subject, waiter) in requests {
            let key = match self.by_subject.get(&subject) {
                Some(key) => *key,
                None => self.open(Arc::new(subject)),
            };
            self.keys[key].waiters.push_back(waiter);
        }
        true
    }

    /// Opens the queue of a key, and returns its index.
    fn open(&mut self, subject: Arc<Subject>) -> usize {
        let queue = KeyQueue { subject: Arc::clone(&subject), waiters: VecDeque::new() };
        let key = self.keys.insert(queue);
        self.by_subject.insert(subject, key);
        self.ready.push_back(key);
        key
    }

    /// Drops calls without any waiting caller.
    fn give_up_abandoned(&mut self) {
        if !mem::take(&mut self.queue.asked().inboxes.entry(self.here).or_default().has_left) {
            return;
        }
        for (_, call) in &self.in_flight {
            let mut waiters = call.waiters.iter().flat_map(|(_, waiters)| waiters);
            if waiters.all(Waiter::has_left) {
                call.end.abort();
            }
        }
    }

    /// Begins calls, up to the capacity. A call for many keys begins alone, and is on its way before the next one follows:
    /// a server that gets both at once answers both at once.
    fn begin_calls(&mut self) {
        while self.in_flight.len() < self.capacity.calls && !self.ready.is_empty() {
            let (mut asked, mut joined, mut reports) = (Vec::new(), Vec::new(), Vec::new());
            let mut left = MAX_COSTS;
            let free = self.capacity.calls - self.in_flight.len();
            let keys = self.ready.len().div_ceil(free).max(FEWEST_KEYS).min(self.capacity.keys);
            while joined.len() < keys && left > 0 {
                let Some(key) = self.ready.pop_front() else { break };
                let waiters = self.next_waiters(key, left, &mut reports);
                if waiters.is_empty() {
                    self.free(key);
                    continue;
                }
                left -= waiters.len();
                let subject = Arc::clone(&self.keys[key].subject);
                let costs = waiters.iter().map(|waiter| waiter.cost).collect();
                let command = AcquireEach::new(subject.source.nominal(), costs);
                asked.push((subject, command.expect("each was checked; they fit")));
                joined.push((key, waiters));
            }
            if joined.is_empty() {
                continue;
            }
            let mut queue = self.queue.asked();
            queue.stats.calls += 1;
            queue.stats.largest_call = queue.stats.largest_call.max(MAX_COSTS - left);
            drop(queue);
            let sending = AssertUnwindSafe((self.dispatch)(asked)).catch_unwind();
            let (sending, end) = futures_util::future::abortable(sending);
            let number = self.in_flight.insert(Call { waiters: joined, reports, end });
            self.calls.push(Box::pin(numbered(number, sending)));
            if self.capacity.keys > 1 {
                return;
            }
        }
    }

    /// Returns the first requests of a queue, without those whose callers have gone.
    fn next_waiters(
        &mut self,
        key: usize,
        most: usize,
        reports: &mut Vec<Report>,
    ) -> VecDeque<Waiter> {
        let KeyQueue { subject, waiters: queue } = &mut self.keys[key];
        queue.retain(|waiter| !waiter.has_left());
        let costs = queue.iter().map(|waiter| waiter.cost).take(most);
        let count = AcquireEach::fitting(subject.source.limit().as_ref(), costs);
        let behind = queue.split_off(count);
        let mut waiters = mem::replace(queue, behind);
        for waiter in &mut waiters {
            waiter.is_sent = true;
            // One call is one failure, however many are in it.
            reports.extend(waiter.report.take().filter(|report| !reports.contains(report)));
        }
        waiters
    }

    /// Waits for a call to end, or for something to do.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Option<Vec<Outcome>>)>> {
        if let Poll::Ready(Some(end)) = self.calls.poll_next_unpin(context) {
            return Poll::Ready(Some(end));
        }
        let mut asked = self.queue.asked();
        let inbox = asked.inboxes.entry(self.here).or_default();
        inbox.has_capacity = self.in_flight.len() < self.capacity.calls;
        let is_ready = !inbox.requests.is_empty() || !self.ready.is_empty();
        let is_asked = inbox.has_left || inbox.has_capacity && is_ready;
        if is_asked || self.in_flight.is_empty() {
            return Poll::Ready(None);
        }
        let before = inbox.waker.replace(context.waker().clone());
        drop(asked);
        drop(before);
        Poll::Pending
    }

    fn finish(&mut self, number: usize, outcomes: Option<Vec<Outcome>>) {
        let call = self.in_flight.remove(number);
        let panicked = || Err(StoreError::Unknown("the call panicked".into()).into());
        if let Some(outcomes) = &outcomes {
            // An answer for one key shows that the store is reachable.
            let outcome = outcomes.iter().find(|it| is_answered(it)).or(outcomes.first());
            let reports = call.reports.iter();
            reports.for_each(|report| outcome.into_iter().for_each(|it| report.call_ended(it)));
        }
        let mut outcomes = outcomes.map(Vec::into_iter);
        for (key, waiters) in call.waiters {
            answer_all(
                waiters,
                match &mut outcomes {
                    Some(outcomes) => outcomes.next().unwrap_or_else(|| Err(unexpected())),
                    None => panicked(),
                },
            );
            self.free(key);
        }
    }

    /// Frees a queue whose call has ended.
    fn free(&mut self, key: usize) {
        if self.keys[key].waiters.is_empty() {
            self.by_subject.remove(&self.keys.remove(key).subject);
        } else {
            self.ready.push_back(key);
        }
    }
}

impl Drop for Driver {
    /// If the runtime ends, waiting callers get an error, and the next one starts another driver.
    fn drop(&mut self) {
        if !self.has_ended {
            let left = self.queue.asked().inboxes.remove(&self.here);
            drop(left);
        }
    }
}

async fn numbered<E>(
    number: usize,
    sending: Abortable<impl Future<Output = Result<Vec<Outcome>, E>>>,
) -> (usize, Option<Vec<Outcome>>) {
    (number, sending.await.ok().and_then(Result::ok))
}

/// Lets every other task that can go on do so.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| match mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
