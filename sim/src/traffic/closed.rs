//! A closed loop: each client sends its next request some time after the answer to the last.

use std::collections::BTreeSet;
use std::time::Duration;

use super::random::{Chance, Stream};

/// Thinking clients, by the time of their next request, in microseconds after the start.
pub(crate) struct Thinking {
    chance: Chance,
    mean: f64,
    end: u64,
    next: BTreeSet<(u64, u32)>,
}

impl Thinking {
    /// Returns this many clients, which all begin to think at the start. No request comes from `end` on.
    pub(crate) fn new(clients: u32, think: Duration, end: u64, seed: u64) -> Thinking {
        let chance = Chance::new(seed, Stream::Times);
        let mean = think.as_micros() as f64;
        let mut thinking = Thinking { chance, mean, end, next: BTreeSet::new() };
        (0..clients).for_each(|client| thinking.think(client, 0));
        thinking
    }

    /// Records that a client has its answer, and begins to think.
    pub(crate) fn think(&mut self, client: u32, now: u64) {
        // At least a microsecond, so that time advances.
        let time = 1 + (self.chance.exponential() * self.mean) as u64;
        let next = now.saturating_add(time);
        if next < self.end {
            self.next.insert((next, client));
        }
    }

    /// Returns when the next request comes, if no answer brings an earlier one.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.next.first().map(|(at, _)| *at)
    }

    /// Returns the time and the client of the next request.
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        self.next.pop_first()
    }
}
