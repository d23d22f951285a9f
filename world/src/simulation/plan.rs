//! How a scenario is drawn: everything in it follows from one seed.

use std::time::Duration;

use lockage_core::Limit;
use lockage_core::latch::Latch;
use lockage_core::lock::Lock;
use lockage_core::rw_lock::RwLock;
use lockage_core::semaphore::Semaphore;

use super::draw::Draw;
use super::job::{Job, Work};
use super::message::WRITE;
use super::scenario::{
    FOR_EVER_US, Fault, Limiter, MILLI, Machine, Network, SECOND, Scenario, Trouble,
};

/// The most by which a clock's pace is off, in millionths. Two clocks then differ by less than the
/// thousandth that a holder's own deadline allows for.
const MOST_PPM: u64 = 400;

/// The stream that says whether an old primary goes on. Jobs have streams from 1 on, clients those at the end.
const SPLITS: u64 = 1 << 40;

/// The stream that says whether what most even seeds have is a latch.
const LATCHES: u64 = SPLITS + 1;

impl Scenario {
    /// The world of this seed: of the even ones a lock's, a semaphore's or a read-write lock's, of the odd ones a limiter's.
    pub fn of(seed: u64) -> Scenario {
        let mut draw = Draw::new(seed, 0);
        let draw = &mut draw;
        let grain_us = draw.one_of(&[1, 1, MILLI, 10 * MILLI]);
        let timeout_us = draw.between((20 * MILLI).max(40 * grain_us), 500 * MILLI);
        let remember_us = (4 * timeout_us).max(SECOND);
        let machine = match seed.is_multiple_of(2) {
            true if Draw::new(seed, LATCHES).chance(80) => latch(draw),
            true => claim(draw, remember_us, 100 * MILLI, grain_us),
            false => Machine::Limiter(Limiter::new(limit(draw), remember_us)),
        };
        let claim = machine.claim();
        let late_most_us = match claim {
            // An operation may be under way for as long as it is remembered, and no longer.
            Some(_) => remember_us - timeout_us - remember_us / 100,
            // A request that comes later is one more, which is charged again.
            None => 2 * remember_us,
        };
        // A client that is told of a grant must have some of its lease left.
        let soon_us = claim.map_or(timeout_us, |claim| timeout_us.min(claim.lease_us));
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
            beside: Vec::new(),
            timeout_us,
            network,
            store_ppm,
            client_ppm,
            jobs: Vec::new(),
            faults: faults(draw, clients, heal_us, &machine, grain_us),
            heal_us,
            spared: Vec::new(),
        };
        scenario.jobs = scenario.draw_jobs(draw);
        scenario.faults.extend(split(&mut Draw::new(seed, SPLITS), &scenario));
        scenario.tune();
        scenario.set_terms();
        scenario.add_keys();
        scenario.add_breaks();
        scenario.add_switches();
        scenario.add_lists();
        scenario.add_turns();
        scenario.add_nodes();
        scenario.stay_plain();
        scenario.aim();
        scenario
    }

    fn draw_jobs(&self, draw: &mut Draw) -> Vec<Job> {
        let most = if self.machine.claim().is_some() { 16 } else { 48 };
        let count = draw.between(1, most) as u32;
        let clients = self.clients() as u64;
        let job = |number| {
            let client = draw.between(0, clients - 1) as usize;
            let at_us = draw.between(0, self.heal_us - 1);
            Job { number, client, at_us, work: draw_work(&self.machine, draw) }
        };
        let mut jobs: Vec<Job> = (0..count).map(job).collect();
        // Once all is well, everybody is served.
        for client in 0..self.clients() {
            let number = count + client as u32;
            jobs.push(Job {
                number,
                client,
                at_us: self.heal_us,
                work: last_work(&self.machine, client),
            });
        }
        jobs
    }
}

pub(super) fn draw_work(machine: &Machine, draw: &mut Draw) -> Work {
    match machine {
        Machine::Lock { .. } => {
            let (in_line, is_again) = (draw.chance(400), draw.chance(250));
            let holds = if is_again { draw.between(2, 3) as u32 } else { 1 };
            draw_hold(machine, (1, in_line, holds), draw)
        }
        Machine::Semaphore { semaphore, .. } => {
            let weight = draw.between(1, semaphore.permits());
            draw_hold(machine, (weight, false, 1), draw)
        }
        Machine::RwLock { .. } => {
            let weight = if draw.chance(400) { WRITE } else { 1 };
            draw_hold(machine, (weight, false, 1), draw)
        }
        Machine::Latch { .. } => Work::Count {
            count: draw.between(1, 3),
            is_set: draw.chance(300),
            is_insistent: draw.chance(500),
        },
        Machine::Limiter(Limiter { limit, .. }) => {
            let capacity = limit.capacity();
            let most = if draw.chance(50) { capacity + 1 } else { capacity.div_ceil(3) };
            let wait_us = if draw.chance(500) { 0 } else { draw.between(0, 2 * SECOND) };
            let cost = if draw.chance(600) { 1 } else { draw.between(1, most) };
            Work::Ask { cost, wait_us, with_id: draw.chance(700), is_other: false }
        }
    }
}

fn draw_hold(
    machine: &Machine,
    (weight, in_line, holds): (u64, bool, u32),
    draw: &mut Draw,
) -> Work {
    let lease_us = machine.claim().map_or(0, |claim| claim.lease_us);
    let for_us = match draw.chance(300) {
        true => draw.between(lease_us / 2, lease_us * 3),
        false => draw.between(MILLI, lease_us / 2),
    };
    let wait_us = if draw.chance(200) { 0 } else { draw.between(0, 5 * SECOND) };
    Work::Hold { weight, in_line, for_us, holds, wait_us, switches: false }
}

/// For a client of this number among those of its key.
pub(super) fn last_work(machine: &Machine, client: usize) -> Work {
    let wait_us = FOR_EVER_US;
    match machine.claim() {
        Some(claim) => {
            let is_first = client == 0;
            let weight = if is_first { claim.capacity } else { 1 };
            let in_line = is_first && matches!(machine, Machine::Lock { .. });
            let (for_us, holds) = (MILLI, 1);
            Work::Hold { weight, in_line, for_us, holds, wait_us, switches: false }
        }
        None if matches!(machine, Machine::Latch { .. }) => {
            Work::Count { count: 1, is_set: false, is_insistent: true }
        }
        None => Work::Ask { cost: 1, wait_us, with_id: true, is_other: false },
    }
}

pub(super) fn latch(draw: &mut Draw) -> Machine {
    let keep = Duration::from_micros(draw.between(500 * MILLI, 5 * SECOND));
    Machine::Latch { latch: Latch::new(keep).expect("far from its bounds") }
}

/// Of what is held under leases, three in five are locks. Leases are at least `least_us`.
pub(super) fn claim(draw: &mut Draw, remember_us: u64, least_us: u64, grain_us: u64) -> Machine {
    let least_us = least_us.max(40 * grain_us);
    let lease_us = draw.between(least_us, least_us.max(3 * SECOND)).next_multiple_of(grain_us);
    let (lease, remember) = (Duration::from_micros(lease_us), Duration::from_micros(remember_us));
    let poll_us = draw.between(5 * MILLI, 200 * MILLI);
    let expected = "all are far from their bounds";
    match draw.between(0, 4) {
        0 => {
            let semaphore = Semaphore::new(draw.between(1, 4), lease, remember);
            Machine::Semaphore { semaphore: semaphore.expect(expected), poll_us }
        }
        1 => Machine::RwLock { lock: RwLock::new(lease, remember).expect(expected), poll_us },
        _ => Machine::Lock { lock: Lock::new(lease, remember).expect(expected), poll_us },
    }
}

pub(super) fn limit(draw: &mut Draw) -> Limit {
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
        aimed: 0,
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
    let lease_us = machine.claim().map_or(SECOND, |claim| claim.lease_us);
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

/// In some worlds an old primary goes on for some clients.
fn split(draw: &mut Draw, scenario: &Scenario) -> Option<Fault> {
    if !draw.chance(150) {
        return None;
    }
    let at_us = draw.between(0, scenario.heal_us - 1);
    let grain_us = scenario.network.grain_us as i64; // at most ten milliseconds
    let trouble = Trouble::Split {
        clients: draw.between(1, scenario.clients() as u64) as usize,
        behind_us: draw.between(0, 200 * MILLI),
        clock_us: draw.either_way(50 * MILLI) / grain_us * grain_us,
        for_us: draw.between(MILLI, 3 * SECOND).min(scenario.heal_us - at_us),
    };
    Some(Fault { at_us, trouble })
}
