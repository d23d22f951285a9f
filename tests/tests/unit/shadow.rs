//! Shadow mode: nothing is enforced, and the records match the decisions of an enforced limiter.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockage::limiter::{DenyCache, Origin, RequestId, ShadowStats};
use lockage::runtime::Tokio;
use lockage::store::{RecordError, Timestamp};
use lockage::{
    BlockingLimiter, Decision, Error, Fallback, Limiter, RetryStore, StoreError, Verdict,
};
use lockage_core::ManualClock;
use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate};
use lockage_oracle::config::Kind;
use lockage_oracle::properties::{Check, cases, property};
use lockage_oracle::strategies::{Trace, forward, request_trace};
use lockage_oracle::subject::{Answer, Failure, Machine, Op, Outcome, Subject};
use proptest::strategy::Strategy;
use tokio::time::Instant;

/// Cases per limiter when nothing is asked for.
const DEFAULT_CASES: u32 = 300;
const STEPS: usize = 30;

const SECOND: Duration = Duration::from_secs(1);

type Memory = MemoryStore<Arc<ManualClock>>;

fn memory() -> (Memory, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    (MemoryStore::with_clock(Arc::clone(&clock)), clock)
}

/// The events of an observer: the id, and the original verdict or the error.
type Log = Arc<Mutex<Vec<(String, Result<Option<Verdict>, String>)>>>;

fn observed<S>(limiter: Limiter<S>) -> (Limiter<S>, Log) {
    let log = Log::default();
    let told = Arc::clone(&log);
    let limiter = limiter.with_shadow_observer(move |id, outcome| {
        let what = outcome.map(|decision| decision.shadow).map_err(ToString::to_string);
        told.lock().unwrap().push((id.to_owned(), what));
    });
    (limiter, log)
}

fn stats<S>(limiter: &Limiter<S>) -> [u64; 4] {
    let stats = limiter.shadow_stats().unwrap();
    [stats.allowed, stats.would_deny, stats.never, stats.failed]
}

/// Every request, of every limiter, is let through; the answers, the counts and the observer's events match the
/// decisions of the enforced limiter on a twin key.
#[test]
fn recorded_decisions_match_an_enforced_limiter() {
    for kind in Kind::ALL {
        let name = format!("shadow_{}", kind.name());
        // The limiter knows zones as they were, the twin by today's rules.
        let traces = forward(request_trace(kind, STEPS));
        let traces = traces.prop_filter("no zone", |trace| !trace.limits.has_zone());
        property(&name, cases(DEFAULT_CASES), &traces, |trace| Process::new(&trace).check(&trace));
    }
}

struct Process {
    clock: Arc<ManualClock>,
    limiter: Limiter<Memory>,
    log: Log,
    twin: Machine,
    /// The totals of the twin's answers.
    expected: ShadowStats,
    seen: Check,
}

impl Process {
    fn new(trace: &Trace) -> Self {
        let (store, clock) = memory();
        clock.set(Timestamp::from_micros(trace.start_us).unwrap());
        let limiter = Limiter::new(store, trace.limits.limit()).with_clock(Arc::clone(&clock));
        let (limiter, log) = observed(limiter);
        let twin = Machine::new(trace.limits.limit());
        Process { clock, limiter, log, twin, expected: ShadowStats::default(), seen: Ok(()) }
    }

    fn check(&mut self, trace: &Trace) -> Check {
        trace.play(self, |process, _, _, _| process.seen.clone())?;
        let (stats, told) = (self.limiter.shadow_stats().unwrap(), self.log.lock().unwrap().len());
        let to_tell = self.expected.would_deny + self.expected.never + self.expected.failed;
        match stats == self.expected && told as u64 == to_tell {
            true => Ok(()),
            false => Err(Failure::new(format!("{stats:?}, {told} told, not {:?}", self.expected))),
        }
    }

    fn expect(&mut self, op: &Op, twin: &Outcome) {
        if matches!(twin, Outcome::Refused(_)) {
            self.expected.failed += 1;
        }
        for answer in twin.answers().iter().filter(|_| !matches!(op, Op::Peek(_))) {
            *match (answer.is_allowed(), answer.retry_after_us()) {
                (true, _) => &mut self.expected.allowed,
                (false, Some(_)) => &mut self.expected.would_deny,
                (false, None) => &mut self.expected.never,
            } += 1;
        }
    }
}

impl Subject for Process {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        self.clock.set(Timestamp::from_micros(now_us).unwrap());
        let twin = self.twin.run(op, now_us);
        self.expect(op, &twin);
        let told = pollster::block_on(ask(&self.limiter, op));
        let through = told.iter().all(|decision| {
            let refused = matches!(twin, Outcome::Refused(_));
            // In a queue too it goes ahead at once.
            let at_once = decision.is_allowed() && decision.turn_after.is_zero();
            at_once && (decision.origin == Origin::Fallback) == refused
        });
        let originals = told.iter().cloned().map(original).collect::<Vec<_>>();
        let alike = match &twin {
            Outcome::Decided(answers) => {
                let at_once = |answer: &Answer| Answer { turn_after_us: 0, ..answer.clone() };
                originals == answers.iter().map(at_once).collect::<Vec<_>>()
            }
            Outcome::Reset { .. } => told.is_empty(),
            Outcome::Refused(_) => told.len() == 1,
            Outcome::Adjusted { .. } | Outcome::Changed | Outcome::Cancelled(_) => false,
        };
        if !through || !alike {
            self.seen =
                Err(Failure::new(format!("{op:?}: {told:?}, where its twin says {twin:?}")));
        }
        twin
    }

    fn forget(&mut self) {
        unreachable!("traces do not");
    }
}

/// Returns the answer without the shadow.
fn original(mut decision: Decision) -> Answer {
    assert_eq!(decision.would_deny(), decision.shadow.is_some());
    decision.verdict = decision.shadow.unwrap_or(decision.verdict);
    decision.into()
}

async fn ask(limiter: &Limiter<Memory>, op: &Op) -> Vec<Decision> {
    let decided = match op {
        Op::Acquire(cost) => limiter.try_acquire("id", *cost).await,
        Op::Request { cost, id, remember_us } => {
            let (id, remember) = (RequestId::from_u128(*id), Duration::from_micros(*remember_us));
            limiter.try_acquire_once("id", *cost, id, remember).await
        }
        Op::AcquireEach(costs) => return limiter.try_acquire_each("id", costs).await.unwrap(),
        Op::Peek(cost) => limiter.peek("id", *cost).await,
        Op::ByPart { .. }
        | Op::Adjust { .. }
        | Op::Change(_)
        | Op::TakeTurn { .. }
        | Op::CancelTurn(_) => {
            unreachable!("not in these traces")
        }
        Op::Reset => {
            limiter.reset("id").await.unwrap();
            return Vec::new();
        }
    };
    vec![decided.unwrap()]
}

/// A wait returns at once, with the time that it would have taken.
#[tokio::test(start_paused = true)]
async fn shadowed_waits_return_at_once() {
    let store = FailingStore::new(memory().0);
    let timed = RetryStore::new(store.clone(), Tokio, SECOND);
    let limiter = Limiter::new(timed, "fixed-window 1/min".parse().unwrap()).with_shadow();
    let start = Instant::now();
    for request in 0..3 {
        let decision = limiter.acquire_within("id", 1, SECOND * 300).await.unwrap();
        assert!(decision.is_allowed());
        let expected = (request > 0).then_some(Verdict::denied(SECOND * 60));
        assert_eq!(decision.shadow, expected);
    }
    assert!(limiter.acquire_within("id", 2, SECOND * 300).await.unwrap().would_deny());
    assert_eq!((start.elapsed(), store.calls()), (Duration::ZERO, 4));
    assert_eq!(stats(&limiter), [1, 2, 1, 0]);
}

/// A request that the store cannot decide is let through and counted, and the observer gets the reason.
#[tokio::test(start_paused = true)]
async fn a_failing_store_denies_no_request() {
    let store = FailingStore::new(memory().0);
    let timed = RetryStore::new(store.clone(), Tokio, SECOND / 10);
    let limit = "fixed-window 5/min".parse().unwrap();
    let (limiter, log) = observed(Limiter::new(timed, limit));
    let through = |decision: &Decision| {
        decision.is_allowed()
            && decision.origin == Origin::Fallback
            && !decision.would_deny()
            && decision.limit == 5
    };
    for (calls, fate) in [Fate::NotDone, Fate::RequestLost, Fate::Silence].into_iter().enumerate() {
        store.always(fate);
        let once = limiter.try_acquire_once("id", 1, RequestId::from_u128(1), SECOND);
        assert!(through(&once.await.unwrap()));
        assert!(through(&limiter.try_acquire("id", 1).await.unwrap()));
        assert!(through(&limiter.try_acquire("id", 6).await.unwrap()), "whatever the cost");
        assert!(through(&limiter.acquire_within("id", 1, SECOND).await.unwrap()));
        assert!(through(&limiter.peek("id", 0).await.unwrap()));
        let each = limiter.try_acquire_each("id", &[1, 6]).await.unwrap();
        assert!(each.len() == 2 && each.iter().all(through));
        assert_eq!(stats(&limiter), [0, 0, 0, 7 * (calls as u64 + 1)]);
        assert_eq!(log.lock().unwrap().len(), 6 * (calls + 1), "a list is one call");
    }
    assert!(log.lock().unwrap().iter().all(|(id, told)| id == "id" && told.is_err()));
    assert!(limiter.reset("id").await.is_err(), "a reset is no decision");
}

/// A request on a key of another kind is let through too. It is not a decision, and said to be none.
#[tokio::test]
async fn a_key_of_another_kind_denies_no_request() {
    let (store, _clock) = memory();
    let lock = Lock::new(Duration::from_secs(60), Duration::from_secs(60)).unwrap();
    let (owner, id) = (OwnerId::from_u128(1), HoldId::from_u128(1));
    store.run("lockage:{id}", &lock.acquire(owner, id, Timestamp::MAX)).unwrap();
    let enforced = Limiter::new(store, "fixed-window 5/min".parse().unwrap());
    let error = enforced.try_acquire("id", 1).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Record(RecordError::OtherKind))));
    let (limiter, log) = observed(enforced);
    let decision = limiter.try_acquire("id", 1).await.unwrap();
    assert!(decision.is_allowed() && decision.origin == Origin::Fallback);
    assert_eq!(stats(&limiter), [0, 0, 0, 1]);
    let told = Err(StoreError::Record(RecordError::OtherKind).to_string());
    assert_eq!(*log.lock().unwrap(), [("id".to_owned(), told)]);
}

/// Input that is refused before the store is asked is a mistake in the program, and stays one.
#[tokio::test]
async fn bad_input_stays_an_error() {
    let (limiter, log) = observed(Limiter::new(memory().0, "fixed-window 5/min".parse().unwrap()));
    assert!(matches!(limiter.try_acquire("", 1).await, Err(Error::Key(_))));
    assert!(matches!(limiter.peek("}", 1).await, Err(Error::Key(_))));
    assert!(matches!(limiter.try_acquire("id", 0).await, Err(Error::Cost(_))));
    assert!(matches!(limiter.try_acquire_each("id", &[]).await, Err(Error::Cost(_))));
    let once = limiter.try_acquire_once("id", 1, RequestId::from_u128(1), Duration::ZERO);
    assert!(matches!(once.await, Err(Error::Config(_))));
    assert_eq!((stats(&limiter), log.lock().unwrap().len()), ([0; 4], 0));
}

/// Clones record together, and outside shadow mode there is nothing to report.
#[tokio::test]
async fn clones_record_together() {
    let enforced = Limiter::new(memory().0, "fixed-window 1/min".parse().unwrap());
    let limiter = enforced.clone().with_shadow();
    for _ in 0..2 {
        assert!(limiter.clone().try_acquire("id", 1).await.unwrap().is_allowed());
    }
    assert_eq!(stats(&limiter), [1, 1, 0, 0]);
    assert_eq!(enforced.shadow_stats(), None);
    let decision = enforced.try_acquire("id", 1).await.unwrap();
    assert!(!decision.is_allowed() && decision.shadow.is_none() && !decision.would_deny());
}

/// The shadow lies over all else: denials by a deny cache or a policy are let through as well.
#[tokio::test(start_paused = true)]
async fn the_shadow_is_outermost() {
    let store = FailingStore::new(memory().0);
    let timed = RetryStore::new(store.clone(), Tokio, SECOND / 10);
    let limiter = Limiter::new(timed, "fixed-window 1/h".parse().unwrap())
        .with_shadow()
        .with_deny_cache(DenyCache::new(10))
        .unwrap()
        .with_fallback(Fallback::closed())
        .unwrap();
    for _ in 0..5 {
        assert!(limiter.try_acquire("id", 1).await.unwrap().is_allowed());
        assert!(limiter.try_acquire_each("id", &[1]).await.unwrap()[0].is_allowed());
    }
    assert_eq!((store.executions(), stats(&limiter)), (2, [1, 9, 0, 0]));
    store.always(Fate::RequestLost);
    let decision = limiter.try_acquire("other", 1).await.unwrap();
    assert!(decision.is_allowed() && decision.origin == Origin::Fallback && decision.would_deny());
    assert_eq!(stats(&limiter), [1, 10, 0, 0], "the policy would have denied it");
}

/// For callers that block, likewise; none sleeps.
#[test]
fn blocking_callers_are_let_through() {
    let limit = "fixed-window 1/5s".parse().unwrap();
    let limiter = BlockingLimiter::new(MemoryStore::new(), limit, SECOND).with_shadow();
    assert!(!limiter.try_acquire("id", 1).unwrap().would_deny());
    assert!(limiter.acquire_within("id", 1, SECOND * 60).unwrap().would_deny());
    let stats = limiter.shadow_stats().unwrap();
    assert_eq!((stats.allowed, stats.would_deny), (1, 1));
    let told = Log::default();
    let log = Arc::clone(&told);
    let limiter = limiter.with_shadow_observer(move |id, outcome| {
        log.lock().unwrap().push((id.to_owned(), Ok(outcome.unwrap().shadow)));
    });
    assert!(limiter.try_acquire("id", 2).unwrap().is_allowed());
    assert_eq!(*told.lock().unwrap(), [("id".to_owned(), Ok(Some(Verdict::Never)))]);
}

/// A reservation that the store does not take is let through, and there is nothing to settle.
#[tokio::test(start_paused = true)]
async fn a_reservation_without_a_store_is_let_through() {
    let store = FailingStore::new(memory().0);
    let timed = RetryStore::new(store.clone(), Tokio, SECOND);
    let (limiter, _) = observed(Limiter::new(timed, "fixed-window 9/h".parse().unwrap()));
    store.always(Fate::NotDone);
    let reserved = limiter.reserve("id", 1, SECOND).await.unwrap();
    assert!(reserved.decision.is_allowed() && reserved.reservation.is_none());
    assert_eq!(stats(&limiter), [0, 0, 0, 1]);
}
