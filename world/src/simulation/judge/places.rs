//! Places in flight, as their holders see them (E9): while all is well, no more are held at once than the limit has.

use lockage_core::Limit;

use super::{Fault, Kind, fault};
use crate::simulation::jobs::IDS;
use crate::simulation::plan::{Plan, Verb};

pub(super) struct Places {
    /// The places of each id, where nothing takes them from their holders.
    most: Option<u64>,
    held: [u64; IDS.len()],
}

impl Places {
    pub(super) fn new(plan: &Plan) -> Self {
        // A refund and a reset give back the places of others.
        let takes_away = |verb| {
            use Verb::*;
            matches!(verb, Refund | Penalty | Block { .. } | Under | Reset | Store)
        };
        let is_kept = plan.is_calm()
            && plan.options.stored.is_none()
            && !plan.options.shadow
            && !plan.asks(takes_away);
        let most = plan.limit.parts().find_map(|part| match part {
            Limit::InFlight(part) => Some(part.limit()),
            _ => None,
        });
        Places { most: most.filter(|_| is_kept), held: Default::default() }
    }

    pub(super) fn takes(&mut self, id: usize, cost: u64) -> Result<(), Fault> {
        self.held[id] += cost;
        match self.most {
            Some(most) if self.held[id] > most => {
                let what = format!("{} places of `{}` are held at once", self.held[id], IDS[id]);
                fault(Kind::Envelope, what)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn leaves(&mut self, id: usize, cost: u64) {
        self.held[id] = self.held[id].saturating_sub(cost);
    }
}
