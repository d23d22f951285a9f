//! Wait for a permit: `cargo run --example wait -p lockage-redis-rs`, with `REDIS_URL` naming the
//! server (redis://127.0.0.1:6379 where it is not set). Run it twice at once: both share the limit.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use lockage::runtime::Tokio;
use lockage::{Limiter, RetryStore};
use lockage_redis_rs::RedisStore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let client = redis::Client::open(url.as_str()).map_err(|error| format!("{url}: {error}"))?;

    let store = RetryStore::new(RedisStore::connect(client), Tokio, Duration::from_millis(500));
    let limiter = Limiter::new(store, "token-bucket 2/s burst 3".parse()?).with_prefix("wait")?;
    for request in 1..=8 {
        let begin = Instant::now();
        let decision = limiter.acquire_within("user:42", 1, Duration::from_secs(5)).await?;
        let waited = begin.elapsed().as_millis();
        let answer = if decision.is_allowed() { "admitted" } else { "given up" };
        println!("{request}: {answer} after {waited} ms, {} left", decision.remaining);
    }
    // Five at once would take 2.5 s to save up, and a bucket of three never holds them.
    let decision = limiter.acquire_within("user:42", 5, Duration::from_secs(5)).await?;
    println!("five at once: {:?}", decision.verdict);
    // Three take up to 1.5 s: that does not fit, which is told now and not after half a second.
    let decision = limiter.acquire_within("user:42", 3, Duration::from_millis(500)).await?;
    println!("three within half a second: {:?}", decision.verdict);
    Ok(())
}
