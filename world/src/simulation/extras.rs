//! What some worlds have besides: more that is done with a limiter than asking for permits, more keys, and those who
//! free a lock by force, or hold one side of it after the other. It is drawn from streams of its own, so that all else in a world is as it would be without.

use lockage_core::Limit;

use super::draw::Draw;
use super::job::{Adjustment, Job, LIST, Setting, Work};
use super::plan::{claim, draw_work, last_work, latch, limit};
use super::scenario::{Beside, Fault, Limiter, MILLI, Machine, Place, SECOND, Scenario, Trouble};
use super::server::MAX_KEYS;

/// The streams of each. Those before are the plan's own.
const TUNES: u64 = (1 << 40) + 2;
const KEYS: u64 = TUNES + 1;
const BREAKS: u64 = TUNES + 2;
/// Far behind the others: with this one the worlds that have failed once are as they were.
const SWITCHES: u64 = TUNES + 19_605;
const LISTS: u64 = TUNES + 4;
const TURNS: u64 = TUNES + 5;
const TERMS: u64 = TUNES + 6;
/// Found like that of [`SWITCHES`].
const PLAIN: u64 = (1 << 42) + 6723;

/// The first numbers of jobs of another key, of a forced release, of several permits at once, and of a
/// cancelled turn.
const FIRST_JOB_BESIDE: u32 = 10_000;
const FIRST_BREAK: u32 = 20_000;
const FIRST_LIST: u32 = 30_000;
const FIRST_TURN: u32 = 40_000;

impl Scenario {
    /// In half of the worlds with a limiter more is done with it.
    pub(super) fn tune(&mut self) {
        let draw = &mut Draw::new(self.seed, TUNES);
        let is_plain = draw.chance(500);
        if is_plain {
            return;
        }
        let Machine::Limiter(limiter) = &mut self.machine else { return };
        limiter.other = draw.chance(450).then(|| limit(draw));
        limiter.place = draw.one_of(&[
            Place::WithCallers,
            Place::WithCallers,
            Place::Stored,
            Place::StoredOrDefault,
        ]);
        let limiter = *limiter;
        // Callers are under the other limit from some time on, or some of them at all times.
        let since_us = draw.chance(500).then(|| draw.between(0, self.heal_us));
        let is_other = |at_us: u64, draw: &mut Draw| {
            limiter.other.is_some()
                && since_us.map_or_else(|| draw.chance(500), |since_us| at_us >= since_us)
        };
        for job in self.jobs.iter_mut().filter(|job| job.at_us < self.heal_us) {
            if let Work::Ask { is_other: it, .. } = &mut job.work {
                *it = is_other(job.at_us, draw);
            }
        }
        let (clients, first) = (self.clients() as u64, self.jobs.len() as u32);
        let is_stored = limiter.place != Place::WithCallers;
        if is_stored && draw.chance(700) {
            let work = Work::Set { setting: Setting::IfAbsent, is_other: false };
            self.jobs.push(Job { number: first, client: 0, at_us: 0, work });
        }
        for number in 1..=draw.between(1, 16) as u32 {
            let client = draw.between(0, clients - 1) as usize;
            let at_us = draw.between(0, self.heal_us - 1);
            let is_other = is_other(at_us, draw);
            let work = draw_tuning(&limiter, is_other, draw);
            self.jobs.push(Job { number: first + number, client, at_us, work });
        }
    }

    /// In half of those in which limits are stored they are kept for a time, or are for each client.
    pub(super) fn set_terms(&mut self) {
        let draw = &mut Draw::new(self.seed, TERMS);
        let Machine::Limiter(limiter) = &mut self.machine else { return };
        if limiter.place == Place::WithCallers || draw.chance(500) {
            return;
        }
        limiter.keep_us = if draw.chance(700) { draw.between(50 * MILLI, 3 * SECOND) } else { 0 };
        limiter.other_is_per_client = limiter.other.is_some() && draw.chance(500);
    }

    /// Some worlds have other keys, with clients of their own.
    pub(super) fn add_keys(&mut self) {
        let draw = &mut Draw::new(self.seed, KEYS);
        if !draw.chance(120) {
            return;
        }
        for _ in 0..draw.between(1, MAX_KEYS as u64 - 1) {
            self.add_key(draw);
        }
    }

    /// In some worlds with a lock it is freed by force at times.
    pub(super) fn add_breaks(&mut self) {
        let draw = &mut Draw::new(self.seed, BREAKS);
        let Machine::Lock { lock, .. } = self.machine else { return };
        if !draw.chance(200) {
            return;
        }
        let clients = self.keys().into_iter().filter(|key| *key == 0).count() as u64;
        let lease_us = lock.lease().as_micros() as u64; // at most 2^50
        for number in 0..draw.between(1, 4) as u32 {
            let client = draw.between(0, clients - 1) as usize;
            let at_us = draw.between(0, self.heal_us - 1);
            let after_us = draw.between(0, lease_us);
            let work = Work::Break { after_us, is_twice: draw.chance(300) };
            self.jobs.push(Job { number: FIRST_BREAK + number, client, at_us, work });
        }
    }

    /// In half of the worlds with read-write locks some of those who hold one side take the other one then.
    pub(super) fn add_switches(&mut self) {
        let draw = &mut Draw::new(self.seed, SWITCHES);
        if draw.chance(500) {
            return;
        }
        let (keys, machines) = (self.keys(), self.machines());
        for job in self.jobs.iter_mut().filter(|job| job.at_us < self.heal_us) {
            let has_sides = matches!(machines[keys[job.client]], Machine::RwLock { .. });
            if let (true, Work::Hold { switches, .. }) = (has_sides, &mut job.work) {
                *switches = draw.chance(500);
            }
        }
    }

    /// In some worlds with a limiter several permits are asked for in one call, too.
    pub(super) fn add_lists(&mut self) {
        let draw = &mut Draw::new(self.seed, LISTS);
        let Machine::Limiter(limiter) = self.machine else { return };
        if !draw.chance(400) {
            return;
        }
        let clients = self.keys().into_iter().filter(|key| *key == 0).count() as u64;
        for number in 0..draw.between(1, 8) as u32 {
            let client = draw.between(0, clients - 1) as usize;
            let at_us = draw.between(0, self.heal_us - 1);
            let is_other = limiter.other.is_some() && draw.chance(300);
            let most = limiter.which(is_other).capacity().div_ceil(3);
            let mut costs = [0; LIST];
            for cost in costs.iter_mut().take(draw.between(2, LIST as u64) as usize) {
                *cost = if draw.chance(600) { 1 } else { draw.between(1, most) };
            }
            let work = Work::AskEach { costs, is_other };
            self.jobs.push(Job { number: FIRST_LIST + number, client, at_us, work });
        }
    }

    /// In some worlds with a leaky bucket turns are given back.
    pub(super) fn add_turns(&mut self) {
        let draw = &mut Draw::new(self.seed, TURNS);
        let Machine::Limiter(limiter) = self.machine else { return };
        let has_turns = |limit| matches!(limit, Limit::LeakyBucket(_));
        let others_have = limiter.other.is_some_and(has_turns);
        let is_right = has_turns(limiter.limit) || others_have;
        if limiter.place != Place::WithCallers || !is_right || !draw.chance(600) {
            return;
        }
        let clients = self.keys().into_iter().filter(|key| *key == 0).count() as u64;
        for number in 0..draw.between(2, 12) as u32 {
            let client = draw.between(0, clients - 1) as usize;
            let at_us = draw.between(0, self.heal_us - 1);
            let is_other = others_have && draw.chance(500);
            let most = limiter.which(is_other).capacity().div_ceil(2);
            let work = Work::TakeTurn {
                cost: draw.between(1, most),
                after_us: if draw.chance(500) { 0 } else { draw.between(0, 500 * MILLI) },
                with_id: draw.chance(500),
                is_other,
            };
            self.jobs.push(Job { number: FIRST_TURN + number, client, at_us, work });
        }
    }

    /// In two of five worlds no call of a limiter has an id, and no caller waits for a lock in line. Both are in the record, which is
    /// then another one, that other scripts read: one such request is enough for it.
    pub(super) fn stay_plain(&mut self) {
        if !Draw::new(self.seed, PLAIN).chance(400) {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| job.at_us < self.heal_us) {
            match &mut job.work {
                Work::Ask { with_id, .. }
                | Work::TakeTurn { with_id, .. }
                | Work::Adjust { with_id, .. } => *with_id = false,
                Work::Spend(work) => work.with_id = false,
                Work::Hold { in_line, .. } => *in_line = false,
                _ => {}
            }
        }
    }

    fn add_key(&mut self, draw: &mut Draw) {
        let machine = self.machine_beside(draw);
        let (first, clients) = (self.clients(), draw.between(1, 2) as usize);
        let jobs = FIRST_JOB_BESIDE + self.jobs.len() as u32;
        for number in 0..draw.between(1, 8) as u32 {
            let client = first + draw.between(0, clients as u64 - 1) as usize;
            let at_us = draw.between(0, self.heal_us - 1);
            let work = draw_work(&machine, draw);
            self.jobs.push(Job { number: jobs + number, client, at_us, work });
        }
        self.add_last_jobs(&machine, (first, clients), jobs, draw);
        if draw.chance(500) {
            self.add_client_trouble(first, clients, draw);
        }
        self.beside.push(Beside { machine, clients });
    }

    /// What each of these clients does once everything is well again, and how fast its clock runs.
    pub(super) fn add_last_jobs(
        &mut self,
        machine: &Machine,
        (first, clients): (usize, usize),
        first_job: u32,
        draw: &mut Draw,
    ) {
        let drifts = self.network.grain_us == 1;
        for number in 0..clients {
            let (client, work) = (first + number, last_work(machine, number));
            let number = first_job + 100 + number as u32;
            self.jobs.push(Job { number, client, at_us: self.heal_us, work });
            self.client_ppm.push(if drifts { draw.either_way(400) } else { 0 });
        }
    }

    /// One of these clients crashes, is paused, or is cut off.
    pub(super) fn add_client_trouble(&mut self, first: usize, clients: usize, draw: &mut Draw) {
        let client = first + draw.between(0, clients as u64 - 1) as usize;
        let at_us = draw.between(0, self.heal_us - 1);
        let for_us = draw.between(MILLI, 2 * SECOND).min(self.heal_us - at_us);
        let trouble = draw.one_of(&[
            Trouble::ClientCrash { client, for_us },
            Trouble::Pause { client, for_us },
            Trouble::CutRequests { client, for_us },
            Trouble::CutReplies { client, for_us },
        ]);
        self.faults.push(Fault { at_us, trouble });
    }

    /// What is held under leases lives with the messages that there are: an operation is remembered for as long
    /// as it may be under way, and who is told of a grant has some of its lease left.
    fn machine_beside(&self, draw: &mut Draw) -> Machine {
        let network = &self.network;
        match draw.between(0, 9) {
            0..=4 => {
                let least_us = (100 * MILLI).max(40 * network.calm_most_us);
                let remember_us = (network.late_most_us + self.timeout_us) * 100 / 98;
                claim(draw, remember_us, least_us, network.grain_us)
            }
            5 => latch(draw),
            _ => {
                let remember_us = (4 * self.timeout_us).max(SECOND);
                Machine::Limiter(Limiter::new(limit(draw), remember_us))
            }
        }
    }
}

fn draw_tuning(limiter: &Limiter, is_other: bool, draw: &mut Draw) -> Work {
    let capacity = limiter.which(is_other).capacity();
    match draw.between(0, 9) {
        0..=3 => {
            let adjustment = draw.one_of(&[
                Adjustment::TakeUpTo,
                Adjustment::Refund,
                Adjustment::Refund,
                Adjustment::Penalty,
                Adjustment::Block,
                Adjustment::Unblock,
            ]);
            let amount = match adjustment {
                Adjustment::TakeUpTo | Adjustment::Refund => draw.between(1, capacity),
                Adjustment::Penalty => draw.between(1, 2 * capacity),
                Adjustment::Block => draw.between(MILLI, 2 * SECOND),
                Adjustment::Unblock => 0,
            };
            Work::Adjust { adjustment, amount, with_id: draw.chance(700), is_other }
        }
        4..=6 => {
            let estimate = draw.between(1, capacity.div_ceil(2));
            let hold_us = match draw.chance(300) {
                true => draw.between(MILLI, SECOND),
                false => draw.between(SECOND, 10 * SECOND),
            };
            Work::Reserve {
                estimate,
                actual: draw.between(0, estimate + 1 + estimate / 2),
                for_us: draw.between(MILLI, SECOND),
                hold_us,
                is_twice: draw.chance(250),
                is_other,
            }
        }
        9 if limiter.place != Place::WithCallers => {
            let setting = draw.one_of(&[Setting::Keep, Setting::IfAbsent, Setting::Afresh]);
            Work::Set { setting, is_other: draw.chance(500) && limiter.other.is_some() }
        }
        _ => Work::Peek { cost: draw.between(0, capacity + 1), is_other },
    }
}
