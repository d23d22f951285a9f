//! What there is in a world, and what goes wrong in it: all of it drawn from one seed.

use std::fmt;

use lockage_core::{Limit, REMEMBERED_REQUESTS};
use serde::{Deserialize, Serialize};

use crate::simulation::Draw;

const MILLI: u64 = 1000;
const SECOND: u64 = 1_000_000;

/// What there is, and what goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What all chance is drawn from.
    pub seed: u64,
    /// Nothing goes wrong from then on, in microseconds.
    pub heal_us: u64,
    /// By how many millionths the clock of each node is faster than the store's.
    pub(super) ppm: Vec<i64>,
    /// The limit of each id.
    pub limit: Limit,
    pub(super) options: Options,
    pub(super) timeout_us: u64,
    /// For how long a grant lasts, in microseconds.
    pub lease_us: u64,
    pub(super) permits: u64,
    /// Whether waiters listen.
    pub(super) wake_ups: bool,
    pub(super) network: Network,
    pub(super) jobs: Vec<Job>,
    pub(super) troubles: Vec<Trouble>,
}

/// What programs are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Theme {
    /// They ask limiters.
    Limiters,
    /// They ask limiters that deny and refill nothing, and whose store so tells all that it has charged.
    Charges,
    /// They hold permits, sides of a read-write lock, and locks.
    Locks,
    /// They hold one lock, and run work once in all.
    OneLock,
}

impl Theme {
    /// All of them.
    pub const ALL: [Theme; 4] = [Theme::Limiters, Theme::Charges, Theme::Locks, Theme::OneLock];
}

impl fmt::Display for Theme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Theme::Limiters => "limiters that deny",
            Theme::Charges => "limiters that deny nothing",
            Theme::Locks => "semaphores, read-write locks, locks",
            Theme::OneLock => "a lock, work that runs once",
        })
    }
}

/// What the limiters of all nodes are set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) idempotency: bool,
    pub(super) coalescing: bool,
    pub(super) deny_cache: bool,
    /// How many permits, and for how long.
    pub(super) prefetch: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) least_us: u64,
    pub(super) most_us: u64,
    /// Of a thousand messages, so many are lost.
    pub(super) lost: u32,
    /// Of a thousand messages, so many take up to two timeouts.
    pub(super) late: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) node: usize,
    pub(super) at_us: u64,
    pub(super) work: Work,
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is what it holds
pub enum Work {
    /// Ask for permits of a limiter, so many times.
    Ask { id: usize, cost: u64, wait_us: u64, times: u32, every_us: u64 },
    /// Hold something, and give it back by release or by drop.
    Hold { what: What, wait_us: u64, for_us: u64, is_dropped: bool },
    /// Do something that is done once in all.
    Once { for_us: u64 },
}

/// What can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)] // each is what it is called
pub enum What {
    Lock { is_fair: bool },
    Permits(u64),
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) at_us: u64,
    pub(super) what: Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The process ends, and another one begins.
    Crash { node: usize, for_us: u64 },
    /// The process stands still.
    Pause { node: usize, for_us: u64 },
    /// All of its connections break.
    Break { node: usize },
    /// No call reaches the store.
    Away { for_us: u64 },
    /// The future of a job is dropped.
    Cancel { job: usize },
}

impl Plan {
    /// Returns the plan of a seed.
    pub fn of(seed: u64) -> Self {
        let draw = &mut Draw::new(seed, 1);
        let nodes = draw.between(1, 3) as usize;
        let timeout_us = draw.one_of(&[100 * MILLI, 250 * MILLI, SECOND]);
        let heal_us = draw.between(2, 8) * SECOND;
        let lease_us = match draw.chance(500) {
            true => timeout_us * draw.between(3, 8),
            // So long that nothing is free because its lease has ended.
            false => 300 * SECOND,
        };
        let limit = limit(draw, &["100ms", "450ms", "1s", "3s"]);
        let mut plan = Plan {
            seed,
            heal_us,
            ppm: (0..nodes).map(|_| draw.either_way(400)).collect(),
            options: Options::draw(&limit, timeout_us, draw),
            limit,
            timeout_us,
            lease_us,
            permits: draw.between(1, 4),
            wake_ups: draw.chance(600),
            network: Network::draw(timeout_us, draw),
            jobs: Vec::new(),
            troubles: Vec::new(),
        };
        let theme = draw.one_of(&[Theme::Limiters, Theme::Limiters, Theme::Locks, Theme::OneLock]);
        plan.add_jobs(theme, draw);
        plan.stay_remembered();
        plan.add_troubles(draw);
        if plan.troubles.iter().any(|trouble| matches!(trouble.what, Wrong::Crash { .. })) {
            // What a dead process held is waited for.
            plan.lease_us = plan.lease_us.min(10 * SECOND);
        }
        plan
    }

    /// Returns a plan for real servers, where nothing goes wrong by itself, and no job takes longer than a few seconds.
    /// It has no permits taken ahead.
    pub fn on_servers(theme: Theme, seed: u64) -> Self {
        let draw = &mut Draw::new(seed, 3);
        let timeout_us = 250 * MILLI;
        let mut limit = limit(draw, &["100ms", "450ms"]);
        let mut options = Options { prefetch: None, ..Options::draw(&limit, timeout_us, draw) };
        if theme == Theme::Charges {
            limit = "fixed-window 1000000/day".parse().expect("a limit");
            // Of so many requests at once the store forgets some before they are repeated, and charges them again.
            options.idempotency = false;
        }
        let mut plan = Plan {
            seed,
            heal_us: SECOND,
            ppm: vec![0],
            options,
            limit,
            timeout_us,
            lease_us: 4 * timeout_us,
            permits: draw.between(1, 4),
            wake_ups: draw.chance(600),
            network: Network { least_us: 0, most_us: 0, lost: 0, late: 0 },
            jobs: Vec::new(),
            troubles: Vec::new(),
        };
        for _ in 0..8 {
            plan.add_jobs(theme, draw);
        }
        for job in &mut plan.jobs {
            match &mut job.work {
                Work::Ask { times, wait_us, every_us, .. } => {
                    *times = (*times).min(4);
                    *wait_us = (*wait_us).min(2 * timeout_us);
                    *every_us = (*every_us).min(10 * MILLI);
                }
                Work::Hold { wait_us, for_us, .. } => {
                    *wait_us = (*wait_us).min(4 * timeout_us);
                    // One in four of them outlasts its lease, if it was drawn so.
                    *for_us = if draw.chance(250) { *for_us } else { *for_us % (10 * MILLI) };
                }
                Work::Once { .. } => {}
            }
        }
        plan
    }

    /// Returns what its jobs do.
    pub fn works(&self) -> impl Iterator<Item = Work> {
        self.jobs.iter().map(|job| job.work)
    }

    fn add_jobs(&mut self, theme: Theme, draw: &mut Draw) {
        for _ in 0..draw.between(2, 10) {
            let node = draw.between(0, self.ppm.len() as u64 - 1) as usize;
            // Several at one time meet in one call.
            let at_us = match draw.chance(400) {
                true => draw.between(0, 3) * SECOND / 2,
                false => draw.between(0, self.heal_us),
            };
            let wait_us = draw.one_of(&[0, 0, self.timeout_us, 4 * SECOND]);
            let for_us = match draw.chance(500) {
                true => draw.between(1, self.timeout_us),
                false => draw.between(1, 2 * self.lease_us.min(3 * SECOND)),
            };
            let is_dropped = draw.chance(500);
            let work = match theme {
                Theme::Limiters | Theme::Charges => Work::Ask {
                    id: draw.between(0, 1) as usize,
                    cost: draw.one_of(&[1, 1, 1, 2, 3]),
                    wait_us,
                    times: draw.between(1, 12) as u32,
                    every_us: draw.one_of(&[0, 1, 10 * MILLI, self.timeout_us, SECOND]),
                },
                Theme::Locks => {
                    let what = match draw.between(0, 3) {
                        0 => What::Permits(draw.between(1, self.permits)),
                        1 => What::Read,
                        2 => What::Write,
                        _ => What::Lock { is_fair: draw.chance(500) },
                    };
                    Work::Hold { what, wait_us, for_us, is_dropped }
                }
                Theme::OneLock if draw.chance(300) => Work::Once { for_us },
                Theme::OneLock => {
                    let what = What::Lock { is_fair: draw.chance(300) };
                    Work::Hold { what, wait_us, for_us, is_dropped }
                }
            };
            self.jobs.push(Job { node, at_us, work });
        }
    }

    /// With request ids, a late copy of a request is no new one as long as it is remembered: among so many of its key.
    fn stay_remembered(&mut self) {
        let mut left = if self.options.idempotency { REMEMBERED_REQUESTS as u32 } else { u32::MAX };
        for job in &mut self.jobs {
            if let Work::Ask { times, .. } = &mut job.work {
                *times = left.min(*times);
                left -= *times;
            }
        }
    }

    fn add_troubles(&mut self, draw: &mut Draw) {
        for _ in 0..draw.between(0, 4) {
            let at_us = draw.between(0, self.heal_us);
            let node = draw.between(0, self.ppm.len() as u64 - 1) as usize;
            let longest_us = self.heal_us - at_us;
            let for_us = match draw.chance(700) {
                true => draw.between(1, 2 * self.timeout_us),
                false => draw.between(1, 3 * SECOND),
            };
            let for_us = for_us.min(longest_us.max(1));
            let what = match draw.between(0, 5) {
                0 => Wrong::Crash { node, for_us },
                1 => Wrong::Pause { node, for_us },
                2 => Wrong::Break { node },
                3 => Wrong::Away { for_us },
                _ => Wrong::Cancel { job: draw.between(0, self.jobs.len() as u64 - 1) as usize },
            };
            self.troubles.push(Trouble { at_us, what });
        }
    }

    /// Returns when all is well, and what dead processes held is free.
    pub(super) fn freed_us(&self) -> u64 {
        let crashes = self.troubles.iter().filter(|it| matches!(it.what, Wrong::Crash { .. }));
        let freed = crashes.map(|crash| crash.at_us + self.lease_us + self.lease_us / 100);
        freed.max().unwrap_or_default().max(self.heal_us)
    }

    /// Returns plans with one thing less.
    pub(super) fn smaller(&self) -> impl Iterator<Item = Plan> {
        let troubles = (0..self.troubles.len()).map(|index| {
            let mut plan = self.clone();
            plan.troubles.remove(index);
            plan
        });
        let jobs = (0..self.jobs.len()).map(|index| {
            let mut plan = self.clone();
            plan.jobs.remove(index);
            plan.troubles.retain_mut(|trouble| match &mut trouble.what {
                Wrong::Cancel { job } if *job == index => false,
                Wrong::Cancel { job } => {
                    *job -= usize::from(*job > index);
                    true
                }
                _ => true,
            });
            plan
        });
        let times = (0..self.jobs.len()).filter_map(|index| {
            let mut plan = self.clone();
            match &mut plan.jobs[index].work {
                Work::Ask { times, .. } if *times > 1 => *times -= 1,
                _ => return None,
            }
            Some(plan)
        });
        let calm = |change: fn(&mut Plan)| {
            let mut plan = self.clone();
            change(&mut plan);
            (plan != *self).then_some(plan)
        };
        let calm = [
            calm(|plan| plan.network.lost = 0),
            calm(|plan| plan.network.late = 0),
            calm(|plan| plan.network.most_us = plan.network.least_us),
            calm(|plan| plan.ppm.iter_mut().for_each(|ppm| *ppm = 0)),
            calm(|plan| plan.wake_ups = false),
        ];
        let (troubles, jobs): (Vec<_>, Vec<_>) = (troubles.collect(), jobs.collect());
        let times: Vec<_> = times.collect();
        jobs.into_iter().chain(troubles).chain(calm.into_iter().flatten()).chain(times)
    }
}

impl Options {
    fn draw(limit: &Limit, timeout_us: u64, draw: &mut Draw) -> Self {
        let (idempotency, coalescing) = match draw.between(0, 2) {
            0 => (false, false),
            1 => (true, false),
            _ => (false, true),
        };
        let most = limit.capacity() - 1;
        let prefetch = (most > 0 && draw.chance(300)).then(|| {
            let lease_us = match draw.chance(500) {
                true => draw.between(MILLI, timeout_us),
                false => draw.between(timeout_us, 3 * SECOND),
            };
            (draw.between(1, most), lease_us)
        });
        Options { idempotency, coalescing, deny_cache: draw.chance(400), prefetch }
    }
}

impl Network {
    fn draw(timeout_us: u64, draw: &mut Draw) -> Self {
        let least_us = draw.one_of(&[1, 50, 500]);
        let most_us = match draw.between(0, 2) {
            0 => least_us,
            1 => least_us + draw.between(0, 5 * MILLI),
            _ => least_us + draw.between(0, timeout_us / 4),
        };
        let of = |draw: &mut Draw| if draw.chance(500) { 0 } else { draw.between(1, 150) as u32 };
        Network { least_us, most_us, lost: of(draw), late: of(draw) }
    }
}

/// One limit, of which what is left tells what was charged.
fn limit(draw: &mut Draw, spans: &[&str]) -> Limit {
    let (count, more) = (draw.between(1, 12), draw.between(0, 8));
    let span = draw.one_of(spans);
    let text = match draw.between(0, 4) {
        0 => format!("fixed-window {count}/{span}"),
        1 => format!("sliding-log {count}/{span}"),
        2 => format!("sliding-window {count}/{span}"),
        3 => format!("token-bucket {count} every {span} burst {}", count + more),
        _ => format!("token-bucket {count}/{span} burst {}", count + more),
    };
    text.parse().expect("a limit")
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { limit, options, timeout_us, lease_us, permits, wake_ups, network, .. } = self;
        writeln!(f, "{limit}, {options:?}")?;
        writeln!(
            f,
            "calls take at most {timeout_us} us, leases {lease_us} us, {permits} permits, wake-ups: {wake_ups}"
        )?;
        writeln!(f, "clocks {:?}, {network:?}, well from {} us on", self.ppm, self.heal_us)?;
        for (number, job) in self.jobs.iter().enumerate() {
            writeln!(f, "job {number}: {job:?}")?;
        }
        self.troubles.iter().try_for_each(|trouble| writeln!(f, "{trouble:?}"))
    }
}
