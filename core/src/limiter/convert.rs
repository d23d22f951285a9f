//! A key's limits under a record that was written under others.

use alloc::vec;
use alloc::vec::Vec;

use super::key_state::{LimitState, State};
use super::{Counter, Fields};
use crate::limit::Single;

/// How new limits, given as they would be if never used, stand where `old` ones stood, the most of
/// which were charged `most`. None for a log that is to be made from the record's entries.
///
/// What was used stays used, so that right after a change at most the new capacity less what was used
/// remains. A limit that was there before is as it was; one that took the place of another of its kind
/// carries over what is charged and, as far as it can, when that comes back; any other begins with the most
/// that was charged.
pub(super) fn convert(
    fresh: &[LimitState],
    old: &[LimitState],
    most: u64,
) -> Vec<Option<LimitState>> {
    let mut left: Vec<Option<&LimitState>> = old.iter().map(Some).collect();
    let mut parts = vec![None; fresh.len()];
    for (part, new) in parts.iter_mut().zip(fresh) {
        let same =
            left.iter_mut().find(|old| old.is_some_and(|old| old.limit.id() == new.limit.id()));
        let old = same.and_then(Option::take);
        *part = old.map(|old| LimitState { limit: new.limit, state: old.state });
    }
    for (index, (part, new)) in parts.iter_mut().zip(fresh).enumerate() {
        let place = left.get_mut(index).and_then(Option::take);
        if part.is_none()
            && let State::Counter(_) = new.state
        {
            let state = place.and_then(|old| carried(new, old));
            let state = state.unwrap_or_else(|| charged(new, most));
            *part = Some(LimitState { state, ..*new });
        }
    }
    parts
}

/// The state that carries over between limits of one kind.
fn carried(new: &LimitState, old: &LimitState) -> Option<State> {
    let (State::Counter(fresh), State::Counter(state)) = (new.state, old.state) else {
        return None;
    };
    let state = match (new.limit, old.limit) {
        (Single::FixedWindow(new), Single::FixedWindow(old)) => carry(new, old, state, fresh),
        (Single::SlidingWindow(new), Single::SlidingWindow(old)) => carry(new, old, state, fresh),
        (Single::TokenBucket(new), Single::TokenBucket(old)) => carry(new, old, state, fresh),
        (Single::IntervalBucket(new), Single::IntervalBucket(old)) => carry(new, old, state, fresh),
        (Single::LeakyBucket(new), Single::LeakyBucket(old)) => carry(new, old, state, fresh),
        _ => return None,
    };
    Some(State::Counter(state))
}

fn carry<M: Counter>(new: M, old: M, state: Fields, fresh: Fields) -> Fields {
    let read = |machine: M, state: Fields| machine.state(&state).expect("a state of this machine");
    M::fields(new.carry(old, read(old, state), read(new, fresh)))
}

/// The limit as if it had just been charged so much.
fn charged(new: &LimitState, used: u64) -> State {
    let mut part = *new;
    part.charge(used.min(part.holds()), 0);
    part.state
}
