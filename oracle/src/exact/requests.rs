//! The remembered requests of a key, by their ids (D11): a list in front of any limiter.

use crate::subject::{Asked, Outcome};

/// How many requests are remembered (K).
const REMEMBERED: usize = 8;

/// A request that was done, and its outcome.
#[derive(Clone, Debug)]
struct Done {
    id: u128,
    asked: Asked,
    until_us: u64,
    outcome: Outcome,
}

/// The requests that were done, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(Vec<Done>);

impl Requests {
    /// Returns the earlier operation and outcome of an id.
    pub(super) fn told(&self, id: u128, now_us: u64) -> Option<(Asked, Outcome)> {
        let known = self.0.iter().find(|known| known.id == id && now_us < known.until_us);
        known.map(|known| (known.asked, known.outcome.clone()))
    }

    /// Records a write at `now_us`: whatever has expired by then goes for good.
    pub(super) fn pass(&mut self, now_us: u64) {
        self.0.retain(|known| now_us < known.until_us);
    }

    /// Records a request.
    pub(super) fn remember(&mut self, id: u128, asked: Asked, until_us: u64, outcome: Outcome) {
        self.0.push(Done { id, asked, until_us, outcome });
        let dropped = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..dropped);
    }
}
