//! What must hold in a world, checked while it runs.
//!
//! Checks see more than clients do: each operation as it is carried out, the true time, and all clocks.

mod ahead;
mod belief;
mod charges;
mod latch;
mod limiter;
mod lock;
mod property;
mod reservations;
mod shared;

use lockage_core::Timestamp;
use lockage_core::fenced::Access;

pub(super) use belief::Belief;
pub use property::{PROPERTIES, Property, Violation};

use super::coverage::{Counts, Coverage};
use super::limiter::LimiterAsk;
use super::message::{Answer, Ask, Attempt};
use super::scenario::{Machine, Scenario};
use super::server::Outcome;
use ahead::Ahead;
use belief::Beliefs;
use latch::LatchTruth;
use limiter::LimiterTruth;
use lock::LockTruth;
use shared::SharedTruth;

/// What is true of a key, told from the answers that were given.
#[derive(Clone, Debug)]
pub(super) enum Truth {
    Lock(LockTruth),
    Shared(SharedTruth),
    Latch(LatchTruth),
    Limiter(Box<LimiterTruth>),
}

impl Truth {
    /// Of a fresh key.
    fn new(machine: &Machine) -> Truth {
        match *machine {
            Machine::Lock { lock, .. } => Truth::Lock(LockTruth::new(lock)),
            Machine::Semaphore { semaphore, .. } => {
                Truth::Shared(SharedTruth::semaphore(semaphore))
            }
            Machine::RwLock { lock, .. } => Truth::Shared(SharedTruth::rw_lock(lock)),
            Machine::Latch { latch } => Truth::Latch(LatchTruth::new(latch)),
            Machine::Limiter(limiter) => Truth::Limiter(Box::new(LimiterTruth::new(limiter))),
        }
    }
}

/// How an operation was carried out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    /// On which key.
    pub(super) key: usize,
    /// For whom.
    pub(super) from: Attempt,
    /// In true time.
    pub(super) at_us: u64,
    /// By the store's clock.
    pub(super) now: Timestamp,
    /// Whether the key was there before.
    pub(super) was_held: bool,
    /// Whether the key beside it was.
    pub(super) was_beside: bool,
}

#[derive(Debug)]
pub(super) struct Checks {
    machines: Vec<Machine>,
    /// Of each key.
    pub(super) truths: Vec<Truth>,
    watches: Vec<Watch>,
    /// The key of each client.
    keys: Vec<usize>,
    troubles: Troubles,
    pub(super) rare: Counts,
    pub(super) ahead: Ahead,
    /// It is an old primary that carries something out, and the truths are of that.
    pub(super) is_old: bool,
}

/// Who looks on at one key.
#[derive(Debug)]
struct Watch {
    beliefs: Beliefs,
    /// The newest token that the value behind the lock has accepted.
    newest_write: u64,
}

/// When what is promised was last suspended: true times, zero for never.
#[derive(Clone, Copy, Debug, Default)]
struct Troubles {
    /// The store's clock was set ahead, or a replica took over: leases may have ended early.
    jumped_us: u64,
    /// An old primary goes on for the first so many clients, until then.
    split: (usize, u64),
}

impl Troubles {
    /// Whether what somebody believes may be told by an old primary.
    fn is_of_old(&self, belief: &Belief) -> bool {
        belief.client < self.split.0 && belief.sent_us <= self.split.1
    }

    /// Whether a grant, by an old primary or not, may overlap with what somebody believes.
    fn excuse(&self, belief: &Belief, is_old: bool) -> bool {
        belief.sent_us <= self.jumped_us || self.is_of_old(belief) != is_old
    }
}

impl Checks {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let machines = scenario.machines();
        let watch =
            |_: &Machine| Watch { beliefs: Beliefs::new(scenario.clients()), newest_write: 0 };
        Checks {
            truths: machines.iter().map(Truth::new).collect(),
            watches: machines.iter().map(watch).collect(),
            machines,
            keys: scenario.keys(),
            troubles: Troubles::default(),
            rare: Counts::default(),
            ahead: Ahead::new(scenario),
            is_old: false,
        }
    }

    /// The store's clock was set, or runs on another one.
    pub(super) fn clock_stepped(&mut self, at_us: u64, by_us: i64) {
        if by_us > 0 {
            self.troubles.jumped_us = at_us;
        }
    }

    /// A replica took over, of whose keys this is true: nothing where one is fresh.
    pub(super) fn failed_over(&mut self, at_us: u64, truths: Vec<Option<Truth>>) {
        for (key, truth) in truths.into_iter().enumerate() {
            let mut truth = truth.unwrap_or_else(|| Truth::new(&self.machines[key]));
            match (&mut truth, &self.truths[key]) {
                (Truth::Lock(after), Truth::Lock(before)) => {
                    if after.token() < before.token() {
                        self.rare.saw(Coverage::FailoverLostGrant);
                    }
                    after.follow(before);
                }
                (Truth::Shared(after), Truth::Shared(before)) => {
                    if after.token() < before.token() {
                        self.rare.saw(Coverage::FailoverLostGrant);
                    }
                    after.follow(before);
                }
                (Truth::Limiter(after), Truth::Limiter(before)) => {
                    if after.admitted() < before.admitted() {
                        self.rare.saw(Coverage::FailoverLostCharge);
                    }
                    after.know_turns_of(before);
                }
                _ => {}
            }
            self.truths[key] = truth;
        }
        self.troubles.jumped_us = at_us;
        self.troubles.split.1 = self.troubles.split.1.min(at_us);
    }

    /// An old primary goes on for the first so many clients. One that did so before no longer does.
    pub(super) fn split(&mut self, clients: usize, until_us: u64) {
        self.troubles.split = (clients, until_us);
    }

    /// An old primary has carried something out, of whose keys this is true.
    pub(super) fn compare(&mut self, old: &[Truth]) {
        for pair in self.truths.iter_mut().zip(old) {
            match pair {
                (Truth::Lock(truth), Truth::Lock(old)) => truth.compare(old),
                (Truth::Limiter(truth), Truth::Limiter(old)) => truth.know_turns_of(old),
                _ => {}
            }
        }
    }

    /// The store has carried something out.
    pub(super) fn carried_out(
        &mut self,
        ask: &Ask,
        answer: &Answer,
        carried: &Carried,
    ) -> Result<(), Violation> {
        let Answer::Done(outcome) = answer else { return Ok(()) };
        if let (Ask::Limiter(LimiterAsk { what, .. }), Some(decision)) = (ask, outcome.decision()) {
            self.ahead.decided(carried.from, what, decision, carried.now.as_micros())?;
        }
        let (troubles, is_old) = (self.troubles, self.is_old);
        let watch = &mut self.watches[carried.key];
        match (ask, outcome, &mut self.truths[carried.key]) {
            (Ask::Claim(_) | Ask::Inspect | Ask::Break { .. }, outcome, Truth::Lock(truth)) => {
                if truth.observe(ask, outcome, carried, &mut self.rare)? {
                    let is_excused = |it: &Belief| troubles.excuse(it, is_old) || truth.is_torn(it);
                    let (weights, rare) = ((1, 1), &mut self.rare);
                    watch.beliefs.granted(weights, carried.at_us, |_| false, is_excused, rare)?;
                }
                Ok(())
            }
            (Ask::Claim(claim), outcome, Truth::Shared(truth)) => {
                if truth.observe(claim, outcome, carried, &mut self.rare)? {
                    let is_excused = |it: &Belief| troubles.excuse(it, is_old);
                    let is_beside = |it: &Belief| truth.is_beside(claim, it.owner, it.weight);
                    let (weights, rare) = ((claim.weight, truth.capacity()), &mut self.rare);
                    watch.beliefs.granted(weights, carried.at_us, is_beside, is_excused, rare)?;
                }
                Ok(())
            }
            (Ask::Limiter(ask), outcome, Truth::Limiter(truth)) => {
                truth.observe(ask, outcome, carried, &mut self.rare)
            }
            (Ask::Count(ask), Outcome::Latch(reply), Truth::Latch(truth)) => {
                truth.observe(ask, reply, carried, &mut self.rare)
            }
            (Ask::Write { token }, Outcome::Written(access), _) => {
                watch.written(*token, access, &mut self.rare)
            }
            _ => Err(Property::D12.broken(format!("{outcome:?} is no answer to {ask:?}"))),
        }
    }

    /// A client is sure of a grant from now on, or for longer. `ends_us` is the store's clock when its own
    /// deadline comes.
    pub(super) fn believes(&mut self, belief: Belief, ends_us: u64) -> Result<(), Violation> {
        let key = self.keys[belief.client];
        if !self.troubles.excuse(&belief, false) {
            match &self.truths[key] {
                Truth::Lock(truth) if truth.is_torn(&belief) => {}
                Truth::Lock(truth) => truth.covers(&belief, ends_us)?,
                Truth::Shared(truth) => truth.covers(belief.token, ends_us)?,
                Truth::Limiter(_) | Truth::Latch(_) => {}
            }
        }
        self.watches[key].beliefs.begin(belief);
        Ok(())
    }

    /// A client is sure of nothing any more.
    pub(super) fn doubts(&mut self, client: usize) {
        self.watches[self.keys[client]].beliefs.end(client);
        self.ahead.crashed(client);
    }
}

impl Watch {
    fn written(
        &mut self,
        token: u64,
        access: &Access<()>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        match access {
            Access::Accepted(()) if token < self.newest_write => Err(Property::L7
                .broken(format!("token {token} was accepted after {}", self.newest_write))),
            Access::Accepted(()) => {
                self.newest_write = token;
                Ok(())
            }
            Access::Stale { .. } => {
                rare.saw(Coverage::StaleWrite);
                Ok(())
            }
        }
    }
}
