//! H5: the table of failures. A request goes ahead without a decision only if the layer is set to allow that, and never
//! for a misconfigured limiter.

use lockage::limiter::StoredLimits;
use lockage::{Fallback, Locks, RetryStore};
use lockage_memory::testing::{FailingStore, Fate};
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;
use lockage_tower::OnError;

use super::*;

const ON_ERROR: [(OnError, u16); 2] = [(OnError::Deny, 503), (OnError::Allow, 200)];

async fn assert_unavailable(answer: Answer) {
    assert_eq!(answer.status(), 503);
    assert_eq!(field(&answer, "retry-after"), "1");
    let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(problem(answer).await["type"], kind);
}

#[tokio::test]
async fn store_errors_follow_the_on_error_setting() {
    for (on_error, status) in ON_ERROR {
        for fate in [Fate::NotDone, Fate::RequestLost, Fate::AnswerLost] {
            let store = FailingStore::new(MemoryStore::new());
            let limiter = Limiter::new(store.clone(), limit("fixed-window 5/h")).with_prefix("f");
            let layer = RateLimit::per_ip(limiter.unwrap()).on_error(on_error).build().unwrap();
            store.next([fate]);
            let answer = ask(&layer, from("192.0.2.1")).await;
            assert_eq!(answer.status(), status, "{fate:?}");
            assert!(answer.headers().get("ratelimit").is_none());
            if on_error == OnError::Deny {
                assert_unavailable(answer).await;
            }
            assert_eq!(super::status(&layer, from("192.0.2.1")).await, 200, "it is back");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_place_too() {
    for (on_error, expected) in ON_ERROR {
        let store = FailingStore::new(lockage_memory::testing::paused_memory()).only("places");
        let locks = Locks::new(waiting_store(store.clone()), SECOND * 30).unwrap();
        let locks = locks.with_prefix("places").unwrap();
        let limiter =
            Limiter::new(store.clone(), limit("fixed-window 5/h")).with_prefix("f").unwrap();
        let layer = RateLimit::per_ip(limiter.clone())
            .in_flight(locks, 1)
            .on_error(on_error)
            .build()
            .unwrap();
        store.always(Fate::NotDone);
        assert_eq!(status(&layer, from("192.0.2.1")).await, expected);
        let left = if expected == 200 { 4 } else { 5 };
        assert_eq!(limiter.peek("ip:192.0.2.1", 1).await.unwrap().remaining, left);
    }
}

#[tokio::test]
async fn a_wrong_setup_is_never_open() {
    for on_error in [OnError::Deny, OnError::Allow] {
        let store = MemoryStore::new();
        // A key of another kind.
        let locks = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), SECOND * 30).unwrap();
        let locks = locks.with_prefix("api").unwrap();
        let guard = locks.lock("ip:192.0.2.1").unwrap().acquire().await.unwrap();
        let limiter = Limiter::new(store, limit("fixed-window 5/h")).with_prefix("api").unwrap();
        let layer = RateLimit::per_ip(limiter).on_error(on_error).build().unwrap();
        let answer = ask(&layer, from("192.0.2.1")).await;
        assert_eq!(answer.status(), 500);
        assert!(problem(answer).await.get("detail").is_none(), "clients are not told more");
        drop(guard);

        // No limit is stored.
        let limiter = Limiter::stored(MemoryStore::new(), StoredLimits::new()).with_prefix("api");
        let layer = RateLimit::per_ip(limiter.unwrap()).on_error(on_error).build().unwrap();
        assert_eq!(status(&layer, from("192.0.2.1")).await, 500);
    }
}

#[tokio::test]
async fn a_refusal_that_lasts_is_never_open() {
    let server = Server::start();
    let address = server.url().replace("://", "://nobody:wrong@");
    let store = RetryStore::new(RedisStore::open(&address).unwrap(), Tokio, SECOND * 30);
    let limiter = Limiter::new(store, limit("fixed-window 5/h")).with_prefix("api").unwrap();
    let open = limiter.clone().with_fallback(Fallback::open()).unwrap();
    for (limiter, on_error) in [(limiter, OnError::Allow), (open, OnError::Deny)] {
        let layer = RateLimit::per_ip(limiter).on_error(on_error).build().unwrap();
        for _ in 0..5 {
            let answer = ask(&layer, from("192.0.2.1")).await;
            assert_eq!(answer.status(), 500);
        }
    }
}

/// Only the application sees the reason for a 500.
#[tokio::test]
async fn the_application_sees_why() {
    let limiter = Limiter::stored(MemoryStore::new(), StoredLimits::new()).with_prefix("api");
    let layer = RateLimit::per_ip(limiter.unwrap())
        .respond(|rejection, _| Response::new(rejection.reason.to_string().into()))
        .build()
        .unwrap();
    let body = ask(&layer, from("192.0.2.1")).await.into_body().collect().await.unwrap();
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    assert!(text.contains("no limit is stored"), "{text}");
}

/// The log of a test.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Writes the events of this thread into a log, until the guard is dropped.
    pub(super) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Takes the events so far.
    pub(super) fn take(&self) -> Vec<String> {
        let lines = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        lines.lines().map(str::to_owned).collect()
    }
}

/// No other test has a layer whose limiter has no prefix: the process remembers the first one.
#[test]
fn limiters_that_share_the_prefix_under_different_limits_are_one_event() {
    let (log, _guard) = Log::start();
    let store = MemoryStore::new();
    let layer = |text, prefix: Option<&str>| {
        let mut limiter = Limiter::new(store.clone(), limit(text));
        if let Some(prefix) = prefix {
            limiter = limiter.with_prefix(prefix).unwrap();
        }
        RateLimit::per_ip(limiter).build().unwrap();
        log.take()
    };
    assert!(layer("token-bucket 100/min burst 20", None).is_empty());
    assert!(layer("token-bucket 100/min burst 20", None).is_empty(), "the same limit");
    assert!(layer("sliding-log 5/15min", Some("login")).is_empty(), "a prefix of its own");
    let events = layer("sliding-log 5/15min", None);
    let [event] = &events[..] else { panic!("{events:?}") };
    for part in ["WARN lockage", "token-bucket 100/min burst 20", "sliding-log 5/", "with_prefix("]
    {
        assert!(event.contains(part), "{event}");
    }
}

/// Each kind of fault is one event, however many requests have it; client errors are none.
#[tokio::test]
async fn a_fault_of_the_server_is_one_event() {
    let (log, _guard) = Log::start();
    let events = || log.take();
    let layer = RateLimit::per_ip(manual("fixed-window 1/h").1)
        .tiered([("gold", limit("fixed-window 1/h"))], |parts| {
            parts.headers.get("x-tier")?.to_str().ok()
        })
        .build()
        .unwrap();
    for _ in 0..100 {
        assert_eq!(status(&layer, Request::new(())).await, 500);
    }
    let [event] = &events()[..] else { panic!("not one event") };
    assert!(event.contains("ERROR lockage: requests are answered 500"), "{event}");
    assert!(
        event.contains("`into_make_service_with_connect_info::<SocketAddr>()`")
            && event.contains("PeerAddr"),
        "{event}"
    );
    for _ in 0..100 {
        let platinum = with(from("192.0.2.1"), &[("x-tier", "platinum")]);
        assert_eq!(status(&layer, platinum).await, 500);
    }
    let [event] = &events()[..] else { panic!("not one event") };
    assert!(event.contains("no tier `platinum`"), "{event}");

    let limiter = Limiter::stored(MemoryStore::new(), StoredLimits::new()).with_prefix("api");
    let layer = per_ip(limiter.unwrap());
    for _ in 0..100 {
        assert_eq!(status(&layer, from("192.0.2.1")).await, 500);
    }
    let [event] = &events()[..] else { panic!("not one event") };
    assert!(event.contains("no limit is stored"), "{event}");

    let key = lockage_tower::header("x-api-key").unwrap();
    let layer = RateLimit::by(key, manual("fixed-window 1/h").1).build().unwrap();
    assert_eq!(status(&layer, from("192.0.2.1")).await, 401);
    for expected in [200, 429] {
        let request = with(from("192.0.2.1"), &[("x-api-key", "a")]);
        assert_eq!(status(&layer, request).await, expected);
    }
    assert!(events().is_empty());
}

#[tokio::test]
async fn a_fallback_decides_and_says_so() {
    let store = FailingStore::new(MemoryStore::new());
    store.always(Fate::NotDone);
    let limiter = |fallback| {
        let store = RetryStore::new(store.clone(), Tokio, Duration::from_millis(50));
        let limiter = Limiter::new(store, limit("fixed-window 4/h")).with_prefix("api").unwrap();
        limiter.with_fallback(fallback).unwrap()
    };
    let layer = per_ip(limiter(Fallback::local_share(2, MemoryStore::new())));
    for _ in 0..2 {
        let answer = ask(&layer, from("192.0.2.1")).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(field(&answer, "ratelimit-policy"), r#""default";q=4;w=3600"#);
        assert!(answer.headers().get("ratelimit").is_none(), "what is left is not known");
    }
    let answer = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(answer.status(), 503);
    assert!(field(&answer, "retry-after").parse::<u64>().unwrap() >= 1);
    let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(problem(answer).await["type"], kind);
    let layer = per_ip(limiter(Fallback::open()));
    assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    let answer = ask(&per_ip(limiter(Fallback::closed())), from("192.0.2.1")).await;
    assert_eq!(answer.status(), 503);
    assert!(field(&answer, "retry-after").parse::<u64>().unwrap() >= 1);
}

/// The same rows with a real server, that is killed and that is stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_that_is_away() {
    let mut server = Server::start();
    let store = RedisStore::open(&server.url()).unwrap();
    let store = RetryStore::new(store, Tokio, Duration::from_millis(400));
    let limiter = Limiter::new(store, limit("fixed-window 1_000/h")).with_prefix("api").unwrap();
    let of = |on_error| RateLimit::per_ip(limiter.clone()).on_error(on_error).build().unwrap();
    let [deny, allow] = [of(OnError::Deny), of(OnError::Allow)];
    let share = Fallback::local_share(500, MemoryStore::new());
    let fallback = per_ip(limiter.clone().with_fallback(share).unwrap());
    let up = async || {
        for layer in [&deny, &allow] {
            let answer = ask(layer, from("192.0.2.1")).await;
            assert_eq!(answer.status(), 200);
            assert!(field(&answer, "ratelimit").starts_with(r#""default";r=9"#));
        }
    };
    let away = async |address: &str| {
        assert_unavailable(ask(&deny, from("192.0.2.1")).await).await;
        let answer = ask(&allow, from("192.0.2.1")).await;
        assert_eq!(answer.status(), 200);
        assert!(answer.headers().get("ratelimit-policy").is_none());
        for status in [200, 200, 503] {
            assert_eq!(super::status(&fallback, from(address)).await, status);
        }
    };
    up().await;
    server.freeze();
    away("192.0.2.2").await;
    server.thaw();
    up().await;
    server.kill();
    away("192.0.2.3").await;
    server.restart();
    up().await;
}
