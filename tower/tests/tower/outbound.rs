//! Requests to others: they wait for the limit that all processes share, and a host that asks for a pause gets it from all.

use std::sync::Mutex;

use http::StatusCode;
use lockage::limiter::Denied;
use lockage_memory::testing::{FailingStore, Fate, paused_memory};
use lockage_tower::{NotSent, Outbound, OutboundError};
use tokio::time::Instant;

use super::*;

/// A host that gives these answers, and then 200; it notes when it was asked.
type Fields = Vec<(&'static str, String)>;

#[derive(Clone, Default)]
struct Host {
    answers: Arc<Mutex<Vec<(u16, Fields)>>>,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Host {
    async fn answer(self) -> Result<Response<()>, Infallible> {
        self.asked.lock().unwrap().push(Instant::now());
        let mut answers = self.answers.lock().unwrap();
        let (status, fields) = if answers.is_empty() { (200, vec![]) } else { answers.remove(0) };
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in fields {
            let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
            response.headers_mut().append(name, value);
        }
        Ok(response)
    }
}

async fn send<S>(
    outbound: &Outbound<S>,
    host: &Host,
    uri: &str,
) -> Result<u16, OutboundError<Infallible>>
where
    S: lockage::store::HasTimeout + Clone + 'static,
{
    let host = host.clone();
    let client = outbound.layer(service_fn(move |_: Request<()>| host.clone().answer()));
    let request = Request::get(uri).body(()).unwrap();
    client.oneshot(request).await.map(|response| response.status().as_u16())
}

fn outbound<S: Store>(store: S, text: &str, max_wait: Duration) -> Outbound<RetryStore<S, Tokio>> {
    let limiter = Limiter::new(waiting_store(store), limit(text)).with_prefix("out").unwrap();
    Outbound::new(limiter, max_wait)
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_shared_limit() {
    let (store, host) = (paused_memory(), Host::default());
    let one = outbound(store.clone(), "token-bucket 1/s", SECOND * 30);
    let other = outbound(store, "token-bucket 1/s", SECOND * 30);
    for _ in 0..5 {
        assert_eq!(send(&one, &host, "http://a.example/x").await.unwrap(), 200);
        assert_eq!(send(&other, &host, "http://A.example:8080/y").await.unwrap(), 200);
    }
    let asked = host.asked.lock().unwrap();
    assert!(asked.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_asks_for_a_pause_gets_it_from_all() {
    let date = httpdate::fmt_http_date(std::time::SystemTime::now() + SECOND * 45);
    let date: &'static str = date.leak();
    for (status, retry_after, least, most) in
        [(429, "20", 20, 20), (503, "20", 20, 20), (429, date, 30, 46), (429, "999999", 60, 60)]
    {
        let (store, host) = (paused_memory(), Host::default());
        let of = || {
            outbound(store.clone(), "token-bucket 100/s", SECOND * 300)
                .with_longest_block(SECOND * 60)
        };
        let (one, other) = (of(), of());
        let fields = vec![("retry-after", retry_after.to_owned())];
        host.answers.lock().unwrap().push((status, fields));
        assert_eq!(send(&one, &host, "http://a.example/").await.unwrap(), status);
        let began = Instant::now();
        assert_eq!(send(&other, &host, "http://b.example/").await.unwrap(), 200, "another host");
        assert!(began.elapsed() < SECOND);
        assert_eq!(send(&other, &host, "http://a.example/").await.unwrap(), 200);
        let waited = began.elapsed();
        // Waiters come back a little later, not all at once.
        assert!(
            waited >= SECOND * least && waited < SECOND * most * 3 / 2,
            "{retry_after}: {waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn other_answers_block_nothing() {
    for (status, fields) in [
        (500, &[("retry-after", "20")][..]),
        (200, &[("retry-after", "20")]),
        (200, &[("retry-after", "soon")]),
        (200, &[("ratelimit", r#""a";r=0;t=20"#), ("x-ratelimit-remaining", "0")]),
        (429, &[]),
        (429, &[("retry-after", "0")]),
        (429, &[("retry-after", "0.0"), ("x-ratelimit-reset", "20")]),
        (503, &[("ratelimit", r#""a";r=1;t=20, "b";r=9"#)]),
        (503, &[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "20")]),
        (429, &[("ratelimit", "limit=10, remaining=1, reset=20")]),
    ] {
        let (store, host) = (paused_memory(), Host::default());
        let outbound = outbound(store, "token-bucket 100/s", Duration::ZERO);
        let answer: Fields = fields.iter().map(|(name, value)| (*name, (*value).into())).collect();
        host.answers.lock().unwrap().push((status, answer));
        assert_eq!(send(&outbound, &host, "http://a.example/").await.unwrap(), status);
        assert_eq!(send(&outbound, &host, "http://a.example/").await.unwrap(), 200, "{fields:?}");
    }
}

/// The block that a response of 429 leads to, in seconds; asserted by the next request too.
async fn blocked(fields: &[(&'static str, &str)]) -> Option<u64> {
    let (store, host) = (paused_memory(), Host::default());
    let outbound = outbound(store, "token-bucket 100/s", Duration::ZERO)
        .with_default_block(Duration::from_millis(7_100));
    let mut headers = http::HeaderMap::new();
    for (name, value) in fields {
        // As Latin-1, so that there are values that are not text.
        let value: Vec<u8> = value.chars().map(|letter| letter as u8).collect();
        headers.append(*name, http::HeaderValue::from_bytes(&value).unwrap());
    }
    let status = StatusCode::TOO_MANY_REQUESTS;
    let span = outbound.report("a.example", status, &headers).await.unwrap();
    let next = send(&outbound, &host, "http://a.example/").await;
    assert_eq!(next.is_err(), span.is_some(), "{fields:?}");
    assert!(span.is_none_or(|span| span.subsec_nanos() == 0), "{fields:?}: {span:?}");
    span.map(|span| span.as_secs())
}

/// A wait counts in every form; an unreadable one is the default, and never none.
#[tokio::test(start_paused = true)]
async fn a_pause_that_is_asked_for_is_made() {
    let now = std::time::SystemTime::now();
    // In the three forms of HTTP: the same moment.
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let rfc850 = "Sunday, 06-Nov-94 08:50:37 GMT";
    let asctime = "Sun Nov  6 08:50:37 1994";
    let imf = "Sun, 06 Nov 1994 08:50:37 GMT";
    let since_epoch = |seconds: f64| {
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        format!("{}", now + seconds)
    };
    let soon = [since_epoch(-5.0), since_epoch(1_000_000.0)];
    let millis = format!("{}", (since_epoch(1_000_000.0).parse::<f64>().unwrap() * 1e3).round());
    let default = 8;
    for (value, seconds) in [
        ("2", 2),
        ("2.0", 2),
        ("1.5", 2),
        ("0.65", 1),
        ("0.000000001", 1),
        ("1e2", 100),
        ("+3", 3),
        (".5", 1),
        ("5.", 5),
        (" \t 4 ", 4),
        ("007", 7),
        ("2, 9", 9),
        ("3600", 3600),
        ("3601", 3600),
        ("99999999999999999999", 3600),
        ("99999999999999999999.9", 3600),
        ("1e300", 3600),
        ("-5", default),
        ("-0.5", default),
        ("", default),
        ("soon", default),
        ("NaN", default),
        ("inf", default),
        ("1e999", default),
        ("30s", default),
        ("0x10", default),
        ("\u{ff}", default),
        ("Sun, 06 Nov 1994 08:49:37", default),
        ("Sun, 6 Nov 1994 08:49:37 GMT", default),
        // It has passed.
        (date, default),
    ] {
        assert_eq!(blocked(&[("retry-after", value)]).await, Some(seconds), "{value:?}");
    }
    for moment in [imf, rfc850, asctime] {
        let fields = [("retry-after", moment), ("date", date)];
        assert_eq!(blocked(&fields).await, Some(60), "{moment}, by the clock of the server");
    }
    // The longest readable value of several lines.
    for lines in [["3", "20"], ["20", "3"], ["soon", "20"], ["20", "-1"], ["0", "20"]] {
        assert_eq!(blocked(&lines.map(|line| ("retry-after", line))).await, Some(20), "{lines:?}");
    }
    for (fields, seconds) in [
        // `Retry-After` comes first, unless it cannot be read.
        (&[("retry-after", "3"), ("ratelimit", r#""a";r=0;t=20"#)][..], 3),
        (&[("retry-after", "soon"), ("ratelimit", r#""a";r=0;t=20"#)], 20),
        (&[("retry-after", "soon"), ("x-ratelimit-reset", "20")], 20),
        (&[("ratelimit", r#""a";r=0;t=20"#), ("x-ratelimit-reset", "9")], 20),
        // The longest of the limits that are used up.
        (&[("ratelimit", r#""a";r=0;t=20, "b";r=5;t=90"#)], 20),
        (&[("ratelimit", r#""a";r=0;t=20"#), ("ratelimit", r#""b";t=30;r=0"#)], 30),
        (&[("ratelimit", r#""a;t=99, b";r=0;t=20;pk=:Zm9v:;x"#)], 20),
        (&[("ratelimit", r#""a";r=0;t=999999999999999"#)], 3600),
        (&[("ratelimit", r#""a";r=0"#)], default),
        (&[("ratelimit", r#""a";r=0;t=0"#)], default),
        (&[("ratelimit", r#""a";r=0;t=-5"#)], default),
        // The form of draft 7, and that of draft 8 as others write it.
        (&[("ratelimit", "limit=10, remaining=0, reset=20")], 20),
        (&[("ratelimit", "limit=10,remaining=0"), ("ratelimit", "reset=20")], 20),
        (&[("ratelimit", "reset=20")], 20),
        (&[("ratelimit", "limit=10, remaining=0")], default),
        (&[("ratelimit", "limit=10, remaining=0, reset=soon")], default),
        (&[("ratelimit", r#""10-in-1min"; r=0; t=20"#)], 20),
        (&[("ratelimit", "default;r=0;t=20")], default),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "20")], 20),
        (&[("x-ratelimit-reset", "1.2")], 2),
        (&[("x-rate-limit-reset", "20"), ("x-rate-limit-remaining", "0")], 20),
        (&[("ratelimit-reset", "20"), ("ratelimit-remaining", "0")], 20),
        (&[("x-ratelimit-reset", &*soon[1])], 3600),
        (&[("x-ratelimit-reset", &*millis)], 3600),
        (&[("x-ratelimit-reset", "784111837"), ("date", date)], 3600),
        (&[("x-ratelimit-reset", "1790000030"), ("date", "Mon, 21 Sep 2026 14:13:20 GMT")], 30),
        (&[("x-ratelimit-reset", "1790000030500"), ("date", "Mon, 21 Sep 2026 14:13:20 GMT")], 31),
        (&[("x-ratelimit-reset", &*soon[0])], default),
        (&[("x-ratelimit-reset", "-20")], default),
        (&[("x-ratelimit-reset", "0")], default),
        (&[("x-ratelimit-reset", "1e300")], default),
        (&[("x-ratelimit-remaining", "0")], default),
        (&[("x-ratelimit-reset", "tomorrow"), ("x-rate-limit-reset", "20")], 20),
    ] {
        assert_eq!(blocked(fields).await, Some(seconds), "{fields:?}");
    }
    assert_eq!(blocked(&[("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "9")]).await, None);
}

/// The default is a pause even if it is zero; a cap of zero is none.
#[tokio::test(start_paused = true)]
async fn the_default_pause_is_at_least_a_second() {
    let of = || outbound(paused_memory(), "token-bucket 100/s", Duration::ZERO);
    let mut soon = http::HeaderMap::new();
    soon.insert("retry-after", "soon".parse().unwrap());
    let status = StatusCode::SERVICE_UNAVAILABLE;
    for (outbound, span) in [
        (of(), Some(SECOND * 10)),
        (of().with_default_block(Duration::ZERO), Some(SECOND)),
        (of().with_default_block(Duration::MAX), Some(SECOND * 3600)),
        (of().with_longest_block(SECOND / 2), Some(SECOND / 2)),
        (of().with_longest_block(Duration::ZERO), None),
    ] {
        assert_eq!(outbound.report("a.example", status, &soon).await.unwrap(), span);
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_client_that_is_ready_is_called() {
    let outbound = outbound(paused_memory(), "token-bucket 100/s", Duration::ZERO);
    let mut client = outbound.layer(super::requests::Strict::default());
    let request = || Request::get("http://a.example/").body(()).unwrap();
    let first = client.ready().await.unwrap().call(request());
    let second = client.ready().await.unwrap().call(request());
    assert_eq!(second.await.unwrap().status(), 200);
    assert_eq!(first.await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn unsent_requests_report_the_reason() {
    let (store, host) = (FailingStore::new(paused_memory()), Host::default());
    let outbound = outbound(store.clone(), "fixed-window 1/h", SECOND);
    assert_eq!(send(&outbound, &host, "http://a.example/").await.unwrap(), 200);
    let denied = send(&outbound, &host, "http://a.example/").await.unwrap_err();
    assert!(
        matches!(denied, OutboundError::NotSent(NotSent::Denied(Denied::Limit { .. }))),
        "{denied}"
    );
    store.always(Fate::NotDone);
    let failed = send(&outbound, &host, "http://a.example/").await.unwrap_err();
    assert!(matches!(failed, OutboundError::NotSent(NotSent::NoDecision(_))), "{failed}");
    assert!(std::error::Error::source(&failed).is_none(), "its cause is in its text");
    let failed = send(&outbound, &host, "/no-host").await.unwrap_err();
    assert!(matches!(failed, OutboundError::NotSent(NotSent::NoHost)), "{failed}");
    assert_eq!(host.asked.lock().unwrap().len(), 1);
}
