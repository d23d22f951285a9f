//! When a request may be charged twice: the store has forgotten its id while copies of it are on their way, or while its
//! caller waits and repeats it.

use std::collections::BTreeMap;

use crate::simulation::plan::Plan;

pub(super) struct Unsure {
    /// A fallback denies what the store may have admitted.
    has_fallback: bool,
    /// How long after ids were forgotten copies of a request may be charged.
    pub(super) copies_us: u64,
    until_us: u64,
    /// By the life of a node.
    waiting: BTreeMap<(usize, u32), Waiting>,
}

/// Callers of one life that wait.
struct Waiting {
    callers: u32,
    /// Whether one may repeat the request of a call without an answer, whose id is forgotten.
    is_unsure: bool,
}

impl Unsure {
    pub(super) fn new(plan: &Plan) -> Self {
        Unsure {
            has_fallback: plan.options.fallback.is_some(),
            copies_us: 2 * plan.timeout_us,
            until_us: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Ids of requests were forgotten.
    pub(super) fn forgets(&mut self, now_us: u64) {
        self.until_us = self.until_us.max(now_us + self.copies_us);
        self.waiting.values_mut().for_each(|waiting| waiting.is_unsure = true);
    }

    /// A caller begins a wait.
    pub(super) fn begins(&mut self, life: (usize, u32), now_us: u64) {
        let is_unsure = self.has_fallback || now_us < self.until_us;
        let waiting = self.waiting.entry(life).or_insert(Waiting { callers: 0, is_unsure });
        waiting.callers += 1;
    }

    /// A caller ends its wait.
    pub(super) fn ends(&mut self, life: (usize, u32), now_us: u64) {
        let Some(waiting) = self.waiting.get_mut(&life) else { return };
        waiting.callers -= 1;
        if waiting.callers == 0 {
            self.died(life, now_us);
        }
    }

    /// No caller of a life waits any more.
    pub(super) fn died(&mut self, life: (usize, u32), now_us: u64) {
        if self.waiting.remove(&life).is_some_and(|waiting| waiting.is_unsure) {
            self.until_us = self.until_us.max(now_us + self.copies_us);
        }
    }

    pub(super) fn is(&self, now_us: u64) -> bool {
        now_us < self.until_us || self.waiting.values().any(|waiting| waiting.is_unsure)
    }
}
