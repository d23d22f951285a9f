//! Requests for several ids in one decision, requests that last, and limits in flight, drawn from a stream of their own.

use lockage_core::Limit;

use super::{Options, Plan, Verb, Work};
use crate::simulation::draw::Draw;

/// The first seed of worlds that may have them.
pub(super) const SEVERAL: u64 = 100_000_000_000_000;

/// The first seed of worlds in which buckets may warm up, and ids on two nodes may be decided together.
pub const WARMUP: u64 = 100_000_000_000_000_000;

/// The first seed of worlds in which requests under stored limits may be decided together, too.
const SEVERAL_STORED: u64 = 1_000_000_000_000_000;

impl Plan {
    /// Lets some requests be for both ids, and others last for a while.
    pub(super) fn ask_for_several(&mut self, draw: &mut Draw) {
        if !draw.chance(500) {
            return;
        }
        let may_be_stored = self.seed >= SEVERAL_STORED;
        let may_be_apart = self.seed >= WARMUP;
        if may_be_apart && self.link.is_none() && draw.chance(100) {
            self.call_servers(draw);
            self.link.as_mut().expect("it was drawn").is_cluster = true;
        }
        let Options { stored, shadow, .. } = self.options;
        let may_be_together =
            (stored.is_none() || may_be_stored) && !shadow && (may_be_apart || !self.is_apart());
        for index in 0..self.jobs.len() {
            let (for_us, more) = (self.span(draw), draw.between(1, 3));
            let hold_us = self.span(draw).max(2 * self.timeout_us);
            let is_dropped = draw.chance(500);
            let actual = draw.chance(300).then(|| draw.between(0, 4));
            let drawn = match draw.between(0, 3) {
                0 | 1 if may_be_together => Verb::All { more },
                2 => Verb::Held { hold_us, for_us, is_dropped, actual },
                _ => continue,
            };
            if let Work::Ask { verb, .. } = &mut self.jobs[index].work
                && matches!(verb, Verb::Acquire { wait_us: 0 } | Verb::Each { .. } | Verb::Refund)
            {
                *verb = drawn;
            }
        }
        match draw.between(0, 9) {
            0..=2 => self.limit_in_flight(draw),
            3 => self.fill_places(draw),
            _ => {}
        }
    }

    /// Returns whether a decision on both ids is made of calls to two nodes.
    pub(in crate::simulation) fn is_apart(&self) -> bool {
        // The ids of a world are on two slots.
        self.link.is_some_and(|link| link.is_cluster)
    }

    /// Returns whether there are such decisions.
    pub(in crate::simulation) fn asks_apart(&self) -> bool {
        self.is_apart() && self.asks(|verb| matches!(verb, Verb::All { .. }))
    }

    /// Gives token buckets a warm-up.
    pub(super) fn warm_up(&mut self, draw: &mut Draw) {
        for limit in [&mut self.limit, &mut self.other] {
            let warmup = draw.one_of(&["", "", " warmup 100ms", " warmup 1s", " warmup 5s"]);
            let text = |part: Limit| match part {
                Limit::TokenBucket(_) => format!("{part}{warmup}"),
                _ => part.to_string(),
            };
            let parts: Vec<String> = limit.parts().map(text).collect();
            *limit = parts.join(" + ").parse().expect("limits");
        }
    }

    /// Limits what is in flight, with a lease that no reservation outlasts.
    fn limit_in_flight(&mut self, draw: &mut Draw) {
        let holds = self.works().filter_map(|work| match work {
            Work::Ask {
                verb: Verb::Reserve { hold_us, .. } | Verb::Held { hold_us, .. }, ..
            } => Some(hold_us),
            _ => None,
        });
        let longest_us = holds.max().unwrap_or(0);
        let least_us = longest_us.max(2 * self.timeout_us);
        let lease_us = least_us + draw.one_of(&[0, 1, self.timeout_us]);
        let places = format!("in-flight {} lease {lease_us}us", draw.between(1, 6));
        let beside = if draw.chance(300) { " + token-bucket 12/s burst 12" } else { "" };
        self.limit = format!("{places}{beside}").parse().expect("a limit");
        // Permits in flight are not taken ahead.
        self.options.prefetch = None;
    }

    /// Few places are held for several leases by some, while others ask for them, and nothing goes wrong.
    fn fill_places(&mut self, draw: &mut Draw) {
        self.calm_down(draw);
        self.options = Options::default();
        let lease_us = draw.between(2, 5) * self.timeout_us;
        let limit = format!("in-flight {} lease {lease_us}us", draw.between(1, 3));
        self.limit = limit.parse().expect("a limit");
        for job in &mut self.jobs {
            if let Work::Ask { id, cost, verb, times, every_us, .. } = &mut job.work {
                let (for_us, is_dropped) = (draw.between(1, 3 * lease_us), draw.chance(500));
                *verb = Verb::Held { hold_us: lease_us, for_us, is_dropped, actual: None };
                (*id, *cost, *times, *every_us) = (0, 1, 3, draw.one_of(&[0, 1, lease_us / 3]));
                job.at_us = draw.between(0, lease_us);
            }
        }
    }
}
