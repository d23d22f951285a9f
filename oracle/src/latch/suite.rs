//! The latch a second time, and traces for it.

use std::time::Duration;

use lockage_core::RecordError;
use lockage_core::latch::{Latch, OperationId};
use proptest::prelude::*;

use super::laws::Laws;
use super::{Op, Outcome, REMEMBERED, count, id, is_same};
use crate::judged::Seen;
use crate::key::{Key, time};
use crate::play::{self, Trace};
use crate::property::Violation;

/// One latch, as plainly as possible: all operations since it was last forgotten.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// The operations and their times.
    done: Vec<(Op, u64)>,
}

impl Reference {
    /// Returns what is left after the first so many operations: the count that was set last, less the counts since.
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

    /// Returns the latch if it is still kept, otherwise a fresh one.
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
                reply.into()
            }
            Err(error) if error == RecordError::OperationReused.to_string() => Outcome::Reused,
            Err(error) => Outcome::Failed(error),
        }
    }

    fn ends_us(&self) -> Vec<u64> {
        vec![self.until_us()]
    }
}

impl play::Judged for Reference {
    type Laws = Laws;

    fn judge(laws: &mut Laws, seen: &Seen<Op, Outcome>) -> Vec<Violation> {
        laws.observe(seen).broken
    }
}

/// Returns traces of up to `max_steps`, also with a clock that goes back.
pub fn any_trace(max_steps: usize) -> BoxedStrategy<Trace<Op>> {
    any::<bool>().prop_flat_map(move |backwards| play::trace(ask(), max_steps, backwards)).boxed()
}

/// Returns operations with few ids and small counts, so that they meet.
pub fn ask() -> BoxedStrategy<Op> {
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
    .boxed()
}

/// Returns traces of up to `max_steps`, with a clock that never steps back.
pub fn forward(max_steps: usize) -> BoxedStrategy<Trace<Op>> {
    play::trace(ask(), max_steps, false)
}
