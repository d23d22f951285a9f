//! The task that puts requests into calls: it runs for as long as there are any. Each executor has one of its own, so that
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
use lockage_core::{AcquireEach, Decision, MAX_COSTS, ReplyError};
use slab::Slab;

use super::{Coalescing, QueueFull, Subject};
use crate::error::{Error, StoreError};
use crate::limiter::circuit_breaker::OwnedReport;
use crate::runtime::Executor;
use crate::sync::{Mutex, MutexGuard, lock};

/// The outcome of the requests for one key.
pub(super) type Outcome = Result<Vec<Decision>, Error>;

/// A call, with an outcome for each of its keys.
pub(super) type Sending = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send>>;

/// Makes a call of its keys and what is asked for each, which reports what came of it.
pub(super) type Dispatch =
    dyn Fn(Vec<(Arc<Subject>, AcquireEach)>, Vec<OwnedReport>) -> Sending + Send + Sync;

/// How much may be in flight at one time.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// In a call.
    pub(super) keys: usize,
    pub(super) calls: usize,
}

/// So many keys fill a call before another one is made beside it: while a server decides one call, its client makes the
/// other.
const FEWEST_KEYS: usize = 8;

/// A request that has no answer yet. If it is dropped without one, that is its answer.
pub(super) struct Rider {
    cost: u64,
    report: Option<OwnedReport>,
    is_sent: bool,
    answer: Option<oneshot::Sender<Result<Decision, Error>>>,
}

impl Rider {
    fn answer(mut self, told: Result<Decision, Error>) {
        if let Some(answer) = self.answer.take() {
            // It may have gone.
            _ = answer.send(told);
        }
    }

    fn has_left(&self) -> bool {
        self.answer.as_ref().is_none_or(oneshot::Sender::is_canceled)
    }
}

impl Drop for Rider {
    fn drop(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        let cause = "the runtime of the task that sends requests has ended".into();
        let told =
            if self.is_sent { StoreError::Unknown(cause) } else { StoreError::NotDone(cause) };
        _ = answer.send(Err(told.into()));
    }
}

/// Requests that no driver has taken on yet. Its lock is held for a look, and never while a task is woken, polled or
/// dropped.
pub(super) struct Queue {
    asked: Mutex<Asked>,
    max_waiting: usize,
}

#[derive(Default)]
struct Asked {
    /// The executors on which a driver runs, or is about to.
    lanes: BTreeMap<Executor, Lane>,
    told: Coalescing,
}

/// What the callers of one executor leave to its driver.
#[derive(Default)]
struct Lane {
    requests: Vec<(Subject, Rider)>,
    /// Whether a caller has left before its answer.
    has_left: bool,
    /// The driver's, where it waits.
    waker: Option<Waker>,
    /// Whether it waits for requests, and not only for callers that leave.
    has_room: bool,
}

/// Whom a caller has to call.
pub(super) enum Ring {
    Nobody,
    Wake(Waker),
    Start,
}

impl Queue {
    pub(super) fn new(max_waiting: usize) -> Self {
        Queue { asked: Mutex::default(), max_waiting }
    }

    pub(super) fn told(&self) -> Coalescing {
        self.asked().told
    }

    /// Takes a request on, which is sent on this executor.
    pub(super) fn ask(
        &self,
        here: Executor,
        subject: Subject,
        cost: u64,
        report: Option<OwnedReport>,
        answer: oneshot::Sender<Result<Decision, Error>>,
    ) -> Result<Ring, QueueFull> {
        let mut asked = self.asked();
        if asked.told.waiting == self.max_waiting {
            asked.told.refused += 1;
            return Err(QueueFull { max_waiting: self.max_waiting });
        }
        asked.told.waiting += 1;
        asked.told.requests += 1;
        let rider = Rider { cost, report, is_sent: false, answer: Some(answer) };
        let mut is_driven = true;
        let lane = asked.lanes.entry(here).or_insert_with(|| {
            is_driven = false;
            Lane::default()
        });
        lane.requests.push((subject, rider));
        if !is_driven {
            return Ok(Ring::Start);
        }
        let waker = if lane.has_room { lane.waker.take() } else { None };
        Ok(waker.map_or(Ring::Nobody, Ring::Wake))
    }

    /// A caller goes that asked on this executor, with its answer or before.
    pub(super) fn leave(&self, here: Executor, is_told: bool) {
        let mut asked = self.asked();
        asked.told.waiting -= 1;
        if is_told {
            return;
        }
        let Some(lane) = asked.lanes.get_mut(&here) else { return };
        lane.has_left = true;
        let waker = lane.waker.take();
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
    room: Room,
    dispatch: Arc<Dispatch>,
    /// The line of each key that has requests or a call in flight.
    lines: Slab<Line>,
    /// Where it is.
    places: HashMap<Arc<Subject>, usize, RandomState>,
    /// The lines with requests and no call in flight.
    ready: VecDeque<usize>,
    /// The requests in each call.
    seats: Slab<Call>,
    calls: FuturesUnordered<Numbered>,
    /// Whether it came to its end by itself: callers may have started another one since.
    has_ended: bool,
}

struct Line {
    subject: Arc<Subject>,
    /// Those that are in no call.
    riders: VecDeque<Rider>,
}

struct Call {
    /// The riders of each of its lines.
    seats: Vec<(usize, VecDeque<Rider>)>,
    end: AbortHandle,
}

/// A call with its number; nothing is its outcome where it panicked, or was given up.
type Numbered = Pin<Box<dyn Future<Output = (usize, Option<Vec<Outcome>>)> + Send>>;

impl Driver {
    pub(super) fn new(
        queue: Arc<Queue>,
        here: Executor,
        room: Room,
        dispatch: Arc<Dispatch>,
    ) -> Self {
        let (lines, places, ready, seats, calls) = Default::default();
        let has_ended = false;
        Driver { queue, here, room, dispatch, lines, places, ready, seats, calls, has_ended }
    }

    /// Ends when no request is left, and nothing is in flight.
    pub(super) async fn run(mut self) {
        loop {
            // All who can ask now do so before the next call is made.
            yield_now().await;
            if !self.take_on() {
                return;
            }
            self.give_up_abandoned();
            self.begin();
            if let Some((number, outcomes)) = poll_fn(|context| self.poll(context)).await {
                self.finish(number, outcomes);
            }
        }
    }

    /// Takes what was asked for; or nothing is left to do, and callers start another driver.
    fn take_on(&mut self) -> bool {
        let mut asked = self.queue.asked();
        let lane = asked.lanes.entry(self.here).or_default();
        let requests = mem::take(&mut lane.requests);
        if requests.is_empty() && self.lines.is_empty() {
            let left = asked.lanes.remove(&self.here);
            drop(asked);
            drop(left);
            self.has_ended = true;
            return false;
        }
        drop(asked);
        for (subject, rider) in requests {
            let place = match self.places.get(&subject) {
                Some(place) => *place,
                None => self.open(Arc::new(subject)),
            };
            self.lines[place].riders.push_back(rider);
        }
        true
    }

    /// Opens the line of a key, and returns where it is.
    fn open(&mut self, subject: Arc<Subject>) -> usize {
        let line = Line { subject: Arc::clone(&subject), riders: VecDeque::new() };
        let place = self.lines.insert(line);
        self.places.insert(subject, place);
        self.ready.push_back(place);
        place
    }

    /// Drops calls without any waiting caller.
    fn give_up_abandoned(&mut self) {
        if !mem::take(&mut self.queue.asked().lanes.entry(self.here).or_default().has_left) {
            return;
        }
        for (_, call) in &self.seats {
            let mut riders = call.seats.iter().flat_map(|(_, riders)| riders);
            if riders.all(Rider::has_left) {
                call.end.abort();
            }
        }
    }

    /// Begins calls, as far as there is room. Of calls for many keys it is one, which is on its way before the next one
    /// follows: a server that gets both at once answers both at once.
    fn begin(&mut self) {
        while self.seats.len() < self.room.calls && !self.ready.is_empty() {
            let (mut asked, mut seats, mut reports) = (Vec::new(), Vec::new(), Vec::new());
            let mut left = MAX_COSTS;
            let free = self.room.calls - self.seats.len();
            let keys = self.ready.len().div_ceil(free).max(FEWEST_KEYS).min(self.room.keys);
            while seats.len() < keys && left > 0 {
                let Some(place) = self.ready.pop_front() else { break };
                let riders = self.board(place, left, &mut reports);
                if riders.is_empty() {
                    self.free(place);
                    continue;
                }
                left -= riders.len();
                let subject = Arc::clone(&self.lines[place].subject);
                let costs = riders.iter().map(|rider| rider.cost).collect();
                let command = AcquireEach::new(subject.source.nominal(), costs);
                asked.push((subject, command.expect("each was checked; they fit")));
                seats.push((place, riders));
            }
            if seats.is_empty() {
                continue;
            }
            let mut queue = self.queue.asked();
            queue.told.calls += 1;
            queue.told.largest_call = queue.told.largest_call.max(MAX_COSTS - left);
            drop(queue);
            let sending = AssertUnwindSafe((self.dispatch)(asked, reports)).catch_unwind();
            let (sending, end) = futures_util::future::abortable(sending);
            let number = self.seats.insert(Call { seats, end });
            self.calls.push(Box::pin(numbered(number, sending)));
            if self.room.keys > 1 {
                return;
            }
        }
    }

    /// Returns the first requests of a line, without those whose callers have gone.
    fn board(
        &mut self,
        place: usize,
        most: usize,
        reports: &mut Vec<OwnedReport>,
    ) -> VecDeque<Rider> {
        let Line { subject, riders: line } = &mut self.lines[place];
        line.retain(|rider| !rider.has_left());
        let costs = line.iter().map(|rider| rider.cost).take(most);
        let count = AcquireEach::fitting(subject.source.limit().as_ref(), costs);
        let behind = line.split_off(count);
        let mut riders = mem::replace(line, behind);
        for rider in &mut riders {
            rider.is_sent = true;
            // One call is one failure, however many are in it.
            reports.extend(rider.report.take().filter(|report| !reports.contains(report)));
        }
        riders
    }

    /// Waits for a call to end, or for something to do.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Option<Vec<Outcome>>)>> {
        if let Poll::Ready(Some(end)) = self.calls.poll_next_unpin(context) {
            return Poll::Ready(Some(end));
        }
        let mut asked = self.queue.asked();
        let lane = asked.lanes.entry(self.here).or_default();
        lane.has_room = self.seats.len() < self.room.calls;
        let is_ready = !lane.requests.is_empty() || !self.ready.is_empty();
        let is_asked = lane.has_left || lane.has_room && is_ready;
        if is_asked || self.seats.is_empty() {
            return Poll::Ready(None);
        }
        let before = lane.waker.replace(context.waker().clone());
        drop(asked);
        drop(before);
        Poll::Pending
    }

    fn finish(&mut self, number: usize, outcomes: Option<Vec<Outcome>>) {
        let call = self.seats.remove(number);
        let panicked = || Err(StoreError::Unknown("the call panicked".into()).into());
        let mut outcomes = outcomes.map(Vec::into_iter);
        for (place, riders) in call.seats {
            hand_out(
                riders,
                match &mut outcomes {
                    Some(outcomes) => outcomes.next().unwrap_or_else(|| Err(unexpected())),
                    None => panicked(),
                },
            );
            self.free(place);
        }
    }

    /// Frees a line, whose call has ended.
    fn free(&mut self, place: usize) {
        if self.lines[place].riders.is_empty() {
            self.places.remove(&self.lines.remove(place).subject);
        } else {
            self.ready.push_back(place);
        }
    }
}

impl Drop for Driver {
    /// If the runtime ends, waiting callers are told, and the next one starts another driver.
    fn drop(&mut self) {
        if !self.has_ended {
            let left = self.queue.asked().lanes.remove(&self.here);
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

fn hand_out(riders: VecDeque<Rider>, outcome: Outcome) {
    match outcome {
        Ok(decisions) => {
            let mut decisions = decisions.into_iter();
            for rider in riders {
                rider.answer(decisions.next().ok_or_else(unexpected));
            }
        }
        Err(error) => {
            let again = shared(error);
            riders.into_iter().for_each(|rider| rider.answer(Err(again())));
        }
    }
}

/// Returns the error for each of several callers.
fn shared(error: Error) -> Box<dyn Fn() -> Error> {
    match error {
        Error::Store(error) => {
            let again = error.shared();
            Box::new(move || again().into())
        }
        Error::NoLimit => Box::new(|| Error::NoLimit),
        Error::NoClient => Box::new(|| Error::NoClient),
        other => {
            let cause = other.to_string();
            Box::new(move || StoreError::Unknown(cause.clone().into()).into())
        }
    }
}

fn unexpected() -> Error {
    StoreError::from(ReplyError::Unexpected).into()
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
