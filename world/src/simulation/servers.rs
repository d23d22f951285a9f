//! The servers of the shipped store: they run the shipped scripts, lose them, move slots, and fail.

mod talk;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lockage_redis::{LinkError, Reply, Request};

use super::calls::Calls;
use super::draw::Draw;
use super::host::Answer;
use super::judge::Fault;
use super::log::Who;
use super::plan::{Link, Plan, SERVERS, STEP_US};
use super::play::{Event, From, World};
use super::rare::Rare;
use talk::Conversation;

/// A request in one piece, on its way to a node.
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) node: usize,
    pub(super) socket: u64,
    pub(super) words: Vec<Words>,
    /// The call of the request.
    pub(super) call: Option<u64>,
    /// Whether its connection carries messages.
    pub(super) listens: bool,
}

impl Sent {
    /// Returns whether the request makes a connection.
    pub(super) fn connects(&self) -> bool {
        self.words[0].name == "HELLO"
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.words.iter().map(|words| words.name);
        let key = self.words.iter().find_map(|words| words.key.as_deref()).unwrap_or_default();
        let (node, socket) = (self.node, self.socket);
        let names: Vec<_> = names.collect();
        write!(f, "{} {key} to node {node} by connection {socket}", names.join(", "))
    }
}

/// A command of a server.
#[derive(Clone)]
pub(super) struct Words {
    pub(super) name: &'static str,
    pub(super) arguments: Vec<Vec<u8>>,
    pub(super) key: Option<String>,
}

impl Words {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let arguments = request.arguments().map(<[u8]>::to_vec).collect();
        Words { name: request.name(), arguments, key: request.key().map(str::to_owned) }
    }
}

/// The second node of the cluster whose first one is the store.
const OTHER_NODE: usize = SERVERS;

/// Returns the server whose keys a node has.
fn server_of(node: usize) -> usize {
    if node == OTHER_NODE { 0 } else { node }
}

fn address(node: usize) -> String {
    format!("node:{node}")
}

/// Returns the node of an address.
pub(super) fn node_of(address: &str) -> Option<usize> {
    address.strip_prefix("node:")?.parse().ok()
}

/// Returns the part of a key that decides on its slot.
pub(super) fn tag_of(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    tag.map_or(key, |(tag, _)| tag)
}

/// A slot, which is on one node, and may be moving to the other one.
#[derive(Clone, Copy, Default)]
struct Slot {
    is_other: bool,
    /// Whether it is moving, and if so, whether its keys have moved.
    moving: Option<bool>,
}

/// A connection, as its server knows it.
#[derive(Default)]
struct Socket {
    node: usize,
    seen_us: u64,
    carries_nothing: bool,
    channels: BTreeSet<String>,
}

/// The name of a connection: the node, the life, and its number.
type Name = (usize, u32, u64);

pub(super) struct Servers {
    link: Link,
    pub(super) calls: Calls,
    draw: Draw,
    /// The digests of the scripts that each node has.
    scripts: [BTreeSet<&'static str>; SERVERS + 1],
    sockets: BTreeMap<Name, Socket>,
    slots: BTreeMap<String, Slot>,
    /// The channels that each life of a node has listened to, and its connections to each server.
    listened: BTreeSet<(usize, u32, String)>,
    connected: BTreeSet<(usize, u32, usize, bool)>,
    /// When the last message of a connection arrives, in each direction.
    order_us: BTreeMap<(Name, bool), u64>,
}

impl Servers {
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let link = plan.link?;
        Some(Servers {
            link,
            calls: Calls::new(plan),
            draw: Draw::new(plan.seed, 8),
            scripts: Default::default(),
            sockets: BTreeMap::new(),
            slots: BTreeMap::new(),
            listened: BTreeSet::new(),
            connected: BTreeSet::new(),
            order_us: BTreeMap::new(),
        })
    }

    /// Another server takes over, which may lack the scripts.
    pub(super) fn fail_over(&mut self) {
        if self.draw.chance(500) {
            self.scripts[0].clear();
            self.scripts[OTHER_NODE].clear();
        }
    }

    /// The connections of a node break.
    pub(super) fn break_connections(&mut self, node: usize) {
        self.sockets.retain(|(of, ..), _| *of != node);
    }

    /// Delays a message so that its connection keeps the order.
    pub(super) fn in_order(&mut self, event: &Event, at_us: u64) -> u64 {
        let (name, is_up) = match event {
            Event::Sent { from, sent, .. } => ((from.node, from.life, sent.socket), true),
            Event::Pushed { node, life, socket, .. } => ((*node, *life, *socket), false),
            _ => return at_us,
        };
        let last_us = self.order_us.entry((name, is_up)).or_default();
        *last_us = at_us.max(*last_us);
        *last_us
    }

    /// Takes one step of a slot; returns the node that no longer has it.
    fn step(&mut self, tag: &str) -> Option<usize> {
        let slot = self.slots.entry(tag.to_owned()).or_default();
        match slot.moving {
            None => slot.moving = Some(false),
            Some(false) => slot.moving = Some(true),
            Some(true) => {
                let old = if slot.is_other { OTHER_NODE } else { 0 };
                *slot = Slot { is_other: !slot.is_other, moving: None };
                return Some(old);
            }
        }
        None
    }

    /// Returns the refusal of a request for this key, if the node does not run it.
    fn redirects(&self, node: usize, key: &str, keys: usize, is_asking: bool) -> Option<Reply> {
        if !self.link.is_cluster || server_of(node) != 0 {
            return None;
        }
        let slot = self.slots.get(tag_of(key)).copied().unwrap_or_default();
        let nodes = [0, OTHER_NODE];
        let (has, gets) = (nodes[usize::from(slot.is_other)], nodes[usize::from(!slot.is_other)]);
        let redirect = |code: &str, node| Some(Reply::error(format!("{code} 7 {}", address(node))));
        match slot.moving {
            Some(true) if node == has => redirect("ASK", gets),
            Some(true) if node == gets && is_asking => None,
            Some(false) if node == has && keys > 1 => {
                Some(Reply::error("TRYAGAIN Multiple keys request during rehashing of slot"))
            }
            _ if node == has => None,
            _ => redirect("MOVED", has),
        }
    }
}

/// Temporary refusals, after which nothing was done.
const PASSING: [&str; 8] = [
    "LOADING Redis is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "NOREPLICAS Not enough good replicas to write.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
];

impl World<'_> {
    fn servers(&mut self) -> &mut Servers {
        self.servers.as_mut().expect("it is reached by a link")
    }

    /// Returns whether something goes wrong, in `permille` of a thousand cases.
    fn fails(&mut self, permille: u32) -> bool {
        !self.is_well() && self.servers().draw.chance(permille)
    }

    /// A request arrives.
    pub(super) fn receive(&mut self, from: From, sent_us: u64, sent: Sent) -> Result<(), Fault> {
        let Sent { node, socket, .. } = sent;
        let (is_well, now_us) = (self.is_well(), self.now_us);
        let is_away = self.is_away(server_of(node));
        let link = self.servers().link;
        let name = (from.node, from.life, socket);
        if is_away {
            // Some networks report that.
            if self.fails(300) {
                self.hang_up(name);
            }
            return Ok(());
        }
        if sent.connects() {
            if self.fails(link.rejects) {
                let error = LinkError::not_sent("ERR max number of clients reached");
                self.replies(from, 0, Err(error));
                return Ok(());
            }
            let way = (from.node, from.life, node, sent.listens);
            if !self.servers().connected.insert(way) {
                self.rare.saw(Rare::Reconnected);
            }
        }
        let (restarts, silences, closes) =
            (self.fails(link.restarts), self.fails(link.silences), self.fails(link.closes));
        let (forgets, moves) = (self.fails(link.forgets), self.fails(link.moves));
        let (refuses, is_full, cuts) =
            (self.fails(link.refuses), self.fails(link.full), self.fails(link.cuts));
        let known = self.servers().sockets.entry(name).or_default();
        let is_stale = link.idle_us.is_some_and(|idle_us| {
            known.seen_us > 0 && now_us - known.seen_us > idle_us && !(is_well && sent.listens)
        });
        (known.node, known.seen_us) = (node, now_us);
        known.carries_nothing |= silences || is_stale;
        if known.carries_nothing {
            return Ok(());
        }
        if restarts {
            self.restart(node);
            return Ok(());
        }
        if closes {
            self.hang_up(name);
            return Ok(());
        }
        if forgets {
            self.servers().scripts[node].clear();
        }
        if moves {
            self.move_slot(&sent);
        }
        let replies = if refuses {
            let refusal = self.servers().draw.one_of(&PASSING);
            self.say(Who::Store, || format!("refuses: {refusal}"));
            (0, vec![Reply::error(refusal); sent.words.len()])
        } else {
            let (call, is_asking, waits_us) = (sent.call, false, 0);
            let mut talk = Conversation { from, sent_us, node, call, is_asking, is_full, waits_us };
            let replies = self.converse(&mut talk, name, &sent.words)?;
            (talk.waits_us, replies)
        };
        match cuts {
            true => self.hang_up(name),
            false => self.replies(from, replies.0, Ok(replies.1)),
        }
        Ok(())
    }

    fn replies(&mut self, from: From, after_us: u64, replies: Result<Vec<Reply>, LinkError>) {
        let answer: Answer = Ok(Box::new(replies));
        match after_us {
            0 => self.send(Event::Answer { to: from, answer }),
            _ => {
                let at_us = self.now_us + after_us + self.plan.network.least_us;
                self.queue.push(at_us, Event::Answer { to: from, answer });
            }
        }
    }

    /// A server closes a connection.
    fn hang_up(&mut self, name: Name) {
        self.servers().sockets.remove(&name);
        let (node, life, socket) = name;
        self.send(Event::Closed { node, life, socket });
    }

    /// A server restarts with its data.
    fn restart(&mut self, node: usize) {
        self.say(Who::Store, || format!("node {node} restarts"));
        self.servers().scripts[node].clear();
        let sockets = &self.servers().sockets;
        let of: Vec<Name> =
            sockets.iter().filter(|(_, it)| it.node == node).map(|(name, _)| *name).collect();
        of.into_iter().for_each(|name| self.hang_up(name));
    }

    /// The slot of a request begins to move to the other node.
    fn move_slot(&mut self, sent: &Sent) {
        let servers = self.servers();
        let Some(key) = sent.words.iter().find_map(|words| words.key.as_deref()) else { return };
        let tag = tag_of(key);
        let is_moving = servers.slots.get(tag).is_some_and(|slot| slot.moving.is_some());
        if servers.link.is_cluster && server_of(sent.node) == 0 && !is_moving {
            self.step_slot(tag);
        }
    }

    /// Moves a slot on, and again soon, until it is on the other node.
    pub(super) fn step_slot(&mut self, tag: &str) {
        let servers = self.servers();
        let old = servers.step(tag);
        let Some(old) = old else {
            let at_us = servers.draw.between(1, STEP_US);
            let tag = tag.to_owned();
            self.queue.push(self.now_us + at_us, Event::SlotMoves { tag });
            return;
        };
        self.say(Who::Store, || format!("slot {tag} leaves node {old}"));
        if !self.servers().link.is_sharded {
            return;
        }
        // A node that no longer has the slot ends its subscriptions.
        let mut lost = Vec::new();
        for (name, socket) in &mut self.servers().sockets {
            let is_lost = |channel: &String| socket.node == old && tag_of(channel) == tag;
            let gone: Vec<String> =
                socket.channels.iter().filter(|it| is_lost(it)).cloned().collect();
            socket.channels.retain(|channel| !gone.contains(channel));
            lost.extend(gone.into_iter().map(|channel| (*name, channel)));
        }
        for ((node, life, socket), channel) in lost {
            self.send(Event::Pushed { node, life, socket, channel, message: None });
        }
    }
}
