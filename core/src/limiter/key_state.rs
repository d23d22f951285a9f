//! How the limits of one key stand at one time, and what follows from it.
//!
//! It is all that decisions are made of. A store in this process makes it from a record, a client of
//! a server from a script's reply; from there on both are the same.

use alloc::vec::Vec;
use core::time::Duration;

use super::max_wait::MaxWait;
use super::sliding_log::LogState;
use super::{Fields, SlidingLog};
use crate::decision::{Decision, DenialReason, Part, Verdict};
use crate::exact::MAX_COUNT;
use crate::limit::Single;
use crate::time::Timestamp;

/// The limits of one key, each settled at one time.
#[derive(Clone, Debug)]
pub(crate) struct KeyState {
    /// The caller's raw time, in microseconds.
    pub(crate) now: u64,
    /// How long the caller waits for its turn.
    pub(crate) patience: MaxWait,
    /// Nothing is admitted before this time, in microseconds; zero where the key is not blocked.
    pub(crate) blocked_until: u64,
    pub(crate) parts: Vec<LimitState>,
}

/// How one limit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitState {
    pub(crate) limit: Single,
    pub(crate) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Counter(Fields),
    Log(LogState),
}

/// When each log has room for a cost that does not fit it now; zero where it fits or never can, and for
/// other limits. Of the limits in their order.
pub(crate) type Freed = Vec<u64>;

impl KeyState {
    /// A key that was never used.
    pub(crate) fn fresh(limits: &[Single], now: Timestamp) -> Self {
        let now = now.as_micros();
        let parts = limits.iter().map(|limit| LimitState::fresh(*limit, now)).collect();
        KeyState { now, patience: MaxWait::ENDLESS, blocked_until: 0, parts }
    }

    /// Whether a request of `cost` is admitted.
    fn admits(&self, cost: u64) -> bool {
        let in_time = self.patience.in_time_at(self.turn_at()) <= self.now;
        self.blocked_until == 0 && in_time && cost <= self.unblocked_remaining()
    }

    /// The largest cost that is admitted.
    pub(crate) fn remaining(&self) -> u64 {
        if self.blocked_until > 0 { 0 } else { self.unblocked_remaining() }
    }

    fn unblocked_remaining(&self) -> u64 {
        self.parts.iter().map(LimitState::remaining).min().unwrap_or_default()
    }

    /// When it is the turn of what is charged next, in every queue.
    fn turn_at(&self) -> u64 {
        self.parts.iter().map(LimitState::turn_at).max().unwrap_or_default()
    }

    /// Charges `cost` to each limit.
    pub(crate) fn charge(&mut self, cost: u64) {
        for part in &mut self.parts {
            part.charge(cost, self.now);
        }
    }

    /// The decision on `cost`, which has been charged where it was `allowed`; before that its turn would
    /// have been at `turn_at`.
    fn decision(&self, cost: u64, allowed: bool, turn_at: u64, freed: &Freed) -> Decision {
        let after = |time: u64| Duration::from_micros(time.saturating_sub(self.now));
        let capacity = self.parts.iter().map(LimitState::capacity).min().unwrap_or_default();
        let admitted_at = |(part, freed): (&LimitState, &u64)| {
            part.admitted_at(cost, *freed, self.patience, self.now)
        };
        let verdict = if allowed {
            Verdict::Allowed
        } else if cost > capacity {
            Verdict::Never
        } else {
            let times = self.parts.iter().zip(freed).filter_map(admitted_at);
            let reason = match self.blocked_until {
                0 => DenialReason::Limit,
                _ => DenialReason::Blocked,
            };
            let retry_after = after(times.fold(self.blocked_until, u64::max));
            Verdict::Denied { retry_after, reason }
        };
        let fresh_at =
            self.parts.iter().map(LimitState::fresh_at).fold(self.blocked_until, u64::max);
        let decision = Decision::new(verdict, capacity, self.remaining(), after(fresh_at));
        let turn_after = match verdict {
            Verdict::Never => Duration::ZERO,
            _ if self.blocked_until > 0 => Duration::ZERO,
            _ => after(turn_at),
        };
        let decision = Decision { turn_after, ..decision };
        if self.parts.len() == 1 {
            return decision;
        }
        let parts = self.parts.iter().zip(freed).map(|(part, freed)| Part {
            verdict: match admitted_at((part, freed)) {
                None if cost > part.capacity() => Verdict::Never,
                Some(time) if !allowed => Verdict::denied(after(time)),
                _ => Verdict::Allowed,
            },
            limit: part.capacity(),
            remaining: part.remaining(),
            reset_after: after(part.fresh_at()),
        });
        let parts: Vec<Part> = parts.collect();
        Decision { binding: binding(&parts), parts: parts.into(), ..decision }
    }

    /// The states as scripts reply them.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let mut numbers = Vec::new();
        for part in &self.parts {
            match part.state {
                State::Counter(state) => numbers.extend_from_slice(&state),
                State::Log(log) => numbers.extend([log.used, log.last]),
            }
        }
        numbers
    }

    /// Reads the states that [`KeyState::numbers`] gave, here or in a script, and tells what stands
    /// behind them; nothing where no limits can stand so. Counters need not have been settled.
    pub(crate) fn read<'a>(
        limits: &[Single],
        now: Timestamp,
        mut numbers: &'a [u64],
    ) -> Option<(Self, &'a [u64])> {
        let mut standing = KeyState::fresh(limits, now);
        for part in &mut standing.parts {
            let len = part.limit.machine().map_or(2, |machine| machine.state_len());
            let (state, rest) = numbers.split_at_checked(len)?;
            part.state = State::read(&part.limit, state, standing.now)?;
            numbers = rest;
        }
        Some((standing, numbers))
    }

    /// Decides `cost`, and charges it where it is admitted.
    pub(crate) fn decide(&mut self, cost: u64, freed: &Freed) -> (bool, Decision) {
        let (allowed, turn_at) = (self.admits(cost), self.turn_at());
        if allowed {
            self.charge(cost);
        }
        (allowed, self.decision(cost, allowed, turn_at, freed))
    }

    /// Decides `cost`, and charges nothing.
    pub(crate) fn peek(&self, cost: u64, freed: &Freed) -> Decision {
        self.decision(cost, self.admits(cost), self.turn_at(), freed)
    }
}

impl State {
    fn read(limit: &Single, numbers: &[u64], now: u64) -> Option<State> {
        match (limit.machine(), numbers) {
            (Ok(machine), numbers) => {
                let state = machine.state(numbers)?;
                Some(State::Counter(machine.settle(Some(state), now)))
            }
            (Err(_), &[used, last]) => {
                let state = LogState { used, last, skip: 0 };
                state.is_sound().then_some(State::Log(state))
            }
            _ => None,
        }
    }
}

/// What the machine of a limit is, together with its state.
enum Seen<'a> {
    Counter(&'a dyn super::Machine, Fields),
    Log(&'a SlidingLog, LogState),
}

impl LimitState {
    /// A limit that was never used.
    pub(crate) fn fresh(limit: Single, now: u64) -> Self {
        let state = match limit.machine() {
            Ok(machine) => State::Counter(machine.settle(None, now)),
            Err(_) => State::Log(LogState::default()),
        };
        LimitState { limit, state }
    }

    fn seen(&self) -> Seen<'_> {
        match (self.limit.machine(), self.state) {
            (Ok(machine), State::Counter(state)) => Seen::Counter(machine, state),
            (Err(log), State::Log(state)) => Seen::Log(log, state),
            _ => unreachable!("a log has a log's state, and others have theirs"),
        }
    }

    fn capacity(&self) -> u64 {
        match self.seen() {
            Seen::Counter(machine, _) => machine.capacity(),
            Seen::Log(log, _) => log.limit(),
        }
    }

    /// How much is charged, a fraction rounded up.
    pub(crate) fn used(&self) -> u64 {
        match self.seen() {
            Seen::Counter(machine, state) => machine.used(state),
            Seen::Log(_, state) => state.used,
        }
    }

    /// The most that a fresh one can be charged.
    pub(crate) fn holds(&self) -> u64 {
        match self.seen() {
            Seen::Counter(machine, _) => machine.holds(),
            Seen::Log(..) => MAX_COUNT,
        }
    }

    /// How much a penalty may charge: up to one capacity more than fits.
    pub(crate) fn room(&self) -> u64 {
        (2 * self.capacity()).min(self.holds()).saturating_sub(self.used())
    }

    fn remaining(&self) -> u64 {
        match self.seen() {
            Seen::Counter(machine, state) => machine.remaining(state),
            Seen::Log(log, state) => log.remaining(state.used),
        }
    }

    /// The first time at which `cost` fits and its turn is within `patience`; nothing where that is so
    /// `now`, or never can be.
    fn admitted_at(&self, cost: u64, freed_at: u64, patience: MaxWait, now: u64) -> Option<u64> {
        if cost > self.capacity() {
            return None;
        }
        let room_at = (self.remaining() < cost).then(|| match self.seen() {
            Seen::Counter(machine, state) => machine.admitted_at(state, cost),
            Seen::Log(..) => freed_at,
        });
        let in_time_at = Some(patience.in_time_at(self.turn_at())).filter(|at| *at > now);
        room_at.max(in_time_at)
    }

    /// When it is the turn of what is charged next; zero where there are no turns.
    fn turn_at(&self) -> u64 {
        match self.seen() {
            Seen::Counter(machine, state) => machine.turn_at(state),
            Seen::Log(..) => 0,
        }
    }

    pub(crate) fn fresh_at(&self) -> u64 {
        match self.seen() {
            Seen::Counter(machine, state) => machine.fresh_at(state),
            Seen::Log(log, state) => log.fresh_at(state.used, state.last),
        }
    }

    /// Charges `cost`, whether it fits or not.
    pub(crate) fn charge(&mut self, cost: u64, now: u64) {
        self.state = match self.seen() {
            Seen::Counter(machine, state) => State::Counter(machine.charge(state, cost)),
            Seen::Log(_, state) => {
                State::Log(LogState { used: state.used + cost, last: now.max(state.last), ..state })
            }
        };
    }
}

/// Which of several limits binds: see [`Decision::binding`].
fn binding(parts: &[Part]) -> Option<usize> {
    // Of equals the first one: `max_by_key` would take the last.
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
            let least = parts.iter().map(|part| part.remaining).min()?;
            parts.iter().position(|part| part.remaining == least)
        })
}
