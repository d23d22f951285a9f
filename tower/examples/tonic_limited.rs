//! A limit for each client in front of a server of gRPC: `cargo run --example tonic_limited -p lockage-tower --features
//! tonic`, and in another terminal `grpcurl -plaintext -import-path PATH -proto health.proto 127.0.0.1:50051
//! grpc.health.v1.Health/Check`. With `ASK=1` the program asks itself, and ends.
//!
//! The limit is in memory, or, with `REDIS_URL`, one that all processes share.

#![allow(clippy::print_stdout, missing_docs)]

use std::env;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

use lockage::{AnyStore, Limiter, limit};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tower::RateLimit;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = match env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    let limiter = Limiter::new(store, limit!("token-bucket 1/s burst 3")).with_prefix("grpc")?;
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(RateLimit::per_ip(limiter).build()?).add_service(health);

    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 50051));
    println!("http://{address}/");
    match env::var("ASK") {
        Ok(_) => server.serve_with_shutdown(address, ask(address)).await?,
        Err(_) => server.serve(address).await?,
    }
    Ok(())
}

/// Sends one request more than are admitted at once, and prints the responses.
async fn ask(server: SocketAddr) {
    let server = Endpoint::from_shared(format!("http://{server}")).expect("it is an address");
    let mut client = HealthClient::new(server.connect_lazy());
    for _ in 0..4 {
        match client.check(HealthCheckRequest::default()).await {
            Ok(answer) => println!("admitted: {:?}", answer.metadata().get("ratelimit")),
            Err(status) => {
                let retry = status.get_details_retry_info().and_then(|retry| retry.retry_delay);
                println!("{}: {}; retry after {retry:?}", status.code(), status.message());
            }
        }
    }
}
