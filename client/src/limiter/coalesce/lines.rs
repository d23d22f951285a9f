//! Which callers stand in line for which key, and what is in flight. Without a lock, and nothing is polled, woken or
//! dropped here: [`After`] says what is to be.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

use lockage_core::{AcquireEach, Decision, MAX_COSTS, ReplyError};
use slab::Slab;

use super::{Coalescing, QueueFull, Subject};
use crate::error::{Error, StoreError};
use crate::limiter::circuit_breaker::OwnedReport;

/// What became of the requests for one key.
type Outcome = Result<Vec<Decision>, Error>;

/// A call, with an outcome for each of its keys.
pub(super) type Sending = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send>>;

/// Makes a call of its keys and their costs, which reports what came of it.
type Dispatch = dyn Fn(Vec<(Arc<Subject>, Vec<u64>)>, Vec<OwnedReport>) -> Sending + Send;

/// How many keys go into one call, and how many calls there are at one time.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) keys: usize,
    pub(super) calls: usize,
}

/// The lines of all keys. There is one for each key that anybody waits for; no key is in two calls at once.
pub(super) struct Lines {
    dispatch: Box<Dispatch>,
    /// Makes what wakes the waiters for the call of this number.
    bell: Box<dyn Fn(usize) -> Waker + Send>,
    /// By the numbers that there have been.
    bells: Vec<Waker>,
    room: Room,
    max_waiting: usize,
    by_key: HashMap<Arc<Subject>, usize>,
    lines: Slab<Line>,
    waiters: Slab<Waiter>,
    calls: Slab<Call>,
    /// The lines that wait for room, which there is none for: the first goes next.
    ready: VecDeque<usize>,
    told: Coalescing,
}

/// Those who ask for one key.
struct Line {
    key: Arc<Subject>,
    /// Those who are in no call yet, in the order in which they came.
    queue: VecDeque<usize>,
    call: Option<usize>,
}

struct Waiter {
    line: usize,
    cost: u64,
    report: Option<OwnedReport>,
    waker: Option<Waker>,
    stage: Stage,
}

enum Stage {
    Queued,
    /// In this place of this key of a call.
    Riding {
        call: usize,
        seat: usize,
        place: usize,
    },
    /// Until it has been told.
    Decided(Option<Result<Decision, Error>>),
}

struct Call {
    /// Nothing while somebody polls it.
    sending: Option<Sending>,
    /// How many wait for its outcome.
    riders: usize,
    /// It can go on, and nobody has polled it since.
    due: bool,
    seats: Vec<Seat>,
}

/// Of one key, those who are in a call; nothing in the place of who has left.
struct Seat {
    line: usize,
    riders: Vec<Option<usize>>,
}

/// What a caller in the line is to do.
pub(super) enum Turn {
    Decided(Result<Decision, Error>),
    /// Poll this call, with this waker, and bring it back.
    Drive(usize, Sending, Waker),
    Wait,
}

/// What is left to do once the lock is free, since it may come back for the lock.
#[derive(Default)]
#[must_use]
pub(super) struct After {
    /// Before anybody is woken for the next call.
    dropped: (Option<Call>, Option<Waiter>),
    wake: Vec<Waker>,
}

impl After {
    pub(super) fn perform(self) {
        drop(self.dropped);
        self.wake.into_iter().for_each(Waker::wake);
    }
}

impl Lines {
    pub(super) fn new(
        max_waiting: usize,
        room: Room,
        bell: impl Fn(usize) -> Waker + Send + 'static,
        dispatch: impl Fn(Vec<(Arc<Subject>, Vec<u64>)>, Vec<OwnedReport>) -> Sending + Send + 'static,
    ) -> Self {
        Lines {
            dispatch: Box::new(dispatch),
            bell: Box::new(bell),
            bells: Vec::new(),
            room,
            max_waiting,
            by_key: HashMap::new(),
            lines: Slab::new(),
            waiters: Slab::new(),
            calls: Slab::new(),
            ready: VecDeque::new(),
            told: Coalescing::default(),
        }
    }

    pub(super) fn told(&self) -> Coalescing {
        Coalescing { ids: self.lines.len(), ..self.told }
    }

    /// Takes a caller on, under the ticket that is returned.
    pub(super) fn join(
        &mut self,
        key: &Arc<Subject>,
        cost: u64,
        report: Option<OwnedReport>,
    ) -> Result<(usize, After), QueueFull> {
        let known = self.by_key.get(key).copied();
        let in_flight = known.is_some_and(|line| self.lines[line].call.is_some());
        let waits = in_flight || self.calls.len() >= self.room.calls;
        if waits && self.told.waiting >= self.max_waiting {
            self.told.refused += 1;
            return Err(QueueFull { max_waiting: self.max_waiting });
        }
        self.told.requests += 1;
        self.told.waiting += 1;
        let line = known.unwrap_or_else(|| {
            let line = Line { key: Arc::clone(key), queue: VecDeque::new(), call: None };
            let line = self.lines.insert(line);
            self.by_key.insert(Arc::clone(key), line);
            line
        });
        let waiter = Waiter { line, cost, report, waker: None, stage: Stage::Queued };
        let ticket = self.waiters.insert(waiter);
        let queue = &mut self.lines[line].queue;
        queue.push_back(ticket);
        if queue.len() == 1 && !in_flight {
            self.ready.push_back(line);
        }
        let mut after = After::default();
        self.begin(&mut after);
        Ok((ticket, after))
    }

    /// What this caller is to do. Where it is to wait it is woken by `waker`, and gets the one before for it.
    pub(super) fn turn(&mut self, ticket: usize, waker: &mut Option<Waker>) -> Turn {
        let waiter = &mut self.waiters[ticket];
        let call = match &mut waiter.stage {
            Stage::Decided(result) => {
                return Turn::Decided(result.take().expect("a decision is told once"));
            }
            Stage::Riding { call, .. } => Some(*call),
            Stage::Queued => self.lines[waiter.line].call,
        };
        let driven = match call {
            Some(call) => Some(call).filter(|&call| self.calls[call].can_be_driven()),
            // It waits for room, so for any of them.
            None => self.calls.iter().find(|(_, call)| call.can_be_driven()).map(|(call, _)| call),
        };
        if let Some(number) = driven {
            let call = &mut self.calls[number];
            call.due = false;
            let sending = call.sending.take().expect("it can be driven");
            return Turn::Drive(number, sending, self.bells[number].clone());
        }
        mem::swap(&mut waiter.waker, waker);
        Turn::Wait
    }

    /// Keeps a call that this caller has polled, and that is not at its end; and whether there is something else
    /// for the caller to do. Otherwise it waits now, as after [`turn`](Self::turn).
    pub(super) fn put_back(
        &mut self,
        number: usize,
        ticket: usize,
        sending: Sending,
        waker: &mut Option<Waker>,
    ) -> (After, bool) {
        let waiter = &self.waiters[ticket];
        // Of other calls, those that began or ended meanwhile may have found nobody to wake.
        let again = match waiter.stage {
            Stage::Decided(_) => true,
            Stage::Riding { call, .. } => call != number && self.calls[call].can_be_driven(),
            Stage::Queued => false,
        };
        if !again {
            mem::swap(&mut self.waiters[ticket].waker, waker);
        }
        let call = &mut self.calls[number];
        call.sending = Some(sending);
        let mut after = After::default();
        if call.due {
            // It rang meanwhile, when nobody could have polled it.
            after.wake = self.wakers(number);
        }
        self.drop_abandoned(number, &mut after);
        (after, again)
    }

    /// A call in flight is at its end.
    pub(super) fn finish(&mut self, number: usize, outcomes: Vec<Outcome>) -> After {
        let mut after = After::default();
        let call = self.calls.remove(number);
        let mut outcomes = outcomes.into_iter();
        for seat in &call.seats {
            let outcome = outcomes.next().unwrap_or_else(|| Err(unexpected()));
            self.hand_out(seat, outcome, &mut after.wake);
            self.free(seat.line);
        }
        after.dropped.0 = Some(call);
        self.begin(&mut after);
        after
    }

    /// A call in flight has panicked.
    pub(super) fn fail(&mut self, number: usize) -> After {
        let lost = || Err(StoreError::Unknown("the call panicked".into()).into());
        let outcomes = self.calls[number].seats.iter().map(|_| lost()).collect();
        self.finish(number, outcomes)
    }

    /// A call in flight can go on.
    pub(super) fn ring(&mut self, number: usize) -> After {
        let Some(call) = self.calls.get_mut(number) else { return After::default() };
        call.due = true;
        let wake = match call.sending {
            Some(_) => self.wakers(number),
            None => Vec::new(),
        };
        After { wake, ..After::default() }
    }

    /// A caller goes, with or without its decision.
    pub(super) fn leave(&mut self, ticket: usize) -> After {
        let waiter = self.waiters.remove(ticket);
        let mut after = After::default();
        match waiter.stage {
            Stage::Decided(_) => {}
            Stage::Queued => {
                self.told.waiting -= 1;
                let line = &mut self.lines[waiter.line];
                line.queue.retain(|other| *other != ticket);
                if line.queue.is_empty() && line.call.is_none() {
                    self.ready.retain(|other| *other != waiter.line);
                    self.remove(waiter.line);
                }
            }
            Stage::Riding { call: number, seat, place } => {
                let call = &mut self.calls[number];
                call.riders -= 1;
                call.seats[seat].riders[place] = None;
                self.drop_abandoned(number, &mut after);
            }
        }
        after.dropped.1 = Some(waiter);
        after
    }

    /// Drops a call whose outcome nobody waits for any more, and begins the next. One that is being polled
    /// comes back here.
    fn drop_abandoned(&mut self, number: usize, after: &mut After) {
        let call = &self.calls[number];
        if call.riders > 0 || call.sending.is_none() {
            return;
        }
        let call = self.calls.remove(number);
        call.seats.iter().for_each(|seat| self.free(seat.line));
        after.dropped.0 = Some(call);
        self.begin(after);
    }

    /// A line's call is over.
    fn free(&mut self, number: usize) {
        let line = &mut self.lines[number];
        line.call = None;
        match line.queue.is_empty() {
            true => self.remove(number),
            false => self.ready.push_back(number),
        }
    }

    fn remove(&mut self, line: usize) {
        let line = self.lines.remove(line);
        self.by_key.remove(&line.key);
    }

    /// Begins calls for those who are ready, as far as there is room.
    fn begin(&mut self, after: &mut After) {
        while self.calls.len() < self.room.calls && !self.ready.is_empty() {
            let number = self.calls.vacant_key();
            let (mut asked, mut seats, mut reports) = (Vec::new(), Vec::new(), Vec::new());
            let mut riders = 0;
            while asked.len() < self.room.keys && riders < MAX_COSTS {
                let Some(line) = self.ready.pop_front() else { break };
                let (costs, seat) =
                    self.board(number, seats.len(), line, MAX_COSTS - riders, &mut reports, after);
                riders += costs.len();
                asked.push((Arc::clone(&self.lines[line].key), costs));
                seats.push(seat);
            }
            let sending = Some((self.dispatch)(asked, reports));
            while self.bells.len() <= number {
                self.bells.push((self.bell)(self.bells.len()));
            }
            self.calls.insert(Call { sending, riders, due: true, seats });
            self.told.waiting -= riders;
            self.told.calls += 1;
            self.told.largest_call = self.told.largest_call.max(riders);
        }
    }

    /// Puts the first of a line into a call.
    fn board(
        &mut self,
        call: usize,
        seat: usize,
        number: usize,
        most: usize,
        reports: &mut Vec<OwnedReport>,
        after: &mut After,
    ) -> (Vec<u64>, Seat) {
        let line = &mut self.lines[number];
        line.call = Some(call);
        let waiting = line.queue.iter().map(|ticket| self.waiters[*ticket].cost);
        let count = AcquireEach::fitting(line.key.source.limit().as_ref(), waiting.take(most));
        let (mut costs, mut riders) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for ticket in line.queue.drain(..count) {
            let waiter = &mut self.waiters[ticket];
            waiter.stage = Stage::Riding { call, seat, place: costs.len() };
            costs.push(waiter.cost);
            riders.push(Some(ticket));
            // One call is one failure, however many are in it.
            reports.extend(waiter.report.take().filter(|report| !reports.contains(report)));
            after.wake.extend(waiter.waker.take());
        }
        (costs, Seat { line: number, riders })
    }

    fn hand_out(&mut self, seat: &Seat, outcome: Outcome, wake: &mut Vec<Waker>) {
        let (mut decisions, error) = match outcome {
            Ok(decisions) => (decisions.into_iter(), None),
            Err(error) => (Vec::new().into_iter(), Some(shared(error))),
        };
        for rider in &seat.riders {
            let decision = decisions.next();
            let Some(ticket) = *rider else { continue };
            let waiter = &mut self.waiters[ticket];
            waiter.stage = Stage::Decided(Some(match &error {
                Some(error) => Err(error()),
                None => decision.ok_or_else(unexpected),
            }));
            wake.extend(waiter.waker.take());
        }
    }

    /// The wakers of all waiters for this call that have not been woken since they were last polled.
    fn wakers(&mut self, number: usize) -> Vec<Waker> {
        let call = &self.calls[number];
        let lines = call.seats.iter().map(|seat| seat.line);
        // A waiter for room waits for any call.
        let full = self.calls.len() >= self.room.calls;
        let others = self.ready.iter().copied().filter(|_| full);
        let queued = lines.chain(others).flat_map(|line| self.lines[line].queue.iter().copied());
        let riders = call.seats.iter().flat_map(|seat| seat.riders.iter().copied().flatten());
        let mut wakers = Vec::new();
        for ticket in riders.chain(queued) {
            wakers.extend(self.waiters[ticket].waker.take());
        }
        wakers
    }
}

impl Call {
    fn can_be_driven(&self) -> bool {
        self.due && self.sending.is_some()
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
