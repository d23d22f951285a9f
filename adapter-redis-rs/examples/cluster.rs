//! On a cluster: `cargo run --example cluster -p lockage-redis-rs`, with `REDIS_URL` naming some of its nodes
//! (redis-cluster://127.0.0.1:7000 where it is not set). Kill a master while it runs: callers of its keys get errors,
//! and go on once a replica has taken over.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{Error, Limiter, RedisStore, RetryStore, StoreError};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis-cluster://127.0.0.1:7000".to_owned());
    // The duration of the run, in seconds.
    let seconds = std::env::args().nth(1).map_or(Ok(60), |text| text.parse())?;

    let store = RetryStore::new(RedisStore::open(&url)?, Tokio, Duration::from_millis(500));
    // A call whose answer was lost is sent again, and charged once.
    let limiter = Limiter::new(store, "sliding-window 1000/min".parse()?)
        .with_prefix("cluster")?
        .with_idempotency(Duration::from_secs(10))?;

    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        let (mut admitted, mut denied, mut not_done, mut unknown) = (0, 0, 0, 0);
        for user in 0..20 {
            match limiter.try_acquire(&format!("user:{user}"), 1).await {
                Ok(decision) if decision.is_allowed() => admitted += 1,
                Ok(_) => denied += 1,
                Err(Error::Store(StoreError::NotDone(_))) => not_done += 1,
                Err(Error::Store(StoreError::Unknown(_))) => unknown += 1,
                Err(error) => return Err(error.into()),
            }
        }
        println!("{admitted} admitted, {denied} denied, {not_done} not done, {unknown} unknown");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
