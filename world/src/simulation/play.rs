//! Plays a plan, one event after the other.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use lockage_sim::store::SimStore;

use super::draw::Draw;
use super::events::{Done, Queue};
use super::host::Host;
use super::jobs::{IDS, Life};
use super::judge::{Exemptions, Fault, Judge, Kind, fault};
use super::log::{Line, Log, Who};
use super::node::{Node, Rest};
use super::plan::{Plan, SERVERS, Wrong};
use super::rare::{Counts, Rare};
use super::servers::Servers;
use super::stage::Planted;
use super::store::Keys;

pub(super) use super::events::{Event, From};

/// The result of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The fault, if there was one.
    pub violation: Option<Fault>,
    /// The number of events.
    pub events: u64,
    /// How often it reached each rare state.
    pub rare: Counts,
    /// The number of unjudged cases, by reason.
    pub exempt: Exemptions,
    /// The events, if requested.
    pub timeline: Vec<Line>,
}

/// Once all is well, releases are repeated after at most a second; then nothing is left to do.
const QUIET_US: u64 = 8_000_000;

/// No job takes this long once all is well, in addition to the time in which its limit admits all
/// requests.
const PATIENCE_US: u64 = 120_000_000;

/// No world has this many events, unless something in it goes on for ever.
const MOST_EVENTS: u64 = 100_000;

pub(super) struct World<'p> {
    pub(super) plan: Arc<Plan>,
    pub(super) now_us: u64,
    pub(super) queue: Queue<Event>,
    pub(super) nodes: Vec<Node>,
    pub(super) lives: Vec<Life<Host>>,
    pub(super) keys: Keys<'p>,
    /// The subscriptions: each with its channel, its node and its life.
    pub(super) subscribed: BTreeSet<(String, usize, u32)>,
    /// The servers of the shipped store, if it replaces the simulated one.
    pub(super) servers: Option<Servers>,
    /// The ended subscriptions, and the number in their life of the call that ended each. A message
    /// published then reaches no subscriber.
    pub(super) unsubscribed: BTreeMap<(String, usize, u32), u64>,
    /// Until when each server is unreachable.
    pub(super) away_until_us: [u64; SERVERS],
    pub(super) open: BTreeSet<usize>,
    pub(super) is_probed: bool,
    /// The time by which every job has ended.
    patience_us: u64,
    pub(super) judge: Judge,
    pub(super) rare: Counts,
    /// When each node sent its last arrived release, for each key of locks.
    pub(super) released: BTreeMap<(usize, String), u64>,
    /// When something ends in the store.
    pub(super) ends_us: BTreeSet<u64>,
    pub(super) draw: Draw,
    pub(super) planted: Planted,
    log: Log,
}

/// Plays a plan on the machines, and on the scripts too if there are any.
pub(super) fn run(
    plan: &Plan,
    scripts: Option<&mut SimStore>,
    planted: Planted,
    with_timeline: bool,
) -> Outcome {
    let mut world = World::new(plan, scripts, planted, Log::new(with_timeline));
    let mut events = 0;
    let played = catch_unwind(AssertUnwindSafe(|| world.play(&mut events)));
    let violation = played.unwrap_or_else(|cause| fault(Kind::Panic, words(&*cause))).err();
    let timeline = std::mem::replace(&mut world.log, Log::new(false)).into_lines();
    let rare = std::mem::take(&mut world.rare);
    lockage_redis::simulate_time(None);
    let exempt = std::mem::take(&mut world.judge.exempt);
    if violation.is_some() {
        // Its destructors may panic too.
        _ = catch_unwind(AssertUnwindSafe(|| drop(world)));
    }
    Outcome { violation, events, rare, exempt, timeline }
}

fn words(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or(cause.downcast_ref().copied()).unwrap_or("it panicked").to_owned()
}

impl<'p> World<'p> {
    fn new(plan: &Plan, scripts: Option<&'p mut SimStore>, planted: Planted, log: Log) -> Self {
        let mut world = World {
            now_us: 0,
            queue: Queue::new(),
            nodes: Vec::new(),
            lives: Vec::new(),
            keys: Keys::new(plan, scripts, planted),
            subscribed: BTreeSet::new(),
            servers: Servers::new(plan),
            unsubscribed: BTreeMap::new(),
            away_until_us: [0; SERVERS],
            open: (0..plan.jobs.len()).collect(),
            is_probed: false,
            patience_us: plan.freed_us()
                + plan.unpolled_us()
                + plan.demand_us()
                + plan.turns_us()
                + plan.pauses_us()
                + PATIENCE_US,
            judge: Judge::new(plan),
            rare: Counts::default(),
            released: BTreeMap::new(),
            ends_us: BTreeSet::new(),
            draw: Draw::new(plan.seed, 2),
            plan: Arc::new(plan.clone()),
            planted,
            log,
        };
        for node in 0..plan.ppm.len() {
            let host = world.host(node, 0);
            world.lives.push(Life::new(&world.plan, &host));
            world.nodes.push(Node::new(host, Draw::new(plan.seed, 100 + node as u64)));
        }
        for (index, job) in plan.jobs.iter().enumerate() {
            world.queue.push(job.at_us, Event::Job(index));
        }
        for (index, trouble) in plan.troubles.iter().enumerate() {
            world.queue.push(trouble.at_us, Event::Trouble(index));
        }
        if let Some(at_us) = plan.link.and_then(|link| link.sweep_us) {
            for node in 0..plan.ppm.len() {
                world.queue.push(at_us, Event::Sweep { node, is_well: false });
            }
            world.queue.push(plan.sure_us(), Event::Sweep { node: 0, is_well: true });
        }
        world
    }

    pub(super) fn host(&self, node: usize, life: u32) -> Host {
        let (plan, stream) = (&self.plan, 1000 + node as u64 + (u64::from(life) << 20));
        let draw = Draw::new(plan.seed, stream);
        let linked = self.servers.as_ref().zip(plan.link);
        let linked = linked.map(|(servers, link)| (link, &servers.calls, (node, life)));
        let ppm = plan.ppm[node] - self.planted.slower_ppm;
        Host::new(ppm, plan.options.batches, draw, self.now_us, linked)
    }

    fn play(&mut self, events: &mut u64) -> Result<(), Fault> {
        while let Some((at_us, event)) = self.queue.pop() {
            self.now_us = at_us;
            *events += 1;
            if *events > MOST_EVENTS {
                return fault(
                    Kind::Endless,
                    format!("jobs {:?} are open after {events} events", self.open),
                );
            }
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

    /// Returns the node that handles an event, if it runs.
    fn node_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Job(index) => Some(self.plan.jobs[*index].node),
            Event::Answer { to, .. } => Some(to.node),
            Event::Published { node, .. }
            | Event::Pushed { node, .. }
            | Event::Closed { node, .. }
            | Event::Sweep { node, .. }
            | Event::Timer { node }
            | Event::Up { node } => Some(*node),
            Event::Probe => Some(0),
            // A process drops futures only while it runs.
            Event::Trouble(index) => match self.plan.troubles[*index].what {
                Wrong::Cancel { job } => Some(self.plan.jobs[job].node),
                Wrong::EndRuntime { node, .. } => Some(node),
                _ => None,
            },
            Event::OldEnds
            | Event::SlotMoves { .. }
            | Event::Request { .. }
            | Event::RequestAll { .. }
            | Event::Sent { .. }
            | Event::Subscribe { .. }
            | Event::Out { .. } => None,
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), Fault> {
        let Some(node) = self.node_of(&event) else {
            return match event {
                Event::Request { from, sent_us, server, key, command } => {
                    self.watch(from, sent_us, &key, &command);
                    self.request((from, sent_us), server, key, &command)
                }
                Event::RequestAll { from, sent_us, keys, command } => {
                    self.request_all((from, sent_us), keys, command)
                }
                Event::Sent { from, sent_us, sent } => self.receive(from, sent_us, sent),
                Event::Subscribe { from, channel } => {
                    self.subscribe(from, channel);
                    Ok(())
                }
                Event::Trouble(index) => self.trouble(self.plan.troubles[index].what),
                Event::OldEnds => self.end_old(),
                Event::SlotMoves { tag } => {
                    self.step_slot(&tag);
                    Ok(())
                }
                // The message was sent, whatever has become of the process.
                Event::Out { node, life, done } if self.nodes[node].life == life => {
                    self.set_timer(node, self.now_us);
                    self.came_out(node, done)
                }
                _ => Ok(()),
            };
        };
        let until_us = self.nodes[node].away_until_us();
        let is_timer = matches!(event, Event::Timer { .. });
        if is_timer && self.nodes[node].timer_us != Some(self.now_us) {
            return Ok(());
        }
        if is_timer {
            self.nodes[node].timer_us = None;
        }
        if until_us > self.now_us {
            match is_timer {
                true => self.set_timer(node, until_us),
                false => self.queue.push(until_us, event),
            }
            return Ok(());
        }
        let now_us = self.now_us;
        let Node { host, life: now_life, .. } = &self.nodes[node];
        host.set_now(now_us);
        match event {
            Event::Job(index) => {
                let job = self.plan.jobs[index];
                self.say(Who::Client(node), || format!("begins job {index}: {:?}", job.work));
                let task = Box::pin(self.lives[node].clone().run(index, job.work));
                self.nodes[node].start_job(index, &job, task);
            }
            Event::Trouble(index) => return self.trouble(self.plan.troubles[index].what),
            Event::Probe => {
                let job = self.plan.jobs.len();
                let task = Box::pin(self.lives[node].clone().probe(job));
                self.nodes[node].start_task(task);
            }
            Event::Answer { to: From { life, call, .. }, answer } if life == *now_life => {
                host.answer(call, answer);
            }
            Event::Published { life, channel, message, .. } if life == *now_life => {
                message.into_iter().for_each(|message| host.published(&channel, &message));
            }
            Event::Pushed { life, socket, channel, message, .. } if life == *now_life => {
                host.pushed(socket, &channel, message.as_deref());
            }
            Event::Closed { life, socket, .. } if life == *now_life => host.closed(socket),
            Event::Sweep { is_well, .. } => {
                let timeout = Duration::from_micros(self.plan.timeout_us);
                // Long enough to be sure that no call is answered.
                let (rounds, every) = if is_well { (8, 4 * timeout) } else { (3, Duration::ZERO) };
                let task = host.clone().sweep(timeout, rounds, every.max(timeout / 100));
                self.nodes[node].start_task(Box::pin(task));
            }
            _ => {}
        }
        self.poll(node)
    }

    /// Lets a node run unless it is away, and takes its output.
    pub(super) fn poll(&mut self, node: usize) -> Result<(), Fault> {
        if self.nodes[node].away_until_us() > self.now_us {
            return Ok(());
        }
        self.nodes[node].host.set_now(self.now_us);
        if self.is_well() {
            self.nodes[node].dies_after = None;
        }
        let rest = self.nodes[node].poll();
        if rest == Rest::Never {
            return fault(Kind::Endless, format!("tasks of node {node} wake themselves for ever"));
        }
        let (moved, stood) = self.nodes[node].take_moved();
        (0..moved).for_each(|_| self.rare.saw(Rare::Moved));
        stood.into_iter().for_each(|job| self.judge.holders.blocks(job));
        let (dropped, running) = (self.nodes[node].take_dropped(), &self.nodes[node]);
        let (out, life, stood_until_us) =
            (running.host.take_out(), running.life, running.host.stood_until_us());
        if rest == Rest::Quiet && self.plan.options.coalescing {
            self.is_prompt(node, &out, !dropped.is_empty())?;
        }
        let running = &mut self.nodes[node];
        let done = Done { out, dropped, dies: rest == Rest::Died };
        if stood_until_us > self.now_us {
            self.rare.saw(Rare::StoodStillInStep);
            running.paused_until_us = running.paused_until_us.max(stood_until_us);
            self.judge.stood.still(node, self.now_us, stood_until_us);
            // Whatever it does then comes after this.
            self.queue.push_first(stood_until_us, Event::Out { node, life, done });
            return Ok(());
        }
        let timer = running.host.next_timer().into_iter().chain(running.unblocked_us()).min();
        let dies = done.dies;
        self.came_out(node, done)?;
        if let Some(at_us) = timer.filter(|_| !dies) {
            self.set_timer(node, at_us.max(self.now_us));
        }
        Ok(())
    }

    /// Schedules a poll of a node at this time, unless one comes earlier.
    fn set_timer(&mut self, node: usize, at_us: u64) {
        let timer_us = &mut self.nodes[node].timer_us;
        if timer_us.is_none_or(|timer_us| at_us < timer_us) {
            *timer_us = Some(at_us);
            self.queue.push(at_us, Event::Timer { node });
        }
    }

    pub(super) fn is_well(&self) -> bool {
        self.now_us >= self.plan.heal_us
    }

    pub(super) fn say(&mut self, who: Who, what: impl FnOnce() -> String) {
        self.log.say(self.now_us, who, what);
    }
}

/// Returns the name of a key on one of the servers.
pub(super) fn on_server(server: usize, key: String) -> String {
    if server == 0 { key } else { format!("server{server}:{key}") }
}

pub(super) fn limiter_key(id: usize) -> String {
    format!("limiter:{{{}}}", IDS[id])
}
