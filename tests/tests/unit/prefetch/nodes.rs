//! Nodes that take permits ahead, a store, and a way between them on which messages are late or lost, in one
//! virtual time. Each node has a list of all its requests, which says how much it may spend.

use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::flow::{Ask, Next, Prefetch, PrefetchConfig};
use lockage_core::{Acquire, Command, Limit, Record, Timestamp, Verdict};
use lockage_oracle::config::Config;
use lockage_oracle::envelope::check_prefetched;
use lockage_oracle::properties::{Check, require};
use lockage_oracle::subject::Failure;

/// The beginning, by the store's clock.
const START_US: u64 = 1_763_697_600_000_000;
/// The time without an answer after which a caller gives up.
const TIMEOUT_NS: u64 = 30_000;

/// The nodes and their configuration.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) permits: u64,
    pub(crate) lease_us: u64,
    /// The slowness of each node's clock, in millionths.
    pub(crate) slow_ppm: Vec<u64>,
}

/// The next event, and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The time after the step before.
    pub(crate) gap_ns: u64,
    pub(crate) node: usize,
    pub(crate) what: What,
    /// The time that its messages take.
    pub(crate) there_ns: u64,
    pub(crate) back_ns: u64,
    pub(crate) fate: Fate,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Request {
        cost: u64,
    },
    /// It begins anew, knowing nothing.
    Crash,
    /// It drops its held permits.
    Forget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    RequestLost,
    ReplyLost,
    /// The request comes a second time.
    Twice,
}

/// The defect of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Not,
    /// A lease runs from when the grant has come.
    LeaseFromArrival,
    /// A call without an answer counts as granted.
    LostIsGranted,
    /// Two callers of a node have a copy each of its held permits.
    HeldTwice,
}

impl Broken {
    pub(crate) const ALL: [Broken; 3] =
        [Broken::LeaseFromArrival, Broken::LostIsGranted, Broken::HeldTwice];
}

struct Node {
    held: Prefetch,
    /// The second copy of a broken node's permits.
    copy: Prefetch,
    life: u32,
    /// The requests for permits ahead in this life.
    asks: Vec<Asked>,
    waiting: Vec<(u64, Step)>,
}

/// One request for permits ahead.
struct Asked {
    ask: Ask,
    /// The time of the request, by the node's clock.
    sent: Duration,
    is_charged: bool,
    is_answered: bool,
    is_granted: bool,
    spent: u64,
    /// One that comes twice may be granted and denied, and the permits of its grant are then lost as well.
    is_doubled: bool,
}

impl Asked {
    /// Returns how much of it may be spent.
    fn left(&self, lease: Duration, now: Duration) -> u64 {
        let is_there = self.is_granted && self.sent + lease > now;
        if is_there { self.ask.ahead() - self.spent } else { 0 }
    }

    fn under_way(&self) -> u64 {
        if self.is_answered { 0 } else { self.ask.ahead() }
    }

    fn wasted(&self) -> u64 {
        if self.is_charged && !self.is_doubled { self.ask.ahead() - self.spent } else { 0 }
    }
}

impl Node {
    /// Spends the permits that end first.
    fn spend(&mut self, cost: u64, lease: Duration, now: Duration) {
        let mut cost = cost;
        for asked in &mut self.asks {
            let part = cost.min(asked.left(lease, now));
            asked.spent += part;
            cost -= part;
        }
    }

    /// Returns a call's request for permits ahead, unless the node has crashed since: then an equal one may be
    /// another's.
    fn of(&mut self, call: &Call) -> Option<&mut Asked> {
        let is_now = self.life == call.life;
        self.asks
            .iter_mut()
            .filter(|_| is_now)
            .find(|asked| asked.ask == call.ask && call.ask.ahead() > 0)
    }
}

#[derive(Clone, Copy)]
struct Call {
    node: usize,
    life: u32,
    cost: u64,
    ask: Ask,
    step: Step,
}

enum Event {
    Step(Step),
    Store(Call),
    Answer(Call, Verdict),
    GiveUp(Call),
}

/// All of it while it goes on.
pub(crate) struct World {
    setup: Setup,
    limit: Limit,
    prefetch: PrefetchConfig,
    broken: Broken,
    now_ns: u64,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    nodes: Vec<Node>,
    slot: Option<Record>,
    /// By the store's clock.
    pub(crate) admitted: Vec<(u64, u64)>,
    /// Requests that were admitted by held permits.
    pub(crate) spends: u64,
}

impl World {
    pub(crate) fn new(setup: Setup, broken: Broken) -> Self {
        let limit = setup.config.limit();
        let lease = Duration::from_micros(setup.lease_us);
        let prefetch = PrefetchConfig::new(&limit, setup.permits, lease).expect("in range");
        let node = |_: &u64| Node {
            held: Prefetch::new(),
            copy: Prefetch::new(),
            life: 0,
            asks: Vec::new(),
            waiting: Vec::new(),
        };
        World {
            nodes: setup.slow_ppm.iter().map(node).collect(),
            limit,
            prefetch,
            broken,
            setup,
            now_ns: 0,
            events: BTreeMap::new(),
            sequence: 0,
            slot: None,
            admitted: Vec::new(),
            spends: 0,
        }
    }

    /// Plays the steps to the end of all that they bring about, and judges it.
    pub(crate) fn play(&mut self, steps: &[Step]) -> Check {
        let mut at_ns = 0;
        for step in steps {
            at_ns += step.gap_ns;
            self.push(at_ns, Event::Step(*step));
        }
        while let Some(((at_ns, _), event)) = self.events.pop_first() {
            self.now_ns = at_ns;
            self.happen(event)?;
        }
        for node in 0..self.nodes.len() {
            self.wastes_little(node)?;
        }
        let ahead = self.setup.permits * self.nodes.len() as u64;
        check_prefetched(&self.setup.config, &self.admitted, ahead, self.longest_lease_us())
            .map_err(|excess| Failure::new(format!("E7: {excess:?}")))
    }

    /// Returns the longest lease by the store's clock.
    pub(crate) fn longest_lease_us(&self) -> u64 {
        let slowest = self.setup.slow_ppm.iter().max().copied().unwrap_or_default();
        (self.setup.lease_us * 1_000_000).div_ceil(1_000_000 - slowest)
    }

    fn push(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((at_ns, self.sequence), event);
    }

    fn happen(&mut self, event: Event) -> Check {
        match event {
            Event::Step(step) => match step.what {
                What::Request { cost } => self.request(cost, true, step),
                What::Crash => {
                    self.wastes_little(step.node)?;
                    let node = &mut self.nodes[step.node];
                    node.held = Prefetch::new();
                    node.life += 1;
                    node.asks.clear();
                    node.waiting.clear();
                    Ok(())
                }
                What::Forget => {
                    self.wastes_little(step.node)?;
                    let node = &mut self.nodes[step.node];
                    node.held.forget();
                    node.asks.clear();
                    Ok(())
                }
            },
            Event::Store(call) => self.decide(call),
            Event::Answer(call, verdict) => self.answered(call, verdict),
            Event::GiveUp(call) => self.gave_up(call),
        }
    }

    fn request(&mut self, cost: u64, may_wait: bool, step: Step) -> Check {
        let (now, prefetch) = (self.local(step.node), self.prefetch);
        let lease = prefetch.lease();
        let node = &mut self.nodes[step.node];
        let there: u64 = node.asks.iter().map(|asked| asked.left(lease, now)).sum();
        let under_way: u64 = node.asks.iter().map(|asked| asked.under_way()).sum();
        require(self.broken != Broken::Not || there + under_way <= self.setup.permits, || {
            format!("{there} held and {under_way} under way")
        })?;
        let is_copied = self.broken == Broken::HeldTwice && node.copy.spend(cost, now).is_some();
        if is_copied {
            self.admitted.push((START_US + self.now_ns / 1000, cost));
            return Ok(());
        }
        match node.held.next(&prefetch, cost, may_wait, now) {
            Next::Spent { left } => {
                require(
                    self.broken != Broken::Not || there.checked_sub(cost) == Some(left),
                    || format!("{cost} of {there} leave {left}"),
                )?;
                node.spend(cost, lease, now);
                self.spends += 1;
                self.admitted.push((self.store_us(), cost));
            }
            Next::Wait => {
                require(there < cost && under_way > 0, || format!("waits for {under_way}"))?;
                node.waiting.push((cost, step));
            }
            Next::Ask(ask) => {
                require(there < cost, || format!("{there} are held"))?;
                if ask.ahead() > 0 {
                    require(cost <= self.setup.permits, || format!("{cost} with {ask:?}"))?;
                    let (is_charged, is_answered, is_granted) = (false, false, false);
                    let (sent, is_doubled) = (now, step.fate == Fate::Twice);
                    node.asks.push(Asked {
                        ask,
                        sent,
                        is_charged,
                        is_answered,
                        is_granted,
                        spent: 0,
                        is_doubled,
                    });
                }
                let call = Call { node: step.node, life: node.life, cost, ask, step };
                self.send(call);
            }
        }
        Ok(())
    }

    fn send(&mut self, call: Call) {
        let arrives = self.now_ns + call.step.there_ns;
        if call.step.fate != Fate::RequestLost {
            self.push(arrives, Event::Store(call));
        }
        if call.step.fate == Fate::Twice {
            self.push(arrives + call.step.back_ns, Event::Store(call));
        }
        self.push(self.now_ns + TIMEOUT_NS, Event::GiveUp(call));
    }

    fn decide(&mut self, call: Call) -> Check {
        let whole = call.cost + call.ask.ahead();
        let now = Timestamp::from_micros(self.store_us()).expect("within the range");
        let command = Acquire::new(self.limit, whole).expect("above zero");
        let verdict = command.apply(&mut self.slot, now).expect("its own record").verdict;
        if verdict == Verdict::Allowed {
            self.admitted.push((self.store_us(), call.cost));
            let node = &mut self.nodes[call.node];
            if let Some(asked) = node.of(&call) {
                asked.is_charged = true;
            }
        }
        if call.step.fate != Fate::ReplyLost {
            self.push(self.now_ns + call.step.back_ns, Event::Answer(call, verdict));
        }
        Ok(())
    }

    fn answered(&mut self, call: Call, verdict: Verdict) -> Check {
        let (now, prefetch) = (self.local(call.node), self.prefetch);
        let node = &mut self.nodes[call.node];
        if node.life != call.life {
            return Ok(());
        }
        match verdict {
            Verdict::Allowed if self.broken == Broken::LeaseFromArrival => {
                node.held.forget();
                if let Next::Ask(now_asked) = node.held.next(&prefetch, 1, true, now) {
                    node.held.granted(&prefetch, &now_asked, now);
                }
            }
            Verdict::Allowed => {
                let granted = node.held.granted(&prefetch, &call.ask, now);
                node.copy = node.held.clone();
                if let Some(asked) = node.of(&call) {
                    let is_in_time = !asked.is_answered && asked.sent + prefetch.lease() > now;
                    asked.is_granted |= is_in_time;
                    let expected = if is_in_time { call.ask.ahead() } else { 0 };
                    require(granted == expected, || format!("{granted} of {expected}"))?;
                }
            }
            Verdict::Denied { retry_after, .. } => {
                node.held.denied(&prefetch, &call.ask, retry_after, now);
                if call.ask.ahead() > 0 {
                    // By itself, with nothing to bring along.
                    let Next::Ask(alone) = Prefetch::new().next(&prefetch, u64::MAX, false, now)
                    else {
                        unreachable!("more than is ever held")
                    };
                    self.send(Call { ask: alone, ..call });
                }
            }
            Verdict::Never => require(call.ask.ahead() == 0, || "never with ahead".into())?,
        }
        self.go_on(call)
    }

    fn gave_up(&mut self, call: Call) -> Check {
        let (now, prefetch) = (self.local(call.node), self.prefetch);
        let node = &mut self.nodes[call.node];
        if node.life != call.life {
            return Ok(());
        }
        match self.broken {
            Broken::LostIsGranted => {
                node.held.granted(&prefetch, &call.ask, now);
            }
            _ => node.held.lost(&prefetch, &call.ask, now),
        }
        self.go_on(call)
    }

    /// Lets callers that waited go on.
    fn go_on(&mut self, call: Call) -> Check {
        if let Some(asked) = self.nodes[call.node].of(&call) {
            asked.is_answered = true;
        }
        if call.ask.ahead() == 0 {
            return Ok(());
        }
        for (cost, step) in std::mem::take(&mut self.nodes[call.node].waiting) {
            self.request(cost, false, step)?;
        }
        Ok(())
    }

    /// Checks the waste within any span of a lease: the permits that were requested, charged and not spent.
    fn wastes_little(&self, node: usize) -> Check {
        let asks = &self.nodes[node].asks;
        for last in asks {
            let wasted = asks.iter().filter(|asked| {
                asked.sent <= last.sent && asked.sent + self.prefetch.lease() > last.sent
            });
            let wasted: u64 = wasted.map(Asked::wasted).sum();
            require(wasted <= self.setup.permits, || format!("{wasted} wasted in one lease"))?;
        }
        Ok(())
    }

    fn local(&self, node: usize) -> Duration {
        let slow = self.setup.slow_ppm[node];
        Duration::from_nanos(self.now_ns - self.now_ns * slow / 1_000_000)
    }

    fn store_us(&self) -> u64 {
        START_US + self.now_ns / 1000
    }
}
