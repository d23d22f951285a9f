//! What the five machines with a constant-size state have in common.
//!
//! Such a machine is a few integers of configuration and a few of state. A script replies the
//! prior state and the store's time, and the decision is computed from those here: it costs the
//! server nothing, and one reply can be folded into the decisions of many requests.

use core::ops::Deref;
use core::time::Duration;

use super::key_state::{LimitState, State};
use super::max_wait::MaxWait;
use crate::command::ScriptId;
use crate::decision::{Decision, Verdict};
use crate::error::RecordError;
use crate::exact::MAX_COUNT;
use crate::limit::Single;
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

    /// The state with `cost` charged, whether it fits or not, of at most [`Counter::holds`] in all.
    fn charge(self, state: Self::State, cost: u64) -> Self::State;

    /// The state with up to `cost` of what was charged given back, the latest first.
    fn give_back(self, state: Self::State, cost: u64) -> Self::State;

    /// Which of the fields counts what was charged in the window of this number; none where that does
    /// not count any more. What a unit of cost is there: see [`Counter::unit`].
    fn counted(self, state: Self::State, window: u64) -> Option<usize>;

    /// The number of the window that the state is in; zero where windows do not matter for it.
    fn window_number(self, _state: Self::State) -> u64 {
        0
    }

    /// What a unit of cost is in the field that counts it.
    fn unit(self) -> u64;

    /// How much is charged, a fraction rounded up. It can be more than the capacity, after a
    /// penalty or a change of the limit.
    fn used(self, state: Self::State) -> u64;

    /// The most that a fresh state can be charged, so that every step stays exact.
    fn holds(self) -> u64;

    /// A settled state of a limit of this kind under another configuration, as one of this: with as
    /// much charged, a fraction rounded up. `fresh` is this one's state if it was never used.
    fn carry(self, old: Self, state: Self::State, fresh: Self::State) -> Self::State;

    /// The largest cost that fits.
    fn remaining(self, state: Self::State) -> u64;

    /// The first time at which `cost`, which does not fit now but is within the capacity, fits.
    fn admitted_at(self, state: Self::State, cost: u64) -> u64;

    /// The first time from which the state acts like a fresh one; it may be forgotten from then on.
    fn fresh_at(self, state: Self::State) -> u64;

    /// Until when a state is kept that does not act like a fresh one but may be charged again: at least until
    /// then, and the same for all states within one stretch of time, so that a store sets the expiry anew but
    /// once in each. None where that is not so, as of a state with more charged than its capacity.
    fn kept_until(self, state: Self::State) -> Option<u64>;

    /// When it is the turn of what is charged next: all that is charged now is then gone. Most machines
    /// have no turns: what they admit may go ahead at once.
    fn turn_at(self, _state: Self::State) -> u64 {
        0
    }

    /// The configuration as integers, reduced: equal for limits that act alike.
    fn config(self) -> Fields;
    fn fields(state: Self::State) -> Fields;
    /// The state of these fields, which a record or a reply carried; nothing where no state of
    /// this configuration has them, so that no step can overflow.
    fn state(self, fields: &[u64]) -> Option<Self::State>;
}

/// A [`Counter`] whose states are [`Fields`], whichever it is. They are of its own making, or read by
/// [`Machine::state`].
pub(crate) trait Machine {
    /// The kind and version of its record, such as `F1`.
    fn tag(&self) -> &'static str;
    fn acquire_script(&self) -> ScriptId;
    /// See [`Counter::config`].
    fn config(&self) -> Fields;
    /// The state of these numbers, if it is one.
    fn state(&self, numbers: &[u64]) -> Option<Fields>;
    /// How many numbers a state has.
    fn state_len(&self) -> usize;

    fn capacity(&self) -> u64;
    fn settle(&self, state: Option<Fields>, now: u64) -> Fields;
    fn charge(&self, state: Fields, cost: u64) -> Fields;
    fn give_back(&self, state: Fields, cost: u64) -> Fields;
    fn counted(&self, state: Fields, window: u64) -> Option<usize>;
    fn window_number(&self, state: Fields) -> u64;
    fn unit(&self) -> u64;
    fn used(&self, state: Fields) -> u64;
    fn holds(&self) -> u64;
    fn remaining(&self, state: Fields) -> u64;
    fn admitted_at(&self, state: Fields, cost: u64) -> u64;
    fn fresh_at(&self, state: Fields) -> u64;
    fn kept_until(&self, state: Fields) -> Option<u64>;
    fn turn_at(&self, state: Fields) -> u64;

    /// Decides each cost in order at one `now`, charges those that fit and whose turn is within
    /// `patience`, and tells `decided`. The state after it all, where anything was charged.
    fn decide_each(
        &self,
        prior: Option<Fields>,
        now: Timestamp,
        costs: &[u64],
        patience: MaxWait,
        decided: &mut dyn FnMut(Decision),
    ) -> Option<Fields>;

    /// Decides one cost and charges nothing.
    fn decide_only(&self, prior: Option<Fields>, now: Timestamp, cost: u64) -> Decision;
}

impl<M: Counter> Machine for M {
    fn tag(&self) -> &'static str {
        M::TAG
    }

    fn acquire_script(&self) -> ScriptId {
        M::ACQUIRE
    }

    fn config(&self) -> Fields {
        Counter::config(*self)
    }

    fn state(&self, numbers: &[u64]) -> Option<Fields> {
        Counter::state(*self, numbers).map(M::fields)
    }

    fn state_len(&self) -> usize {
        M::fields(Counter::settle(*self, None, 0)).len()
    }

    fn capacity(&self) -> u64 {
        Counter::capacity(*self)
    }

    fn settle(&self, state: Option<Fields>, now: u64) -> Fields {
        M::fields(Counter::settle(*self, state.map(|state| typed(*self, state)), now))
    }

    fn charge(&self, state: Fields, cost: u64) -> Fields {
        M::fields(Counter::charge(*self, typed(*self, state), cost))
    }

    fn give_back(&self, state: Fields, cost: u64) -> Fields {
        M::fields(Counter::give_back(*self, typed(*self, state), cost))
    }

    fn counted(&self, state: Fields, window: u64) -> Option<usize> {
        Counter::counted(*self, typed(*self, state), window)
    }

    fn window_number(&self, state: Fields) -> u64 {
        Counter::window_number(*self, typed(*self, state))
    }

    fn unit(&self) -> u64 {
        Counter::unit(*self)
    }

    fn used(&self, state: Fields) -> u64 {
        Counter::used(*self, typed(*self, state))
    }

    fn holds(&self) -> u64 {
        Counter::holds(*self)
    }

    fn remaining(&self, state: Fields) -> u64 {
        Counter::remaining(*self, typed(*self, state))
    }

    fn admitted_at(&self, state: Fields, cost: u64) -> u64 {
        Counter::admitted_at(*self, typed(*self, state), cost)
    }

    fn fresh_at(&self, state: Fields) -> u64 {
        Counter::fresh_at(*self, typed(*self, state))
    }

    fn kept_until(&self, state: Fields) -> Option<u64> {
        Counter::kept_until(*self, typed(*self, state))
    }

    fn turn_at(&self, state: Fields) -> u64 {
        Counter::turn_at(*self, typed(*self, state))
    }

    fn decide_each(
        &self,
        prior: Option<Fields>,
        now: Timestamp,
        costs: &[u64],
        patience: MaxWait,
        decided: &mut dyn FnMut(Decision),
    ) -> Option<Fields> {
        let prior = prior.map(|state| typed(*self, state));
        let mut state = Counter::settle(*self, prior, now.as_micros());
        let mut charged = false;
        for &cost in costs {
            let before = state;
            let in_time = patience.in_time_at(Counter::turn_at(*self, before)) <= now.as_micros();
            let allowed = in_time && cost <= Counter::remaining(*self, before);
            if allowed {
                state = Counter::charge(*self, before, cost);
                charged = true;
            }
            decided(decision(*self, (before, state), cost, allowed, patience, now));
        }
        charged.then(|| M::fields(state))
    }

    fn decide_only(&self, prior: Option<Fields>, now: Timestamp, cost: u64) -> Decision {
        let prior = prior.map(|state| typed(*self, state));
        let state = Counter::settle(*self, prior, now.as_micros());
        let allowed = cost <= Counter::remaining(*self, state);
        decision(*self, (state, state), cost, allowed, MaxWait::ENDLESS, now)
    }
}

fn typed<M: Counter>(machine: M, state: Fields) -> M::State {
    machine.state(&state).expect("states are of the machine's own making, or were read by it")
}

/// What is said of `cost`, given the states before it and after it.
fn decision<M: Counter>(
    machine: M,
    (before, state): (M::State, M::State),
    cost: u64,
    allowed: bool,
    patience: MaxWait,
    now: Timestamp,
) -> Decision {
    let after = |time: u64| Duration::from_micros(time.saturating_sub(now.as_micros()));
    let verdict = if allowed {
        Verdict::Allowed
    } else if cost > machine.capacity() {
        Verdict::Never
    } else {
        let has_room = cost <= machine.remaining(state);
        let room_at = if has_room { 0 } else { machine.admitted_at(state, cost) };
        // A turn stays where it is, and comes closer.
        let in_time_at = patience.in_time_at(machine.turn_at(state));
        Verdict::denied(after(room_at.max(in_time_at)))
    };
    let turn_after = match verdict {
        Verdict::Never => Duration::ZERO,
        Verdict::Allowed | Verdict::Denied { .. } => after(machine.turn_at(before)),
    };
    let reset_after = after(machine.fresh_at(state));
    let (limit, remaining) = (machine.capacity(), machine.remaining(state));
    Decision { turn_after, ..Decision::new(verdict, limit, remaining, reset_after) }
}

/// From when on a state may be forgotten: not before it is as a fresh one.
pub(super) fn forget_at(machine: &dyn Machine, state: Fields) -> u64 {
    machine.kept_until(state).unwrap_or_else(|| machine.fresh_at(state))
}

/// The end of the stretch after that in which `time` is, where each is so long, as far as times are exact.
pub(super) fn next_stretch_ends(time: u64, length: u64) -> u64 {
    ((time / length + 2) * length).min(MAX_COUNT)
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
    #[inline]
    fn from(fields: [u64; N]) -> Self {
        let mut values = [0; 3];
        values[..N].copy_from_slice(&fields);
        Fields { values, len: N }
    }
}

impl Fields {
    /// The same but for one of them.
    pub(super) fn with(mut self, index: usize, value: u64) -> Self {
        self.values[index] = value;
        self
    }
}

impl Deref for Fields {
    type Target = [u64];

    #[inline]
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
    /// See [`Counter::kept_until`].
    kept_until: Option<u64>,
    forget_at: Timestamp,
}

impl CounterRecord {
    /// The record of a state, which the machine made or read.
    pub(crate) fn new(machine: &dyn Machine, state: Fields) -> Self {
        let kept_until = machine.kept_until(state);
        let forget_at = Timestamp::computed(forget_at(machine, state))
            .expect("within MAX_SPAN of an accepted time: every configuration's bound");
        let (tag, config) = (machine.tag(), machine.config());
        CounterRecord { tag, config, state, kept_until, forget_at }
    }

    pub(crate) fn forget_at(&self) -> Timestamp {
        self.forget_at
    }

    /// See [`Record::is_kept_as`](crate::Record::is_kept_as).
    pub(crate) fn is_kept_as(&self, earlier: &CounterRecord) -> bool {
        let is_same = self.tag == earlier.tag && self.config == earlier.config;
        is_same && self.kept_until.is_some() && self.kept_until == earlier.kept_until
    }

    /// The limit that it was written under, and its state.
    pub(super) fn standpoint(&self) -> Result<LimitState, RecordError> {
        let limit = Single::read(self.tag, &self.config).ok_or(RecordError::Damaged)?;
        Ok(LimitState { limit, state: State::Counter(self.state) })
    }

    /// Whether it was written under this machine's configuration.
    pub(crate) fn is_of(&self, machine: &dyn Machine) -> bool {
        self.tag == machine.tag() && self.config == machine.config()
    }
}
