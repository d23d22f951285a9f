//! Limits of this process alone answer as those on a store do.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::request::Parts;
use http::{HeaderMap, Method};
use lockage::Decision;
use lockage_memory::{KeyedLimiter, WhenFull};
use lockage_tower::{Cost, Fields, Key, LocalKey, OnError, RateLimitInProcess, ip};
use proptest::prelude::*;

use super::*;

type Keyed = KeyedLimiter<IpAddr, Arc<ManualClock>>;

fn keyed(text: &str) -> (Arc<ManualClock>, Keyed) {
    let clock = Arc::new(ManualClock::new());
    let limiter = KeyedLimiter::with_clock(limit(text), clock.clone()).unwrap();
    (clock, limiter)
}

fn in_process(text: &str) -> RateLimitInProcess {
    RateLimit::in_process(ip(), keyed(text).1)
}

/// All that a client and a handler get, but for the one field that is by the machine's own clock.
async fn seen<S: Store + Clone + 'static>(
    layer: &RateLimitLayer<S>,
    request: Request<()>,
) -> (u16, HeaderMap, Bytes) {
    let handler = service_fn(async |request: Request<()>| {
        let decision = format!("{:?}", request.extensions().get::<Decision>());
        Ok::<_, Infallible>(Response::new(Full::from(decision)))
    });
    let (mut head, body) = layer.layer(handler).oneshot(request).await.unwrap().into_parts();
    head.headers.remove("x-ratelimit-reset");
    (head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes())
}

const LIMITS: [&str; 5] = [
    "fixed-window 3/s",
    "sliding-window 4/s",
    "token-bucket 100/min burst 3",
    "token-bucket 2 every 2s burst 3",
    "token-bucket 1000/h burst 1",
];
const CLIENTS: [&str; 5] =
    ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:0:9::1"];
const FORMS: [Fields; 3] = [Fields::NONE, Fields::DRAFT_11, Fields::DRAFT_11.and_x_ratelimit()];

proptest! {
    /// H1, H2: a client and a handler get of any limit, in any order of requests, the same as from one on a store.
    #[test]
    fn it_answers_as_a_limiter_on_a_store(
        (text, fields) in (prop::sample::select(&LIMITS), prop::sample::select(&FORMS)),
        requests in prop::collection::vec(
            (prop::sample::select(&CLIENTS), 0..6_u64, any::<bool>(), 0..900_000_u64), 1..40,
        ),
    ) {
        let (clock, limiter) = manual(text);
        let keyed = KeyedLimiter::with_clock(limit(text), clock.clone()).unwrap();
        let cost = |parts: &Parts| parts.headers["x-cost"].to_str().unwrap().parse().unwrap();
        let on_store = RateLimit::per_ip(limiter).named("api").cost(cost).fields(fields).build();
        let here = RateLimit::in_process(ip(), keyed).named("api").cost(cost).fields(fields).build();
        let (on_store, here) = (on_store.unwrap(), here.unwrap());
        for (client, cost, is_grpc, wait) in requests {
            clock.advance(Duration::from_micros(wait));
            let kind = if is_grpc { "application/grpc" } else { "text/plain" };
            let fields = [("x-cost", &*cost.to_string()), ("content-type", kind)];
            let one = pollster::block_on(seen(&on_store, with(from(client), &fields)));
            let other = pollster::block_on(seen(&here, with(from(client), &fields)));
            prop_assert_eq!(one, other);
        }
    }
}

/// H5: a limiter without room makes no decision.
#[tokio::test]
async fn a_full_limiter_follows_the_on_error_setting() {
    for (on_error, status) in [(OnError::Deny, 503), (OnError::Allow, 200)] {
        let limiter = keyed("fixed-window 1/h").1.with_max_keys(1, WhenFull::Refuse).unwrap();
        let layer = RateLimit::in_process(ip(), limiter).on_error(on_error).build().unwrap();
        assert_eq!(super::status(&layer, from("192.0.2.1")).await, 200);
        let answer = ask(&layer, from("192.0.2.2")).await;
        assert_eq!(answer.status(), status);
        assert!(answer.headers().get("ratelimit").is_none());
        assert_eq!(answer.headers().get("retry-after").is_some(), status == 503);
        assert_eq!(super::status(&layer, from("192.0.2.1")).await, 429);
    }
}

#[tokio::test]
async fn requests_without_a_key_are_turned_away() {
    let layer = in_process("fixed-window 1/h").build().unwrap();
    assert_eq!(status(&layer, Request::new(())).await, 500, "no address");
    let user = LocalKey::of("user", |parts| parts.extensions.get::<u64>().copied());
    let limiter = KeyedLimiter::<u64, _>::new(limit("fixed-window 1/h")).unwrap();
    let layer = RateLimit::in_process(user, Arc::new(limiter)).build().unwrap();
    assert_eq!(status(&layer, Request::new(())).await, 401);
    for (user, expected) in [(7, 200), (7, 429), (8, 200)] {
        let mut request = Request::new(());
        request.extensions_mut().insert::<u64>(user);
        assert_eq!(status(&layer, request).await, expected);
    }
}

#[tokio::test]
async fn requests_that_are_not_limited_charge_nothing() {
    let layer = in_process("fixed-window 1/h")
        .skip(|parts| parts.uri.path() == "/health")
        .skip_preflights()
        .cost(|parts: &Parts| u64::from(parts.method != Method::HEAD))
        .build()
        .unwrap();
    let request = |method: Method, path: &str| {
        let mut request = from("192.0.2.1");
        (*request.method_mut(), *request.uri_mut()) = (method, path.parse().unwrap());
        with(request, &[("origin", "https://a.example"), ("access-control-request-method", "GET")])
    };
    for _ in 0..2 {
        assert_eq!(status(&layer, request(Method::GET, "/health")).await, 200);
        assert_eq!(status(&layer, request(Method::OPTIONS, "/")).await, 200);
        assert_eq!(status(&layer, request(Method::HEAD, "/")).await, 200);
    }
    assert_eq!(status(&layer, request(Method::GET, "/")).await, 200);
    assert_eq!(status(&layer, request(Method::GET, "/")).await, 429);
}

/// Servers without tower, and a service that must be ready.
#[tokio::test]
async fn it_serves_as_any_layer() {
    let layer = in_process("fixed-window 2/h").build().unwrap();
    let mut service = layer.layer(super::requests::Strict::default());
    for status in [200, 200, 429] {
        let answer = service.ready().await.unwrap().call(from("192.0.2.1")).await.unwrap();
        assert_eq!(answer.status(), status);
    }
    let (parts, ()) = from("192.0.2.2").into_parts();
    assert_eq!(layer.check(&parts).await.unwrap().decision.unwrap().remaining, 1);
    assert_eq!(layer.check(&parts).await.unwrap().decision.unwrap().remaining, 0);
    assert_eq!(layer.check(&parts).await.map(drop).unwrap_err().status(), 429);
    let by_length = in_process("fixed-window 2/h").cost(Cost::content_length(1)).build().unwrap();
    let long = with(from("192.0.2.1"), &[("content-length", "3")]);
    assert_eq!(status(&by_length, long).await, 413);
}

#[test]
fn turns_and_names_are_checked() {
    let turns = in_process("leaky-bucket 1/s queue 2").build().map(drop).unwrap_err();
    assert!(turns.to_string().contains("`leaky-bucket 1/s queue 2` have turns"), "{turns}");
    let name = in_process("fixed-window 1/s").named("a b").build().map(drop).unwrap_err();
    assert!(name.to_string().contains("letters, digits"), "{name}");
}

/// A function of the program may count, or read a clock.
#[tokio::test]
async fn functions_of_a_request_are_called_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    // Counts a call, and returns `value`.
    let count = |value: u64| {
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(1, Ordering::Relaxed);
            value
        }
    };
    let (skip, cost, key) = (count(0), count(1), count(7));
    let here = RateLimit::in_process(
        LocalKey::of("one", move |_| Some(key())),
        KeyedLimiter::<u64, _>::new(limit("fixed-window 9/h")).unwrap(),
    );
    let here = here.skip(move |_| skip() > 0);
    let here = here.cost(move |_: &Parts| cost()).build().unwrap();
    assert_eq!(status(&here, Request::new(())).await, 200);
    assert_eq!(calls.swap(0, Ordering::Relaxed), 3);
    let (skip, cost, key) = (count(0), count(1), count(7));
    let key = Key::of("one", move |_| Some(key().to_string()));
    let on_store = RateLimit::by(key, manual("fixed-window 9/h").1);
    let on_store = on_store.skip(move |_| skip() > 0);
    let on_store = on_store.cost(move |_: &Parts| cost()).build().unwrap();
    assert_eq!(status(&on_store, Request::new(())).await, 200);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}
