//! The laws of the lock (L1 to L5, L9, L10, D9, D12), on the Rust machine, and on the machine in a
//! store that drops expired keys.
//!
//! `PROPTEST_CASES` says how many cases per property.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::{Acquire, Limit, RecordError, Timestamp};
use lockage_oracle::calendar::bounded;
use lockage_oracle::config::{Config, Kind};
use lockage_oracle::key::{Holds, Key, Slot};
use lockage_oracle::lock::laws::{Case, Seen, Verdict};
use lockage_oracle::lock::watch::{self, obeys, watch};
use lockage_oracle::lock::{Action, OnKey, Op, Outcome, Reference, Subject, Trace, trace};
use lockage_oracle::place::{Model, Time};
use lockage_oracle::properties::{Check, cases, property, try_out};
use lockage_oracle::property::Property as Law;
use lockage_oracle::subject::{self as limits, Failure, Limiter};
use lockage_sim::store::{SimStore, Simulated};
use proptest::prelude::*;

use super::refusals::{refuses_argument, refuses_packed};

/// Cases per property when nothing is asked for.
const DEFAULT_CASES: u32 = 300;

/// The key of a lock "one".
const KEY: &[u8] = b"lockage:{one}";

/// The longest trace: a few grants, more operations than are remembered, and several waiters in line.
const STEPS: usize = 48;

#[test]
fn l1_one_live_lease() {
    holds("l1_exclusion", Law::L1);
}

#[test]
fn l2_holds_are_counted() {
    holds("l2_counting", Law::L2);
}

#[test]
fn l3_only_the_owner() {
    holds("l3_ownership", Law::L3);
}

#[test]
fn l4_leases_only_grow() {
    holds("l4_leases", Law::L4);
}

#[test]
fn l5_tokens_increase() {
    holds("l5_fencing", Law::L5);
}

#[test]
fn l8_free_locks_are_granted() {
    holds("l8_liveness", Law::L8);
}

#[test]
fn l9_queued_waiters_are_not_overtaken() {
    holds("l9_in_line", Law::L9);
}

#[test]
fn l10_repetitions_are_idle() {
    holds("l10_idempotence", Law::L10);
}

#[test]
fn d12_in_range_requests_are_answered() {
    holds("d12_lock_answers", Law::D12);
}

#[test]
fn d9_a_record_is_kept() {
    holds("d9_lock_kept", Law::D9);
}

#[test]
fn d9_a_forgettable_lock_is_fresh() {
    let input = (traces(), trace(STEPS, false));
    property("d9_lock_record", cases(DEFAULT_CASES), &input, |(trace, then)| {
        let (mut kept, mut dropped) = (OnKey(Slot::default()), OnKey(Slot::default()));
        watch::d9_a_forgettable_lock_is_fresh((&mut kept, &mut dropped), &trace, &then)
    });
}

#[test]
fn d12_a_lock_leaves_other_records_alone() {
    let input = (traces(), 0..Kind::ALL.len());
    property("d12_lock_on_others", cases(DEFAULT_CASES), &input, |(trace, kind)| {
        let mut slot = Slot::default();
        let limit = limit(Kind::ALL[kind]);
        _ = slot.execute(&Acquire::new(limit, 1).unwrap(), Timestamp::EPOCH).unwrap();
        let before = slot.clone();
        refuses(&mut OnKey(slot), &trace, RecordError::OtherKind, |lock| lock.0.0 == before.0)
    });
}

#[test]
fn d12_the_scripts_leave_everything_else_alone() {
    let strangers: [(RecordError, &[&[u8]]); 9] = [
        (RecordError::OtherKind, &[b"SET", KEY, b""]),
        (RecordError::OtherKind, &[b"SET", KEY, b"5"]),
        (RecordError::OtherKind, &[b"SET", KEY, b"F1 10 60000000 1763700000000000 1"]),
        (RecordError::OtherVersion, &[b"SET", KEY, b"K1 something else"]),
        (RecordError::Damaged, &[b"SET", KEY, b"K2 not a lock"]),
        (RecordError::OtherKind, &[b"RPUSH", KEY, b"K1", b"x"]),
        (
            RecordError::OtherKind,
            &[b"RPUSH", KEY, b"L1 5 60000000 1 1763700000000000", b"1763700000000000"],
        ),
        (RecordError::OtherKind, &[b"HSET", KEY, b"K1", b"x"]),
        (RecordError::OtherKind, &[b"ZADD", KEY, b"1", b"K1"]),
    ];
    let store = RefCell::new(SimStore::new().unwrap());
    let input = (traces(), 0..strangers.len());
    property("d12_lock_scripts_on_others", cases(DEFAULT_CASES), &input, |(trace, stranger)| {
        store.borrow_mut().flush_all();
        let (error, words) = strangers[stranger];
        store.borrow_mut().execute(words);
        let dump = || {
            let all: [&[&[u8]]; 5] = [
                &[b"GET", KEY],
                &[b"LRANGE", KEY, b"0", b"-1"],
                &[b"HGETALL", KEY],
                &[b"ZRANGE", KEY, b"0", b"-1"],
                &[b"PTTL", KEY],
            ];
            all.map(|words| store.borrow_mut().execute(words))
        };
        let before = dump();
        refuses(&mut lock("one", &store), &trace, error, |_| dump() == before)
    });
}

#[test]
fn d12_limiters_leave_locks_alone() {
    let input = (traces(), 0..Kind::ALL.len());
    property("d12_others_on_lock", cases(DEFAULT_CASES), &input, |(trace, kind)| {
        let mut lock = OnKey(Slot::default());
        let transcript = watch(&mut lock, &trace);
        let (Some(before), Some([_, _, (seen, _)])) = (lock.0.0.clone(), transcript.last()) else {
            return Ok(());
        };
        let mut limiter = Limiter::on(lock.0, limit(Kind::ALL[kind]));
        for op in [limits::Op::Acquire(1), limits::Op::AcquireEach(vec![1, 2]), limits::Op::Peek(1)]
        {
            let outcome = limits::Subject::run(&mut limiter, &op, seen.now_us);
            if !matches!(outcome, limits::Outcome::Refused(_))
                || limiter.key.0.as_ref() != Some(&before)
            {
                return Err(Failure::new(format!(
                    "{op:?} is {outcome:?} and leaves {:?}",
                    limiter.key.0
                )));
            }
        }
        Ok(())
    });
}

#[test]
fn d12_two_locks_are_independent() {
    let [together, alone] = [(); 2].map(|()| RefCell::new(SimStore::new().unwrap()));
    // The clock is the store's, so both locks must see the same times: the second one's operations
    // come at the first one's.
    property("d12_two_locks", cases(DEFAULT_CASES), &(traces(), traces()), |(one, other)| {
        together.borrow_mut().flush_all();
        alone.borrow_mut().flush_all();
        let mut here = lock("one", &together);
        let mut there = lock("other", &together);
        let mut alone = lock("one", &alone);
        let mut others = operations(&other).into_iter();
        one.play(&mut here, |here, op, now_us, seen, _| {
            let expected = alone.run(op, now_us);
            if seen != expected {
                return Err(Failure::new(format!(
                    "{op:?} at {now_us}: {seen:?}, alone {expected:?}"
                )));
            }
            let before = here.0.held();
            if let Some(op) = others.next() {
                there.run(&op, now_us);
            }
            let same = here.0.held() == before;
            same.then_some(())
                .ok_or_else(|| Failure::new(format!("{before:?} was changed by another lock")))
        })
    });
}

#[test]
fn the_traces_reach_everything() {
    let counts = RefCell::new(BTreeMap::new());
    let more = |what: &str, seen: bool| {
        *counts.borrow_mut().entry(what.to_owned()).or_insert(0) += u32::from(seen);
    };
    let watched = try_out(1_000, &traces(), |trace| {
        let queued = |(seen, _): &(Seen, Verdict)| match seen.outcome {
            Outcome::Seen(sight) => sight.queued,
            _ => 0,
        };
        let mut last = 0;
        for [before, (seen, verdict), after] in watch(&mut OnKey(Model::new(Time::Store)), &trace) {
            for case in Case::ALL {
                more(&format!("{case:?}"), verdict.cases.contains(case));
            }
            let fresh = verdict.cases.contains(&Case::Granted);
            let withdraws = matches!(seen.op.action, Action::Withdraw { .. });
            let left = last > queued(&after);
            more("places given up", left && withdraws);
            more("places that end by themselves", left && !withdraws && !fresh);
            last = queued(&after);
            let ahead = matches!(seen.outcome, Outcome::Queued { ahead: 2.., .. });
            more("acquires behind several in line", ahead);
            let left = match seen.outcome {
                Outcome::Released { holds, .. } if verdict.cases.contains(&Case::Released) => {
                    Some(holds)
                }
                _ => None,
            };
            more("releases of one hold of several", left.is_some_and(|holds| holds > 0));
            more("releases of the last hold", left == Some(0));
            more("records that are gone", !seen.was_there);
            let Outcome::Seen(sight) = before.0.outcome else { panic!("{before:?}") };
            more("records there and free", seen.was_there && sight.live.is_none());
        }
        Ok(())
    });
    assert_eq!(watched, Ok(()));
    for (what, count) in counts.into_inner() {
        assert!(count >= 50, "{what}: only {count}");
    }
}

/// Checks that every operation is refused with `error` and that the key is as before.
fn refuses<K: Key>(
    lock: &mut OnKey<K>,
    trace: &Trace,
    error: RecordError,
    same: impl Fn(&OnKey<K>) -> bool,
) -> Check {
    trace.play(lock, |lock, op, now_us, outcome, _| {
        let held = outcome == Outcome::Failed(error.to_string()) && same(lock);
        held.then_some(())
            .ok_or_else(|| Failure::new(format!("{op:?} at {now_us} is {outcome:?}, or wrote")))
    })
}

/// D12: wrong arguments of a script are reported, and nothing is written.
#[test]
fn d12_wrong_arguments_are_errors_and_write_nothing() {
    let lock = Lock::new(Duration::from_secs(1), Duration::from_secs(1)).unwrap();
    let (owner, id) = (OwnerId::from_u128(1), HoldId::from_u128(2));
    let label = "web-1".parse().unwrap();
    let acquire = lock.acquire(owner, id, Timestamp::MAX).labelled(label);
    let acquire = acquire.queued(Duration::from_secs(1));
    let long = "x".repeat(65);
    let wrong = [(3, "1.5"), (4, "7"), (5, "x"), (6, "-1"), (7, "nan"), (8, "1125899906842625")];
    let words = [(9, "Q"), (9, "1"), (10, "two words"), (10, "a|b"), (10, "a>b"), (10, &long)];
    for (place, wrong) in wrong.into_iter().chain(words) {
        refuses_argument(&acquire, place, wrong);
    }
    refuses_argument(&lock.withdraw(owner), 3, "a11ce");
    refuses_argument(&lock.renew(owner, Some(3)), 5, "1.5");
    refuses_argument(&lock.release(owner, id), 5, "x");
    refuses_argument(&lock.force_release(3), 4, "");
    // How long to remember it, the lease, and the latest time.
    refuses_packed(&lock.renew(owner, None), 2);
    refuses_packed(&lock.release(owner, id), 1);
    refuses_packed(&lock.acquire(owner, id, Timestamp::MAX), 3);
}

fn operations(trace: &Trace) -> Vec<Op> {
    let mut operations = Vec::new();
    let played = trace.play(&mut Reference::default(), |_, op, _, _, _| -> Check {
        operations.push(*op);
        Ok(())
    });
    played.map(|()| operations).expect("nothing was checked")
}

/// Returns a lock on one key of a store that other keys share.
fn lock<'s>(id: &str, store: &'s RefCell<SimStore>) -> OnKey<Simulated<'s>> {
    OnKey(Simulated::new(store, Time::Store, id))
}

/// Returns a limit of this kind: 5 per minute.
fn limit(kind: Kind) -> Limit {
    bounded(Config::bucket(kind, 5, 60_000_000, 5).limit(), 0)
}

/// Checks a law on the machine that forgets nothing by itself, and on one whose key expires.
fn holds(name: &str, law: Law) {
    property(name, cases(DEFAULT_CASES), &traces(), |trace| {
        obeys(&[law], &mut OnKey(Slot::default()), &trace)?;
        obeys(&[law], &mut OnKey(Model::new(Time::Store)), &trace)
    });
}

fn traces() -> impl Strategy<Value = Trace> {
    any::<bool>().prop_flat_map(|backwards| trace(STEPS, backwards))
}
