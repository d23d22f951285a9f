//! The reservations of a key, as it must know them.

use lockage_core::RequestId;

use crate::simulation::server::Outcome;

#[derive(Clone, Debug, Default)]
pub(super) struct Reservations(Vec<Known>);

#[derive(Clone, Debug)]
pub(super) struct Known {
    id: RequestId,
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
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When they are no longer known.
    pub(super) fn ends_us(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|known| known.until_us)
    }

    pub(super) fn find(&self, id: RequestId, now_us: u64) -> Option<&Known> {
        self.0.iter().find(|known| known.id == id && now_us < known.until_us)
    }

    /// One that must be known.
    pub(super) fn known(&self, now_us: u64) -> Option<&Known> {
        self.0.iter().find(|known| now_us < known.until_us)
    }

    pub(super) fn make(
        &mut self,
        id: RequestId,
        cost: u64,
        (now_us, hold_us): (u64, u64),
        answer: Outcome,
    ) {
        let stage = Stage::Open { cost, answer };
        self.0.push(Known { id, hold_us, until_us: now_us + hold_us, stage });
    }

    /// It is known for as long again as it could have been open.
    pub(super) fn settle(&mut self, id: RequestId, actual: u64, now_us: u64, answer: Outcome) {
        if let Some(known) = self.0.iter_mut().find(|known| known.id == id) {
            known.until_us = now_us + known.hold_us;
            known.stage = Stage::Settled { actual, answer };
        }
    }

    pub(super) fn prune(&mut self, now_us: u64) {
        self.0.retain(|known| now_us < known.until_us);
    }
}
