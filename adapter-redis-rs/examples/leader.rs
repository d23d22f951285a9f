//! A scheduler that one instance of many runs at a time, and a reader that shows which: `cargo run --example leader -p
//! lockage-redis-rs`, with three instances in this process or, with `REDIS_URL` naming a server, there and in as many
//! processes as you start: kill the leader, and another one leads once its lease has ended.

#![allow(clippy::print_stdout)]

use std::ops::ControlFlow;
use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{AnyStore, Locks, RedisStore, RetryStore};
use tokio::time::{Instant, sleep, timeout};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LEASE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    run(store).await
}

async fn run(store: AnyStore) -> Result<(), Failure> {
    let reader = tokio::spawn(show(locks(&store, "reader")?));
    let candidates = (1..=3).map(|number| {
        let locks = locks(&store, &format!("instance-{number}/{}", std::process::id()));
        tokio::spawn(async move { candidate(number, locks?).await })
    });
    for candidate in candidates.collect::<Vec<_>>() {
        candidate.await??;
    }
    reader.await?
}

fn locks(store: &AnyStore, label: &str) -> Result<Locks<AnyStore, Tokio>, Failure> {
    let store = RetryStore::new(store.clone(), Tokio, LEASE / 4);
    Ok(Locks::new(store, LEASE)?.with_label(label.parse()?))
}

/// Leads twice, and ends.
async fn candidate(number: u32, locks: Locks<AnyStore, Tokio>) -> Result<(), Failure> {
    let mut terms = 0;
    let lead = locks.lock("scheduler")?;
    let lead = lead.lead(|token| {
        terms += 1;
        async move {
            println!("{number}: leads by token {token}");
            // If the lock is lost, this stops at its next await. Each row that it writes has the token.
            for _ in 0..5 {
                sleep(LEASE / 10).await;
            }
            println!("{number}: steps down, others go first");
            if terms < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    });
    lead.await?;
    locks.close().await;
    Ok(())
}

/// Shows each leader, as a reader that is no candidate sees it.
async fn show(locks: Locks<AnyStore, Tokio>) -> Result<(), Failure> {
    let began = Instant::now();
    let mut watch = locks.lock("scheduler")?.watch(Duration::from_millis(50));
    while let Ok(seen) = timeout(LEASE * 2, watch.changed()).await {
        let label = seen?.inspection.label;
        let label = label.map_or("nobody".to_owned(), |label| label.to_string());
        println!("  at {} ms, {label} has the lock", began.elapsed().as_millis());
    }
    Ok(())
}
