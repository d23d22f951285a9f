//! Rules that are decided: all limits of a request, or none.

mod settling;

use std::time::Duration;

use lockage::limiter::{Origin, StoredLimits};
use lockage::runtime::Tokio;
use lockage::{Error, Limiter, RetryStore, StoreError};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use lockage_rules::{Costs, Format, Request, RuleDecision, RuleLimiter, Rules};

const SECOND: Duration = Duration::from_secs(1);

type Store = RetryStore<FailingStore<MemoryStore<TokioClock>>, Tokio>;

fn rules(text: &str) -> Rules {
    Rules::parse(text, Format::Yaml).unwrap()
}

fn store() -> (FailingStore<MemoryStore<TokioClock>>, Store) {
    let store = FailingStore::new(paused_memory());
    (store.clone(), RetryStore::new(store, Tokio, SECOND))
}

/// Costs are multiplied, also those that the program computes, and each request's by its own hits.
#[test]
fn hits_multiply_the_costs_of_their_request() {
    let rules = rules(
        "
        costs: { tokens: 10 }
        rules:
          - { name: a, when: { a: true }, id: 'a:{a}', limit: fixed-window 9/min, cost: 2 }
          - { name: b, when: { b: true }, id: 'b:{b}', cost: [1, tokens],
              limit: fixed-window 9/min + fixed-window 99/min }
        ",
    );
    let requests = [Request::new().with("b", "1").hits(3), Request::new().with("a", "1").hits(0)];
    let met = rules.matches_each(&requests);
    let of = |at: usize| (&*met[at].rule.name, met[at].request, met[at].costs.clone());
    assert_eq!(of(0), ("b", 0, Costs::Parts([3, 30].into_iter().collect())));
    assert_eq!(of(1), ("a", 1, Costs::One(0)));
}

#[test]
fn ids_of_all_values_differ_where_values_do() {
    let id = |values: &[(&'static str, &'static str)]| {
        let with = |request: Request<'static>, (key, value): &(&'static str, &'static str)| {
            request.with_text(*key, *value).unwrap()
        };
        values.iter().fold(Request::new(), with).id()
    };
    assert_eq!(
        id(&[("a", "1"), ("header.X-B", "2"), ("address", "::ffff:192.0.2.7")]),
        "a:1,header.x-b:2,address:192.0.2.7"
    );
    assert_ne!(id(&[("a", "1,b:2")]), id(&[("a", "1"), ("b", "2")]));
    assert_ne!(id(&[("a:b", "1")]), id(&[("a", "b:1")]));
}

/// The rule that binds, and whether the request is admitted.
fn outcome(decided: &RuleDecision) -> (Option<&str>, bool) {
    (decided.binding.map(|at| &*decided.met[at].matched.rule.name), decided.is_allowed())
}

async fn left(store: &Store, id: &str, limit: &str) -> u64 {
    Limiter::new(store, limit.parse().unwrap()).peek(id, 0).await.unwrap().remaining
}

#[tokio::test(start_paused = true)]
async fn a_request_is_charged_to_all_rules_or_to_none() {
    let rules = rules(
        "
        costs: { tokens: 10 }
        rules:
          - { name: user, id: 'user:{user}', limit: fixed-window 5/min }
          - { name: model, id: 'model:{model}', cost: [1, tokens],
              limit: fixed-window 9/min + fixed-window 99/min }
        ",
    );
    let (failing, store) = store();
    let limiter = RuleLimiter::new(store.clone(), paused_memory());
    let request = |user: &'static str, tokens| {
        Request::new().user(user).with("model", "m").cost("tokens", tokens)
    };
    let admitted = limiter.decide(rules.matches(&request("ann", 60))).await.unwrap();
    assert_eq!((outcome(&admitted), failing.calls()), ((Some("model"), true), 1));
    assert_eq!(admitted.met[1].decision.as_ref().unwrap().parts[1].remaining, 39);
    let denied = limiter.decide(rules.matches(&request("bob", 60))).await.unwrap();
    assert_eq!(outcome(&denied), (Some("model"), false));
    assert_eq!(denied.retry_after(), Some(60 * SECOND));
    assert_eq!(denied.denied().unwrap().matched.rule.client.policy, "model");
    assert_eq!(left(&store, "user:bob", "fixed-window 5/min").await, 5);
    assert_eq!(left(&store, "user:ann", "fixed-window 5/min").await, 4);
}

/// A rule that blocks, costs nothing or is met by nobody asks nothing.
#[tokio::test(start_paused = true)]
async fn the_store_is_asked_only_for_limits() {
    let rules = rules(
        "
        costs: { tokens: 1 }
        rules:
          - { name: banned, when: { user: eve }, limit: blocked }
          - { name: tokens, when: { user: [eve, ann] }, id: all, limit: fixed-window 5/min, cost: tokens }
        ",
    );
    let (failing, store) = store();
    let limiter = RuleLimiter::new(store, paused_memory());
    for (user, tokens, expected) in
        [("eve", 1, (Some("banned"), false)), ("ann", 0, (None, true)), ("bob", 1, (None, true))]
    {
        let request = Request::new().user(user).cost("tokens", tokens);
        let decided = limiter.decide(rules.matches(&request)).await.unwrap();
        assert_eq!((outcome(&decided), decided.retry_after()), (expected, None), "{user}");
    }
    assert_eq!(failing.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rule_in_shadow_mode_is_asked_for_admitted_requests_and_denies_none() {
    let rules = rules(
        "
        rules:
          - { name: trial, id: trial, limit: fixed-window 1/min, shadow: true }
          - { name: trial2, id: trial2, limit: blocked, shadow: true }
          - { name: all, id: all, limit: fixed-window 2/min }
        ",
    );
    let (_, store) = store();
    let limiter = RuleLimiter::new(store.clone(), paused_memory());
    let mut would_deny = Vec::new();
    for is_allowed in [true, true, false] {
        let decided = limiter.decide(rules.matches(&Request::new())).await.unwrap();
        assert_eq!(outcome(&decided), (Some("all"), is_allowed));
        let trial = decided.met[0].decision.as_ref();
        would_deny.push(trial.map(|decision| decision.would_deny()));
    }
    assert_eq!(would_deny, [Some(false), Some(true), None]);
}

#[tokio::test(start_paused = true)]
async fn a_stored_limit_is_decided_together_with_others() {
    let rules = rules(
        "
        rules:
          - { name: tenant, id: 'tenant:{tenant}', limit: fixed-window 5/min, stored: true }
          - { name: all, id: all, limit: fixed-window 3/min }
        ",
    );
    let (failing, store) = store();
    let limiter = RuleLimiter::new(store.clone(), paused_memory());
    let stored = Limiter::stored(&store, StoredLimits::new());
    stored
        .set_limit("tenant:b", "fixed-window 1/min".parse::<lockage::Limit>().unwrap())
        .await
        .unwrap();
    let ask = async |tenant: &'static str| {
        let request = Request::new().tenant(tenant);
        let decided = limiter.decide(rules.matches(&request)).await;
        decided.map(|decided| (decided.binding.unwrap(), decided.is_allowed()))
    };
    let remaining =
        async |tenant: &str| stored.peek(&format!("tenant:{tenant}"), 0).await.unwrap().remaining;
    assert_eq!(ask("b").await.unwrap(), (0, true));
    assert_eq!(ask("b").await.unwrap(), (0, false), "by its own limit");
    assert_eq!(ask("a").await.unwrap(), (1, true));
    let calls = failing.calls();
    assert_eq!(ask("a").await.unwrap(), (1, true));
    assert_eq!(failing.calls(), calls + 1);
    assert_eq!((ask("a").await.unwrap(), remaining("a").await), ((1, false), 3));
}

#[tokio::test(start_paused = true)]
async fn fallbacks_of_rules_decide_while_the_store_is_away() {
    let rules = rules(
        "
        rules:
          - { name: share, id: share, limit: fixed-window 4/min, fallback: local-share 2 }
          - { name: open, when: { user: true }, id: open, limit: fixed-window 1/min, fallback: open }
          - { name: none, when: { user: bob }, id: none, limit: fixed-window 1/min }
          - { name: trial, id: trial, limit: fixed-window 1/min, shadow: true }
        ",
    );
    let (failing, store) = store();
    // Its own limit, which leaves no share, does not count.
    let own = Limiter::new(store, "fixed-window 1/min".parse().unwrap());
    let limiter = RuleLimiter::of(own, paused_memory());
    failing.always(Fate::NotDone);
    for (expected, binding) in [(true, "open"), (true, "share"), (false, "share")] {
        let decided = limiter.decide(rules.matches(&Request::new().user("ann"))).await.unwrap();
        assert_eq!(outcome(&decided), (Some(binding), expected));
        assert_eq!(decided.met[0].decision.as_ref().unwrap().origin, Origin::Fallback);
        assert_eq!(decided.met[2].decision, None, "the trial does not ask a store that is away");
    }
    let refused = limiter.decide(rules.matches(&Request::new().user("bob"))).await;
    assert!(matches!(refused, Err(Error::Store(StoreError::NotDone(_)))), "{refused:?}");
}

/// What is left for a rule, by its own decision.
fn left_of(decided: &RuleDecision, rule: &str) -> u64 {
    let met = decided.met.iter().find(|met| met.matched.rule.name == rule).unwrap();
    met.decision.as_ref().unwrap().remaining
}

const PRIORITIES: [(&str, usize); 4] = [("low", 5), ("none", 8), ("high", 9), ("critical", 10)];

fn by_priority() -> Rules {
    rules(
        "
        rules:
          - { name: trial, id: trial, limit: fixed-window 99/min, priority: critical, shadow: true }
          - { name: all, id: all, limit: fixed-window 99/min, fallback: open }
          - { name: low, when: { priority: low }, id: low, limit: fixed-window 99/min, priority: low, fallback: open }
          - { name: high, when: { priority: high }, id: high, limit: fixed-window 99/min, priority: high, fallback: open }
          - { name: critical, when: { priority: critical }, id: critical, limit: unlimited }
          - { name: urgent, when: { priority: critical }, id: urgent, limit: fixed-window 99/min, priority: critical,
              fallback: open }
          - { name: later, id: later, limit: fixed-window 99/min, fallback: open }
        ",
    )
}

/// The less important requests are refused first, before the store is asked; each place is free again once its decision
/// is dropped.
#[tokio::test(start_paused = true)]
async fn a_process_at_its_bound_refuses_the_less_important_first() {
    let rules = by_priority();
    let (failing, store) = store();
    let limiter = RuleLimiter::new(store, paused_memory()).with_in_flight(10);
    let ask = async |priority: &'static str| {
        limiter.decide(rules.matches(&Request::new().with("priority", priority))).await.unwrap()
    };
    let mut served = Vec::new();
    for (at, (priority, share)) in PRIORITIES.into_iter().enumerate() {
        while served.len() < share {
            let decided = ask(priority).await;
            assert!(decided.is_allowed(), "{priority} beside {}", served.len());
            served.push(decided);
        }
        for (refused, share) in &PRIORITIES[..=at] {
            let calls = failing.calls();
            let decided = ask(refused).await;
            let shed = decided.shed.unwrap();
            assert_eq!((shed.in_flight as usize, shed.share as usize), (served.len(), *share));
            assert!(!decided.is_allowed() && decided.denied().is_none() && !shed.is_store_away);
            assert_eq!(failing.calls(), calls, "the store is not asked");
        }
    }
    // A place that was taken out is held for longer than the decision.
    let place = served.pop().unwrap().take_place();
    assert!(!ask("critical").await.is_allowed());
    drop(place);
    assert!(ask("critical").await.is_allowed());
    served.clear();
    assert!(ask("low").await.is_allowed());
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_a_process_serves_fewer() {
    let rules = by_priority();
    let (failing, store) = store();
    let limiter = RuleLimiter::new(store, paused_memory());
    let limiter = limiter.with_in_flight(10).with_in_flight_while_away(4);
    let ask = async |priority: &'static str| {
        limiter.decide(rules.matches(&Request::new().with("priority", priority))).await.unwrap()
    };
    failing.always(Fate::NotDone);
    for _ in 0..3 {
        assert!(ask("low").await.is_allowed());
    }
    let served = [ask("low").await, ask("low").await];
    assert!(served.iter().all(RuleDecision::is_allowed));
    let shed = ask("low").await.shed.unwrap();
    assert_eq!((shed.in_flight, shed.share, shed.is_store_away), (2, 2, true));
    let more = [ask("none").await, ask("critical").await];
    assert!(more.iter().all(RuleDecision::is_allowed));
    assert!(ask("critical").await.shed.is_some());
    drop(more);
    // Once its answers count again, so does the other bound.
    failing.always(Fate::Answered);
    while ask("critical").await.met[1].decision.as_ref().unwrap().origin == Origin::Fallback {
        tokio::time::advance(SECOND).await;
    }
    let decided = ask("low").await;
    assert!(decided.is_allowed(), "{:?}", decided.shed);
}

/// A request whose future is dropped gives its place back, and so does one that is denied or gets no decision.
#[tokio::test(start_paused = true)]
async fn no_place_leaks() {
    let rules = rules(
        "
        rules:
          - { name: few, when: { few: true }, id: few, limit: fixed-window 1/min }
          - { name: all, id: all, limit: fixed-window 999/min }
        ",
    );
    let (failing, store) = store();
    let limiter = RuleLimiter::new(store, paused_memory()).with_in_flight(1);
    let ask = |request| limiter.decide(rules.matches(&request));
    for _ in 0..3 {
        let decided = ask(Request::new().with("few", "1")).await.unwrap();
        assert!(decided.shed.is_none());
        // A denial is no place, however long it is kept.
        let _denied = Some(decided).filter(|decided| !decided.is_allowed());
        failing.next([Fate::Misconfigured]);
        assert!(ask(Request::new()).await.is_err());
        failing.next([Fate::AnswerLost]);
        let mut dropped = Box::pin(ask(Request::new()));
        assert!(futures_poll(&mut dropped).is_none());
        drop(dropped);
    }
    assert!(ask(Request::new()).await.unwrap().is_allowed());
}

/// Polls a future once.
fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
