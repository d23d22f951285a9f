//! What the properties are tried on: every accepted configuration, costs around what fits, and
//! times around every moment at which something changes.
//!
//! A [`Trace`] is written relative to what the limiter answers ("one microsecond before the last
//! `retry_after`"), so that a shrunk trace keeps its meaning; [`Trace::play`] turns it into
//! operations at times.

mod configs;
mod requests;
mod turns;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::config::{Config, Kind};
use crate::subject::{Answer, Op, Outcome, Subject, Verdict};

pub use configs::config;
pub use requests::{remember, request_steps, request_trace, unrepeated_request_trace};
pub use turns::{mixed_turn_trace, turn_trace};

/// The latest time that the machines take, in microseconds.
pub const MAX_TIME_US: u64 = (1 << 53) - (1 << 51) - 1;

/// The longest time for which a request is remembered, in microseconds.
pub const MAX_REMEMBER_US: u64 = 1 << 50;

/// Some traffic for one key.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The limit.
    pub config: Config,
    /// Where the clock begins, in microseconds.
    pub start_us: u64,
    /// No time is before this one, in microseconds.
    pub earliest_us: u64,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One operation, some time after the one before.
#[derive(Clone, Debug)]
pub struct Step {
    /// How the clock moves first.
    pub moved: Move,
    /// What is then asked.
    pub ask: Ask,
}

/// How the clock moves. The last field of most is an offset in microseconds, -1 to 1.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// Not at all.
    Stay,
    /// By some microseconds.
    Tick(i64),
    /// By some eighths of the window, period or interval.
    Span(i64, i64),
    /// To the `retry_after` of the latest denial.
    Retry(i64),
    /// To the latest `reset_after`.
    Fresh(i64),
    /// To the next multiple of the span since the epoch.
    Edge(i64),
    /// To one span after the latest admitted request.
    Expiry(i64),
    /// To the moment at which the latest admitted request with an id is forgotten.
    Forgotten(i64),
    /// To the turn of the latest admitted request.
    Turn(i64),
    /// Far ahead, in thousandths of all time left.
    Far(u64),
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Acquire one cost.
    Acquire(Cost),
    /// Acquire one cost under a new id, to be remembered for so long.
    Request(Cost, Remember),
    /// The request under the id that was sent so many ids before this one, once more; a new one
    /// where there were fewer.
    Repeat(usize),
    /// Another cost under such an id.
    Misuse(usize),
    /// Acquire several in one call.
    AcquireEach(Vec<Cost>),
    /// Take a turn of one cost.
    TakeTurn(Cost, Patience),
    /// Give back the turn that was taken so many turns before the latest.
    CancelTurn(usize),
    /// Peek.
    Peek(Cost),
    /// Reset.
    Reset,
}

/// How long to remember a request.
#[derive(Clone, Copy, Debug)]
pub enum Remember {
    /// So many microseconds.
    Micros(u64),
    /// So many eighths of the window, period or interval.
    Eighths(u64),
}

/// How long a request waits for its turn at most.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// For ever.
    Endless,
    /// So many eighths of the period.
    Eighths(u64),
    /// As far as the turn of the latest answer was away, and this much more or less, in microseconds.
    Turn(i64),
}

/// A cost, in terms of what the limiter has.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    /// So many units.
    Units(u64),
    /// So many eighths of the capacity, at least 1.
    Eighths(u64),
    /// The capacity and this much more or less.
    Capacity(i64),
    /// What remained at the latest answer, and this much more or less.
    Remaining(i64),
}

impl Trace {
    /// Puts the trace to `subject` and tells each operation with its time and outcome.
    ///
    /// # Errors
    /// The first error of `seen`, which ends the play.
    pub fn play<S: Subject, E>(
        &self,
        subject: &mut S,
        mut seen: impl FnMut(&mut S, &Op, u64, Outcome) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut memory = Memory::new(self);
        for step in &self.steps {
            let now_us = memory.time(step.moved);
            let op = memory.op(&step.ask);
            let outcome = subject.run(&op, now_us);
            memory.learn(now_us, &op, outcome.answers());
            seen(subject, &op, now_us, outcome)?;
        }
        Ok(())
    }

    /// The same limit from `start_us` on and never before it, with other steps.
    pub fn continued(&self, start_us: u64, steps: &[Step]) -> Self {
        let start_us = start_us.min(MAX_TIME_US);
        Trace { config: self.config, start_us, earliest_us: start_us, steps: steps.to_vec() }
    }

    /// The operations and times that the trace comes to with `subject`.
    pub fn resolve(&self, subject: &mut impl Subject) -> Vec<(Op, u64)> {
        let mut operations = Vec::with_capacity(self.steps.len());
        let infallible: Result<(), std::convert::Infallible> =
            self.play(subject, |_, op, now_us, _| {
                operations.push((op.clone(), now_us));
                Ok(())
            });
        infallible.map_or_else(|never| match never {}, |()| operations)
    }
}

/// Traces of up to `max_steps` for limiters of one kind.
pub fn trace(kind: Kind, max_steps: usize) -> impl Strategy<Value = Trace> {
    (config(kind), start(), vec(step(), 1..=max_steps))
        .prop_map(|(config, start_us, steps)| Trace { config, start_us, earliest_us: 0, steps })
}

/// The same, with a clock that never steps back.
pub fn forward_trace(kind: Kind, max_steps: usize) -> impl Strategy<Value = Trace> {
    forward(trace(kind, max_steps))
}

/// Traces of which the clock never steps back.
pub fn forward(traces: impl Strategy<Value = Trace>) -> impl Strategy<Value = Trace> {
    traces.prop_map(|mut trace| {
        for step in &mut trace.steps {
            step.moved = step.moved.forward();
        }
        trace
    })
}

/// Some steps to continue a trace with.
pub fn steps(max_steps: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..=max_steps)
}

/// How the clock may move.
pub fn moved() -> impl Strategy<Value = Move> {
    let offset = || -1..=1_i64;
    prop_oneof![
        4 => Just(Move::Stay),
        3 => (1..=20_i64).prop_map(Move::Tick),
        1 => (-20..=-1_i64).prop_map(Move::Tick),
        4 => (0..=24_i64, offset()).prop_map(|(eighths, offset)| Move::Span(eighths, offset)),
        1 => (-24..=-1_i64, offset()).prop_map(|(eighths, offset)| Move::Span(eighths, offset)),
        5 => offset().prop_map(Move::Retry),
        3 => offset().prop_map(Move::Fresh),
        2 => offset().prop_map(Move::Edge),
        2 => offset().prop_map(Move::Expiry),
        1 => (0..=20_u64).prop_map(Move::Far),
    ]
}

/// What a request may cost.
pub fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        6 => Just(Cost::Units(1)),
        3 => (1..=9_u64).prop_map(Cost::Units),
        4 => (0..=8_u64).prop_map(Cost::Eighths),
        2 => (-1..=1_i64).prop_map(Cost::Capacity),
        5 => (-1..=1_i64).prop_map(Cost::Remaining),
        1 => prop_oneof![Just(u64::MAX), Just(1 << 53), Just((1 << 53) - 1), any::<u64>()]
            .prop_map(Cost::Units),
    ]
}

/// One operation, some time after the one before.
pub fn step() -> impl Strategy<Value = Step> {
    (moved(), plain_ask()).prop_map(|(moved, ask)| Step { moved, ask })
}

/// What may be asked without an id.
fn plain_ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        24 => cost().prop_map(Ask::Acquire),
        5 => vec(cost(), 1..=5).prop_map(Ask::AcquireEach),
        8 => cost().prop_map(Ask::Peek),
        1 => Just(Ask::Reset),
    ]
}

/// Where a clock may begin: today, at the epoch, and near the end of the range.
fn start() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 1_763_700_000_000_000..1_763_800_000_000_000_u64,
        2 => 0..100_u64,
        1 => (MAX_TIME_US - 1_000_000_000)..=MAX_TIME_US,
        1 => 0..=MAX_TIME_US,
    ]
}

impl Move {
    fn forward(self) -> Self {
        match self {
            Move::Tick(ticks) => Move::Tick(ticks.abs()),
            Move::Span(eighths, offset) => Move::Span(eighths.abs(), offset),
            other => other,
        }
    }
}

/// What a trace refers back to.
#[derive(Debug)]
struct Memory {
    config: Config,
    forward: bool,
    earliest_us: u64,
    now_us: u64,
    retry_us: u64,
    fresh_us: u64,
    admitted_us: u64,
    forgotten_us: u64,
    turn_us: u64,
    turn_after_us: u64,
    /// How many turns were taken.
    turns: usize,
    remaining: u64,
    /// The requests with an id, each once.
    requests: Vec<Request>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    cost: u64,
    id: u128,
    remember_us: u64,
}

impl Memory {
    fn new(trace: &Trace) -> Self {
        let now_us = trace.start_us;
        let back = |step: &Step| match step.moved {
            Move::Tick(ticks) => ticks < 0,
            Move::Span(eighths, _) => eighths < 0,
            _ => false,
        };
        Memory {
            config: trace.config,
            // A trace steps back only where it says so, not because a boundary lies behind.
            forward: !trace.steps.iter().any(back),
            earliest_us: trace.earliest_us,
            now_us,
            retry_us: now_us,
            fresh_us: now_us,
            admitted_us: now_us,
            forgotten_us: now_us,
            turn_us: now_us,
            turn_after_us: 0,
            turns: 0,
            remaining: trace.config.capacity(),
            requests: Vec::new(),
        }
    }

    fn time(&self, moved: Move) -> u64 {
        let (now, span) = (i128::from(self.now_us), i128::from(self.config.span_us));
        let moved_to = match moved {
            Move::Stay => now,
            Move::Tick(ticks) => now + i128::from(ticks),
            Move::Span(eighths, offset) => {
                now + span * i128::from(eighths) / 8 + i128::from(offset)
            }
            Move::Retry(offset) => i128::from(self.retry_us) + i128::from(offset),
            Move::Fresh(offset) => i128::from(self.fresh_us) + i128::from(offset),
            Move::Edge(offset) => (now / span + 1) * span + i128::from(offset),
            Move::Expiry(offset) => i128::from(self.admitted_us) + span + i128::from(offset),
            Move::Forgotten(offset) => i128::from(self.forgotten_us) + i128::from(offset),
            Move::Turn(offset) => i128::from(self.turn_us) + i128::from(offset),
            Move::Far(thousandths) => {
                now + (i128::from(MAX_TIME_US) - now) * i128::from(thousandths) / 1000
            }
        };
        let earliest = if self.forward { now } else { i128::from(self.earliest_us) };
        let clamped = moved_to.clamp(earliest, i128::from(MAX_TIME_US));
        u64::try_from(clamped).expect("clamped into the range of time")
    }

    fn op(&mut self, ask: &Ask) -> Op {
        match ask {
            Ask::Acquire(cost) => Op::Acquire(self.cost(*cost)),
            Ask::Request(cost, remember) => self.request(*cost, *remember),
            Ask::Repeat(back) => self.repeat(*back, 0),
            Ask::Misuse(back) => self.repeat(*back, 1),
            Ask::AcquireEach(costs) => {
                Op::AcquireEach(costs.iter().map(|cost| self.cost(*cost)).collect())
            }
            Ask::TakeTurn(cost, patience) => {
                self.turns += 1;
                Op::TakeTurn { cost: self.cost(*cost), patience_us: self.patience_us(*patience) }
            }
            Ask::CancelTurn(back) => Op::CancelTurn(self.turns.saturating_sub(back + 1)),
            Ask::Peek(cost) => Op::Peek(self.cost(*cost)),
            Ask::Reset => Op::Reset,
        }
    }

    fn request(&mut self, cost: Cost, remember: Remember) -> Op {
        let remember_us = match remember {
            Remember::Micros(micros) => micros,
            Remember::Eighths(eighths) => self.config.span_us / 8 * eighths,
        };
        // Ids differ in their upper half too.
        let id = (self.requests.len() as u128 + 1) << 96 | 0xfeed;
        let remember_us = remember_us.clamp(1, MAX_REMEMBER_US);
        self.requests.push(Request { cost: self.cost(cost), id, remember_us });
        self.repeat(0, 0)
    }

    fn repeat(&mut self, back: usize, extra_cost: u64) -> Op {
        match self.requests.iter().rev().nth(back) {
            Some(&Request { cost, id, remember_us }) => {
                Op::Request { cost: cost.saturating_add(extra_cost), id, remember_us }
            }
            None => self.request(Cost::Units(1), Remember::Eighths(8)),
        }
    }

    fn patience_us(&self, patience: Patience) -> u64 {
        match patience {
            Patience::Endless => u64::MAX,
            Patience::Eighths(eighths) => self.config.span_us / 8 * eighths,
            Patience::Turn(offset) => self.turn_after_us.saturating_add_signed(offset),
        }
    }

    fn cost(&self, cost: Cost) -> u64 {
        let capacity = self.config.capacity();
        let units = match cost {
            Cost::Units(units) => units,
            Cost::Eighths(eighths) => {
                u64::try_from(u128::from(capacity) * u128::from(eighths) / 8).expect("a part of it")
            }
            Cost::Capacity(offset) => capacity.saturating_add_signed(offset),
            Cost::Remaining(offset) => self.remaining.saturating_add_signed(offset),
        };
        units.max(1)
    }

    fn learn(&mut self, now_us: u64, op: &Op, answers: &[Answer]) {
        self.now_us = now_us;
        if let (Op::Request { remember_us, .. }, [Answer { verdict: Verdict::Allowed, .. }]) =
            (op, answers)
        {
            self.forgotten_us = now_us.saturating_add(*remember_us);
        }
        for answer in answers {
            self.remaining = answer.remaining;
            self.fresh_us = now_us.saturating_add(answer.reset_after_us);
            self.turn_after_us = answer.turn_after_us;
            match answer.verdict {
                Verdict::Denied { retry_after_us } => {
                    self.retry_us = now_us.saturating_add(retry_after_us);
                }
                Verdict::Allowed => {
                    self.admitted_us = now_us;
                    self.turn_us = now_us.saturating_add(answer.turn_after_us);
                }
                Verdict::Never => {}
            }
        }
    }
}
