//! Draws limits, their options, and networks.

use std::time::Duration;

use lockage_core::{Limit, StoredLimit};

use super::{Instead, MILLI, Network, Options, SECOND, Stored};
use crate::simulation::draw::Draw;

impl Stored {
    pub(in crate::simulation) fn of(self, limit: Limit) -> StoredLimit {
        let stored = StoredLimit::new(limit);
        let stored = match self.keep_us {
            Some(keep_us) => stored.kept_for(Duration::from_micros(keep_us)).expect("in range"),
            None => stored,
        };
        if self.is_per_client { stored.per_client() } else { stored }
    }
}

impl Options {
    pub(super) fn draw(limit: &Limit, timeout_us: u64, draw: &mut Draw) -> Self {
        let (idempotency, coalescing) = match draw.between(0, 2) {
            0 => (false, false),
            1 => (true, false),
            _ => (false, true),
        };
        let is_queue = limit.parts().any(|part| matches!(part, Limit::LeakyBucket(_)));
        let most = limit.capacity() - 1;
        let prefetch = (most > 0 && !is_queue && draw.chance(300)).then(|| {
            let lease_us = match draw.chance(500) {
                true => draw.between(MILLI, timeout_us),
                false => draw.between(timeout_us, 3 * SECOND),
            };
            (draw.between(1, most), lease_us)
        });
        let instead = [Instead::Open, Instead::Closed, Instead::Closed, Instead::Share];
        Options {
            idempotency,
            coalescing,
            deny_cache: draw.chance(400),
            shadow: draw.chance(50),
            stored: draw.chance(200).then(|| Stored {
                is_per_client: draw.chance(300),
                keep_us: draw.chance(300).then(|| draw.between(timeout_us, 3 * SECOND)),
            }),
            batches: draw.chance(300),
            fallback: draw.chance(250).then(|| draw.one_of(&instead)),
            prefetch,
            max_age_us: None,
            circuit: None,
            unread: None,
        }
    }
}

impl Network {
    /// Returns the network in which all messages take as long as the quickest of this one.
    pub(super) fn alike(self) -> Self {
        Network { least_us: self.least_us, most_us: self.least_us, ..Network::default() }
    }

    pub(super) fn draw(timeout_us: u64, draw: &mut Draw) -> Self {
        let least_us = draw.one_of(&[1, 50, 500]);
        let most_us = match draw.between(0, 2) {
            0 => least_us,
            1 => least_us + draw.between(0, 5 * MILLI),
            _ => least_us + draw.between(0, timeout_us / 4),
        };
        let of = |draw: &mut Draw| if draw.chance(500) { 0 } else { draw.between(1, 150) as u32 };
        let (lost, late) = (of(draw), of(draw));
        let aimed = if draw.chance(500) { 0 } else { 300 };
        Network { least_us, most_us, lost, late, aimed, ..Network::default() }
    }
}

/// Draws one limit or several, whose `remaining` shows the charges.
pub(super) fn limit_of(draw: &mut Draw) -> Limit {
    let parts = if draw.chance(150) { 2 } else { 1 };
    let texts: Vec<String> =
        (0..parts).map(|_| single_limit(draw, &["100ms", "450ms", "1s", "3s"])).collect();
    if draw.chance(60) {
        return calendar(draw);
    }
    texts.join(" + ").parse().expect("limits")
}

pub(super) fn calendar(draw: &mut Draw) -> Limit {
    format!("calendar-window {}/day", draw.between(1, 12)).parse().expect("a limit")
}

pub(super) fn single_limit(draw: &mut Draw, spans: &[&str]) -> String {
    let (count, more) = (draw.between(1, 12), draw.between(0, 8));
    let span = draw.one_of(spans);
    match draw.between(0, 5) {
        0 => format!("fixed-window {count}/{span}"),
        1 => format!("sliding-log {count}/{span}"),
        2 => format!("sliding-window {count}/{span}"),
        3 => format!("token-bucket {count} every {span} burst {}", count + more),
        4 => format!("leaky-bucket {count}/{span} queue {}", 1 + more),
        _ => format!("token-bucket {count}/{span} burst {}", count + more),
    }
}
