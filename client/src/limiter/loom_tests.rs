//! Every interleaving of the callers who share what a limiter knows. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p lockage --lib --target-dir target/loom`.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::{OutageConfig, Route};
use lockage_core::{Decision, Limit, Verdict};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::away::{Away, WhenAway, unused};
use super::denials::Denials;
use super::deny_cache::DenyCache;
use crate::error::StoreError;
use crate::key::Key;

const SECOND: Duration = Duration::from_secs(1);

fn limit() -> Limit {
    "fixed-window 5/min".parse().unwrap()
}

fn denied() -> Decision {
    let verdict = Verdict::Denied { retry_after: SECOND * 30 };
    Decision { verdict, remaining: 0, ..unused(limit(), 1).unwrap() }
}

/// A denial of before something was given back is not believed after it.
#[test]
fn what_was_given_back_is_not_denied_from_memory() {
    loom::model(|| {
        let denials = Denials::new(DenyCache::new(10), 5, || SECOND).unwrap();
        let (denials, asked) = (Arc::new(denials), Arc::new(AtomicBool::new(false)));
        let key = Key::new("loom", "one").unwrap();
        let learner = {
            let (denials, asked, key) = (Arc::clone(&denials), Arc::clone(&asked), key.clone());
            thread::spawn(move || {
                let ticket = denials.ticket(&key);
                asked.store(true, Ordering::SeqCst);
                denials.learn(&key, ticket, 1, &denied());
            })
        };
        // The store has taken it back now.
        let was_asked_before = asked.load(Ordering::SeqCst);
        denials.forget(&key);
        learner.join().unwrap();
        let answer = denials.answer(&key, 1, Duration::ZERO);
        assert!(!was_asked_before || answer.is_none(), "{answer:?}");
    });
}

/// Of those who come when a store that is away is to be probed, one asks it.
#[test]
fn one_probes_a_store_that_is_away() {
    loom::model(|| {
        let outage = OutageConfig::new(1, SECOND, 1).unwrap();
        let policy = WhenAway::deny().with_outage(outage);
        let is_later = Arc::new(AtomicBool::new(false));
        let later = Arc::clone(&is_later);
        let now = move || SECOND * if later.load(Ordering::SeqCst) { 3 } else { 1 };
        let away = Arc::new(Away::new(policy, limit(), now).unwrap());
        away.report::<()>(away.route(), &Err(StoreError::NotDone("away".into())));
        assert_eq!(away.route(), Route::Away);
        is_later.store(true, Ordering::SeqCst);
        let other = Arc::clone(&away);
        let other = thread::spawn(move || {
            let route = other.route();
            other.report(route, &Ok(()));
            route
        });
        let route = away.route();
        let routes = [route, other.join().unwrap()];
        let probes = routes.iter().filter(|route| **route == Route::Probe).count();
        // Once it has answered, the other may ask it as ever.
        assert!(probes == 1 && routes[1] != Route::Store, "{routes:?}");
    });
}
