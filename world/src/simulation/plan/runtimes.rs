//! Several runtimes in one process, some of which end or are blocked; and observers that panic.

use super::{End, FOREVER, MILLI, Options, Plan, SECOND, Terms, Trouble, Verb, What, Work, Wrong};
use crate::simulation::draw::Draw;

impl Plan {
    /// Gives some worlds several runtimes, and some of them observers that panic.
    pub(super) fn part_runtimes(&mut self, draw: &mut Draw) {
        self.terms.panics = draw.chance(80);
        if !draw.chance(100) {
            return;
        }
        self.runtimes = draw.between(2, 3);
        for job in &mut self.jobs {
            job.runtime = draw.between(0, self.runtimes - 1);
        }
        if draw.chance(600) {
            // Only runtimes fail, so no other runtime suffers.
            self.calm_down(draw);
        }
        if draw.chance(700) {
            // Short enough that grants are lost.
            self.lease_us = self.timeout_us * draw.between(3, 8);
        }
        for _ in 0..draw.between(1, 4) {
            let at_us = draw.between(0, self.heal_us);
            let (node, runtime) = (self.node(draw), draw.between(0, self.runtimes - 1));
            let what = match draw.chance(500) {
                true => Wrong::EndRuntime { node, runtime },
                false => {
                    let most_us = draw.one_of(&[self.timeout_us, self.lease_us, 2 * self.lease_us]);
                    let for_us = draw.between(1, most_us).min(self.heal_us - at_us).max(1);
                    Wrong::BlockRuntime { node, runtime, for_us }
                }
            };
            self.troubles.push(Trouble { at_us, what });
        }
        if self.has(|wrong| matches!(wrong, Wrong::EndRuntime { .. })) {
            // No task may be left to release the grants of that runtime.
            self.lease_us = self.lease_us.min(10 * SECOND);
        }
    }

    /// Lets some holders leave the runtime of their acquire, and turns some worlds of several runtimes into ones in
    /// which little else matters.
    pub(super) fn cross_runtimes(&mut self, draw: &mut Draw) {
        if self.runtimes == 1 {
            return;
        }
        match draw.between(0, 9) {
            0..=2 => self.outlive_runtimes(draw),
            3..=4 => self.ask_beside_runtimes(draw),
            5 => return,
            _ => {}
        }
        let runtimes = self.runtimes;
        for job in &mut self.jobs {
            job.is_loose = draw.chance(400);
            job.moves_to = draw.chance(500).then(|| draw.between(0, runtimes - 1));
        }
    }

    /// Grants are held for longer than a lease, while runtimes end or are blocked: also right when something is under
    /// way.
    fn outlive_runtimes(&mut self, draw: &mut Draw) {
        self.leave_to_runtimes(draw);
        self.terms = Terms { longest_us: None, replicas: false, ..self.terms };
        (self.permits, self.lease_us) = (4, self.timeout_us * draw.between(3, 8));
        // Waiters rely on notifications, and on a subscription that one of them began.
        let listens = draw.chance(300);
        if listens {
            self.terms = Terms { wake_ups: true, poll_us: Some(15 * SECOND), ..self.terms };
        }
        for index in 0..self.jobs.len() {
            let what = draw.one_of(&[
                What::Permits(1),
                What::Permits(2),
                What::Read,
                What::Lock { is_fair: false },
                What::Lock { is_fair: !listens },
                What::Other,
                What::Both,
            ]);
            let (lease_us, short_us) = (self.lease_us, draw.between(1, self.lease_us));
            let for_us = draw.one_of(&[short_us, lease_us + short_us]);
            let (wait_us, end) = (FOREVER, draw.one_of(&[End::Released, End::Dropped]));
            let job = &mut self.jobs[index];
            job.work = match draw.between(0, 4) {
                0 => {
                    let least_us = draw.between(1, self.lease_us.min(3 * SECOND));
                    Work::Keep { least_us, wait_us, for_us: for_us.min(2 * least_us), end }
                }
                _ => Work::Hold { what, wait_us, for_us, end, is_own: false, again: false },
            };
            job.at_us = draw.one_of(&[0, 0, self.timeout_us, SECOND]);
            job.polls = draw.chance(200).then(|| draw.between(1, 4) as u32);
        }
        self.strike_runtimes(!listens, draw);
    }

    /// Callers share calls, permits ahead or a line with those of other runtimes.
    fn ask_beside_runtimes(&mut self, draw: &mut Draw) {
        self.leave_to_runtimes(draw);
        let slow_us = self.timeout_us / draw.between(20, 60);
        (self.network.least_us, self.network.most_us) = (slow_us, slow_us);
        let limits = ["token-bucket 20/s", "fixed-window 100/s", "sliding-log 5/450ms"];
        self.limit = draw.one_of(&limits).parse().expect("a limit");
        let prefetch = (draw.between(1, 4), draw.between(20 * MILLI, SECOND));
        let coalescing = draw.chance(400);
        self.options = Options {
            coalescing,
            batches: coalescing && draw.chance(300),
            prefetch: (!coalescing && draw.chance(800)).then_some(prefetch),
            ..Options::default()
        };
        for job in &mut self.jobs {
            let wait_us = draw.one_of(&[0, 0, 4 * SECOND]);
            let every_us = draw.one_of(&[0, 1, slow_us]);
            let (id, verb) = (0, Verb::Acquire { wait_us });
            job.work = Work::Ask { id, cost: 1, second: None, verb, times: 8, every_us };
            job.at_us = draw.one_of(&[0, slow_us, SECOND]);
            job.polls = None;
        }
        self.strike_runtimes(true, draw);
    }

    /// Leaves one process, in which nothing goes wrong but what its runtimes do.
    fn leave_to_runtimes(&mut self, draw: &mut Draw) {
        self.calm_down(draw);
        self.troubles.clear();
        self.link = None;
        self.ppm.truncate(1);
        self.jobs.truncate(6);
        self.jobs.iter_mut().for_each(|job| job.node = 0);
    }

    /// Ends and blocks runtimes, but for the last one: at any time, or while the first requests or renewals of a job are
    /// under way.
    fn strike_runtimes(&mut self, blocks: bool, draw: &mut Draw) {
        for _ in 0..draw.between(1, 4) {
            let job = self.jobs[draw.between(0, self.jobs.len() as u64 - 1) as usize];
            let travel_us = self.network.most_us;
            let beside_us = draw.between(0, 6) * travel_us + draw.between(0, travel_us);
            let any_us = draw.between(0, self.heal_us);
            let first_us = job.at_us + beside_us;
            let at_us = draw.one_of(&[any_us, first_us, first_us + self.lease_us / 3]);
            let at_us = at_us.min(self.heal_us);
            let runtime = draw.between(0, self.runtimes - 2);
            let most_us = draw.one_of(&[2 * self.timeout_us, 2 * self.lease_us, 3 * self.lease_us]);
            let for_us = draw.between(1, most_us).min(self.heal_us - at_us).max(1);
            let what = match draw.chance(600) || !blocks {
                true => Wrong::EndRuntime { node: 0, runtime },
                false => Wrong::BlockRuntime { node: 0, runtime, for_us },
            };
            self.troubles.push(Trouble { at_us, what });
        }
    }

    /// Returns the runtimes that are blocked at some time, with their nodes.
    pub(in crate::simulation) fn blocked_runtimes(&self) -> impl Iterator<Item = (usize, u64)> {
        self.troubles.iter().filter_map(|trouble| match trouble.what {
            Wrong::BlockRuntime { node, runtime, .. } => Some((node, runtime)),
            _ => None,
        })
    }

    /// Returns the runtimes that jobs move to.
    pub(in crate::simulation) fn moves(&self) -> impl Iterator<Item = (usize, u64)> {
        self.jobs.iter().filter_map(|job| Some((job.node, job.moves_to?)))
    }

    /// Returns whether runtimes are blocked at some time.
    pub(in crate::simulation) fn blocks_runtimes(&self) -> bool {
        self.blocked_runtimes().next().is_some()
    }

    /// Returns the end of all that goes wrong: some goes on after the network is well.
    fn ends_us(&self) -> u64 {
        let ends = self.troubles.iter().map(|trouble| trouble.at_us + trouble.what.lasts_us());
        ends.max().unwrap_or_default().max(self.heal_us)
    }

    /// Returns the time from which no operation under way goes wrong, whatever went wrong earlier.
    pub(in crate::simulation) fn sure_us(&self) -> u64 {
        self.ends_us() + 3 * self.timeout_us
    }
}

impl Wrong {
    /// Returns how long this lasts, where that is known beforehand.
    fn lasts_us(self) -> u64 {
        match self {
            Wrong::Crash { for_us, .. }
            | Wrong::Pause { for_us, .. }
            | Wrong::BlockRuntime { for_us, .. }
            | Wrong::Away { for_us, .. }
            | Wrong::Failover { for_us, .. } => for_us,
            _ => 0,
        }
    }

    /// Returns whether this affects only one runtime of a process.
    pub(super) fn is_of_runtime(self) -> bool {
        matches!(self, Wrong::EndRuntime { .. } | Wrong::BlockRuntime { .. })
    }
}
