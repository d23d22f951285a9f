//! A client's connection to a simulated server, or to all nodes of a cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use lockage::StoreError;
use lockage_redis::{
    Health, IDLE, Link, LinkError, Pipeline, PubSub, PubSubSink, REPLY, Reply, Request,
};

use super::waits::{self, send};
use super::{Host, Out, Ports, lock};
use crate::simulation::calls::{self, Calls};
use crate::simulation::judge::Kind;
use crate::simulation::rare::Rare;
use crate::simulation::servers::{Sent, Words, node_of, tag_of};

/// The longest time that a client takes to connect.
const CONNECT: Duration = Duration::from_secs(1);

/// The client's end of a connection to a node.
#[derive(Default)]
pub(super) struct Socket {
    pub(super) has_ended: bool,
    pub(super) sink: Option<PubSubSink>,
    /// When the last request was sent on it, by the clock of the node.
    used: Option<Duration>,
}

impl Host {
    /// Ends these connections, and the process notices.
    pub(super) fn end_sockets(&self, is: impl Fn(u64) -> bool) {
        let mut ports = self.ports();
        let ended = ports.sockets.iter_mut().filter(|(socket, _)| is(**socket));
        let sinks: Vec<_> = ended
            .filter_map(|(_, socket)| {
                socket.has_ended = true;
                socket.sink.clone()
            })
            .collect();
        drop(ports);
        sinks.iter().for_each(PubSubSink::end);
    }

    /// A server closes a connection.
    pub(in crate::simulation) fn closed(&self, socket: u64) {
        let ports = self.ports();
        let calls = ports.calls.iter().filter(|(_, call)| call.socket == Some(socket));
        let calls: Vec<u64> = calls.map(|(number, _)| *number).collect();
        drop(ports);
        self.end_sockets(|it| it == socket);
        for call in calls {
            self.answer(call, Err(StoreError::Unknown("the server closed the connection".into())));
        }
    }

    /// A server publishes a message, or ends the subscription.
    pub(in crate::simulation) fn pushed(&self, socket: u64, channel: &str, message: Option<&str>) {
        let ports = self.ports();
        let open = ports.sockets.get(&socket).filter(|socket| !socket.has_ended);
        let sink = open.and_then(|socket| socket.sink.clone());
        drop(ports);
        match (sink, message) {
            (Some(sink), Some(message)) => sink.message(channel, message),
            (Some(sink), None) => sink.lost(channel),
            _ => {}
        }
    }
}

#[derive(Clone)]
pub(super) struct Connection {
    ports: Weak<Mutex<Ports>>,
    calls: Calls,
    is_cluster: bool,
    server: usize,
    open: Arc<Open>,
}

/// The sockets of one connection, which are closed with its last clone.
struct Open {
    ports: Weak<Mutex<Ports>>,
    ways: Mutex<Ways>,
    sink: Option<PubSubSink>,
}

#[derive(Default)]
struct Ways {
    sockets: BTreeMap<usize, u64>,
    /// The node of each slot, as far as the client knows.
    slots: BTreeMap<String, usize>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(ports) = self.ports.upgrade() else { return };
        for socket in lock(&self.ways).sockets.values() {
            let socket = lock(&ports).sockets.remove(socket);
            drop(socket);
        }
    }
}

impl Connection {
    pub(super) async fn connect(
        ports: Weak<Mutex<Ports>>,
        calls: Calls,
        (server, is_cluster): (usize, bool),
        sink: Option<PubSubSink>,
    ) -> Result<Connection, LinkError> {
        let open = Open { ports: ports.clone(), ways: Mutex::default(), sink };
        let open = Arc::new(open);
        let connection = Connection { ports, calls, is_cluster, server, open };
        let hello = vec![Words::of(&Request::new("HELLO"))];
        connection.transmit(server, hello, CONNECT, None).await?;
        Ok(connection)
    }

    /// Returns the socket to a node. A client of a cluster connects again by itself.
    fn socket(&self, ports: &mut Ports, node: usize) -> Result<u64, LinkError> {
        let mut ways = lock(&self.open.ways);
        let known = ways.sockets.get(&node).copied();
        let is_open = |socket: &u64| ports.sockets.get(socket).is_some_and(|it| !it.has_ended);
        if let Some(socket) = known
            && (is_open(&socket) || !self.is_cluster)
        {
            return match is_open(&socket) {
                true => Ok(socket),
                false => Err(LinkError::not_sent("the connection has ended")),
            };
        }
        let socket = ports.number();
        let sink = self.open.sink.clone();
        ports.sockets.insert(socket, Socket { sink, ..Socket::default() });
        ways.sockets.insert(node, socket);
        Ok(socket)
    }

    /// Sends all commands to a node, and waits for the replies.
    async fn transmit(
        &self,
        node: usize,
        words: Vec<Words>,
        patience: Duration,
        call: Option<u64>,
    ) -> Result<Vec<Reply>, LinkError> {
        let ports = self.ports.upgrade();
        let ports = ports.ok_or_else(|| LinkError::not_sent("the process has ended"))?;
        let socket = {
            let mut ports = lock(&ports);
            let socket = self.socket(&mut ports, node)?;
            self.is_checked(&mut ports, socket, &words, call);
            socket
        };
        let late = waits::sleep(&ports, patience);
        let waiting = send(&ports, |number| {
            Out::Sent(Sent { number, node, socket, words, call, listens: self.open.sink.is_some() })
        });
        let answered = select(waiting, late).await;
        let mut locked = lock(&ports);
        let now = locked.clock();
        let used = locked.sockets.get_mut(&socket).and_then(|socket| socket.used.as_mut());
        used.into_iter().for_each(|used| *used = now);
        drop(locked);
        match answered {
            Either::Left((Ok(replies), _)) => {
                *replies.downcast::<Result<Vec<Reply>, LinkError>>().expect("replies")
            }
            Either::Left((Err(error), _)) => Err(LinkError::unanswered(error)),
            Either::Right(_) => Err(LinkError::of("no reply in time", true, Health::Doubtful)),
        }
    }

    /// Checks that the first request on a long idle connection to one server is a check.
    fn is_checked(&self, ports: &mut Ports, socket: u64, words: &[Words], call: Option<u64>) {
        let (now, now_us) = (ports.clock(), ports.now_us);
        // A caller that was not polled has chosen the connection long ago.
        let is_prompt = call
            .and_then(|call| self.calls.began_us(call))
            .is_some_and(|began_us| now_us - began_us < IDLE.as_micros() as u64);
        let Some(socket) = ports.sockets.get_mut(&socket) else { return };
        let makes = words[0].name == "HELLO";
        let before = std::mem::replace(&mut socket.used, (!makes).then_some(now));
        let is_idle = before.is_some_and(|before| now - before > IDLE + Duration::from_millis(1));
        let needs_check = matches!(words[0].name, "EVALSHA" | "EVAL" | "MULTI");
        if is_idle && is_prompt && needs_check && !self.is_cluster && self.open.sink.is_none() {
            let what = format!("{} is sent on a connection that was idle", words[0].name);
            self.calls.fails(Kind::Unsent, what);
        }
    }

    /// Returns the node for a request: the one that a redirection names, or the one with its key.
    fn node(&self, request: &Request<'_>) -> usize {
        if !self.is_cluster {
            return self.server;
        }
        let named = request.node().and_then(node_of);
        named.unwrap_or_else(|| {
            let tag = request.key().map_or("", tag_of);
            lock(&self.open.ways).slots.get(tag).copied().unwrap_or(self.server)
        })
    }

    /// Takes note of a reply to a call.
    fn learn(&self, call: Option<u64>, key: &str, reply: &Reply) {
        let redirected = match reply {
            Reply::Error(error) => match error.code() {
                "MOVED" | "ASK" => {
                    let text = error.to_string();
                    let node = text.split(' ').nth(2).and_then(node_of);
                    node.map(|node| (node, error.code() == "ASK"))
                }
                _ => None,
            },
            _ => None,
        };
        if let Some((node, false)) = redirected
            && let Some(ports) = self.ports.upgrade()
            // The client learns of the slot in the background.
            && lock(&ports).draw.chance(500)
        {
            lock(&self.open.ways).slots.insert(tag_of(key).to_owned(), node);
        }
        if let Some(call) = call {
            self.calls.replied(call, key, redirected);
        }
    }

    async fn send_words(
        &self,
        request: &Request<'_>,
        words: Vec<Words>,
        patience: Duration,
    ) -> Result<Vec<Reply>, LinkError> {
        let (node, key) = (self.node(request), request.key().unwrap_or_default());
        let call = calls::current().filter(|_| matches!(request.name(), "EVAL" | "EVALSHA"));
        if let Some(call) = call {
            self.calls.sends(call, key, (node, request.is_asking()), request.redirections());
        }
        let replies = self.transmit(node, words, patience, call).await;
        if let Ok(replies) = &replies {
            let redirects = |reply: &&Reply| matches!(reply, Reply::Error(error) if matches!(error.code(), "MOVED" | "ASK"));
            let reply = replies.iter().find(redirects).or(replies.first());
            self.learn(call, key, reply.unwrap_or(&Reply::Other));
        } else if let (Some(call), Err(error)) = (call, &replies)
            && !error.was_sent()
        {
            self.calls.replied(call, key, None);
        }
        replies
    }
}

impl Link for Connection {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let mut words = vec![Words::of(request)];
        if request.is_asking() {
            words.insert(0, Words::of(&Request::new("ASKING")));
        }
        let patience = request.left().unwrap_or(REPLY);
        let replies = self.send_words(request, words, patience).await?;
        Ok(replies.into_iter().next_back().unwrap_or(Reply::Other))
    }

    fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    fn has_ended(&self) -> bool {
        let Some(ports) = self.ports.upgrade() else { return true };
        if self.is_cluster {
            return false;
        }
        let ports = lock(&ports);
        let ways = lock(&self.open.ways);
        ways.sockets.values().any(|it| ports.sockets.get(it).is_none_or(|it| it.has_ended))
    }

    async fn check(&self, ping: &Request<'_>) -> Result<Reply, LinkError> {
        let checked = self.send(ping).await;
        if Health::of(checked.as_ref()) != Health::Good {
            self.calls.saw(Rare::CheckFailed);
        }
        checked
    }
}

impl Pipeline for Connection {
    async fn send_all(
        &self,
        requests: &[Request<'_>],
        wait: Duration,
    ) -> Result<Vec<Reply>, LinkError> {
        let call = requests.iter().find(|request| request.key().is_some());
        let call = call.expect("a call has a key");
        let words = requests.iter().map(Words::of).collect();
        self.send_words(call, words, wait + REPLY).await
    }
}

impl PubSub for Connection {
    async fn subscribe(&self, channel: &str, is_sharded: bool) -> Result<Reply, LinkError> {
        let name = if is_sharded { "SSUBSCRIBE" } else { "SUBSCRIBE" };
        let words = vec![Words {
            key: Some(channel.to_owned()),
            ..Words::of(&Request::new(name).with(channel))
        }];
        let tag = tag_of(channel);
        let node = match is_sharded {
            true => lock(&self.open.ways).slots.get(tag).copied().unwrap_or(self.server),
            false => self.server,
        };
        let mut replies = self.transmit(node, words, REPLY, None).await?;
        let reply = replies.pop().unwrap_or(Reply::Other);
        if let Reply::Error(error) = &reply
            && let Some(node) = error.to_string().split(' ').nth(2).and_then(node_of)
        {
            lock(&self.open.ways).slots.insert(tag.to_owned(), node);
        }
        Ok(reply)
    }

    async fn unsubscribe(&self, channel: &str, is_sharded: bool) {
        let name = if is_sharded { "SUNSUBSCRIBE" } else { "UNSUBSCRIBE" };
        let words =
            Words { key: Some(channel.to_owned()), ..Words::of(&Request::new(name).with(channel)) };
        let nodes: Vec<usize> = lock(&self.open.ways).sockets.keys().copied().collect();
        // All are sent when this is first polled, so before any later subscription.
        join_all(nodes.iter().map(|node| self.transmit(*node, vec![words.clone()], REPLY, None)))
            .await;
    }
}
