//! H4: nothing is leaked. A request that is dropped, panics, or is left by its client in the middle of the answer gives
//! its permit back, and its reservation is settled.

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::request::Parts;
use http_body::Frame;
use lockage::Locks;
use lockage_memory::testing::{FailingStore, paused_memory};
use lockage_tower::Commit;

use super::*;

/// A body of these chunks, which ends after them, fails, or never ends.
struct Chunks(Vec<&'static str>, End);

#[derive(Clone, Copy)]
enum End {
    Done,
    Never,
    Error,
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        match (self.0.is_empty(), self.1) {
            (false, _) => Poll::Ready(Some(Ok(Frame::data(self.0.remove(0).into())))),
            (true, End::Done) => Poll::Ready(None),
            (true, End::Never) => Poll::Pending,
            (true, End::Error) => Poll::Ready(Some(Err("broken"))),
        }
    }
}

/// A course of a service and its client.
#[derive(Clone, Copy, Debug)]
enum Course {
    ReadToTheEnd,
    EmptyBody,
    LeftBeforeTheBody,
    LeftInTheBody,
    BodyFails,
    Dropped,
    Panics,
    ServiceFails,
}

use Course::*;

const ALL: [Course; 8] = [
    ReadToTheEnd,
    EmptyBody,
    LeftBeforeTheBody,
    LeftInTheBody,
    BodyFails,
    Dropped,
    Panics,
    ServiceFails,
];

/// Takes a request through a course. `meanwhile` runs when the service is done, or as far as it ever comes.
async fn take<S: Store + Clone + 'static>(
    layer: &RateLimitLayer<S>,
    course: Course,
    meanwhile: impl AsyncFnOnce(),
) {
    let service = layer.layer(service_fn(move |_: Request<()>| async move {
        match course {
            Dropped => pending().await,
            Panics => panic!("as it is told"),
            ServiceFails => Err("failed"),
            EmptyBody => Ok(Response::new(Chunks(vec![], End::Done))),
            BodyFails => Ok(Response::new(Chunks(vec!["abc"], End::Error))),
            ReadToTheEnd => Ok(Response::new(Chunks(vec!["abc", "de"], End::Done))),
            LeftBeforeTheBody | LeftInTheBody => Ok(Response::new(Chunks(vec!["abc"], End::Never))),
        }
        .map(|mut response| {
            response.headers_mut().insert("x-tokens", 70.into());
            response
        })
    }));
    let mut call = Box::pin(AssertUnwindSafe(service.oneshot(from("192.0.2.1"))));
    let answer = match course {
        Dropped => {
            let soon = tokio::time::timeout(Duration::from_millis(1), call.as_mut()).await;
            assert!(soon.is_err());
            meanwhile().await;
            return;
        }
        Panics => {
            let joined = tokio::spawn(call).await;
            assert!(joined.is_err_and(|error| error.is_panic()));
            return;
        }
        ServiceFails => {
            assert!(call.await.is_err());
            return;
        }
        _ => call.await.unwrap(),
    };
    let mut body = Box::pin(answer.into_body());
    match course {
        EmptyBody => assert!(body.frame().await.is_none()),
        LeftBeforeTheBody => meanwhile().await,
        LeftInTheBody => {
            assert!(body.frame().await.unwrap().is_ok());
            meanwhile().await;
        }
        BodyFails => {
            assert!(body.frame().await.unwrap().is_ok());
            assert!(body.frame().await.unwrap().is_err());
        }
        _ => {
            meanwhile().await;
            assert_eq!(body.as_mut().collect().await.unwrap().to_bytes(), "abcde");
        }
    }
    // Kept, so that the held things are released by the end of the body, and not by its drop.
    if matches!(course, EmptyBody | BodyFails | ReadToTheEnd) {
        tokio::spawn(async move {
            let _body = body;
            pending::<()>().await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_released_however_a_request_ends() {
    for course in ALL {
        let store = waiting_store(paused_memory());
        let locks = Locks::new(store.clone(), SECOND * 30).unwrap().with_prefix("places").unwrap();
        let limiter = Limiter::new(store, limit("fixed-window 100/h")).with_prefix("p").unwrap();
        let layer = RateLimit::per_ip(limiter.clone()).in_flight(locks.clone(), 1).build().unwrap();
        let semaphore = locks.semaphore("ip:192.0.2.1", 1).unwrap();
        take(&layer, course, async || {
            let answer = ask(&layer, from("192.0.2.1")).await;
            assert_eq!(answer.status(), 429, "{course:?} holds the permit");
            assert_eq!(field(&answer, "retry-after"), "1");
            assert_eq!(field(&answer, "ratelimit"), r#""default-in-flight";r=0"#);
            let at_once = r#""default-in-flight";q=1;qu="concurrent-requests""#;
            let policies = format!(r#""default";q=100;w=3600, {at_once}"#);
            assert_eq!(field(&answer, "ratelimit-policy"), policies);
            let violated = problem(answer).await["violated-policies"].clone();
            assert_eq!(violated, serde_json::json!(["default-in-flight"]));
            // The charge was refunded.
            assert_eq!(limiter.peek("ip:192.0.2.1", 1).await.unwrap().remaining, 99);
        })
        .await;
        // Given back in the background, long before the lease ends.
        tokio::time::sleep(SECOND).await;
        assert!(
            semaphore.try_acquire().await.unwrap().taken().is_some(),
            "{course:?} has leaked it"
        );
    }
}

/// E9, H4: a place is kept for as long as the response takes, many leases here, and given back at its end.
#[tokio::test(start_paused = true)]
async fn places_are_given_back_however_a_request_ends() {
    for course in ALL {
        let store = waiting_store(paused_memory());
        let places = limit("in-flight 1 lease 2s");
        let limiter = Limiter::new(store, places).with_prefix("places").unwrap();
        let layer = RateLimit::per_ip(limiter.clone())
            .reserve(Tokio, SECOND * 2, Commit::at_end())
            .build()
            .unwrap();
        let left = async || limiter.peek("ip:192.0.2.1", 1).await.unwrap().remaining;
        take(&layer, course, async || {
            for _ in 0..9 {
                let answer = ask(&layer, from("192.0.2.1")).await;
                assert_eq!(answer.status(), 429, "{course:?} holds the place");
                let policy = r#""default";q=1;qu="concurrent-requests""#;
                assert_eq!(field(&answer, "ratelimit-policy"), policy);
                tokio::time::sleep(SECOND).await;
            }
        })
        .await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(left().await, 1, "{course:?} has leaked it");
    }
}

#[tokio::test(start_paused = true)]
async fn reservations_are_settled_however_a_request_ends() {
    type By = fn() -> Commit;
    let by_header: By = || Commit::by_header("x-tokens").unwrap();
    let by_body: By = Commit::by_body_length;
    let failures: By = || Commit::by_status(|status| (status == 200).then_some(0));
    for (name, by, costs) in [
        ("header", by_header, [70, 70, 70, 70, 70, 40, 40, 40]),
        // A body without an end has no length.
        ("body", by_body, [5, 0, 40, 40, 40, 40, 40, 40]),
        ("status", failures, [0, 0, 0, 0, 0, 40, 40, 40]),
    ] {
        for (course, cost) in ALL.into_iter().zip(costs) {
            let store = FailingStore::new(paused_memory());
            let limiter = Limiter::new(store.clone(), limit("fixed-window 100/h")).with_prefix("r");
            let limiter = limiter.unwrap();
            let layer = RateLimit::per_ip(limiter.clone())
                .cost(|_: &Parts| 40)
                .reserve(Tokio, SECOND * 600, by())
                .build()
                .unwrap();
            take(&layer, course, async || ()).await;
            tokio::time::sleep(SECOND).await;
            assert_eq!(store.calls(), 2, "{name}: {course:?} is reserved and settled once");
            let left = limiter.peek("ip:192.0.2.1", 0).await.unwrap().remaining;
            assert_eq!(left, 100 - cost, "{name}: {course:?}");
        }
    }
}

/// A request whose runtime has ended before its response stays charged as estimated, and nothing panics.
#[test]
fn a_response_may_outlive_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limiter = Limiter::new(lockage_memory::MemoryStore::new(), limit("fixed-window 100/h"))
        .with_prefix("test")
        .unwrap();
    let layer = RateLimit::per_ip(limiter.clone())
        .cost(|_: &Parts| 40)
        .reserve(Tokio, SECOND * 600, Commit::by_body_length())
        .build()
        .unwrap();
    let (parts, ()) = from("192.0.2.1").into_parts();
    for is_dropped in [true, false] {
        let admission = runtime().block_on(layer.check(&parts)).unwrap();
        if !is_dropped {
            admission.end(5);
        }
    }
    let peek = limiter.peek("ip:192.0.2.1", 0);
    assert_eq!(runtime().block_on(peek).unwrap().remaining, 20);
}

/// Servers that are not built on tower settle their admissions; a dropped admission stays charged as estimated.
#[tokio::test(start_paused = true)]
async fn an_admission_is_settled_by_its_holder() {
    let by_header = || Commit::by_header("x-tokens").unwrap();
    let response = Response::builder().header("x-tokens", 70).body(()).unwrap();
    let (head, ()) = response.into_parts();
    for (by, has_head, sent, cost) in [
        (by_header(), true, Some(5), 70),
        (by_header(), true, None, 70),
        (by_header(), false, None, 40),
        (Commit::by_body_length(), true, Some(5), 5),
        (Commit::by_body_length(), true, None, 40),
    ] {
        let limiter =
            Limiter::new(paused_memory(), limit("fixed-window 100/h")).with_prefix("test").unwrap();
        let layer = RateLimit::per_ip(limiter.clone())
            .cost(|_: &Parts| 40)
            .reserve(Tokio, SECOND * 600, by)
            .build()
            .unwrap();
        let (parts, ()) = from("192.0.2.1").into_parts();
        let mut admission = layer.check(&parts).await.unwrap();
        if has_head {
            admission.settle_by(&head);
        }
        match sent {
            Some(bytes) => admission.end(bytes),
            None => drop(admission),
        }
        tokio::time::sleep(SECOND).await;
        let left = limiter.peek("ip:192.0.2.1", 0).await.unwrap().remaining;
        assert_eq!(left, 100 - cost, "{has_head} {sent:?}");
    }
}

/// A reservation is cancelled if another limit denies.
#[tokio::test(start_paused = true)]
async fn a_reservation_is_cancelled_where_the_next_limit_denies() {
    let store = FailingStore::new(paused_memory());
    let of = |prefix: &str, text: &str| {
        Limiter::new(store.clone(), limit(text)).with_prefix(prefix).unwrap()
    };
    let (first, second) = (of("first", "fixed-window 100/h"), of("second", "fixed-window 50/h"));
    let layer = RateLimit::per_ip(first.clone())
        .named("first")
        .and_by(lockage_tower::Key::shared(), second)
        .cost(|_: &Parts| 40)
        .reserve(Tokio, SECOND * 600, Commit::by_status(|_| None))
        .build()
        .unwrap();
    assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    assert_eq!(status(&layer, from("192.0.2.1")).await, 429);
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        store.calls(),
        4 + 3,
        "two reserved and settled; one reserved, one denied, one cancelled"
    );
    assert_eq!(first.peek("ip:192.0.2.1", 0).await.unwrap().remaining, 60);
}
