//! The latch as it must be, told from the answers that the store gave.

use lockage_core::latch::{Answer, Latch, OperationId, REMEMBERED, Reply};

use super::{Carried, Property, Violation};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::message::CountAsk;

#[derive(Clone, Debug)]
pub(in crate::simulation) struct LatchTruth {
    latch: Latch,
    left: u64,
    /// From then on it is as if it had never been set, by the store's clock.
    until_us: u64,
    /// The last operations that were done, the oldest first, and what was left then.
    done: Vec<(OperationId, u64)>,
}

impl LatchTruth {
    /// A latch that was never set.
    pub(super) fn new(latch: Latch) -> Self {
        LatchTruth { latch, left: 0, until_us: 0, done: Vec::new() }
    }

    /// When it ends, by the store's clock.
    pub(in crate::simulation) fn until_us(&self) -> u64 {
        self.until_us
    }

    pub(super) fn observe(
        &mut self,
        ask: &CountAsk,
        reply: &Reply,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let now_us = carried.now.as_micros();
        if !carried.was_held {
            if now_us < self.until_us {
                let until_us = self.until_us;
                return Err(Property::D9.broken(format!("it was to be kept until {until_us} us")));
            }
            *self = LatchTruth::new(self.latch);
        }
        let is_kept = now_us < self.until_us;
        let left = if is_kept { self.left } else { 0 };
        let known = self.done.iter().find(|(id, _)| *id == ask.id && is_kept);
        let (property, expected) = match known {
            Some((_, left)) => (Property::L10, Answer::Done { left: *left }),
            None if ask.is_set && left > 0 => {
                let open_at = lockage_core::Timestamp::from_micros(self.until_us)
                    .expect("shortly after a time of a world");
                (Property::L2, Answer::Closed { left, open_at })
            }
            None if ask.is_set => (Property::L2, Answer::Done { left: ask.count }),
            None if left == 0 => (Property::L2, Answer::Open),
            None => (Property::L2, Answer::Done { left: left.saturating_sub(ask.count) }),
        };
        if reply.answer != expected {
            return Err(property.broken(format!(
                "{ask:?} was answered {:?}: it must be {expected:?}",
                reply.answer
            )));
        }
        if known.is_some() {
            rare.saw(Coverage::CountedAgain);
            return Ok(());
        }
        let Answer::Done { left } = expected else { return Ok(()) };
        if !is_kept {
            self.done.clear();
        }
        if self.done.len() == REMEMBERED {
            self.done.remove(0);
        }
        self.done.push((ask.id, left));
        self.left = left;
        self.until_us = now_us + self.latch.keep().as_micros() as u64; // at most 2^50
        Ok(())
    }
}
