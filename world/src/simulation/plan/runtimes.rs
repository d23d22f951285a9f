//! Several runtimes in one process, some of which end or are blocked; and observers that panic.

use super::{Job, Plan, SECOND, Trouble, Wrong};
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

    /// Returns the end of all that goes wrong: some goes on after the network is well.
    fn ends_us(&self) -> u64 {
        let ends = self.troubles.iter().map(|trouble| trouble.at_us + trouble.what.lasts_us());
        ends.max().unwrap_or_default().max(self.heal_us)
    }

    /// Returns the time from which no operation under way goes wrong, whatever went wrong earlier.
    pub(in crate::simulation) fn sure_us(&self) -> u64 {
        self.ends_us() + 3 * self.timeout_us
    }

    /// Returns the jobs whose runtime is blocked at some time.
    pub(in crate::simulation) fn blocked_jobs(&self) -> impl Iterator<Item = usize> {
        let is_blocked = |job: &Job| {
            self.has(|wrong| {
                matches!(wrong, Wrong::BlockRuntime { node, runtime, .. }
                    if (node, runtime) == (job.node, job.runtime))
            })
        };
        (0..self.jobs.len()).filter(move |index| is_blocked(&self.jobs[*index]))
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
