//! The answers of fallbacks, and the charges of each process's share.

use lockage_core::{Decision, Verdict};

use super::Accounts;
use super::ran::within;
use crate::simulation::judge::answers::{Op, Told};
use crate::simulation::judge::exempt::{Exempt, Exemptions};
use crate::simulation::judge::{Fault, Kind, Life, fault};
use crate::simulation::plan::Instead;

/// The charges of a share, by its clock, and the cost that callers saw it admit.
#[derive(Default)]
pub(super) struct Share {
    charges: Vec<(u64, i128)>,
    told: i128,
}

impl Accounts {
    /// The fallback has answered.
    pub(super) fn stood_in(
        &mut self,
        told: &Told,
        decision: &Decision,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        if self.is_shadow {
            return Ok(());
        }
        if self.is_calm {
            return fault(Kind::Untold, "the fallback answers, and so does the store".to_owned());
        }
        exempt.is(Exempt::CircuitUnseen, !self.shows_circuit);
        match (self.fallback, decision.verdict) {
            (None, _) => fault(Kind::Untold, "there is no fallback".to_owned()),
            (Some(Instead::Closed), Verdict::Allowed) => {
                fault(Kind::Uncharged, "the fallback admits what it should deny".to_owned())
            }
            (Some(Instead::Open), Verdict::Denied { .. }) => {
                fault(Kind::FalseDenial, "the fallback denies what it should admit".to_owned())
            }
            (Some(Instead::Share), Verdict::Allowed)
                if told.op != Op::Peek
                    && !exempt.is(Exempt::LimitOfShare, self.is_stored || told.is_other) =>
            {
                let share = self.shares.entry((told.life, told.id)).or_default();
                share.told += i128::from(told.cost);
                let charged: i128 = share.charges.iter().map(|(_, cost)| cost).sum();
                if share.told > charged {
                    let what =
                        format!("{} are told to be admitted by a share of {charged}", share.told);
                    return fault(Kind::Uncharged, what);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The share of a life of a node has charged something for an id.
    pub(in crate::simulation::judge) fn shared(
        &mut self,
        of: (Life, usize),
        cost: u64,
        clock_us: u64,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        let charges = &mut self.shares.entry(of).or_default().charges;
        charges.push((clock_us, i128::from(cost)));
        // Neither limit knows the usage that the other has forgotten: no envelope holds for a key
        // that alternates between both.
        match self.limit.share(self.nodes) {
            _ if exempt.is(Exempt::LimitOfShare, !self.is_one_limit) => Ok(()),
            Ok(share) => within(share, charges.iter().rev().copied()),
            Err(_) => fault(Kind::Envelope, "there is no share".to_owned()),
        }
    }
}
