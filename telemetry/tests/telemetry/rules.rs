//! The events of rules in a file: reloads, and requests that rules refuse.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockage::RetryStore;
use lockage::observer::Observer;
use lockage::runtime::Tokio;
use lockage_memory::testing::paused_memory;
use lockage_rules::{LiveRules, Request, RuleLimiter};
use lockage_telemetry::Tracing;

use super::prometheus::{scrape, serve};
use super::tracing::Lines;

const RULES: &str = "
    rules:
      - { name: banned, when: { user: eve }, limit: blocked }
      - { name: users, id: 'user:{user}', limit: fixed-window 2/min, priority: low }
      - { name: everybody, id: all, limit: fixed-window 9/min }
      - { name: trial, id: trial, limit: fixed-window 1/min, shadow: true }
";

/// Makes each event of rules, and leaves a file that has a mistake.
pub(super) async fn run(observer: impl Observer + Clone) {
    let content = Arc::new(Mutex::new(Some(RULES.to_owned())));
    let read = Arc::clone(&content);
    let live = LiveRules::from_source("rules.yaml", move || {
        read.lock().unwrap().clone().map(String::into_bytes).ok_or(io::ErrorKind::NotFound.into())
    });
    let live = live.unwrap().with_observer(observer.clone());
    let store = RetryStore::new(paused_memory(), Tokio, Duration::from_secs(1));
    let limiter =
        RuleLimiter::new(store, paused_memory()).with_observer(observer).with_in_flight(1);
    let ask = async |user: &'static str| {
        limiter.decide(live.current().matches(&Request::new().user(user))).await.unwrap()
    };
    assert!(!ask("eve").await.is_allowed());
    for is_allowed in [true, true, false] {
        assert_eq!(ask("ann").await.is_allowed(), is_allowed);
    }
    let served = ask("bob").await;
    assert!(ask("bob").await.shed.is_some());
    drop(served);
    *content.lock().unwrap() = Some(RULES.replace("2/min", "4/min"));
    live.reload().unwrap();
    assert!(ask("ann").await.is_allowed());
    *content.lock().unwrap() = None;
    assert!(live.reload().is_err() && live.reload().is_err());
    *content.lock().unwrap() = Some(RULES.replace("2/min", "4/min"));
    live.reload().unwrap();
    *content.lock().unwrap() = Some(RULES.replace("2/min", "x/min"));
    assert!(live.reload().is_err());
}

#[tokio::test(start_paused = true)]
async fn each_rule_has_its_counts_and_a_file_with_a_mistake_is_a_gauge() {
    let (metrics, address) = serve();
    run(metrics).await;
    let page = scrape(address);
    let requests = |policy, result| {
        page.sum("rate_limiting_requests_total", &[("policy", policy), ("result", result)])
    };
    assert_eq!((requests("users", "allowed"), requests("users", "denied")), (4.0, 1.0));
    assert_eq!((requests("trial", "allowed"), requests("trial", "would_deny")), (1.0, 3.0));
    assert_eq!(page.sum("rules_blocked_total", &[("rule", "banned")]), 1.0);
    assert_eq!(page.sum("rules_shed_total", &[("priority", "low")]), 1.0);
    for (result, count) in [("in_force", 2.0), ("refused", 2.0), ("recovered", 1.0)] {
        let labels = [("file", "rules.yaml"), ("result", result)];
        assert_eq!(page.sum("rules_reloads_total", &labels), count, "{result}");
    }
    assert_eq!(page.sum("rules_valid", &[("file", "rules.yaml")]), 0.0);
}

#[tokio::test(start_paused = true)]
async fn the_log_has_each_change_of_the_file_once() {
    let lines = Lines::default();
    let _subscribed = lines.subscribe(::tracing::Level::INFO);
    run(Tracing::new()).await;
    let all = lines.all();
    let expected = [
        "INFO lockage: rules in force file=\"rules.yaml\" rules=4",
        "INFO lockage: rules in force file=\"rules.yaml\" rules=4",
        "WARN lockage: file of rules refused: those in force stay file=\"rules.yaml\" error=rules.yaml cannot be read",
        "INFO lockage: file of rules recovered file=\"rules.yaml\"",
        "WARN lockage: file of rules refused: those in force stay file=\"rules.yaml\" error=rules.yaml:4:63: expected",
    ];
    assert_eq!(all.len(), expected.len(), "{all:#?}");
    for (line, expected) in all.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
}
