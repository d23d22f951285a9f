//! Two limits at once, and the other operations on a key besides admitting its requests: `cargo run --example
//! two_limits -p lockage-redis-rs`, in this process or, with `REDIS_URL` naming a server, there.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::{AnyStore, Limit, Limiter, RedisStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One key, one call, all or nothing: no burst above 5, and no more than 12 in any ten seconds.
    let limit = "token-bucket 2/s burst 5 + sliding-log 12/10s".parse()?;
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    run(store, limit).await
}

async fn run(store: AnyStore, limit: Limit) -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::new(store, limit).with_prefix("two-limits")?;
    limiter.reset("user:42").await?;
    let limits: Vec<String> = limit.parts().map(|part| part.to_string()).collect();
    for round in 1..=10 {
        for _ in 0..2 {
            let decision = limiter.try_acquire("user:42", 1).await?;
            // A decision under several limits names the one that binds, and has the remaining cost of each.
            let binding = decision.binding.map_or("none", |index| &limits[index]);
            let left: Vec<u64> = decision.parts.iter().map(|part| part.remaining).collect();
            println!("{round}: {:?}, {left:?} left, {binding:?} binds", decision.verdict);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let taken = limiter.take_up_to("user:42", 100).await?;
    println!("took what there was: {}", taken.amount);
    let refund = limiter.refund("user:42", 3).await?;
    println!("gave back {}: {} remain", refund.amount, refund.after.remaining);
    _ = limiter.block("user:42", Duration::from_secs(60)).await?;
    let blocked = limiter.try_acquire("user:42", 1).await?;
    println!("blocked: {:?}", blocked.verdict);
    _ = limiter.unblock("user:42").await?;
    Ok(())
}
