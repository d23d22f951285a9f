//! The requests of one client, and the smallest limit that admits all of them.

use lockage_core::{Acquire, Command, ConfigError, Limit, Timestamp};

use crate::answers::ExactLogs;
use crate::engine::bounded;
use crate::trace::Trace;

/// The times and costs of one client's requests.
pub(super) struct Client(Vec<(Timestamp, u64)>);

impl Client {
    /// Returns the clients of a trace, by the numbers of their keys.
    pub(super) fn all(trace: &Trace) -> Vec<Client> {
        let mut clients: Vec<Client> = (0..trace.key_count()).map(|_| Client(Vec::new())).collect();
        for request in trace.requests() {
            clients[request.key as usize].0.push((request.at, request.cost));
        }
        clients
    }

    /// Returns whether it has one request.
    pub(super) fn is_once(&self) -> bool {
        self.0.len() == 1
    }

    /// Returns the smallest number whose limit admits all requests. Limits of larger numbers admit more (D8).
    ///
    /// # Errors
    /// If a number that must be tried has no limit.
    pub(super) fn smallest(
        &self,
        limit: &dyn Fn(u64) -> Result<Limit, ConfigError>,
    ) -> Result<u64, ConfigError> {
        // Nothing below the largest request will do, and all of them at once is always enough.
        let mut too_small = self.0.iter().map(|(_, cost)| *cost).max().unwrap_or(1) - 1;
        let all = self.0.iter().fold(0u64, |all, (_, cost)| all.saturating_add(*cost));
        let mut enough = all.max(too_small + 1);
        // Most clients need little.
        let (mut next, mut has_fitted) = (too_small + 1, false);
        while enough - too_small > 1 {
            match self.used(&limit(next)?) {
                Some(used) => {
                    (enough, has_fitted) = (next, true);
                    // A smaller limit is used no less, and most often one such step suffices.
                    too_small = too_small.max(used.saturating_sub(1));
                    next = too_small + 1;
                }
                None => {
                    too_small = next;
                    next = match has_fitted {
                        true => too_small + (enough - too_small) / 2,
                        false => next.saturating_mul(2).min(enough - 1),
                    };
                }
            }
        }
        limit(enough)?;
        Ok(enough)
    }

    /// Returns how many requests a limit denies.
    pub(super) fn denied(&self, limit: &Limit) -> u64 {
        self.decisions(limit).filter(Option::is_none).count() as u64
    }

    /// Returns the most that is used of a limit at any time; `None` if it denies a request.
    fn used(&self, limit: &Limit) -> Option<u64> {
        let mut least = limit.capacity();
        for remaining in self.decisions(limit) {
            least = least.min(remaining?);
        }
        Some(limit.capacity() - least)
    }

    /// Returns the remaining amount after each admitted request.
    fn decisions<'a>(&'a self, limit: &'a Limit) -> Box<dyn Iterator<Item = Option<u64>> + 'a> {
        match limit {
            // The machine keeps its entries as a store does, and takes them all up for each request.
            Limit::SlidingLog(_) => Box::new(self.by_exact_log(limit)),
            _ => Box::new(self.by_machine(limit)),
        }
    }

    fn by_machine(&self, limit: &Limit) -> impl Iterator<Item = Option<u64>> {
        let request = |cost, at| {
            (cost, Acquire::new(bounded(limit, at), cost).expect("a trace has no cost of zero"))
        };
        let (mut slot, mut last) = (None, request(1, Timestamp::EPOCH));
        self.0.iter().map(move |&(at, cost)| {
            if last.0 != cost || limit.has_calendar() {
                last = request(cost, at);
            }
            let decided = last.1.apply(&mut slot, at).expect("the record is this limit's own");
            decided.is_allowed().then_some(decided.remaining)
        })
    }

    fn by_exact_log(&self, limit: &Limit) -> impl Iterator<Item = Option<u64>> {
        let mut log = ExactLogs::new(limit);
        self.0.iter().map(move |&(at, cost)| {
            let now = at.as_micros();
            let remaining = log.free(now).checked_sub(cost)?;
            log.add(now, cost);
            Some(remaining)
        })
    }
}
