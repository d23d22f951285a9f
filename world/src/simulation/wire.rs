//! The network of a world, and its servers.

use lockage::StoreError;
use lockage_core::fenced::Access;
use lockage_core::{
    AnyCommand, AnyOutcome, Command, Decision, Limit, ScriptId, Verdict, latch, lock, rw_lock,
    semaphore,
};

use lockage_redis::Reply;

use super::by_part::ByPart;
use super::host::Answer;
use super::jobs::{IDS, LOOKED_AT};
use super::judge::{self, Fault, Need};
use super::log::Who;
use super::node::Node;
use super::now::Now;
use super::plan::What;
use super::play::{Event, From, World, on_server};
use super::rare::Rare;
use super::store::{CACHED, DOOR, GATE, LOCK, OTHER, PLACES, Ran, TABLE, decisions};

impl World<'_> {
    /// Sends a message, which may be lost or late. No message takes longer than a timeout: clients
    /// rely on that.
    pub(super) fn send(&mut self, event: Event) {
        let (network, timeout_us) = (self.plan.network, self.plan.timeout_us);
        // Chance is drawn for each, lost or not, so that a message left out changes little else.
        let (is_lost, is_late) = (self.draw.chance(network.lost), self.draw.chance(network.late));
        let takes_us = self.draw.between(network.least_us, network.most_us);
        // A process that stands still before it sends has read its clock before that.
        let longest_us = (timeout_us * 3 / 4).saturating_sub(network.most_us);
        let late_us = self.draw.between(0, longest_us);
        let is_aimed = self.draw.chance(network.aimed);
        let beside_us = self.draw.between(0, 2);
        let connecting_us = match &event {
            Event::Subscribe { from, .. } => self.nodes[from.node].connected_us,
            Event::Sent { sent, .. } if sent.connects() => self.now_us + network.connect_us,
            _ => 0,
        };
        let takes_us = takes_us + self.planted.later_us + connecting_us.saturating_sub(self.now_us);
        if self.is_well() {
            // An attempt leaves time for an answer.
            self.arrives(self.now_us + takes_us.min(timeout_us / self.plan.hops()), event);
            return;
        }
        if is_lost {
            self.say(Who::Store, || "a message is lost".to_owned());
            return;
        }
        if let Event::Request { command, .. } = &event
            && self.draw.chance(network.stuck)
            && is_acquire(command)
            && self.knows_clock(&event)
        {
            self.rare.saw(Rare::Stuck);
            let late_us = self.draw.between(timeout_us + timeout_us / 8, 8 * timeout_us);
            self.queue.push(self.now_us + late_us, event);
            return;
        }
        let soonest_us = self.now_us + network.least_us;
        let at_us = self.now_us + takes_us + if is_late { late_us } else { 0 };
        let latest_us = self.now_us + network.most_us + if is_late { longest_us } else { 0 };
        let aimed_us = match event {
            Event::Request { .. } | Event::RequestAll { .. } | Event::Sent { .. } if is_aimed => {
                let end_us =
                    self.ends_us.range(soonest_us + 1..latest_us.max(soonest_us) + 1).next();
                end_us.map(|end_us| end_us + beside_us - 1)
            }
            _ => None,
        };
        self.arrives(aimed_us.unwrap_or(at_us), event);
    }

    fn arrives(&mut self, at_us: u64, event: Event) {
        let servers = self.servers.as_mut();
        let at_us = servers.map_or(at_us, |servers| servers.in_order(&event, at_us));
        self.queue.push(at_us, event);
    }

    /// Returns whether the sender has known the time of the store for long enough to set the last
    /// time to run.
    fn knows_clock(&self, event: &Event) -> bool {
        let Event::Request { from, key, .. } = event else { return false };
        let since_us = self.nodes[from.node].host.knows_clock_since_us();
        is_of_process(key)
            && since_us.is_some_and(|since_us| since_us + self.plan.timeout_us < self.now_us)
    }

    pub(super) fn reply(&mut self, to: From, answer: Answer) {
        self.send(Event::Answer { to, answer });
    }

    pub(super) fn is_away(&self, server: usize) -> bool {
        self.now_us < self.away_until_us[server]
    }

    /// Returns whether a call does not reach its server; then its caller, who may be gone, may get an error.
    pub(super) fn misses(&mut self, server: usize, from: From) -> bool {
        let is_away = self.is_away(server);
        if is_away && self.draw.chance(500) {
            self.reply(from, Err(StoreError::NotDone("the store is away".into())));
        }
        is_away
    }

    /// Does something on the primary that answers a node: it may be the old one.
    pub(super) fn on_primary<T>(
        &mut self,
        node: usize,
        does: impl FnOnce(&mut Self, bool) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let is_old = self.keys.is_old(node);
        if is_old {
            self.rare.saw(Rare::OldPrimary);
            self.keys.swap();
        }
        let done = does(self, is_old);
        if is_old {
            self.keys.swap();
        }
        done
    }

    pub(super) fn subscribe(&mut self, from: From, channel: String) {
        let Node { life, host, .. } = &self.nodes[from.node];
        // A call on a connection that has broken meanwhile is lost with it.
        let is_connected = *life == from.life && host.is_waited_for(from.call);
        if is_connected && !self.is_away(0) {
            let subscription = (channel, from.node, from.life);
            if self.unsubscribed.get(&subscription).is_some_and(|ended| *ended < from.call) {
                self.unsubscribed.remove(&subscription);
            }
            self.subscribed.insert(subscription);
            self.reply(from, Ok(Box::new(())));
        }
    }

    /// Records rare states.
    pub(super) fn watch(&mut self, from: From, sent_us: u64, key: &str, command: &AnyCommand) {
        let From { node, life, call } = from;
        if self.nodes[node].life == life && !self.nodes[node].host.is_waited_for(call) {
            self.rare.saw(Rare::LateCall);
        }
        if !key.starts_with("lock:") {
            return;
        }
        let (is_release, is_renewal) = lock_action(command);
        if is_release {
            self.released.insert((node, key.to_owned()), sent_us);
        }
        let released = self.released.get(&(node, key.to_owned()));
        if is_renewal && released.is_some_and(|released| *released > sent_us) {
            self.rare.saw(Rare::RenewalRacesRelease);
        }
    }

    pub(super) fn request(
        &mut self,
        (from, sent_us): (From, u64),
        server: usize,
        key: String,
        command: &AnyCommand,
    ) -> Result<(), Fault> {
        if self.misses(server, from) {
            return Ok(());
        }
        let asked = key.clone();
        let key = on_server(server, key);
        let Ran { answer, message } = self.on_primary(from.node, |world, is_old| {
            world.run((from, sent_us, is_old), &key, command, None)
        })?;
        if let Some(message) = message {
            let is_old = self.keys.is_old(from.node);
            let listens = self
                .subscribed
                .iter()
                .filter(|(channel, node, _)| *channel == key && self.keys.is_old(*node) == is_old);
            let to: Vec<_> = listens.map(|(_, node, life)| (*node, *life)).collect();
            for (node, life) in to {
                let channel = key.clone();
                let is_heard = !self.unsubscribed.contains_key(&(channel.clone(), node, life));
                let message = is_heard.then(|| message.clone());
                self.send(Event::Published { node, life, channel, message });
            }
        }
        if !self.is_well()
            && self.draw.chance(self.plan.network.twice)
            && answer.as_ref().is_ok_and(|answer| is_known_again(&key, command, answer))
        {
            self.rare.saw(Rare::Twice);
            let at_us = self.draw.between(self.now_us, sent_us + self.plan.timeout_us);
            let command = command.clone();
            // A latch may have forgotten it by then: the answer to its copy is none to its caller.
            let from = if key == DOOR { From { call: u64::MAX, ..from } } else { from };
            self.queue.push(at_us, Event::Request { from, sent_us, server, key: asked, command });
        }
        self.reply(from, answer);
        Ok(())
    }

    /// Returns the decision that a request of cost 1 on a limiter's key would get, and the permits of each
    /// part that remain, also behind a block.
    pub(super) fn look(&self, limit: Limit, key: &str) -> (Decision, ByPart) {
        let peeked = self.keys.peek_under(limit, key, 1.into(), self.now_us);
        let left = self.keys.left_under(&peeked, limit, key, self.now_us);
        (peeked, left)
    }

    /// Runs a command of a node, and reports the outcome to the judge. If its script has run
    /// before, `replied` holds its reply, and whether it is the last run on its key at this time.
    pub(super) fn run(
        &mut self,
        (from, sent_us, is_old): (From, u64, bool),
        key: &str,
        command: &AnyCommand,
        replied: Option<(&Reply, bool)>,
    ) -> Result<Ran, Fault> {
        let now_us = self.now_us;
        let needs: Vec<Need> = self.judge.waits.needs(key).into_iter().collect();
        for need in &needs {
            self.judge.waits.is_free(*need, self.keys.is_free(*need, now_us), now_us);
        }
        if !needs.is_empty() {
            self.judge.waits.idle(now_us, &self.judge.exempt)?;
        }
        let in_line: Vec<u64> = needs.iter().map(|need| self.keys.in_line(*need, now_us)).collect();
        let id = limiter_of(key);
        let limit = id.map(|_| self.judge.accounts.limit_of(command));
        let before = limit.map(|limit| self.look(limit, key));
        let left = [GATE, DOOR].contains(&key).then(|| self.keys.left(key, now_us));
        let ran = self.keys.run(key, command, replied, now_us)?;
        self.say(Who::Store, || {
            let what = if ran.answer.is_ok() { "done" } else { "refused" };
            format!("{command:?} on {key}: {what}")
        });
        if is_of_process(key) {
            self.judge.looks(key, &Now::new(&self.keys, now_us), now_us)?;
        }
        if key == LOCK {
            let lock = What::Lock { is_fair: false };
            let is_there = |token| self.keys.granted_until_us(lock, token, now_us).is_some();
            self.judge.leaders.are_kept(is_there, now_us)?;
        }
        for (need, before) in needs.iter().zip(in_line) {
            self.judge.waits.is_free(*need, self.keys.is_free(*need, now_us), now_us);
            if before > self.keys.in_line(*need, now_us) {
                self.judge.waits.left_line(*need, now_us);
            }
        }
        if let Ok(outcome) = &ran.answer
            && id.is_none()
        {
            self.judge.replies.gave(key, from.node, outcome, now_us);
            if let Some(rw_lock::Reply { answer: rw_lock::Answer::Held(hold), .. }) =
                outcome.downcast_ref()
                && self.keys.granted_until_us(What::Write, hold.token, now_us).is_some()
            {
                self.judge.waits.wrote(hold.token, now_us);
            }
            if left.is_some_and(|left| left != self.keys.left(key, now_us)) {
                let of = ((from.node, from.life), key == GATE);
                self.judge.changed_latch(of, command, now_us)?;
            } else if is_too_late(outcome) && self.judge.latches.has_made(command) {
                self.rare.saw(Rare::ForgottenChange);
            }
            if key == CACHED && outcome.is::<Access<()>>() {
                self.judge.values.written(now_us);
            }
        }
        if let (Some(id), Some(before), Ok(outcome)) = (id, before, &ran.answer) {
            let limit = limit.expect("it is of a limiter");
            let caller = (from, sent_us, is_old);
            self.ran_on_limiter(caller, (id, key, limit), (command, outcome, true), &before)?;
        }
        if id.is_none() && self.plan.network.aimed > 0 {
            self.end_in(u128::from(self.plan.lease_us));
        }
        Ok(ran)
    }

    /// Reports to the judge what a command did on the key of a limiter. Returns the permits that remain.
    pub(super) fn ran_on_limiter(
        &mut self,
        (from, sent_us, is_old): (From, u64, bool),
        (id, key, limit): (usize, &str, Limit),
        (command, outcome, converts): (&AnyCommand, &AnyOutcome, bool),
        (before, left_before): &(Decision, ByPart),
    ) -> Result<ByPart, Fault> {
        let (after, left_after) = self.look(limit, key);
        self.judge.ran(&judge::Ran {
            id,
            key,
            life: (from.node, from.life),
            is_old,
            sent_us,
            now_us: self.now_us,
            clock_us: self.keys.time(self.now_us).as_micros(),
            command,
            outcome,
            converts,
            before,
            left: [*left_before, left_after],
        })?;
        if let Verdict::Denied { retry_after, .. } = after.verdict {
            self.end_in(retry_after.as_micros());
        }
        Ok(left_after)
    }

    /// Records that something ends after this span.
    fn end_in(&mut self, span_us: u128) {
        let end_us = u64::try_from(span_us).unwrap_or(u64::MAX).saturating_add(self.now_us);
        if end_us < self.plan.heal_us {
            self.ends_us.insert(end_us);
        }
    }
}

/// Returns the id of the limiter of a key.
pub(super) fn limiter_of(key: &str) -> Option<usize> {
    let id = id_of(key)?;
    IDS.iter().position(|known| *known == id)
}

fn id_of(key: &str) -> Option<&str> {
    key.strip_prefix("limiter:{")?.split('}').next()
}

/// The number of [`LOOKED_AT`] after those of [`IDS`].
pub(super) const OF_LOOKS: usize = IDS.len();

/// Returns the limiter whose callers may share the call of a key.
fn shared_by(key: &str) -> Option<usize> {
    limiter_of(key).or((id_of(key) == Some(LOOKED_AT)).then_some(OF_LOOKS))
}

/// Returns the limiter whose callers wait for this call. Reservations are renewed and settled also for guards that are gone.
pub(super) fn limiter_of_call(key: &str, command: &AnyCommand) -> Option<usize> {
    shared_by(key).filter(|_| !is_of_guards(command))
}

/// Returns whether a command renews or settles a reservation.
fn is_of_guards(command: &AnyCommand) -> bool {
    let call = command.encode_text();
    let is_renewal = call.arguments().last().is_some_and(|last| last.starts_with(b"="));
    match call.script() {
        ScriptId::LimiterSettle => true,
        ScriptId::LimiterReserve => is_renewal,
        _ => false,
    }
}

/// Returns whether a command acquires a hold.
pub(super) fn is_acquire(command: &AnyCommand) -> bool {
    use ScriptId::*;
    let script = command.encode().script();
    matches!(script, FastLockAcquire | LockAcquire | SemaphoreAcquire | RwLockAcquire)
}

/// Returns whether a key is one of the locks that all jobs of a process have together.
pub(super) fn is_of_process(key: &str) -> bool {
    [LOCK, OTHER, PLACES, TABLE].contains(&key)
}

/// Returns whether the store recognizes a copy of a request with this answer. A refused request may
/// be granted to a copy, and a command on all of a key changes more than the key remembers.
fn is_known_again(key: &str, command: &AnyCommand, answer: &AnyOutcome) -> bool {
    fn is<T: 'static>(answer: &AnyOutcome, held: impl FnOnce(&T) -> bool) -> bool {
        answer.downcast_ref().is_some_and(held)
    }
    let is_held = is(answer, |it: &lock::Reply| matches!(it.answer, lock::Answer::Held(_)))
        || is(answer, |it: &semaphore::Reply| matches!(it.answer, semaphore::Answer::Held(_)))
        || is(answer, |it: &rw_lock::Reply| matches!(it.answer, rw_lock::Answer::Held(_)));
    command.is_repeatable()
        && !key.contains("look")
        && (is_held || !is_acquire(command))
        && decisions(answer).iter().all(Decision::is_allowed)
}

/// Whether a change of a latch came too late for it.
fn is_too_late(outcome: &AnyOutcome) -> bool {
    let reply = outcome.downcast_ref::<latch::Reply>();
    reply.is_some_and(|reply| matches!(reply.answer, latch::Answer::TooLate { .. }))
}

/// Returns whether a command is a release, and whether it is a renewal.
fn lock_action(command: &AnyCommand) -> (bool, bool) {
    use ScriptId::*;
    let script = command.encode().script();
    let is_release =
        matches!(script, FastLockRelease | LockRelease | SemaphoreRelease | RwLockRelease);
    let is_renewal = matches!(script, FastLockRenew | LockRenew | SemaphoreRenew | RwLockRenew);
    (is_release, is_renewal)
}
