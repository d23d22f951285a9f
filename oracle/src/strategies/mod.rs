//! The inputs of the properties: every accepted configuration, costs around the one that fits, and times around every
//! moment at which something changes.
//!
//! A [`Trace`] is relative to the limiter's answers ("one microsecond before the last `retry_after`"), so that a shrunk
//! trace keeps its meaning; [`Trace::play`] turns it into operations at times.

mod adjustments;
mod by_part;
mod changes;
mod configs;
mod memory;
mod requests;
mod turns;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::config::{Limits, Shape};
use crate::key::MAX_TIME_US;
use crate::subject::{Op, Outcome, Subject};

use memory::Memory;

pub use adjustments::{adjusted_trace, adjustment_steps, unrepeated_adjusted_trace};
pub use by_part::{
    adjusted_by_part_trace, by_part_steps, by_part_trace, changing_by_part_trace,
    unrepeated_by_part_trace,
};
pub use changes::{any_limits, changing_trace};
pub use configs::{config, limits};
pub use requests::{remember, request_steps, request_trace, unrepeated_request_trace};
pub use turns::{any_turn_trace, mixed_turn_trace, turn_trace};

/// The longest time for which a request is remembered, or a key blocked, in microseconds.
pub const MAX_REMEMBER_US: u64 = 1 << 50;

/// Traffic for one key.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The limits.
    pub limits: Limits,
    /// The time at which the clock begins, in microseconds.
    pub start_us: u64,
    /// The earliest time, in microseconds.
    pub earliest_us: u64,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One operation, some time after the one before.
#[derive(Clone, Debug)]
pub struct Step {
    /// The move of the clock before the operation.
    pub moved: Move,
    /// The operation.
    pub ask: Ask,
}

/// A move of the clock. The last field of most is an offset in microseconds, -1 to 1.
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
    /// To the end of the latest block.
    Unblocked(i64),
    /// Far ahead, in thousandths of all remaining time.
    Far(u64),
}

/// An operation, relative to the limiter's answers.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Acquires one cost.
    Acquire(Cost),
    /// Acquires one cost under a new id that is remembered for this span.
    Request(Cost, Lasting),
    /// Repeats an earlier request, by the distance back of its id; a new request if there were fewer.
    Repeat(usize),
    /// Acquires another cost under such an id.
    Misuse(usize),
    /// Acquires several costs in one call.
    AcquireEach(Vec<Cost>),
    /// Acquires, or peeks, with a cost for each part, in turns; `None` for zero.
    ByPart(Vec<Option<Cost>>, ByPart),
    /// Takes a turn of one cost.
    TakeTurn(Cost, Patience),
    /// Cancels the turn that was taken this many turns before the latest.
    CancelTurn(usize),
    /// Peeks.
    Peek(Cost),
    /// Adjusts the key.
    Adjust(Change),
    /// Adjusts the key under a new id that is remembered for this span.
    AdjustOnce(Change, Lasting),
    /// Puts the key under these limits from now on.
    Under(Limits),
    /// Resets the key.
    Reset,
}

/// How a request by part is made.
#[derive(Clone, Copy, Debug)]
pub enum ByPart {
    /// Without an id.
    Acquire,
    /// Under a new id that is remembered for this span.
    Once(Lasting),
    /// As a peek.
    Peek,
    /// As a refund, under a new id if it is remembered for a span.
    Refund(Option<Lasting>),
    /// As a penalty, likewise.
    Penalty(Option<Lasting>),
}

/// An adjustment.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Takes this many, or as many as there are.
    TakeUpTo(Cost),
    /// Gives back this many.
    Refund(Cost),
    /// Charges this many, whether they fit or not.
    Penalty(Cost),
    /// Admits nothing for this span.
    Block(Lasting),
    /// Ends the block.
    Unblock,
}

/// How long a request is remembered, or a block lasts.
#[derive(Clone, Copy, Debug)]
pub enum Lasting {
    /// This many microseconds.
    Micros(u64),
    /// This many eighths of the window, period or interval.
    Eighths(u64),
}

/// The longest wait of a request for its turn.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// Forever.
    Endless,
    /// This many eighths of the period.
    Eighths(u64),
    /// The wait for the turn in the latest answer, and this much more or less, in microseconds.
    Turn(i64),
}

/// A cost, relative to the limiter's answers.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    /// This many units.
    Units(u64),
    /// This many eighths of the capacity, at least 1.
    Eighths(u64),
    /// The capacity and this much more or less.
    Capacity(i64),
    /// The remaining cost of the latest answer, and this much more or less.
    Remaining(i64),
    /// The used cost of the latest answer, and this much more or less.
    Used(i64),
}

impl Trace {
    /// Plays the trace on `subject`, and passes each operation with its time and outcome to `seen`.
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
            memory.learn(now_us, &op, &outcome);
            seen(subject, &op, now_us, outcome)?;
        }
        Ok(())
    }

    /// Returns a trace of the same limits, from `start_us` on and never before it, with other steps.
    pub fn continued(&self, start_us: u64, steps: &[Step]) -> Self {
        let start_us = start_us.min(MAX_TIME_US);
        let limits = self.limits.clone();
        Trace { limits, start_us, earliest_us: start_us, steps: steps.to_vec() }
    }

    /// Returns the same steps, without steps back of the clock.
    #[must_use]
    pub fn forward(mut self) -> Self {
        for step in &mut self.steps {
            step.moved = step.moved.forward();
        }
        self
    }

    /// Returns whether it is ever under a calendar.
    fn has_calendar(&self) -> bool {
        let under = |step: &Step| matches!(&step.ask, Ask::Under(limits) if limits.has_calendar());
        self.limits.has_calendar() || self.steps.iter().any(under)
    }

    /// Returns whether it adjusts the key.
    pub fn adjusts(&self) -> bool {
        let is_adjustment = |step: &Step| {
            matches!(
                step.ask,
                Ask::Adjust(_)
                    | Ask::AdjustOnce(..)
                    | Ask::ByPart(_, ByPart::Refund(_) | ByPart::Penalty(_))
            )
        };
        self.steps.iter().any(is_adjustment)
    }

    /// Returns whether it gives back charges.
    pub fn gives_back(&self) -> bool {
        let refund = |step: &Step| {
            matches!(
                step.ask,
                Ask::Adjust(Change::Refund(_))
                    | Ask::AdjustOnce(Change::Refund(_), _)
                    | Ask::ByPart(_, ByPart::Refund(_))
            )
        };
        self.steps.iter().any(refund)
    }

    /// Returns the operations and times of the trace on `subject`.
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

/// Returns traces of up to `max_steps` for keys under limits of this shape.
pub fn trace(shape: impl Into<Shape>, max_steps: usize) -> BoxedStrategy<Trace> {
    trace_of(shape, steps(max_steps))
}

/// Returns traces of these steps for keys under limits of this shape.
fn trace_of(
    shape: impl Into<Shape>,
    steps: impl Strategy<Value = Vec<Step>> + 'static,
) -> BoxedStrategy<Trace> {
    (limits(shape.into()), start(), steps)
        .prop_map(|(limits, start_us, steps)| Trace { limits, start_us, earliest_us: 0, steps })
        .boxed()
}

/// Returns such traces, with a clock that never steps back.
pub fn forward_trace(shape: impl Into<Shape>, max_steps: usize) -> BoxedStrategy<Trace> {
    forward(trace(shape, max_steps))
}

/// Returns the traces, with a clock that never steps back.
pub fn forward(traces: impl Strategy<Value = Trace> + 'static) -> BoxedStrategy<Trace> {
    traces.prop_map(Trace::forward).boxed()
}

/// Returns steps that continue a trace.
pub fn steps(max_steps: usize) -> BoxedStrategy<Vec<Step>> {
    vec(step(), 1..=max_steps).boxed()
}

/// Returns traces, each with a cost for a request at its end.
pub fn with_cost(traces: impl Strategy<Value = Trace> + 'static) -> BoxedStrategy<(Trace, u64)> {
    let share = prop_oneof![
        3 => (0..=9_u64).prop_map(|ninths| (ninths, 0)),
        2 => (1..=9_u64).prop_map(|units| (0, units)),
        1 => Just((9, 1)),
    ];
    (traces, share)
        .prop_map(|(trace, (ninths, units))| {
            let part = u128::from(trace.limits.capacity()) * u128::from(ninths) / 9;
            let cost = u64::try_from(part).expect("a part of the capacity") + units;
            (trace, cost.max(1))
        })
        .boxed()
}

/// Returns a move of the clock.
pub fn moved() -> BoxedStrategy<Move> {
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
    .boxed()
}

/// Returns a cost.
pub fn cost() -> BoxedStrategy<Cost> {
    prop_oneof![
        6 => Just(Cost::Units(1)),
        3 => (1..=9_u64).prop_map(Cost::Units),
        4 => (0..=8_u64).prop_map(Cost::Eighths),
        2 => (-1..=1_i64).prop_map(Cost::Capacity),
        5 => (-1..=1_i64).prop_map(Cost::Remaining),
        1 => prop_oneof![Just(u64::MAX), Just(1 << 53), Just((1 << 53) - 1), any::<u64>()]
            .prop_map(Cost::Units),
    ]
    .boxed()
}

/// Returns one operation, some time after the one before.
pub fn step() -> BoxedStrategy<Step> {
    (moved(), plain_ask()).prop_map(|(moved, ask)| Step { moved, ask }).boxed()
}

/// Returns an operation without an id.
fn plain_ask() -> BoxedStrategy<Ask> {
    prop_oneof![
        24 => cost().prop_map(Ask::Acquire),
        5 => vec(cost(), 1..=5).prop_map(Ask::AcquireEach),
        8 => cost().prop_map(Ask::Peek),
        1 => Just(Ask::Reset),
    ]
    .boxed()
}

/// Returns a time at which a clock begins: today, at the epoch, and near the end of the range.
fn start() -> BoxedStrategy<u64> {
    prop_oneof![
        6 => 1_763_700_000_000_000..1_763_800_000_000_000_u64,
        2 => 0..100_u64,
        1 => (MAX_TIME_US - 1_000_000_000)..=MAX_TIME_US,
        1 => 0..=MAX_TIME_US,
    ]
    .boxed()
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
