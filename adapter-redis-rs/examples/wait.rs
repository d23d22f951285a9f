//! Wait for a permit: `cargo run --example wait -p lockage-redis-rs`, in this process or, with `REDIS_URL` naming a
//! server, there. Run it twice at once against a server: both share the limit.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use lockage_memory::MemoryStore;
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{AnyStore, Limiter, RedisStore, RetryStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };

    let store = RetryStore::new(store, Tokio, Duration::from_millis(500));
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
    // Three take up to 1.5 s: that does not fit, and the denial comes now, not after half a second.
    let decision = limiter.acquire_within("user:42", 3, Duration::from_millis(500)).await?;
    println!("three within half a second: {:?}", decision.verdict);
    Ok(())
}
