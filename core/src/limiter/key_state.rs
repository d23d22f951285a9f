//! The state of one key's limits at one time, and the decisions from it.
//!
//! All decisions are made here. A store in this process builds a state from a record, and a client of a server builds
//! it from a script's reply; from there on both are the same.

use alloc::vec::Vec;
use core::time::Duration;

use super::cost::Cost;
use super::max_wait::MaxWait;
use crate::decision::{Decision, DenialReason, Part, Verdict};
use crate::limit::{Algorithm, LogState, Machine, Outcome, Single, SlidingLog, State, Status};
use crate::time::Timestamp;

/// The limits of one key, each settled at one time.
#[derive(Clone, Debug)]
pub(crate) struct KeyState {
    /// The caller's raw time, in microseconds.
    pub(crate) now: u64,
    /// How long the caller waits for its turn.
    pub(crate) max_wait: MaxWait,
    /// Nothing is admitted before this time, in microseconds.
    pub(crate) blocked_until: Option<u64>,
    pub(crate) parts: Vec<LimitState>,
}

/// The state of one limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitState {
    pub(crate) limit: Single,
    pub(crate) state: State,
}

/// Limits that act alike are the same in a record, whatever terms they were given in.
impl PartialEq for LimitState {
    fn eq(&self, other: &LimitState) -> bool {
        self.limit.acts_as(&other.limit) && self.state == other.state
    }
}

impl Eq for LimitState {}

/// When each log has room for a cost that does not fit it now, but can, in the order of the limits; `None` for other
/// limits.
pub(crate) type Freed = Vec<Option<u64>>;

impl KeyState {
    /// Returns the state of a key that was never used.
    pub(crate) fn fresh(limits: &[Single], now: Timestamp) -> Self {
        let now = now.as_micros();
        let parts = limits.iter().map(|limit| LimitState::at(*limit, None, now)).collect();
        KeyState { now, max_wait: MaxWait::ENDLESS, blocked_until: None, parts }
    }

    /// Reads the states that [`KeyState::numbers`] gave, here or in a script, and returns the numbers after them;
    /// `None` if the limits cannot be in such states. Counters need not have been settled.
    pub(crate) fn read<'a>(
        limits: &[Single],
        now: Timestamp,
        mut numbers: &'a [u64],
    ) -> Option<(Self, &'a [u64])> {
        let mut key = KeyState::fresh(limits, now);
        for part in &mut key.parts {
            let (state, rest) = numbers.split_at_checked(part.limit.row().state_len)?;
            let prior = LimitState::read(part.limit, state)?.state;
            *part = LimitState::at(part.limit, Some(prior), key.now);
            numbers = rest;
        }
        Some((key, numbers))
    }

    /// Returns the state for a caller that waits this long for its turn.
    pub(crate) fn within(self, max_wait: MaxWait) -> Self {
        KeyState { max_wait, ..self }
    }

    /// Returns the largest cost that is admitted.
    pub(crate) fn remaining(&self) -> u64 {
        match self.blocked_until {
            Some(_) => 0,
            None => self.parts.iter().map(LimitState::remaining).min().unwrap_or_default(),
        }
    }

    pub(super) fn limits(&self) -> impl Iterator<Item = &Single> {
        self.parts.iter().map(|part| &part.limit)
    }

    /// Returns when the turn of a request of `cost` comes in every queue in which it counts.
    fn turn_at(&self, cost: &Cost) -> Option<u64> {
        let counting = self.parts.iter().enumerate().filter(|(place, _)| cost.counts(*place));
        counting.filter_map(|(_, part)| part.turn_at()).max()
    }

    /// Returns whether a request of `cost` with this turn is admitted.
    fn admits(&self, cost: &Cost, turn_at: Option<u64>) -> bool {
        let fits = |(place, part): (usize, &LimitState)| part.fits(cost.of_part(place));
        self.max_wait.allows(turn_at, self.now)
            && self.blocked_until.is_none()
            && self.parts.iter().enumerate().all(fits)
    }

    /// Charges each limit its part of `cost`.
    pub(crate) fn charge(&mut self, cost: &Cost) {
        let now = self.now;
        for (place, part) in self.parts.iter_mut().enumerate() {
            // A log would take the time for that of an entry.
            if cost.counts(place) {
                part.charge(cost.of_part(place), now);
            }
        }
    }

    /// Decides `cost`, and charges it if it is admitted.
    pub(crate) fn decide(&mut self, cost: &Cost, freed: &[Option<u64>]) -> Decision {
        let turn_at = self.turn_at(cost);
        let allowed = self.admits(cost, turn_at);
        if allowed {
            self.charge(cost);
        }
        self.decision(cost, allowed, turn_at, freed)
    }

    /// Decides `cost`, and charges nothing.
    pub(crate) fn peek(&self, cost: &Cost, freed: &[Option<u64>]) -> Decision {
        let turn_at = self.turn_at(cost);
        self.decision(cost, self.admits(cost, turn_at), turn_at, freed)
    }

    /// Returns the decision on `cost`, which has been charged if it was `allowed`; before that its turn would have been
    /// at `turn_at`.
    fn decision(
        &self,
        cost: &Cost,
        allowed: bool,
        turn_at: Option<u64>,
        freed: &[Option<u64>],
    ) -> Decision {
        let status = |(place, part): (usize, &LimitState)| {
            let freed_at = freed.get(place).copied().flatten();
            let status = part.status(cost.of_part(place), freed_at);
            Status { turn_at: status.turn_at.filter(|_| cost.counts(place)), ..status }
        };
        let statuses = || self.parts.iter().enumerate().map(status);
        let all = statuses().reduce(together).expect("a key has a limit: none is empty");
        let KeyState { now, max_wait, blocked_until, .. } = *self;
        let asked = Asked { now, max_wait, blocked_until };
        let is_never = |(place, status): (usize, Status)| cost.of_part(place) > status.capacity;
        let can_be = !statuses().enumerate().any(is_never);
        let decision = asked.decision(can_be, &Outcome { allowed, turn_at, status: all });
        if let [_] = self.parts[..] {
            return decision;
        }
        let part = |(place, status): (usize, Status)| Part {
            verdict: match asked.admitted_at(&status) {
                _ if is_never((place, status)) => Verdict::Never,
                Some(time) if !allowed => Verdict::denied(asked.after(time)),
                _ => Verdict::Allowed,
            },
            limit: status.capacity,
            remaining: status.remaining,
            reset_after: asked.after(status.fresh_at),
        };
        let parts: Vec<Part> = statuses().enumerate().map(part).collect();
        Decision { binding: binding(&parts, cost), parts: parts.into(), ..decision }
    }

    /// Returns the states as scripts reply them.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.parts.iter().flat_map(|part| part.numbers().to_vec()).collect()
    }
}

/// One limit that is not a log, on an unblocked key without others.
pub(crate) struct OneLimit<'a> {
    machine: &'a dyn Machine,
    now: u64,
    max_wait: MaxWait,
    pub(crate) state: State,
}

impl<'a> OneLimit<'a> {
    /// Returns the limit's state at `now`, after this state or if it was never used.
    #[inline]
    pub(crate) fn new(
        machine: &'a dyn Machine,
        prior: Option<&State>,
        now: Timestamp,
        max_wait: MaxWait,
    ) -> Self {
        let now = now.as_micros();
        OneLimit { machine, now, max_wait, state: machine.settle(prior.copied(), now) }
    }

    /// Decides `cost`, and charges it if it is admitted.
    #[inline]
    pub(crate) fn decide(&mut self, cost: u64) -> Decision {
        let outcome = self.machine.decide(&mut self.state, cost, self.max_wait, self.now);
        self.asked().decision(cost <= outcome.status.capacity, &outcome)
    }

    /// Decides `cost`, and charges nothing.
    pub(crate) fn peek(&self, cost: u64) -> Decision {
        let status = self.machine.status(self.state, cost);
        let turn_at = status.turn_at;
        let allowed = cost <= status.remaining && self.max_wait.allows(turn_at, self.now);
        self.asked().decision(cost <= status.capacity, &Outcome { allowed, turn_at, status })
    }

    fn asked(&self) -> Asked {
        Asked { now: self.now, max_wait: self.max_wait, blocked_until: None }
    }
}

/// The time of a request, and its caller's.
#[derive(Clone, Copy)]
struct Asked {
    now: u64,
    max_wait: MaxWait,
    blocked_until: Option<u64>,
}

impl Asked {
    /// Returns the decision of a single limit, or of several as one. `can_be` says whether the cost is within the
    /// capacity.
    #[inline]
    fn decision(&self, can_be: bool, outcome: &Outcome) -> Decision {
        let &Outcome { allowed, turn_at, ref status } = outcome;
        let verdict = if allowed {
            Verdict::Allowed
        } else if !can_be {
            Verdict::Never
        } else {
            let admitted_at = self.admitted_at(status).max(self.blocked_until);
            let reason = match self.blocked_until {
                None => DenialReason::Limit,
                Some(_) => DenialReason::Blocked,
            };
            Verdict::Denied { retry_after: self.after(admitted_at.unwrap_or_default()), reason }
        };
        let blocked = self.blocked_until.is_some();
        let fresh_at =
            self.blocked_until.map_or(status.fresh_at, |until| until.max(status.fresh_at));
        let turn_after = match (verdict, turn_at) {
            (Verdict::Allowed | Verdict::Denied { .. }, Some(at)) if !blocked => self.after(at),
            _ => Duration::ZERO,
        };
        let remaining = if blocked { 0 } else { status.remaining };
        let decision = Decision::new(verdict, status.capacity, remaining, self.after(fresh_at));
        Decision { turn_after, ..decision }
    }

    /// Returns the first time with room and the turn in time; `None` if that is now. A turn stays in place, and comes
    /// closer.
    fn admitted_at(&self, status: &Status) -> Option<u64> {
        let in_time_at = status.turn_at.map(|turn_at| self.max_wait.in_time_at(turn_at));
        status.room_at.max(in_time_at.filter(|at| *at > self.now))
    }

    fn after(&self, time: u64) -> Duration {
        Duration::from_micros(time.saturating_sub(self.now))
    }
}

/// Returns the combination of two limits.
fn together(one: Status, other: Status) -> Status {
    Status {
        capacity: one.capacity.min(other.capacity),
        remaining: one.remaining.min(other.remaining),
        fresh_at: one.fresh_at.max(other.fresh_at),
        turn_at: one.turn_at.max(other.turn_at),
        room_at: one.room_at.max(other.room_at),
    }
}

impl LimitState {
    /// Returns the state at `now` of a limit that was in this state, or never used. A log's is settled by its entries:
    /// see [`SlidingLog::settle`].
    pub(crate) fn at(limit: Single, prior: Option<State>, now: u64) -> Self {
        let state = match limit.algorithm() {
            Algorithm::Machine(machine) => machine.settle(prior, now),
            Algorithm::Log(_) => prior.unwrap_or_else(|| LogState::default().into()),
        };
        LimitState { limit, state }
    }

    /// Returns the state of the limit with the call's numbers of one of `limits`.
    pub(super) fn given_by(self, limits: &[Single]) -> Self {
        LimitState { limit: self.limit.given_by(limits), ..self }
    }

    /// Reads the state of a limit; `None` if it is impossible for its kind.
    pub(crate) fn read(limit: Single, numbers: &[u64]) -> Option<Self> {
        let part = LimitState { limit, state: State::read(numbers)? };
        (numbers.len() == limit.row().state_len && part.is_sound()).then_some(part)
    }

    /// Returns whether the limit can be in this state, so that no step can overflow.
    pub(crate) fn is_sound(&self) -> bool {
        match self.limit.algorithm() {
            Algorithm::Machine(machine) => machine.is_sound(self.state),
            Algorithm::Log(_) => LogState::from(self.state).is_sound(),
        }
    }

    /// Returns the numbers of the state, as records and replies carry them.
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.state.0[..self.limit.row().state_len]
    }

    /// Returns the log and its state, if it is a log.
    pub(super) fn log(&self) -> Option<(&SlidingLog, LogState)> {
        match self.limit.algorithm() {
            Algorithm::Machine(_) => None,
            Algorithm::Log(log) => Some((log, self.state.into())),
        }
    }

    pub(crate) fn is_log(&self) -> bool {
        self.limit.is_log()
    }

    /// Returns how much a bucket counts, in units of [`Machine::unit`](crate::limit::Machine::unit); `None` for other
    /// limits.
    pub(super) fn level(&self) -> Option<u64> {
        let machine = self.limit.machine().filter(|_| self.limit.is_bucket())?;
        machine.counted(self.state, 0).map(|index| self.state.0[index])
    }

    /// Returns whether a call needs no numbers of its own to settle the `earlier` state of the same limit to this one.
    pub(super) fn is_in_stored_window(&self, earlier: &LimitState) -> bool {
        let window = |part: &LimitState| self.limit.machine()?.window_of(part.state);
        earlier.limit.row().given_len == 0 || window(self) == window(earlier)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.limit.capacity()
    }

    /// Returns how much is charged, a fraction rounded up.
    pub(crate) fn used(&self) -> u64 {
        match self.limit.algorithm() {
            Algorithm::Machine(machine) => machine.used(self.state),
            Algorithm::Log(_) => LogState::from(self.state).used,
        }
    }

    /// Returns the most that a fresh one can be charged.
    pub(crate) fn holds(&self) -> u64 {
        self.limit.machine().map_or(SlidingLog::MAX_CARRIED, |machine| machine.holds())
    }

    /// Returns how much a penalty may charge: up to one capacity more than fits.
    pub(crate) fn room(&self) -> u64 {
        (2 * self.capacity()).min(self.holds()).saturating_sub(self.used())
    }

    fn remaining(&self) -> u64 {
        match self.limit.algorithm() {
            Algorithm::Machine(machine) => machine.remaining(self.state),
            Algorithm::Log(log) => log.remaining(self.state.into()),
        }
    }

    fn fits(&self, cost: u64) -> bool {
        match self.limit.algorithm() {
            Algorithm::Machine(machine) => machine.fits(self.state, cost),
            Algorithm::Log(log) => cost <= log.remaining(self.state.into()),
        }
    }

    /// Returns when the turn of the next charge comes, if there are turns.
    fn turn_at(&self) -> Option<u64> {
        self.limit.machine()?.turn_at(self.state)
    }

    pub(crate) fn fresh_at(&self) -> u64 {
        match self.limit.algorithm() {
            Algorithm::Machine(machine) => machine.fresh_at(self.state),
            Algorithm::Log(log) => log.fresh_at(self.state.into()),
        }
    }

    /// Returns until when a record of this limit alone is kept, if that is later than necessary.
    pub(crate) fn kept_until(&self) -> Option<u64> {
        match self.limit.algorithm() {
            Algorithm::Machine(machine) => machine.kept_until(self.state),
            Algorithm::Log(log) => log.kept_until(self.state.into()),
        }
    }

    /// Returns from when on a record of this limit alone may be forgotten.
    pub(crate) fn forget_at(&self) -> u64 {
        self.kept_until().unwrap_or_else(|| self.fresh_at())
    }

    /// Charges `cost`, even if it does not fit.
    pub(crate) fn charge(&mut self, cost: u64, now: u64) {
        self.state = match self.limit.algorithm() {
            Algorithm::Machine(machine) => machine.charge(self.state, cost),
            Algorithm::Log(_) => LogState::from(self.state).charge(cost, now).into(),
        };
    }

    fn status(&self, cost: u64, freed_at: Option<u64>) -> Status {
        match self.limit.algorithm() {
            Algorithm::Machine(machine) => machine.status(self.state, cost),
            Algorithm::Log(log) => Status {
                capacity: log.limit(),
                remaining: log.remaining(self.state.into()),
                fresh_at: log.fresh_at(self.state.into()),
                turn_at: None,
                room_at: freed_at,
            },
        }
    }
}

/// Returns which of several limits binds: see [`Decision::binding`].
fn binding(parts: &[Part], cost: &Cost) -> Option<usize> {
    // The first of equals: `max_by_key` would take the last.
    let first_max = |key: &dyn Fn(&Part) -> Option<Duration>| {
        let mut best: Option<(usize, Duration)> = None;
        for (index, part) in parts.iter().enumerate() {
            if let Some(wait) = key(part)
                && best.is_none_or(|(_, longest)| wait > longest)
            {
                best = Some((index, wait));
            }
        }
        best.map(|(index, _)| index)
    };
    first_max(&|part| (part.verdict == Verdict::Never).then_some(Duration::ZERO))
        .or_else(|| {
            first_max(&|part| match part.verdict {
                Verdict::Denied { retry_after, .. } => Some(retry_after),
                _ => None,
            })
        })
        .or_else(|| {
            // By how many more of such requests fit: compared as fractions, which takes no division.
            let weight = |place| if cost.parts().is_some() { cost.of_part(place) } else { 1 };
            let is_less = |place: usize, least: usize| {
                let [one, other] = [(place, least), (least, place)]
                    .map(|(at, by)| u128::from(parts[at].remaining) * u128::from(weight(by)));
                one < other
            };
            let counting = (0..parts.len()).filter(|place| weight(*place) > 0);
            counting.reduce(|least, place| if is_less(place, least) { place } else { least })
        })
}
