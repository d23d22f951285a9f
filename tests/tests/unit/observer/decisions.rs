use std::sync::Arc;

use lockage::limiter::{DenyCache, Origin, Prefetch, RequestId, StoredLimits};
use lockage::observer::ErrorKind;
use lockage::runtime::Tokio;
use lockage::{BlockingLimiter, Decision, Error, Fallback, Limiter, RetryStore};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, paused_memory};
use lockage_oracle::properties::{cases, property};
use proptest::prelude::*;
use tokio::time::{advance, sleep};

use super::{Log, Memory, SECOND, Told};

type Limited = Limiter<RetryStore<Memory, Tokio>>;

/// Cases when nothing is asked for.
const DEFAULT_CASES: u32 = 300;

fn limiter(limit: &str) -> (Limited, Memory, Log) {
    let (store, log) = (FailingStore::new(paused_memory()), Log::new());
    let timed = RetryStore::new(store.clone(), Tokio, SECOND);
    let limiter = Limiter::new(timed, limit.parse().unwrap()).with_observer("login", log.clone());
    (limiter, store, log)
}

/// Returns the events of an answer, as the log has them.
fn told(id: &str, costs: &[u64], what: Result<Vec<Decision>, Error>) -> Vec<Told> {
    let each: Vec<_> = match what {
        Ok(decisions) => decisions.into_iter().map(Ok).collect(),
        Err(error) => costs.iter().map(|_| Err(error.kind())).collect(),
    };
    let told = |(&cost, what)| {
        let id = id.to_owned();
        Told::Decided { id, cost, what, waits: false, took: std::time::Duration::ZERO }
    };
    costs.iter().zip(each).map(told).collect()
}

fn without_time(all: Vec<Told>) -> Vec<Told> {
    let untimed = |it| match it {
        Told::Decided { id, cost, what, waits, .. } => {
            Told::Decided { id, cost, what, waits, took: std::time::Duration::ZERO }
        }
        other => other,
    };
    all.into_iter().map(untimed).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(u64),
    Each(Vec<u64>),
    Once(u128),
    Turn(u64),
    Reserve(u128),
    Peek,
    Penalty,
    Reset,
    Advance(u64),
    Fate(Fate),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cost = || 0_u64..5;
    let fate = prop_oneof![3 => Just(Fate::Answered), 1 => Just(Fate::NotDone), 1 => Just(Fate::AnswerLost)];
    let step = prop_oneof![
        6 => cost().prop_map(Step::Acquire),
        2 => prop::collection::vec(cost(), 0..4).prop_map(Step::Each),
        1 => any::<u128>().prop_map(Step::Once),
        1 => cost().prop_map(Step::Turn),
        1 => any::<u128>().prop_map(Step::Reserve),
        1 => Just(Step::Peek),
        1 => Just(Step::Penalty),
        1 => Just(Step::Reset),
        2 => (0_u64..3000).prop_map(Step::Advance),
        2 => fate.prop_map(Step::Fate),
    ];
    prop::collection::vec(step, 1..30)
}

/// Which options the limiter has.
#[derive(Clone, Copy, Debug)]
struct Options {
    deny_cache: bool,
    prefetch: bool,
    fallback: bool,
    shadow: bool,
    coalescing: bool,
}

impl Options {
    fn on(self, mut limiter: Limited) -> Limited {
        if self.deny_cache {
            limiter = limiter.with_deny_cache(DenyCache::new(10)).unwrap();
        }
        if self.prefetch {
            limiter = limiter.with_prefetch(Prefetch::new(2, SECOND)).unwrap();
        }
        if self.fallback {
            limiter = limiter.with_fallback(Fallback::closed()).unwrap();
        }
        if self.coalescing {
            limiter = limiter.with_coalescing(4).unwrap();
        }
        if self.shadow { limiter.with_shadow() } else { limiter }
    }
}

fn options() -> impl Strategy<Value = Options> {
    any::<[bool; 5]>().prop_map(|[deny_cache, prefetch, fallback, shadow, coalescing]| Options {
        deny_cache,
        prefetch,
        fallback,
        shadow,
        coalescing,
    })
}

/// Whatever the options and whatever happens to the store, the observer gets exactly the callers' answers to
/// requests.
#[test]
fn an_observer_gets_exactly_the_callers_answers() {
    property(
        "observer_decisions",
        cases(DEFAULT_CASES),
        &(options(), steps()),
        |(options, steps)| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(run(options, steps));
            Ok(())
        },
    );
}

async fn run(options: Options, steps: Vec<Step>) {
    let (limiter, store, log) = limiter("fixed-window 6/s");
    let limiter = options.on(limiter);
    for step in steps {
        let id = "user:42";
        let expected = match step {
            // A cost of zero is refused before the limiter is asked.
            Step::Acquire(0) | Step::Turn(0) => Vec::new(),
            Step::Acquire(cost) => {
                told(id, &[cost], limiter.try_acquire(id, cost).await.map(|it| vec![it]))
            }
            Step::Each(costs) if costs.is_empty() || costs.contains(&0) => {
                assert!(limiter.try_acquire_each(id, &costs).await.is_err());
                Vec::new()
            }
            Step::Each(costs) => told(id, &costs, limiter.try_acquire_each(id, &costs).await),
            Step::Once(request) => {
                let request = RequestId::from_u128(request);
                let once = limiter.try_acquire_once(id, 1, request, SECOND).await;
                told(id, &[1], once.map(|it| vec![it]))
            }
            Step::Turn(cost) => {
                let turn = limiter.take_turn(id, cost).await;
                told(id, &[cost], turn.map(|turn| vec![turn.decision]))
            }
            Step::Reserve(request) => {
                let request = RequestId::from_u128(request);
                let reserved = limiter.reserve_as(id, 1, request, SECOND).await;
                told(id, &[1], reserved.map(|it| vec![it.decision]))
            }
            Step::Peek => {
                let _ = limiter.peek(id, 1).await;
                Vec::new()
            }
            Step::Penalty => {
                let _ = limiter.penalty(id, 1).await;
                Vec::new()
            }
            Step::Reset => {
                let _ = limiter.reset(id).await;
                Vec::new()
            }
            Step::Advance(millis) => {
                advance(std::time::Duration::from_millis(millis)).await;
                Vec::new()
            }
            Step::Fate(fate) => {
                store.always(fate);
                Vec::new()
            }
        };
        assert_eq!(without_time(log.take()), expected, "{options:?}");
    }
}

fn origins(told: &[Told]) -> Vec<Origin> {
    let origin = |told: &Told| match told {
        Told::Decided { what: Ok(decision), .. } => decision.origin,
        other => panic!("{other:?}"),
    };
    told.iter().map(origin).collect()
}

/// Decisions count whichever stage answers.
#[tokio::test(start_paused = true)]
async fn decisions_of_each_origin_are_reported() {
    let (limiter, store, log) = limiter("fixed-window 4/min");
    let limiter = limiter
        .with_prefetch(Prefetch::new(1, SECOND * 10))
        .and_then(|limiter| limiter.with_deny_cache(DenyCache::new(10)))
        .and_then(|limiter| limiter.with_fallback(Fallback::open()))
        .unwrap();
    for cost in [1, 1, 2, 1, 1] {
        let _ = limiter.try_acquire("id", cost).await.unwrap();
    }
    store.always(Fate::NotDone);
    let _ = limiter.try_acquire("other", 1).await.unwrap();
    let expected = [
        Origin::Store,
        Origin::Prefetch,
        Origin::Store,
        Origin::Store,
        Origin::DenyCache,
        Origin::Fallback,
    ];
    assert_eq!(origins(&log.take()), expected);
}

/// A call that waits is one request, reported at its caller's answer, with the time it took.
#[tokio::test(start_paused = true)]
async fn a_wait_is_reported_once_at_its_end() {
    let (limiter, store, log) = limiter("fixed-window 1/s");
    assert!(limiter.try_acquire("id", 1).await.unwrap().is_allowed());
    log.take();
    let decision = limiter.acquire_within("id", 1, SECOND * 5).await.unwrap();
    let told = log.take();
    let [Told::Decided { what: Ok(what), waits: true, took, .. }] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(*what, decision);
    assert!(*took >= SECOND && *took < SECOND * 2, "{took:?}");

    let denied = limiter.acquire_within("id", 1, SECOND / 10).await.unwrap();
    assert!(!denied.is_allowed());
    assert_eq!(log.take().len(), 1);

    store.always(Fate::RequestLost);
    assert!(limiter.acquire_within("id", 1, SECOND).await.is_err());
    let told = log.take();
    assert!(
        matches!(told[..], [Told::Decided { what: Err(ErrorKind::Unknown), waits: true, .. }]),
        "{told:?}"
    );
}

/// A call that its caller drops has no event, since it has no answer.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_not_reported() {
    let (limiter, store, log) = limiter("fixed-window 1/s");
    store.always(Fate::Silence);
    tokio::select! {
        _ = limiter.try_acquire("id", 1) => panic!("it is silent"),
        () = sleep(SECOND / 2) => {}
    }
    assert_eq!(log.take(), []);
}

/// Views under another limit, and callers that block, have the limiter's observer.
#[test]
fn views_and_blocking_callers_are_observed_too() {
    let (runtime, limit) = (tokio::runtime::Builder::new_current_thread(), "fixed-window 1/min");
    let mut runtime = runtime;
    let _entered = runtime.build().unwrap();
    let limit = limit.parse().unwrap();
    let log = Log::new();
    let limiter = BlockingLimiter::new(Arc::new(MemoryStore::new()), limit, SECOND)
        .with_observer("login", log.clone());
    let _ = limiter.try_acquire("id", 1).unwrap();
    let _ = limiter.under("fixed-window 9/min".parse().unwrap()).try_acquire("id", 1).unwrap();
    let limits: Vec<_> = log
        .take()
        .iter()
        .map(|told| match told {
            Told::Decided { what: Ok(decision), .. } => decision.limit,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(limits, [1, 9]);
}

/// Errors say how a caller can react to them.
#[tokio::test(start_paused = true)]
async fn errors_are_reported_by_kind() {
    let (given, store, log) = limiter("fixed-window 1/min");
    let timed = RetryStore::new(store.clone(), Tokio, SECOND);
    let stored = Limiter::stored(timed, StoredLimits::new()).with_observer("login", log.clone());
    assert!(stored.try_acquire("id", 1).await.is_err());
    stored.set_limit("id", "fixed-window 1/s".parse::<lockage::Limit>().unwrap()).await.unwrap();
    assert!(given.try_acquire("id", 1).await.is_err());
    assert!(given.try_acquire("", 1).await.is_err());
    store.always(Fate::NotDone);
    assert!(given.try_acquire("id", 1).await.is_err());
    let kinds: Vec<_> = log
        .take()
        .into_iter()
        .map(|told| match told {
            Told::Decided { what: Err(kind), .. } => kind,
            other => panic!("{other:?}"),
        })
        .collect();
    use ErrorKind::*;
    assert_eq!(kinds, [Misconfigured, Misconfigured, Refused, NotDone]);
}
