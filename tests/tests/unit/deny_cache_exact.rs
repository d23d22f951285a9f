//! The answers of a deny cache match the store's: the same verdict, and bounds that hold.

use std::cell::Cell;
use std::time::Duration;

use lockage::limiter::{DenyCache, RequestId};
use lockage::{Decision, Error, Limiter, RetryStore};
use lockage_memory::MemoryStore;
use lockage_oracle::config::Kind;
use lockage_oracle::properties::{Check, cases, property};
use lockage_oracle::strategies::{Trace, forward, forward_trace, request_trace};
use lockage_oracle::subject::{Answer, Failure, Machine, Op, Outcome, Subject, Verdict};
use lockage_tests::clocks::{Distant, LocalClock, RealTime, StoreClock};
use proptest::collection::vec;
use proptest::prelude::*;

/// Cases per limiter when nothing is asked for.
const DEFAULT_CASES: u32 = 2000;
const STEPS: usize = 40;

/// Any traffic of a limiter with a cache and of one without on the same key, over any way to the
/// store, with clocks that go apart by as much as the cache allows for.
#[test]
fn a_local_answer_is_the_stores_and_its_times_are_bounds() {
    // A denial for want of a place is over as soon as one is given back, and not cached.
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::InFlight) {
        let hits = Cell::new(0);
        let name = format!("deny_cache_{}", kind.name());
        let some_again = forward(request_trace(kind, STEPS));
        let traces = prop_oneof![3 => forward_trace(kind, STEPS), 1 => some_again];
        // The limiter knows zones as they were, the twin by today's rules.
        let traces = traces.prop_filter("no zone", |trace| !trace.limits.has_zone());
        let input = (traces, conditions());
        property(&name, cases(DEFAULT_CASES), &input, |(trace, conditions)| {
            let mut process = Process::new(&trace, conditions);
            process.check(&trace)?;
            hits.set(hits.get() + process.hits);
            Ok(())
        });
        assert!(
            hits.get() > u64::from(cases(DEFAULT_CASES)) / 4,
            "{}: too few to tell",
            hits.get()
        );
    }
}

/// The conditions of a run, apart from its traffic.
#[derive(Clone, Debug)]
struct Conditions {
    /// The slowness of the process's clock, in millionths.
    slow_ppm: i64,
    /// The place of the trace's times within a microsecond of the store's.
    fraction_ns: u64,
    /// Taken in turn.
    turns: Vec<Turn>,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    by_other: bool,
    there_ns: u64,
    back_ns: u64,
}

fn conditions() -> impl Strategy<Value = Conditions> {
    // Two clocks, each off by up to 500 ppm.
    let slow_ppm = prop_oneof![Just(0), Just(1000), -1000..=1000_i64];
    let way = || prop_oneof![6 => Just(0), 3 => 0..3_000_u64, 1 => 0..3_000_000_u64];
    let turn = (prop::bool::weighted(0.2), way(), way());
    let turn = turn.prop_map(|(by_other, there_ns, back_ns)| Turn { by_other, there_ns, back_ns });
    (slow_ppm, 0..1000_u64, vec(turn, 1..8)).prop_map(|(slow_ppm, fraction_ns, turns)| Conditions {
        slow_ppm,
        fraction_ns,
        turns,
    })
}

type Memory = MemoryStore<StoreClock>;

struct Process {
    conditions: Conditions,
    turn: usize,
    real: RealTime,
    start_us: u64,
    store: Distant<Memory>,
    cached: Limiter<RetryStore<Distant<Memory>, LocalClock>>,
    other: Limiter<Distant<Memory>>,
    /// Gets all calls of the store, at the store's times, and all calls that the cache answered.
    twin: Machine,
    hits: u64,
    seen: Check,
}

impl Process {
    fn new(trace: &Trace, conditions: Conditions) -> Self {
        let (real, start_us) = (RealTime::default(), trace.start_us);
        let limit = trace.limits.limit();
        let clock = StoreClock { real: real.clone(), start_us };
        let store = Distant::new(MemoryStore::with_clock(clock.clone()), real.clone());
        let local = LocalClock { real: real.clone(), slow_ppm: conditions.slow_ppm };
        let timed = RetryStore::new(store.clone(), local, Duration::MAX);
        let cached = Limiter::new(timed, limit).with_clock(clock.clone());
        let cached = cached.with_deny_cache(DenyCache::new(1)).unwrap();
        let other = Limiter::new(store.clone(), limit).with_clock(clock);
        let twin = Machine::new(limit);
        let (turn, hits, seen) = (0, 0, Ok(()));
        Process { conditions, turn, real, start_us, store, cached, other, twin, hits, seen }
    }

    fn check(&mut self, trace: &Trace) -> Check {
        trace.play(self, |process, _, _, _| process.seen.clone())?;
        let stats = self.cached.deny_cache_stats().unwrap();
        match stats.hits == self.hits && stats.entries <= 1 {
            true => Ok(()),
            false => Err(Failure::new(format!("{} hits, but {stats:?}", self.hits))),
        }
    }
}

impl Subject for Process {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        let turn = self.conditions.turns[self.turn % self.conditions.turns.len()];
        self.turn += 1;
        self.real.pass_until_ns((now_us - self.start_us) * 1000 + self.conditions.fraction_ns);
        self.store.set_way(turn.there_ns, turn.back_ns);
        let calls = self.store.calls();
        // To reset is to give back: another consumer's would not be known.
        let outcome = match turn.by_other && *op != Op::Reset {
            true => pollster::block_on(ask(&self.other, op)),
            false => pollster::block_on(ask(&self.cached, op)),
        };
        let local = self.store.calls() == calls;
        let decided_ns = if local { self.real.now_ns() } else { self.store.executed_ns() };
        let decided_us = self.start_us.saturating_add(decided_ns / 1000);
        let twin = self.twin.run(op, decided_us.min(lockage_oracle::key::MAX_TIME_US));
        self.hits += u64::from(local);
        self.seen = match (local, &outcome, &twin) {
            (true, Outcome::Decided(local), Outcome::Decided(twin)) => bounds(local, twin),
            (false, outcome, twin) if outcome.decides_like(twin) => Ok(()),
            _ => Err("differs".to_owned()),
        }
        .map_err(|why| {
            let who = if local { "the cache" } else { "the store" };
            Failure::new(format!(
                "{op:?} at {decided_us}: {why}: {who} said {outcome:?}, its twin {twin:?}"
            ))
        });
        outcome
    }

    fn forget(&mut self) {
        unreachable!("traces do not");
    }
}

/// Checks that each local answer has the verdict of the store's, and keeps the guarantees on its other fields.
fn bounds(local: &[Answer], store: &[Answer]) -> Result<(), String> {
    if local.len() != store.len() {
        return Err("as many answers as costs".to_owned());
    }
    for (local, store) in local.iter().zip(store) {
        let holds = match (local.verdict, store.verdict) {
            (
                Verdict::Denied { retry_after_us: local },
                Verdict::Denied { retry_after_us: store },
            ) => (1..=store).contains(&local),
            (Verdict::Never, Verdict::Never) => true,
            _ => return Err("another verdict".to_owned()),
        };
        if !holds
            || local.limit != store.limit
            || local.remaining < store.remaining
            || local.reset_after_us > store.reset_after_us
            || local.turn_after_us > store.turn_after_us
        {
            return Err("not a bound".to_owned());
        }
    }
    Ok(())
}

async fn ask<S: lockage::Store>(limiter: &Limiter<S>, op: &Op) -> Outcome {
    let one = |decision: Decision| Outcome::Decided(vec![decision.into()]);
    let outcome = match op {
        Op::Acquire(cost) => limiter.try_acquire("id", *cost).await.map(one),
        Op::Request { cost, id, remember_us } => {
            let (id, remember) = (RequestId::from_u128(*id), Duration::from_micros(*remember_us));
            limiter.try_acquire_once("id", *cost, id, remember).await.map(one)
        }
        Op::AcquireEach(costs) => {
            let decided = limiter.try_acquire_each("id", costs).await;
            decided.map(|all| Outcome::Decided(all.into_iter().map(Answer::from).collect()))
        }
        Op::Peek(cost) => limiter.peek("id", *cost).await.map(one),
        Op::Reset => limiter.reset("id").await.map(|existed| Outcome::Reset { existed }),
        Op::ByPart { .. }
        | Op::Adjust { .. }
        | Op::Change(_)
        | Op::TakeTurn { .. }
        | Op::CancelTurn(_) => {
            unreachable!("not in these traces")
        }
    };
    outcome.unwrap_or_else(|error| match error {
        Error::Store(lockage::StoreError::Record(error)) => Outcome::Refused(error.to_string()),
        other => panic!("{other}"),
    })
}
