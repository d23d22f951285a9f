//! The store of these worlds: the machines under any key, and what is published. The scripts may run beside them, and
//! must do the same.

use std::any::Any;
use std::collections::BTreeMap;

use lockage::StoreError;
use lockage_core::{
    AcquireEach, AnyCommand, AnyOutcome, Cancellation, Command, Decision, Limit, Peek, Publish,
    RequestId, Reserved, StoredLimit, StoredLimitOutcome, Timestamp, Turn, WithStoredLimit,
    key_beside, lock, rw_lock, semaphore,
};
use lockage_sim::store::SimStore;

use super::judge::{Fault, Kind, fault};
use super::plan::{Plan, What, Wrong};
use super::same::is_same;
use crate::simulation::Slots;

/// The key of the lock.
pub(super) const LOCK: &str = "lock:{lock}";
const OTHER: &str = "lock:{other}";

/// What its clock shows when the world begins: late in 2025.
pub(super) const BEGINNING_US: u64 = 1_763_700_000_000_000;

pub(super) struct Keys<'s> {
    slots: BTreeMap<String, Slots>,
    /// The default, where limits are stored.
    stored: Option<StoredLimit>,
    limit: Limit,
    /// How far its clock was set ahead.
    offset_us: i64,
    /// What each key held, from when on, where a replica takes over some day.
    journal: Option<Vec<(u64, String, Slots)>>,
    /// The scripts, unless something happens that they cannot show.
    scripts: Option<&'s mut SimStore>,
}

/// What a command came to.
pub(super) struct Ran {
    pub(super) answer: Result<AnyOutcome, StoreError>,
    pub(super) message: Option<String>,
}

impl<'s> Keys<'s> {
    pub(super) fn new(plan: &Plan, scripts: Option<&'s mut SimStore>) -> Self {
        let has_replica = plan.has(|wrong| matches!(wrong, Wrong::Failover { .. }));
        let mut scripts = scripts.filter(|_| !has_replica);
        scripts.iter_mut().for_each(|scripts| scripts.flush_all());
        Keys {
            slots: BTreeMap::new(),
            stored: plan.options.is_stored.then_some(plan.limit.into()),
            limit: plan.limit,
            offset_us: 0,
            journal: has_replica.then(Vec::new),
            scripts,
        }
    }

    /// What its clock shows.
    pub(super) fn time(&self, true_us: u64) -> Timestamp {
        let time_us = (BEGINNING_US + true_us).checked_add_signed(self.offset_us);
        let time = time_us.and_then(|time_us| Timestamp::from_micros(time_us).ok());
        time.expect("about late in 2025")
    }

    /// When its clock shows this.
    fn true_us(&self, time: Timestamp) -> u64 {
        let true_us = time.as_micros().saturating_add_signed(-self.offset_us);
        true_us.saturating_sub(BEGINNING_US)
    }

    pub(super) fn set_clock(&mut self, by_us: i64) {
        self.offset_us += by_us;
    }

    /// A replica takes over that has seen what was written until then.
    pub(super) fn fail_over(&mut self, seen_us: u64) {
        let Some(journal) = &mut self.journal else { return };
        journal.retain(|(at_us, ..)| *at_us <= seen_us);
        self.slots.clear();
        for (_, key, slots) in journal {
            self.slots.insert(key.clone(), slots.clone());
        }
    }

    pub(super) fn run(
        &mut self,
        key: &str,
        command: &AnyCommand,
        true_us: u64,
    ) -> Result<Ran, Fault> {
        let now = self.time(true_us);
        if !self.slots.contains_key(key) {
            self.slots.insert(key.to_owned(), Slots::default());
        }
        let slots = self.slots.get_mut(key).expect("it was inserted");
        let outcome = slots.run(command, now);
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
            let scripted = scripts.run(key, command);
            let is_same = match (&outcome, &scripted) {
                (Ok(outcome), Ok(scripted)) => is_same(&**outcome, &**scripted),
                (Err(_), Err(_)) => true,
                _ => false,
            };
            let beside = command.beside();
            let name = beside.map(|id| key_beside(key, id));
            let holds_same = holds_same(scripts, slots, (key, None), now)
                && name.is_none_or(|name| holds_same(scripts, slots, (&name, beside), now));
            let published = scripts.take_published();
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
            journal.push((true_us, key.to_owned(), slots.clone()));
        }
        Ok(Ran { answer: outcome.map_err(StoreError::from), message })
    }

    /// Returns what a request of a limiter would be told.
    pub(super) fn peek(&self, key: &str, cost: u64, true_us: u64) -> Decision {
        let (peek, now) = (Peek::new(self.limit, cost), self.time(true_us));
        let invariant = "the key is the limiter's";
        let mut fresh = Slots::default();
        let slots = self.slots.get(key);
        let mut slots = slots.cloned().unwrap_or_else(|| std::mem::take(&mut fresh));
        let Some(default) = self.stored else { return slots.run(&peek, now).expect(invariant) };
        match slots.run(&WithStoredLimit::or_under(&peek, default), now).expect(invariant) {
            StoredLimitOutcome::Done { outcome, .. } => outcome,
            _ => Slots::default().run(&peek, now).expect(invariant),
        }
    }

    /// Returns until when the grant of a token lasts, if it is there.
    pub(super) fn granted_until_us(&self, what: What, token: u64, true_us: u64) -> Option<u64> {
        let now = self.time(true_us);
        let deadline = match what {
            What::Lock { .. } | What::Both => self.lock_until(LOCK, token, now),
            What::Other => self.lock_until(OTHER, token, now),
            What::Permits(_) => {
                let grants = self.look("lock:{places}", &semaphore::Inspect, now).grants;
                let granted = grants.into_iter().find(|(_, grant)| grant.token == token);
                granted.map(|(_, grant)| grant.deadline)
            }
            What::Read | What::Write => {
                let holders = self.look("lock:{table}", &rw_lock::Inspect, now).holders;
                let held = holders.into_iter().find(|holder| holder.hold.token == token);
                held.map(|holder| holder.hold.deadline)
            }
            What::Quorum => None,
        };
        deadline.map(|deadline| self.true_us(deadline))
    }

    fn lock_until(&self, key: &str, token: u64, now: Timestamp) -> Option<Timestamp> {
        let holder = self.look(key, &lock::Inspect, now).holder;
        holder.filter(|holder| holder.hold.token == token).map(|holder| holder.hold.deadline)
    }

    pub(super) fn is_free(&self, true_us: u64) -> bool {
        self.look(LOCK, &lock::Inspect, self.time(true_us)).holder.is_none()
    }

    fn look<C: Command>(&self, key: &str, command: &C, now: Timestamp) -> C::Outcome {
        let mut slots = self.slots.get(key).cloned().unwrap_or_default();
        slots.run(command, now).expect("a key is of one kind")
    }
}

/// Whether a key holds this in the store of the scripts. Both round its expiry to a millisecond on their own: then the
/// machine's becomes that of the script.
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
        (scripted, own) => scripted.is_none() && own.is_none(),
    }
}

/// Whether what a command takes away is charged. Others change what there is.
pub(super) fn charges(outcome: &AnyOutcome) -> bool {
    !outcome.is::<bool>() && !outcome.is::<Cancellation>()
}

/// The decisions of an outcome, which it may have under a stored limit.
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
