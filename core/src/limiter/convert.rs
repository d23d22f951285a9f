//! A key's limits under a record that was written under others.

use alloc::vec;
use alloc::vec::Vec;

use super::key_state::LimitState;
use crate::limit::State;

/// Returns the state of new limits, given as if never used, in place of `old` ones; the most charged of those was
/// `most`. `None` for a log that is made from the record's entries.
///
/// The used capacity stays used, so that right after a change at most the new capacity less that remains. A limit that
/// was there before is unchanged. One that replaced another of its kind carries over the charge and, as far as it can,
/// the time at which that comes back. Any other begins with the most that was charged.
pub(super) fn convert(
    fresh: &[LimitState],
    old: &[LimitState],
    most: u64,
) -> Vec<Option<LimitState>> {
    let mut left: Vec<Option<&LimitState>> = old.iter().map(Some).collect();
    let mut parts = vec![None; fresh.len()];
    for (part, new) in parts.iter_mut().zip(fresh) {
        let same = left.iter_mut().find(|old| old.is_some_and(|old| old.limit.acts_as(&new.limit)));
        let old = same.and_then(Option::take);
        *part = old.map(|old| LimitState { limit: new.limit, state: old.state });
    }
    for (index, (part, new)) in parts.iter_mut().zip(fresh).enumerate() {
        let place = left.get_mut(index).and_then(Option::take);
        if part.is_none() && !new.is_log() {
            let state = place.and_then(|old| carried(new, old));
            let state = state.unwrap_or_else(|| charged(new, most));
            *part = Some(LimitState { state, ..*new });
        }
    }
    parts
}

/// Returns the state that carries over between limits of one kind.
fn carried(new: &LimitState, old: &LimitState) -> Option<State> {
    let machine = new.limit.machine().filter(|_| new.limit.row().tag == old.limit.row().tag)?;
    Some(machine.carry(&old.limit.config(), old.state, new.state))
}

/// Returns the state of a limit that was just charged this much.
fn charged(new: &LimitState, used: u64) -> State {
    let mut part = *new;
    part.charge(used.min(part.holds()), 0);
    part.state
}
