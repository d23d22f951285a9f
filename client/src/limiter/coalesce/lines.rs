//! Who stands in line for which key, and what is in flight for it. Without a lock, and nothing is polled,
//! woken or dropped here: [`After`] says what is to be.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

use lockage_core::flow::Route;
use lockage_core::{Decision, MAX_COSTS, ReplyError};

use super::{Coalescing, QueueFull};
use crate::error::StoreError;
use crate::key::Key;
use crate::limiter::away::Away;

type Outcome = Result<Vec<Decision>, StoreError>;

/// A call.
pub(super) type Sending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Makes a call of its costs, which reports what came of it.
type Dispatch = dyn Fn(Key, Vec<u64>, Vec<Report>) -> Sending + Send;

/// Whom to tell of the store's absence, and of what.
#[derive(Clone)]
pub(super) struct Report {
    pub(super) away: Arc<Away>,
    pub(super) route: Route,
}

/// The lines of all keys. There is one for each key that anybody waits for.
pub(super) struct Lines {
    dispatch: Box<Dispatch>,
    max_waiting: usize,
    lines: HashMap<Key, Line>,
    told: Coalescing,
}

/// Those who wait for one key, in the order in which they came. Where there is no call, nobody is queued.
struct Line {
    waiters: BTreeMap<u64, Waiter>,
    call: Option<Call>,
    bell: Waker,
}

struct Waiter {
    cost: u64,
    report: Option<Report>,
    waker: Option<Waker>,
    stage: Stage,
    result: Option<Result<Decision, StoreError>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It waits for the call in flight to end.
    Queued,
    /// It is the call's request at this index.
    Riding(usize),
    Decided,
}

struct Call {
    /// Nothing while somebody polls it.
    sending: Option<Sending>,
    /// How many wait for its outcome.
    riders: usize,
    /// It can go on, and nobody has polled it since.
    due: bool,
}

/// What a caller in the line is to do.
pub(super) enum Turn {
    Decided(Result<Decision, StoreError>),
    /// Poll the call, with this waker, and bring it back.
    Drive(Sending, Waker),
    Wait,
}

/// What is left to do once the lock is free, since it may come back for the lock.
#[derive(Default)]
#[must_use]
pub(super) struct After {
    /// Before anybody is woken for the next call.
    dropped: (Option<Call>, Option<Waiter>, Option<Line>),
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
        dispatch: impl Fn(Key, Vec<u64>, Vec<Report>) -> Sending + Send + 'static,
    ) -> Self {
        let (lines, told) = (HashMap::new(), Coalescing::default());
        Lines { dispatch: Box::new(dispatch), max_waiting, lines, told }
    }

    pub(super) fn told(&self) -> Coalescing {
        Coalescing { ids: self.lines.len(), ..self.told }
    }

    /// Takes a caller on, under the ticket that is returned.
    pub(super) fn join(
        &mut self,
        key: &Key,
        cost: u64,
        report: Option<Report>,
        bell: impl FnOnce() -> Waker,
    ) -> Result<u64, QueueFull> {
        let in_flight = self.lines.get(key).is_some_and(|line| line.call.is_some());
        if in_flight && self.told.waiting >= self.max_waiting {
            self.told.refused += 1;
            return Err(QueueFull { max_waiting: self.max_waiting });
        }
        self.told.requests += 1;
        self.told.waiting += 1;
        let ticket = self.told.requests;
        let waiter = Waiter { cost, report, waker: None, stage: Stage::Queued, result: None };
        let new = || Line { waiters: BTreeMap::new(), call: None, bell: bell() };
        self.lines.entry(key.clone()).or_insert_with(new).waiters.insert(ticket, waiter);
        if !in_flight {
            self.begin(key);
        }
        Ok(ticket)
    }

    /// What this caller is to do. Where it is to wait it is woken by `waker`, and gets the one before for it.
    pub(super) fn turn(&mut self, key: &Key, ticket: u64, waker: &mut Option<Waker>) -> Turn {
        let line = self.line(key);
        let waiter =
            line.waiters.get_mut(&ticket).expect("a caller is in the line until it leaves");
        if let Some(result) = waiter.result.take() {
            return Turn::Decided(result);
        }
        let due = line.call.as_mut().filter(|call| call.due);
        match due.and_then(|call| Some((call.sending.take()?, call))) {
            Some((sending, call)) => {
                call.due = false;
                Turn::Drive(sending, line.bell.clone())
            }
            None => {
                std::mem::swap(&mut waiter.waker, waker);
                Turn::Wait
            }
        }
    }

    /// Keeps a call that this caller has polled, and that is not at its end. It waits now, as after
    /// [`turn`](Self::turn).
    pub(super) fn put_back(
        &mut self,
        key: &Key,
        ticket: u64,
        sending: Sending,
        waker: &mut Option<Waker>,
    ) -> After {
        let line = self.line(key);
        let waiter =
            line.waiters.get_mut(&ticket).expect("a caller is in the line until it leaves");
        std::mem::swap(&mut waiter.waker, waker);
        let call = line.call.as_mut().expect("a call in flight stays until its end");
        call.sending = Some(sending);
        let wake = match call.due {
            // It rang meanwhile, when nobody could have polled it.
            true => line.wakers(),
            false => Vec::new(),
        };
        self.drop_abandoned(key, After { wake, ..After::default() })
    }

    /// The call in flight is at its end.
    pub(super) fn finish(&mut self, key: &Key, outcome: Outcome) -> After {
        let line = self.line(key);
        line.call = None;
        line.hand_out(outcome);
        let wake = line.wakers();
        self.begin(key);
        After { wake, ..After::default() }
    }

    /// The call in flight can go on.
    pub(super) fn ring(&mut self, key: &Key) -> After {
        let Some(line) = self.lines.get_mut(key) else { return After::default() };
        let Some(call) = &mut line.call else { return After::default() };
        call.due = true;
        let wake = match call.sending {
            Some(_) => line.wakers(),
            None => Vec::new(),
        };
        After { wake, ..After::default() }
    }

    /// A caller goes, with or without its decision.
    pub(super) fn leave(&mut self, key: &Key, ticket: u64) -> After {
        let line = self.lines.get_mut(key).expect("a line is kept while anybody is in it");
        let waiter = line.waiters.remove(&ticket).expect("a caller leaves once");
        match (waiter.stage, &mut line.call) {
            (Stage::Queued, _) => self.told.waiting -= 1,
            (Stage::Riding(_), Some(call)) => call.riders -= 1,
            _ => {}
        }
        let mut after = After { dropped: (None, Some(waiter), None), ..After::default() };
        if line.waiters.is_empty() {
            after.dropped.2 = self.lines.remove(key);
            return after;
        }
        self.drop_abandoned(key, after)
    }

    /// Drops a call whose outcome nobody waits for any more, and begins the next. One that is being polled
    /// comes back here.
    fn drop_abandoned(&mut self, key: &Key, mut after: After) -> After {
        let line = self.line(key);
        let abandoned = line.call.take_if(|call| call.riders == 0 && call.sending.is_some());
        if abandoned.is_some() {
            after.wake.append(&mut line.wakers());
            after.dropped.0 = abandoned;
            self.begin(key);
        }
        after
    }

    /// Begins the next call, where anybody waits for it.
    fn begin(&mut self, key: &Key) {
        let line = self.lines.get_mut(key).expect("a line is kept while anybody is in it");
        let (costs, reports) = line.seal();
        let riders = costs.len();
        if riders == 0 {
            return;
        }
        let sending = (self.dispatch)(key.clone(), costs, reports);
        line.call = Some(Call { sending: Some(sending), riders, due: true });
        self.told.waiting -= riders;
        self.told.calls += 1;
        self.told.largest_call = self.told.largest_call.max(riders);
    }

    fn line(&mut self, key: &Key) -> &mut Line {
        self.lines.get_mut(key).expect("a line is kept while anybody is in it")
    }
}

impl Line {
    /// Puts the first who are queued into a call.
    fn seal(&mut self) -> (Vec<u64>, Vec<Report>) {
        let (mut costs, mut reports) = (Vec::new(), Vec::<Report>::new());
        let queued = self.waiters.values_mut().filter(|waiter| waiter.stage == Stage::Queued);
        for waiter in queued.take(MAX_COSTS) {
            waiter.stage = Stage::Riding(costs.len());
            costs.push(waiter.cost);
            // One call is one failure, however many are in it.
            let new = |report: &Report| !reports.iter().any(|other| other.is_of(report));
            reports.extend(waiter.report.take().filter(new));
        }
        (costs, reports)
    }

    fn hand_out(&mut self, outcome: Outcome) {
        let outcome = outcome.map_err(Arc::new);
        for waiter in self.waiters.values_mut() {
            match waiter.stage {
                Stage::Queued => break,
                Stage::Decided => continue,
                Stage::Riding(index) => {
                    waiter.stage = Stage::Decided;
                    waiter.result = Some(match &outcome {
                        Ok(decisions) => decisions
                            .get(index)
                            .cloned()
                            .ok_or_else(|| ReplyError::Unexpected.into()),
                        Err(error) => Err(shared(error)),
                    });
                }
            }
        }
    }

    /// The wakers of all who have not been woken since they were last polled.
    fn wakers(&mut self) -> Vec<Waker> {
        self.waiters.values_mut().filter_map(|waiter| waiter.waker.take()).collect()
    }
}

impl Report {
    fn is_of(&self, other: &Report) -> bool {
        Arc::ptr_eq(&self.away, &other.away) && self.route == other.route
    }
}

/// The same error once more.
fn shared(error: &Arc<StoreError>) -> StoreError {
    let cause = || Box::new(SharedCause(Arc::clone(error)));
    match **error {
        StoreError::Record(error) => StoreError::Record(error),
        StoreError::NotDone(_) => StoreError::NotDone(cause()),
        StoreError::Unknown(_) => StoreError::Unknown(cause()),
    }
}

/// The cause of one call's error, for each who waited for it.
#[derive(Debug)]
struct SharedCause(Arc<StoreError>);

impl fmt::Display for SharedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            StoreError::NotDone(cause) | StoreError::Unknown(cause) => cause.fmt(f),
            StoreError::Record(error) => error.fmt(f),
        }
    }
}

impl Error for SharedCause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
