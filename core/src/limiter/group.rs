//! Records of one to four limits on one key: how they are read, converted and written.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::key_state::{Freed, KeyState, LimitState, State};
use super::reservations::Reservations;
use super::sliding_log::{Entry, LogState};
use super::stored::Policy;
use super::{CounterRecord, SlidingLog, convert};
use crate::error::RecordError;
use crate::limit::Single;
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
    pub(crate) fn forget_at(&self) -> Timestamp {
        self.kept_until().map_or_else(|| self.fresh_at(), time)
    }

    /// When nothing counts any more.
    pub(crate) fn fresh_at(&self) -> Timestamp {
        time(self.parts.iter().map(LimitState::fresh_at).max().unwrap_or_default())
    }

    /// Until when the record of a log by itself is kept, where anything counts.
    fn kept_until(&self) -> Option<u64> {
        match &self.parts[..] {
            [only] => only.log().and_then(|(log, state)| log.kept_until(state)),
            _ => None,
        }
    }

    /// See [`Record::is_kept_as`].
    pub(crate) fn is_kept_as(&self, earlier: &GroupRecord) -> bool {
        let limits = |record: &GroupRecord| -> Vec<Single> {
            record.parts.iter().map(|part| part.limit).collect()
        };
        let is_same = limits(self) == limits(earlier);
        is_same && self.kept_until().is_some() && self.kept_until() == earlier.kept_until()
    }

    pub(crate) fn has_log(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.state, State::Log(_)))
    }

    /// Whether some sequence of calls can have written it, so that no step can overflow.
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

fn time(micros: u64) -> Timestamp {
    Timestamp::computed(micros).expect("within MAX_SPAN of an accepted time")
}

impl LimitState {
    pub(super) fn log(&self) -> Option<(&SlidingLog, LogState)> {
        match (self.limit.machine(), self.state) {
            (Err(log), State::Log(state)) => Some((log, state)),
            _ => None,
        }
    }
}

/// A key's record for one operation: how its limits stand, and what becomes of its entries.
pub(crate) struct Opened<'r> {
    pub(crate) standing: KeyState,
    /// Whether the record was written under another limit. It is then to be written, whatever comes of
    /// the operation.
    pub(crate) converted: bool,
    /// What the record knows of its reservations, as far as it still counts.
    pub(super) reservations: Reservations,
    stored: Option<&'r VecDeque<Entry>>,
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

impl<'r> Opened<'r> {
    /// How the limits stand at `now` by what the slot holds, converted where that is of another limit.
    pub(crate) fn new(
        limits: &[Single],
        slot: &'r Option<Record>,
        now: Timestamp,
    ) -> Result<Self, RecordError> {
        let mut standing = KeyState::fresh(limits, now);
        let edit = Edit::default();
        let Some(record) = slot else {
            let reservations = Reservations::default();
            return Ok(Opened { standing, converted: false, reservations, stored: None, edit });
        };
        if record.blocked_until > now.as_micros() {
            standing.blocked_until = record.blocked_until;
        }
        let (own, stored) = match &record.body {
            Body::Counter(record) => (alloc::vec![record.standpoint()?], None),
            Body::Group(group) => (group.parts.to_vec(), group.has_log().then_some(&group.entries)),
            _ => return Err(RecordError::OtherKind),
        };
        let settled = own.iter().map(|part| settle(part, stored, standing.now)).collect();
        let reservations = Reservations::default();
        let mut opened = Opened { standing, converted: false, reservations, stored, edit };
        if own.iter().map(|part| part.limit.id()).eq(limits.iter().map(Single::id)) {
            opened.standing.parts = settled;
            opened.reservations = record.reservations.at(now, &opened.standing.parts);
        } else {
            opened.convert(settled);
        }
        Ok(opened)
    }

    fn convert(&mut self, old: Vec<LimitState>) {
        self.converted = true;
        let now = self.standing.now;
        let most = old.iter().map(LimitState::used).max().unwrap_or_default();
        let mut parts = convert::convert(&self.standing.parts, &old, most);
        let is_log = |part: &LimitState| matches!(part.state, State::Log(_));
        if !parts.iter().any(|part| part.is_none_or(|part| is_log(&part))) {
            self.stored = None;
        }
        // What counted for any of the old logs.
        let longest = old.iter().filter_map(LimitState::log).map(|(_, state)| state);
        let longest = longest.min_by_key(|state| state.skip).unwrap_or_default();
        for (part, fresh) in parts.iter_mut().zip(&self.standing.parts) {
            // What is left are logs that the old record knows nothing of, but for its entries.
            part.get_or_insert_with(|| match self.stored {
                Some(_) => {
                    settle(&LimitState { state: State::Log(longest), ..*fresh }, self.stored, now)
                }
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
        if self.stored.is_none() && most > 0 && parts.iter().any(is_log) {
            self.edit.added.push_back(Entry { at: now, cost: most });
        }
        self.standing.parts = parts;
    }

    /// When each log has room for `cost`.
    pub(crate) fn freed_at(&self, cost: u64) -> Freed {
        let freed_at = |part: &LimitState| match part.log() {
            Some((log, state)) if log.remaining(state.used) < cost && cost <= log.limit() => {
                log.freed_at(state.used, cost, self.entries().skip(state.skip))
            }
            _ => 0,
        };
        self.standing.parts.iter().map(freed_at).collect()
    }

    /// Keeps an entry of a cost that was just charged to each log.
    pub(crate) fn add_entry(&mut self, cost: u64) {
        let log = self.standing.parts.iter().find_map(LimitState::log);
        if let Some((_, LogState { last: at, .. })) = log {
            self.edit.added.push_back(Entry { at, cost });
        }
    }

    /// Gives back up to `cost` of the logs' latest entries.
    pub(crate) fn give_back_entries(&mut self, cost: u64) {
        let oldest = self.standing.parts.iter().filter_map(LimitState::log);
        let Some(oldest) = oldest.map(|(_, state)| state.skip).min() else { return };
        let entries: Vec<Entry> = self.entries().collect();
        let (mut left, mut count) = (cost, entries.len());
        while count > oldest {
            let entry = entries[count - 1];
            let part = entry.cost.min(left);
            left -= part;
            for standpoint in &mut self.standing.parts {
                if let State::Log(state) = &mut standpoint.state
                    && state.skip < count
                {
                    state.used -= part;
                }
            }
            if part < entry.cost {
                self.edit.lowered = part;
                break;
            }
            count -= 1;
        }
        self.edit.removed = entries.len() - count;
        for standpoint in &mut self.standing.parts {
            if let State::Log(state) = &mut standpoint.state {
                state.skip = state.skip.min(count);
            }
        }
    }

    /// Takes up to `cost` out of the entries of one time, as far as they count for any log; how much
    /// that was.
    pub(super) fn cut_entries(&mut self, at: u64, cost: u64) -> u64 {
        let oldest = self.standing.parts.iter().filter_map(LimitState::log);
        let oldest = oldest.map(|(_, state)| state.skip).min();
        let (Some(stored), Some(oldest)) = (self.stored, oldest) else { return 0 };
        let first = stored.partition_point(|entry| entry.at < at).max(oldest);
        let mut cut = Cut { first, ..Cut::default() };
        let mut left = cost;
        for entry in stored.iter().skip(first).take_while(|entry| entry.at == at) {
            let part = entry.cost.min(left);
            left -= part;
            for standpoint in &mut self.standing.parts {
                if let State::Log(state) = &mut standpoint.state
                    && state.skip <= first + cut.removed
                {
                    state.used -= part;
                }
            }
            if part < entry.cost {
                cut.lowered = part;
                break;
            }
            cut.removed += 1;
        }
        self.edit.cut = cut;
        cost - left
    }

    /// The entries, the oldest first. What is cut out keeps its place, and costs nothing.
    fn entries(&self) -> impl Iterator<Item = Entry> {
        let stored = self.stored.into_iter().flatten().enumerate();
        let stored = stored
            .map(|(index, entry)| Entry { cost: self.edit.cut.left(index, entry.cost), ..*entry });
        stored.chain(self.edit.added.iter().copied())
    }

    /// Ends the operation, without a borrow of the slot.
    pub(crate) fn close(self) -> Closed {
        Closed {
            reservations: self.reservations.lowered(&self.standing.parts),
            standing: self.standing,
            converted: self.converted,
            keeps_entries: self.stored.is_some(),
            edit: self.edit,
        }
    }
}

/// How a key stands after an operation, and what is to be written.
pub(crate) struct Closed {
    pub(crate) standing: KeyState,
    pub(crate) converted: bool,
    reservations: Reservations,
    keeps_entries: bool,
    edit: Edit,
}

impl Closed {
    /// Writes the record. What it remembers and no longer needs is dropped; requests also where it is
    /// converted, since their answers were made from other numbers.
    pub(crate) fn write(&mut self, slot: &mut Option<Record>, now: Timestamp) {
        let old = slot.take();
        let (old_body, mut requests, policy) = match old {
            Some(record) => (Some(record.body), record.requests, record.policy),
            None => Default::default(),
        };
        if self.converted {
            requests = Default::default();
        }
        requests.prune(now);
        let body = self.body(old_body);
        let reservations = core::mem::take(&mut self.reservations);
        let blocked_until = self.standing.blocked_until;
        let policy = policy.map(Policy::written);
        *slot = Some(Record { body, blocked_until, requests, reservations, policy });
    }

    fn body(&mut self, old: Option<Body>) -> Body {
        let parts = &mut self.standing.parts;
        if let [LimitState { limit, state: State::Counter(state) }] = parts[..]
            && let Ok(machine) = limit.machine()
        {
            return Body::Counter(CounterRecord::new(machine, state));
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
        for part in parts.iter_mut() {
            if let State::Log(state) = &mut part.state {
                state.skip = edit.cut.left_of(state.skip);
            }
        }
        let skips = parts.iter().filter_map(LimitState::log).map(|(_, state)| state.skip);
        let expired = skips.min().unwrap_or_default();
        entries.drain(..expired);
        for part in parts.iter_mut() {
            if let State::Log(state) = &mut part.state {
                state.skip -= expired;
            }
        }
        Body::Group(GroupRecord { parts: parts.clone().into(), entries })
    }
}

fn settle(part: &LimitState, entries: Option<&VecDeque<Entry>>, now: u64) -> LimitState {
    let state = match (part.limit.machine(), part.state) {
        (Ok(machine), State::Counter(state)) => State::Counter(machine.settle(Some(state), now)),
        (Err(log), State::Log(state)) => {
            let counted = entries.into_iter().flatten().skip(state.skip).copied();
            State::Log(log.settle(state, counted, now))
        }
        (_, state) => state,
    };
    LimitState { state, ..*part }
}
