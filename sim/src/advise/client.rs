//! The requests of one client, and the smallest limit that admits all of them.

use lockage_core::{Acquire, Command, ConfigError, Limit, Timestamp};

use crate::trace::Trace;

/// When a client came, and for how much.
pub(super) struct Client(Vec<(Timestamp, u64)>);

impl Client {
    /// The clients of a trace, by the numbers of their keys.
    pub(super) fn all(trace: &Trace) -> Vec<Client> {
        let mut clients: Vec<Client> = (0..trace.key_count()).map(|_| Client(Vec::new())).collect();
        for request in trace.requests() {
            clients[request.key as usize].0.push((request.at, request.cost));
        }
        clients
    }

    /// The smallest number whose limit admits all requests. The limits of larger numbers admit more (D8).
    ///
    /// # Errors
    /// Where there is no limit for a number that has to be tried.
    pub(super) fn smallest(
        &self,
        limit: &dyn Fn(u64) -> Result<Limit, ConfigError>,
    ) -> Result<u64, ConfigError> {
        // Nothing below the largest request will do, and all of them at once is always enough.
        let mut too_small = self.0.iter().map(|(_, cost)| *cost).max().unwrap_or(1) - 1;
        let all = self.0.iter().fold(0u64, |all, (_, cost)| all.saturating_add(*cost));
        // Most clients need little.
        let mut enough = too_small + 1;
        while enough < all && !self.fits(&limit(enough)?) {
            too_small = enough;
            enough = enough.saturating_mul(2).min(all);
        }
        while enough - too_small > 1 {
            let middle = too_small + (enough - too_small) / 2;
            match self.fits(&limit(middle)?) {
                true => enough = middle,
                false => too_small = middle,
            }
        }
        limit(enough)?;
        Ok(enough)
    }

    /// How many requests a limit denies.
    pub(super) fn denied(&self, limit: &Limit) -> u64 {
        self.decisions(limit).filter(|is_allowed| !is_allowed).count() as u64
    }

    fn fits(&self, limit: &Limit) -> bool {
        self.decisions(limit).all(|is_allowed| is_allowed)
    }

    fn decisions(&self, limit: &Limit) -> impl Iterator<Item = bool> {
        let mut slot = None;
        self.0.iter().map(move |&(at, cost)| {
            let acquire = Acquire::new(*limit, cost).expect("a trace has no cost of zero");
            let decided = acquire.apply(&mut slot, at);
            decided.expect("the record is this limit's own").is_allowed()
        })
    }
}
