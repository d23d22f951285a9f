//! Requests to another service by reqwest, under a limit of its host: `cargo run -p lockage-examples --example
//! reqwest_outbound`.
//!
//! The service, which runs in this program, answers the third request 429 with `Retry-After: 2`. That blocks its host for
//! all processes that share the store: in memory this one, with `REDIS_URL` those on that server.

#![allow(clippy::print_stdout)]

use std::env;
use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::StatusCode;
use http::header::RETRY_AFTER;
use lockage::runtime::Tokio;
use lockage::{AnyStore, Limiter, RetryStore, limit};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tower::Outbound;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async { axum::serve(listener, Router::new().route("/", get(answer))).await });

    let store = match env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    let limiter =
        Limiter::new(store, limit!("token-bucket 5/s burst 2")).with_prefix("partners")?;
    let outbound = Outbound::new(limiter, Duration::from_secs(5));

    let (client, begin) = (reqwest::Client::new(), Instant::now());
    let url = reqwest::Url::parse(&url)?;
    let host = url.host_str().ok_or("an address with a host")?;
    for number in 1..=6 {
        outbound.admit(host).await?;
        let response = client.get(url.clone()).send().await?;
        let blocked = outbound.report(host, response.status(), response.headers()).await?;
        print!("{:.1?}: request {number}: {}", begin.elapsed(), response.status());
        println!("{}", blocked.map_or(String::new(), |span| format!(", blocked for {span:?}")));
    }
    Ok(())
}

async fn answer() -> impl IntoResponse {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    match ASKED.fetch_add(1, Ordering::Relaxed) {
        2 => (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "2")]).into_response(),
        _ => "hello\n".into_response(),
    }
}
