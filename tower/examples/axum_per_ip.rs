//! A limit for each client in front of a route: `cargo run --example axum_per_ip -p lockage-tower`, and in another
//! terminal `curl -i http://127.0.0.1:3000/`.
//!
//! From its environment: `PORT`, `LIMIT`, and `REDIS_URL` for a limit that all processes share; it is in memory without.

#![allow(clippy::print_stdout, missing_docs)]

use std::env;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::{Router, routing::get};
use lockage::runtime::Tokio;
use lockage::{AnyStore, Limit, Limiter, RetryStore};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tower::RateLimit;

#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let limit = env::var("LIMIT").unwrap_or("token-bucket 100/min burst 20".into());
    let limit: Limit = limit.parse()?;
    let store = match env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    let timeout_ms: u64 = env::var("TIMEOUT_MS").map_or(Ok(250), |ms| ms.parse())?;
    let store = RetryStore::new(store, Tokio, Duration::from_millis(timeout_ms));
    let limiter = Limiter::new(store, limit).with_prefix("hello")?;

    let mut rate_limit = RateLimit::per_ip(limiter);
    if limit.parts().any(|part| matches!(part, Limit::LeakyBucket(_))) {
        rate_limit = rate_limit.waiting(Duration::from_secs(5)); // for its turn
    }
    let app = Router::new().route("/", get(hello)).layer(rate_limit.build()?);

    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("http://{}/ under {limit}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

async fn hello() -> &'static str {
    "hello\n"
}
