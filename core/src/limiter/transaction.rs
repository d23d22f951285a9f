//! One operation on the record of a key: how its limits stand, what is charged, and what is written.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::convert;
use super::key_state::{Freed, KeyState, LimitState};
use super::reservations::Reservations;
use super::stored::Policy;
use crate::decision::Decision;
use crate::error::RecordError;
use crate::limit::{Entry, LogState, Single};
use crate::record::{Body, Record};
use crate::time::Timestamp;

/// What is stored under the key of a sliding log, or of several limits together.
///
/// A request that is admitted is charged to all of them, so that all logs share their entries: each knows
/// how many of the oldest have expired for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRecord {
    pub(crate) parts: Box<[LimitState]>,
    /// In the order of admission. Those that have expired for every log go when the record is next
    /// written.
    pub(crate) entries: VecDeque<Entry>,
}

impl GroupRecord {
    /// Returns from when on it may be forgotten, in microseconds.
    pub(crate) fn forget_at(&self) -> u64 {
        self.kept_until().unwrap_or_else(|| self.fresh_at())
    }

    /// Returns when nothing counts any more, in microseconds.
    pub(crate) fn fresh_at(&self) -> u64 {
        self.parts.iter().map(LimitState::fresh_at).max().unwrap_or_default()
    }

    /// Returns until when the record of a log by itself is kept, where anything counts.
    pub(crate) fn kept_until(&self) -> Option<u64> {
        match &self.parts[..] {
            [only] => only.kept_until(),
            _ => None,
        }
    }

    pub(crate) fn has_log(&self) -> bool {
        self.parts.iter().any(LimitState::is_log)
    }

    /// Returns whether some sequence of calls can have written it, so that no step can overflow.
    pub(crate) fn is_sound(&self) -> bool {
        let logs = || self.parts.iter().filter_map(LimitState::log);
        let Some((_, LogState { last, .. })) = logs().next() else {
            return self.entries.is_empty();
        };
        let counts = |state: &LogState| {
            let counted = self.entries.iter().skip(state.skip);
            let total = counted.fold(0_u64, |sum, entry| sum.saturating_add(entry.cost));
            state.is_sound() && state.skip <= self.entries.len() && total == state.used
        };
        self.entries.iter().all(|entry| entry.cost > 0 && entry.at <= last)
            && self.entries.iter().is_sorted_by_key(|entry| entry.at)
            && logs().all(|(_, state)| state.last == last && counts(&state))
            && logs().any(|(_, state)| state.skip == 0)
    }
}

/// One operation on what is stored under a key. Nothing is written before [`Transaction::commit`].
pub(crate) struct Transaction<'r> {
    pub(crate) key: KeyState,
    /// What the record knows of its reservations.
    pub(super) reservations: Option<Reservations>,
    slot: &'r mut Option<Record>,
    /// Whether the record was written under another limit. It is then to be written, whatever comes of
    /// the operation.
    converted: bool,
    /// Whether the record's entries count.
    keeps_entries: bool,
    edit: Edit,
}

/// What becomes of a record's entries.
#[derive(Default)]
struct Edit {
    /// How many of the latest are removed.
    removed: usize,
    /// How much is taken off the latest that is left.
    lowered: u64,
    added: VecDeque<Entry>,
    cut: Cut,
}

/// What is taken out of the entries' middle.
#[derive(Clone, Copy, Default)]
struct Cut {
    /// The first entry of which anything is taken.
    first: usize,
    /// How many, from that one on, are removed.
    removed: usize,
    /// How much is taken off the next one.
    lowered: u64,
}

impl Cut {
    /// What is left of the cost of the entry at `index`.
    fn left(&self, index: usize, cost: u64) -> u64 {
        match index.checked_sub(self.first) {
            Some(behind) if behind < self.removed => 0,
            Some(behind) if behind == self.removed => cost - self.lowered,
            _ => cost,
        }
    }

    /// How many of the first `count` entries are left.
    fn left_of(&self, count: usize) -> usize {
        count - count.saturating_sub(self.first).min(self.removed)
    }
}

impl<'r> Transaction<'r> {
    /// Begins at `now` with what the slot holds, converted where that is of another limit.
    pub(crate) fn new(
        limits: &[Single],
        slot: &'r mut Option<Record>,
        now: Timestamp,
    ) -> Result<Self, RecordError> {
        let (reservations, edit) = Default::default();
        let key = KeyState::fresh(limits, now);
        let begin =
            Transaction { key, reservations, slot, converted: false, keeps_entries: false, edit };
        begin.read(limits, now)
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
        // What counted for any of the old logs.
        let longest = old.iter().filter_map(LimitState::log).map(|(_, state)| state);
        let longest = longest.min_by_key(|state| state.skip).unwrap_or_default();
        let entries = stored(self.slot, self.keeps_entries);
        for (part, fresh) in parts.iter_mut().zip(&self.key.parts) {
            // What is left are logs that the old record knows nothing of, but for its entries.
            part.get_or_insert_with(|| match entries {
                Some(_) => settle(&LimitState { state: longest.into(), ..*fresh }, entries, now),
                None => {
                    let mut part = *fresh;
                    if most > 0 {
                        part.charge(most, now);
                    }
                    part
                }
            });
        }
        let parts: Vec<LimitState> = parts.into_iter().flatten().collect();
        if !self.keeps_entries && most > 0 && parts.iter().any(LimitState::is_log) {
            self.edit.added.push_back(Entry { at: now, cost: most });
        }
        self.key.parts = parts;
    }

    /// Returns when each log has room for `cost`.
    pub(crate) fn freed_at(&self, cost: u64) -> Freed {
        let freed_at = |part: &LimitState| {
            let (log, state) = part.log()?;
            log.freed_at(state, cost, self.entries().skip(state.skip))
        };
        self.key.parts.iter().map(freed_at).collect()
    }

    /// Decides `cost`, and charges it where it is admitted.
    pub(crate) fn decide(&mut self, cost: u64) -> Decision {
        let freed = self.freed_at(cost);
        let decision = self.key.decide(cost, &freed);
        if decision.is_allowed() {
            self.add_entry(cost);
        }
        decision
    }

    /// Decides `cost`, and charges nothing.
    pub(crate) fn peek(&self, cost: u64) -> Decision {
        self.key.peek(cost, &self.freed_at(cost))
    }

    /// Keeps an entry of a cost that was just charged to each log.
    pub(crate) fn add_entry(&mut self, cost: u64) {
        if let Some((_, LogState { last: at, .. })) =
            self.key.parts.iter().find_map(LimitState::log)
        {
            self.edit.added.push_back(Entry { at, cost });
        }
    }

    /// Gives back up to `cost` of the logs' latest entries.
    pub(crate) fn give_back_entries(&mut self, cost: u64) {
        let Some(oldest) = self.oldest() else { return };
        let entries: Vec<Entry> = self.entries().collect();
        let (mut left, mut count) = (cost, entries.len());
        while count > oldest {
            let entry = entries[count - 1];
            let part = entry.cost.min(left);
            left -= part;
            self.update_logs(|state| {
                if state.skip < count {
                    state.used -= part;
                }
            });
            if part < entry.cost {
                self.edit.lowered = part;
                break;
            }
            count -= 1;
        }
        self.edit.removed = entries.len() - count;
        self.update_logs(|state| state.skip = state.skip.min(count));
    }

    /// Takes up to `cost` out of the entries of one time, as far as they count for any log; how much
    /// that was.
    pub(super) fn cut_entries(&mut self, at: u64, cost: u64) -> u64 {
        let (Some(entries), Some(oldest)) = (stored(self.slot, self.keeps_entries), self.oldest())
        else {
            return 0;
        };
        let first = entries.partition_point(|entry| entry.at < at).max(oldest);
        let same = entries.iter().skip(first).take_while(|entry| entry.at == at);
        let costs: Vec<u64> = same.map(|entry| entry.cost).collect();
        let mut cut = Cut { first, ..Cut::default() };
        let mut left = cost;
        for entry in costs {
            let part = entry.min(left);
            left -= part;
            self.update_logs(|state| {
                if state.skip <= first + cut.removed {
                    state.used -= part;
                }
            });
            if part < entry {
                cut.lowered = part;
                break;
            }
            cut.removed += 1;
        }
        self.edit.cut = cut;
        cost - left
    }

    /// The first entry that counts for any log.
    fn oldest(&self) -> Option<usize> {
        self.key.parts.iter().filter_map(LimitState::log).map(|(_, state)| state.skip).min()
    }

    fn update_logs(&mut self, mut change: impl FnMut(&mut LogState)) {
        for part in &mut self.key.parts {
            if let Some((_, mut state)) = part.log() {
                change(&mut state);
                part.state = state.into();
            }
        }
    }

    /// The entries, the oldest first. What is cut out keeps its place, and costs nothing.
    fn entries(&self) -> impl Iterator<Item = Entry> {
        let stored = stored(self.slot, self.keeps_entries).into_iter().flatten().enumerate();
        let stored = stored
            .map(|(index, entry)| Entry { cost: self.edit.cut.left(index, entry.cost), ..*entry });
        stored.chain(self.edit.added.iter().copied())
    }

    /// Ends the operation, and writes the record where it has `changed` anything or was converted. What the record
    /// remembers and no longer needs is dropped; requests also where it is converted, since their answers were made from
    /// other numbers.
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

    /// The buckets are as low now as they are.
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
            _ => VecDeque::new(),
        };
        let edit = core::mem::take(&mut self.edit);
        let Cut { first, removed, lowered } = edit.cut;
        if let Some(entry) = entries.get_mut(first + removed) {
            entry.cost -= lowered;
        }
        entries.drain(first..first + removed);
        entries.extend(edit.added);
        entries.truncate(entries.len() - edit.removed);
        if let Some(latest) = entries.back_mut() {
            latest.cost -= edit.lowered;
        }
        self.update_logs(|state| state.skip = edit.cut.left_of(state.skip));
        let expired = self.oldest().unwrap_or_default();
        entries.drain(..expired);
        self.update_logs(|state| state.skip -= expired);
        Body::Group(GroupRecord { parts: self.key.parts.as_slice().into(), entries })
    }
}

/// Refuses to settle these limits, of which a record has the states or none, by a clock that is off.
fn check_clock(limits: &[Single], own: &[LimitState], now: u64) -> Result<(), RecordError> {
    let mut states = own.iter().map(|part| part.state);
    match limits.iter().all(|limit| limit.can_settle(states.next(), now)) {
        true => Ok(()),
        false => Err(RecordError::ClockOff),
    }
}

/// The entries of a record, where they count.
fn stored(slot: &Option<Record>, keeps_entries: bool) -> Option<&VecDeque<Entry>> {
    match slot {
        Some(Record { body: Body::Group(group), .. }) if keeps_entries => Some(&group.entries),
        _ => None,
    }
}

fn settle(part: &LimitState, entries: Option<&VecDeque<Entry>>, now: u64) -> LimitState {
    match part.log() {
        None => LimitState::at(part.limit, Some(part.state), now),
        Some((log, state)) => {
            let counted = entries.into_iter().flatten().skip(state.skip).copied();
            LimitState { state: log.settle(state, counted, now).into(), ..*part }
        }
    }
}
