//! The store's answers of this moment.

use lockage_core::{Reservation, Settlement, Verdict};

use super::by_part::{ByPart, as_cost};
use super::judge::Oracle;
use super::plan::What;
use super::play::limiter_key;
use super::store::Keys;

/// The current state of the store.
pub(super) struct Now<'w> {
    pub(super) keys: &'w Keys<'w>,
    pub(super) now_us: u64,
}

impl<'w> Now<'w> {
    pub(super) fn new(keys: &'w Keys<'w>, now_us: u64) -> Self {
        Now { keys, now_us }
    }
}

impl Oracle for Now<'_> {
    fn would_deny(&self, key: &str, cost: ByPart) -> bool {
        self.keys.peek(key, as_cost(cost), self.now_us).verdict != Verdict::Allowed
    }

    fn settle(&self, id: usize, reservation: &Reservation, actual: ByPart) -> Settlement {
        self.keys.settle(&limiter_key(id), reservation, as_cost(actual), self.now_us)
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

    fn kept_for_us(&self, key: &str) -> Option<u64> {
        self.keys.kept_for_us(key, self.now_us)
    }

    fn tokens(&self, key: &str) -> Vec<u64> {
        self.keys.tokens(key, self.now_us)
    }

    fn held_since_us(&self, key: &str) -> Option<u64> {
        self.keys.held_since_us(key, self.now_us)
    }
}
