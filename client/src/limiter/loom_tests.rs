//! Every interleaving of callers that share a limiter's memory. Run with `RUSTFLAGS="--cfg loom" cargo test --release
//! -p lockage --lib --target-dir target/loom`.

use std::sync::Arc;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::FutureExt;
use lockage_core::flow::{CircuitBreakerConfig, Route};
use lockage_core::{Decision, Limit, Timestamp, Verdict};
use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::circuit_breaker::{Breaker, Report};
use super::denials::{Denial, Denials};
use super::deny_cache::DenyCache;
use super::fallback::unused;
use super::limit_source::LimitSource;
use super::permits::{Asking, Permits, Step};
use super::prefetch::Prefetch;
use crate::error::StoreError;
use crate::key::Key;

const SECOND: Duration = Duration::from_secs(1);

fn limit() -> Limit {
    "fixed-window 5/min".parse().unwrap()
}

fn source() -> LimitSource {
    LimitSource::given(limit())
}

fn denied() -> Decision {
    let mut decision = unused(limit(), &1.into(), Timestamp::EPOCH).unwrap();
    (decision.verdict, decision.remaining) = (Verdict::denied(SECOND * 30), 0);
    decision
}

/// A denial from before a refund is not repeated after it.
#[test]
fn denials_before_a_refund_are_not_cached() {
    loom::model(|| {
        let denials = Denials::new(DenyCache::new(10), || SECOND).unwrap();
        let (denials, asked) = (Arc::new(denials), Arc::new(AtomicBool::new(false)));
        let key = Key::new("loom", "one").unwrap();
        let learner = {
            let (denials, asked, key) = (Arc::clone(&denials), Arc::clone(&asked), key.clone());
            thread::spawn(move || {
                let ticket = denials.ticket(&key);
                asked.store(true, Ordering::SeqCst);
                denials.learn(&key, &source(), ticket, &1.into(), &denied());
            })
        };
        // The store has executed the refund by now.
        let was_asked_before = asked.load(Ordering::SeqCst);
        denials.forget(&key);
        learner.join().unwrap();
        let tell = |denial: &Denial, now| denial.answer(&1.into(), now);
        let answer = denials.known(&key, &source(), &1.into(), Duration::ZERO, tell);
        assert!(!was_asked_before || answer.is_none(), "{answer:?}");
    });
}

fn report(breaker: &Arc<Breaker>) -> Option<Report> {
    Report::begin(Some(breaker)).ok().flatten()
}

/// Exactly one caller probes a store that is away.
#[test]
fn one_probes_a_store_that_is_away() {
    loom::model(|| {
        let config = CircuitBreakerConfig::new(1, SECOND, 1).unwrap();
        let is_later = Arc::new(AtomicBool::new(false));
        let later = Arc::clone(&is_later);
        let now = move || SECOND * if later.load(Ordering::SeqCst) { 3 } else { 1 };
        let breaker = Arc::new(Breaker::new(config, now));
        let failed = StoreError::NotDone("away".into());
        report(&breaker).expect("it is closed").call_ended::<()>(&Err(failed.into()));
        assert!(breaker.admit().is_err());
        is_later.store(true, Ordering::SeqCst);
        let other = Arc::clone(&breaker);
        let other = thread::spawn(move || {
            let report = report(&other);
            report.iter().for_each(|report| report.call_ended(&Ok(())));
            report.map(|report| report.route)
        });
        let route = breaker.admit().ok();
        let routes = [route, other.join().unwrap()];
        let probes = routes.iter().filter(|route| **route == Some(Route::Probe)).count();
        // After its answer, the other caller may call the store as usual.
        assert!(probes == 1 && routes[1] != Some(Route::Store), "{routes:?}");
    });
}

const LEASE: Duration = Duration::from_secs(10);

/// Returns permits with this many ahead, on a clock that shows the end of the lease once `is_later` is set.
fn permits(ahead: u64, is_later: &Arc<AtomicBool>) -> Arc<Permits> {
    let (prefetch, later) = (Prefetch::new(ahead, LEASE), Arc::clone(is_later));
    let now = move || if later.load(Ordering::SeqCst) { SECOND + LEASE } else { SECOND };
    let wait = |answer: oneshot::Receiver<Decision>| answer.map(Result::ok).boxed();
    Arc::new(Permits::new(prefetch, now, Box::new(wait)).unwrap())
}

fn asking<'a>(permits: &'a Permits, key: &'a Key) -> Asking<'a> {
    match permits.next_under(key, &limit(), 1, true) {
        Step::Ask(asking) => asking,
        _ => panic!("nothing is held, and nothing under way"),
    }
}

fn granted() -> Decision {
    unused(limit(), &1.into(), Timestamp::EPOCH).unwrap()
}

/// E7: held permits are spent once, and never after the clock shows the end of their lease.
#[test]
fn held_permits_are_spent_once_and_within_their_lease() {
    loom::model(|| {
        let is_later = Arc::new(AtomicBool::new(false));
        let permits = permits(1, &is_later);
        let key = Key::new("loom", "one").unwrap();
        asking(&permits, &key).granted(granted());
        let spender = || {
            let (permits, is_later, key) =
                (Arc::clone(&permits), Arc::clone(&is_later), key.clone());
            thread::spawn(move || {
                let was_over = is_later.load(Ordering::SeqCst);
                let is_spent = permits.spend(&key, 1).is_some();
                assert!(!(was_over && is_spent), "it had ended");
                is_spent
            })
        };
        let spenders = [spender(), spender()];
        is_later.store(true, Ordering::SeqCst);
        let spent = spenders.map(|spender| spender.join().unwrap());
        assert_ne!(spent, [true, true]);
    });
}

/// A waiter for another request's call is notified of its end, and spends a grant; two that wait for one permit do not
/// both get it.
#[test]
fn waiters_for_a_grant_are_notified() {
    for is_granted in [true, false] {
        loom::model(move || {
            let permits = permits(1, &Arc::default());
            let key = Key::new("loom", "one").unwrap();
            let asking = asking(&permits, &key);
            let other = || {
                let (permits, key) = (Arc::clone(&permits), key.clone());
                thread::spawn(move || match permits.next_under(&key, &limit(), 1, true) {
                    Step::Wait(answer) => {
                        let is_served = block_on(answer).is_ok();
                        assert_eq!(is_served, is_granted, "one that waits has room");
                        is_served
                    }
                    next => matches!(next, Step::Spent(_)),
                })
            };
            let others = [other(), other()];
            if is_granted {
                asking.granted(granted());
            } else {
                drop(asking);
            }
            let spent = others.map(|other| other.join().unwrap());
            let times = spent.into_iter().filter(|spent| *spent).count();
            assert!(times <= usize::from(is_granted), "{spent:?}");
        });
    }
}

/// Permits that were requested before a reset are not spent after it, whenever they are granted.
#[test]
fn permits_requested_before_a_reset_are_not_spent() {
    loom::model(|| {
        let permits = permits(1, &Arc::default());
        let (key, asked) = (Key::new("loom", "one").unwrap(), Arc::new(AtomicBool::new(false)));
        let asker = {
            let (permits, key, asked) = (Arc::clone(&permits), key.clone(), Arc::clone(&asked));
            thread::spawn(move || {
                let asking = asking(&permits, &key);
                asked.store(true, Ordering::SeqCst);
                asking.granted(granted());
            })
        };
        let was_asked_before = asked.load(Ordering::SeqCst);
        permits.forget(&key);
        let is_spent = permits.spend(&key, 1).is_some();
        asker.join().unwrap();
        let is_spent = is_spent || permits.spend(&key, 1).is_some();
        assert!(!(was_asked_before && is_spent));
    });
}
