//! The bound on the requests that a process serves at once: of the less important ones fewer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::rule::{Matched, Rule};
use crate::settings::Priority;

/// After this many requests in a row without an answer, the store counts as away.
const AWAY_AFTER: u32 = 3;

/// The bound, and the requests that are served now.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) most: u32,
    /// Likewise, while the store is away.
    pub(crate) most_while_away: u32,
    served: Arc<AtomicU32>,
    /// The number of requests in a row that the store did not answer.
    silent: Arc<AtomicU32>,
}

/// The place of a request among those that are served at once. Dropping it makes room for another one.
#[derive(Debug)]
#[must_use = "dropped, it makes room for another request"]
pub struct Place(Arc<AtomicU32>);

/// A request was refused, since the process serves as many requests as may be served beside one of this priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{in_flight} requests are served now, and those of priority {priority} may be among {share} at most"
)]
#[non_exhaustive]
pub struct Shed {
    /// The priority of the request.
    pub priority: Priority,
    /// The number of requests that were served.
    pub in_flight: u32,
    /// The number up to which requests of this priority are served.
    pub share: u32,
    /// Whether the bound was that for the time without the store.
    pub is_store_away: bool,
}

impl InFlight {
    pub(crate) fn unbounded() -> Self {
        let (served, silent) = Default::default();
        InFlight { most: u32::MAX, most_while_away: u32::MAX, served, silent }
    }

    /// Takes a place, if there is a bound.
    pub(crate) fn take(&self, priority: Priority) -> Result<Option<Place>, Shed> {
        if self.most.min(self.most_while_away) == u32::MAX {
            return Ok(None);
        }
        let is_store_away = self.silent.load(Ordering::Relaxed) >= AWAY_AFTER;
        let most = if is_store_away { self.most.min(self.most_while_away) } else { self.most };
        let share = priority.share(most);
        let one_more = |served: u32| (served < share).then_some(served + 1);
        match self.served.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Some(Place(Arc::clone(&self.served)))),
            Err(in_flight) => Err(Shed { priority, in_flight, share, is_store_away }),
        }
    }

    /// Notes whether the store has answered a request.
    pub(crate) fn note(&self, is_answered: bool) {
        if is_answered {
            // While it answers this only reads, so that callers share the cache line.
            if self.silent.load(Ordering::Relaxed) > 0 {
                self.silent.store(0, Ordering::Relaxed);
            }
            return;
        }
        let one_more = |silent: u32| (silent < AWAY_AFTER).then_some(silent + 1);
        // Once it is away, it stays so.
        let _ = self.silent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Priority {
    /// Returns the priority of a request that meets these rules: that of the first one that has one, of those that are
    /// enforced.
    pub fn of(matched: &[Matched]) -> Priority {
        Priority::of_rules(matched.iter().map(|matched| &*matched.rule))
    }

    pub(crate) fn of_rules<'r>(rules: impl Iterator<Item = &'r Rule>) -> Priority {
        let mut enforced = rules.filter(|rule| !rule.shadow);
        enforced.find_map(|rule| rule.priority).unwrap_or_default()
    }

    /// Returns the part of a bound that may be full before requests of this priority are refused, rounded up.
    fn share(self, most: u32) -> u32 {
        let (part, of) = match self {
            Priority::Low => (1, 2),
            Priority::Normal => (3, 4),
            Priority::High => (9, 10),
            Priority::Critical => (1, 1),
        };
        let share = (u64::from(most) * part).div_ceil(of);
        u32::try_from(share).unwrap_or(most)
    }
}
