//! A reference latch, and traces for it.

use std::time::Duration;

use lockage_core::RecordError;
use lockage_core::latch::{Latch, OperationId};
use proptest::prelude::*;

use super::laws::Laws;
use super::{Op, Outcome, REMEMBERED, count, id, is_same, not_after_us};
use crate::judged::Seen;
use crate::key::{Key, MAX_TIME_US, bound, time};
use crate::play::{self, Trace};
use crate::property::Violation;

/// An operation in a trace.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// Unchanged.
    Plain(Op),
    /// With `not_after` this many microseconds from now.
    Within(Op, i64),
    /// An earlier operation, by its distance back, with a `not_after` this many microseconds later.
    Again(usize, u64),
}

/// One latch, as simple as possible: all operations since it was last forgotten.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// The operations and their times.
    done: Vec<(Op, u64)>,
    /// Until when copies of each of them may arrive.
    bounds: Vec<u64>,
    /// Until when copies of those may arrive of which the record does not know any more.
    forgotten: Vec<u64>,
    /// The operations that were sent, and their `not_after`.
    sent: Vec<(Op, u64)>,
}

/// Returns an operation with another `not_after`.
fn for_later(op: &mut Op, us: u64) {
    if let Op::Set(_, _, not_after_us, _) | Op::CountDown(_, _, not_after_us) = op {
        *not_after_us = us;
    }
}

impl Reference {
    /// Returns the count left after this many operations: the count that was set last, less the counts since.
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
            Op::Set(_, _, _, keep_us) => Some(*keep_us),
            _ => None,
        });
        let last_us = self.done.last().map_or(0, |(_, at_us)| *at_us);
        sets.take(1).map(|keep_us| last_us + keep_us).sum()
    }

    /// Returns the latch if it is still kept, otherwise a fresh one. Operations that may still come again are known in
    /// both cases.
    fn seen(&self, now_us: u64) -> Reference {
        let mut seen = self.clone();
        if now_us >= self.until_us() {
            seen.end();
        }
        seen.forgotten.retain(|bound_us| now_us <= *bound_us);
        seen
    }

    /// Forgets the latch.
    fn end(&mut self) {
        let remembered = self.done.len().saturating_sub(REMEMBERED);
        self.forgotten.extend(&self.bounds[remembered..]);
        self.done.clear();
        self.bounds.clear();
    }

    fn change(&mut self, mut seen: Reference, op: Op, now_us: u64) -> Outcome {
        let all = seen.done.len();
        let before =
            (all.saturating_sub(REMEMBERED)..all).find(|index| id(seen.done[*index].0) == id(op));
        let left = seen.left(all);
        match (before, op) {
            (Some(index), _) if is_same(seen.done[index].0, op) => {
                let again = Outcome::Done(seen.left(index + 1), false);
                if seen.bounds[index] < bound(not_after_us(op)) {
                    seen.bounds[index] = bound(not_after_us(op));
                    *self = seen;
                }
                return again;
            }
            (Some(_), _) => return Outcome::Reused,
            (None, Op::CountDown(..)) if left == 0 => return Outcome::Open,
            _ => {}
        }
        let forgotten_us = seen.forgotten.iter().copied().max().unwrap_or(0);
        if now_us > not_after_us(op) || not_after_us(op) <= forgotten_us {
            return Outcome::TooLate(forgotten_us);
        }
        if matches!(op, Op::Set(..)) && left > 0 {
            return Outcome::Closed(left, seen.until_us());
        }
        let oldest = all.checked_sub(REMEMBERED).map(|index| seen.bounds[index]);
        seen.forgotten.extend(oldest.filter(|bound_us| now_us <= *bound_us));
        seen.done.push((op, now_us));
        seen.bounds.push(bound(not_after_us(op)));
        *self = seen;
        let left = self.left(all + 1);
        Outcome::Done(left, left == 0)
    }
}

impl play::Reference for Reference {
    type Ask = Ask;
    type Op = Op;
    type Outcome = Outcome;

    fn op(&self, ask: &Ask, now_us: u64) -> Op {
        match *ask {
            Ask::Plain(op) => op,
            Ask::Within(mut op, us) => {
                for_later(&mut op, now_us.saturating_add_signed(us).min(MAX_TIME_US));
                op
            }
            Ask::Again(back, by_us) => {
                play::again(&self.sent, back, by_us, for_later).unwrap_or(Op::Inspect)
            }
        }
    }

    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        if id(*op).is_some() {
            self.sent.push((*op, not_after_us(*op)));
        }
        let mut seen = self.seen(now_us);
        let left = seen.left(seen.done.len());
        match op {
            Op::Inspect if left > 0 => Outcome::Seen(left, seen.until_us()),
            Op::Inspect => Outcome::Seen(0, now_us),
            Op::Reset => {
                let was_there = !seen.done.is_empty();
                if was_there {
                    seen.end();
                    seen.forgotten.retain(|bound_us| now_us <= *bound_us);
                    *self = seen;
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
            Op::Set(id, count, us, keep_us) => {
                latch(keep_us).set(count, OperationId::from_u128(id), time(us))
            }
            Op::CountDown(id, count, us) => {
                latch(1).count_down(count, OperationId::from_u128(id), time(us))
            }
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
        self.bounds.iter().map(|bound_us| bound_us + 1).chain([self.until_us()]).collect()
    }
}

impl play::Judged for Reference {
    type Laws = Laws;

    fn judge(laws: &mut Laws, seen: &Seen<Op, Outcome>) -> Vec<Violation> {
        laws.observe(seen).broken
    }
}

/// Returns traces of up to `max_steps`, also with a clock that goes back.
pub fn any_trace(max_steps: usize) -> BoxedStrategy<Trace<Ask>> {
    (any::<bool>(), prop::bool::weighted(0.2))
        .prop_flat_map(move |(backwards, is_brisk)| match is_brisk {
            true => play::brisk(brisk(), max_steps),
            false => play::trace(ask(), max_steps, backwards),
        })
        .boxed()
}

/// Returns count-downs with many ids, and now and then another set, a reset, or a copy.
fn brisk() -> BoxedStrategy<Ask> {
    let within = || prop_oneof![0..=60_i64, 1_000..=3_000_i64];
    let count_down = (any::<u128>(), within())
        .prop_map(|(id, us)| Ask::Within(Op::CountDown(id, 1, MAX_TIME_US), us));
    let keep = prop_oneof![3 => Just(1_u64 << 40), 1 => 1..=30_u64];
    let set = (any::<u128>(), 10..=90_u64, keep, within()).prop_map(|(id, count, keep_us, us)| {
        Ask::Within(Op::Set(id, count, MAX_TIME_US, keep_us), us)
    });
    let again = (0..30_usize, 0..=2_u64).prop_map(|(back, by_us)| Ask::Again(back, by_us));
    let reset = Just(Ask::Plain(Op::Reset));
    prop_oneof![20 => count_down, 6 => set, 6 => again, 1 => reset].boxed()
}

/// Returns operations with few ids and small counts, so that they meet.
pub fn ask() -> BoxedStrategy<Ask> {
    // Ids differ in their upper half too.
    let id = || (0..14_u128).prop_map(|id| id << 96 | 0xfeed);
    let count = || prop_oneof![8 => 1..=3_u64, 2 => 4..=9_u64, 1 => Just((1 << 53) - 1)];
    let keep = prop_oneof![2 => 1..=20_u64, 5 => 500..=9_000_u64, 1 => Just(1_u64 << 50)];
    let set = (id(), count(), keep)
        .prop_map(|(id, count, keep_us)| Op::Set(id, count, MAX_TIME_US, keep_us));
    let count_down = (id(), count()).prop_map(|(id, count)| Op::CountDown(id, count, MAX_TIME_US));
    let operation =
        prop_oneof![4 => set, 9 => count_down, 2 => Just(Op::Inspect), 1 => Just(Op::Reset)];
    let within = prop_oneof![-2..=2_i64, 0..=40_i64, 100..=3_000_i64];
    let asked = (operation, any::<bool>(), within).prop_map(|(op, is_bounded, us)| {
        if is_bounded { Ask::Within(op, us) } else { Ask::Plain(op) }
    });
    let again = (0..20_usize, 0..=2_u64).prop_map(|(back, by_us)| Ask::Again(back, by_us));
    prop_oneof![8 => asked, 1 => again].boxed()
}

/// Returns traces of up to `max_steps`, with a clock that never steps back.
pub fn forward(max_steps: usize) -> BoxedStrategy<Trace<Ask>> {
    any_trace(max_steps).prop_map(Trace::forward).boxed()
}
