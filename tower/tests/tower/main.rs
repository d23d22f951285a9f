//! Limits in front of services: the answers to clients, the identification of clients, and failures.

mod addresses;
mod drops;
mod estimates;
mod failures;
mod fields;
mod grpc;
mod in_process;
mod llm;
mod outbound;
mod processes;
mod requests;
mod rules;
mod scripted;
mod settling;
mod setup;
mod several;
mod tutorial;
mod upgrades;
mod usage;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use lockage::runtime::Tokio;
use lockage::store::Store;
use lockage::{Limit, Limiter, RetryStore};
use lockage_memory::MemoryStore;
use lockage_memory::testing::ManualClock;
use lockage_tower::{PeerAddr, RateLimit, RateLimitLayer};
use tower::util::service_fn;
use tower::{Layer, Service, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);

type Answer = Response<lockage_tower::Body<Full<Bytes>>>;
type Manual = MemoryStore<Arc<ManualClock>>;

fn limit(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A limiter on a clock that the test moves.
fn manual(text: &str) -> (Arc<ManualClock>, Limiter<Manual>) {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::with_clock(clock.clone());
    let limiter = Limiter::new(store, limit(text)).with_prefix("test").unwrap();
    (clock.clone(), limiter.with_clock(clock))
}

/// A limiter in tokio's paused time.
fn waiting_store<S: Store>(store: S) -> RetryStore<S, Tokio> {
    RetryStore::new(store, Tokio, SECOND)
}

/// A request from this address.
fn from(peer: &str) -> Request<()> {
    let peer: IpAddr = peer.parse().unwrap();
    let mut request = Request::new(());
    request.extensions_mut().insert(PeerAddr(SocketAddr::new(peer, 4711)));
    request
}

/// A request with these header fields.
fn with(mut request: Request<()>, fields: &[(&'static str, &str)]) -> Request<()> {
    for (name, value) in fields {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

/// Sends a request to a service that says yes.
async fn ask<S: Store + Clone + 'static>(
    layer: &RateLimitLayer<S>,
    request: Request<()>,
) -> Answer {
    let yes =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::from("yes"))));
    layer.layer(yes).oneshot(request).await.unwrap()
}

/// The status of the answer to a client.
async fn status<S: Store + Clone + 'static>(
    layer: &RateLimitLayer<S>,
    request: Request<()>,
) -> u16 {
    ask(layer, request).await.status().as_u16()
}

/// A header field; the test fails where it is not there or several times.
fn field(answer: &Response<impl Sized>, name: &str) -> String {
    let mut values = answer.headers().get_all(name).iter();
    let value = values.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(values.next().is_none(), "{name} comes twice");
    value.to_str().unwrap().to_owned()
}

async fn problem(answer: Answer) -> serde_json::Value {
    assert_eq!(field(&answer, "content-type"), "application/problem+json");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

fn per_ip<S: Store + Clone + 'static>(limiter: Limiter<S>) -> RateLimitLayer<S> {
    RateLimit::per_ip(limiter).build().unwrap()
}
