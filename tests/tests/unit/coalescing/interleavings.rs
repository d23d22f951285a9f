//! Any interleaving of callers that come, are polled and are dropped, and of a store that answers, fails and
//! panics: see [`holds`] for the guarantees.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use lockage::limiter::CoalescingStats;
use lockage::{Decision, Error, Limit, StoreError};
use lockage_core::{Acquire, Command};
use lockage_oracle::properties::{Check, cases, property};
use lockage_oracle::subject::Failure;
use proptest::collection::vec;
use proptest::prelude::*;

use super::gate::{self, Step};
use super::world::{Act, End, World};

/// Cases per limit when nothing is asked for: a few seconds in all.
const DEFAULT_CASES: u32 = 400;

/// A limit of each kind, of five units and the names of some callers.
const LIMITS: [(&str, &str); 5] = [
    ("fixed_window", "fixed-window 5100/10s"),
    ("sliding_log", "sliding-log 5100/10s"),
    ("sliding_window", "sliding-window 5100/10s"),
    ("token_bucket", "token-bucket 5100/10s burst 5100"),
    ("interval_bucket", "token-bucket 2000 every 3s burst 5100"),
];

/// The size of the queue, the acts, and which callers are not polled any more at the end.
type Story = (usize, Vec<Act>, Vec<bool>);

#[test]
fn any_interleaving_decides_as_the_same_requests_sent_singly_in_their_order() {
    for (name, limit) in LIMITS {
        let limit: Limit = limit.parse().unwrap();
        let check = |story| holds(limit, false, story);
        property(&format!("coalescing_{name}"), cases(DEFAULT_CASES), &story(2), check);
    }
}

/// The same of a store that supports batches, where keys share calls and wait for room in them.
#[test]
fn any_interleaving_of_gathered_keys_decides_as_the_same_requests_sent_singly_in_their_order() {
    for (name, limit) in LIMITS {
        let limit: Limit = limit.parse().unwrap();
        let check = |story| holds(limit, true, story);
        property(&format!("gathering_{name}"), cases(DEFAULT_CASES), &story(5), check);
    }
}

fn story(keys: u64) -> impl Strategy<Value = Story> {
    (1..6_usize, vec(act(keys), 1..80), vec(prop::bool::weighted(0.2), 8))
}

fn act(keys: u64) -> impl Strategy<Value = Act> {
    let steps = vec(step(keys), 1..4);
    let tell = (any::<usize>(), steps).prop_map(|(call, steps)| Act::Tell(call, steps));
    prop_oneof![
        10 => by_callers(keys),
        2 => (0..4_000_000_u64).prop_map(Act::Tick),
        5 => tell,
        8 => Just(Act::Drive),
        1 => Just(Act::Kill),
    ]
}

fn by_callers(keys: u64) -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0..keys, 0..7_u64).prop_map(|(key, units)| Act::Arrive(key, units)),
        5 => any::<usize>().prop_map(Act::PollWoken),
        1 => any::<usize>().prop_map(Act::Poll),
        2 => any::<usize>().prop_map(Act::Drop),
    ]
}

fn step(keys: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Yield),
        5 => by_callers(keys).prop_map(|act| Step::Meanwhile(Box::new(act))),
        2 => Just(Step::Execute),
        5 => Just(Step::Answer),
        1 => Just(Step::NotDone),
        1 => Just(Step::Unknown),
        1 => Just(Step::Panic),
    ]
}

/// - Every caller in a call that was answered gets the decision that it would have got, had all requests that
///   were carried out been sent singly, in the order in which their callers came, at the same times.
/// - One in a call that failed gets its error; one that is refused finds the queue full. Where the runtime ends, one
///   that was not sent is not done, and any other unknown.
/// - No request is sent twice, or at all once it is dropped from the queue; of one key no two calls are in
///   flight, and none whose callers have all gone.
/// - Callers that are polled come to their end, whichever others are dropped or not polled any more.
/// - No more wait than may, and in the end nothing is left.
///
/// Where a store supports batches, a key's callers may all go while the call goes on for others.
fn holds(limit: Limit, supports_batch: bool, (max_waiting, acts, stalled): Story) -> Check {
    let world = World::new(limit, max_waiting, supports_batch);
    for act in acts {
        let before = told(&world);
        let newest = world.callers(|callers| callers.len());
        world.act(act.clone());
        let after = told(&world);
        require(after.waiting <= max_waiting, || format!("{after:?} of {max_waiting}"))?;
        one_call_in_flight(&world)?;
        if let Act::Arrive(..) = act {
            is_refused_where_it_must_be(&world, newest, before.waiting == max_waiting)?;
        }
        if !supports_batch && world.is_quiet() {
            every_call_has_a_waiter(&world)?;
        }
    }
    let stalled = |index: usize| stalled[index % stalled.len()];
    world.settle(stalled);
    let waits: Vec<usize> = world.alive(false).into_iter().filter(|i| !stalled(*i)).collect();
    require(waits.is_empty(), || format!("callers {waits:?} wait for ever"))?;
    every_caller_gets_its_own_answer(&world, limit, max_waiting)?;

    world.alive(false).into_iter().for_each(|index| world.cancel(index));
    world.drive();
    let left = told(&world);
    require(left.waiting == 0, || format!("left behind: {left:?}"))?;
    every_call_has_a_waiter(&world)
}

/// A caller that came finds the queue full, or not.
fn is_refused_where_it_must_be(world: &World, newest: usize, full: bool) -> Check {
    world.callers(|callers| {
        let refused = matches!(callers[newest].end, Some(End::Told(Err(Error::QueueFull(_)))));
        require(full == refused, || format!("refused: {refused}, full: {full}"))
    })
}

fn one_call_in_flight(world: &World) -> Check {
    let keys: Vec<String> = world.gate.calls(|calls| {
        calls.iter().filter(|call| call.live).map(|call| call.key.clone()).collect()
    });
    let twice = keys.iter().any(|key| keys.iter().filter(|other| *other == key).count() > 1);
    require(!twice, || format!("two calls for one key are in flight: {keys:?}"))
}

fn every_call_has_a_waiter(world: &World) -> Check {
    let waits = |cost: &u64| {
        world.callers(|all| all.iter().any(|caller| caller.cost == *cost && caller.end.is_none()))
    };
    let left = world
        .gate
        .calls(|calls| calls.iter().any(|call| call.live && !call.costs.iter().any(waits)));
    require(!left, || "a call that nobody waits for holds up the others".into())
}

fn every_caller_gets_its_own_answer(world: &World, limit: Limit, max_waiting: usize) -> Check {
    let mut ends = HashMap::new();
    let mut singly: HashMap<u64, Decision> = HashMap::new();
    let mut slots = HashMap::new();
    world.gate.calls(|calls| {
        let mut latest = HashMap::new();
        for call in calls.iter() {
            for &cost in &call.costs {
                // The names of callers grow as they come.
                let before = latest.insert(call.key.clone(), name(cost));
                require(before < Some(name(cost)), || format!("out of order, or twice: {cost}"))?;
                ends.insert(cost, call.end);
                if let Some(now) = call.executed {
                    let slot = slots.entry(call.key.clone()).or_insert(None);
                    let acquire = Acquire::new(limit, cost).unwrap();
                    singly.insert(cost, acquire.apply(slot, now).unwrap());
                }
            }
        }
        Ok(())
    })?;
    for cost in world.withdrawn.lock().unwrap().iter() {
        require(!ends.contains_key(cost), || format!("{cost} was sent after it was dropped"))?;
    }
    let was_killed = world.was_killed.load(Ordering::SeqCst);
    world.callers(|callers| {
        for caller in callers {
            let Some(End::Told(told)) = &caller.end else { continue };
            let fair = match (ends.get(&caller.cost).copied().flatten(), told) {
                (Some(gate::End::Answered), Ok(decision)) => {
                    Some(decision) == singly.get(&caller.cost)
                }
                (Some(gate::End::NotDone), Err(Error::Store(StoreError::NotDone(_)))) => true,
                (Some(gate::End::Unknown), Err(Error::Store(StoreError::Unknown(_)))) => true,
                (None, Err(Error::QueueFull(full))) => {
                    full.max_waiting == max_waiting && !ends.contains_key(&caller.cost)
                }
                (None, Err(Error::Store(StoreError::NotDone(_)))) => {
                    was_killed && !ends.contains_key(&caller.cost)
                }
                (_, Err(Error::Store(StoreError::Unknown(_)))) => was_killed,
                _ => false,
            };
            require(fair, || {
                format!("{} was told {told:?}, not {:?}", caller.cost, singly.get(&caller.cost))
            })?;
        }
        Ok(())
    })
}

fn name(cost: u64) -> u64 {
    cost % super::world::UNIT
}

fn told(world: &World) -> CoalescingStats {
    world.limiter.coalescing_stats().expect("it coalesces")
}

fn require(held: bool, seen: impl FnOnce() -> String) -> Check {
    if held { Ok(()) } else { Err(Failure::new(seen())) }
}
