//! Plans for real servers.

use super::limits::single_limit;
use super::{End, FOREVER, MILLI, Network, Options, Plan, SECOND, Terms, Theme, Verb, What, Work};
use crate::simulation::draw::Draw;

impl Plan {
    /// Returns a plan for real servers, where nothing goes wrong by itself, and no job takes longer than a few seconds.
    /// It has no permits taken ahead.
    pub fn on_servers(theme: Theme, seed: u64) -> Self {
        let draw = &mut Draw::new(seed, 3);
        let timeout_us = 250 * MILLI;
        let mut limit = single_limit(draw, &["100ms", "450ms"]).parse().expect("a limit");
        let mut options = Options {
            prefetch: None,
            fallback: None,
            shadow: false,
            stored: None,
            ..Options::draw(&limit, timeout_us, draw)
        };
        if theme == Theme::Charges {
            limit = "fixed-window 1000000/day".parse().expect("a limit");
            // With this many requests at once, the store forgets some before they are repeated, and
            // charges them again.
            options.idempotency = false;
        }
        let mut plan = Plan {
            seed,
            // The times of failures are unknown.
            heal_us: FOREVER,
            ppm: vec![0],
            runtimes: 1,
            options,
            limit,
            other: limit,
            timeout_us,
            lease_us: 4 * timeout_us,
            permits: draw.between(1, 4),
            count: 1,
            terms: Terms {
                wake_ups: draw.chance(600),
                replicas: false,
                longest_us: None,
                poll_us: None,
                panics: false,
            },
            keep_us: FOREVER,
            network: Network { lost: 1, ..Network::default() },
            link: None,
            jobs: Vec::new(),
            troubles: Vec::new(),
        };
        for _ in 0..8 * draw.between(2, 10) {
            let work = plan.served(theme, draw);
            let (node, runtime, at_us) = (0, 0, 0);
            let (polls, when_woken) = (None, false);
            plan.jobs.push(super::Job {
                node,
                runtime,
                at_us,
                work,
                polls,
                when_woken,
                is_blind: false,
                is_loose: false,
                moves_to: None,
            });
        }
        plan
    }

    /// Returns how long the grants and places in line of an ended process last, at most: a lease, or half as long again as
    /// two polls and a call.
    pub fn left_us(&self) -> u64 {
        let place_us = 2 * self.usual_poll_us() + self.timeout_us;
        self.lease_us.max(place_us + place_us / 2)
    }

    fn served(&self, theme: Theme, draw: &mut Draw) -> Work {
        let timeout_us = self.timeout_us;
        let wait_us = draw.one_of(&[0, 0, timeout_us, 2 * timeout_us]);
        if matches!(theme, Theme::Limiters | Theme::Charges) {
            return Work::Ask {
                id: draw.between(0, 1) as usize,
                cost: draw.one_of(&[1, 1, 1, 2, 3]),
                second: None,
                verb: match theme {
                    Theme::Charges if draw.chance(300) => Verb::Reserve {
                        hold_us: draw.between(2 * timeout_us, 4 * timeout_us),
                        actual: draw.chance(800).then(|| draw.between(0, 4)),
                    },
                    _ => Verb::Acquire { wait_us },
                },
                times: draw.between(1, 4) as u32,
                every_us: draw.one_of(&[0, 1, 10 * MILLI]),
            };
        }
        let for_us = draw.between(1, 2 * self.lease_us.min(3 * SECOND));
        // One in four outlasts its lease, if drawn so; fewer if all want one thing.
        let long = if theme == Theme::Quorum { 60 } else { 250 };
        let for_us = if draw.chance(long) { for_us } else { for_us % (10 * MILLI) };
        let what = match draw.between(0, 3) {
            _ if theme == Theme::OneLock && draw.chance(300) => return Work::Once { for_us },
            0 if theme == Theme::Values => return Work::Invalidate,
            _ if theme == Theme::Values => return Work::Get { for_us },
            _ if theme == Theme::Quorum => What::Quorum,
            0 if theme == Theme::Locks => What::Permits(draw.between(1, self.permits)),
            1 if theme == Theme::Locks => What::Read,
            2 if theme == Theme::Locks => What::Write,
            _ => What::Lock { is_fair: draw.chance(400) },
        };
        let end = if draw.chance(500) { End::Dropped } else { End::Released };
        Work::Hold { what, wait_us: 2 * wait_us, for_us, end, is_own: false, again: false }
    }
}
