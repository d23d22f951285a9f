//! The remaining amount of a limit over time, for the key denied most.

use lockage_core::{Acquire, Command, Limit, Peek, Record, Timestamp};

use super::Decided;
use crate::engine::bounded;
use crate::replay::Outcome;

/// The most slots of time.
const SLOTS: u64 = 400;

/// The remaining amounts for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The key denied most; of equals the one with the most requests, then the first.
    pub key: u32,
    /// The most that can remain.
    pub capacity: u64,
    /// When the first slot begins: with the first request of any key.
    pub from: Timestamp,
    /// How long each slot is, in microseconds.
    pub slot_us: u64,
    /// The least that remained in each slot, after any of its decisions.
    pub lowest: Vec<u64>,
}

impl State {
    /// Computes it from outcomes; `None` without requests.
    pub(super) fn of(limit: &Limit, decided: Decided<'_>) -> Option<State> {
        let Decided { trace, outcomes, times, .. } = decided;
        let (from, last_request) = trace.span()?;
        // Waiting callers are decided after their arrival.
        let last = times.iter().copied().max()?.max(last_request);
        let length = last.as_micros() - from.as_micros() + 1;
        let slot_us = length.div_ceil(SLOTS);
        let key = most_denied(decided)?;
        let requests = trace.requests().iter().zip(outcomes).zip(times);
        let admitted = requests
            .filter(|((request, outcome), _)| request.key == key && **outcome == Outcome::Admitted);
        let mut admitted: Vec<(Timestamp, u64)> =
            admitted.map(|((request, _), at)| (*at, request.cost)).collect();
        admitted.sort_by_key(|(at, _)| *at);

        let mut admitted = admitted.into_iter().peekable();
        let mut slot = None;
        let lowest = (0..length.div_ceil(slot_us)).map(|number| {
            let begin = from.as_micros() + number * slot_us;
            let mut lowest = remaining(limit, &mut slot, at(begin));
            let within = |(at, _): &(Timestamp, u64)| at.as_micros() < begin + slot_us;
            while let Some((now, cost)) = admitted.next_if(within) {
                let acquire = Acquire::new(bounded(limit, now), cost).expect("it was decided on");
                let decided = acquire.apply(&mut slot, now);
                lowest = lowest.min(decided.expect("the record is this limit's own").remaining);
            }
            lowest
        });
        let lowest = lowest.collect();
        Some(State { key, capacity: limit.capacity(), from, slot_us, lowest })
    }
}

fn most_denied(decided: Decided<'_>) -> Option<u32> {
    let mut keys = vec![(0u64, 0u64); decided.trace.key_count()];
    for (request, outcome) in decided.trace.requests().iter().zip(decided.outcomes) {
        let (denied, requests) = &mut keys[request.key as usize];
        *denied += u64::from(*outcome != Outcome::Admitted);
        *requests += 1;
    }
    let most = (0..).zip(keys).reduce(|most, key| if key.1 > most.1 { key } else { most });
    most.map(|(key, _)| key)
}

fn remaining(limit: &Limit, slot: &mut Option<Record>, now: Timestamp) -> u64 {
    let peeked = Peek::new(bounded(limit, now), 0).apply(slot, now);
    peeked.expect("the record is this limit's own").remaining
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::measured::tests::trace;
    use super::*;
    use crate::engine::EngineKind;
    use crate::replay::replay;
    use crate::trace::Trace;

    fn state(limit: &str, trace: &Trace) -> State {
        let (limit, mut engine) = (limit.parse().unwrap(), EngineKind::Model.build().unwrap());
        let outcomes = replay(trace, &limit, &mut *engine, || ()).unwrap();
        let times: Vec<Timestamp> = trace.requests().iter().map(|request| request.at).collect();
        let decided = Decided { trace, outcomes: &outcomes, times: &times, waited: false };
        State::of(&limit, decided).unwrap()
    }

    #[test]
    fn remaining_falls_with_admissions_and_refills() {
        let requests = [(100, "b", 1), (103, "a", 4), (104, "a", 2), (104, "a", 9), (118, "b", 1)];
        let trace = trace(requests);
        let State { key, capacity, from, slot_us, lowest } =
            state("token-bucket 1/2us burst 6", &trace);
        assert_eq!((trace.key(key), capacity, from.as_micros(), slot_us), ("a", 6, 100, 1));
        let expected = [6, 6, 6, 2, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 6, 6];
        assert_eq!(lowest, expected);
    }

    #[test]
    fn a_slot_shows_the_least_that_remained_within_it() {
        let trace = trace([(1_000, "a", 5), (1_001, "a", 1), (401_000, "a", 1)]);
        let state = state("fixed-window 5/500us", &trace);
        assert_eq!((state.slot_us, state.lowest.len()), (1001, 400));
        assert_eq!((state.lowest[0], state.lowest[1], state.lowest[399]), (0, 5, 4));
    }
}
