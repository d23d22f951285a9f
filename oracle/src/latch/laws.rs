//! The laws of the latch: L2, L10 and L12, and D9 of its record.
//!
//! [`Laws`] observes each operation with its outcome, and derives the latch's only true state from them. The property
//! tests and the simulated worlds judge by it.

use super::{Op, Outcome, REMEMBERED, id, is_same};
use crate::judged;
use crate::property::Property;

/// The laws that traces are checked for.
pub const LAWS: [Property; 4] = [Property::D9, Property::L2, Property::L10, Property::L12];

/// The state of a latch, as it must be.
#[derive(Clone, Debug, Default)]
pub struct Laws {
    left: u64,
    keep_us: u64,
    /// When it becomes as if it had never been set, in microseconds.
    until_us: u64,
    /// The last operations, the oldest first, and what was left then.
    done: Vec<(Op, u64)>,
}

/// One operation of a latch.
pub type Seen = judged::Seen<Op, Outcome>;

/// The verdict on one operation.
pub type Verdict = judged::Verdict<Case>;

/// A case that an operation is an example of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// An operation is repeated.
    Repeated,
}

impl Laws {
    /// Returns when it ends, in microseconds.
    pub fn until_us(&self) -> u64 {
        self.until_us
    }

    /// Judges one operation, and learns from it.
    pub fn observe(&mut self, seen: &Seen) -> Verdict {
        let Seen { op, now_us, ref outcome, was_there, changed } = *seen;
        let mut verdict = Verdict::default();
        let is_kept = now_us < self.until_us;
        if !was_there && is_kept {
            verdict.broke(Property::D9, &format!("it was to be kept until {} us", self.until_us));
        } else if !was_there {
            *self = Laws::default();
        }
        let left = if is_kept { self.left } else { 0 };
        let same_id = |(known, _): &&(Op, u64)| id(op).is_some() && id(*known) == id(op);
        let known = self.done.iter().find(same_id).filter(|_| is_kept).copied();
        let told = matches!(outcome, Outcome::Done(_, true));
        let (law, right) = match (known, op) {
            (Some((before, left)), _) if is_same(before, op) => {
                (Property::L10, Outcome::Done(left, false))
            }
            (Some(_), _) => (Property::L10, Outcome::Reused),
            (None, Op::Set(..)) if left > 0 => (Property::L2, Outcome::Closed(left, self.until_us)),
            (None, Op::Set(_, count, _)) => (Property::L2, Outcome::Done(count, told)),
            (None, Op::CountDown(..)) if left == 0 => (Property::L2, Outcome::Open),
            (None, Op::CountDown(_, count)) => {
                (Property::L2, Outcome::Done(left.saturating_sub(count), told))
            }
            (None, Op::Inspect) => {
                let open_us = if left > 0 { self.until_us } else { now_us };
                (Property::L2, Outcome::Seen(left, open_us))
            }
            // An expired one may still be there.
            (None, Op::Reset) if !is_kept && *outcome == Outcome::Reset(Some(0)) => {
                (Property::L2, Outcome::Reset(Some(0)))
            }
            (None, Op::Reset) => (Property::L2, Outcome::Reset(is_kept.then_some(left))),
        };
        if *outcome != right {
            verdict.broke(law, &format!("it must be {right:?}"));
        }
        let is_done = known.is_none() && matches!(outcome, Outcome::Done(..));
        let is_reset = matches!(outcome, Outcome::Reset(_));
        if changed.is_some_and(|changed| changed != is_done && !is_reset) {
            verdict.broke(Property::L10, &format!("whether it has changed: {changed:?}"));
        }
        // Once in its life, unless it is reset.
        let opens = known.is_none() && matches!(outcome, Outcome::Done(0, _));
        if told != opens {
            verdict.broke(Property::L12, &format!("whether it opens: {opens}"));
        }
        if is_reset {
            *self = Laws::default();
        }
        if let (Outcome::Done(left, _), true) = (outcome, is_done) {
            self.learn(op, *left, is_kept, now_us);
        }
        if known.is_some() {
            verdict.saw(Case::Repeated);
        }
        verdict
    }

    fn learn(&mut self, op: Op, left: u64, is_kept: bool, now_us: u64) {
        if !is_kept {
            self.done.clear();
        }
        if self.done.len() == REMEMBERED {
            self.done.remove(0);
        }
        if let Op::Set(_, _, keep_us) = op {
            self.keep_us = keep_us;
        }
        self.done.push((op, left));
        (self.left, self.until_us) = (left, now_us + self.keep_us);
    }
}
