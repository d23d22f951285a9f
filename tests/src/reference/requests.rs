//! What a key remembers of requests with an id (D11): a list in front of any limiter.

use crate::subject::Answer;

/// How many admitted requests are remembered (K).
const REMEMBERED: usize = 8;

/// A request that was admitted, and what it was told.
#[derive(Clone, Debug)]
struct Admitted {
    id: u128,
    cost: u64,
    until_us: u64,
    answer: Answer,
}

/// The requests that were admitted, in that order.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(Vec<Admitted>);

impl Requests {
    /// What an id was told before, with the cost that it was told for.
    pub(super) fn told(&self, id: u128, now_us: u64) -> Option<(u64, Answer)> {
        let known = self.0.iter().find(|known| known.id == id && now_us < known.until_us);
        known.map(|known| (known.cost, known.answer.clone()))
    }

    /// Something was admitted at `now_us`: what is over by then goes for good.
    pub(super) fn pass(&mut self, now_us: u64) {
        self.0.retain(|known| now_us < known.until_us);
    }

    /// This was it.
    pub(super) fn remember(&mut self, id: u128, cost: u64, until_us: u64, answer: Answer) {
        self.0.push(Admitted { id, cost, until_us, answer });
        let dropped = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..dropped);
    }
}
