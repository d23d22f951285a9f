//! The store of these worlds: the machines under any key, and the published messages. The scripts
//! may run in parallel, and must do the same.

mod questions;
mod together;

use std::any::Any;
use std::collections::BTreeMap;

use lockage::StoreError;
use lockage_core::fenced::FencedPeek;
use lockage_core::rw_lock::Mode;
use lockage_core::{
    AcquireEach, Adjust, AnyCommand, AnyOutcome, Command, Cost, Decision, Limit, LimitCommand,
    Peek, Publish, RequestId, Reservation, Reserved, ScriptId, Settle, Settlement, Stored,
    StoredLimit, StoredLimitOutcome, Timestamp, Turn, WithStoredLimit, key_beside, latch, lock,
    rw_lock, semaphore,
};
use lockage_redis::Reply;
use lockage_sim::store::{RespValue, SimError, SimStore};

use super::judge::{Fault, Kind, Need, fault};
use super::plan::{Plan, SERVERS, What, Wrong};
use super::play::on_server;
use super::same::is_same;
use super::slots::Slots;
use super::stage::Planted;

/// The key of the lock.
pub(super) const LOCK: &str = "lock:{lock}";
pub(super) const OTHER: &str = "lock:{other}";
/// The key of the semaphore.
pub(super) const PLACES: &str = "lock:{places}";
/// The key of the read-write lock.
pub(super) const TABLE: &str = "lock:{table}";
/// The keys of the latch that jobs wait for, and of the one that they change.
pub(super) const GATE: &str = "lock:{gate}";
pub(super) const DOOR: &str = "lock:{door}";
/// The lock of a cached value, and the value; a result, and the value that a lock protects.
pub(super) const PAGE: &str = "lock:{page}";
pub(super) const CACHED: &str = "cached:{page}";
pub(super) const ORDER: &str = "lock:{order}";
pub(super) const DONE: &str = "done:{order}";
pub(super) const VALUE: &str = "fenced:{value}";

/// Returns the keys under which something is held.
pub(super) fn keys_of(what: What) -> Vec<String> {
    let keys: &[&str] = match what {
        What::Lock { .. } => &[LOCK],
        What::Both => &[OTHER, LOCK],
        What::Other => &[OTHER],
        What::Permits(_) => &[PLACES],
        What::Read | What::Write => &[TABLE],
        What::Quorum => {
            return (0..SERVERS).map(|server| on_server(server, QUORUM.to_owned())).collect();
        }
    };
    keys.iter().map(|key| (*key).to_owned()).collect()
}

const QUORUM: &str = "lock:{quorum}";

const DAY_US: u64 = 86_400_000_000;

/// The time that its clock shows when the world begins: two seconds before a day in 2025 ends.
pub(super) const BEGINNING_US: u64 = 20_413 * DAY_US - 2_000_000;

pub(super) struct Keys<'s> {
    slots: BTreeMap<String, Slots>,
    /// The default limit, if limits are stored.
    stored: Option<StoredLimit>,
    limit: Limit,
    permits: u64,
    /// How far ahead its clock was set.
    offset_us: i64,
    /// The values of each key with their start times, in worlds in which a replica takes over some
    /// day.
    journal: Option<Vec<(u64, String, Slots)>>,
    /// A primary that goes on for some nodes after a replica has taken over.
    old: Option<Old>,
    /// The scripts, unless the world has events that they cannot show.
    scripts: Option<&'s mut SimStore>,
    planted: Planted,
}

struct Old {
    /// It goes on for this many nodes, the first ones.
    nodes: usize,
    slots: BTreeMap<String, Slots>,
}

/// The result of a command.
pub(super) struct Ran {
    pub(super) answer: Result<AnyOutcome, StoreError>,
    pub(super) message: Option<String>,
}

impl<'s> Keys<'s> {
    pub(super) fn new(plan: &Plan, scripts: Option<&'s mut SimStore>, planted: Planted) -> Self {
        let has_replica = plan.has(|wrong| matches!(wrong, Wrong::Failover { .. }));
        let mut scripts = scripts.filter(|_| !has_replica || plan.link.is_some());
        scripts.iter_mut().for_each(|scripts| {
            scripts.flush_all();
            // A world that failed may have left keys.
            scripts.set_full(false);
            _ = (scripts.take_keys(), scripts.take_published());
        });
        Keys {
            slots: BTreeMap::new(),
            stored: plan.options.stored.map(|terms| terms.of(plan.limit)),
            limit: plan.limit,
            permits: plan.permits,
            offset_us: 0,
            journal: has_replica.then(Vec::new),
            old: None,
            scripts,
            planted,
        }
    }

    /// Returns the time that its clock shows.
    pub(super) fn time(&self, true_us: u64) -> Timestamp {
        let time_us = (BEGINNING_US + true_us).checked_add_signed(self.offset_us);
        let time = time_us.and_then(|time_us| Timestamp::from_micros(time_us).ok());
        time.expect("about late in 2025")
    }

    /// Returns the true time at which its clock shows this.
    fn true_us(&self, time: Timestamp) -> u64 {
        let true_us = time.as_micros().saturating_add_signed(-self.offset_us);
        true_us.saturating_sub(BEGINNING_US)
    }

    pub(super) fn set_clock(&mut self, by_us: i64) {
        self.offset_us += by_us;
    }

    /// A replica takes over that has the writes until `seen_us`. For the first `nodes` nodes the
    /// old primary goes on.
    pub(super) fn fail_over(&mut self, seen_us: u64, nodes: usize) {
        let Some(journal) = &mut self.journal else { return };
        journal.retain(|(at_us, ..)| *at_us <= seen_us);
        let slots = std::mem::take(&mut self.slots);
        self.old = (nodes > 0).then_some(Old { nodes, slots });
        for (_, key, slots) in journal {
            self.slots.insert(key.clone(), slots.clone());
        }
        self.reload();
    }

    /// Removes a key at once.
    pub(super) fn evict(&mut self, key: &str, true_us: u64) {
        self.slots.remove(key);
        if let Some(journal) = &mut self.journal {
            journal.push((true_us, key.to_owned(), Slots::default()));
        }
        if let Some(scripts) = &mut self.scripts {
            scripts.execute(&[b"DEL", key.as_bytes()]);
            // No script has used it.
            scripts.take_keys();
        }
    }

    /// The old primary no longer serves any node.
    pub(super) fn end_old(&mut self) {
        self.old = None;
    }

    /// Returns whether the old primary answers this node.
    pub(super) fn is_old(&self, node: usize) -> bool {
        self.old.as_ref().is_some_and(|old| node < old.nodes)
    }

    /// Swaps the old primary and the new one.
    pub(super) fn swap(&mut self) {
        let Some(old) = &mut self.old else { return };
        std::mem::swap(&mut old.slots, &mut self.slots);
        self.reload();
    }

    pub(super) fn run(
        &mut self,
        key: &str,
        command: &AnyCommand,
        replied: Option<(&Reply, bool)>,
        true_us: u64,
    ) -> Result<Ran, Fault> {
        let now = self.time(true_us);
        if !self.slots.contains_key(key) {
            self.slots.insert(key.to_owned(), Slots::default());
        }
        let slots = self.slots.get_mut(key).expect("it was inserted");
        let mut outcome = slots.run(command, now);
        if let (Some(spoil), Ok(outcome)) = (self.planted.spoil, &mut outcome) {
            spoil(outcome);
        }
        let message = match &outcome {
            Ok(outcome) => match command.publishes(outcome, slots.record()) {
                Publish::Nothing => None,
                Publish::Any => Some(String::new()),
                Publish::To(name) => Some(format!("{name:032x}")),
            },
            Err(_) => None,
        };
        if let Some(scripts) = &mut self.scripts {
            scripts.set_now(now);
            let (scripted, is_last) = match replied {
                Some((reply, is_last)) => {
                    let integers = reply.integers();
                    let outcome = integers.and_then(|reply| command.outcome(&reply));
                    (outcome.map_err(SimError::from), is_last)
                }
                None => (scripts.run(key, command), true),
            };
            let is_same = match (&outcome, &scripted) {
                (Ok(outcome), Ok(scripted)) => is_same(&**outcome, &**scripted),
                (Err(_), Err(_)) => true,
                _ => false,
            };
            let beside = command.beside();
            let name = beside.map(|id| key_beside(key, id));
            let holds_same = !is_last
                || holds_same(scripts, slots, (key, None), now)
                    && name
                        .as_ref()
                        .is_none_or(|name| holds_same(scripts, slots, (name, beside), now));
            let published = scripts.take_published();
            let own = |used: &[u8]| {
                used == key.as_bytes() || name.as_ref().is_some_and(|name| used == name.as_bytes())
            };
            if let Some(other) = scripts.take_keys().into_iter().find(|used| !own(used)) {
                let other = String::from_utf8_lossy(&other).into_owned();
                return fault(Kind::Script, format!("{command:?} on {key} uses {other}"));
            }
            if !is_same || !holds_same || published != message {
                let error = scripted.err().map(|error| error.to_string());
                return fault(
                    Kind::Script,
                    format!(
                        "{command:?} on {key}: answers alike: {is_same}, stores alike: {holds_same}, error: {error:?}, publishes {published:?}, not {message:?}"
                    ),
                );
            }
        }
        if let Some(journal) = &mut self.journal {
            journal.push((true_us, key.to_owned(), self.slots[key].clone()));
        }
        Ok(Ran { answer: outcome.map_err(StoreError::from), message })
    }

    /// Runs a script on keys, as a server does.
    pub(super) fn call(
        &mut self,
        script: ScriptId,
        keys: &[String],
        arguments: &[&[u8]],
        true_us: u64,
    ) -> Result<Reply, Fault> {
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        self.on_server(keys, true_us, |scripts| scripts.call_on(script, &names, arguments))
    }

    /// Runs a script by its text.
    pub(super) fn eval(
        &mut self,
        source: &str,
        keys: &[String],
        arguments: &[&[u8]],
        true_us: u64,
    ) -> Result<Reply, Fault> {
        let names: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        self.on_server(keys, true_us, |scripts| scripts.eval(source, &names, arguments))
    }

    fn on_server(
        &mut self,
        keys: &[String],
        true_us: u64,
        run: impl FnOnce(&mut SimStore) -> Result<RespValue, SimError>,
    ) -> Result<Reply, Fault> {
        let now = self.time(true_us);
        let scripts = self.scripts.as_mut().expect("a server has them");
        scripts.set_now(now);
        let reply = run(scripts).map_or_else(|error| Reply::error(error.to_string()), Reply::from);
        let used = scripts.take_keys();
        for key in keys.iter().filter(|key| used.iter().any(|used| used == key.as_bytes())) {
            self.expire(key, keys, now, true_us);
        }
        let mut used = used.into_iter();
        match used.find(|used| keys.iter().all(|key| key.as_bytes() != used)) {
            Some(other) => {
                let other = String::from_utf8_lossy(&other).into_owned();
                fault(Kind::Script, format!("a call on {keys:?} uses {other}"))
            }
            None => Ok(reply),
        }
    }

    /// Drops a key that a script has used and that has expired, as the server does, whatever the script replies: it does
    /// not come back when the clock is set back. It is one of these keys, or beside one of them.
    fn expire(&mut self, used: &str, keys: &[String], now: Timestamp, true_us: u64) {
        for key in keys {
            let Some(slots) = self.slots.get_mut(key) else { continue };
            if slots.expire(used, key, now)
                && let Some(journal) = &mut self.journal
            {
                journal.push((true_us, key.clone(), slots.clone()));
            }
        }
    }

    /// Sets whether the memory of the server is full.
    pub(super) fn set_full(&mut self, is_full: bool) {
        self.scripts.iter_mut().for_each(|scripts| scripts.set_full(is_full));
    }

    /// Copies all records of the machines into the store of the scripts. The store's clock stands
    /// before all of them until the next command: a key that has expired lives again if the clock
    /// is set back before a command uses it.
    fn reload(&mut self) {
        let Some(scripts) = &mut self.scripts else { return };
        scripts.flush_all();
        scripts.set_now(Timestamp::from_micros(0).expect("the epoch"));
        for (key, slots) in &self.slots {
            for (key, (stored, expire_ms)) in slots.all(key) {
                let values = stored.to_bytes();
                let add: &[u8] = if matches!(stored, Stored::Text(_)) { b"SET" } else { b"RPUSH" };
                let words: Vec<&[u8]> = [add, key.as_bytes()]
                    .into_iter()
                    .chain(values.iter().map(Vec::as_slice))
                    .collect();
                scripts.execute(&words);
                let expire_ms = expire_ms.to_string();
                scripts.execute(&[b"PEXPIREAT", key.as_bytes(), expire_ms.as_bytes()]);
            }
        }
        _ = scripts.take_keys();
    }
}

/// Returns the beginnings of days: of the day before this time, of its own, and of the two after.
fn days(now: Timestamp) -> [u64; 4] {
    let day = now.as_micros() / DAY_US;
    [day - 1, day, day + 1, day + 2].map(|day| day * DAY_US)
}

/// Returns the limit with the boundaries of its days.
pub(super) fn bounded(limit: Limit, now: Timestamp) -> Limit {
    limit.with_calendar(|window| window.with_boundaries(days(now)))
}

/// Returns whether a key has this value in the store of the scripts. Both round its expiry to a
/// millisecond on their own: then the machine's becomes that of the script.
fn holds_same(
    scripts: &SimStore,
    slots: &mut Slots,
    (key, beside): (&str, Option<RequestId>),
    now: Timestamp,
) -> bool {
    let expires_ms = scripts.expires_at_ms(key).map(i64::unsigned_abs);
    match (scripts.stored(key).zip(expires_ms), slots.held_at(beside, now)) {
        (Some((scripted, expires_ms)), Some((stored, own_ms))) => {
            slots.expire_at(beside, expires_ms);
            scripted == stored && expires_ms.abs_diff(own_ms) <= 1
        }
        // A key that is set to expire within the present millisecond is dropped at once.
        (None, Some((_, own_ms))) if own_ms == now.as_micros() / 1000 => {
            slots.drop(beside);
            true
        }
        (scripted, own) => scripted.is_none() && own.is_none(),
    }
}

/// Returns the decisions of an outcome, also of one under a stored limit.
pub(super) fn decisions(outcome: &AnyOutcome) -> Vec<Decision> {
    fn of(outcome: &dyn Any) -> Option<Vec<Decision>> {
        if let Some(decision) = outcome.downcast_ref::<Decision>() {
            return Some(vec![decision.clone()]);
        }
        if let Some(turn) = outcome.downcast_ref::<Turn>() {
            return Some(vec![turn.decision.clone()]);
        }
        if let Some(reserved) = outcome.downcast_ref::<Reserved>() {
            return Some(vec![reserved.decision.clone()]);
        }
        outcome.downcast_ref::<<AcquireEach as Command>::Outcome>().cloned()
    }
    fn under<T: 'static>(outcome: &dyn Any) -> Option<&dyn Any> {
        match outcome.downcast_ref::<StoredLimitOutcome<T>>()? {
            StoredLimitOutcome::Done { outcome, .. } => Some(outcome),
            _ => None,
        }
    }
    let outcome: &dyn Any = &**outcome;
    let inner = under::<Decision>(outcome)
        .or_else(|| under::<Vec<Decision>>(outcome))
        .or_else(|| under::<Reserved>(outcome));
    of(inner.unwrap_or(outcome)).unwrap_or_default()
}
