//! What a world is made of: everything in it follows from one seed.

use std::fmt;
use std::time::Duration;

use lockage_core::Limit;
use lockage_core::lock::Lock;

use super::check::{Property, Violation};
use super::draw::Draw;

const MILLI: u64 = 1000;
const SECOND: u64 = 1_000_000;

/// Who waits for so long waits until he has it.
const FOR_EVER_US: u64 = 100_000 * SECOND;

/// The most by which a clock's pace is off, in millionths. Two clocks then differ by less than the
/// thousandth that a holder's own deadline allows for.
const MOST_PPM: u64 = 400;

/// A world before it is run. Times are in microseconds of true time, from the world's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Where it comes from.
    pub seed: u64,
    /// What is used.
    pub machine: Machine,
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
}

/// A machine and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// A lock, and how often who waits for it asks.
    Lock {
        /// The lock.
        lock: Lock,
        /// See [`lockage_core::flow::Polling`].
        poll_us: u64,
    },
    /// A limiter, and for how long its requests are remembered.
    Limiter {
        /// The limit.
        limit: Limit,
        /// See [`lockage_core::Acquire::with_request`].
        remember_us: u64,
    },
}

/// How messages fare: chances in a thousand, times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Messages arrive at multiples of this: where it is long, many things happen at one instant.
    pub grain_us: u64,
}

/// What a client sets out to do, once it has nothing else to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// All that is random in it is drawn from the stream of this number.
    pub number: u32,
    /// Which client.
    pub client: usize,
    /// When.
    pub at_us: u64,
    /// What.
    pub work: Work,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Take the lock, work under it, give it back.
    Hold {
        /// For how long it is needed.
        for_us: u64,
        /// How often it is held at once.
        holds: u32,
        /// For how long it is waited for.
        wait_us: u64,
    },
    /// Ask for a permit.
    Ask {
        /// Its cost.
        cost: u64,
        /// For how long it is waited for.
        wait_us: u64,
        /// Whether it can be asked for again under the same id.
        with_id: bool,
    },
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at_us: u64,
    /// What.
    pub trouble: Trouble,
}

/// What goes wrong. Spans are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Scenario {
    /// The world of this seed: of the even ones a lock's, of the odd ones a limiter's.
    pub fn of(seed: u64) -> Scenario {
        let mut draw = Draw::new(seed, 0);
        let draw = &mut draw;
        let grain_us = draw.one_of(&[1, 1, MILLI, 10 * MILLI]);
        let timeout_us = draw.between((20 * MILLI).max(40 * grain_us), 500 * MILLI);
        let remember_us = (4 * timeout_us).max(SECOND);
        let machine = match seed.is_multiple_of(2) {
            true => lock(draw, remember_us, grain_us),
            false => Machine::Limiter { limit: limit(draw), remember_us },
        };
        let late_most_us = match machine {
            // An operation may be under way for as long as it is remembered, and no longer.
            Machine::Lock { .. } => remember_us - timeout_us - remember_us / 100,
            // A request that comes later is one more, which is charged again.
            Machine::Limiter { .. } => 2 * remember_us,
        };
        // Who is told of a grant must have some of its lease left.
        let soon_us = match machine {
            Machine::Lock { lock, .. } => timeout_us.min(lock.lease().as_micros() as u64), // at most 2^51
            Machine::Limiter { .. } => timeout_us,
        };
        let network = network(draw, timeout_us, soon_us / 40, late_most_us, grain_us);
        let clients = draw.between(1, 5) as usize; // far below 2^32
        let ppm = |draw: &mut Draw| draw.either_way(MOST_PPM);
        let drifts = network.grain_us == 1;
        let store_ppm = if drifts { ppm(draw) } else { 0 };
        let client_ppm = (0..clients).map(|_| if drifts { ppm(draw) } else { 0 }).collect();
        let heal_us = draw.between(SECOND, 10 * SECOND);
        let mut scenario = Scenario {
            seed,
            machine,
            timeout_us,
            network,
            store_ppm,
            client_ppm,
            jobs: Vec::new(),
            faults: faults(draw, clients, heal_us, &machine, grain_us),
            heal_us,
        };
        scenario.jobs = scenario.draw_jobs(draw);
        scenario
    }

    /// The clients of this world.
    pub fn clients(&self) -> usize {
        self.client_ppm.len()
    }

    /// Until then, in true time, everybody has had what he wanted, with ample room.
    ///
    /// Once all is well each call is answered within its timeout. Each job has a few of them before it, during
    /// it and after it, and what was lost before costs each a timeout.
    pub(super) fn patience_us(&self) -> u64 {
        let jobs = self.jobs.len() as u64;
        let calm_us = 10 * self.timeout_us;
        let each_us = match self.machine {
            Machine::Lock { lock, poll_us } => {
                let lease_us = lock.lease().as_micros() as u64; // at most 2^51
                let work = |job: &Job| match job.work {
                    Work::Hold { for_us, wait_us, .. } if wait_us < FOR_EVER_US => for_us + wait_us,
                    _ => MILLI,
                };
                let longest_us = self.jobs.iter().map(work).max().unwrap_or_default();
                longest_us + 3 * lease_us + 4 * poll_us
            }
            // All of it can be asked for, and each waits with pauses of half a second.
            Machine::Limiter { .. } => 13 * 2 * 2 * SECOND + 4 * SECOND,
        };
        self.heal_us
            + self.network.late_most_us
            + self.longest_jump_us()
            + jobs * (each_us + calm_us)
    }

    /// By how much the store's clock can have been ahead.
    fn longest_jump_us(&self) -> u64 {
        let jump = |fault: &Fault| match fault.trouble {
            Trouble::ClockStep { by_us } => by_us.unsigned_abs(),
            Trouble::Failover { clock_us, .. } => clock_us.unsigned_abs(),
            _ => 0,
        };
        self.faults.iter().map(jump).sum()
    }

    /// So many jobs were done in time, and that is not all of them.
    pub(super) fn starved(&self, done: usize) -> Violation {
        let property = match self.machine {
            Machine::Lock { .. } => Property::L8,
            Machine::Limiter { .. } => Property::D10,
        };
        let (jobs, heal_us) = (self.jobs.len(), self.heal_us);
        let after_us = self.patience_us() - heal_us;
        Violation {
            property,
            what: format!("{after_us} us after all was well, {done} of {jobs} jobs are done"),
        }
    }

    fn draw_jobs(&self, draw: &mut Draw) -> Vec<Job> {
        let count = match self.machine {
            Machine::Lock { .. } => draw.between(1, 16) as u32,
            Machine::Limiter { .. } => draw.between(1, 48) as u32,
        };
        let clients = self.clients() as u64;
        let job = |number| {
            let client = draw.between(0, clients - 1) as usize;
            let at_us = draw.between(0, self.heal_us - 1);
            Job { number, client, at_us, work: self.draw_work(draw) }
        };
        let mut jobs: Vec<Job> = (0..count).map(job).collect();
        // Once all is well, everybody gets what he wants.
        for client in 0..self.clients() {
            let number = count + client as u32;
            jobs.push(Job { number, client, at_us: self.heal_us, work: self.last_work() });
        }
        jobs
    }

    fn draw_work(&self, draw: &mut Draw) -> Work {
        match self.machine {
            Machine::Lock { lock, .. } => {
                let lease_us = lock.lease().as_micros() as u64; // at most 2^51
                let for_us = match draw.chance(300) {
                    true => draw.between(lease_us / 2, lease_us * 3),
                    false => draw.between(MILLI, lease_us / 2),
                };
                let holds = if draw.chance(250) { draw.between(2, 3) as u32 } else { 1 };
                let wait_us = if draw.chance(200) { 0 } else { draw.between(0, 5 * SECOND) };
                Work::Hold { for_us, holds, wait_us }
            }
            Machine::Limiter { limit, .. } => {
                let capacity = limit.capacity();
                let most = if draw.chance(50) { capacity + 1 } else { capacity.div_ceil(3) };
                let wait_us = if draw.chance(500) { 0 } else { draw.between(0, 2 * SECOND) };
                let cost = if draw.chance(600) { 1 } else { draw.between(1, most) };
                Work::Ask { cost, wait_us, with_id: draw.chance(700) }
            }
        }
    }

    fn last_work(&self) -> Work {
        match self.machine {
            Machine::Lock { .. } => Work::Hold { for_us: MILLI, holds: 1, wait_us: FOR_EVER_US },
            Machine::Limiter { .. } => Work::Ask { cost: 1, wait_us: FOR_EVER_US, with_id: true },
        }
    }
}

fn lock(draw: &mut Draw, remember_us: u64, grain_us: u64) -> Machine {
    let lease_us =
        draw.between((100 * MILLI).max(40 * grain_us), 3 * SECOND).next_multiple_of(grain_us);
    let (lease, remember) = (Duration::from_micros(lease_us), Duration::from_micros(remember_us));
    let lock = Lock::new(lease, remember).expect("both are far from their bounds");
    Machine::Lock { lock, poll_us: draw.between(5 * MILLI, 200 * MILLI) }
}

fn limit(draw: &mut Draw) -> Limit {
    let parts = if draw.chance(200) { draw.between(2, 3) } else { 1 };
    let texts: Vec<String> = (0..parts).map(|_| single_limit(draw)).collect();
    texts.join(" + ").parse().expect("small limits as people write them")
}

fn single_limit(draw: &mut Draw) -> String {
    let (amount, span_ms) = (draw.between(1, 12), draw.between(50, 2000));
    let burst = draw.between(1, 12);
    let most = amount.max(burst);
    match draw.between(0, 5) {
        0 => format!("fixed-window {amount}/{span_ms}ms"),
        1 => format!("sliding-log {amount}/{span_ms}ms"),
        2 => format!("sliding-window {amount}/{span_ms}ms"),
        3 => format!("token-bucket {amount}/{span_ms}ms burst {burst}"),
        4 => format!("token-bucket {amount} every {span_ms}ms burst {most}"),
        _ => format!("leaky-bucket {amount}/{span_ms}ms queue {burst}"),
    }
}

/// Each kind of trouble is there in some worlds only, so that they are seen alone as well.
fn network(
    draw: &mut Draw,
    timeout_us: u64,
    soon_us: u64,
    late_most_us: u64,
    grain_us: u64,
) -> Network {
    let some = |draw: &mut Draw, most: u64| match draw.chance(500) {
        true => draw.between(1, most) as u32, // at most 1000
        false => 0,
    };
    let least_us = draw.between(50, soon_us);
    Network {
        least_us,
        most_us: draw.between(least_us, timeout_us / 4),
        calm_most_us: draw.between(least_us, soon_us),
        late: some(draw, 150),
        late_most_us,
        lost_requests: some(draw, 300),
        lost_replies: some(draw, 300),
        doubled: some(draw, 200),
        grain_us,
    }
}

fn faults(
    draw: &mut Draw,
    clients: usize,
    heal_us: u64,
    machine: &Machine,
    grain_us: u64,
) -> Vec<Fault> {
    let kinds: Vec<u64> = (0..7).filter(|_| draw.chance(350)).collect();
    if kinds.is_empty() {
        return Vec::new();
    }
    let lease_us = match machine {
        Machine::Lock { lock, .. } => lock.lease().as_micros() as u64, // at most 2^51
        Machine::Limiter { .. } => SECOND,
    };
    let count = draw.between(1, 6);
    let grained = |by_us: i64| by_us / grain_us as i64 * grain_us as i64; // at most ten milliseconds
    let one = |_| {
        let at_us = draw.between(0, heal_us - 1);
        let client = draw.between(0, clients as u64 - 1) as usize;
        let for_us = draw.between(MILLI, 2 * lease_us).min(heal_us - at_us);
        let short_us = draw.between(MILLI, 500 * MILLI).min(heal_us - at_us);
        let trouble = match draw.one_of(&kinds) {
            0 => Trouble::ClientCrash { client, for_us },
            1 => Trouble::Pause { client, for_us },
            2 => Trouble::StoreCrash { for_us: short_us },
            3 => Trouble::Failover {
                behind_us: draw.between(0, 200 * MILLI),
                clock_us: grained(draw.either_way(50 * MILLI)),
                for_us: short_us,
            },
            4 => Trouble::CutRequests { client, for_us },
            5 => Trouble::CutReplies { client, for_us },
            _ => Trouble::ClockStep { by_us: grained(draw.either_way(3 * SECOND)) },
        };
        Fault { at_us, trouble }
    };
    (0..count).map(one).collect()
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { network, .. } = self;
        match &self.machine {
            Machine::Lock { lock, poll_us } => {
                let (lease, remember) = (lock.lease(), lock.remember());
                write!(f, "a lock, lease {lease:?}, remembers {remember:?}, poll {poll_us} us")?;
            }
            Machine::Limiter { limit, remember_us } => {
                write!(f, "{limit}, remembers {remember_us} us")?;
            }
        }
        writeln!(f, ", calls take at most {} us", self.timeout_us)?;
        writeln!(
            f,
            "messages take {} to {} us, once all is well {}; in 1000 {} take up to {} us, {} requests and {} replies are lost, {} requests come twice; they arrive at multiples of {} us",
            network.least_us,
            network.most_us,
            network.calm_most_us,
            network.late,
            network.late_most_us,
            network.lost_requests,
            network.lost_replies,
            network.doubled,
            network.grain_us
        )?;
        write!(f, "the store's clock is {} ppm fast", self.store_ppm)?;
        for (client, ppm) in self.client_ppm.iter().enumerate() {
            write!(f, ", client {client}'s {ppm} ppm")?;
        }
        writeln!(f, "; all is well from {} us on", self.heal_us)?;
        for Job { number, client, at_us, work } in &self.jobs {
            writeln!(f, "{at_us:>10} us  job {number}: client {client}: {work:?}")?;
        }
        for Fault { at_us, trouble } in &self.faults {
            writeln!(f, "{at_us:>10} us  {trouble:?}")?;
        }
        Ok(())
    }
}
