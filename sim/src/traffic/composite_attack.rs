//! The boundary attack on a composite: on one limit after the other, as far as the others admit it.

use std::collections::VecDeque;
use std::time::Duration;

use lockage_core::{Acquire, Command, Decision, Limit, Peek, Record, Timestamp, Verdict};

use super::attack::Attack;
use crate::engine::bounded;

/// Requests, in microseconds from the start, and how many at once. All of them are admitted: the machine decides each
/// first.
pub(super) struct CompositeAttack {
    limit: Limit,
    parts: Vec<Attack>,
    round: usize,
    key: Key,
    start: u64,
    ready: VecDeque<(u64, u64)>,
}

impl CompositeAttack {
    pub(super) fn new(limit: Limit, start: Timestamp) -> Self {
        let parts = limit.parts().filter_map(|part| Attack::on(&part)).collect();
        let key = Key { slot: None, now: start.as_micros() };
        CompositeAttack {
            limit,
            parts,
            round: 0,
            key,
            start: start.as_micros(),
            ready: VecDeque::new(),
        }
    }

    /// Attacks the next part, and then pauses until all parts are as if never used.
    fn attack_one(&mut self) {
        let part = self.parts[self.round % self.parts.len()];
        self.round += 1;
        let from = self.key.now;
        let wishes = part.wishes(from);
        let ends = wishes.iter().skip(1).map(|wish| wish.offset).chain([part.round_us()]);
        for (wish, end) in wishes.iter().zip(ends) {
            let at = from.saturating_add(wish.offset);
            if wish.is_late {
                self.fill_until(at, wish.count);
            } else {
                self.key.now = self.key.now.max(at);
                let placed = self.key.fill(&self.limit, wish.count, from.saturating_add(end));
                self.take(placed);
            }
        }
        let fresh = self.key.peek(&self.limit).reset_after;
        self.key.wait(fresh);
    }

    /// Fills the limits so that the most is admitted shortly before `end` and at it, and nothing later.
    fn fill_until(&mut self, end: u64, count: u64) {
        let earliest = self.key.now;
        let (mut from, mut step) = (end.max(earliest), 0);
        loop {
            let mut key = Key { slot: self.key.slot.clone(), now: from };
            let placed = key.fill(&self.limit, count, u64::MAX);
            let last = placed.last().map_or(from, |(at, _)| *at);
            if last <= end || from == earliest {
                break;
            }
            // The others may admit it more slowly at another time, so one step is not always enough.
            step = (last - end).max(2 * step);
            from = from.saturating_sub(step).max(earliest);
        }
        self.key.now = from;
        let placed = self.key.fill(&self.limit, count, end.saturating_add(1));
        self.take(placed);
        self.key.now = self.key.now.max(end);
    }

    fn take(&mut self, placed: Vec<(u64, u64)>) {
        self.ready.extend(placed.into_iter().map(|(at, count)| (at - self.start, count)));
    }
}

impl Iterator for CompositeAttack {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        // Each round makes requests, and finds limits that are as if never used, until time ends.
        while self.ready.is_empty() && self.key.now < Timestamp::MAX.as_micros() {
            self.attack_one();
        }
        self.ready.pop_front()
    }
}

/// The attacked key.
struct Key {
    slot: Option<Record>,
    now: u64,
}

impl Key {
    /// Asks for `count` in all, each time for all that remains, as soon as something does, before `end`; returns when
    /// how much was admitted.
    fn fill(&mut self, limit: &Limit, mut count: u64, end: u64) -> Vec<(u64, u64)> {
        let mut placed = Vec::new();
        while count > 0 && self.now < end.min(Timestamp::MAX.as_micros()) {
            let decision = self.peek(limit);
            let taken = decision.remaining.min(count);
            if taken > 0 {
                let now = self.time();
                let acquire = Acquire::new(bounded(limit, now), taken).expect("it is above zero");
                _ = acquire.apply(&mut self.slot, now).expect("the record is this limit's own");
                placed.push((self.now, taken));
                count -= taken;
            }
            match decision.verdict {
                Verdict::Denied { retry_after, .. } => self.wait(retry_after),
                _ if taken == 0 => break,
                _ => {}
            }
        }
        placed
    }

    fn peek(&mut self, limit: &Limit) -> Decision {
        let now = self.time();
        let peek = Peek::new(bounded(limit, now), 1).apply(&mut self.slot, now);
        peek.expect("the record is this limit's own")
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.time().saturating_add(time).as_micros();
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_micros(self.now).unwrap_or(Timestamp::MAX)
    }
}
