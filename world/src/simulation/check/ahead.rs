//! Permits that are taken ahead (E7): each that is spent was charged, once, and not longer than a lease before; and what
//! is admitted by them and beside them, and what they waste, is bounded.

use std::collections::{HashMap, HashSet};

use lockage_core::Decision;
use lockage_oracle::config::Config;
use lockage_oracle::envelope::{ahead_bound, excess};

use super::{Property, Violation};
use crate::simulation::job::Work;
use crate::simulation::limiter::What;
use crate::simulation::message::Attempt;
use crate::simulation::scenario::{Machine, Scenario, Trouble};

/// A call: of which client, in which of its lives.
type Call = (usize, u32, u32);

#[derive(Debug)]
pub(in crate::simulation) struct Ahead {
    /// Of each key; nothing where nobody takes anything ahead.
    keys: Vec<Option<Key>>,
    key_of: Vec<usize>,
    client_ppm: Vec<i64>,
    /// What each client has asked for ahead, in its present job.
    batches: Vec<Vec<Batch>>,
    /// How much of what each call asks for is ahead.
    ahead: HashMap<Call, u64>,
    /// Calls that were charged.
    done: HashSet<Call>,
}

#[derive(Debug)]
struct Key {
    limits: Vec<Config>,
    /// The most that each node holds.
    permits: u64,
    lease_us: u64,
    /// The most that all nodes hold.
    all: u64,
    /// The longest lease by the store's clock.
    store_lease_us: u64,
    /// By the store's clock; nothing where that is set, or another server takes over: what is charged may then be more than
    /// the envelope, and E7 is what the store admits and n * k.
    admitted: Option<Vec<(u64, i128)>>,
}

#[derive(Debug)]
struct Batch {
    call: Call,
    ahead: u64,
    /// In true time.
    sent_us: u64,
    is_charged: bool,
    spent: u64,
}

impl Ahead {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let key_of = scenario.keys();
        let machines = scenario.machines();
        let key = |(key, machine): (usize, &Machine)| Key::new(key, machine, scenario);
        Ahead {
            keys: machines.iter().enumerate().map(key).collect(),
            batches: (0..scenario.clients()).map(|_| Vec::new()).collect(),
            client_ppm: scenario.client_ppm.clone(),
            ahead: HashMap::new(),
            done: HashSet::new(),
            key_of,
        }
    }

    /// A call asks for permits ahead.
    pub(in crate::simulation) fn asked(&mut self, call: Call, ahead: u64, sent_us: u64) {
        self.ahead.insert(call, ahead);
        self.batches[call.0].push(Batch { call, ahead, sent_us, is_charged: false, spent: 0 });
    }

    /// A client is told that a call was denied: what it asked for ahead is nobody's, also where a copy of the call is granted.
    pub(in crate::simulation) fn denied(&mut self, call: Call) {
        self.batches[call.0].retain(|batch| batch.call != call);
    }

    /// The store has decided.
    pub(super) fn decided(
        &mut self,
        from: Attempt,
        what: &What,
        decision: &Decision,
        now_us: u64,
    ) -> Result<(), Violation> {
        let What::Acquire { cost, id, .. } = *what else { return Ok(()) };
        let Some(key) = &mut self.keys[self.key_of[from.client]] else { return Ok(()) };
        let call = (from.client, from.life, from.call);
        // Under its id it is charged once, while it is remembered.
        let is_charged = decision.is_allowed() && (self.done.insert(call) || id.is_none());
        if !is_charged {
            return Ok(());
        }
        let batch = self.batches[from.client].iter_mut().find(|batch| batch.call == call);
        if let Some(batch) = batch {
            batch.is_charged = true;
        }
        // What is brought along is admitted when it is spent.
        key.admit(now_us, cost - self.ahead.get(&call).copied().unwrap_or_default())
    }

    /// A client admits a request by what it holds.
    pub(in crate::simulation) fn spent(
        &mut self,
        client: usize,
        cost: u64,
        at_us: u64,
        now_us: u64,
    ) -> Result<(), Violation> {
        let Some(key) = &mut self.keys[self.key_of[client]] else { return Ok(()) };
        let pace = (1_000_000 + self.client_ppm[client]) as u64; // far less off than a whole
        // Its clock shows whole nanoseconds.
        let is_over =
            |batch: &Batch| (at_us - batch.sent_us) * pace >= key.lease_us * 1_000_000 + 1000;
        let mut left = cost;
        for batch in &mut self.batches[client] {
            if batch.is_charged && !is_over(batch) {
                let part = left.min(batch.ahead - batch.spent);
                batch.spent += part;
                left -= part;
            }
        }
        if left > 0 {
            let what = format!("client {client} spends {cost}, {left} of which it does not hold");
            return Err(Property::E7.broken(what));
        }
        key.admit(now_us, cost)
    }

    /// A client has crashed.
    pub(super) fn crashed(&mut self, client: usize) {
        self.batches[client].clear();
    }

    /// A client holds nothing any more.
    pub(in crate::simulation) fn over(&mut self, client: usize) -> Result<(), Violation> {
        let batches = std::mem::take(&mut self.batches[client]);
        let Some(key) = &self.keys[self.key_of[client]] else { return Ok(()) };
        // A clock that is slow makes leases longer, and what is asked for less often.
        let slack_us = key.lease_us / 1000 + 1;
        for last in &batches {
            let is_near = |batch: &&Batch| {
                batch.is_charged
                    && batch.sent_us <= last.sent_us
                    && batch.sent_us + key.lease_us > last.sent_us + slack_us
            };
            let wasted: u64 =
                batches.iter().filter(is_near).map(|batch| batch.ahead - batch.spent).sum();
            if wasted > key.permits {
                let what =
                    format!("client {client} wastes {wasted} in one lease, of {}", key.permits);
                return Err(Property::E7.broken(what));
            }
        }
        Ok(())
    }
}

impl Key {
    fn new(key: usize, machine: &Machine, scenario: &Scenario) -> Option<Self> {
        let Machine::Limiter(limiter) = machine else { return None };
        let keys = scenario.keys();
        let spending = |client: usize| {
            let jobs = scenario.jobs.iter().filter(move |job| job.client == client);
            jobs.filter_map(|job| match job.work {
                Work::Spend(work) => Some((work.permits, work.lease_us)),
                _ => None,
            })
        };
        let clients = || (0..keys.len()).filter(|client| keys[*client] == key);
        let all = clients().map(|client| spending(client).map(|it| it.0).max().unwrap_or_default());
        let lease_us = clients().flat_map(spending).map(|it| it.1).max()?;
        let slowest = clients().map(|client| scenario.client_ppm[client]).min().unwrap_or_default();
        let (slowest, store) = (1_000_000 + slowest, 1_000_000 + scenario.store_ppm);
        // A microsecond more, since the store's clock shows whole ones.
        let store_lease_us = (lease_us * store as u64).div_ceil(slowest as u64) + 1; // both far above zero
        let is_plain = |trouble| {
            !matches!(
                trouble,
                Trouble::ClockStep { .. } | Trouble::Failover { .. } | Trouble::Split { .. }
            )
        };
        let is_judged = scenario.faults.iter().all(|fault| is_plain(fault.trouble));
        Some(Key {
            limits: limiter.limit.parts().map(Config::from).collect(),
            permits: clients().flat_map(spending).map(|it| it.0).max()?,
            lease_us,
            all: all.sum(),
            store_lease_us,
            admitted: is_judged.then(Vec::new),
        })
    }

    /// Something is admitted: in all spans that end now it is within the bound.
    fn admit(&mut self, now_us: u64, cost: u64) -> Result<(), Violation> {
        let Some(admitted) = &mut self.admitted else { return Ok(()) };
        admitted.push((now_us, cost.into()));
        for config in &self.limits {
            let most = |length_us| ahead_bound(config, length_us, self.all, self.store_lease_us);
            if let Some(over) = excess(admitted.iter().rev().copied(), most) {
                let what = format!(
                    "{} were admitted within {} us, and {} is the bound with {} taken ahead",
                    over.admitted, over.length_us, over.most, self.all
                );
                return Err(Property::E7.broken(what));
            }
        }
        Ok(())
    }
}
