//! H4 of costs by the body: whatever is dropped, at any poll, fails or panics, each part of the limit is charged exactly by
//! the rule, and the permit comes back. And bodies pass unchanged.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use http::HeaderMap;
use http::request::Parts;
use http_body::{Body, Frame};
use lockage::Locks;
use lockage_memory::testing::{FailingStore, Fate, paused_memory};
use lockage_tower::{Commit, Cost, Estimate, Replayed, Unmeasured, Usage};

use super::scripted::{Scripted, Step, data};
use super::*;

const ROOM: u64 = 100_000;
const ESTIMATE: u64 = 700;

/// The progress of a request, as its service and its client see it.
#[derive(Default)]
struct Progress {
    is_called: AtomicBool,
    /// The events that the client got.
    events: AtomicU64,
}

/// How the service answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Streams,
    /// The stream never ends after its last event.
    Hangs,
    HandlerFails,
    HandlerPanics,
    BodyFails(usize),
    BodyPanics(usize),
}

const EVENTS: [&str; 3] = [
    "data: {\"choices\":[],\"usage\":null}\n\n",
    "data: {\"choices\":[]}\n\n",
    "data: {\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10}}\n\n",
];

fn answer(course: Course) -> Scripted {
    let mut steps = Vec::new();
    for (index, event) in EVENTS.into_iter().enumerate() {
        match course {
            Course::BodyFails(at) if at == index => steps.push(Step::Fail),
            Course::BodyPanics(at) if at == index => steps.push(Step::Panic),
            _ => {}
        }
        steps.extend([Step::Wait, data(event)]);
    }
    steps.extend([Step::Wait, data("data: [DONE]\n\n"), Step::Wait]);
    if course == Course::Hangs {
        steps.push(Step::Hang);
    }
    Scripted::new(steps)
}

/// Polls a request until its end, or this often; returns whether it came to its end.
async fn poll_request(
    service: impl Service<Request<Scripted>, Response = Response<impl Body<Data = Bytes>>>,
    progress: &Progress,
    polls: usize,
) -> bool {
    let steps = [Step::Wait, data("{\"max_to"), Step::Wait, data("kens\":700}"), Step::Wait];
    let request = with(from("192.0.2.1"), &[]).map(|()| Scripted::new(steps));
    let mut service = service;
    let exchange = async {
        let ready = poll_fn(|context| service.poll_ready(context)).await;
        assert!(ready.is_ok());
        let Ok(response) = service.call(request).await else { return };
        let mut body = pin!(response.into_body());
        while let Some(Ok(frame)) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
            if frame.data_ref().is_some_and(|data| !data.starts_with(b"data: [DONE]")) {
                progress.events.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let mut exchange = Box::pin(AssertUnwindSafe(exchange));
    for _ in 0..polls {
        let mut poll = || exchange.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match std::panic::catch_unwind(AssertUnwindSafe(&mut poll)) {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) | Err(_) => return true,
        }
    }
    false
}

/// Drops a request of this course after so many polls, and checks the charges; returns these, and whether it had ended.
async fn drop_after(course: Course, rule: Unmeasured, polls: usize) -> ([u64; 2], bool) {
    let store = FailingStore::new(paused_memory());
    let text = format!("requests: fixed-window 9/h + tokens: fixed-window {ROOM}/h");
    let limiter = Limiter::new(store.clone(), limit(&text)).with_prefix("llm").unwrap();
    let places = waiting_store(paused_memory());
    let locks = Locks::new(places, SECOND * 30).unwrap().with_prefix("places").unwrap();
    let usage = Usage::openai().if_unmeasured(rule);
    let layer = RateLimit::per_ip(limiter.clone())
        .cost_of("requests", |_: &Parts| 1)
        .cost_of("tokens", Cost::by_body(4_096))
        .reserve(Tokio, SECOND * 600, Commit::by_usage(usage).for_part("tokens"))
        .in_flight(locks.clone(), 1)
        .build()
        .unwrap();
    let progress = Arc::new(Progress::default());
    let seen = Arc::clone(&progress);
    let handler = service_fn(move |request: Request<Replayed<Scripted>>| {
        let seen = Arc::clone(&seen);
        async move {
            seen.is_called.store(true, Ordering::Relaxed);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, "{\"max_tokens\":700}");
            tokio::task::yield_now().await;
            match course {
                Course::HandlerFails => return Err("failed"),
                Course::HandlerPanics => panic!("as it is told"),
                _ => {}
            }
            let response = Response::builder().header("content-type", "text/event-stream");
            Ok(response.body(answer(course)).unwrap())
        }
    });
    let service = Estimate::by_field("/max_tokens").unwrap().layer(layer.layer(handler));
    let has_ended = poll_request(service, &progress, polls).await;
    tokio::time::sleep(SECOND).await;

    // The estimate is charged once the store has run the call, also if nobody got the answer.
    let events = progress.events.load(Ordering::Relaxed);
    let tokens = match (events, rule) {
        (3.., _) => 29,
        (_, Unmeasured::Nothing) => 0,
        (events, Unmeasured::Events(each)) => events * each,
        _ => ESTIMATE,
    };
    let expected = match (store.executions(), progress.is_called.load(Ordering::Relaxed)) {
        (0, is_called) => {
            assert!(!is_called);
            [0, 0]
        }
        // Dropped before the reservation was known here, or while the permit was awaited.
        (1, false) => [1, ESTIMATE],
        _ => [1, tokens],
    };
    assert!(store.executions() <= 2, "it is settled once");
    let left = limiter.peek_parts("ip:192.0.2.1", &[1, 1]).await.unwrap().parts;
    let charged = [9 - left[0].remaining, ROOM - left[1].remaining];
    assert_eq!(charged, expected, "{course:?}, {rule:?}, after {polls} polls and {events} events");
    let semaphore = locks.semaphore("ip:192.0.2.1", 1).unwrap();
    let taken = semaphore.try_acquire().await.unwrap().taken();
    assert!(taken.is_some(), "{course:?} after {polls} polls has leaked its permit");
    (charged, has_ended)
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_at_any_poll_is_charged_by_the_rule() {
    let mut seen = BTreeSet::new();
    for course in [
        Course::Streams,
        Course::Hangs,
        Course::HandlerFails,
        Course::HandlerPanics,
        Course::BodyFails(0),
        Course::BodyFails(2),
        Course::BodyPanics(0),
        Course::BodyPanics(2),
    ] {
        for rule in [Unmeasured::Estimate, Unmeasured::Nothing, Unmeasured::Events(7)] {
            let mut polls = 0;
            while polls < 40 {
                let (charged, has_ended) = drop_after(course, rule, polls).await;
                seen.insert(charged);
                if has_ended {
                    break;
                }
                polls += 1;
            }
            assert_eq!(polls == 40, course == Course::Hangs, "it ends");
        }
    }
    // Before the store, before the response, and after none to all events.
    assert_eq!(seen, [[0, 0], [1, ESTIMATE], [1, 0], [1, 7], [1, 14], [1, 29]].into());
}

/// The frames that a client gets from a body, with their addresses: nothing is copied.
async fn frames(
    body: impl Body<Data = Bytes, Error = &'static str>,
) -> Vec<(*const u8, Bytes, Option<HeaderMap>)> {
    let (mut body, mut all) = (pin!(body), Vec::new());
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame: Frame<Bytes> = frame.unwrap();
        match frame.into_data() {
            Ok(data) => all.push((data.as_ptr(), data, None)),
            Err(frame) => all.push((std::ptr::null(), Bytes::new(), frame.into_trailers().ok())),
        }
    }
    all
}

/// The response passes frame by frame, at the pace of its client, with its trailers.
#[tokio::test(start_paused = true)]
async fn a_measured_body_passes_unchanged_and_unbuffered() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "1".parse().unwrap());
    let texts = ["data: {\"usage\":{\"total_tok", "", "ens\":2", "9}}\n", "\n"];
    let chunks: Vec<_> = texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    let steps = chunks.iter().flat_map(|data| [Step::Data(data.clone()), Step::Wait]);
    let steps = steps.chain([Step::Trailers(trailers.clone())]);
    let body = Scripted::new(steps);
    let polls = Arc::clone(&body.polls);
    let limiter = Limiter::new(paused_memory(), limit("fixed-window 1000/h")).with_prefix("p");
    let limiter = limiter.unwrap();
    let layer = RateLimit::per_ip(limiter.clone())
        .cost(|_: &Parts| 100)
        .reserve(Tokio, SECOND * 600, Commit::by_usage(Usage::openai()))
        .build()
        .unwrap();
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let response = Response::builder().header("content-type", "text/event-stream");
        let response = response.body(body.lock().unwrap().take().unwrap()).unwrap();
        async { Ok::<_, Infallible>(response) }
    }));
    let body = service.oneshot(from("192.0.2.1")).await.unwrap().into_body();
    assert_eq!(polls.load(Ordering::Relaxed), 0, "nothing is read ahead");
    let mut body = pin!(body);
    let mut next = || body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop()));
    let mut asked = 0;
    for chunk in &chunks {
        let Poll::Ready(Some(Ok(frame))) = next() else { panic!("no frame") };
        let data = frame.into_data().unwrap();
        assert_eq!((data.as_ptr(), data.len()), (chunk.as_ptr(), chunk.len()));
        assert!(next().is_pending());
        asked += 2;
        assert_eq!(polls.load(Ordering::Relaxed), asked, "a poll of the client is one of the body");
    }
    let Poll::Ready(Some(Ok(frame))) = next() else { panic!("no trailers") };
    assert_eq!(frame.into_trailers().unwrap(), trailers);
    assert!(matches!(next(), Poll::Ready(None)));
    tokio::time::sleep(SECOND).await;
    assert_eq!(limiter.peek("ip:192.0.2.1", 0).await.unwrap().remaining, 1000 - 29);
}

/// The request passes likewise, whether it was read to its end or not.
#[tokio::test(start_paused = true)]
async fn a_read_request_passes_unchanged() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "1".parse().unwrap());
    let texts = ["{\"max_tokens\"", "", ":3,\"text\":\"", "a long one", "\"}"];
    let chunks: Vec<_> = texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    let total: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
    for (bound, states_length) in (0..=total as usize + 1).flat_map(|it| [(it, false), (it, true)])
    {
        let steps = chunks.iter().flat_map(|data| [Step::Wait, Step::Data(data.clone())]);
        let body = Scripted::new(steps.chain([Step::Wait, Step::Trailers(trailers.clone())]));
        let body = if states_length { body.of_length(total + 1) } else { body };
        let polls = Arc::clone(&body.polls);
        let service = Estimate::by_field("/max_tokens").unwrap().lenient().up_to(bound).layer(
            service_fn(|request: Request<Replayed<Scripted>>| {
                let (polls, chunks) = (polls.clone(), &chunks);
                let trailers = &trailers;
                async move {
                    let read = polls.load(Ordering::Relaxed);
                    let (parts, body) = request.into_parts();
                    let estimated: lockage_tower::Estimated = *parts.extensions.get().unwrap();
                    let is_read = bound as u64 >= total && !states_length || bound as u64 > total;
                    assert_eq!(estimated.answer, is_read.then_some(3), "{bound}");
                    let hint = body.size_hint();
                    match states_length {
                        true if !is_read => assert_eq!((read, hint.exact()), (0, Some(total + 1))),
                        true => assert_eq!(hint.exact(), Some(total)),
                        false => assert!(
                            hint.lower() <= total
                                && hint.upper().is_none_or(|upper| upper == total)
                        ),
                    }
                    assert!(!body.is_end_stream());
                    let frames = frames(body).await;
                    assert_eq!(frames.len(), chunks.len() + 1);
                    for (frame, chunk) in frames.iter().zip(chunks) {
                        assert_eq!((frame.0, &frame.1), (chunk.as_ptr(), chunk));
                    }
                    assert_eq!(frames.last().unwrap().2.as_ref(), Some(trailers));
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
                }
            }),
        );
        let request = from("192.0.2.1").map(|()| body);
        assert_eq!(service.oneshot(request).await.unwrap().status(), 200);
    }
}

/// An error of a lenient request's body reaches the service, after what was read.
#[tokio::test]
async fn an_error_of_a_read_body_reaches_the_service() {
    let service = Estimate::by_field("/n").unwrap().lenient().layer(service_fn(
        async |request: Request<Replayed<Scripted>>| {
            let mut body = request.into_body();
            assert!(body.frame().await.unwrap().is_ok());
            assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
            assert!(body.frame().await.is_none());
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        },
    ));
    let request = from("192.0.2.1").map(|()| Scripted::new([data("{"), Step::Wait, Step::Fail]));
    assert_eq!(service.oneshot(request).await.unwrap().status(), 200);
}

/// A stream that outlives the hold many times is settled exactly, and renewals end with it, however it ends. Without them,
/// as of a process that died, the hold ends.
#[tokio::test(start_paused = true)]
async fn the_hold_is_renewed_while_the_stream_lives() {
    for (name, is_settled, cost) in [("ends", true, 29), ("is left", false, ESTIMATE)] {
        let store = FailingStore::new(paused_memory());
        let limiter =
            Limiter::new(store.clone(), limit("fixed-window 100000/day")).with_prefix("p");
        let limiter = limiter.unwrap();
        let layer = RateLimit::per_ip(limiter.clone())
            .cost(|_: &Parts| ESTIMATE)
            .reserve(Tokio, SECOND * 8, Commit::by_usage(Usage::openai()))
            .build()
            .unwrap();
        let (parts, ()) = from("192.0.2.1").into_parts();
        let mut admission = layer.check(&parts).await.unwrap();
        tokio::time::sleep(SECOND * 30).await;
        // The store is away for less than half of the hold.
        store.always(Fate::NotDone);
        tokio::time::sleep(SECOND * 3).await;
        store.always(Fate::Answered);
        tokio::time::sleep(SECOND * 30).await;
        let response = Response::builder().header("content-type", "text/event-stream");
        admission.settle_by(&response.body(()).unwrap().into_parts().0);
        tokio::time::sleep(SECOND * 30).await;
        let calls = store.calls();
        assert!((20..40).contains(&calls), "{calls}: about two for a hold");
        if is_settled {
            admission.observe(EVENTS[2].as_bytes());
            admission.end(0);
        } else {
            drop(admission);
        }
        tokio::time::sleep(SECOND).await;
        assert_eq!(
            limiter.peek("ip:192.0.2.1", 0).await.unwrap().remaining,
            ROOM - cost,
            "it {name}"
        );
        let calls = store.calls();
        tokio::time::sleep(SECOND * 60).await;
        assert_eq!(store.calls(), calls, "nothing is renewed that {name}");
    }
}
