//! Rules in a file, in front of a service.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::get;
use http::request::Parts;
use lockage::Decision;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use lockage_rules::{Format, LiveRules, RuleDecision, RuleLimiter, Rules};
use lockage_tower::{Commit, Fields, OnError, RateLimitByRules, ip};

use super::*;

type Failing = FailingStore<MemoryStore<TokioClock>>;
type Retrying = RetryStore<Failing, Tokio>;

fn rules(text: &str) -> Rules {
    Rules::parse(text, Format::Yaml).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn failing() -> (Failing, Retrying) {
    let store = FailingStore::new(paused_memory());
    (store.clone(), waiting_store(store))
}

fn by_rules(text: &str) -> (Failing, RateLimitByRules<Retrying>) {
    let (failing, store) = failing();
    let limiter = RuleLimiter::new(store, paused_memory());
    (failing, RateLimit::rules(rules(text), limiter).values(user_and_tier))
}

/// Takes the user and the tier as a program's extensions have them.
fn user_and_tier<'r>(
    parts: &'r Parts,
    request: lockage_rules::Request<'r>,
) -> lockage_rules::Request<'r> {
    match parts.extensions.get::<User>() {
        Some(User(user, tier)) => request.user(*user).tier(*tier),
        None => request,
    }
}

/// An authenticated user, and the tier.
#[derive(Clone, Copy)]
struct User(&'static str, &'static str);

fn of(path: &str, user: &'static str, tier: &'static str) -> Request<()> {
    let mut request = from("192.0.2.1");
    *request.uri_mut() = path.parse().unwrap();
    request.extensions_mut().insert(User(user, tier));
    request
}

const SAAS: &str = "
    limits: { chat: 'requests: fixed-window 2/min + tokens: token-bucket 90/min' }
    tiers: { pro: { chat: 'requests: fixed-window 4/min + tokens: token-bucket 900/min' } }
    costs: { tokens: 10 }
    rules:
      - { name: banned, when: { address: 198.51.100.0/24 }, limit: blocked,
          client: { status: 403, message: \"go \\\"away\\\" \\u2014 \\n50 %\" } }
      - { name: closed, when: { header.x-old: true }, limit: blocked }
      - { name: chat, when: { route: /chat, method: GET }, id: 'chat:{user},{tier|none}', limit: chat,
          cost: { requests: 1, tokens: tokens } }
      - { name: quiet, when: { route: /quiet }, id: 'quiet:{user}', limit: fixed-window 1/min,
          client: { fields: false, status: 420, message: slow down } }
      - { name: trial, when: { route: /quiet }, id: trial, limit: fixed-window 1/h, shadow: true }
      - { name: hourly, when: { route: /twice }, id: 'hour:{user}', limit: fixed-window 9/h, client: { policy: twice } }
      - { name: twice, when: { route: /twice }, id: 'minute:{user}', limit: fixed-window 3/min }
";

#[tokio::test(start_paused = true)]
async fn rules_choose_the_limits_and_their_fields() {
    let layer = by_rules(SAAS).1.client(ip().behind(["192.0.2.0/24"]).unwrap()).build().unwrap();
    let answer = ask(&layer, of("/chat", "ann", "")).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(
        field(&answer, "ratelimit-policy"),
        "\"chat-requests\";q=2;w=60, \"chat-tokens\";q=90;w=60;lockage-burst=90"
    );
    assert_eq!(
        field(&answer, "ratelimit"),
        "\"chat-requests\";r=1;t=60, \"chat-tokens\";r=80;t=54"
    );
    assert_eq!(status(&layer, of("/chat", "ann", "")).await, 200);
    let denied = ask(&layer, of("/chat", "ann", "")).await;
    assert_eq!((denied.status().as_u16(), field(&denied, "retry-after").as_str()), (429, "60"));
    assert_eq!(field(&denied, "ratelimit"), "\"chat-requests\";r=0;t=60");
    assert!(field(&denied, "ratelimit-policy").contains("\"chat-tokens\""));
    let problem = problem(denied).await;
    assert_eq!(problem["violated-policies"], serde_json::json!(["chat-requests"]));
    // Another user, another tier, another route or no rule.
    let pro = ask(&layer, of("/chat", "ann", "pro")).await;
    assert!(field(&pro, "ratelimit").starts_with("\"chat-requests\";r=3"));
    assert_eq!(status(&layer, of("/chat", "bob", "")).await, 200);
    let other = ask(&layer, of("/other", "ann", "")).await;
    assert_eq!((other.status().as_u16(), other.headers().len()), (200, 0));
    let anonymous = from("192.0.2.1");
    assert_eq!(status(&layer, anonymous).await, 200);
    // Two rules with one name for clients.
    let twice = ask(&layer, of("/twice", "ann", "")).await;
    assert_eq!(field(&twice, "ratelimit"), "\"twice\";r=8;t=3600, \"twice-2\";r=2;t=60");
}

#[tokio::test(start_paused = true)]
async fn a_client_sees_of_a_rule_as_much_as_the_file_says() {
    let layer = by_rules(SAAS).1.client(ip().behind(["192.0.2.0/24"]).unwrap()).build().unwrap();
    for would_deny in [false, true] {
        // One of another user, since the trial is for all.
        let user = if would_deny { "bob" } else { "ann" };
        let answer = ask(&layer, of("/quiet", user, "")).await;
        assert_eq!((answer.status().as_u16(), answer.headers().len()), (200, 0));
    }
    let denied = ask(&layer, of("/quiet", "ann", "")).await;
    assert_eq!((denied.status().as_u16(), field(&denied, "retry-after").as_str()), (420, "60"));
    assert!(!denied.headers().contains_key("ratelimit-policy"));
    let quiet = problem(denied).await;
    assert_eq!((&quiet["detail"], &quiet["status"]), (&"slow down".into(), &420.into()));
    assert!(quiet.get("violated-policies").is_none());

    let banned = || with(of("/chat", "ann", ""), &[("x-forwarded-for", "198.51.100.7")]);
    let answer = ask(&layer, banned()).await;
    assert_eq!((answer.status().as_u16(), answer.headers().get("retry-after")), (403, None));
    let message = "go \"away\" \u{2014} \n50 %";
    assert_eq!(problem(answer).await["detail"], message);
    let grpc = ask(&layer, with(banned(), &[("content-type", "application/grpc")])).await;
    assert_eq!((grpc.status().as_u16(), field(&grpc, "grpc-status").as_str()), (200, "8"));
    assert_eq!(field(&grpc, "grpc-message"), "go \"away\" %E2%80%94 %0A50 %25");
    let closed = ask(&layer, with(of("/", "ann", ""), &[("x-old", "1")])).await;
    assert_eq!(closed.status(), 429);
    let kind = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";
    assert_eq!(problem(closed).await["type"], kind);
}

#[tokio::test(start_paused = true)]
async fn handlers_see_the_rules() {
    let layer = by_rules(SAAS).1.fields(Fields::NONE).build().unwrap();
    let service = layer.layer(service_fn(async |request: Request<()>| {
        let rules: &Arc<RuleDecision> = request.extensions().get().unwrap();
        let names: Vec<_> = rules.met.iter().map(|met| met.matched.rule.name.as_str()).collect();
        assert_eq!((names, rules.is_allowed()), (vec!["quiet", "trial"], true));
        assert_eq!(request.extensions().get::<Decision>().unwrap().remaining, 0);
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    assert_eq!(service.oneshot(of("/quiet", "ann", "")).await.unwrap().status(), 200);
    let (parts, ()) = of("/quiet", "bob", "").into_parts();
    let admission = layer.check(&parts).await.unwrap();
    assert_eq!(admission.rules.unwrap().met.len(), 2);
}

/// The route is axum's registered one, so that clients cannot invent any number of them.
#[tokio::test(start_paused = true)]
async fn the_route_is_the_registered_one() {
    let text = "rules: [{ name: r, id: '{route}:{user}', limit: fixed-window 1/min }]";
    let layer = by_rules(text).1.build().unwrap();
    let app = Router::new()
        .route("/users/{id}", get(async || "one"))
        .route("/users", get(async || "all"))
        .layer(layer);
    for (path, status) in
        [("/users/1", 200), ("/users/2", 429), ("/users", 200), ("/x", 404), ("/y", 404)]
    {
        let request = of(path, "ann", "").map(|()| axum::body::Body::empty());
        assert_eq!(app.clone().oneshot(request).await.unwrap().status(), status, "{path}");
    }
}

/// H5, by rules.
#[tokio::test(start_paused = true)]
async fn without_the_store_fallbacks_and_the_setting_decide() {
    const TEXT: &str = "
        rules:
          - { name: open, when: { route: /open }, id: open, limit: fixed-window 1/min, fallback: open }
          - { name: closed, when: { route: /closed }, id: closed, limit: fixed-window 1/min, fallback: closed,
              client: { status: 420, message: busy } }
          - { name: none, when: { route: /none }, id: none, limit: fixed-window 1/min }
          - { name: blocked, when: { route: /blocked }, limit: blocked }
    ";
    for (on_error, expected) in [(OnError::Deny, 503), (OnError::Allow, 200)] {
        let (failing, layer) = by_rules(TEXT);
        let layer = layer.on_error(on_error).build().unwrap();
        let ask = async |path: &str| ask(&layer, of(path, "ann", "")).await;
        for fate in [Fate::NotDone, Fate::RequestLost] {
            failing.always(fate);
            assert_eq!(ask("/none").await.status(), expected, "{fate:?}");
            for _ in 0..3 {
                assert_eq!(ask("/open").await.status(), 200);
            }
            let closed = ask("/closed").await;
            assert_eq!(
                (closed.status().as_u16(), field(&closed, "retry-after").as_str()),
                (503, "1")
            );
            assert!(problem(closed).await.get("detail").is_none());
            assert_eq!(ask("/blocked").await.status(), 429);
        }
        failing.always(Fate::Misconfigured);
        assert_eq!(ask("/none").await.status(), 500);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_setup_by_rules_is_answered_500() {
    let text = "
        rules:
          - { name: banned, when: { address: 10.0.0.0/8 }, limit: blocked }
          - { name: turns, when: { route: /turns }, id: turns, limit: leaky-bucket 1/s queue 9 }
          - { name: stored, when: { route: /stored }, id: s, stored: true }
    ";
    let (_, layer) = by_rules(text);
    let layer = layer.on_error(OnError::Allow).build().unwrap();
    assert_eq!(status(&layer, Request::new(())).await, 500, "no address");
    assert_eq!(status(&layer, of("/stored", "ann", "")).await, 500);
    // The first turn is at once, the second is not.
    assert_eq!(status(&layer, of("/turns", "ann", "")).await, 200);
    assert_eq!(status(&layer, of("/turns", "ann", "")).await, 500);
    // That one is given back.
    tokio::time::sleep(SECOND).await;
    assert_eq!(status(&layer, of("/turns", "ann", "")).await, 200);
    let (_, store) = failing();
    let layer = RateLimit::rules(rules(text), RuleLimiter::new(store, paused_memory()));
    let layer = layer.reserve(Tokio, Duration::ZERO, "tokens", Commit::by_body_length());
    assert!(layer.build().is_err());
}

/// Answers with the tokens that were used, if they are known.
async fn answer(tokens: Option<&'static str>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::from("yes"));
    if let Some(tokens) = tokens {
        response.headers_mut().insert("x-tokens", tokens.parse().unwrap());
    }
    Ok(response)
}

/// H4: the estimate is settled by the response, and a place is held until its body ends.
#[tokio::test(start_paused = true)]
async fn estimates_are_settled_by_the_response() {
    let (_, store) = failing();
    let limiter = RuleLimiter::new(store.clone(), paused_memory());
    let layer = RateLimit::rules(rules(SAAS), limiter)
        .values(|parts, request| user_and_tier(parts, request).cost("tokens", 30))
        .reserve(Tokio, SECOND * 60, "tokens", Commit::by_header("x-tokens").unwrap())
        .build()
        .unwrap();
    let chat = "requests: fixed-window 2/min + tokens: token-bucket 90/min".parse().unwrap();
    let chat = Limiter::new(store, chat);
    let left = async |user: &str| {
        tokio::task::yield_now().await;
        let parts = chat.peek(&format!("chat:{user},none"), 0).await.unwrap().parts;
        (parts[0].remaining, parts[1].remaining)
    };
    let known = layer.layer(service_fn(async |_: Request<()>| answer(Some("7")).await));
    let unknown = layer.layer(service_fn(async |_: Request<()>| answer(None).await));
    known.oneshot(of("/chat", "ann", "")).await.unwrap();
    assert_eq!(left("ann").await, (1, 83));
    unknown.oneshot(of("/chat", "bob", "")).await.unwrap();
    assert_eq!(left("bob").await, (1, 60));
    // Dropped while it is served.
    let never = layer.layer(service_fn(async |_: Request<()>| {
        std::future::pending::<()>().await;
        answer(None).await
    }));
    let mut served = Box::pin(never.oneshot(of("/chat", "eve", "")));
    tokio::select! {
        biased;
        _ = &mut served => unreachable!("it is served for ever"),
        () = tokio::time::sleep(SECOND) => {}
    }
    drop(served);
    assert_eq!(left("eve").await.0, 1);
}

/// H4: a stream that outlives the hold is settled exactly, under each rule, and renewals end with it.
#[tokio::test(start_paused = true)]
async fn estimates_are_renewed_while_the_body_goes_on() {
    let text = "
        costs: { tokens: 30 }
        rules:
          - { name: users, id: users, limit: fixed-window 100/day, cost: tokens }
          - { name: all, id: all, limit: fixed-window 200/day, cost: tokens }
    ";
    let (failing, store) = failing();
    let limiter = RuleLimiter::new(store.clone(), paused_memory());
    let layer = RateLimit::rules(rules(text), limiter)
        .reserve(Tokio, SECOND * 8, "tokens", Commit::by_body_length())
        .build()
        .unwrap();
    let left = async |id: &str, limit: &str| {
        Limiter::new(&store, limit.parse().unwrap()).peek(id, 0).await.unwrap().remaining
    };
    let (parts, ()) = from("192.0.2.1").into_parts();
    let mut admission = layer.check(&parts).await.unwrap();
    tokio::time::sleep(SECOND * 60).await;
    admission.settle_by(&Response::new(()).into_parts().0);
    tokio::time::sleep(SECOND * 60).await;
    admission.end(7);
    tokio::time::sleep(SECOND).await;
    let left =
        (left("users", "fixed-window 100/day").await, left("all", "fixed-window 200/day").await);
    assert_eq!(left, (93, 193));
    let calls = failing.calls();
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(failing.calls(), calls, "nothing is renewed that has ended");
}

#[tokio::test(start_paused = true)]
async fn at_its_bound_a_process_sheds_the_less_important_first() {
    let text = "
        rules:
          - { name: bulk, when: { route: /bulk }, id: bulk, limit: fixed-window 99/min, priority: low }
          - { name: pay, when: { route: /pay }, id: pay, limit: fixed-window 99/min, priority: critical }
          - { name: all, id: all, limit: fixed-window 999/min }
    ";
    for on_error in [OnError::Deny, OnError::Allow] {
        let (failing, store) = failing();
        let limiter = RuleLimiter::new(store, paused_memory()).with_in_flight(4);
        let layer = RateLimit::rules(rules(text), limiter).on_error(on_error).build().unwrap();
        let ask = async |path: &str| ask(&layer, of(path, "ann", "")).await;
        // Also requests that go ahead without a decision have a place.
        failing.always(if on_error == OnError::Allow { Fate::NotDone } else { Fate::Answered });
        let mut served = Vec::new();
        for (path, is_served) in [
            ("/bulk", true),
            ("/bulk", true),
            ("/bulk", false),
            ("/", true),
            ("/", false),
            ("/bulk", false),
            ("/pay", true),
            ("/pay", false),
        ] {
            let answer = ask(path).await;
            assert_eq!(answer.status(), if is_served { 200 } else { 503 }, "{path}");
            if is_served {
                served.push(answer);
            } else {
                assert_eq!(field(&answer, "retry-after"), "1");
                let problem = problem(answer).await;
                let expected = "too many requests are served now for one of this priority";
                assert_eq!(problem["detail"], expected);
            }
        }
        // The place of a request is free once its body has ended.
        served.pop().unwrap().into_body().collect().await.unwrap();
        assert_eq!(ask("/").await.status(), 503);
        assert_eq!(ask("/pay").await.status(), 200);
        served.clear();
        assert_eq!(ask("/bulk").await.status(), 200);
    }
}

/// A layer whose file is replaced all the time answers each request by whole rules, and loses no charge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_under_load_lose_no_request() {
    const TASKS: u64 = 8;
    const REQUESTS: u64 = 400;
    // Each version has its own name for clients, for both of its rules.
    let file = |version: u64| {
        format!(
            "rules:
              - {{ name: v{version}-users, id: 'user:{{user}}', limit: fixed-window {}/h }}
              - {{ name: v{version}-all, id: all, limit: fixed-window {}/h }}",
            100_000 + version % 7,
            1_000_000 + version
        )
    };
    let content = Arc::new(Mutex::new(file(0)));
    let read = Arc::clone(&content);
    let live =
        LiveRules::from_source("rules.yaml", move || Ok(read.lock().unwrap().clone().into()));
    let live = Arc::new(live.unwrap());
    let store = RetryStore::new(MemoryStore::new(), Tokio, SECOND);
    let limiter = RuleLimiter::new(store.clone(), MemoryStore::new());
    let layer = RateLimit::rules(Arc::clone(&live), limiter).values(user_and_tier).build().unwrap();
    let versions = Arc::new(AtomicU64::new(0));
    let ended = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (layer, versions, ended) = (layer.clone(), versions.clone(), ended.clone());
            tokio::spawn(async move {
                let mut last = String::new();
                for _ in 0..REQUESTS {
                    let user = if task % 2 == 0 { "ann" } else { "bob" };
                    let answer = ask(&layer, of("/", user, "")).await;
                    assert_eq!(answer.status(), 200);
                    let policies = field(&answer, "ratelimit-policy");
                    let mut names =
                        policies.split(", ").map(|item| item.split('-').next().unwrap().to_owned());
                    let (one, other) = (names.next().unwrap(), names.next().unwrap());
                    assert_eq!((&one, names.next()), (&other, None), "{policies}");
                    if last != one {
                        versions.fetch_add(1, Ordering::Relaxed);
                        last = one;
                    }
                    tokio::task::yield_now().await;
                }
                ended.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    let mut version = 0;
    while ended.load(Ordering::Relaxed) < TASKS {
        version += 1;
        *content.lock().unwrap() = match version % 5 {
            // A mistake changes nothing.
            0 => file(version).replace("limit", "limti"),
            _ => file(version),
        };
        let _ = live.reload();
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(versions.load(Ordering::Relaxed) > TASKS, "no request saw a second version");
    let charged = async |id: &str, limit: u64| {
        let limit = format!("fixed-window {limit}/h").parse().unwrap();
        limit_of(&store, limit).peek(id, 0).await.unwrap()
    };
    let all = charged("all", 10_000_000).await;
    assert_eq!(all.limit - all.remaining, TASKS * REQUESTS);
    for user in ["user:ann", "user:bob"] {
        let one = charged(user, 10_000_000).await;
        assert_eq!(one.limit - one.remaining, TASKS * REQUESTS / 2);
    }
}

fn limit_of<S: Store + Clone>(store: &S, limit: Limit) -> Limiter<S> {
    Limiter::new(store.clone(), limit)
}
