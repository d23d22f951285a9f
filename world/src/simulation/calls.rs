//! The calls of the shipped store, from their callers to the server: the runs of each, and the
//! answers that its caller gets.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use lockage::StoreError;
use lockage_core::{
    AcquireAll, AnyCommand, AnyOutcome, CallTime, Command, Encoded, ScriptCall, ScriptId,
};

use super::judge::{Fault, Kind, fault};
use super::plan::{Plan, SECOND};
use super::rare::Rare;
use super::same::is_same;

/// A connection in doubt is replaced after a second at the earliest.
const RECONNECTED_US: u64 = 2 * SECOND;

/// The number of calls that may fail at any time, since a connection to several nodes is in doubt
/// only then.
const DOUBTS: u32 = 6;

thread_local! {
    /// The call whose future is polled.
    static CURRENT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Returns the call whose future is polled.
pub(super) fn current() -> Option<u64> {
    CURRENT.get()
}

/// All calls of a world. Clones share them.
#[derive(Clone)]
pub(super) struct Calls(Arc<Mutex<All>>);

struct All {
    calls: BTreeMap<u64, Made>,
    numbers: u64,
    fault: Option<Fault>,
    rare: Vec<Rare>,
    /// The time from which servers answer.
    well_us: u64,
    timeout_us: u64,
    /// Whether nothing is lost but connections that are idle.
    is_only_idle: bool,
    /// The ways to servers on which the latest calls from that time on have failed.
    failing: BTreeMap<Way, Failing>,
}

/// A life of a node, a server, and whether the call has many keys.
pub(super) type Way = (usize, u32, usize, bool);

struct Failing {
    since_us: u64,
    calls: u32,
}

struct Made {
    parts: Vec<Part>,
    /// The decision of which all parts are requests, if they are.
    together: Option<AcquireAll>,
    way: Way,
    began_us: u64,
    /// The number of requests with scripts, and of replies to them.
    sent: u32,
    replied: u32,
    /// The numbers of replicas that have acknowledged it.
    acknowledged: Vec<u32>,
    has_failed: bool,
}

struct Part {
    key: String,
    command: AnyCommand,
    /// The outcome of each run; `None` if the store refused it, or if only a part of the command
    /// ran.
    ran: Vec<Option<AnyOutcome>>,
    is_not_done: bool,
    /// Where its last reply has redirected it, and whether by `ASK`.
    redirected: Option<(usize, bool)>,
}

impl Calls {
    pub(super) fn new(plan: &Plan) -> Self {
        Calls(Arc::new(Mutex::new(All {
            calls: BTreeMap::new(),
            numbers: 0,
            fault: None,
            rare: Vec::new(),
            well_us: plan.sure_us(),
            timeout_us: plan.timeout_us,
            is_only_idle: plan.is_only_idle(),
            failing: BTreeMap::new(),
        })))
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one call of all these commands, and returns its number.
    pub(super) fn begin(
        &self,
        way: Way,
        each: impl Iterator<Item = (String, AnyCommand)>,
        began_us: u64,
    ) -> u64 {
        let mut all = self.all();
        all.numbers += 1;
        let number = all.numbers;
        let part = |(key, command)| Part {
            key,
            command,
            ran: Vec::new(),
            is_not_done: false,
            redirected: None,
        };
        let (parts, acknowledged) = (each.map(part).collect(), Vec::new());
        let made = Made {
            parts,
            together: None,
            way,
            began_us,
            sent: 0,
            replied: 0,
            acknowledged,
            has_failed: false,
        };
        all.calls.insert(number, made);
        number
    }

    /// All commands of a call are requests of one decision.
    pub(super) fn are_together(&self, number: u64, command: &AcquireAll) {
        let mut all = self.all();
        all.calls.get_mut(&number).expect("it began").together = Some(command.clone());
    }

    /// Returns the decision of which all commands of a call are requests.
    pub(super) fn together(&self, number: u64) -> Option<AcquireAll> {
        self.all().calls.get(&number)?.together.clone()
    }

    pub(super) fn saw(&self, rare: Rare) {
        self.all().rare.push(rare);
    }

    /// Returns the rare states since the last call.
    ///
    /// # Errors
    /// Returns the first fault found in a call.
    pub(super) fn take(&self) -> Result<Vec<Rare>, Fault> {
        let mut all = self.all();
        match all.fault.take() {
            Some(fault) => Err(fault),
            None => Ok(std::mem::take(&mut all.rare)),
        }
    }

    pub(super) fn fails(&self, kind: Kind, what: String) {
        self.all().fault.get_or_insert(Fault { kind, what });
    }

    /// Returns when its caller began.
    pub(super) fn began_us(&self, number: u64) -> Option<u64> {
        self.all().calls.get(&number).map(|made| made.began_us)
    }

    /// A request with a script is sent for the call, after `redirections` redirections.
    pub(super) fn sends(
        &self,
        number: u64,
        key: &str,
        (node, is_asking): (usize, bool),
        redirections: u8,
    ) {
        let mut all = self.all();
        let Some(made) = all.calls.get_mut(&number) else { return };
        made.sent += 1;
        let redirected = made.parts.iter().find(|part| part.key == key);
        let redirected = redirected.and_then(|part| part.redirected);
        if redirections > 0 && redirected != Some((node, is_asking)) {
            let what = format!(
                "a call of {key} was redirected to {redirected:?}, and goes to {node}, asking: {is_asking}"
            );
            all.fault.get_or_insert(Fault { kind: Kind::Untold, what });
        }
    }

    /// A reply to the call arrived, which may redirect it.
    pub(super) fn replied(&self, number: u64, key: &str, redirected: Option<(usize, bool)>) {
        let mut all = self.all();
        let Some(made) = all.calls.get_mut(&number) else { return };
        made.replied += 1;
        if redirected.is_some() {
            let parts = made.parts.iter_mut().filter(|part| part.key == key);
            parts.for_each(|part| part.redirected = redirected);
        }
    }

    /// Returns the command of a call that a server receives, and which of its parts it is.
    pub(super) fn find(
        &self,
        number: u64,
        key: &str,
        script: ScriptId,
        arguments: &[&[u8]],
    ) -> Option<(usize, AnyCommand)> {
        let all = self.all();
        let parts = all.calls.get(&number)?.parts.iter().enumerate();
        let is = |encoded: Encoded| {
            let call: ScriptCall = encoded.at(CallTime::Store);
            call.script() == script && call.arguments().eq(arguments.iter().copied())
        };
        // The least often run one of several equal parts is next.
        let mut found: Vec<_> = parts
            .filter(|(_, part)| part.key == key)
            .filter_map(|(index, part)| {
                let is_text = |command: &AnyCommand| is(Encoded::Text(command.encode_text()));
                let is_whole = is(part.command.encode()) || is_text(&part.command);
                let command = match is_whole {
                    true => part.command.clone(),
                    false => part.command.cut()?.parts.into_iter().find(is_text)?,
                };
                Some((part.ran.len(), index, command))
            })
            .collect();
        found.sort_by_key(|(ran, ..)| *ran);
        found.into_iter().next().map(|(_, index, command)| (index, command))
    }

    /// A server has run a part of the call.
    pub(super) fn ran(
        &self,
        (number, index): (u64, usize),
        outcome: Option<AnyOutcome>,
    ) -> Result<(), Fault> {
        let mut all = self.all();
        let Some(made) = all.calls.get_mut(&number) else { return Ok(()) };
        let part = &mut made.parts[index];
        part.ran.push(outcome);
        match part.is_not_done {
            true => not_done(&part.key, &part.command),
            false => Ok(()),
        }
    }

    /// This many replicas have acknowledged the call.
    pub(super) fn acknowledged(&self, number: u64, count: u32) {
        let mut all = self.all();
        all.calls.get_mut(&number).into_iter().for_each(|made| made.acknowledged.push(count));
    }

    pub(super) fn is_acknowledged(&self, number: u64, count: u32) {
        let mut all = self.all();
        let known = &all.calls[&number].acknowledged;
        if !known.contains(&count) {
            let what = format!("{count} replicas, and there were {known:?}");
            all.fault.get_or_insert(Fault { kind: Kind::Untold, what });
        }
    }

    /// The caller gets this answer to a part of the call.
    pub(super) fn answered(
        &self,
        (number, index): (u64, usize),
        answer: Result<&dyn Any, &StoreError>,
    ) {
        let mut all = self.all();
        let made = all.calls.get_mut(&number).expect("it began");
        let is_settled = made.sent == made.replied;
        let part = &mut made.parts[index];
        let failed = matches!(answer, Err(StoreError::NotDone(_) | StoreError::Unknown(_)));
        made.has_failed |= failed;
        if let Err(fault) = part.answered(answer, is_settled) {
            all.fault.get_or_insert(fault);
        }
    }

    /// The caller has its answers, or no longer waits for them.
    pub(super) fn ends(&self, number: u64, patience_us: Option<u64>, now_us: u64) {
        let mut all = self.all();
        let Made { began_us, way, has_failed, .. } = all.calls[&number];
        match patience_us {
            None => all.does(way, began_us, has_failed, now_us),
            Some(patience_us) if now_us >= began_us + patience_us => {
                all.does(way, began_us, true, now_us);
            }
            // A cancelled call shows nothing.
            Some(_) => {}
        }
    }
}

impl All {
    /// Once all is well, calls cannot keep failing in a row: one of them is made on a good
    /// connection.
    fn does(&mut self, way: Way, began_us: u64, has_failed: bool, now_us: u64) {
        if has_failed && self.is_only_idle {
            let what = format!("a call of {way:?} from {began_us} us on fails at {now_us} us");
            self.fault.get_or_insert(Fault { kind: Kind::Unchecked, what });
        }
        // The caller of a call that lasts this long did not poll it.
        let is_unpolled = now_us > began_us + 2 * self.timeout_us;
        if began_us < self.well_us || has_failed && is_unpolled {
            return;
        }
        if !has_failed {
            self.failing.remove(&way);
            return;
        }
        let failing = self.failing.entry(way).or_insert(Failing { since_us: began_us, calls: 0 });
        failing.calls += 1;
        let Failing { since_us, calls } = *failing;
        let bound_us = RECONNECTED_US + 4 * self.timeout_us;
        if began_us > since_us + bound_us && calls > DOUBTS {
            let what = format!(
                "{calls} calls of {way:?} from {since_us} us on fail, the last one at {now_us} us"
            );
            self.fault.get_or_insert(Fault { kind: Kind::Starved, what });
        }
    }
}

impl Part {
    fn answered(
        &mut self,
        answer: Result<&dyn Any, &StoreError>,
        is_settled: bool,
    ) -> Result<(), Fault> {
        let Part { key, command, ran, is_not_done, .. } = self;
        match answer {
            Ok(outcome) => {
                let is_own = |ran: &Option<AnyOutcome>| {
                    ran.as_ref().is_some_and(|ran| is_same(outcome, &**ran))
                };
                let is_cut = !ran.is_empty() && command.cut().is_some();
                if !is_cut && !ran.iter().any(is_own) {
                    let what = format!("{command:?} on {key}, which ran {} times", ran.len());
                    return fault(Kind::Untold, what);
                }
            }
            Err(StoreError::NotDone(_)) => {
                *is_not_done = true;
                if !ran.is_empty() {
                    return not_done(key, command);
                }
            }
            Err(StoreError::Unknown(error)) if ran.is_empty() && is_settled => {
                let what = format!("{command:?} on {key} was refused, and is unknown: {error}");
                return fault(Kind::Untold, what);
            }
            Err(StoreError::Misconfigured(error)) => {
                let what = format!("{command:?} on {key} is misconfigured: {error}");
                return fault(Kind::Error, what);
            }
            Err(_) => {}
        }
        Ok(())
    }
}

fn not_done(key: &str, command: &AnyCommand) -> Result<(), Fault> {
    fault(Kind::ChargedTwice, format!("{command:?} on {key} ran, and was said not to be done"))
}

/// The future of a call.
pub(super) struct Tracked<F> {
    pub(super) number: u64,
    pub(super) future: Pin<Box<F>>,
}

impl<F: Future> Future for Tracked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = CURRENT.replace(Some(self.number));
        let polled = self.future.as_mut().poll(context);
        CURRENT.set(before);
        polled
    }
}
