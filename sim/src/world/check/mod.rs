//! What must hold in a world, checked while it runs.
//!
//! Checks see more than clients do: each operation as it is carried out, the true time, and all clocks.

mod belief;
mod envelope;
mod limiter;
mod lock;
mod property;
mod reference;

use lockage_core::Timestamp;

pub(super) use belief::Belief;
pub use property::{Property, Violation};

use super::message::{Answer, Ask};
use super::rare::{Counts, Rare};
use super::scenario::{Machine, Scenario};
use belief::Beliefs;
use limiter::LimiterTruth;
use lock::LockTruth;

/// What is true of the key, told from the answers that were given.
#[derive(Clone, Debug)]
pub(super) enum Truth {
    Lock(LockTruth),
    Limiter(LimiterTruth),
}

impl Truth {
    /// Of a fresh key.
    fn new(machine: &Machine) -> Truth {
        match *machine {
            Machine::Lock { lock, .. } => Truth::Lock(LockTruth::new(lock)),
            Machine::Limiter { limit, remember_us } => {
                Truth::Limiter(LimiterTruth::new(limit, remember_us))
            }
        }
    }
}

/// How an operation was carried out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    /// In true time.
    pub(super) at_us: u64,
    /// By the store's clock.
    pub(super) now: Timestamp,
    /// Whether the key was there before.
    pub(super) was_held: bool,
}

#[derive(Debug)]
pub(super) struct Checks {
    machine: Machine,
    pub(super) truth: Truth,
    beliefs: Beliefs,
    troubles: Troubles,
    /// The newest token that the value behind the lock has accepted.
    newest_write: u64,
    pub(super) rare: Counts,
}

/// When what is promised was last suspended: true times, zero for never.
#[derive(Clone, Copy, Debug, Default)]
struct Troubles {
    /// The store's clock was set ahead, or a replica took over: leases may have ended early.
    jumped_us: u64,
}

impl Checks {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Checks {
            machine: scenario.machine,
            truth: Truth::new(&scenario.machine),
            beliefs: Beliefs::new(scenario.clients()),
            troubles: Troubles::default(),
            newest_write: 0,
            rare: Counts::default(),
        }
    }

    /// The store's clock was set, or runs on another one.
    pub(super) fn clock_stepped(&mut self, at_us: u64, by_us: i64) {
        if by_us > 0 {
            self.troubles.jumped_us = at_us;
        }
    }

    /// A replica took over, of which this is true: nothing where its key is fresh.
    pub(super) fn failed_over(&mut self, at_us: u64, truth: Option<Truth>) {
        let mut truth = truth.unwrap_or_else(|| Truth::new(&self.machine));
        match (&mut truth, &self.truth) {
            (Truth::Lock(after), Truth::Lock(before)) => {
                if after.token() < before.token() {
                    self.rare.saw(Rare::FailoverLostGrant);
                }
                after.follow(before);
            }
            (Truth::Limiter(after), Truth::Limiter(before))
                if after.admitted() < before.admitted() =>
            {
                self.rare.saw(Rare::FailoverLostCharge);
            }
            _ => {}
        }
        self.truth = truth;
        self.troubles.jumped_us = at_us;
    }

    /// The store has carried something out.
    pub(super) fn carried_out(
        &mut self,
        ask: &Ask,
        answer: &Answer,
        carried: &Carried,
    ) -> Result<(), Violation> {
        match (ask, answer, &mut self.truth) {
            (Ask::Lock(ask), Answer::Lock(reply), Truth::Lock(truth)) => {
                if truth.observe(ask, reply, carried, &mut self.rare)? {
                    let jumped_us = self.troubles.jumped_us;
                    let is_excused =
                        |it: &Belief| it.sent_us <= jumped_us || truth.is_shaken(it.token);
                    self.beliefs.granted(carried.at_us, is_excused, &mut self.rare)?;
                }
                Ok(())
            }
            (Ask::Permit(ask), Answer::Permit(decision), Truth::Limiter(truth)) => {
                truth.observe(ask, decision, carried, &mut self.rare)
            }
            (Ask::Write { token }, Answer::Written { is_accepted: true }, _) => {
                if *token < self.newest_write {
                    let newest = self.newest_write;
                    return Err(
                        Property::L7.broken(format!("token {token} was accepted after {newest}"))
                    );
                }
                self.newest_write = *token;
                Ok(())
            }
            (Ask::Write { .. }, Answer::Written { is_accepted: false }, _) => {
                self.rare.saw(Rare::StaleWrite);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A client is sure of a grant from now on, or for longer. `ends_us` is the store's clock when its own
    /// deadline comes.
    pub(super) fn believes(&mut self, belief: Belief, ends_us: u64) -> Result<(), Violation> {
        if let Truth::Lock(truth) = &self.truth
            && belief.sent_us > self.troubles.jumped_us
            && !truth.is_shaken(belief.token)
        {
            truth.covers(belief.token, ends_us)?;
        }
        self.beliefs.begin(belief);
        Ok(())
    }

    /// A client is sure of nothing any more.
    pub(super) fn doubts(&mut self, client: usize) {
        self.beliefs.end(client);
    }
}
