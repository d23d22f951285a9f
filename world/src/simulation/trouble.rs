//! The failures of a world.

use super::jobs::Life;
use super::judge::Fault;
use super::log::Who;
use super::node::Node;
use super::plan::Wrong;
use super::play::{Event, World};
use super::rare::Rare;
use super::servers::Servers;

impl World<'_> {
    pub(super) fn trouble(&mut self, wrong: Wrong) -> Result<(), Fault> {
        self.say(Who::Store, || format!("trouble: {wrong:?}"));
        match wrong {
            Wrong::Crash { node, for_us } => self.crash(node, for_us),
            Wrong::Die { node, polls } => self.nodes[node].dies_after = Some(polls),
            Wrong::Pause { node, for_us } => {
                let until_us = &mut self.nodes[node].paused_until_us;
                *until_us = (*until_us).max(self.now_us + for_us);
                self.judge.stood.still(node, self.now_us, *until_us);
            }
            Wrong::Stall { node, reads, for_us } => self.nodes[node].host.stall(reads, for_us),
            Wrong::EndRuntime { node, runtime } => {
                let executor = self.nodes[node].executor(runtime);
                self.judge.runtimes.ended(node, executor, self.now_us);
                let struck = self.nodes[node].end_runtime(runtime);
                if struck.has_tasks {
                    self.rare.saw(Rare::RuntimeEnded);
                }
                if struck.is_outlived {
                    self.rare.saw(Rare::Outlived);
                }
                struck.jobs.into_iter().for_each(|job| self.dropped(node, job));
                return self.poll(node);
            }
            Wrong::BlockRuntime { node, runtime, for_us } => {
                self.judge.stood.still(node, self.now_us, self.now_us + for_us);
                let executor = self.nodes[node].executor(runtime);
                self.judge.runtimes.blocked(node, executor, self.now_us, self.now_us + for_us);
                let struck = self.nodes[node].block_runtime(runtime, self.now_us + for_us);
                if struck.has_tasks {
                    self.rare.saw(Rare::RuntimeBlocked);
                }
                if struck.is_outlived {
                    self.rare.saw(Rare::LeftBlocked);
                }
                struck.jobs.into_iter().for_each(|job| self.judge.holders.blocks(job));
                return self.poll(node);
            }
            Wrong::Break { node } => {
                self.subscribed.retain(|(_, of, _)| *of != node);
                self.break_connections(node);
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
            Wrong::Failover { behind_us, old, for_us } => {
                self.rare.saw(Rare::Failover);
                self.servers.iter_mut().for_each(Servers::fail_over);
                self.keys.fail_over(self.now_us.saturating_sub(behind_us), old);
                self.judge.accounts.failed_over();
                self.shake(self.now_us + for_us);
                self.queue.push(self.now_us + for_us, Event::OldEnds);
                return self.break_all(old);
            }
            Wrong::Evict { key } => {
                self.rare.saw(Rare::Evicted);
                self.keys.evict(key, self.now_us);
                self.shake(self.now_us);
            }
            Wrong::Clock { by_us } => {
                self.rare.saw(if by_us < 0 { Rare::ClockBack } else { Rare::ClockAhead });
                self.keys.set_clock(by_us);
                self.shake(self.now_us);
            }
        }
        Ok(())
    }

    /// Grants that begin before then may be lost, or end early.
    fn shake(&mut self, until_us: u64) {
        if !self.planted.excuses_nothing {
            self.judge.shaken(until_us);
        }
    }

    fn break_connections(&mut self, node: usize) {
        self.servers.iter_mut().for_each(|servers| servers.break_connections(node));
        let Node { host, connected_us, .. } = &self.nodes[node];
        if host.break_connections(*connected_us > self.now_us) {
            self.judge.waits.polls(self.now_us);
        }
    }

    /// The connections of all nodes break, except those of the first `but` nodes.
    fn break_all(&mut self, but: usize) -> Result<(), Fault> {
        self.subscribed.retain(|(_, node, _)| *node < but);
        (but..self.nodes.len()).try_for_each(|node| {
            self.break_connections(node);
            self.poll(node)
        })
    }

    pub(super) fn end_old(&mut self) -> Result<(), Fault> {
        let is_split = (0..self.nodes.len()).any(|node| self.keys.is_old(node));
        self.keys.end_old();
        if is_split { self.break_all(0) } else { Ok(()) }
    }

    /// Ends a process, and begins another one.
    pub(super) fn crash(&mut self, node: usize, for_us: u64) {
        if self.nodes[node].is_busy() {
            self.rare.saw(Rare::Crash);
        }
        self.judge.accounts.died((node, self.nodes[node].life), self.now_us);
        let host = self.host(node, self.nodes[node].life + 1);
        self.lives[node] = Life::new(&self.plan, &host);
        // A job that was to begin while the process stood still begins in its next life.
        let has_begun = |job: &usize| self.nodes[node].has_begun(*job);
        (0..self.plan.jobs()).filter(has_begun).for_each(|job| self.judge.waits.ends(job));
        self.open.retain(|job| !has_begun(job));
        self.nodes[node].crash(host, self.now_us + for_us);
        self.queue.push(self.now_us + for_us, Event::Up { node });
    }
}
