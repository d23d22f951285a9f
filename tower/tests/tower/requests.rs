//! The charges of requests, and which requests reach the service.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use http::request::Parts;
use lockage::limiter::StoredLimits;
use lockage::{AnyStore, Decision};
use lockage_memory::testing::paused_memory;
use lockage_tower::{Cost, Key, header};

use super::*;

/// A service that panics if it is called without being polled for readiness. Its clones are not ready.
#[derive(Default)]
pub(super) struct Strict {
    is_ready: bool,
    /// Whether it is not ready at first.
    hesitates: Arc<AtomicBool>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Strict { is_ready: false, hesitates: self.hesitates.clone() }
    }
}

impl Service<Request<()>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.hesitates.swap(false, Ordering::Relaxed) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "it was not asked whether it is ready");
        std::future::ready(Ok(Response::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_service_that_is_ready_is_called() {
    let strict = Strict { hesitates: Arc::new(true.into()), ..Strict::default() };
    let mut service = per_ip(manual("fixed-window 2/h").1).layer(strict);
    for status in [200, 200, 429, 429] {
        let answer = service.ready().await.unwrap().call(from("192.0.2.1")).await.unwrap();
        assert_eq!(answer.status(), status);
    }
    // Two at once, of one service.
    let mut service = per_ip(manual("fixed-window 2/h").1).layer(Strict::default());
    let first = service.ready().await.unwrap().call(from("192.0.2.1"));
    let second = service.ready().await.unwrap().call(from("192.0.2.1"));
    assert_eq!(second.await.unwrap().status(), 200);
    assert_eq!(first.await.unwrap().status(), 200);
    // Likewise where one of them waits for its decision.
    let limiter = Limiter::new(waiting_store(paused_memory()), limit("token-bucket 1/s"))
        .with_prefix("test")
        .unwrap();
    let layer = RateLimit::per_ip(limiter).waiting(SECOND * 5).build().unwrap();
    let mut service = layer.layer(Strict::default());
    let first = service.ready().await.unwrap().call(from("192.0.2.1"));
    let second = service.ready().await.unwrap().call(from("192.0.2.1"));
    let third = service.ready().await.unwrap().call(from("192.0.2.2"));
    assert_eq!(third.await.unwrap().status(), 200);
    assert_eq!(second.await.unwrap().status(), 200);
    assert_eq!(first.await.unwrap().status(), 200);
}

#[tokio::test]
async fn handlers_see_the_decision() {
    let layer = per_ip(manual("fixed-window 7/h").1);
    let service = layer.layer(service_fn(async |request: Request<()>| {
        let decision: &Decision = request.extensions().get().unwrap();
        Ok::<_, Infallible>(Response::new(Full::from(decision.remaining.to_string())))
    }));
    let answer = service.oneshot(from("192.0.2.1")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "6");
}

#[tokio::test]
async fn a_request_costs_as_the_layer_is_configured() {
    let (_, limiter) = manual("fixed-window 10/h");
    let layer = RateLimit::per_ip(limiter)
        .cost(|parts: &Parts| match parts.method {
            http::Method::POST => 4,
            http::Method::OPTIONS => 0,
            _ => 1,
        })
        .skip(|parts| parts.uri.path() == "/health")
        .build()
        .unwrap();
    let request = |method: http::Method, path: &str| {
        let mut request = from("192.0.2.1");
        (*request.method_mut(), *request.uri_mut()) = (method, path.parse().unwrap());
        request
    };
    let left = async |method, path| {
        let answer = ask(&layer, request(method, path)).await;
        answer.headers().get("ratelimit").map(|_| field(&answer, "ratelimit"))
    };
    assert_eq!(left(http::Method::POST, "/").await.unwrap(), r#""default";r=6;t=3600"#);
    assert_eq!(left(http::Method::GET, "/").await.unwrap(), r#""default";r=5;t=3600"#);
    assert_eq!(left(http::Method::OPTIONS, "/").await, None, "it costs nothing");
    assert_eq!(left(http::Method::GET, "/health").await, None, "it is skipped");
    assert_eq!(left(http::Method::GET, "/").await.unwrap(), r#""default";r=4;t=3600"#);
}

/// Each part is charged its own cost, and the part that has no room denies.
#[tokio::test]
async fn parts_have_costs_of_their_own() {
    let (_, limiter) =
        manual("requests: fixed-window 3/h + tokens: fixed-window 100/h + bytes: fixed-window 9/h");
    let layer = RateLimit::per_ip(limiter.clone())
        .named_each(["requests", "tokens", "bytes"])
        .cost_of("tokens", |parts: &Parts| parts.uri.path().len() as u64)
        .cost_of("requests", |parts: &Parts| u64::from(parts.uri.path() != "/free"))
        .cost_of("requests", |parts: &Parts| u64::from(parts.uri.path() != "/"))
        .build()
        .unwrap();
    let request = |length: usize| {
        let mut request = from("192.0.2.1");
        *request.uri_mut() = format!("/{}", "x".repeat(length - 1)).parse().unwrap();
        request
    };
    let left = async || {
        let parts = limiter.peek_parts("ip:192.0.2.1", &[1, 1, 1]).await.unwrap().parts;
        parts.iter().map(|part| part.remaining).collect::<Vec<_>>()
    };
    assert_eq!(status(&layer, request(1)).await, 200);
    assert_eq!(left().await, [3, 99, 9], "the second cost of requests counts");
    assert_eq!(status(&layer, request(90)).await, 200);
    assert_eq!(left().await, [2, 9, 9]);
    let denied = ask(&layer, request(10)).await;
    assert_eq!((denied.status().as_u16(), left().await), (429, vec![2, 9, 9]));
    assert_eq!(problem(denied).await["violated-policies"], serde_json::json!(["tokens"]));
    assert_eq!(status(&layer, request(101)).await, 400, "it never fits");
    assert_eq!(status(&layer, request(4)).await, 200);
    assert_eq!(status(&layer, request(4)).await, 200);
    assert_eq!(status(&layer, request(1)).await, 200, "a part without a cost does not deny");
    assert_eq!(left().await, [0, 0, 9]);
}

/// A preflight is `OPTIONS` with both fields, and nothing less.
#[tokio::test]
async fn preflights_are_skipped_on_request() {
    let key = || header("x-api-key").unwrap();
    let skips =
        || RateLimit::by(key(), manual("fixed-window 1/h").1).skip_preflights().build().unwrap();
    let request = |method: &str, fields: &[(&'static str, &str)]| {
        let mut request = with(from("192.0.2.1"), fields);
        *request.method_mut() = method.parse().unwrap();
        request
    };
    let origin = ("origin", "https://app.example");
    let asks = ("access-control-request-method", "PUT");
    let with_key = ("x-api-key", "a");
    let layer = skips();
    for _ in 0..3 {
        let answer = ask(&layer, request("OPTIONS", &[origin, asks])).await;
        assert_eq!(answer.status(), 200, "it has no key, and needs none");
        assert!(answer.headers().get("ratelimit").is_none());
    }
    assert_eq!(status(&layer, request("PUT", &[with_key, origin])).await, 200, "not charged yet");
    assert_eq!(status(&layer, request("PUT", &[with_key, origin])).await, 429);
    for (method, fields) in [
        ("OPTIONS", &[][..]),
        ("OPTIONS", &[origin]),
        ("OPTIONS", &[asks]),
        ("GET", &[origin, asks]),
        ("POST", &[origin, asks]),
        ("options", &[origin, asks]),
    ] {
        let answer = status(&skips(), request(method, fields)).await;
        assert_eq!(answer, 401, "{method} {fields:?} is no preflight");
    }
    // Not unless the option is set; it adds to `skip`.
    let plain = RateLimit::by(key(), manual("fixed-window 1/h").1).build().unwrap();
    assert_eq!(status(&plain, request("OPTIONS", &[origin, asks])).await, 401);
    let both = RateLimit::by(key(), manual("fixed-window 1/h").1)
        .skip_preflights()
        .skip(|parts| parts.uri.path() == "/health")
        .build()
        .unwrap();
    assert_eq!(status(&both, request("OPTIONS", &[origin, asks])).await, 200);
    let mut health = request("GET", &[]);
    *health.uri_mut() = "/health".parse().unwrap();
    assert_eq!(status(&both, health).await, 200);
}

#[tokio::test]
async fn never_admissible_requests_get_no_429() {
    let layer =
        RateLimit::per_ip(manual("fixed-window 10/h").1).cost(|_: &Parts| 11).build().unwrap();
    let answer = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(answer.status(), 400);
    assert!(answer.headers().get("retry-after").is_none());

    let (_, limiter) = manual("fixed-window 1_000/h");
    let layer = RateLimit::per_ip(limiter).cost(Cost::content_length(400)).build().unwrap();
    let post = |fields: &[(&'static str, &str)]| {
        let mut request = with(from("192.0.2.1"), fields);
        *request.method_mut() = http::Method::POST;
        request
    };
    let answer = ask(&layer, post(&[("content-length", "1001")])).await;
    assert_eq!(answer.status(), 413);
    assert!(answer.headers().get("retry-after").is_none());
    let answer = ask(&layer, post(&[("content-length", "500")])).await;
    let policy = r#""default";q=1000;w=3600;qu="content-bytes""#;
    assert_eq!(field(&answer, "ratelimit-policy"), policy);
    assert_eq!(field(&answer, "ratelimit"), r#""default";r=500;t=3600"#);
    assert_eq!(field(&ask(&layer, post(&[])).await, "ratelimit"), r#""default";r=100;t=3600"#);
    assert_eq!(status(&layer, post(&[])).await, 429);
    assert_eq!(status(&layer, from("192.0.2.1")).await, 200, "GET has no content");
}

#[tokio::test]
async fn tiers_have_limits_of_their_own() {
    let (_, limiter) = manual("fixed-window 1/h");
    let tiers = [("gold", limit("fixed-window 5/h")), ("silver", limit("token-bucket 3/h"))];
    let layer = RateLimit::by(header("x-api-key").unwrap(), limiter)
        .tiered(tiers, |parts| parts.headers.get("x-tier")?.to_str().ok())
        .build()
        .unwrap();
    let request =
        |key: &str, tier: &str| with(from("192.0.2.1"), &[("x-api-key", key), ("x-tier", tier)]);
    let answer = ask(&layer, request("a", "gold")).await;
    assert_eq!(field(&answer, "ratelimit-policy"), r#""gold";q=5;w=3600"#);
    assert_eq!(field(&answer, "ratelimit"), r#""gold";r=4;t=3600"#);
    let answer = ask(&layer, request("b", "silver")).await;
    assert_eq!(field(&answer, "ratelimit-policy"), r#""silver";q=3;w=3600;lockage-burst=3"#);
    let plain = with(from("192.0.2.1"), &[("x-api-key", "c")]);
    assert_eq!(field(&ask(&layer, plain).await, "ratelimit"), r#""default";r=0;t=3600"#);
    assert_eq!(status(&layer, request("d", "platinum")).await, 500, "no such tier");
}

#[tokio::test]
async fn the_limiter_can_be_in_shadow_mode() {
    let (_, limiter) = manual("fixed-window 1/h");
    let limiter = limiter.with_shadow();
    let layer = per_ip(limiter.clone());
    for _ in 0..3 {
        let answer = ask(&layer, from("192.0.2.1")).await;
        assert_eq!(answer.status(), 200);
        assert!(answer.headers().keys().all(|name| !name.as_str().contains("ratelimit")));
    }
    assert_eq!(limiter.shadow_stats().unwrap().would_deny, 2);
}

#[tokio::test]
async fn a_blocked_client_gets_the_abnormal_usage_problem() {
    let (_, limiter) = manual("fixed-window 100/h");
    let _ = limiter.block("ip:192.0.2.1", SECOND * 90).await.unwrap();
    let answer = ask(&per_ip(limiter), from("192.0.2.1")).await;
    assert_eq!(answer.status(), 429);
    assert_eq!(field(&answer, "retry-after"), "90");
    let problem = problem(answer).await;
    let kind = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";
    assert_eq!(problem["type"], kind);
    assert_eq!(problem["violated-policies"], serde_json::json!(["default"]));
}

#[tokio::test]
async fn answers_can_be_the_applications_own() {
    let layer = RateLimit::per_ip(manual("fixed-window 1/h").1)
        .respond(|rejection, parts| {
            let mut response = rejection.response().map(|_| format!("{}", parts.uri).into());
            *response.status_mut() = http::StatusCode::IM_A_TEAPOT;
            response
        })
        .build()
        .unwrap();
    assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    let answer = ask(&layer, from("192.0.2.1")).await;
    assert_eq!((answer.status().as_u16(), &*field(&answer, "retry-after")), (418, "3600"));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "/");
}

/// A store that is chosen at run time, and limits that are stored with each id.
#[tokio::test]
async fn stored_limits_report_remaining() {
    let limits = StoredLimits::new().with_default(limit("fixed-window 2/h"));
    let store = AnyStore::new(MemoryStore::new());
    let limiter = Limiter::stored(store, limits).with_prefix("stored").unwrap();
    let layer = RateLimit::by(Key::shared(), limiter.clone()).build().unwrap();
    let answer = ask(&layer, Request::new(())).await;
    assert_eq!(field(&answer, "ratelimit"), r#""default";r=1"#);
    assert!(answer.headers().get("ratelimit-policy").is_none(), "its quota is not known here");
    limiter.set_limit_afresh("all", limit("leaky-bucket 1/min queue 5")).await.unwrap();
    assert_eq!(status(&layer, Request::new(())).await, 200);
    for _ in 0..10 {
        assert_eq!(status(&layer, Request::new(())).await, 500, "its turn is not waited for");
    }
    assert_eq!(limiter.peek("all", 0).await.unwrap().remaining, 4, "what it was charged is back");
}

/// In axum: by the route that a request has matched, never by its path.
#[tokio::test]
async fn routes_have_limits_and_costs_of_their_own() {
    let (_, limiter) = manual("fixed-window 10/h");
    let cost = lockage_tower::routes([("/users/{id}", 4)]);
    let key = lockage_tower::ip().and(lockage_tower::route());
    let layer = RateLimit::by(key, limiter.clone()).cost(cost).build().unwrap();
    let yes = || axum::routing::get(async || "yes");
    let app = axum::Router::new().route("/users/{id}", yes()).route("/other", yes()).layer(layer);
    let left = async |path: &str| {
        let mut request = from("192.0.2.1").map(|()| axum::body::Body::empty());
        *request.uri_mut() = path.parse().unwrap();
        field(&app.clone().oneshot(request).await.unwrap(), "ratelimit")
    };
    assert_eq!(left("/users/1").await, r#""default";r=6;t=3600"#);
    assert_eq!(left("/users/2").await, r#""default";r=2;t=3600"#);
    assert_eq!(left("/other").await, r#""default";r=9;t=3600"#);
    // Without a route.
    assert_eq!(left("/nowhere").await, r#""default";r=9;t=3600"#);
    assert_eq!(left("/elsewhere").await, r#""default";r=8;t=3600"#);
    let id = "ip:192.0.2.1,route:/users/%7Bid%7D";
    assert_eq!(limiter.peek(id, 0).await.unwrap().remaining, 2);
}
