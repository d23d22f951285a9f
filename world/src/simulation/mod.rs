//! Clients, a network, a store and clocks in one deterministic simulation: from one seed a world, and in it
//! everything that can go wrong.
//!
//! A [`Scenario`] says what there is and what goes wrong, all of it drawn from one `u64`. [`run`] plays it in
//! virtual time, one event after the other; while it runs it is checked for every [`Property`]. From
//! [`Scenario::heal_us`] on nothing goes wrong any more, and everybody must be served. The same
//! scenario gives the same timeline, byte for byte.
//!
//! [`campaign`] runs many seeds; [`shrink()`] takes from a scenario that fails what is not needed for it.

mod aim;
pub mod campaign;
mod check;
mod client;
mod coverage;
mod draw;
mod events;
mod extras;
mod form;
mod history;
mod job;
mod limiter;
mod log;
mod message;
mod node;
mod nodes;
mod plan;
mod process;
mod scenario;
mod server;
mod shrink;
mod stage;
mod words;

pub(crate) use draw::Draw;
pub(crate) use events::Queue;
pub(crate) use log::Log;
pub(crate) use server::Slots;

pub use check::{PROPERTIES, Property, Violation};
pub use coverage::{Counts, Coverage};
pub use form::FormError;
pub use history::{Sent, history};
pub use job::{Adjustment, Flaw, Job, LIST, Setting, Spending, Work};
pub use log::{Line, Who};
pub use process::InProcess;
pub use scenario::{Beside, Fault, Limiter, Machine, Message, Network, Place, Scenario, Trouble};
pub use server::{Held, Model, Operation, Outcome as Ran, Scripts, Server, server};
pub use shrink::shrink;

use client::Client;
use stage::{Event, Stage};

/// What came of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What did not hold, if anything.
    pub violation: Option<Violation>,
    /// Which rare states it came to.
    pub rare: Counts,
    /// How many events there were.
    pub events: u64,
    /// What happened, if that was asked for.
    pub timeline: Vec<Line>,
}

/// Plays a scenario on a server, which is cleared first.
pub fn run(scenario: &Scenario, server: &mut dyn Server, with_timeline: bool) -> Outcome {
    let mut world = World::new(scenario, server, Log::new(with_timeline));
    let violation = world.play().err();
    Outcome {
        violation,
        rare: world.stage.checks.rare,
        events: world.events,
        timeline: world.stage.log.into_lines(),
    }
}

/// The messages of a scenario to which something happens, in that order.
fn troubled_messages(scenario: &Scenario, server: &mut dyn Server) -> Vec<Message> {
    let mut world = World::new(scenario, server, Log::new(false));
    world.stage.messages = Some(Vec::new());
    // What it comes to is known.
    let _ = world.play();
    world.stage.messages.unwrap_or_default()
}

struct World<'s> {
    stage: Stage<'s>,
    clients: Vec<Client>,
    /// Until then everybody has been served.
    patience_us: u64,
    events: u64,
}

impl<'s> World<'s> {
    fn new(scenario: &'s Scenario, server: &'s mut dyn Server, log: Log) -> Self {
        let keys = scenario.keys();
        let client =
            |(number, ppm): (usize, &i64)| Client::new(number, keys[number], *ppm, scenario.seed);
        let clients = scenario.client_ppm.iter().enumerate().map(client).collect();
        let patience_us = scenario.patience_us();
        World { stage: Stage::new(scenario, server, log), clients, patience_us, events: 0 }
    }

    fn play(&mut self) -> Result<(), Violation> {
        self.begin();
        while self.step()? {}
        Ok(())
    }

    /// Plays it to its end, whatever does not hold.
    fn play_on(&mut self) {
        self.begin();
        while self.step().unwrap_or(self.stage.now_us <= self.patience_us) {}
    }

    fn begin(&mut self) {
        let scenario = self.stage.scenario;
        for (index, job) in scenario.jobs.iter().enumerate() {
            self.stage.queue.push(job.at_us, Event::Job(index));
        }
        for (index, fault) in scenario.faults.iter().enumerate() {
            self.stage.queue.push(fault.at_us, Event::Trouble(index));
        }
    }

    /// Lets the next thing happen; tells whether anything is left to do.
    fn step(&mut self) -> Result<bool, Violation> {
        let scenario = self.stage.scenario;
        let Some((at_us, event)) = self.stage.queue.pop() else { return Ok(false) };
        self.stage.now_us = at_us;
        self.events += 1;
        let done = || self.clients.iter().map(|client| client.done);
        if done().sum::<usize>() == scenario.jobs.len() {
            return Ok(false);
        }
        if at_us > self.patience_us {
            let done: Vec<usize> = done().collect();
            return Err(scenario.starved(&done));
        }
        self.happen(event)?;
        Ok(true)
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        let stage = &mut self.stage;
        if let Some(until_us) = event
            .client(stage.scenario)
            .and_then(|client| self.clients[client].paused_until(stage.now_us))
        {
            stage.queue.push(until_us, event);
            return Ok(());
        }
        match event {
            Event::Job(index) => {
                let job = stage.scenario.jobs[index];
                self.clients[job.client].job(job, stage)
            }
            Event::Request(request) => {
                let draw = self.clients[request.from.client].draw();
                stage.receive(request, draw)
            }
            Event::Answer(attempt, answer) => {
                stage.told(attempt);
                self.clients[attempt.client].answered(attempt, answer, stage)
            }
            Event::Wake { client, life, alarm } => self.clients[client].wake(life, alarm, stage),
            Event::Restart { client } => self.clients[client].restart(stage),
            Event::Trouble(index) => {
                match stage.scenario.faults[index].trouble {
                    Trouble::ClientCrash { client, for_us } => {
                        self.clients[client].crash(for_us, stage)
                    }
                    Trouble::Pause { client, for_us } => self.clients[client].pause(for_us, stage),
                    trouble => stage.trouble(&trouble),
                }
                Ok(())
            }
        }
    }
}

impl Event {
    /// Which client takes notice of it, if it does not stand still.
    fn client(&self, scenario: &Scenario) -> Option<usize> {
        match self {
            Event::Job(index) => Some(scenario.jobs[*index].client),
            Event::Answer(attempt, _) => Some(attempt.client),
            Event::Wake { client, .. } => Some(*client),
            Event::Request(_) | Event::Trouble(_) | Event::Restart { .. } => None,
        }
    }
}
