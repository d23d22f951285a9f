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

/// The requests that were done, in order, until none is remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    done: Vec<Done>,
    /// Until when any is remembered, and for half as long again.
    kept_us: u64,
}

impl Requests {
    /// Returns the earlier operation and outcome of an id.
    pub(super) fn told(&self, id: u128, now_us: u64) -> Option<(Asked, Outcome)> {
        let latest_first = self.done.iter().filter(|_| now_us < self.kept_us).rev();
        let known = latest_first.into_iter().find(|it| it.id == id && now_us < it.until_us);
        known.map(|known| (known.asked, known.outcome.clone()))
    }

    /// Records a write at `now_us`.
    pub(super) fn pass(&mut self, now_us: u64) {
        if now_us >= self.kept_us {
            *self = Requests::default();
        }
    }

    /// Records a request that was done at `now_us`.
    pub(super) fn remember(
        &mut self,
        (id, remember_us): (u128, u64),
        asked: Asked,
        now_us: u64,
        outcome: Outcome,
    ) {
        let until_us = now_us + remember_us;
        if until_us > self.kept_us {
            self.kept_us = until_us + remember_us / 2;
        }
        self.done.push(Done { id, asked, until_us, outcome });
        let dropped = self.done.len().saturating_sub(REMEMBERED);
        self.done.drain(..dropped);
    }
}
