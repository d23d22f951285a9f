//! The store of a process's share of a limit, which reports its charges.

use std::time::Duration;

use lockage::store::BlockingStore;
use lockage::{Key, StoreError};
use lockage_core::{Command, Limit, Peek};
use lockage_memory::MemoryStore;

use crate::simulation::by_part::{ByPart, each, remaining};
use crate::simulation::judge::Seen;
use crate::simulation::place::{Place, PlaceClock};
use crate::simulation::store::bounded;
use crate::simulation::wire::limiter_of;

pub(super) struct Share<P> {
    limit: Limit,
    store: MemoryStore<PlaceClock<P>>,
    place: P,
}

impl<P: Place> Share<P> {
    pub(super) fn new(limit: Limit, place: &P) -> Self {
        let store = MemoryStore::with_clock(PlaceClock(place.clone()));
        Share { limit, store, place: place.clone() }
    }

    /// Returns the permits of each part that remain of the share.
    fn left(&self, key: &Key) -> Result<ByPart, StoreError> {
        let peek = Peek::new(bounded(self.limit, self.place.time_of_day()), 1);
        Ok(remaining(&self.store.execute(key, &peek, Duration::MAX)?))
    }
}

impl<P: Place> BlockingStore for Share<P> {
    fn execute<C: Command>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError> {
        let before = self.left(key)?;
        let outcome = self.store.execute(key, command, patience)?;
        let cost = each(before, self.left(key)?, u64::saturating_sub);
        if let Some(id) = limiter_of(key.as_str()).filter(|_| cost != [0; 2]) {
            self.place.saw(Seen::Shared { id, cost, clock_us: self.place.clock_us() });
        }
        Ok(outcome)
    }
}
