//! Try a limit without enforcing it: `cargo run --example shadow -p lockage-redis-rs`, in this process
//! or, with `REDIS_URL` naming a server, there. Run it several times at once against a server: all of
//! them share the limit.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::{AnyStore, Limit, Limiter, RedisStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limit = "token-bucket 20/s burst 10".parse()?;
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    try_out(store, limit).await
}

/// Two seconds of traffic: one user within the limit, one beyond it, and one whose requests exceed the capacity.
async fn try_out(store: AnyStore, limit: Limit) -> Result<(), Box<dyn std::error::Error>> {
    let limiter =
        Limiter::new(store, limit).with_prefix("shadow")?.with_shadow_observer(|id, outcome| {
            match outcome {
                Ok(decision) => println!("{id} would not be admitted: {:?}", decision.shadow),
                Err(error) => println!("{id}: no decision: {error}"),
            }
        });
    for round in 0..20 {
        serve(&limiter, "user:1", 1).await?;
        for _ in 0..3 {
            serve(&limiter, "user:2", 1).await?;
        }
        if round % 10 == 9 {
            serve(&limiter, "user:3", 11).await?;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let stats = limiter.shadow_stats().unwrap_or_default();
    println!(
        "{limit}: {} admitted, {} would have been denied, {} cost more than it ever admits, {} were \
         not decided",
        stats.allowed, stats.would_deny, stats.never, stats.failed
    );
    Ok(())
}

/// The program's behaviour once the limit is enforced; until then no request is turned away.
async fn serve(
    limiter: &Limiter<AnyStore>,
    user: &str,
    cost: u64,
) -> Result<(), lockage_redis_rs::Error> {
    if !limiter.try_acquire(user, cost).await?.is_allowed() {
        println!("{user} is turned away");
    }
    Ok(())
}
