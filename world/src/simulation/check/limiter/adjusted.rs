//! What adjustments do (D15).

use lockage_core::Adjusted;
use lockage_oracle::ledger::Asked;

use super::super::{Property, Violation};
use super::{LimiterTruth, Seen, broken};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::job::Adjustment;

impl LimiterTruth {
    pub(super) fn adjust(
        &mut self,
        (adjustment, amount): (Adjustment, u64),
        adjusted: &Adjusted,
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let now_us = seen.now_us;
        let mut after = self.reference.clone();
        let expected = match adjustment {
            Adjustment::TakeUpTo => {
                let taken = amount.min(after.remaining(now_us));
                if taken > 0 {
                    after.charge(taken, now_us, None);
                    self.charges.charge(&self.limit, (now_us, None), taken, None)?;
                }
                taken
            }
            Adjustment::Refund => {
                let back = after.refund(amount, now_us);
                self.charges.give_back(&back, now_us);
                let most = back.into_iter().max().unwrap_or_default();
                if most < amount {
                    rare.saw(Coverage::RefundCut);
                }
                most
            }
            Adjustment::Penalty => {
                let fits = after.remaining(now_us);
                let charged = after.penalize(amount, now_us);
                if charged > fits {
                    rare.saw(Coverage::Debt);
                }
                charged
            }
            Adjustment::Block => after.block(amount, now_us),
            Adjustment::Unblock => after.unblock(now_us),
        };
        if expected > 0 {
            self.reference = after;
            if !matches!(adjustment, Adjustment::TakeUpTo | Adjustment::Refund) {
                self.charges.touch(now_us);
            }
        }
        if adjusted.amount != expected {
            let what = format!("it must come to {expected}");
            return broken(Property::D15, seen.ask, seen.outcome, &what);
        }
        self.reference.judge(Asked::patient(1, now_us), &adjusted.after)
    }
}
