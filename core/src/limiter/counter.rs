//! What the five machines with a constant-size state have in common.
//!
//! Such a machine is a few integers of configuration and a few of state. A script replies the
//! prior state and the store's time, and the decision is computed from those here: it costs the
//! server nothing, and one reply can be folded into the decisions of many requests.

use core::ops::Deref;
use core::time::Duration;

use super::Machine;
use crate::command::{ScriptId, read_whole};
use crate::decision::{Decision, Verdict};
use crate::error::{RecordError, ReplyError};
use crate::record::{Body, Record, put};
use crate::time::Timestamp;

/// A machine with a constant-size state. Times are microseconds since the epoch.
///
/// `settle` brings a state to `now`, or to the time that the state has already seen where `now`
/// is before it (property D10). The other functions take a settled state.
pub(crate) trait Counter: Copy {
    /// The kind and version of its record, such as `F1`.
    const TAG: &'static str;
    /// The script of its acquire command.
    const ACQUIRE: ScriptId;
    type State: Copy;

    fn capacity(self) -> u64;

    /// The state as it counts at `now`; a fresh one where there is none.
    fn settle(self, state: Option<Self::State>, now: u64) -> Self::State;

    /// The state with `cost` charged, or nothing where it does not fit.
    fn charge(self, state: Self::State, cost: u64) -> Option<Self::State>;

    /// The largest cost that fits.
    fn remaining(self, state: Self::State) -> u64;

    /// The first time at which `cost`, which does not fit now but is within the capacity, fits.
    fn admitted_at(self, state: Self::State, cost: u64) -> u64;

    /// The first time from which the state acts like a fresh one; it may be forgotten from then on.
    fn fresh_at(self, state: Self::State) -> u64;

    /// When it is the turn of what is charged next: all that is charged now is then gone. Most machines
    /// have no turns: what they admit may go ahead at once.
    fn turn_at(self, _state: Self::State) -> u64 {
        0
    }

    /// The configuration as integers, reduced: equal for limits that act alike.
    fn config(self) -> Fields;
    /// See [`Machine::terms`].
    fn terms(self) -> Fields {
        [].into()
    }
    fn fields(state: Self::State) -> Fields;
    /// The state of these fields, which a record or a reply carried; nothing where no state of
    /// this configuration has them, so that no step can overflow.
    fn state(self, fields: &[u64]) -> Option<Self::State>;
}

impl<M: Counter> Machine for M {
    fn tag(&self) -> &'static str {
        M::TAG
    }

    fn config(&self) -> Fields {
        Counter::config(*self)
    }

    fn terms(&self) -> Fields {
        Counter::terms(*self)
    }

    fn acquire_script(&self) -> ScriptId {
        M::ACQUIRE
    }

    fn peek_script(&self) -> ScriptId {
        ScriptId::CounterPeek
    }

    fn check(&self, record: &Record) -> Result<(), RecordError> {
        load(*self, record).map(drop)
    }

    /// What is told is the prior state.
    fn acquire(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
        costs: &[u64],
        decided: &mut dyn FnMut(Decision),
    ) -> Result<Option<Fields>, RecordError> {
        let prior = slot.as_ref().map(|record| load(*self, record)).transpose()?;
        let charged = decide_each(*self, prior, now, costs, decided);
        Ok(charged.map(|charged| {
            put(slot, Body::Counter(CounterRecord::new(*self, charged)));
            prior.map_or([].into(), M::fields)
        }))
    }

    fn recall(&self, cost: u64, now: Timestamp, told: &[u64]) -> Option<Decision> {
        let prior = match told {
            [] => None,
            told => Some(self.state(told)?),
        };
        let mut decision = None;
        decide_each(*self, prior, now, &[cost], &mut |one| decision = Some(one));
        decision
    }

    fn peek(
        &self,
        slot: &Option<Record>,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, RecordError> {
        let prior = slot.as_ref().map(|record| load(*self, record)).transpose()?;
        Ok(decide_only(*self, prior, now, cost))
    }

    fn read_acquire(
        &self,
        costs: &[u64],
        now: Timestamp,
        rest: &[i64],
        decided: &mut dyn FnMut(Decision),
    ) -> Result<(), ReplyError> {
        let prior = read_state(*self, rest)?;
        decide_each(*self, prior, now, costs, decided);
        Ok(())
    }

    fn read_peek(&self, cost: u64, now: Timestamp, rest: &[i64]) -> Result<Decision, ReplyError> {
        Ok(decide_only(*self, read_state(*self, rest)?, now, cost))
    }
}

/// Decides each cost in order, charging those that fit.
/// The state after it all, where anything was charged.
fn decide_each<M: Counter>(
    machine: M,
    prior: Option<M::State>,
    now: Timestamp,
    costs: &[u64],
    decided: &mut dyn FnMut(Decision),
) -> Option<M::State> {
    let mut state = machine.settle(prior, now.as_micros());
    let mut charged = None;
    for &cost in costs {
        let before = state;
        let after = machine.charge(before, cost);
        if let Some(after) = after {
            state = after;
            charged = Some(after);
        }
        decided(decision(machine, (before, state), cost, after.is_some(), now));
    }
    charged
}

/// Decides one cost and charges nothing.
fn decide_only<M: Counter>(
    machine: M,
    prior: Option<M::State>,
    now: Timestamp,
    cost: u64,
) -> Decision {
    let state = machine.settle(prior, now.as_micros());
    let allowed = machine.charge(state, cost).is_some();
    decision(machine, (state, state), cost, allowed, now)
}

/// What is said of `cost`, given the states before it and after it.
fn decision<M: Counter>(
    machine: M,
    (before, state): (M::State, M::State),
    cost: u64,
    allowed: bool,
    now: Timestamp,
) -> Decision {
    let after = |time: u64| Duration::from_micros(time.saturating_sub(now.as_micros()));
    let verdict = if allowed {
        Verdict::Allowed
    } else if cost > machine.capacity() {
        Verdict::Never
    } else {
        Verdict::Denied { retry_after: after(machine.admitted_at(state, cost)) }
    };
    let turn_after = match verdict {
        Verdict::Never => Duration::ZERO,
        Verdict::Allowed | Verdict::Denied { .. } => after(machine.turn_at(before)),
    };
    let reset_after = after(machine.fresh_at(state));
    let (limit, remaining) = (machine.capacity(), machine.remaining(state));
    Decision { turn_after, ..Decision::new(verdict, limit, remaining, reset_after) }
}

/// A time that a record can carry.
pub(crate) fn is_time(micros: u64) -> bool {
    micros <= Timestamp::MAX.as_micros()
}

/// Up to three integers: a configuration or a state, as records and replies carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    values: [u64; 3],
    len: usize,
}

impl<const N: usize> From<[u64; N]> for Fields {
    fn from(fields: [u64; N]) -> Self {
        let mut values = [0; 3];
        values[..N].copy_from_slice(&fields);
        Fields { values, len: N }
    }
}

impl Fields {
    /// These numbers, where they are few enough.
    pub(crate) fn read(numbers: &[u64]) -> Option<Fields> {
        let mut values = [0; 3];
        values.get_mut(..numbers.len())?.copy_from_slice(numbers);
        Some(Fields { values, len: numbers.len() })
    }
}

impl Deref for Fields {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.values[..self.len]
    }
}

/// What is stored under the key of a constant-size limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterRecord {
    pub(crate) tag: &'static str,
    pub(crate) config: Fields,
    pub(crate) state: Fields,
    forget_at: Timestamp,
}

impl CounterRecord {
    fn new<M: Counter>(machine: M, state: M::State) -> Self {
        let forget_at = machine.fresh_at(state);
        CounterRecord {
            tag: M::TAG,
            config: Counter::config(machine),
            state: M::fields(state),
            forget_at: Timestamp::computed(forget_at)
                .expect("within MAX_SPAN of an accepted time: every configuration's bound"),
        }
    }

    /// The record of this state, as a store kept it.
    pub(crate) fn read<M: Counter>(machine: M, state: &[u64]) -> Option<Self> {
        machine.state(state).map(|state| CounterRecord::new(machine, state))
    }

    pub(crate) fn forget_at(&self) -> Timestamp {
        self.forget_at
    }
}

/// The state that a record holds for this machine.
pub(super) fn load<M: Counter>(machine: M, record: &Record) -> Result<M::State, RecordError> {
    let record = match &record.body {
        Body::Counter(record) if record.tag == M::TAG => record,
        _ => return Err(RecordError::OtherKind),
    };
    if record.config != Counter::config(machine) {
        return Err(RecordError::OtherLimit);
    }
    machine.state(&record.state).ok_or(RecordError::Damaged)
}

/// The prior state in a script's reply, behind its head: no integers where there was none.
fn read_state<M: Counter>(machine: M, rest: &[i64]) -> Result<Option<M::State>, ReplyError> {
    if rest.is_empty() {
        return Ok(None);
    }
    let mut values = [0; 3];
    let fields = values.get_mut(..rest.len()).ok_or(ReplyError::Unexpected)?;
    for (field, number) in fields.iter_mut().zip(rest) {
        *field = read_whole(*number)?;
    }
    machine.state(fields).map(Some).ok_or(ReplyError::Unexpected)
}
