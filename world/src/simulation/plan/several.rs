//! Requests for several ids in one decision, and requests that last, drawn from a stream of their own.

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
    }
}
