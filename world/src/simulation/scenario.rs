//! What a world is made of.

use std::time::Duration;

use lockage_core::latch::Latch;
use lockage_core::lock::Lock;
use lockage_core::rw_lock::RwLock;
use lockage_core::semaphore::Semaphore;
use lockage_core::{Limit, StoredLimit};
use serde::{Deserialize, Serialize};

use super::check::{Property, Violation};
use super::form::MachineForm;
use super::job::{Job, Work};
use super::message::WRITE;

pub(super) const MILLI: u64 = 1000;
pub(super) const SECOND: u64 = 1_000_000;

/// A caller with this wait waits until it has it.
pub(super) const FOR_EVER_US: u64 = 100_000 * SECOND;

/// A world before it is run. Times are in microseconds of true time, from the world's beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Where it comes from.
    pub seed: u64,
    /// What is used.
    pub machine: Machine,
    /// What is used beside it, by clients that use nothing else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
    /// How long a call may take, with all of its attempts, by the caller's clock.
    pub timeout_us: u64,
    /// How messages fare.
    pub network: Network,
    /// How much too fast the store's clock runs, in millionths.
    pub store_ppm: i64,
    /// The same of each client.
    pub client_ppm: Vec<i64>,
    /// What clients set out to do.
    pub jobs: Vec<Job>,
    /// What goes wrong, besides messages.
    pub faults: Vec<Fault>,
    /// From then on nothing goes wrong any more.
    pub heal_us: u64,
    /// Messages to which nothing happens, whatever happens to others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spared: Vec<Message>,
}

/// A message to or from a client: the one of this number among its own, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Which client.
    pub client: usize,
    /// Which of its messages, in the order in which they are sent.
    pub number: u32,
}

/// A key beside the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// What it holds.
    pub machine: Machine,
    /// So many clients use it. Those of the keys beside the first one are the last clients, in their order.
    pub clients: usize,
}

/// A machine and how it is used.
#[expect(clippy::large_enum_variant, reason = "a world has a few, and copies them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "MachineForm", into = "MachineForm")]
pub enum Machine {
    /// A lock, and how often its waiters ask.
    Lock {
        /// The lock.
        lock: Lock,
        /// See [`lockage_core::flow::Polling`].
        poll_us: u64,
    },
    /// The same of a semaphore.
    Semaphore {
        /// The semaphore.
        semaphore: Semaphore,
        /// See [`lockage_core::flow::Polling`].
        poll_us: u64,
    },
    /// The same of a read-write lock.
    RwLock {
        /// The lock.
        lock: RwLock,
        /// See [`lockage_core::flow::Polling`].
        poll_us: u64,
    },
    /// A latch.
    Latch {
        /// The latch.
        latch: Latch,
    },
    /// A limiter.
    Limiter(Limiter),
}

/// A limiter, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limiter {
    /// The limit.
    pub limit: Limit,
    /// Another one, which some callers say they are under, or which is stored at times.
    pub other: Option<Limit>,
    /// Where the limit is said.
    pub place: Place,
    /// For how long it is kept where it is stored; zero for the longest time there is.
    pub keep_us: u64,
    /// Whether the other one is stored as one for each client by itself.
    pub other_is_per_client: bool,
    /// See [`lockage_core::Acquire::with_request`].
    pub remember_us: u64,
}

/// Where a limit is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Each caller says it.
    #[default]
    WithCallers,
    /// It is stored with its key.
    Stored,
    /// It is stored with its key; where none is, callers bring one along.
    StoredOrDefault,
}

impl Limiter {
    /// One that each caller says, all the same.
    pub fn new(limit: Limit, remember_us: u64) -> Self {
        let (other, place, other_is_per_client) = (None, Place::WithCallers, false);
        Limiter { limit, other, place, keep_us: 0, other_is_per_client, remember_us }
    }

    /// The limit, or the other one.
    pub(super) fn which(&self, is_other: bool) -> Limit {
        self.other.filter(|_| is_other).unwrap_or(self.limit)
    }

    /// The same as it is stored.
    pub(super) fn stored(&self, is_other: bool) -> StoredLimit {
        let stored = StoredLimit::new(self.which(is_other));
        let stored = match self.keep_us {
            0 => stored,
            keep_us => stored
                .kept_for(Duration::from_micros(keep_us))
                .expect("times of scenarios are far from their bounds"),
        };
        match is_other && self.other_is_per_client {
            true => stored.per_client(),
            false => stored,
        }
    }
}

/// How messages fare: chances in a thousand, times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// A message takes at least so long.
    pub least_us: u64,
    /// Most take at most so long, as long as things go wrong.
    pub most_us: u64,
    /// And so long once all is well: there and back again, with the script, in less than an attempt's time.
    pub calm_most_us: u64,
    /// Some take far longer.
    pub late: u32,
    /// Those take at most so long.
    pub late_most_us: u64,
    /// Requests that are lost.
    pub lost_requests: u32,
    /// Replies that are lost.
    pub lost_replies: u32,
    /// Requests that arrive twice.
    pub doubled: u32,
    /// Requests that arrive at the very microsecond at which something ends at the store, or right beside it, where something does
    /// within the time that they may take.
    #[serde(default)]
    pub aimed: u32,
    /// Messages arrive at multiples of this: where it is long, many things happen at one instant.
    pub grain_us: u64,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When.
    pub at_us: u64,
    /// What.
    pub trouble: Trouble,
}

/// What goes wrong. Spans are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Trouble {
    /// A client crashes, and comes back knowing nothing.
    ClientCrash {
        /// Which.
        client: usize,
        /// For how long.
        for_us: u64,
    },
    /// A client stands still: its clock goes on.
    Pause {
        /// Which.
        client: usize,
        /// For how long.
        for_us: u64,
    },
    /// The store crashes, and comes back with its data and without scripts.
    StoreCrash {
        /// For how long.
        for_us: u64,
    },
    /// A replica takes over.
    Failover {
        /// It has not seen what was written so long before.
        behind_us: u64,
        /// How far its clock is ahead.
        clock_us: i64,
        /// After how long.
        for_us: u64,
    },
    /// A replica takes over, and the old primary goes on answering some clients.
    Split {
        /// So many of them, the first ones.
        clients: usize,
        /// The replica has not seen what was written so long before.
        behind_us: u64,
        /// How far its clock is ahead.
        clock_us: i64,
        /// For how long the old one goes on.
        for_us: u64,
    },
    /// What one client sends does not arrive.
    CutRequests {
        /// Which.
        client: usize,
        /// For how long.
        for_us: u64,
    },
    /// What one client is told does not arrive.
    CutReplies {
        /// Which.
        client: usize,
        /// For how long.
        for_us: u64,
    },
    /// The store's clock is set.
    ClockStep {
        /// By so much.
        by_us: i64,
    },
}

/// What all machines have in common that are held under leases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) lease_us: u64,
    pub(super) poll_us: u64,
    /// What all who hold it can have together.
    pub(super) capacity: u64,
}

impl Machine {
    /// Nothing of a limiter.
    pub(super) fn claim(&self) -> Option<Claim> {
        let (lease, poll_us, capacity) = match *self {
            Machine::Lock { lock, poll_us } => (lock.lease(), poll_us, 1),
            Machine::Semaphore { semaphore, poll_us } => {
                (semaphore.lease(), poll_us, semaphore.permits())
            }
            Machine::RwLock { lock, poll_us } => (lock.lease(), poll_us, WRITE),
            Machine::Limiter(_) | Machine::Latch { .. } => return None,
        };
        Some(Claim { lease_us: lease.as_micros() as u64, poll_us, capacity }) // at most 2^51
    }
}

impl Scenario {
    /// The clients of this world.
    pub fn clients(&self) -> usize {
        self.client_ppm.len()
    }

    /// The machines of all keys.
    pub(super) fn machines(&self) -> Vec<Machine> {
        let beside = self.beside.iter().map(|beside| beside.machine);
        [self.machine].into_iter().chain(beside).collect()
    }

    /// The key of each client.
    pub(super) fn keys(&self) -> Vec<usize> {
        let beside = self.beside.iter().enumerate();
        let beside = beside.flat_map(|(index, it)| vec![index + 1; it.clients]);
        let beside: Vec<usize> = beside.collect();
        let first = self.clients().saturating_sub(beside.len());
        [vec![0; first], beside].concat()
    }

    /// Until then, in true time, everybody has been served, with ample room.
    ///
    /// Once all is well each call is answered within its timeout. Each job has a few of them before it, during
    /// it and after it, and what was lost before costs each a timeout.
    pub(super) fn patience_us(&self) -> u64 {
        let jobs = self.jobs.len() as u64;
        let calm_us = 10 * self.timeout_us;
        let each_us = self.machines().iter().map(|machine| self.longest_us(machine)).max();
        self.heal_us
            + self.network.late_most_us
            + self.longest_jump_us()
            + jobs * (each_us.unwrap_or_default() + calm_us)
    }

    /// How long a job with this machine takes, but for its calls.
    fn longest_us(&self, machine: &Machine) -> u64 {
        match machine.claim() {
            Some(Claim { lease_us, poll_us, .. }) => {
                let work = |job: &Job| match job.work {
                    Work::Hold { for_us, wait_us, .. } if wait_us < FOR_EVER_US => {
                        2 * for_us + wait_us
                    }
                    Work::Break { after_us, .. } => 2 * after_us,
                    _ => MILLI,
                };
                let longest_us = self.jobs.iter().map(work).max().unwrap_or_default();
                // Who has left the line, or waited to write, is in the way for a span of waiting more.
                longest_us + 3 * lease_us + 10 * poll_us
            }
            // All of it can be asked for, and each waits with pauses of half a second.
            None => 13 * 2 * 2 * SECOND + 4 * SECOND + self.longest_spending_us(),
        }
    }

    /// How long all requests of a job take for which permits are taken ahead.
    fn longest_spending_us(&self) -> u64 {
        let spending = |job: &Job| match job.work {
            Work::Spend(work) => u64::from(work.requests) * work.every_us,
            _ => 0,
        };
        self.jobs.iter().map(spending).max().unwrap_or_default()
    }

    /// By how much the store's clock can have been ahead.
    fn longest_jump_us(&self) -> u64 {
        let jump = |fault: &Fault| match fault.trouble {
            Trouble::ClockStep { by_us } => by_us.unsigned_abs(),
            Trouble::Failover { clock_us, .. } | Trouble::Split { clock_us, .. } => {
                clock_us.unsigned_abs()
            }
            _ => 0,
        };
        self.faults.iter().map(jump).sum()
    }

    /// So many jobs of each client were done in time, and that is not all of them.
    pub(super) fn starved(&self, done: &[usize]) -> Violation {
        let keys = self.keys();
        let is_starved = |client: &usize| {
            let its = self.jobs.iter().filter(|job| job.client == *client);
            its.count() > done[*client]
        };
        let key = (0..self.clients()).find(is_starved).map_or(0, |client| keys[client]);
        let property = match self.machines()[key] {
            Machine::Limiter(_) => Property::D10,
            _ => Property::L8,
        };
        let (jobs, heal_us) = (self.jobs.len(), self.heal_us);
        let (done, after_us) = (done.iter().sum::<usize>(), self.patience_us() - heal_us);
        Violation {
            property,
            what: format!("{after_us} us after all was well, {done} of {jobs} jobs are done"),
        }
    }
}
