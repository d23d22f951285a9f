//! Go on when Redis dies: `cargo run --example fallback -p lockage-redis-rs` with `REDIS_URL` naming a server. Kill it
//! while this runs, and start it again: the lines show the source of each decision. Without `REDIS_URL` it is this
//! process, which is never away.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use lockage_memory::MemoryStore;
use lockage_redis_rs::limiter::Origin;
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{AnyStore, Fallback, Limiter, RedisStore, RetryStore};

/// How many processes like this one share the limit.
const PROCESSES: u64 = 4;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    // The duration of the run, in seconds.
    let seconds = std::env::args().nth(1).map_or(Ok(60), |text| text.parse())?;

    let store = RetryStore::new(store, Tokio, Duration::from_millis(100));
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
