//! gRPC over HTTP/2: a denial is RESOURCE_EXHAUSTED with RetryInfo, as tonic reads it.

use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use super::*;

async fn serve<S: Store + Clone + 'static>(layer: RateLimitLayer<S>) -> HealthClient<Channel> {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let server = tonic::transport::Server::builder().layer(layer).add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));
    let server = Endpoint::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(server.connect().await.unwrap())
}

#[tokio::test]
async fn tonic_reads_when_to_retry() {
    let server = Server::start();
    let store = RedisStore::open(&server.url()).unwrap();
    let limiter = Limiter::new(store, limit("fixed-window 2/h")).with_prefix("grpc").unwrap();
    let mut client = serve(per_ip(limiter)).await;
    for left in ["1", "0"] {
        let answer = client.check(HealthCheckRequest::default()).await.unwrap();
        let fields = answer.metadata().get("ratelimit").unwrap().to_str().unwrap();
        assert!(fields.starts_with(&format!("\"default\";r={left};t=3")), "{fields}");
    }
    let status = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "Request cannot be satisfied as assigned quota has been exceeded");
    let retry = status.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert!((SECOND * 3590..=SECOND * 3600).contains(&retry), "{retry:?}");
}

#[tokio::test]
async fn other_rejections_have_codes_of_their_own() {
    let store = lockage_memory::testing::FailingStore::new(MemoryStore::new());
    store.always(lockage_memory::testing::Fate::NotDone);
    let limiter = Limiter::new(store, limit("fixed-window 2/h")).with_prefix("grpc").unwrap();
    let status = serve(per_ip(limiter)).await.check(HealthCheckRequest::default()).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let retry = status.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(retry, Some(SECOND));

    let key = lockage_tower::header("x-api-key").unwrap();
    let layer = RateLimit::by(key, manual("fixed-window 2/h").1).build().unwrap();
    let status = serve(layer).await.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(status.get_details_retry_info().is_none());

    let (_, limiter) = manual("fixed-window 2/h");
    let layer = RateLimit::per_ip(limiter).cost(|_: &http::request::Parts| 3).build().unwrap();
    let status = serve(layer).await.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}
