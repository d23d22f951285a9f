//! Several limits in front of one route: all are charged, or none.

use http::request::Parts;
use lockage::limiter::{Fallback, StoredLimits};
use lockage::{Decision, Locks};
use lockage_memory::testing::{FailingStore, Fate, paused_memory};
use lockage_tower::{Key, OnError, header};

use super::*;

/// Two keys in order: if the second denies, the charge of the first is refunded.
#[tokio::test]
async fn two_keys_are_charged_both_or_neither() {
    let store = MemoryStore::new();
    let by_ip = Limiter::new(store.clone(), limit("fixed-window 10/h")).with_prefix("ip").unwrap();
    let by_key = Limiter::new(store, limit("fixed-window 2/h")).with_prefix("key").unwrap();
    let layer = RateLimit::per_ip(by_ip.clone())
        .named("ip")
        .and_by(header("x-api-key").unwrap(), by_key)
        .named("key")
        .build()
        .unwrap();
    let request = |key: &str| with(from("192.0.2.1"), &[("x-api-key", key)]);
    let answer = ask(&layer, request("a")).await;
    let [policies, states] = ["ratelimit-policy", "ratelimit"].map(|name| field(&answer, name));
    assert_eq!(policies, r#""ip";q=10;w=3600, "key";q=2;w=3600"#);
    assert_eq!(states, r#""ip";r=9;t=3600, "key";r=1;t=3600"#);
    assert_eq!(status(&layer, request("a")).await, 200);
    for _ in 0..3 {
        let answer = ask(&layer, request("a")).await;
        assert_eq!(answer.status(), 429);
        assert_eq!(field(&answer, "ratelimit"), r#""key";r=0;t=3600"#);
        assert_eq!(problem(answer).await["violated-policies"], serde_json::json!(["key"]));
    }
    assert_eq!(status(&layer, from("192.0.2.1")).await, 401, "after the first was charged");
    assert_eq!(by_ip.peek("ip:192.0.2.1", 1).await.unwrap().remaining, 8);
}

/// D18: limits of one store are one decision, which asks it once; those of several stores are asked in turn, and refunded.
#[tokio::test]
async fn limits_of_one_store_are_one_decision() {
    for (is_one_store, is_stored) in [(true, false), (true, true), (false, false)] {
        let [first, second] = [(); 2].map(|()| FailingStore::new(MemoryStore::new()));
        let second = if is_one_store { first.clone() } else { second };
        let by_ip =
            Limiter::new(first.clone(), limit("fixed-window 10/h")).with_prefix("ip").unwrap();
        let shared =
            Limiter::new(second.clone(), limit("fixed-window 1/h")).with_prefix("all").unwrap();
        let stored = StoredLimits::new().with_default(limit("fixed-window 1/h"));
        let shared = if is_stored { shared.under_stored(stored) } else { shared };
        let layer = RateLimit::per_ip(by_ip.clone()).named("ip");
        let layer = layer.and_by(Key::shared(), shared).named("all").build().unwrap();
        for (expected, calls) in [(200, 2), (429, 3)] {
            let calls_now = || first.calls() + if is_one_store { 0 } else { second.calls() };
            let before = calls_now();
            assert_eq!(status(&layer, from("192.0.2.1")).await, expected);
            let made = calls_now() - before;
            assert_eq!(made, if is_one_store { 1 } else { calls }, "{expected}");
            assert_eq!(by_ip.peek("ip:192.0.2.1", 0).await.unwrap().remaining, 9);
        }
    }
}

/// D18: so are costs by part.
#[tokio::test]
async fn costs_by_part_are_charged_to_all_limits_or_to_none() {
    for is_one_store in [true, false] {
        let [first, second] = [(); 2].map(|()| FailingStore::new(MemoryStore::new()));
        let second = if is_one_store { first.clone() } else { second };
        let limiter = |store: &FailingStore<_>, tokens, prefix| {
            let limit =
                limit(&format!("requests: fixed-window 9/h + tokens: fixed-window {tokens}/h"));
            Limiter::new(store.clone(), limit).with_prefix(prefix).unwrap()
        };
        let by_ip = limiter(&first, 99, "ip");
        let layer = RateLimit::per_ip(by_ip.clone())
            .named_each(["requests", "tokens"])
            .and_by(Key::shared(), limiter(&second, 50, "all"))
            .named_each(["all-requests", "all-tokens"])
            .cost_of("tokens", |_: &Parts| 30)
            .cost_of("requests", |_: &Parts| 1)
            .build()
            .unwrap();
        for expected in [200, 429] {
            let before = first.calls();
            assert_eq!(status(&layer, from("192.0.2.1")).await, expected);
            // Those of several stores are asked in turn, and refunded.
            let calls = if is_one_store || expected == 200 { 1 } else { 2 };
            assert_eq!(first.calls() - before, calls, "{is_one_store} {expected}");
            let parts = by_ip.peek_parts("ip:192.0.2.1", &[1, 1]).await.unwrap().parts;
            assert!(parts.iter().map(|part| part.remaining).eq([8, 69]), "{parts:?}");
        }
    }
}

/// More limits than one decision has, or of which only one has a fallback, are asked in turn.
#[tokio::test]
async fn limits_that_are_no_one_decision_are_asked_in_turn() {
    let store = FailingStore::new(MemoryStore::new());
    let limiter = |prefix: &str| {
        let limiter = Limiter::new(store.clone(), limit("fixed-window 2/h"));
        limiter.with_prefix(prefix).unwrap()
    };
    let mut layer = RateLimit::per_ip(limiter("p0")).named("p0");
    for prefix in ["p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"] {
        layer = layer.and_by(Key::shared(), limiter(prefix)).named(prefix);
    }
    let layer = layer.build().unwrap();
    assert_eq!((status(&layer, from("192.0.2.1")).await, store.calls()), (200, 9));

    let retry = RetryStore::new(store.clone(), Tokio, Duration::from_millis(250));
    let own = Limiter::new(retry, limit("fixed-window 5/h"));
    let open = own.clone().with_prefix("open").unwrap().with_fallback(Fallback::closed()).unwrap();
    let plain = own.with_prefix("plain").unwrap();
    let layer = RateLimit::per_ip(open).named("open").and_by(Key::shared(), plain).named("plain");
    let layer = layer.on_error(OnError::Allow).build().unwrap();
    store.always(Fate::Misconfigured);
    assert_eq!(status(&layer, from("192.0.2.1")).await, 500);
    store.always(Fate::NotDone);
    assert_eq!(status(&layer, from("192.0.2.1")).await, 503, "the fallback decides, and denies");
}

/// Handlers, and clients that know only one limit, see the one that has the least left.
#[tokio::test]
async fn the_limit_with_the_least_remaining_is_reported() {
    for (first, second) in
        [("fixed-window 10/h", "fixed-window 2/h"), ("fixed-window 2/h", "fixed-window 10/h")]
    {
        let layer = RateLimit::per_ip(manual(first).1)
            .named("first")
            .and_by(Key::shared(), manual(second).1)
            .named("second")
            .fields("x-ratelimit".parse().unwrap())
            .build()
            .unwrap();
        let service = layer.layer(service_fn(async |request: Request<()>| {
            let decision: &Decision = request.extensions().get().unwrap();
            Ok::<_, Infallible>(Response::new(Full::from(decision.limit.to_string())))
        }));
        let answer = service.oneshot(from("192.0.2.1")).await.unwrap();
        assert_eq!(field(&answer, "x-ratelimit-limit"), "2");
        assert_eq!(field(&answer, "x-ratelimit-remaining"), "1");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "2");
    }
}

/// H4: a cost by part is given back where no place is free.
#[tokio::test(start_paused = true)]
async fn costs_by_part_are_given_back_without_a_place() {
    let store = waiting_store(paused_memory());
    let locks = Locks::new(store.clone(), SECOND * 30).unwrap().with_prefix("places").unwrap();
    let by_part = limit("requests: fixed-window 9/h + tokens: fixed-window 99/h");
    let limiter = Limiter::new(store, by_part).with_prefix("p").unwrap();
    let layer = RateLimit::per_ip(limiter.clone())
        .named_each(["requests", "tokens"])
        .cost_of("tokens", |_: &Parts| 30)
        .in_flight(locks.clone(), 1)
        .build()
        .unwrap();
    let place = locks.semaphore("ip:192.0.2.1", 1).unwrap().try_acquire().await.unwrap();
    let _place = place.taken().unwrap();
    assert_eq!(status(&layer, from("192.0.2.1")).await, 429);
    let parts = limiter.peek_parts("ip:192.0.2.1", &[1, 1]).await.unwrap().parts;
    assert!(parts.iter().map(|part| part.remaining).eq([9, 99]), "{parts:?}");
}
