//! The parts of a world and its failures: all of it drawn from one seed.

mod bounds;
mod by_part;
mod close;
mod draw;
mod leaders;
mod limits;
mod link;
mod runtimes;
mod served;
mod several;
mod sharpen;
mod smaller;
mod work;

use std::fmt;

use lockage_core::Limit;
use serde::{Deserialize, Serialize};

use by_part::BY_PART;
pub use leaders::LEADERS;
pub(super) use link::Link;
use several::SEVERAL;
pub use several::WARMUP;
pub(super) use work::End;
pub use work::{Verb, What, Work};

pub(super) const MILLI: u64 = 1000;
pub(super) const SECOND: u64 = 1_000_000;

/// The longest step of a slot: during one, two keys of it may be on different nodes, and messages
/// of one node do not reach the other.
pub(super) const STEP_US: u64 = 20_000;

/// The parts of a world, and its failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed of all chance.
    pub seed: u64,
    /// The time from which nothing goes wrong, in microseconds.
    pub heal_us: u64,
    /// How many millionths the clock of each node is faster than the store's.
    pub(super) ppm: Vec<i64>,
    /// How many runtimes each process has.
    pub(super) runtimes: u64,
    /// The limit of each id.
    pub limit: Limit,
    /// The limit to which a limit is changed.
    pub(super) other: Limit,
    pub(super) options: Options,
    pub(super) timeout_us: u64,
    /// The duration of a grant, in microseconds.
    pub lease_us: u64,
    pub(super) permits: u64,
    /// The count that opens the latch.
    pub(super) count: u64,
    pub(super) terms: Terms,
    /// How long values that one job builds for all are kept.
    pub(super) keep_us: u64,
    pub(super) network: Network,
    /// How the shipped store reaches its servers, if it replaces the simulated one.
    pub(super) link: Option<Link>,
    pub(super) jobs: Vec<Job>,
    pub(super) troubles: Vec<Trouble>,
}

/// The subject of a world's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Theme {
    /// They ask limiters.
    Limiters,
    /// They ask limiters that deny and refill nothing, so that their store shows all charges.
    Charges,
    /// They hold permits, sides of a read-write lock, and locks.
    Locks,
    /// They hold one lock, and run work once.
    OneLock,
    /// They hold a lock on a majority of servers.
    Quorum,
    /// They get values that one job builds for all.
    Values,
    /// They count a latch down, and wait for it.
    Latch,
}

impl Theme {
    /// The themes of programs on real servers.
    pub const ALL: [Theme; 6] = [
        Theme::Limiters,
        Theme::Charges,
        Theme::Locks,
        Theme::OneLock,
        Theme::Quorum,
        Theme::Values,
    ];
}

impl fmt::Display for Theme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Theme::Limiters => "limiters that deny",
            Theme::Charges => "limiters that deny nothing, reservations",
            Theme::Locks => "semaphores, read-write locks, locks",
            Theme::OneLock => "a lock, work that runs once",
            Theme::Quorum => "a lock on a majority of servers",
            Theme::Values => "values that one builds for all",
            Theme::Latch => "a latch",
        })
    }
}

/// The settings of the limiters of all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) idempotency: bool,
    pub(super) coalescing: bool,
    pub(super) deny_cache: bool,
    pub(super) shadow: bool,
    /// How the limit is stored, if it is; the plan's limit is the default.
    pub(super) stored: Option<Stored>,
    /// Whether requests for several ids are sent at once.
    pub(super) batches: bool,
    pub(super) fallback: Option<Instead>,
    /// How many permits are taken ahead, and for how long.
    pub(super) prefetch: Option<(u64, u64)>,
    /// How long a denial is remembered at most.
    pub(super) max_age_us: Option<u64>,
    /// When the fallback stands in, if not by default.
    pub(super) circuit: Option<Circuit>,
    /// The limit that the fallback uses for one that was not read.
    pub(super) unread: Option<Unread>,
}

/// When a circuit opens and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Circuit {
    pub(super) trip_after: u32,
    pub(super) probe_every_us: u64,
    pub(super) return_after: u32,
}

/// The limit of an id whose stored one was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    LastSeen,
    Given,
    Refused,
}

/// How a limit is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// Whether it applies to the usage of each client alone.
    pub(super) is_per_client: bool,
    /// How long it is kept.
    pub(super) keep_us: Option<u64>,
}

/// The behavior while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instead {
    Open,
    Closed,
    /// Each node has its share.
    Share,
}

/// The settings of the locks of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Whether waiters listen.
    pub(super) wake_ups: bool,
    /// Whether a replica must have each grant.
    pub(super) replicas: bool,
    pub(super) longest_us: Option<u64>,
    /// How often waiters that listen also poll, if not by default.
    pub(super) poll_us: Option<u64>,
    /// Whether observers panic.
    pub(super) panics: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) least_us: u64,
    pub(super) most_us: u64,
    /// How many of a thousand messages are lost.
    pub(super) lost: u32,
    /// How many of a thousand messages take up to a timeout.
    pub(super) late: u32,
    /// How many of a thousand requests arrive right when something ends.
    pub(super) aimed: u32,
    /// How many of a thousand requests that the store can recognize come twice.
    pub(super) twice: u32,
    /// How many of a thousand acquires with a known last time to run arrive long after that.
    pub(super) stuck: u32,
    /// How long it takes to make a connection for messages.
    pub(super) connect_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) node: usize,
    /// Which runtime of the process it runs on.
    pub(super) runtime: u64,
    pub(super) at_us: u64,
    pub(super) work: Work,
    /// After how many polls its future is dropped.
    pub(super) polls: Option<u32>,
    /// Whether it is then dropped instead of its next poll: it was woken, and does not learn of
    /// that.
    pub(super) when_woken: bool,
    /// Its work, if it has any, never checks that its grant is still held.
    pub(super) is_blind: bool,
    /// Whether its guard does not run its work: it checks now and then.
    pub(super) is_loose: bool,
    /// The runtime on which it works on its grant, if not on that of its acquire.
    pub(super) moves_to: Option<u64>,
}

/// Longer than any healthy world: a waiter with this timeout waits for as long as it takes.
pub(super) const FOREVER: u64 = 3600 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) at_us: u64,
    pub(super) what: Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The process ends, and another one begins.
    Crash { node: usize, for_us: u64 },
    /// The process ends after this many polls of its tasks, between two polls of one step.
    Die { node: usize, polls: u32 },
    /// The process stands still between two steps.
    Pause { node: usize, for_us: u64 },
    /// The process stands still after this many reads of its clock.
    Stall { node: usize, reads: u32, for_us: u64 },
    /// A runtime ends, and another one begins; the others of the process go on.
    EndRuntime { node: usize, runtime: u64 },
    /// The only thread of a runtime is blocked.
    BlockRuntime { node: usize, runtime: u64, for_us: u64 },
    /// All of its connections break.
    Break { node: usize },
    /// No call reaches this server.
    Away { server: usize, for_us: u64 },
    /// The future of a job is dropped.
    Cancel { job: usize },
    /// A replica takes over that has not seen the latest writes. For the first `old` nodes the old primary goes on.
    Failover { behind_us: u64, old: usize, for_us: u64 },
    /// The clock of the store is set.
    Clock { by_us: i64 },
    /// The store runs out of memory, and evicts a key that locks use.
    Evict { key: &'static str },
}

/// The number of servers: the first one is the store, and all together are the quorum.
pub(super) const SERVERS: usize = 3;

impl Wrong {
    /// Returns whether this makes the store forget something, or end leases and windows early or
    /// late.
    pub(super) fn shakes_store(self) -> bool {
        matches!(self, Wrong::Failover { .. } | Wrong::Clock { .. } | Wrong::Evict { .. })
    }
}

impl Plan {
    /// Returns the work of its jobs.
    pub fn works(&self) -> impl Iterator<Item = Work> {
        self.jobs.iter().map(|job| job.work)
    }

    /// Returns the poll of the locks of a client that has no other.
    pub(in crate::simulation) fn usual_poll_us(&self) -> u64 {
        if self.terms.wake_ups { SECOND } else { 100 * MILLI }
    }

    /// Returns how many jobs there are.
    pub(super) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the plan in which only the future of this job is dropped, after this many polls: at
    /// once, or on its next wake-up.
    pub(super) fn cancelled(&self, job: usize, polls: u32, when_woken: bool) -> Plan {
        let mut plan = self.clone();
        plan.troubles.retain(|trouble| !matches!(trouble.what, Wrong::Cancel { .. }));
        plan.jobs.iter_mut().for_each(|job| job.polls = None);
        (plan.jobs[job].polls, plan.jobs[job].when_woken) = (Some(polls), when_woken);
        plan
    }

    pub(super) fn has(&self, is: impl Fn(Wrong) -> bool) -> bool {
        self.troubles.iter().any(|trouble| is(trouble.what))
    }

    pub(super) fn asks(&self, is: impl Fn(Verb) -> bool) -> bool {
        self.jobs.iter().any(|job| matches!(job.work, Work::Ask { verb, .. } if is(verb)))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { limit, options, timeout_us, lease_us, permits, count, terms, network, .. } =
            self;
        writeln!(f, "{limit}, {options:?}")?;
        writeln!(
            f,
            "calls take at most {timeout_us} us, leases {lease_us} us, {permits} permits, a latch of {count}, {terms:?}"
        )?;
        writeln!(f, "clocks {:?}, {network:?}, well from {} us on", self.ppm, self.heal_us)?;
        self.link.iter().try_for_each(|link| writeln!(f, "{link:?}"))?;
        for (number, job) in self.jobs.iter().enumerate() {
            writeln!(f, "job {number}: {job:?}")?;
        }
        self.troubles.iter().try_for_each(|trouble| writeln!(f, "{trouble:?}"))
    }
}
