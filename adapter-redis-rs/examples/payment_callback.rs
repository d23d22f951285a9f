//! A payment provider's callback that is delivered more than once, and handled once: `cargo run --example
//! payment_callback -p lockage-redis-rs`, in this process or, with `REDIS_URL` naming a server, there.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::locks::{RunOnce, WorkError};
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{AnyStore, Locks, RedisStore, RetryStore};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    run(store).await
}

async fn run(store: AnyStore) -> Result<(), Failure> {
    let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    let locks = Locks::new(store, Duration::from_secs(10))?.with_prefix("payment")?;
    let once =
        RunOnce::new(&locks, Duration::from_secs(7 * 24 * 3600))?.with_prefix("payment-done")?;
    let payment = format!("payment:{}", std::process::id());

    // The first attempt fails half way; a failure is not remembered.
    let failed = once.run(&payment, async |_token| book(&payment, false).await).await;
    match failed {
        Err(WorkError::Work(reason)) => println!("answer 503: {reason}"),
        other => println!("unexpected: {other:?}"),
    }
    // The provider delivers it again, twice at once, and once more later.
    let handle = || async {
        let ran = once.run(&payment, async |_token| book(&payment, true).await).await;
        match ran {
            Ok(ran) if ran.is_new => println!("answer 200: {}", ran.result),
            Ok(ran) => println!("answer 200: {}, as before", ran.result),
            Err(error) => println!("answer 503: {error}"),
        }
    };
    tokio::join!(handle(), handle());
    handle().await;
    Ok(())
}

/// Each of its steps must bear being done again, as it is after a crash: here by the number of the payment.
async fn book(payment: &str, is_up: bool) -> Result<String, &'static str> {
    println!("books {payment}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    if is_up { Ok(format!("receipt of {payment}")) } else { Err("the ledger is down") }
}
