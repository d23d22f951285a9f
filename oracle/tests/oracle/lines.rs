//! Callers in line: each asks in its turn, as soon as its permit is there, and no longer than it said.

use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::flow::{Line, Look, Step};
use lockage_core::{Acquire, Command, Decision, Limit, Record, Timestamp, Verdict};
use lockage_oracle::properties::{Check, cases, property};
use lockage_oracle::subject::Failure as Broken;
use proptest::prelude::*;

const DEFAULT_CASES: u32 = 1000;
const BEGIN: Duration = Duration::from_secs(1_000_000);
const SILENCE: Duration = Duration::from_secs(1);
/// The shortest pause after a first denial.
const LEAST: Duration = Duration::from_millis(1);

const LIMITS: [&str; 8] = [
    "token-bucket 100/s burst 1",
    "token-bucket 20/s burst 20",
    "token-bucket 8 every 100ms burst 16",
    "fixed-window 9/200ms",
    "sliding-log 9/200ms",
    "sliding-window 9/200ms",
    "token-bucket 50/s burst 9 + sliding-log 20/500ms",
    "leaky-bucket 100/s queue 9",
];

#[derive(Clone, Copy, Debug)]
struct Caller {
    /// Milliseconds after the one before it.
    gap: u64,
    cost: u64,
    timeout: u64,
    /// The milliseconds after which it is dropped.
    drops: Option<u64>,
}

#[derive(Clone, Debug)]
struct Case {
    limit: usize,
    callers: Vec<Caller>,
    /// Microseconds there and back, one after the other.
    trips: Vec<u64>,
    /// Calls of other processes: after how many milliseconds, and of which cost.
    others: Vec<(u64, u64)>,
    /// Which calls fail.
    fails: Vec<bool>,
    random: u64,
}

fn case(is_alone: bool) -> impl Strategy<Value = Case> {
    let drops = if is_alone { Just(None).boxed() } else { prop::option::of(0..900u64).boxed() };
    let timeout = if is_alone { Just(1_000_000).boxed() } else { (0..2000u64).boxed() };
    let gap = prop_oneof![Just(0), 0..60u64];
    let caller = (gap, 1..12u64, timeout, drops).prop_map(|(gap, cost, timeout, drops)| Caller {
        gap,
        cost,
        timeout,
        drops,
    });
    let many = if is_alone { 0 } else { 30 };
    (
        0..LIMITS.len(),
        prop::collection::vec(caller, 1..24),
        prop::collection::vec(if is_alone { 0..1u64 } else { 0..30_000u64 }, 1..9),
        prop::collection::vec((0..100u64, 1..4u64), 0..=many),
        prop::collection::vec(
            if is_alone { Just(false).boxed() } else { (0..9u8).prop_map(|it| it == 0).boxed() },
            1..9,
        ),
        any::<u64>(),
    )
        .prop_map(|(limit, callers, trips, others, fails, random)| Case {
            limit,
            callers,
            trips,
            others,
            fails,
            random,
        })
}

#[derive(Debug)]
enum Event {
    Joins,
    Looks,
    Decides,
    Answered(Option<Decision>),
    Drops,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away,
    Waits(u64),
    Asks(u64),
    Ended,
}

/// Runs a case, and returns when each caller was admitted.
struct Run<'c> {
    case: &'c Case,
    limit: Limit,
    slot: Option<Record>,
    line: Line,
    events: BTreeMap<(Duration, usize), (usize, Event)>,
    states: Vec<State>,
    deadlines: Vec<Duration>,
    admitted: Vec<Option<Duration>>,
    calls: usize,
    made: usize,
}

impl<'c> Run<'c> {
    fn new(case: &'c Case) -> Self {
        let limit = LIMITS[case.limit].parse().expect("a limit");
        let count = case.callers.len();
        let mut run = Run {
            case,
            limit,
            slot: None,
            line: Line::new(SILENCE),
            events: BTreeMap::new(),
            states: vec![State::Away; count],
            deadlines: vec![Duration::ZERO; count],
            admitted: vec![None; count],
            calls: 0,
            made: 0,
        };
        let mut at = BEGIN;
        for (index, caller) in case.callers.iter().enumerate() {
            at += Duration::from_millis(caller.gap);
            run.push(at, index, Event::Joins);
            run.deadlines[index] = at + Duration::from_millis(caller.timeout);
            if let Some(drops) = caller.drops {
                run.push(at + Duration::from_millis(drops), index, Event::Drops);
            }
        }
        run
    }

    fn push(&mut self, at: Duration, caller: usize, event: Event) {
        self.made += 1;
        self.events.insert((at, self.made), (caller, event));
    }

    fn cost(&self, caller: usize) -> u64 {
        self.case.callers[caller].cost.min(self.limit.capacity())
    }

    fn decide(&mut self, cost: u64, now: Duration) -> Decision {
        let acquire = Acquire::new(self.limit, cost).expect("above zero").within(Duration::MAX);
        acquire.apply(&mut self.slot, Timestamp::EPOCH.saturating_add(now)).expect("its own slot")
    }

    fn run(mut self) -> Result<Vec<Option<Duration>>, Broken> {
        let mut others: Vec<(Duration, u64)> = Vec::new();
        let mut at = BEGIN;
        for (gap, cost) in &self.case.others {
            at += Duration::from_millis(*gap);
            others.push((at, *cost));
        }
        let mut others = others.into_iter().peekable();
        while let Some(((now, _), (caller, event))) = self.events.pop_first() {
            while let Some((at, cost)) = others.next_if(|(at, _)| *at <= now) {
                let cost = cost.min(self.limit.capacity());
                let _ = self.decide(cost, at);
            }
            self.happen(now, caller, event)?;
        }
        ensure(self.line.is_empty(), || "the line outlives its callers".to_owned())?;
        Ok(self.admitted)
    }

    fn happen(&mut self, now: Duration, caller: usize, event: Event) -> Check {
        match (event, self.states[caller]) {
            (Event::Joins, _) => {
                let timeout = self.deadlines[caller] - now;
                let number = self.line.join(self.cost(caller), now, timeout);
                self.states[caller] = State::Waits(number);
                self.look(now, caller, number)
            }
            (Event::Looks, State::Waits(number)) => self.look(now, caller, number),
            (Event::Decides, State::Asks(_)) => {
                let decision = self.decide(self.cost(caller), now);
                let trip = self.case.trips[self.calls % self.case.trips.len()];
                let fails = self.case.fails[self.calls % self.case.fails.len()];
                let answer = Event::Answered((!fails).then_some(decision));
                self.push(now + Duration::from_micros(trip), caller, answer);
                Ok(())
            }
            (Event::Answered(None), State::Asks(number)) => {
                self.line.failed(number, now);
                self.end(now, caller)
            }
            (Event::Answered(Some(decision)), State::Asks(number)) => {
                let random = self.case.random.rotate_left(self.calls as u32);
                let step = self.line.answered(number, &decision, Some(&self.limit), now, random);
                match step {
                    Step::Wait => {
                        self.states[caller] = State::Waits(number);
                        self.push(now, caller, Event::Looks);
                        Ok(())
                    }
                    Step::Done | Step::Turn(_) => {
                        if decision.is_allowed() {
                            self.admitted[caller] = Some(now);
                        }
                        self.end(now, caller)
                    }
                }
            }
            (Event::Drops, State::Waits(number) | State::Asks(number)) => {
                self.line.left(number);
                self.deadlines[caller] = now;
                self.end(now, caller)
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, now: Duration, caller: usize) -> Check {
        self.states[caller] = State::Ended;
        let longest = Duration::from_micros(2 * self.case.trips.iter().max().expect("some"));
        let late = now.saturating_sub(self.deadlines[caller]);
        ensure(late <= longest, || format!("caller {caller} ends {late:?} too late"))?;
        self.call(now);
        Ok(())
    }

    /// Lets the called callers look.
    fn call(&mut self, now: Duration) {
        let called: Vec<u64> = self.line.called().collect();
        for caller in 0..self.states.len() {
            if matches!(self.states[caller], State::Waits(number) if called.contains(&number)) {
                self.push(now, caller, Event::Looks);
            }
        }
    }

    fn look(&mut self, now: Duration, caller: usize, number: u64) -> Check {
        match self.line.look(number, now) {
            Look::Sleep(time) => {
                ensure(!time.is_zero(), || "it looks for ever".to_owned())?;
                ensure(now + time <= self.deadlines[caller], || format!("it sleeps for {time:?}"))?;
                self.push(now + time, caller, Event::Looks);
                Ok(())
            }
            Look::Denied(decision) => {
                ensure(!decision.is_allowed(), || format!("{decision:?}"))?;
                let comes = decision.retry_after().map(|after| now + after);
                let is_late = comes.is_none_or(|at| at >= self.deadlines[caller]);
                ensure(is_late, || format!("{decision:?} is in time"))?;
                self.end(now, caller)
            }
            Look::Ask => {
                self.calls += 1;
                // The callers before it ask, too.
                let is_last_word = now >= self.deadlines[caller];
                let waits = |state: &State| matches!(state, State::Waits(_));
                let before = self.states[..caller].iter().position(waits);
                ensure(before.is_none() || is_last_word, || {
                    format!("caller {caller} asks before {before:?}")
                })?;
                self.states[caller] = State::Asks(number);
                let trip = self.case.trips[self.calls % self.case.trips.len()];
                self.push(now + Duration::from_micros(trip), caller, Event::Decides);
                self.call(now);
                Ok(())
            }
        }
    }
}

#[test]
fn each_asks_in_its_turn_and_none_waits_longer_than_it_said() {
    property("lines_turns", cases(DEFAULT_CASES), &case(false), |case| {
        Run::new(&case).run().map(drop)
    });
}

/// D2: large costs and small ones, each as soon as it fits after those before it.
#[test]
fn without_other_processes_each_is_admitted_when_a_reference_in_order_would_admit_it() {
    property("lines_order", cases(DEFAULT_CASES), &case(true), |case| {
        let admitted = Run::new(&case).run()?;
        let mut reference = Run::new(&case);
        let (mut arrives, mut now) = (BEGIN, BEGIN);
        for (caller, admitted) in admitted.into_iter().enumerate() {
            arrives += Duration::from_millis(case.callers[caller].gap);
            now = now.max(arrives);
            let cost = reference.cost(caller);
            while let Verdict::Denied { retry_after, .. } = reference.decide(cost, now).verdict {
                now += retry_after;
            }
            let Some(admitted) = admitted else {
                return Err(Broken::new(format!("caller {caller} is never admitted")));
            };
            let slack = LEAST * (caller as u32 + 1);
            ensure(admitted >= now && admitted <= now + slack, || {
                format!("caller {caller} is admitted {admitted:?}, and not {now:?}")
            })?;
        }
        Ok(())
    });
}

fn ensure(held: bool, seen: impl FnOnce() -> String) -> Check {
    if held { Ok(()) } else { Err(Broken::new(seen())) }
}
