//! The common parts of the algorithms: a configuration and a state of a few integers each.
//!
//! A script replies the prior state and the store's time, and the decision is computed from those here: it costs the
//! server nothing, and one reply can be folded into the decisions of many requests.

use core::fmt;
use core::ops::Deref;

use super::Limit;
use super::share::Shares;
use crate::error::ConfigError;
use crate::exact::MAX_COUNT;
use crate::limiter::MaxWait;
use crate::time::Timestamp;

/// A limit of one kind as a configuration: in records, on the wire, and in text.
pub(crate) trait Kind {
    /// Returns the configuration as integers, reduced: equal for limits that act alike.
    fn config(&self) -> Config;

    /// Returns the limit of this configuration, if it is valid.
    fn read(config: &[u64]) -> Option<Self>
    where
        Self: Sized;

    /// Writes the text after the word of its kind.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns the numbers that every call under this limit carries besides the configuration, and no record keeps:
    /// those that the machine cannot compute from the configuration and the time.
    fn given(&self) -> &[u64] {
        &[]
    }

    /// Returns the limit with the numbers that [`Kind::given`] returned of one like it, or with none.
    fn with_given(self, _given: &[u64]) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Returns one of equal parts of this limit.
    fn share(&self, shares: Shares) -> Result<Limit, ConfigError>;
}

/// An algorithm with a state of constant size. Times are microseconds since the epoch.
///
/// `settle` brings a state to `now`, or to the time that the state has already seen where `now`
/// is before it (property D10). The other functions take a settled state.
pub(crate) trait Machine {
    fn capacity(&self) -> u64;

    /// Returns the state that counts at `now`; a fresh one if there is none.
    fn settle(&self, state: Option<State>, now: u64) -> State;

    /// Returns whether [`Machine::settle`] has the numbers that it needs; otherwise the caller's clock is off.
    ///
    /// A settled state can be settled again at its time, without given numbers.
    #[inline]
    fn can_settle(&self, _state: Option<State>, _now: u64) -> bool {
        true
    }

    /// Returns the state with `cost` charged even if it does not fit, at most [`Machine::holds`] in all.
    fn charge(&self, state: State, cost: u64) -> State;

    /// Returns the state with up to `cost` of its charge given back, the latest first.
    fn give_back(&self, state: State, cost: u64) -> State;

    /// Returns the index of the number that counts the charge of this window, in units of [`Machine::unit`]; `None` if
    /// that no longer counts.
    fn counted(&self, state: State, window: u64) -> Option<usize>;

    /// Returns the identity of the state's window; `None` for a bucket, which has no windows and empties as time
    /// passes.
    fn window_of(&self, _state: State) -> Option<u64> {
        None
    }

    /// Returns for how long a charge is held at least, in microseconds, if the settlement of its reservation gives back all
    /// of it, whatever the true cost is; `None` for other limits.
    fn lease_us(&self) -> Option<u64> {
        None
    }

    /// Returns the size of a unit of cost in the number that counts it.
    fn unit(&self) -> u64 {
        1
    }

    /// Returns how much is charged, a fraction rounded up. It can exceed the capacity, after a penalty or a change of
    /// the limit.
    fn used(&self, state: State) -> u64;

    /// Returns the most that a fresh state can be charged, so that every step stays exact.
    fn holds(&self) -> u64;

    /// Returns a settled state of a limit of this kind under the configuration `old` as one of this limit, with as much
    /// charged, a fraction rounded up. `fresh` is this limit's unused state.
    fn carry(&self, old: &Config, state: State, fresh: State) -> State;

    /// Returns the largest cost that fits.
    fn remaining(&self, state: State) -> u64;

    /// Returns whether `cost` fits.
    #[inline]
    fn fits(&self, state: State, cost: u64) -> bool {
        cost <= self.remaining(state)
    }

    /// Returns the first time at which `cost`, which is within the capacity and does not fit now, fits.
    fn admitted_at(&self, state: State, cost: u64) -> u64;

    /// Returns the first time from which the state acts like a fresh one; it may be forgotten from then on.
    fn fresh_at(&self, state: State) -> u64;

    /// Returns whether the state, settled or not, acts like a fresh one from `now` on.
    #[inline]
    fn is_fresh(&self, state: State, now: u64) -> bool {
        self.fresh_at(state) <= now
    }

    /// Returns until when a state is kept that does not act like a fresh one but may be charged again, or later. It is
    /// equal for all states within one stretch of time, so that a store changes the expiry only once in each. `None` if
    /// there is no such time, as for a state charged above its capacity.
    fn kept_until(&self, state: State) -> Option<u64>;

    /// Returns when the turn of the next charge comes, if requests have turns: all that is charged now is then gone.
    fn turn_at(&self, _state: State) -> Option<u64> {
        None
    }

    /// Returns whether some state of this configuration has these numbers, so that no step can overflow.
    fn is_sound(&self, state: State) -> bool;

    /// Returns all that a decision on `cost` says about the state, in one call, compiled for each machine.
    fn status(&self, state: State, cost: u64) -> Status {
        let (capacity, remaining) = (self.capacity(), self.remaining(state));
        let is_late = cost > remaining && cost <= capacity;
        Status {
            capacity,
            remaining,
            fresh_at: self.fresh_at(state),
            turn_at: self.turn_at(state),
            room_at: is_late.then(|| self.admitted_at(state, cost)),
        }
    }

    /// Charges `cost` to the state if it fits and its turn is in time; in one call likewise.
    fn decide(&self, state: &mut State, cost: u64, max_wait: MaxWait, now: u64) -> Outcome {
        let turn_at = self.turn_at(*state);
        let allowed = max_wait.allows(turn_at, now) && self.fits(*state, cost);
        if allowed {
            *state = self.charge(*state, cost);
        }
        Outcome { allowed, turn_at, status: self.status(*state, cost) }
    }
}

/// The decision on one cost.
pub(crate) struct Outcome {
    pub(crate) allowed: bool,
    /// When the turn of the cost comes, if there are turns.
    pub(crate) turn_at: Option<u64>,
    /// The status of the limit afterwards.
    pub(crate) status: Status,
}

/// The status of a limit, for a decision on one cost.
#[derive(Clone, Copy)]
pub(crate) struct Status {
    pub(crate) capacity: u64,
    pub(crate) remaining: u64,
    pub(crate) fresh_at: u64,
    /// See [`Machine::turn_at`].
    pub(crate) turn_at: Option<u64>,
    /// The first time at which the cost fits; `None` if it fits now, or never can.
    pub(crate) room_at: Option<u64>,
}

/// Up to three integers, whose meaning the machine knows. Unused ones are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State(pub(crate) [u64; 3]);

impl State {
    /// Returns the state of these numbers, unless there are too many.
    pub(crate) fn read(numbers: &[u64]) -> Option<State> {
        let mut state = State::default();
        state.0.get_mut(..numbers.len())?.copy_from_slice(numbers);
        Some(state)
    }

    /// Returns the state with this number replaced.
    pub(crate) fn with(mut self, index: usize, number: u64) -> Self {
        self.0[index] = number;
        self
    }
}

impl From<[u64; 2]> for State {
    #[inline]
    fn from([first, second]: [u64; 2]) -> Self {
        State([first, second, 0])
    }
}

impl From<[u64; 3]> for State {
    #[inline]
    fn from(numbers: [u64; 3]) -> Self {
        State(numbers)
    }
}

impl From<State> for [u64; 2] {
    #[inline]
    fn from(State([first, second, _]): State) -> Self {
        [first, second]
    }
}

impl From<State> for [u64; 3] {
    #[inline]
    fn from(State(numbers): State) -> Self {
        numbers
    }
}

/// A configuration as integers, at most four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Config {
    numbers: [u64; 4],
    len: usize,
}

impl<const N: usize> From<[u64; N]> for Config {
    fn from(config: [u64; N]) -> Self {
        let mut numbers = [0; 4];
        numbers[..N].copy_from_slice(&config);
        Config { numbers, len: N }
    }
}

impl Deref for Config {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.numbers[..self.len]
    }
}

/// Returns the end of the stretch after that of `time`, where all stretches have this length, as far as times are
/// exact.
pub(super) fn next_stretch_ends(time: u64, length: u64) -> u64 {
    ((time / length + 2) * length).min(MAX_COUNT)
}

/// Returns whether a record can carry this time.
pub(super) fn is_time(micros: u64) -> bool {
    micros <= Timestamp::MAX.as_micros()
}
