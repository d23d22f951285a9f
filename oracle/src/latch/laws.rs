//! The laws of the latch: L2, L10 and L12, and D9 of its record.
//!
//! [`Laws`] observes each operation with its outcome, and derives the latch's only true state from them. The property
//! tests and the simulated worlds judge by it.

use super::{Op, Outcome, REMEMBERED, id, is_same, not_after_us};
use crate::judged;
use crate::key::bound;
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
    /// The last operations, the oldest first, the count that was left then, and until when a copy of each may arrive.
    done: Vec<(Op, u64, u64)>,
    /// Until when copies of those may arrive that are forgotten.
    forgotten_us: u64,
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
    /// An operation is refused that may be a copy of one that is forgotten.
    Forgotten,
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
        let bounds = self.done.iter().map(|(_, _, bound_us)| *bound_us);
        let latest_us = bounds.fold(self.forgotten_us, u64::max);
        let kept_us = if latest_us > 0 { self.until_us.max(latest_us + 1) } else { self.until_us };
        if !was_there && now_us < kept_us {
            verdict.broke(Property::D9, &format!("it was to be kept until {kept_us} us"));
        } else if !was_there {
            *self = Laws::default();
        } else if !is_kept {
            *self = Laws { forgotten_us: latest_us, ..Laws::default() };
        }
        let forgotten_us = if now_us <= self.forgotten_us { self.forgotten_us } else { 0 };
        let left = self.left;
        let same_id = |(known, ..): &(Op, u64, u64)| id(op).is_some() && id(*known) == id(op);
        let known = self.done.iter().position(same_id);
        let told = matches!(outcome, Outcome::Done(_, true));
        let is_late = now_us > not_after_us(op) || not_after_us(op) <= forgotten_us;
        let mut is_later = false;
        let (law, right) = match (known.map(|at| &mut self.done[at]), op) {
            (Some((before, left, bound_us)), _) if is_same(*before, op) => {
                is_later = *bound_us < bound(not_after_us(op));
                *bound_us = bound(not_after_us(op)).max(*bound_us);
                (Property::L10, Outcome::Done(*left, false))
            }
            (Some(_), _) => (Property::L10, Outcome::Reused),
            (None, Op::CountDown(..)) if left == 0 => (Property::L2, Outcome::Open),
            (None, Op::Set(..) | Op::CountDown(..)) if is_late => {
                verdict.saw(Case::Forgotten);
                (Property::L10, Outcome::TooLate(forgotten_us))
            }
            (None, Op::Set(..)) if left > 0 => (Property::L2, Outcome::Closed(left, self.until_us)),
            (None, Op::Set(_, count, ..)) => (Property::L2, Outcome::Done(count, told)),
            (None, Op::CountDown(_, count, _)) => {
                (Property::L2, Outcome::Done(left.saturating_sub(count), told))
            }
            (None, Op::Inspect) => {
                let open_us = if left > 0 { self.until_us } else { now_us };
                (Property::L2, Outcome::Seen(left, open_us))
            }
            (None, Op::Reset) => (Property::L2, Outcome::Reset(is_kept.then_some(left))),
        };
        if *outcome != right {
            verdict.broke(law, &format!("it must be {right:?}"));
        }
        let is_done = known.is_none() && matches!(outcome, Outcome::Done(..));
        let is_reset = matches!(outcome, Outcome::Reset(_));
        if changed.is_some_and(|changed| changed != (is_done || is_later) && !is_reset) {
            verdict.broke(Property::L10, &format!("whether it has changed: {changed:?}"));
        }
        // Once in its life, unless it is reset.
        let opens = known.is_none() && matches!(outcome, Outcome::Done(0, _));
        if told != opens {
            verdict.broke(Property::L12, &format!("whether it opens: {opens}"));
        }
        if is_reset && is_kept {
            *self = Laws { forgotten_us: latest_us, ..Laws::default() };
        }
        if let (Outcome::Done(left, _), true) = (outcome, is_done) {
            self.learn(op, *left, now_us);
        }
        if known.is_some() {
            verdict.saw(Case::Repeated);
        }
        verdict
    }

    fn learn(&mut self, op: Op, left: u64, now_us: u64) {
        if self.done.len() == REMEMBERED {
            let (_, _, bound_us) = self.done.remove(0);
            self.forgotten_us = self.forgotten_us.max(bound_us);
        }
        if let Op::Set(_, _, _, keep_us) = op {
            self.keep_us = keep_us;
        }
        self.done.push((op, left, bound(not_after_us(op))));
        (self.left, self.until_us) = (left, now_us + self.keep_us);
    }
}
