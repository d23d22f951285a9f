//! What a key remembers of requests with an id (D11): a list in front of any limiter.

use crate::subject::{Asked, Outcome};

/// How many requests that were done are remembered (K).
const REMEMBERED: usize = 8;

/// A request that was done, and what it was told.
#[derive(Clone, Debug)]
struct Done {
    id: u128,
    asked: Asked,
    until_us: u64,
    outcome: Outcome,
}

/// The requests that were done, in that order.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(Vec<Done>);

impl Requests {
    /// What an id was told before, with what it had asked.
    pub(super) fn told(&self, id: u128, now_us: u64) -> Option<(Asked, Outcome)> {
        let known = self.0.iter().find(|known| known.id == id && now_us < known.until_us);
        known.map(|known| (known.asked, known.outcome.clone()))
    }

    /// The key was written at `now_us`: what is over by then goes for good.
    pub(super) fn pass(&mut self, now_us: u64) {
        self.0.retain(|known| now_us < known.until_us);
    }

    /// This was it.
    pub(super) fn remember(&mut self, id: u128, asked: Asked, until_us: u64, outcome: Outcome) {
        self.0.push(Done { id, asked, until_us, outcome });
        let dropped = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..dropped);
    }
}
