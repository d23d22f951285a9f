//! Requests for several ids in one decision, requests that last, and limits in flight, drawn from a stream of their own.

use super::{Options, Plan, Verb, Work};
use crate::simulation::draw::Draw;

/// The first seed of worlds that may have them.
pub const SEVERAL: u64 = 100_000_000_000_000;

impl Plan {
    /// Lets some requests be for both ids, and others last for a while.
    pub(super) fn ask_for_several(&mut self, draw: &mut Draw) {
        if !draw.chance(500) {
            return;
        }
        let Options { stored, shadow, .. } = self.options;
        // The ids of a world are on two slots.
        let is_one_node = self.link.is_none_or(|link| !link.is_cluster);
        let may_be_together = stored.is_none() && !shadow && is_one_node;
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
        if draw.chance(300) {
            self.limit_in_flight(draw);
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
}
