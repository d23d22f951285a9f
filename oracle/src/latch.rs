//! The latch's part of the suite: its operations, an independent reference, traces, and the properties L2,
//! L10 and L12.

use std::time::Duration;

use lockage_core::RecordError;
use lockage_core::latch::{Answer, Latch, OperationId};
use proptest::prelude::*;

use crate::key::{Holds, Key, time};
use crate::play::{self, Trace};
use crate::properties::{Check, require};

/// How many operations are remembered.
const REMEMBERED: usize = 8;

/// One operation on one latch; it is also what a trace asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The id, the count, and for how long it is kept, in microseconds.
    Set(u128, u64, u64),
    /// The id, and by how much.
    CountDown(u128, u64),
    /// What is left.
    Inspect,
    /// Forget it.
    Reset,
}

/// What an operation comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was left then, and whether those who wait were told.
    Done(u64, bool),
    /// What is left, and when it is open at the latest, in microseconds.
    Closed(u64, u64),
    /// It is open.
    Open,
    /// What is left, and when it is open at the latest.
    Seen(u64, u64),
    /// What was left, where there was one.
    Reset(Option<u64>),
    /// The id was used before.
    Reused,
    /// Any other error.
    Failed(String),
}

/// One latch, as plainly as it can be said: all that was done since it was last forgotten.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// The operation and when it was done.
    done: Vec<(Op, u64)>,
}

impl Reference {
    /// What is left after the first so many operations: what was set last less what was counted since.
    fn left(&self, after: usize) -> u64 {
        let done = &self.done[..after];
        let Some(set) = done.iter().rposition(|(op, _)| matches!(op, Op::Set(..))) else {
            return 0;
        };
        let counts: Vec<u128> = done[set..].iter().map(|(op, _)| u128::from(count(*op))).collect();
        let counted: u128 = counts[1..].iter().sum();
        u64::try_from(counts[0].saturating_sub(counted)).expect("at most what was set")
    }

    fn until_us(&self) -> u64 {
        let sets = self.done.iter().rev().filter_map(|(op, _)| match op {
            Op::Set(_, _, keep_us) => Some(*keep_us),
            _ => None,
        });
        let last_us = self.done.last().map_or(0, |(_, at_us)| *at_us);
        sets.take(1).map(|keep_us| last_us + keep_us).sum()
    }

    /// The same, where it is still kept.
    fn seen(&self, now_us: u64) -> Reference {
        if now_us < self.until_us() { self.clone() } else { Reference::default() }
    }

    fn change(&mut self, mut seen: Reference, op: Op, now_us: u64) -> Outcome {
        let all = seen.done.len();
        let before =
            (all.saturating_sub(REMEMBERED)..all).find(|index| id(seen.done[*index].0) == id(op));
        let left = seen.left(all);
        match (before, op) {
            (Some(index), _) if is_same(seen.done[index].0, op) => {
                return Outcome::Done(seen.left(index + 1), false);
            }
            (Some(_), _) => return Outcome::Reused,
            (None, Op::Set(..)) if left > 0 => return Outcome::Closed(left, seen.until_us()),
            (None, Op::CountDown(..)) if left == 0 => return Outcome::Open,
            _ => {}
        }
        seen.done.push((op, now_us));
        *self = seen;
        let left = self.left(all + 1);
        Outcome::Done(left, left == 0)
    }
}

fn id(op: Op) -> Option<u128> {
    match op {
        Op::Set(id, ..) | Op::CountDown(id, _) => Some(id),
        Op::Inspect | Op::Reset => None,
    }
}

fn count(op: Op) -> u64 {
    match op {
        Op::Set(_, count, _) | Op::CountDown(_, count) => count,
        Op::Inspect | Op::Reset => 0,
    }
}

/// Whether both are one operation: how long to keep it is no part of that.
fn is_same(one: Op, other: Op) -> bool {
    let same_kind = std::mem::discriminant(&one) == std::mem::discriminant(&other);
    same_kind && (id(one), count(one)) == (id(other), count(other))
}

impl play::Reference for Reference {
    type Ask = Op;
    type Op = Op;
    type Outcome = Outcome;

    fn op(&self, ask: &Op, _now_us: u64) -> Op {
        *ask
    }

    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        let seen = self.seen(now_us);
        let left = seen.left(seen.done.len());
        match op {
            Op::Inspect if left > 0 => Outcome::Seen(left, seen.until_us()),
            Op::Inspect => Outcome::Seen(0, now_us),
            Op::Reset => {
                let was_there = !seen.done.is_empty();
                if was_there {
                    *self = Reference::default();
                }
                Outcome::Reset(was_there.then_some(left))
            }
            _ => self.change(seen, *op, now_us),
        }
    }

    fn run_on(op: &Op, key: &mut impl Key, now_us: u64) -> Outcome {
        let now = time(now_us);
        let latch = |keep_us| Latch::new(Duration::from_micros(keep_us)).expect("in range");
        let operation = match *op {
            Op::Set(id, count, keep_us) => latch(keep_us).set(count, OperationId::from_u128(id)),
            Op::CountDown(id, count) => latch(1).count_down(count, OperationId::from_u128(id)),
            Op::Inspect => {
                return match key.execute(&latch(1).inspect(), now) {
                    Ok(seen) => {
                        assert_eq!(seen.now, now);
                        Outcome::Seen(seen.left, seen.open_at.as_micros())
                    }
                    Err(error) => Outcome::Failed(error),
                };
            }
            Op::Reset => {
                let reset = key.execute(&latch(1).reset(), now);
                return reset.map_or_else(Outcome::Failed, Outcome::Reset);
            }
        };
        match key.execute(&operation.expect("a count in range"), now) {
            Ok(reply) => {
                assert_eq!(reply.now, now, "a reply says at which time it was made");
                match reply.answer {
                    Answer::Done { left } => Outcome::Done(left, reply.woke),
                    Answer::Closed { left, open_at } => Outcome::Closed(left, open_at.as_micros()),
                    Answer::Open => Outcome::Open,
                }
            }
            Err(error) if error == RecordError::OperationReused.to_string() => Outcome::Reused,
            Err(error) => Outcome::Failed(error),
        }
    }

    fn ends_us(&self) -> Vec<u64> {
        vec![self.until_us()]
    }
}

/// A law of the latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// What is left is what was set less what was counted down.
    L2,
    /// Repetitions are idle, and so are refusals.
    L10,
    /// Who opens it tells those who wait.
    L12,
}

impl Law {
    /// Every law.
    pub const ALL: [Law; 3] = [Law::L2, Law::L10, Law::L12];

    /// Checks the law on what a trace, whose clock goes on, does to a fresh key.
    ///
    /// # Errors
    /// The first operation that breaks it.
    pub fn check(self, key: &mut impl Holds, trace: &Trace<Op>) -> Check {
        let mut view = View::default();
        trace.play::<Reference>(|op, now_us, _| {
            if now_us >= view.until_us {
                view = View::default();
            }
            let before = key.held();
            let outcome = <Reference as play::Reference>::run_on(op, key, now_us);
            let idle = key.held().is_none_or(|held| before.as_ref() == Some(&held));
            let held = match self {
                Law::L2 => view.counts(*op, now_us, &outcome),
                Law::L10 => view.is_idle(*op, &outcome, idle),
                Law::L12 => view.is_told(*op, &outcome),
            };
            require(held, || {
                format!("{self:?}: {op:?} at {now_us} is {outcome:?}, knowing {view:?}, {before:?}")
            })?;
            view.learn(*op, now_us, &outcome);
            Ok(())
        })
    }
}

/// What callers know from their answers.
#[derive(Debug, Default)]
struct View {
    left: u64,
    keep_us: u64,
    until_us: u64,
    done: Vec<(Op, Outcome)>,
}

impl View {
    fn known(&self, op: Op) -> Option<&(Op, Outcome)> {
        id(op)?;
        self.done.iter().rev().take(REMEMBERED).find(|(known, _)| id(*known) == id(op))
    }

    fn counts(&self, op: Op, now_us: u64, outcome: &Outcome) -> bool {
        let is_new = self.known(op).is_none();
        let told = matches!(outcome, Outcome::Done(_, true));
        let end_us = if self.left > 0 { self.until_us } else { now_us };
        let right = match op {
            Op::Set(..) if self.left > 0 => Outcome::Closed(self.left, self.until_us),
            Op::Set(_, count, _) => Outcome::Done(count, told),
            Op::CountDown(..) if self.left == 0 => Outcome::Open,
            Op::CountDown(_, count) => Outcome::Done(self.left.saturating_sub(count), told),
            Op::Inspect => Outcome::Seen(self.left, end_us),
            Op::Reset => Outcome::Reset((self.until_us > 0).then_some(self.left)),
        };
        !is_new || *outcome == right
    }

    fn is_idle(&self, op: Op, outcome: &Outcome, idle: bool) -> bool {
        match (self.known(op), outcome) {
            (Some((known, told)), _) => {
                let right = if is_same(*known, op) { told } else { &Outcome::Reused };
                outcome == right && idle
            }
            (None, Outcome::Done(..)) => !idle,
            (None, Outcome::Reset(_)) => true,
            (None, _) => idle,
        }
    }

    /// Once in its life, but where it is reset.
    fn is_told(&self, op: Op, outcome: &Outcome) -> bool {
        let opens = self.known(op).is_none() && matches!(outcome, Outcome::Done(0, _));
        matches!(outcome, Outcome::Done(_, true)) == opens
    }

    fn learn(&mut self, op: Op, now_us: u64, outcome: &Outcome) {
        match (op, outcome) {
            (Op::Reset, Outcome::Reset(Some(_))) => *self = View::default(),
            (_, Outcome::Done(left, _)) if self.known(op).is_none() => {
                if let Op::Set(_, _, keep_us) = op {
                    self.keep_us = keep_us;
                }
                self.left = *left;
                self.until_us = now_us + self.keep_us;
                self.done.push((op, Outcome::Done(*left, false)));
            }
            _ => {}
        }
    }
}

/// Returns traces of up to `max_steps`, also with a clock that goes back.
pub fn any_trace(max_steps: usize) -> impl Strategy<Value = Trace<Op>> {
    any::<bool>().prop_flat_map(move |backwards| play::trace(ask(), max_steps, backwards))
}

/// Few ids and small counts, so that they meet.
pub fn ask() -> impl Strategy<Value = Op> {
    // Ids differ in their upper half too.
    let id = || (0..14_u128).prop_map(|id| id << 96 | 0xfeed);
    let count = || prop_oneof![8 => 1..=3_u64, 2 => 4..=9_u64, 1 => Just((1 << 53) - 1)];
    let keep = prop_oneof![2 => 1..=20_u64, 5 => 500..=9_000_u64, 1 => Just(1_u64 << 50)];
    prop_oneof![
        4 => (id(), count(), keep).prop_map(|(id, count, keep_us)| Op::Set(id, count, keep_us)),
        9 => (id(), count()).prop_map(|(id, count)| Op::CountDown(id, count)),
        2 => Just(Op::Inspect),
        1 => Just(Op::Reset),
    ]
}

/// Returns traces of up to `max_steps`, with a clock that only goes on.
pub fn forward(max_steps: usize) -> impl Strategy<Value = Trace<Op>> {
    play::trace(ask(), max_steps, false)
}
