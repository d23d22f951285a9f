//! Worlds with a key beside the others whose clients take permits ahead. They are drawn from a stream of their own, and
//! use that key alone, so that all else in a world is as it would be without them.

use std::time::Duration;

use lockage_core::flow::PrefetchConfig;
use lockage_core::{ConfigError, Limit};

use super::draw::Draw;
use super::job::{Job, Spending, Work};
use super::plan::limit;
use super::scenario::{Beside, Limiter, MILLI, Machine, SECOND, Scenario};
use super::server::MAX_KEYS;

/// The stream that all of it is drawn from.
const NODES: u64 = (1 << 40) + 16;

/// The first number of a job of theirs.
const FIRST_JOB: u32 = 30_000;

impl Spending {
    /// How its permits are taken ahead.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub(super) fn config(&self, machine: &Machine) -> Result<PrefetchConfig, ConfigError> {
        let none = ConfigError::Conflict { what: "permits", with: "what is no limiter" };
        let Machine::Limiter(limiter) = machine else { return Err(none) };
        PrefetchConfig::new(&limiter.limit, self.permits, Duration::from_micros(self.lease_us))
    }
}

impl Scenario {
    /// In some worlds nodes take permits of a key of their own ahead.
    pub(super) fn add_nodes(&mut self) {
        let draw = &mut Draw::new(self.seed, NODES);
        if !draw.chance(150) || self.beside.len() + 1 == MAX_KEYS {
            return;
        }
        let limit = ahead_limit(draw);
        let machine = Machine::Limiter(Limiter::new(limit, (4 * self.timeout_us).max(SECOND)));
        let (first, clients) = (self.clients(), draw.between(1, 3) as usize);
        let permits = draw.between(1, limit.capacity() - 1);
        let lease_us = match draw.chance(300) {
            true => draw.between(MILLI, self.timeout_us),
            false => draw.between(self.timeout_us / 4, 3 * SECOND),
        };
        for number in 0..draw.between(1, 6) as u32 {
            let client = first + draw.between(0, clients as u64 - 1) as usize;
            let at_us = draw.between(0, self.heal_us - 1);
            let work = Work::Spend(Spending {
                cost: if draw.chance(700) { 1 } else { draw.between(1, permits + 1) },
                requests: draw.between(1, 40) as u32,
                every_us: draw.between(1, lease_us.div_ceil(4)),
                permits,
                lease_us,
                with_id: draw.chance(300),
                flaw: None,
            });
            self.jobs.push(Job { number: FIRST_JOB + number, client, at_us, work });
        }
        self.add_last_jobs(&machine, (first, clients), FIRST_JOB, draw);
        for _ in 0..draw.between(0, 2) {
            self.add_client_trouble(first, clients, draw);
        }
        self.beside.push(Beside { machine, clients });
    }
}

/// One without turns, that admits two at once.
fn ahead_limit(draw: &mut Draw) -> Limit {
    loop {
        let limit = limit(draw);
        let has_turns = limit.parts().any(|part| matches!(part, Limit::LeakyBucket(_)));
        if !has_turns && limit.capacity() > 1 {
            return limit;
        }
    }
}
