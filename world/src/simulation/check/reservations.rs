//! The reservations of a key, as it must know them.

use lockage_core::{Limit, RequestId};

use crate::simulation::server::Outcome;

#[derive(Clone, Debug, Default)]
pub(super) struct Reservations(Vec<Known>);

#[derive(Clone, Debug)]
pub(super) struct Known {
    id: RequestId,
    /// The limit that it was made or settled under.
    pub(super) limit: Limit,
    /// What the limiter's record was then: another one knows nothing of it.
    pub(super) generation: u64,
    hold_us: u64,
    /// Until then, by the store's clock, it must be known.
    until_us: u64,
    pub(super) stage: Stage,
}

/// What has become of one, and what was answered then.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Open { cost: u64, answer: Outcome },
    Settled { actual: u64, answer: Outcome },
}

impl Reservations {
    /// When they are no longer known.
    pub(super) fn ends_us(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|known| known.until_us)
    }

    pub(super) fn find(&self, id: RequestId, now_us: u64) -> Option<&Known> {
        self.0.iter().find(|known| known.id == id && now_us < known.until_us)
    }

    pub(super) fn make(
        &mut self,
        id: RequestId,
        (limit, generation): (Limit, u64),
        cost: u64,
        (now_us, hold_us): (u64, u64),
        answer: Outcome,
    ) {
        let stage = Stage::Open { cost, answer };
        let until_us = now_us + hold_us;
        self.0.retain(|known| known.id != id);
        self.0.push(Known { id, limit, generation, hold_us, until_us, stage });
    }

    /// It is known for as long again as it could have been open.
    pub(super) fn settle(&mut self, id: RequestId, limit: Limit, actual: u64, answer: Outcome) {
        if let Some(known) = self.0.iter_mut().find(|known| known.id == id) {
            known.limit = limit;
            known.until_us += known.hold_us;
            known.stage = Stage::Settled { actual, answer };
        }
    }

    /// It is not there; whether it must be known.
    pub(super) fn forget(&mut self, id: RequestId, now_us: u64) -> bool {
        let is_known = self.find(id, now_us).is_some();
        self.0.retain(|known| known.id != id);
        is_known
    }
}
