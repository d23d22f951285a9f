//! Plays a plan: one event after the other.

use std::collections::BTreeSet;

use lockage::StoreError;
use lockage_core::{AnyCommand, Verdict};

use super::host::{Answer, Host, Out};
use super::jobs::{IDS, Life};
use super::judge::{Fault, Judge, Kind, Seen, fault};
use super::node::Node;
use super::plan::{Plan, Wrong};
use super::store::{Keys, store_time};
use crate::simulation::{Draw, Line, Log, Queue, Who};

/// What came of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What did not hold, if anything.
    pub violation: Option<Fault>,
    /// How many events there were.
    pub events: u64,
    /// What happened, if that was asked for.
    pub timeline: Vec<Line>,
}

/// Once all is well, releases are repeated after at most a second; then nothing is left to do.
const QUIET_US: u64 = 8_000_000;

/// No job takes so long once all is well.
const PATIENCE_US: u64 = 120_000_000;

enum Event {
    Job(usize),
    Trouble(usize),
    Request { from: From, key: String, command: AnyCommand },
    Subscribe { from: From, channel: String },
    Answer { to: From, answer: Answer },
    Published { node: usize, life: u32, channel: String, message: String },
    Timer { node: usize },
    Up { node: usize },
    Probe,
}

/// A call of one life of a node.
#[derive(Clone, Copy)]
struct From {
    node: usize,
    life: u32,
    call: u64,
}

struct World<'p> {
    plan: &'p Plan,
    now_us: u64,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    lives: Vec<Life<Host>>,
    keys: Keys,
    /// Who is subscribed to what.
    subscribed: BTreeSet<(String, usize, u32)>,
    away_until_us: u64,
    open: BTreeSet<usize>,
    is_probed: bool,
    /// Until then every job has ended.
    patience_us: u64,
    judge: Judge,
    draw: Draw,
    log: Log,
}

/// Plays a plan.
pub fn run(plan: &Plan, with_timeline: bool) -> Outcome {
    let mut world = World::new(plan, Log::new(with_timeline));
    let mut events = 0;
    let violation = world.play(&mut events).err();
    Outcome { violation, events, timeline: world.log.into_lines() }
}

impl<'p> World<'p> {
    fn new(plan: &'p Plan, log: Log) -> Self {
        let mut world = World {
            plan,
            now_us: 0,
            queue: Queue::new(),
            nodes: Vec::new(),
            lives: Vec::new(),
            keys: Keys::default(),
            subscribed: BTreeSet::new(),
            away_until_us: 0,
            open: (0..plan.jobs.len()).collect(),
            is_probed: false,
            patience_us: plan.freed_us() + PATIENCE_US,
            judge: Judge::new(plan),
            draw: Draw::new(plan.seed, 2),
            log,
        };
        for node in 0..plan.ppm.len() {
            let host = world.host(node, 0);
            world.lives.push(Life::new(plan, &host));
            world.nodes.push(Node::new(host, Draw::new(plan.seed, 100 + node as u64)));
        }
        for (index, job) in plan.jobs.iter().enumerate() {
            world.queue.push(job.at_us, Event::Job(index));
        }
        for (index, trouble) in plan.troubles.iter().enumerate() {
            world.queue.push(trouble.at_us, Event::Trouble(index));
        }
        world
    }

    fn host(&self, node: usize, life: u32) -> Host {
        let stream = 1000 + node as u64 + (u64::from(life) << 20);
        Host::new(self.plan.ppm[node], Draw::new(self.plan.seed, stream), self.now_us)
    }

    fn play(&mut self, events: &mut u64) -> Result<(), Fault> {
        while let Some((at_us, event)) = self.queue.pop() {
            self.now_us = at_us;
            *events += 1;
            if at_us > self.patience_us && !self.open.is_empty() {
                return fault(Kind::Starved, format!("jobs {:?} have not ended", self.open));
            }
            if self.open.is_empty() && self.is_probed {
                return Ok(());
            }
            self.happen(event)?;
            if self.open.is_empty() && !self.is_probed {
                self.is_probed = true;
                let at_us =
                    self.now_us.max(self.plan.freed_us()) + QUIET_US + 8 * self.plan.timeout_us;
                self.patience_us = at_us + PATIENCE_US;
                self.open.insert(self.plan.jobs.len());
                self.queue.push(at_us, Event::Probe);
            }
        }
        match self.open.is_empty() {
            true => Ok(()),
            false => fault(Kind::Starved, format!("jobs {:?} wait for nothing", self.open)),
        }
    }

    /// Which node takes notice of an event, if it runs.
    fn node_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Job(index) => Some(self.plan.jobs[*index].node),
            Event::Answer { to, .. } => Some(to.node),
            Event::Published { node, .. } | Event::Timer { node } | Event::Up { node } => {
                Some(*node)
            }
            Event::Probe => Some(0),
            Event::Trouble(_) | Event::Request { .. } | Event::Subscribe { .. } => None,
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), Fault> {
        let node = self.node_of(&event);
        if let Some(node) = node {
            let Node { paused_until_us, down_until_us, .. } = self.nodes[node];
            let until_us = paused_until_us.max(down_until_us);
            if until_us > self.now_us {
                self.queue.push(until_us, event);
                return Ok(());
            }
            self.nodes[node].host.set_now(self.now_us);
        }
        match event {
            Event::Job(index) => {
                let work = self.plan.jobs[index].work;
                self.say(Who::Client(node.unwrap_or_default()), || {
                    format!("begins job {index}: {work:?}")
                });
                self.start(index, |life| Box::pin(life.run(index, work)));
            }
            Event::Probe => {
                let job = self.plan.jobs.len();
                self.start_on(0, job, |life| Box::pin(life.probe(job)));
            }
            Event::Answer { to: From { node, life, call }, answer }
                if self.nodes[node].life == life =>
            {
                self.nodes[node].host.answer(call, answer);
            }
            Event::Published { node, life, channel, message } if self.nodes[node].life == life => {
                self.nodes[node].host.published(&channel, &message);
            }
            Event::Request { from, key, command } => self.request(from, &key, &command)?,
            Event::Subscribe { from, channel } => {
                if !self.is_away() {
                    self.subscribed.insert((channel, from.node, from.life));
                    self.reply(from, Ok(Box::new(())));
                }
            }
            Event::Trouble(index) => return self.trouble(self.plan.troubles[index].what),
            Event::Answer { .. }
            | Event::Published { .. }
            | Event::Timer { .. }
            | Event::Up { .. } => {}
        }
        node.map_or(Ok(()), |node| self.poll(node))
    }

    fn start(&mut self, job: usize, task: impl FnOnce(Life<Host>) -> super::host::Task) {
        self.start_on(self.plan.jobs[job].node, job, task);
    }

    fn start_on(
        &mut self,
        node: usize,
        job: usize,
        task: impl FnOnce(Life<Host>) -> super::host::Task,
    ) {
        let task = task(self.lives[node].clone());
        self.nodes[node].start(Some(job), task);
    }

    /// Lets a node run, and takes what comes of it.
    fn poll(&mut self, node: usize) -> Result<(), Fault> {
        self.nodes[node].poll();
        let life = self.nodes[node].life;
        for out in self.nodes[node].host.take_out() {
            match out {
                Out::Request { call, key, command } => {
                    self.say(Who::Client(node), || format!("sends: {command:?} on {key}"));
                    let from = From { node, life, call };
                    self.send(Event::Request { from, key, command });
                }
                Out::Subscribe { call, channel } => {
                    let from = From { node, life, call };
                    self.send(Event::Subscribe { from, channel });
                }
                Out::Saw(seen) => self.saw(node, seen)?,
            }
        }
        if let Some(at_us) = self.nodes[node].host.next_timer() {
            self.queue.push(at_us.max(self.now_us), Event::Timer { node });
        }
        Ok(())
    }

    fn saw(&mut self, node: usize, seen: Seen) -> Result<(), Fault> {
        self.say(Who::Client(node), || format!("{seen:?}"));
        if let Seen::Ended { job } = seen {
            self.open.remove(&job);
        }
        let (keys, limit, now) = (&self.keys, self.plan.limit, store_time(self.now_us));
        let would_deny = |id: usize, cost| {
            let verdict = keys.peek(&limiter_key(id), limit, cost, now).verdict;
            verdict != Verdict::Allowed
        };
        self.judge.saw(seen, self.now_us, would_deny)
    }

    fn is_well(&self) -> bool {
        self.now_us >= self.plan.heal_us
    }

    fn is_away(&self) -> bool {
        self.now_us < self.away_until_us
    }

    /// Sends a message, which may be lost or late.
    fn send(&mut self, event: Event) {
        let network = self.plan.network;
        // Chance is drawn for each, lost or not, so that what is left out changes little else.
        let (is_lost, is_late) = (self.draw.chance(network.lost), self.draw.chance(network.late));
        let takes_us = self.draw.between(network.least_us, network.most_us);
        let late_us = self.draw.between(0, 2 * self.plan.timeout_us);
        if is_lost && !self.is_well() {
            self.say(Who::Store, || "a message is lost".to_owned());
            return;
        }
        let late_us = if is_late && !self.is_well() { late_us } else { 0 };
        // Once all is well, an attempt has time for an answer.
        let most_us = if self.is_well() { self.plan.timeout_us / 16 } else { u64::MAX };
        self.queue.push(self.now_us + takes_us.min(most_us) + late_us, event);
    }

    fn reply(&mut self, to: From, answer: Answer) {
        self.send(Event::Answer { to, answer });
    }

    fn request(&mut self, from: From, key: &str, command: &AnyCommand) -> Result<(), Fault> {
        if self.is_away() {
            // There may be nobody left to say so.
            if self.draw.chance(500) {
                self.reply(from, Err(StoreError::NotDone("the store is away".into())));
            }
            return Ok(());
        }
        let now = store_time(self.now_us);
        let id = (0..IDS.len()).find(|id| limiter_key(*id) == key);
        let left = |keys: &Keys| id.map(|_| keys.peek(key, self.plan.limit, 0, now).remaining);
        let before = left(&self.keys);
        let (answer, message) = self.keys.run(key, command, now);
        self.say(Who::Store, || {
            format!("{command:?} on {key}: {}", if answer.is_ok() { "done" } else { "refused" })
        });
        if let (Some(id), Some(before), Some(after)) = (id, before, left(&self.keys))
            && before > after
        {
            self.judge.charged(id, before - after, self.now_us)?;
        }
        if let Some(message) = message {
            let listens = self.subscribed.iter().filter(|(channel, ..)| channel == key);
            let to: Vec<_> = listens.map(|(_, node, life)| (*node, *life)).collect();
            for (node, life) in to {
                let (channel, message) = (key.to_owned(), message.clone());
                self.send(Event::Published { node, life, channel, message });
            }
        }
        self.reply(from, answer);
        Ok(())
    }

    fn trouble(&mut self, wrong: Wrong) -> Result<(), Fault> {
        self.say(Who::Store, || format!("trouble: {wrong:?}"));
        match wrong {
            Wrong::Crash { node, for_us } => {
                let life = self.nodes[node].life + 1;
                let host = self.host(node, life);
                self.lives[node] = Life::new(self.plan, &host);
                self.nodes[node].crash(host, self.now_us + for_us);
                let plan = self.plan;
                let begun = |job: &usize| {
                    plan.jobs
                        .get(*job)
                        .is_some_and(|job| job.node == node && job.at_us <= self.now_us)
                };
                self.open.retain(|job| !begun(job));
                self.queue.push(self.now_us + for_us, Event::Up { node });
                Ok(())
            }
            Wrong::Pause { node, for_us } => {
                let until_us = &mut self.nodes[node].paused_until_us;
                *until_us = (*until_us).max(self.now_us + for_us);
                Ok(())
            }
            Wrong::Break { node } => {
                self.subscribed.retain(|(_, of, _)| *of != node);
                let Node { paused_until_us, down_until_us, .. } = self.nodes[node];
                self.nodes[node].host.break_connections();
                if paused_until_us.max(down_until_us) > self.now_us {
                    return Ok(());
                }
                self.nodes[node].host.set_now(self.now_us);
                self.poll(node)
            }
            Wrong::Away { for_us } => {
                self.away_until_us = self.away_until_us.max(self.now_us + for_us);
                Ok(())
            }
            Wrong::Cancel { job } => {
                let node = self.plan.jobs[job].node;
                if self.nodes[node].cancel(job) {
                    self.open.remove(&job);
                    self.judge.cancelled(job);
                }
                let Node { paused_until_us, down_until_us, .. } = self.nodes[node];
                if paused_until_us.max(down_until_us) > self.now_us {
                    return Ok(());
                }
                self.nodes[node].host.set_now(self.now_us);
                self.poll(node)
            }
        }
    }

    fn say(&mut self, who: Who, what: impl FnOnce() -> String) {
        self.log.say(self.now_us, who, what);
    }
}

fn limiter_key(id: usize) -> String {
    format!("limiter:{{{}}}", IDS[id])
}
