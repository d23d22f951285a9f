//! What must hold in a world, checked while it runs.
//!
//! Checks see more than clients do: each operation as it is carried out, the true time, and all clocks.

mod belief;
mod envelope;
mod limiter;
mod lock;
mod property;

use lockage_core::Timestamp;

pub(super) use belief::Belief;
pub use property::{Property, Violation};

use super::message::{Answer, Ask};
use super::rare::{Counts, Rare};
use super::scenario::{Machine, Scenario};
use belief::Beliefs;
use limiter::{Charges, LimiterTruth};
use lock::LockTruth;

/// What is true of the key, told from the answers that were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    lock: LockTruth,
    limiter: LimiterTruth,
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
    charges: Charges,
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
    /// The store's clock was set back, or a replica took over: what was over may be so no more.
    back_us: u64,
}

impl Checks {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Checks {
            machine: scenario.machine,
            truth: Truth::default(),
            beliefs: Beliefs::new(scenario.clients()),
            charges: Charges::default(),
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
        if by_us < 0 {
            self.troubles.back_us = at_us;
        }
        self.charges.cut();
    }

    /// A replica took over, of which this is true.
    pub(super) fn failed_over(&mut self, at_us: u64, truth: Truth) {
        if truth.lock.token() < self.truth.lock.token() {
            self.rare.saw(Rare::FailoverLostGrant);
        }
        if truth.limiter.admitted() < self.truth.limiter.admitted() {
            self.rare.saw(Rare::FailoverLostCharge);
        }
        let newest = self.truth.lock.newest();
        self.truth = truth;
        self.truth.lock.remember_newest(newest);
        self.troubles = Troubles { jumped_us: at_us, back_us: at_us };
        self.charges.cut();
    }

    /// The store has carried something out.
    pub(super) fn carried_out(
        &mut self,
        ask: &Ask,
        answer: &Answer,
        carried: &Carried,
    ) -> Result<(), Violation> {
        let back_us = self.troubles.back_us;
        match (ask, answer, &self.machine) {
            (Ask::Lock(ask), Answer::Lock(reply), Machine::Lock { lock, .. }) => {
                let truth = &mut self.truth.lock;
                let is_fresh = truth.observe(lock, ask, reply, carried, back_us, &mut self.rare)?;
                match is_fresh {
                    true => self.beliefs.granted(carried.at_us, &self.troubles, &mut self.rare),
                    false => Ok(()),
                }
            }
            (
                Ask::Permit(ask),
                Answer::Permit(decision),
                Machine::Limiter { limit, remember_us },
            ) => {
                let truth = &mut self.truth.limiter;
                let rare = &mut self.rare;
                let charged =
                    truth.observe(limit, *remember_us, ask, decision, carried, back_us, rare)?;
                if charged {
                    self.charges.charge(carried.now.as_micros(), ask.cost);
                }
                Ok(())
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
        if belief.sent_us > self.troubles.jumped_us {
            self.truth.lock.covers(belief.token, ends_us)?;
        }
        self.beliefs.begin(belief);
        Ok(())
    }

    /// A client is sure of nothing any more.
    pub(super) fn doubts(&mut self, client: usize) {
        self.beliefs.end(client);
    }

    /// What can only be told from all of it.
    pub(super) fn finish(&self) -> Result<(), Violation> {
        match &self.machine {
            Machine::Lock { .. } => Ok(()),
            Machine::Limiter { limit, .. } => self.charges.check(limit),
        }
    }
}
