//! Requests to others: they wait for the limit that all processes share, and a host that asks for a pause gets it from all.

use std::sync::Mutex;

use http::StatusCode;
use lockage::limiter::Denied;
use lockage_memory::testing::{FailingStore, Fate, paused_memory};
use lockage_tower::{NotSent, Outbound, OutboundError};
use tokio::time::Instant;

use super::*;

/// A host that gives these answers, and then 200; it notes when it was asked.
#[derive(Clone, Default)]
struct Host {
    answers: Arc<Mutex<Vec<(u16, &'static str)>>>,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Host {
    async fn answer(self) -> Result<Response<()>, Infallible> {
        self.asked.lock().unwrap().push(Instant::now());
        let mut answers = self.answers.lock().unwrap();
        let (status, retry_after) = if answers.is_empty() { (200, "") } else { answers.remove(0) };
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        if !retry_after.is_empty() {
            response.headers_mut().insert("retry-after", retry_after.parse().unwrap());
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
        host.answers.lock().unwrap().push((status, retry_after));
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
    for answer in [(500, "20"), (200, "20"), (429, ""), (429, "soon"), (429, "0"), (503, "-5")] {
        let (store, host) = (paused_memory(), Host::default());
        let outbound = outbound(store, "token-bucket 100/s", Duration::ZERO);
        host.answers.lock().unwrap().push(answer);
        assert_eq!(send(&outbound, &host, "http://a.example/").await.unwrap(), answer.0);
        assert_eq!(send(&outbound, &host, "http://a.example/").await.unwrap(), 200, "{answer:?}");
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
async fn what_is_not_sent_says_why() {
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
    let failed = send(&outbound, &host, "/no-host").await.unwrap_err();
    assert!(matches!(failed, OutboundError::NotSent(NotSent::NoHost)), "{failed}");
    assert_eq!(host.asked.lock().unwrap().len(), 1);
}
