//! What goes wrong.

use super::jobs::Life;
use super::judge::Fault;
use super::plan::Wrong;
use super::play::{Event, World};
use super::rare::Rare;
use crate::simulation::Who;

impl World<'_> {
    pub(super) fn trouble(&mut self, wrong: Wrong) -> Result<(), Fault> {
        self.say(Who::Store, || format!("trouble: {wrong:?}"));
        match wrong {
            Wrong::Crash { node, for_us } => self.crash(node, for_us),
            Wrong::Pause { node, for_us } => {
                let until_us = &mut self.nodes[node].paused_until_us;
                *until_us = (*until_us).max(self.now_us + for_us);
            }
            Wrong::Stall { node, reads, for_us } => self.nodes[node].host.stall(reads, for_us),
            Wrong::Break { node } => {
                self.subscribed.retain(|(_, of, _)| *of != node);
                self.nodes[node].host.break_connections();
                return self.poll(node);
            }
            Wrong::Away { server, for_us } => {
                let until_us = &mut self.away_until_us[server];
                *until_us = (*until_us).max(self.now_us + for_us);
            }
            Wrong::Cancel { job } => {
                let node = self.plan.jobs[job].node;
                if self.nodes[node].cancel(job) {
                    self.dropped(node, job);
                }
                return self.poll(node);
            }
            Wrong::Failover { behind_us } => {
                self.rare.saw(Rare::Failover);
                self.keys.fail_over(self.now_us.saturating_sub(behind_us));
                self.judge.shaken(self.now_us);
                self.subscribed.clear();
                for node in 0..self.nodes.len() {
                    self.nodes[node].host.break_connections();
                    self.poll(node)?;
                }
            }
            Wrong::Clock { by_us } => {
                self.rare.saw(if by_us < 0 { Rare::ClockBack } else { Rare::ClockAhead });
                self.keys.set_clock(by_us);
                self.judge.shaken(self.now_us);
            }
        }
        Ok(())
    }

    /// A process ends, and another one begins.
    fn crash(&mut self, node: usize, for_us: u64) {
        if self.nodes[node].is_busy() {
            self.rare.saw(Rare::Crash);
        }
        let host = self.host(node, self.nodes[node].life + 1);
        self.lives[node] = Life::new(&self.plan, &host);
        self.nodes[node].crash(host, self.now_us + for_us);
        let plan = &self.plan;
        let has_begun = |job: &usize| {
            plan.jobs.get(*job).is_some_and(|job| job.node == node && job.at_us <= self.now_us)
        };
        self.open.retain(|job| !has_begun(job));
        self.queue.push(self.now_us + for_us, Event::Up { node });
    }
}
