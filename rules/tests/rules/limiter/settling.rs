//! Charges that are corrected, owed or given back.

use super::*;

/// D11: a cost that is known afterwards is owed, once the other rules have admitted the request.
#[tokio::test(start_paused = true)]
async fn a_rule_with_an_overdraft_charges_what_does_not_fit() {
    let rules = rules(
        "
        costs: { tokens: 1 }
        defaults: { cost: tokens }
        rules:
          - { name: tokens, id: tokens, limit: token-bucket 100/min, overdraft: true }
          - { name: trial, id: trial, limit: token-bucket 9/min, overdraft: true, shadow: true }
          - { name: stored, when: { stored: true }, id: stored, limit: token-bucket 50/min, stored: true, overdraft: true }
          - { name: calls, when: { call: true }, id: calls, limit: fixed-window 2/min, cost: 1 }
        ",
    );
    let (failing, store) = store();
    let limiter = RuleLimiter::new(store.clone(), paused_memory());
    let ask = async |key: &'static str, tokens| {
        let request = Request::new().with(key, "1").cost("tokens", tokens);
        limiter.decide(rules.matches(&request)).await
    };
    let tokens = async || left(&store, "tokens", "token-bucket 100/min").await;
    assert_eq!(outcome(&ask("call", 60).await.unwrap()), (Some("calls"), true));
    assert_eq!(tokens().await, 40);
    let decided = ask("stored", 70).await.unwrap();
    assert_eq!(outcome(&decided), (Some("tokens"), true));
    let remaining = decided.met.iter().map(|met| met.decision.as_ref().unwrap().remaining);
    assert_eq!(remaining.collect::<Vec<_>>(), [0, 0, 0]);
    // 30 are owed, and 20 under the stored limit.
    tokio::time::advance(60 * SECOND).await;
    assert_eq!(tokens().await, 70);
    let stored = Limiter::stored(&store, StoredLimits::new());
    assert_eq!(stored.peek("stored", 0).await.unwrap().remaining, 30);

    // A request that others deny owes nothing.
    for (tokens, is_allowed) in [(0, true), (0, true), (60, false)] {
        let decided = ask("call", tokens).await.unwrap();
        assert_eq!(outcome(&decided), (Some("calls"), is_allowed));
    }
    assert_eq!(tokens().await, 70);

    // An error says that nothing is charged.
    failing.next([Fate::Misconfigured]);
    assert!(matches!(ask("none", 5).await, Err(Error::Store(_))));
    tokio::time::advance(60 * SECOND).await;
    failing.next([Fate::Answered, Fate::Misconfigured]);
    let decided = ask("call", 5).await.unwrap();
    assert_eq!(outcome(&decided), (Some("calls"), true));
    assert!(decided.met[0].decision.is_none());
}

/// D11, by part: what a rule with an overdraft is owed.
#[tokio::test(start_paused = true)]
async fn an_overdraft_can_have_a_cost_for_each_part() {
    let limit = "calls: fixed-window 9/min + tokens: token-bucket 100/min";
    let rules = rules(&format!(
        "
        costs: {{ tokens: 1 }}
        rules:
          - {{ name: llm, id: llm, limit: '{limit}', overdraft: true, cost: {{ calls: 1, tokens: tokens }} }}
        "
    ));
    let (_, store) = store();
    let limiter = RuleLimiter::new(store, paused_memory());
    let request = Request::new().cost("tokens", 130);
    let decided = limiter.decide(rules.matches(&request)).await.unwrap();
    assert_eq!(outcome(&decided), (Some("llm"), true));
    tokio::time::advance(30 * SECOND).await;
    let parts = |decided: &RuleDecision| {
        let parts = &decided.met[0].decision.as_ref().unwrap().parts;
        parts.iter().map(|part| part.remaining).collect::<Vec<_>>()
    };
    let decided = limiter.decide(rules.matches(&request.cost("tokens", 5))).await.unwrap();
    assert_eq!(parts(&decided), [7, 15]);
}

/// H4: a request that is not served after all is charged nothing, whatever its costs are; a denied one gives nothing back.
#[tokio::test(start_paused = true)]
async fn an_admitted_request_can_be_given_back() {
    let both = "calls: fixed-window 9/min + tokens: token-bucket 100/min";
    let rules = rules(&format!(
        "
        costs: {{ tokens: 30 }}
        rules:
          - {{ name: llm, id: llm, limit: '{both}', cost: {{ calls: 1, tokens: tokens }} }}
          - {{ name: all, id: all, limit: fixed-window 5/min, cost: 2 }}
          - {{ name: trial, id: trial, limit: fixed-window 5/min, shadow: true }}
          - {{ name: owed, id: owed, limit: fixed-window 5/min, overdraft: true }}
        "
    ));
    let (failing, store) = store();
    let limiter = RuleLimiter::new(store.clone(), paused_memory());
    let state = async || {
        let llm = Limiter::new(store.clone(), both.parse().unwrap());
        let llm = llm.peek("llm", 0).await.unwrap().parts;
        let mut left: Vec<_> = llm.iter().map(|part| part.remaining).collect();
        for id in ["all", "trial", "owed"] {
            left.push(self::left(&store, id, "fixed-window 5/min").await);
        }
        left
    };
    let matched = || rules.matches(&Request::new());
    let decided = limiter.decide(matched()).await.unwrap();
    assert_eq!(state().await, [8, 70, 3, 4, 4]);
    limiter.give_back(&decided).await.unwrap();
    assert_eq!(state().await, [9, 100, 5, 4, 4], "a trial and an overdraft stay");

    let held = limiter.reserve(matched(), "tokens", 60 * SECOND).await.unwrap();
    assert_eq!(state().await, [8, 70, 3, 3, 3]);
    // It asks the others also after an error of one.
    failing.next([Fate::Misconfigured]);
    assert!(limiter.give_back(&held).await.is_err());
    assert_eq!(state().await, [8, 70, 5, 3, 3]);
    limiter.give_back(&held).await.unwrap();
    assert_eq!(state().await, [9, 100, 5, 3, 3]);

    for _ in 0..2 {
        assert!(limiter.decide(matched()).await.unwrap().is_allowed());
    }
    let denied = limiter.decide(matched()).await.unwrap();
    assert!(!denied.is_allowed());
    limiter.give_back(&denied).await.unwrap();
    assert_eq!(state().await, [7, 40, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_cost_that_is_known_at_the_end_replaces_the_estimate() {
    let rules = rules(
        "
        costs: { tokens: 30 }
        rules:
          - { name: user, id: 'user:{user}', limit: fixed-window 5/min }
          - { name: model, id: 'model:{model}', cost: { requests: 1, tokens: tokens },
              limit: 'requests: fixed-window 9/min + tokens: fixed-window 99/min' }
          - { name: tokens, id: tokens, cost: tokens, limit: fixed-window 150/min, stored: true }
        ",
    );
    const MODEL: &str = "requests: fixed-window 9/min + tokens: fixed-window 99/min";
    let (_, store) = store();
    let limiter = RuleLimiter::new(store.clone(), paused_memory());
    let stored = Limiter::stored(&store, StoredLimits::new());
    let model = async || {
        let limiter = Limiter::new(&store, MODEL.parse().unwrap());
        let parts = limiter.peek("model:m", 0).await.unwrap().parts;
        (parts[0].remaining, parts[1].remaining)
    };
    let tokens = async || stored.peek("tokens", 0).await.unwrap().remaining;
    let ask = async |tokens: Option<u64>, user: &'static str| {
        let request = Request::new().user(user).with("model", "m");
        let request = tokens.into_iter().fold(request, |request, it| request.cost("tokens", it));
        limiter.reserve(rules.matches(&request), "tokens", 60 * SECOND).await.unwrap()
    };
    let first = ask(Some(60), "ann").await;
    assert_eq!((outcome(&first), first.estimate()), ((Some("user"), true), Some(60)));
    assert_eq!((model().await, tokens().await), ((8, 39), 90));
    limiter.commit(&first, 10).await.unwrap();
    assert_eq!((model().await, tokens().await), ((8, 89), 140));
    limiter.commit(&first, 10).await.unwrap();
    assert_eq!((model().await, tokens().await), ((8, 89), 140), "it is settled once");
    // By default the estimate is the amount in the file. What is not settled stays charged.
    let second = ask(None, "ann").await;
    assert_eq!(second.estimate(), Some(30));
    assert_eq!((model().await, tokens().await), ((7, 59), 110));
    // If another rule denies, all is given back.
    for left in (0..3).rev() {
        let one = ask(Some(1), "ann").await;
        assert!(one.is_allowed());
        assert_eq!(left_of(&one, "user"), left);
    }
    let (before, denied) = ((model().await, tokens().await), ask(Some(1), "ann").await);
    assert_eq!((outcome(&denied), denied.estimate()), ((Some("user"), false), None));
    assert_eq!((model().await, tokens().await), before);
}
