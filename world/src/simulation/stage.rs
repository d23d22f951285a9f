//! All of a world but its clients: the time, the network, the store, and those who look on.

use lockage_core::Timestamp;

use super::check::{Carried, Checks, Property, Violation};
use super::coverage::Coverage;
use super::draw::Draw;
use super::events::Queue;
use super::history::Copied;
use super::log::{Log, Who};
use super::message::{Answer, Ask, Attempt, Request};
use super::node::Node;
use super::scenario::{Machine, Message, Scenario, Trouble};
use super::server::Server;

/// What happens at some time.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A job's time has come.
    Job(usize),
    /// Trouble of this index begins.
    Trouble(usize),
    /// A request arrives at the store.
    Request(Request),
    /// An answer arrives at a client.
    Answer(Attempt, Answer),
    /// A client wanted to be woken, in this of its lives.
    Wake { client: usize, life: u32, alarm: Alarm },
    /// A client is back.
    Restart { client: usize },
}

/// What a client is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// An attempt has had its time.
    Patience { call: u32, attempt: u32 },
    /// A call is to be attempted again.
    Again { call: u32, attempt: u32 },
    /// Leases are to be looked after.
    Renewals,
    /// What the client rests from is over; stale unless of the latest rest.
    Rested { number: u32 },
}

pub(super) struct Stage<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) now_us: u64,
    pub(super) queue: Queue<Event>,
    pub(super) checks: Checks,
    pub(super) log: Log,
    pub(super) node: Node<'s>,
    /// Of each key.
    machines: Vec<Machine>,
    /// How many messages each client has sent or was sent.
    sent: Vec<u32>,
    /// With this, the messages to which something happens, in that order.
    pub(super) messages: Option<Vec<Message>>,
    /// With this, all requests; nothing is judged then.
    pub(super) history: Option<Vec<Copied>>,
    /// When something was carried out last, and on which key.
    latest: (u64, usize),
    /// Until when each client's requests, and the answers to it, do not arrive.
    cuts: Vec<(u64, u64)>,
}

impl<'s> Stage<'s> {
    pub(super) fn new(scenario: &'s Scenario, server: &'s mut dyn Server, log: Log) -> Self {
        let fails_over =
            |trouble| matches!(trouble, Trouble::Failover { .. } | Trouble::Split { .. });
        let is_replicated = scenario.faults.iter().any(|fault| fails_over(fault.trouble));
        let machines = scenario.machines();
        Stage {
            scenario,
            now_us: 0,
            queue: Queue::new(),
            checks: Checks::new(scenario),
            log,
            node: Node::new(server, machines.len(), scenario.store_ppm, is_replicated),
            machines,
            sent: vec![0; scenario.clients()],
            messages: None,
            history: None,
            latest: (0, 0),
            cuts: vec![(0, 0); scenario.clients()],
        }
    }

    pub(super) fn machine(&self, key: usize) -> Machine {
        self.machines[key]
    }

    pub(super) fn send(&mut self, request: Request, draw: &mut Draw) {
        let network = self.scenario.network;
        let is_well = self.now_us >= self.scenario.heal_us;
        let client = request.from.client;
        self.log.say(self.now_us, Who::Client(client), || {
            let which = match request {
                _ if request.with_script => ", with its script",
                _ if request.from.number > 1 => ", again",
                _ => "",
            };
            format!("sends: {}{which}", request.ask.words())
        });
        let (message, is_spared) = self.message(client);
        let is_cut = self.now_us < self.cuts[client].0;
        let is_lost = !is_well && !is_cut && draw.chance(network.lost_requests);
        if is_lost {
            self.happened_to(message);
        }
        if !is_well && is_cut || is_lost && !is_spared {
            self.checks.rare.saw(Coverage::LostRequest);
            self.log.say(self.now_us, Who::Client(client), || "its request is lost".to_owned());
            self.copy(request);
            return;
        }
        self.push_request(request.clone(), message, draw);
        if !is_well && draw.chance(network.doubled) {
            self.happened_to(message);
            if !is_spared {
                self.push_request(request, message, draw);
            }
        }
    }

    fn push_request(&mut self, request: Request, message: Message, draw: &mut Draw) {
        let arrives_us = self.arrival(message, Some(&request), draw);
        let request = self.copy(request);
        self.queue.push(arrives_us, Event::Request(request));
    }

    /// The next message of a client, and whether nothing is to happen to it.
    fn message(&mut self, client: usize) -> (Message, bool) {
        self.sent[client] += 1;
        let message = Message { client, number: self.sent[client] };
        (message, self.scenario.spared.contains(&message))
    }

    /// What does not happen to a message that is spared.
    fn happened_to(&mut self, message: Message) {
        if let Some(messages) = &mut self.messages
            && messages.last() != Some(&message)
        {
            messages.push(message);
        }
    }

    /// A request as histories have it.
    fn copy(&mut self, mut request: Request) -> Request {
        let Some(history) = &mut self.history else { return request };
        request.from.copy = history.len();
        history.push(Copied {
            request: request.clone(),
            sent_us: self.now_us,
            now: self.node.now(self.now_us),
            outcome: None,
            told_us: None,
        });
        request
    }

    /// An answer arrives.
    pub(super) fn told(&mut self, from: Attempt) {
        if let Some(history) = &mut self.history {
            history[from.copy].told_us = Some(self.now_us);
        }
    }

    /// A request arrives at the store, is carried out where that is possible, and answered.
    pub(super) fn receive(&mut self, request: Request, draw: &mut Draw) -> Result<(), Violation> {
        if self.node.is_old(request.from.client, self.now_us) {
            return self.receive_at_old(request, draw);
        }
        if self.node.is_away(self.now_us) {
            self.checks.rare.saw(Coverage::StoreAway);
            // There may be nobody left to say so.
            if draw.chance(500) {
                self.reply(request, Answer::NotDone, draw);
            }
            return Ok(());
        }
        if !self.node.knows(request.key, request.ask.script(), request.with_script) {
            self.checks.rare.saw(Coverage::NoScript);
            self.reply(request, Answer::NoScript, draw);
            return Ok(());
        }
        let answer = self.carry_out(&request)?;
        self.reply(request, answer, draw);
        Ok(())
    }

    /// The old primary answers, as if nothing had happened.
    fn receive_at_old(&mut self, request: Request, draw: &mut Draw) -> Result<(), Violation> {
        self.checks.rare.saw(Coverage::OldPrimary);
        self.log.say(self.now_us, Who::Store, || "the old primary:".to_owned());
        self.node.swap(&mut self.checks.truths);
        self.checks.is_old = true;
        let answer = self.carry_out(&request);
        self.checks.is_old = false;
        self.node.swap(&mut self.checks.truths);
        if let Some(truths) = self.node.old_truths() {
            self.checks.compare(truths);
        }
        self.reply(request, answer?, draw);
        Ok(())
    }

    fn carry_out(&mut self, request: &Request) -> Result<Answer, Violation> {
        let (key, ask) = (request.key, &request.ask);
        let now = self.node.now(self.now_us);
        if self.node.is_back(self.now_us) {
            self.checks.rare.saw(Coverage::ClockBack);
        }
        if self.latest.0 == self.now_us && self.latest.1 != key {
            self.checks.rare.saw(Coverage::KeysAtOnce);
        }
        self.latest = (self.now_us, key);
        let was_held = self.node.server.is_held(key, now);
        let was_beside =
            ask.beside().is_some_and(|id| self.node.server.is_held_beside(key, id, now));
        let before = ask.only_asks().then(|| self.node.server.held(key));
        let beside = self.node.held_beside(key);
        let answer = self.ask_server(key, ask, now).map_err(|error| {
            Property::D12.broken(format!("{} gave the error: {error}", ask.words()))
        })?;
        self.log.say(self.now_us, Who::Store, || {
            let which = if key > 0 { format!(" on key {key}") } else { String::new() };
            format!("{}{which}: {}", ask.words(), answer.words())
        });
        if let Some(history) = &mut self.history {
            let copied = &mut history[request.from.copy];
            copied.now = now;
            if let Answer::Done(outcome) = &answer {
                copied.outcome = Some(outcome.clone());
            }
            return Ok(answer);
        }
        if beside != self.node.held_beside(key) {
            let what = format!("{} on key {key} has changed another key", ask.words());
            return Err(Property::D12.broken(what));
        }
        let is_same = before.is_none_or(|before| match was_held {
            true => before == self.node.server.held(key),
            false => !self.node.server.is_held(key, now),
        });
        if !is_same {
            let what = format!("{} has changed what is stored", ask.words());
            return Err(Property::D5.broken(what));
        }
        let from = request.from;
        let carried = Carried { key, from, at_us: self.now_us, now, was_held, was_beside };
        self.checks.carried_out(ask, &answer, &carried)?;
        if !self.checks.is_old {
            self.node.replicate(key, self.now_us, &self.checks.truths[key]);
        }
        Ok(answer)
    }

    fn ask_server(&mut self, key: usize, ask: &Ask, now: Timestamp) -> Result<Answer, String> {
        let operation = ask.operation(&self.machines[key]);
        let operation = operation.ok_or("this key has no such machine")?;
        self.node.server.run(key, &operation, now).map(Answer::Done)
    }

    fn reply(&mut self, request: Request, answer: Answer, draw: &mut Draw) {
        let is_well = self.now_us >= self.scenario.heal_us;
        let (message, is_spared) = self.message(request.from.client);
        let is_cut = self.now_us < self.cuts[request.from.client].1;
        let is_lost = !is_well && !is_cut && draw.chance(self.scenario.network.lost_replies);
        if is_lost {
            self.happened_to(message);
        }
        if !is_well && is_cut || is_lost && !is_spared {
            if answer.is_grant_of(&request.ask) {
                self.checks.rare.saw(Coverage::LostReplyOfAcquire);
            }
            if answer.is_list() {
                self.checks.rare.saw(Coverage::LostReplyOfList);
            }
            self.log.say(self.now_us, Who::Store, || "its reply is lost".to_owned());
            return;
        }
        let arrives_us = self.arrival(message, None, draw);
        self.queue.push(arrives_us, Event::Answer(request.from, answer));
    }

    /// When a message that is sent now arrives, which may be a request.
    fn arrival(&mut self, message: Message, request: Option<&Request>, draw: &mut Draw) -> u64 {
        let network = &self.scenario.network;
        let is_well = self.now_us >= self.scenario.heal_us;
        let most_us = match is_well {
            true => network.calm_most_us,
            false if draw.chance(network.late) => network.late_most_us,
            false => network.most_us,
        };
        let at_us = self.now_us + draw.between(network.least_us, most_us);
        let at_us = at_us.next_multiple_of(network.grain_us);
        let soonest_us = (self.now_us + network.least_us).next_multiple_of(network.grain_us);
        let at_us = match request {
            Some(request) if !is_well => {
                self.aimed(request, (soonest_us, self.now_us + most_us), draw).unwrap_or(at_us)
            }
            _ => at_us,
        };
        if at_us == soonest_us {
            return at_us;
        }
        self.happened_to(message);
        if self.scenario.spared.contains(&message) { soonest_us } else { at_us }
    }

    /// A client admits a request by permits that it took ahead.
    pub(super) fn spent_ahead(&mut self, client: usize, cost: u64) -> Result<(), Violation> {
        self.log.say(self.now_us, Who::Client(client), || {
            format!("spends {cost} of what it took ahead")
        });
        self.checks.rare.saw(Coverage::SpentAhead);
        if self.history.is_some() {
            return Ok(());
        }
        let now_us = self.node.clock_us(self.now_us);
        self.checks.ahead.spent(client, cost, self.now_us, now_us)
    }

    /// Trouble that is not a client's own.
    pub(super) fn trouble(&mut self, trouble: &Trouble) {
        let now_us = self.now_us;
        match *trouble {
            Trouble::StoreCrash { for_us } => {
                self.log.say(now_us, Who::Store, || format!("crashes, for {for_us} us"));
                self.node.crash(now_us + for_us);
            }
            Trouble::Failover { behind_us, clock_us, for_us } => {
                self.log.say(now_us, Who::Store, || {
                    format!("fails over to a replica that is {behind_us} us behind, whose clock is {clock_us} us ahead; back in {for_us} us")
                });
                self.node.end_split();
                let truths = self.node.fail_over(now_us.saturating_sub(behind_us));
                self.node.crash(now_us + for_us);
                self.node.step_clock(clock_us);
                self.checks.failed_over(now_us, truths);
            }
            Trouble::Split { clients, behind_us, clock_us, for_us } => {
                self.log.say(now_us, Who::Store, || {
                    format!("a replica takes over that is {behind_us} us behind, whose clock is {clock_us} us ahead; the old primary goes on for {for_us} us, for clients below {clients}")
                });
                self.node.split(clients, now_us + for_us, &self.checks.truths);
                let truths = self.node.fail_over(now_us.saturating_sub(behind_us));
                self.node.step_clock(clock_us);
                self.checks.failed_over(now_us, truths);
                self.checks.split(clients, now_us + for_us);
            }
            Trouble::ClockStep { by_us } => {
                self.log.say(now_us, Who::Store, || format!("its clock is set by {by_us} us"));
                self.node.step_clock(by_us);
                self.checks.clock_stepped(now_us, by_us);
            }
            Trouble::CutRequests { client, for_us } => {
                self.log.say(now_us, Who::Client(client), || {
                    format!("cannot reach the store for {for_us} us")
                });
                self.cuts[client].0 = self.cuts[client].0.max(now_us + for_us);
            }
            Trouble::CutReplies { client, for_us } => {
                self.log.say(now_us, Who::Client(client), || {
                    format!("cannot be reached for {for_us} us")
                });
                self.cuts[client].1 = self.cuts[client].1.max(now_us + for_us);
            }
            Trouble::ClientCrash { .. } | Trouble::Pause { .. } => {}
        }
    }
}
