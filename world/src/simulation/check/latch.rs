//! The latch as it must be, told from the answers that the store gave.

use lockage_core::latch::{Latch, Reply};
use lockage_oracle::latch::Op;
use lockage_oracle::latch::laws::{Case, Laws, Seen};

use super::{Carried, Violation};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::message::CountAsk;

#[derive(Clone, Debug)]
pub(in crate::simulation) struct LatchTruth {
    latch: Latch,
    laws: Laws,
}

impl LatchTruth {
    /// A latch that was never set.
    pub(super) fn new(latch: Latch) -> Self {
        LatchTruth { latch, laws: Laws::default() }
    }

    /// When it ends, by the store's clock.
    pub(in crate::simulation) fn until_us(&self) -> u64 {
        self.laws.until_us()
    }

    pub(super) fn observe(
        &mut self,
        ask: &CountAsk,
        reply: &Reply,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let (id, count) = (ask.id.as_u128(), ask.count);
        let keep_us = self.latch.keep().as_micros() as u64; // at most 2^50
        let op = if ask.is_set { Op::Set(id, count, keep_us) } else { Op::CountDown(id, count) };
        let (now_us, was_there) = (carried.now.as_micros(), carried.was_held);
        let seen = Seen { op, now_us, outcome: (*reply).into(), was_there, changed: None };
        let verdict = self.laws.observe(&seen);
        if let Some(Violation { property, what }) = verdict.broken.first() {
            return Err(property.broken(format!("{ask:?} was answered {:?}: {what}", seen.outcome)));
        }
        if verdict.cases.contains(&Case::Repeated) {
            rare.saw(Coverage::CountedAgain);
        }
        Ok(())
    }
}
