//! One text message per telephone number and minute, under limits that are stored: `cargo run --example sms -p
//! lockage-redis-rs`, in this process, or with `REDIS_URL` naming a server, where several of it follow the same limits.

#![allow(clippy::print_stdout)]

use lockage_memory::MemoryStore;
use lockage_redis_rs::limiter::{StoredLimit, StoredLimits};
use lockage_redis_rs::{AnyStore, Limiter, RedisStore, Verdict};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    run(store).await
}

async fn run(store: AnyStore) -> Result<(), Box<dyn std::error::Error>> {
    // Every number has this limit, until it is given another one; unused for an hour, it is forgotten.
    let once: StoredLimit = "sliding-log 1/60s kept 1h".parse()?;
    let limiter =
        Limiter::stored(store, StoredLimits::new().with_default(once)).with_prefix("sms")?;
    for number in ["+1-555-0100", "+1-555-0101"] {
        limiter.reset(number).await?;
    }

    for number in ["+1-555-0100", "+1-555-0100", "+1-555-0101"] {
        send(&limiter, number).await?;
    }
    // The help desk, from any other process: three in an hour, of which one is used.
    let three: StoredLimit = "sliding-log 3/h".parse()?;
    limiter.set_limit("+1-555-0100", three).await?;
    println!("{three} for +1-555-0100 from now on");
    for _ in 0..3 {
        send(&limiter, "+1-555-0100").await?;
    }
    Ok(())
}

async fn send(limiter: &Limiter<AnyStore>, number: &str) -> Result<(), Box<dyn std::error::Error>> {
    let decision = limiter.try_acquire(number, 1).await?;
    match decision.verdict {
        Verdict::Allowed => println!("{number}: sent, {} left", decision.remaining),
        Verdict::Denied { retry_after, .. } => {
            println!("{number}: not sent, again in {} s", retry_after.as_secs_f64().ceil());
        }
        Verdict::Never => println!("{number}: never"),
    }
    Ok(())
}
