//! Locks and their family, and fenced values.

// The bodies of tests, whose names state their properties.
#![allow(missing_docs)]

use std::time::Duration;

use lockage_core::Timestamp;
use lockage_core::rw_lock::{self, HoldId, OwnerId, RwLock};
use lockage_core::semaphore::{self, PermitId, Semaphore};
use proptest::prelude::*;

use crate::key::{Holds, Key};
use crate::place::{Place, Time};
use crate::play::{self, Reference, Trace};
use crate::properties::property_on;
use crate::{fenced, latch, lock};

/// The default number of cases of each machine.
const DEFAULT_CASES: u32 = 500;

/// The longest trace.
const STEPS: usize = 40;

const HOUR: Duration = Duration::from_secs(3600);

pub fn the_lock_is_one_machine_in_three_places(place: &impl Place) {
    let input = (lock::trace(24, !place.is_behind_a_seam()), Time::any(5_000));
    property_on(place, "three_way_lock", 300, &input, |(trace, time)| {
        let mut on_place = lock::OnKey(place.key(time));
        lock::equality::equals_the_model(&mut lock::OnKey(place.model(time)), &mut on_place, &trace)
    });
}

pub fn the_semaphore_is_one_machine_in_three_places(place: &impl Place) {
    let traces = crate::semaphore::any_trace(STEPS);
    one_machine::<crate::semaphore::Reference>(place, "three_way_semaphore", traces);
}

pub fn the_read_write_lock_is_one_machine_in_three_places(place: &impl Place) {
    let traces = crate::rw_lock::any_trace(STEPS);
    one_machine::<crate::rw_lock::Reference>(place, "three_way_rw_lock", traces);
}

pub fn the_latch_is_one_machine_in_three_places(place: &impl Place) {
    one_machine::<latch::Reference>(place, "three_way_latch", latch::any_trace(STEPS));
}

pub fn fenced_values_are_the_same_in_three_places(place: &impl Place) {
    property_on(place, "three_way_fenced", 1_000, &fenced::trace(), |trace| {
        let mut model = place.model(Time::Store);
        fenced::equals_the_model(&mut model, &mut place.key(Time::Store), &trace)
    });
}

pub fn a_semaphore_of_the_most_permits_is_the_same_in_three_places(place: &impl Place) {
    let (mut model, mut key) = (place.model(Time::Store), place.key(Time::Store));
    let semaphore = Semaphore::new(400, HOUR, HOUR).unwrap();
    let acquire = |id| semaphore.acquire(PermitId::from_u128(id), 2, Timestamp::MAX).unwrap();
    for id in 0..201 {
        let expected = model.execute(&acquire(id), at(id as u64)).unwrap();
        assert_eq!(key.execute(&acquire(id), at(id as u64)), Ok(expected));
        let fits = matches!(expected.answer, semaphore::Answer::Held(_));
        assert_eq!(fits, id < 200, "{expected:?}");
    }
    assert_eq!(key.held(), model.held());
    // Three more fit once the two oldest have ended.
    let three = semaphore.acquire(PermitId::from_u128(200), 3, Timestamp::MAX).unwrap();
    let answer = model.execute(&three, at(1000)).unwrap().answer;
    assert_eq!(answer, semaphore::Answer::Full { fits_at: at(3_600_000_001) });
    let inspect = semaphore.inspect();
    let seen = model.execute(&inspect, at(1000)).unwrap();
    assert_eq!((seen.used, seen.holders, seen.grants.len()), (400, 200, 50));
    assert_eq!(key.execute(&inspect, at(1000)), Ok(seen));
}

pub fn as_many_readers_as_fit_are_the_same_in_three_places(place: &impl Place) {
    let (mut model, mut key) = (place.model(Time::Store), place.key(Time::Store));
    let lock = RwLock::new(HOUR, HOUR).unwrap();
    let mut last = None;
    for number in 0..65 + 8 {
        // 64 readers and one too many; then the first one reads up to its limit, and once too often.
        let owner = OwnerId::from_u128(if number <= 64 { number } else { 0 });
        let read = lock.read(owner, HoldId::from_u128(number), Timestamp::MAX);
        let now = at(number as u64);
        let expected = model.execute(&read, now).unwrap();
        assert_eq!(key.execute(&read, now), Ok(expected));
        let fits = !matches!(expected.answer, rw_lock::Answer::TooMany { .. });
        assert_eq!(fits, number != 64 && number != 64 + 8, "{number}: {expected:?}");
        last = Some(expected.answer);
    }
    // The first reader's lease ends an hour after its last granted hold.
    assert_eq!(last, Some(rw_lock::Answer::TooMany { retry_at: at(3_600_000_000 + 71) }));
    assert_eq!(key.held(), model.held());
    let seen = model.execute(&lock.inspect(), at(400)).unwrap();
    assert_eq!((seen.holders.len(), seen.holders[0].hold.holds), (64, 8));
    assert_eq!(key.execute(&lock.inspect(), at(400)), Ok(seen));
}

fn one_machine<R: Reference>(
    place: &impl Place,
    name: &str,
    traces: impl Strategy<Value = Trace<R::Ask>>,
) {
    property_on(place, name, DEFAULT_CASES, &(traces, Time::any(5)), |(trace, time)| {
        let trace = if place.is_behind_a_seam() { trace.forward() } else { trace };
        play::equals_the_model::<R>(&mut place.model(time), &mut place.key(time), &trace)
    });
}

/// Returns the time at this many microseconds of the test.
fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(1_763_700_000_000_000 + us).expect("a time")
}
