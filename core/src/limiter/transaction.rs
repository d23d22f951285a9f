//! One operation on the record of a key: its limits' states, its charges, and its write.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::convert;
use super::cost::Cost;
use super::key_state::{Freed, KeyState, LimitState};
use super::reservations::Reservations;
use super::stored::Policy;
use crate::decision::Decision;
use crate::error::RecordError;
use crate::limit::{Entries, LogState, Single, SlidingLog};
use crate::record::{Body, Record};
use crate::time::Timestamp;

/// The record of a sliding log, or of several limits together.
///
/// An admitted request is charged to all of them. All logs share their entries, and each log counts the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRecord {
    pub(crate) parts: Box<[LimitState]>,
    /// Entries that have expired for every log are dropped with the next write, except for some of one chunk.
    pub(crate) entries: Entries,
}

impl GroupRecord {
    /// Returns from when on it may be forgotten, in microseconds. A log of a stored limit, or one of several limits, goes
    /// as soon as nothing counts any more.
    pub(crate) fn forget_at(&self, is_stored: bool) -> u64 {
        let is_alone = self.parts.len() == 1 && !is_stored;
        let forget_at = |part: &LimitState| match part.is_log() && !is_alone {
            true => part.fresh_at(),
            false => part.forget_at(),
        };
        self.parts.iter().map(forget_at).max().unwrap_or_default()
    }

    /// Returns whether the fast path can derive the old expiry from the states: it then leaves an equal expiry
    /// unchanged.
    pub(crate) fn has_known_end(&self) -> bool {
        (self.parts.len() == 1 || !self.has_log())
            && self.parts.iter().all(|part| part.kept_until().is_some())
    }

    pub(crate) fn has_log(&self) -> bool {
        self.parts.iter().any(LimitState::is_log)
    }

    /// Returns whether some sequence of calls can have written it, so that no step can overflow.
    pub(crate) fn is_sound(&self) -> bool {
        let logs = || self.parts.iter().filter_map(LimitState::log).map(|(_, state)| state);
        let (Some(most), Some(LogState { last, .. })) = (most_used(&self.parts), logs().next())
        else {
            return self.entries.is_empty();
        };
        logs().all(|state| state.is_sound() && state.last == last)
            && self.entries.is_sound(most, last)
    }
}

/// Returns the largest amount that counts for a log, if there is a log.
fn most_used(parts: &[LimitState]) -> Option<u64> {
    parts.iter().filter_map(LimitState::log).map(|(_, state)| state.used).max()
}

/// One operation on a key's record. Nothing is written before [`Transaction::commit`].
pub(crate) struct Transaction<'r> {
    pub(crate) key: KeyState,
    /// The record's reservations.
    pub(super) reservations: Option<Reservations>,
    slot: &'r mut Option<Record>,
    /// Whether the record was written under another limit. It is then written whatever the operation's outcome.
    converted: bool,
    /// Whether the record's entries count.
    keeps_entries: bool,
    /// The cost that is added to the entries, all at one time.
    added: u64,
}

impl<'r> Transaction<'r> {
    /// Begins at `now` with the slot's record, converted if it is of another limit.
    pub(crate) fn new(
        limits: &[Single],
        slot: &'r mut Option<Record>,
        now: Timestamp,
    ) -> Result<Self, RecordError> {
        let key = KeyState::fresh(limits, now);
        let reservations = None;
        let (converted, keeps_entries, added) = (false, false, 0);
        Transaction { key, reservations, slot, converted, keeps_entries, added }.read(limits, now)
    }

    fn read(mut self, limits: &[Single], now: Timestamp) -> Result<Self, RecordError> {
        let time = self.key.now;
        let Some(record) = &*self.slot else {
            check_clock(limits, &[], time)?;
            return Ok(self);
        };
        self.key.blocked_until = record.blocked_until.filter(|until| *until > now.as_micros());
        let own = record.body.limits().ok_or(RecordError::OtherKind)?;
        self.keeps_entries = own.iter().any(LimitState::is_log);
        let entries = stored(self.slot, self.keeps_entries);
        let settled: Vec<LimitState> =
            own.iter().map(|part| settle(&part.given_by(limits), entries, time)).collect();
        if record.is_of(limits) {
            check_clock(limits, own, time)?;
            self.reservations = record.reservations.clone();
            self.key.parts = settled;
            self.lower_reservations();
        } else {
            check_clock(limits, &[], time)?;
            self.convert(settled);
        }
        Ok(self)
    }

    fn convert(&mut self, old: Vec<LimitState>) {
        self.converted = true;
        let now = self.key.now;
        let most = old.iter().map(LimitState::used).max().unwrap_or_default();
        let mut parts = convert::convert(&self.key.parts, &old, most);
        if !parts.iter().any(|part| part.is_none_or(|part| part.is_log())) {
            self.keeps_entries = false;
        }
        // The state of the old log that counted most.
        let longest = old.iter().filter_map(LimitState::log).map(|(_, state)| state);
        let longest = longest.max_by_key(|state| state.used).unwrap_or_default();
        let entries = stored(self.slot, self.keeps_entries);
        let carried = most.min(SlidingLog::MAX_CARRIED);
        for (part, fresh) in parts.iter_mut().zip(&self.key.parts) {
            // The rest are logs of which the old record has nothing but its entries.
            part.get_or_insert_with(|| match entries {
                Some(_) => settle(&LimitState { state: longest.into(), ..*fresh }, entries, now),
                None => {
                    let mut part = *fresh;
                    if carried > 0 {
                        part.charge(carried, now);
                    }
                    part
                }
            });
        }
        let parts: Vec<LimitState> = parts.into_iter().flatten().collect();
        if !self.keeps_entries && parts.iter().any(LimitState::is_log) {
            self.added = carried;
        }
        self.key.parts = parts;
    }

    /// Returns when each log has room for `cost`.
    pub(crate) fn freed_at(&self, cost: &Cost) -> Freed {
        let none = Entries::default();
        let entries = stored(self.slot, self.keeps_entries).unwrap_or(&none);
        let freed_at = |(place, part): (usize, &LimitState)| {
            let (log, state) = part.log()?;
            log.freed_at(state, cost.of_part(place), entries, self.added)
        };
        self.key.parts.iter().enumerate().map(freed_at).collect()
    }

    /// Decides `cost`, and charges it if it is admitted.
    pub(crate) fn decide(&mut self, cost: &Cost) -> Decision {
        let freed = self.freed_at(cost);
        let decision = self.key.decide(cost, &freed);
        if decision.is_allowed() {
            self.add_entry(cost.of_logs(self.key.limits()));
        }
        decision
    }

    /// Decides `cost`, and charges nothing.
    pub(crate) fn peek(&self, cost: &Cost) -> Decision {
        self.key.peek(cost, &self.freed_at(cost))
    }

    /// Keeps an entry of a cost that was just charged to each log.
    pub(crate) fn add_entry(&mut self, cost: u64) {
        self.added += cost;
    }

    /// Gives back up to `cost` of the logs' latest entries. The operation must then be committed.
    pub(crate) fn give_back_entries(&mut self, cost: u64) {
        let cost = cost.min(most_used(&self.key.parts).unwrap_or_default());
        self.update_logs(|state| state.used -= state.used.min(cost));
        match self.entries_mut() {
            Some(entries) => entries.take_newest(cost),
            None => self.added -= cost.min(self.added),
        }
    }

    /// Takes up to `cost` out of the entry of one time, as far as it counts for any log, and returns how much that was.
    /// The operation must then be committed.
    pub(super) fn cut_entries(&mut self, at: u64, cost: u64) -> u64 {
        let most = most_used(&self.key.parts).unwrap_or_default();
        let Some(entries) = self.entries_mut() else { return 0 };
        let (total, Some((whole, up_to))) = (entries.total(), entries.find(at)) else { return 0 };
        // How much of the entry counts for a log that counts so much of all of them.
        let counted = |used: u64| whole.min((used + up_to).saturating_sub(total));
        let cut = cost.min(counted(most));
        entries.take(at, cut);
        self.update_logs(|state| state.used -= cut.min(counted(state.used)));
        cut
    }

    fn entries_mut(&mut self) -> Option<&mut Entries> {
        match self.slot {
            Some(Record { body: Body::Group(group), .. }) if self.keeps_entries => {
                Some(&mut group.entries)
            }
            _ => None,
        }
    }

    fn update_logs(&mut self, mut change: impl FnMut(&mut LogState)) {
        for part in &mut self.key.parts {
            if let Some((_, mut state)) = part.log() {
                change(&mut state);
                part.state = state.into();
            }
        }
    }

    /// Ends the operation, and writes the record if it has `changed` anything or was converted. It drops remembered
    /// entries that are no longer needed, and requests also if it is converted, since their answers came from other
    /// numbers.
    pub(crate) fn commit(mut self, now: Timestamp, changed: bool) {
        if !changed && !self.converted {
            return;
        }
        self.lower_reservations();
        let reservations = self.reservations.take();
        let (old, mut requests, policy) = match self.slot.take() {
            Some(record) => (Some(record.body), record.requests, record.policy),
            None => Default::default(),
        };
        if self.converted {
            requests = Default::default();
        }
        requests.prune(now);
        let blocked_until = self.key.blocked_until;
        let policy = policy.map(Policy::written);
        let body = self.body(old);
        *self.slot = Some(Record { body, blocked_until, requests, reservations, policy });
    }

    /// Records the present levels of the buckets.
    fn lower_reservations(&mut self) {
        if let Some(all) = &mut self.reservations {
            all.lower(&self.key.parts);
        }
    }

    fn body(&mut self, old: Option<Body>) -> Body {
        if let [only] = self.key.parts[..]
            && !only.is_log()
        {
            return Body::Counter(only);
        }
        let mut entries = match old {
            Some(Body::Group(group)) if self.keeps_entries => group.entries,
            _ => Entries::default(),
        };
        let logs = || self.key.parts.iter().filter_map(LimitState::log);
        if let Some((_, LogState { last, .. })) = logs().next() {
            let counted = most_used(&self.key.parts).unwrap_or_default() - self.added;
            entries.drop_oldest(entries.total() - counted);
            if self.added > 0 {
                entries.push(last, self.added);
            }
        }
        Body::Group(GroupRecord { parts: self.key.parts.as_slice().into(), entries })
    }
}

/// Refuses to settle these limits, with or without states in a record, if the clock is off.
fn check_clock(limits: &[Single], own: &[LimitState], now: u64) -> Result<(), RecordError> {
    let mut states = own.iter().map(|part| part.state);
    match limits.iter().all(|limit| limit.can_settle(states.next(), now)) {
        true => Ok(()),
        false => Err(RecordError::ClockOff),
    }
}

/// Returns the entries of a record, if they count.
fn stored(slot: &Option<Record>, keeps_entries: bool) -> Option<&Entries> {
    match slot {
        Some(Record { body: Body::Group(group), .. }) if keeps_entries => Some(&group.entries),
        _ => None,
    }
}

fn settle(part: &LimitState, entries: Option<&Entries>, now: u64) -> LimitState {
    match (part.log(), entries) {
        (None, _) => LimitState::at(part.limit, Some(part.state), now),
        (Some((log, state)), Some(entries)) => {
            LimitState { state: log.settle(state, entries, now).into(), ..*part }
        }
        (Some(_), None) => *part,
    }
}
