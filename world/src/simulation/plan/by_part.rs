//! Requests with a cost for each part of a limit of two, drawn from a stream of their own.

use lockage_core::Limit;

use super::limits::single_limit;
use super::{Plan, Verb, Work};
use crate::simulation::draw::Draw;

/// The first seed of worlds that may have them.
pub(super) const BY_PART: u64 = 10_000_000_000_000_000;

impl Plan {
    /// Gives both limits two parts, and some requests a cost for each.
    pub(super) fn ask_by_part(&mut self, draw: &mut Draw) {
        let has_limiters = self.works().any(|work| matches!(work, Work::Ask { .. }));
        if !has_limiters || !draw.chance(500) {
            return;
        }
        for limit in [&mut self.limit, &mut self.other] {
            let more = single_limit(draw, &["100ms", "450ms", "1s", "3s"]);
            if limit.parts().count() == 1 {
                *limit = format!("{limit} + {more}").parse().expect("limits");
            }
        }
        self.take_less_ahead();
        let is_log = |limit: Limit, part| {
            limit.parts().nth(part).is_some_and(|part| matches!(part, Limit::SlidingLog(_)))
        };
        let [first, second] =
            [0, 1].map(|part| is_log(self.limit, part) || is_log(self.other, part));
        for job in &mut self.jobs {
            let is_by_part = draw.chance(600);
            let (more, has_none) = (draw.between(0, 4), draw.chance(150));
            let Work::Ask { cost, second: of_second, verb, .. } = &mut job.work else { continue };
            let may_be_by_part = matches!(
                verb,
                Verb::Acquire { wait_us: 0 }
                    | Verb::Once
                    | Verb::Peek
                    | Verb::All { .. }
                    | Verb::Reserve { .. }
                    | Verb::Held { .. }
                    | Verb::Refund
                    | Verb::Penalty
            );
            if !is_by_part || !may_be_by_part {
                continue;
            }
            // Logs share their entries, and have one for each request.
            let least = u64::from(second);
            *of_second = Some(if first && second { *cost } else { more.max(least) });
            if has_none && !first && more > 0 {
                *cost = 0;
            }
        }
    }

    /// Keeps the permits taken ahead to fewer than each part has, and to none of a queue.
    fn take_less_ahead(&mut self) {
        let most = self.limit.capacity() - 1;
        let is_queue = self.limit.parts().any(|part| matches!(part, Limit::LeakyBucket(_)));
        let prefetch = self.options.prefetch.filter(|_| most > 0 && !is_queue);
        self.options.prefetch = prefetch.map(|(permits, lease_us)| (permits.min(most), lease_us));
    }
}
