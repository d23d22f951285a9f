//! Places in flight, as their holders see them (E9): while all is well, no more are held at once than the limit has.

use std::collections::BTreeMap;

use lockage_core::Limit;

use super::kind::{Fault, Kind, fault};
use crate::simulation::plan::{Plan, Verb};

pub(super) struct Places {
    /// The places of each id, where nothing takes them from their holders.
    most: Option<u64>,
    held: BTreeMap<usize, u64>,
}

impl Places {
    pub(super) fn new(plan: &Plan) -> Self {
        // A refund and a reset give back the places of others.
        let takes_away = |verb| {
            use Verb::*;
            matches!(verb, Refund | Penalty | Block { .. } | Under | Reset | Store)
        };
        let is_kept = plan.is_calm_for_two_keys()
            && plan.options.stored.is_none()
            && !plan.options.shadow
            && !plan.asks(takes_away);
        let most = plan.limit.parts().find_map(|part| match part {
            Limit::InFlight(part) => Some(part.limit()),
            _ => None,
        });
        Places { most: most.filter(|_| is_kept), held: BTreeMap::new() }
    }

    pub(super) fn takes(&mut self, id: usize, cost: u64) -> Result<(), Fault> {
        let held = self.held.entry(id).or_default();
        *held += cost;
        match self.most {
            Some(most) if *held > most => {
                fault(Kind::Envelope, format!("{held} places of id {id} are held at once"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn leaves(&mut self, id: usize, cost: u64) {
        let held = self.held.entry(id).or_default();
        *held = held.saturating_sub(cost);
    }
}
