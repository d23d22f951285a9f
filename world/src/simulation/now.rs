//! What the store would say.

use lockage_core::{Origin, Reservation, Settlement, Verdict};

use super::host::Out;
use super::judge::{Oracle, Seen};
use super::plan::What;
use super::play::limiter_key;
use super::store::Keys;

/// The store as it is now.
pub(super) struct Now<'w> {
    pub(super) keys: &'w Keys<'w>,
    pub(super) now_us: u64,
    /// What it has denied when the node began to stand still that tells of it.
    pub(super) denied: &'w [(usize, u64)],
}

impl<'w> Now<'w> {
    pub(super) fn new(keys: &'w Keys<'w>, now_us: u64) -> Self {
        Now { keys, now_us, denied: &[] }
    }

    /// Returns what it denies, of what a node denies by itself.
    pub(super) fn denied(&self, out: &[Out]) -> Vec<(usize, u64)> {
        let here = out.iter().filter_map(|out| match out {
            Out::Saw { seen: Seen::Decided { id, cost, decision, .. }, .. } => {
                (decision.origin == Origin::DenyCache).then_some((*id, *cost))
            }
            _ => None,
        });
        here.filter(|(id, cost)| self.would_deny(*id, *cost)).collect()
    }
}

impl Oracle for Now<'_> {
    fn would_deny(&self, id: usize, cost: u64) -> bool {
        let decision = self.keys.peek(&limiter_key(id), cost, self.now_us);
        decision.verdict != Verdict::Allowed || self.denied.contains(&(id, cost))
    }

    fn settle(&self, id: usize, reservation: &Reservation, actual: u64) -> Settlement {
        self.keys.settle(&limiter_key(id), reservation, actual, self.now_us)
    }

    fn reservations(&self, id: usize) -> usize {
        self.keys.reservations(&limiter_key(id), self.now_us)
    }

    fn granted_until_us(&self, what: What, token: u64) -> Option<u64> {
        self.keys.granted_until_us(what, token, self.now_us)
    }

    fn granted_by(&self, until_us: u64) -> usize {
        self.keys.granted_by(until_us, self.now_us)
    }
}
