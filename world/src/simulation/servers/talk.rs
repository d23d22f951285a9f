//! A server's replies to a connection: it runs the shipped scripts that it knows, and the machines
//! in parallel.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use lockage_core::{AnyCommand, AnyOutcome, ScriptId};
use lockage_lua::{REWRITE, SHARDED_CHANNELS, Script, all_script, batch_script, script};
use lockage_redis::Reply;
use lockage_sim::store::sha1_hex;

use super::{Name, Words, server_of};
use crate::simulation::judge::{Fault, Kind, fault};
use crate::simulation::play::{Event, From, World, on_server};
use crate::simulation::rare::Rare;
use crate::simulation::store::Ran;

/// The purpose of a script.
#[derive(Clone)]
enum Known {
    One(&'static Script),
    Many(&'static Script),
    /// For one decision on several keys, all of which take this script.
    All(Vec<ScriptId>, Arc<Script>),
    Rewrite,
    Sharded,
}

struct Scripts {
    by_digest: BTreeMap<&'static str, Known>,
    by_text: BTreeMap<&'static [u8], &'static str>,
}

static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| {
    let mut scripts = Scripts { by_digest: BTreeMap::new(), by_text: BTreeMap::new() };
    let mut add = |digest: &'static str, text: &'static str, known| {
        scripts.by_digest.insert(digest, known);
        scripts.by_text.insert(text.as_bytes(), digest);
    };
    for id in ScriptId::ALL {
        let (one, many) = (script(id), batch_script(id));
        add(one.digest(), one.source(), Known::One(one));
        add(many.digest(), many.source(), Known::Many(many));
        let mut with_stored = vec![id, ScriptId::StoredAcquire];
        with_stored.sort_unstable();
        with_stored.dedup();
        for ids in [vec![id], with_stored] {
            let all = all_script(&ids);
            let (digest, source) = (all.digest().to_owned().leak(), all.source().to_owned().leak());
            add(digest, source, Known::All(ids, all));
        }
    }
    for (text, known) in [(REWRITE, Known::Rewrite), (SHARDED_CHANNELS, Known::Sharded)] {
        add(sha1_hex(text.as_bytes()).leak(), text, known);
    }
    scripts
});

/// The context in which a server handles the commands of a request.
pub(super) struct Conversation {
    pub(super) from: From,
    pub(super) sent_us: u64,
    pub(super) node: usize,
    pub(super) call: Option<u64>,
    pub(super) is_asking: bool,
    /// Whether the memory has no room.
    pub(super) is_full: bool,
    /// How long the replies wait for replicas.
    pub(super) waits_us: u64,
}

impl World<'_> {
    /// Executes the commands of a connection, in order.
    pub(super) fn converse(
        &mut self,
        talk: &mut Conversation,
        name: Name,
        words: &[Words],
    ) -> Result<Vec<Reply>, Fault> {
        let mut replies = Vec::with_capacity(words.len());
        // The commands of a transaction, and whether one was refused.
        let mut queued: Option<(Vec<&Words>, bool)> = None;
        for words in words {
            let reply = match (words.name, &mut queued) {
                ("MULTI", _) => {
                    queued = Some((Vec::new(), false));
                    Reply::Other
                }
                ("EXEC", _) => match queued.take() {
                    Some((all, false)) => {
                        let all = all.into_iter().map(|words| self.script(talk, words));
                        Reply::List(all.collect::<Result<_, _>>()?)
                    }
                    _ => {
                        Reply::error("EXECABORT Transaction discarded because of previous errors.")
                    }
                },
                (_, Some((all, is_refused))) => match self.redirected(talk, words) {
                    Some(refused) => {
                        *is_refused = true;
                        refused
                    }
                    None => {
                        all.push(words);
                        Reply::Other
                    }
                },
                ("ASKING", None) => {
                    talk.is_asking = true;
                    replies.push(Reply::Other);
                    continue;
                }
                ("EVAL" | "EVALSHA", None) => match self.redirected(talk, words) {
                    Some(refused) => refused,
                    None => self.script(talk, words)?,
                },
                ("WAIT", None) => self.wait(talk, words),
                ("SUBSCRIBE" | "SSUBSCRIBE", None) => self.listen(talk, name, words),
                ("UNSUBSCRIBE" | "SUNSUBSCRIBE", None) => {
                    self.unsubscribe(name, words.key.clone().unwrap_or_default());
                    Reply::Other
                }
                ("PING" | "HELLO", None) => Reply::Other,
                (other, None) => {
                    return fault(Kind::Error, format!("a server is sent {other}"));
                }
            };
            // `ASKING` holds for the next command, or for the whole transaction.
            talk.is_asking &= queued.is_some();
            replies.push(reply);
        }
        Ok(replies)
    }

    fn redirected(&mut self, talk: &Conversation, words: &Words) -> Option<Reply> {
        let key = words.key.as_deref()?;
        let keys = if words.arguments.get(1).is_some_and(|number| number == b"2") { 2 } else { 1 };
        let refused = self.servers().redirects(talk.node, key, keys, talk.is_asking)?;
        if matches!(&refused, Reply::Error(error) if error.code() != "TRYAGAIN") {
            self.rare.saw(Rare::Redirected);
        }
        Some(refused)
    }

    /// Replies with the number of replicas that have the writes.
    fn wait(&mut self, talk: &mut Conversation, words: &Words) -> Reply {
        let number = |at: usize| -> u64 {
            let digits = words.arguments.get(at).map(|it| String::from_utf8_lossy(it));
            digits.and_then(|it| it.parse().ok()).unwrap_or_default()
        };
        let (wanted, millis, is_well) = (number(0), number(1), self.is_well());
        let servers = self.servers();
        let lags = !is_well && servers.draw.chance(servers.link.lags);
        let count = match lags {
            true => servers.draw.between(0, wanted.saturating_sub(1)),
            // The count includes other replicas.
            false => wanted + servers.draw.between(0, 1),
        };
        if lags {
            talk.waits_us = millis * 1000;
        }
        if let Some(call) = talk.call {
            servers.calls.acknowledged(call, count as u32);
        }
        Reply::Integer(count as i64)
    }

    fn listen(&mut self, talk: &Conversation, name: Name, words: &Words) -> Reply {
        let channel = words.key.clone().unwrap_or_default();
        // The node that a slot leaves serves its channels until the end of the move.
        if words.name == "SSUBSCRIBE"
            && let Some(refused) = self.servers().redirects(talk.node, &channel, 1, false)
            && matches!(&refused, Reply::Error(error) if error.code() == "MOVED")
        {
            self.rare.saw(Rare::Redirected);
            return refused;
        }
        let servers = self.servers();
        let socket = servers.sockets.entry(name).or_default();
        // Scripts publish to sharded or plain channels, as the server has them.
        if (words.name == "SSUBSCRIBE") == servers.link.is_sharded {
            socket.channels.insert(channel.clone());
        }
        if !servers.listened.insert((name.0, name.1, channel)) {
            self.rare.saw(Rare::Resubscribed);
        }
        Reply::Other
    }

    /// Ends a subscription. As a real server does, it confirms that by a message.
    fn unsubscribe(&mut self, name: Name, channel: String) {
        let (node, life, socket) = name;
        if let Some(open) = self.servers().sockets.get_mut(&name) {
            open.channels.remove(&channel);
            self.send(Event::Pushed { node, life, socket, channel, message: None });
        }
    }

    /// Runs a script, if the node has it.
    fn script(&mut self, talk: &mut Conversation, words: &Words) -> Result<Reply, Fault> {
        let Some(text) = words.arguments.first() else {
            return fault(Kind::Error, format!("a server is sent {} alone", words.name));
        };
        let digest = match words.name {
            "EVAL" => SCRIPTS.by_text.get(&text[..]).copied(),
            _ => std::str::from_utf8(text)
                .ok()
                .and_then(|digest| SCRIPTS.by_digest.get_key_value(digest))
                .map(|(digest, _)| *digest),
        };
        let Some(digest) = digest else {
            return fault(Kind::Error, "a server is sent a script that is not shipped".to_owned());
        };
        let known = &mut self.servers().scripts[talk.node];
        if words.name == "EVAL" {
            known.insert(digest);
        } else if !known.contains(digest) {
            self.rare.saw(Rare::NoScript);
            return Ok(Reply::error("NOSCRIPT No matching script. Please use EVAL."));
        }
        let number: Option<usize> =
            words.arguments.get(1).and_then(|number| String::from_utf8_lossy(number).parse().ok());
        let rest = words.arguments.get(2..).unwrap_or_default();
        let Some((keys, arguments)) = number.and_then(|number| rest.split_at_checked(number))
        else {
            return fault(Kind::Error, "a server is sent a wrong number of keys".to_owned());
        };
        let keys: Vec<String> =
            keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        match SCRIPTS.by_digest[digest].clone() {
            Known::Sharded => Ok(Reply::Integer(i64::from(self.servers().link.is_sharded))),
            Known::Rewrite => self.on_keys(talk, |world| {
                let server = server_of(talk.node);
                let keys: Vec<String> =
                    keys.iter().map(|key| on_server(server, key.clone())).collect();
                world.keys.eval(REWRITE, &keys, &[], world.now_us)
            }),
            Known::One(script) => self.one(talk, script.id(), &keys, &arguments),
            Known::Many(script) => self.many(talk, script, &keys, &arguments),
            Known::All(ids, script) => self.all(talk, (&ids, &script), &keys, &arguments),
        }
    }

    /// Runs a function on the primary that answers this client.
    fn on_keys<T>(
        &mut self,
        talk: &Conversation,
        does: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.on_primary(talk.from.node, |world, _| {
            world.keys.set_full(talk.is_full);
            let done = does(world);
            world.keys.set_full(false);
            done
        })
    }

    /// Runs one call on one key.
    fn one(
        &mut self,
        talk: &Conversation,
        script: ScriptId,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Reply, Fault> {
        let call = self.caller(talk, &keys[0], script, arguments)?;
        let server = server_of(talk.node);
        let own: Vec<String> = keys.iter().map(|key| on_server(server, key.clone())).collect();
        self.watch(talk.from, talk.sent_us, &keys[0], &call.1);
        self.on_keys(talk, |world| {
            let reply = world.keys.call(script, &own, arguments, world.now_us)?;
            world.done(talk, call, &own[0], &reply, true)?;
            Ok(reply)
        })
    }

    /// Runs one call on several keys.
    fn many(
        &mut self,
        talk: &Conversation,
        script: &Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Reply, Fault> {
        if keys.len() != arguments.len() {
            return fault(Kind::Error, "a batch has as many keys as arguments".to_owned());
        }
        let server = server_of(talk.node);
        let own: Vec<String> = keys.iter().map(|key| on_server(server, key.clone())).collect();
        self.on_keys(talk, |world| {
            let reply = world.keys.eval(script.source(), &own, arguments, world.now_us)?;
            let Reply::List(replies) = &reply else { return Ok(reply) };
            let mut is_part = false;
            for (at, reply) in replies.iter().enumerate() {
                let is_last = !own[at + 1..].contains(&own[at]);
                is_part |=
                    matches!(reply, Reply::List(all) if matches!(all[..], [Reply::Bytes(_)]));
                let call = world.caller(talk, &keys[at], script.id(), &[arguments[at]])?;
                world.watch(talk.from, talk.sent_us, &keys[at], &call.1);
                world.done(talk, call, &own[at], reply, is_last)?;
            }
            if is_part {
                world.rare.saw(Rare::BatchCut);
            }
            Ok(reply)
        })
    }

    /// Runs the requests of one decision.
    fn all(
        &mut self,
        talk: &Conversation,
        (ids, script): (&[ScriptId], &Script),
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Reply, Fault> {
        let Some((head, mut rest)) = arguments.split_first() else {
            return fault(Kind::Error, "a decision on several keys has no arguments".to_owned());
        };
        let mut calls = Vec::with_capacity(keys.len());
        for (key, how) in keys.iter().zip(head.chunks(2)) {
            let of = |number: u8| ids.get(usize::from(number).checked_sub(1)?).copied();
            let (Some(id), Some(count)) = (of(how[0]), how.get(1)) else {
                return fault(Kind::Error, format!("{how:?} is of no script of {ids:?}"));
            };
            let Some((own, others)) = rest.split_at_checked(usize::from(*count)) else {
                return fault(Kind::Error, "a decision has too few arguments".to_owned());
            };
            calls.push(self.caller(talk, key, id, own)?.0);
            rest = others;
        }
        let together = talk.call.and_then(|call| self.servers().calls.together(call));
        let Some(command) = together.filter(|_| calls.len() == keys.len() && rest.is_empty())
        else {
            return fault(Kind::Untold, format!("a decision on {keys:?}, which nobody asked for"));
        };
        let server = server_of(talk.node);
        let own: Vec<String> = keys.iter().map(|key| on_server(server, key.clone())).collect();
        self.on_keys(talk, |world| {
            let reply = world.keys.eval(script.source(), &own, arguments, world.now_us)?;
            if matches!(reply, Reply::Error(_)) {
                return Ok(reply);
            }
            let caller = (talk.from, talk.sent_us, world.keys.is_old(talk.from.node));
            let answer = world.run_all(caller, &own, &command, Some(&reply))?;
            for (index, call) in calls.into_iter().enumerate() {
                let decision = answer.as_ref().ok().map(|all| all[index].clone());
                let ran = decision.map(|decision| Box::new(decision) as AnyOutcome);
                world.servers().calls.ran(call, ran)?;
            }
            Ok(reply)
        })
    }

    /// Returns the call that a script runs for.
    fn caller(
        &mut self,
        talk: &Conversation,
        key: &str,
        script: ScriptId,
        arguments: &[&[u8]],
    ) -> Result<((u64, usize), AnyCommand), Fault> {
        let found = talk.call.and_then(|call| {
            let (index, command) = self.servers().calls.find(call, key, script, arguments)?;
            Some(((call, index), command))
        });
        match found {
            Some(found) => Ok(found),
            None => fault(Kind::Untold, format!("{script:?} on {key}, which nobody has called")),
        }
    }

    /// Runs the machine of a call after the reply of its script, unless that is an error: both must
    /// do the same.
    fn done(
        &mut self,
        talk: &Conversation,
        (call, command): ((u64, usize), AnyCommand),
        key: &str,
        reply: &Reply,
        is_last: bool,
    ) -> Result<(), Fault> {
        let is_error = match reply {
            Reply::Error(_) => true,
            Reply::List(all) => matches!(all[..], [Reply::Bytes(_)]),
            _ => false,
        };
        if is_error {
            return Ok(());
        }
        let caller = (talk.from, talk.sent_us, self.keys.is_old(talk.from.node));
        let Ran { answer, message } = self.run(caller, key, &command, Some((reply, is_last)))?;
        if let Some(message) = message {
            self.publish(talk, key, &message);
        }
        self.servers().calls.ran(call, answer.ok())
    }

    fn publish(&mut self, talk: &Conversation, key: &str, message: &str) {
        let is_old = self.keys.is_old(talk.from.node);
        let mut to = Vec::new();
        let (node, is_sharded) = (talk.node, self.servers().link.is_sharded);
        for (name, socket) in &self.servers().sockets {
            let is_near = !is_sharded || socket.node == node;
            if is_near && !socket.carries_nothing && socket.channels.contains(key) {
                to.push(*name);
            }
        }
        for (node, life, socket) in to {
            if self.keys.is_old(node) == is_old {
                let (channel, message) = (key.to_owned(), Some(message.to_owned()));
                self.send(Event::Pushed { node, life, socket, channel, message });
            }
        }
    }
}
