//! Requests and tokens per key in front of a language model, whose answers are streamed:
//! `cargo run --example axum_llm -p lockage-tower`, and in another terminal
//!
//! ```sh
//! curl -iN http://127.0.0.1:3000/v1/chat/completions -H 'x-api-key: me' -d '{"max_tokens":100,"words":5}'
//! ```
//!
//! The model is a stand-in that answers as many words as it is asked for. From its environment: `PORT`, `LIMIT`, `HOLD` in
//! seconds, and `REDIS_URL` for a limit that all processes share; it is in memory without.

#![allow(clippy::print_stdout, missing_docs)]

use std::env;
use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::{Router, routing::post};
use http::request::Parts;
use lockage::runtime::Tokio;
use lockage::{AnyStore, Limiter, RetryStore};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tower::{Commit, Cost, Estimate, RateLimit, Unmeasured, Usage, header};
use tokio::net::TcpListener;

mod model;

use model::Gateway;

#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let limit = env::var("LIMIT")
        .unwrap_or("requests: fixed-window 60/min + tokens: token-bucket 90_000/min".into());
    let hold = Duration::from_secs(env::var("HOLD").map_or(Ok(60), |hold| hold.parse())?);
    let store = match env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    let limiter = Limiter::new(store, limit.parse()?).with_prefix("llm")?;

    // The most that the answer may have, and the prompt; then the usage that the model states. Of a stream that breaks off
    // the words that came are charged.
    let usage = Usage::openai().if_unmeasured(Unmeasured::Events(1));
    let rate_limit = RateLimit::by(header("x-api-key")?, limiter)
        .cost_of("requests", |_: &Parts| 1)
        .cost_of("tokens", Cost::by_body(1_000))
        .reserve(Tokio, hold, Commit::by_usage(usage).for_part("tokens"))
        .build()?;

    let app = Router::new()
        .route("/v1/chat/completions", post(model::forward))
        .layer(rate_limit)
        .layer(Estimate::llm())
        .with_state(Gateway::open().await?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("http://{}/ under {limit}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
