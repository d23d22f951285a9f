//! The output of a node's step: its messages go out, and its reports are judged.

use super::events::{Done, Event, From};
use super::host::Out;
use super::judge::{Fault, Seen, Times};
use super::log::Who;
use super::now::Now;
use super::play::World;
use super::rare::Rare;

impl World<'_> {
    /// Sends the messages of a step and judges its reports; the node then dies, if it did.
    pub(super) fn came_out(&mut self, node: usize, done: Done) -> Result<(), Fault> {
        let life = self.nodes[node].life;
        if let Some(servers) = &self.servers {
            servers.calls.take()?.into_iter().for_each(|rare| self.rare.saw(rare));
        }
        let mut sends = false;
        for mut out in done.out {
            // Between these two a task does nothing but call.
            match &mut out {
                Out::Saw { seen: Seen::Calls, .. } => sends = false,
                Out::Saw { seen: Seen::Called { is_sent, .. }, .. } => *is_sent = sends,
                Out::Request { .. } | Out::RequestAll { .. } | Out::Called { .. } => sends = true,
                _ => {}
            }
            match out {
                Out::Request { call, server, key, command } => {
                    self.say(Who::Client(node), || format!("sends: {command:?} on {key}"));
                    let (from, sent_us) = (From { node, life, call }, self.now_us);
                    self.send(Event::Request { from, sent_us, server, key, command });
                }
                Out::RequestAll { call, keys, command } => {
                    self.say(Who::Client(node), || format!("sends: {command:?} on {keys:?}"));
                    let (from, sent_us) = (From { node, life, call }, self.now_us);
                    self.send(Event::RequestAll { from, sent_us, keys, command });
                }
                Out::Subscribe { call, channel, connects } => {
                    if connects {
                        let connect_us = self.plan.network.connect_us;
                        self.nodes[node].connected_us = self.now_us + connect_us;
                    }
                    let from = From { node, life, call };
                    self.send(Event::Subscribe { from, channel });
                }
                Out::Sent(sent) => {
                    self.say(Who::Client(node), || format!("sends: {sent}"));
                    let from = From { node, life, call: sent.number };
                    self.send(Event::Sent { from, sent_us: self.now_us, sent });
                }
                Out::Called { .. } => {}
                Out::Unsubscribe { number, channel } => {
                    self.unsubscribed.insert((channel, node, life), number);
                }
                Out::Saw { seen, polled_us, executor } => {
                    self.saw(node, seen, (polled_us, executor))?;
                }
            }
        }
        for job in done.dropped {
            self.say(Who::Client(node), || format!("job {job} is dropped"));
            self.dropped(node, job);
        }
        if done.dies {
            self.rare.saw(Rare::DiedInStep);
            self.crash(node, self.plan.timeout_us);
        }
        Ok(())
    }

    /// The future of a job was dropped.
    pub(super) fn dropped(&mut self, node: usize, job: usize) {
        self.rare.saw(Rare::Dropped);
        if self.lives[node].is_coalescing() {
            self.rare.saw(Rare::LeftSharedCall);
        }
        self.open.remove(&job);
        self.judge.cancelled(job, self.now_us);
    }

    fn saw(
        &mut self,
        node: usize,
        seen: Seen,
        (polled_us, executor): (u64, Option<u64>),
    ) -> Result<(), Fault> {
        self.say(Who::Client(node), || format!("{seen:?}"));
        match &seen {
            Seen::Ended { job } => _ = self.open.remove(job),
            Seen::WaitsNoLonger { .. } => self.judge.waits.idle(self.now_us, &self.judge.exempt)?,
            _ => {}
        }
        self.rare.saw_all(&seen);
        let store = Now::new(&self.keys, self.now_us);
        let times = Times { polled_us, now_us: self.now_us, executor };
        self.judge.saw((node, self.nodes[node].life), seen, times, &store)?;
        self.judge.is_given_back(&store, self.now_us)
    }
}
