//! Go on when Redis dies: `cargo run --example fallback -p lockage-redis-rs`, with `REDIS_URL` naming
//! the server (redis://127.0.0.1:6379 where it is not set). Kill the server while it runs, and start
//! it again: the lines say who decides.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use lockage::limiter::Origin;
use lockage::runtime::Tokio;
use lockage::{Fallback, Limiter, RetryStore};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;

/// How many processes like this one share the limit.
const PROCESSES: u64 = 4;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let client = redis::Client::open(url.as_str()).map_err(|error| format!("{url}: {error}"))?;
    // How long it runs, in seconds.
    let seconds = std::env::args().nth(1).map_or(Ok(60), |text| text.parse())?;

    let store = RetryStore::new(RedisStore::connect(client), Tokio, Duration::from_millis(100));
    let limiter = Limiter::new(store, "token-bucket 20/s burst 20".parse()?)
        .with_prefix("fallback")?
        .with_fallback(Fallback::local_share(PROCESSES, MemoryStore::new()))?;

    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        let (mut admitted, mut degraded) = (0, 0);
        for _ in 0..25 {
            let decision = limiter.try_acquire("user:42", 1).await?;
            admitted += u32::from(decision.is_allowed());
            degraded += u32::from(decision.origin == Origin::Fallback);
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        let state = if limiter.is_circuit_open() { "away, this process's share" } else { "Redis" };
        println!("{admitted:2} of 25 admitted, {degraded:2} without Redis; now: {state}");
    }
    Ok(())
}
