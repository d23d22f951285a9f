//! A page that is slow to build, built by one for all: `cargo run --example cache_rebuild -p lockage-redis-rs`,
//! in this process or, with `REDIS_URL` naming a server, there.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockage_memory::MemoryStore;
use lockage_redis_rs::locks::Cached;
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{AnyStore, Locks, RedisStore, RetryStore};

type Failure = Box<dyn std::error::Error + Send + Sync>;

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
    let locks = Locks::new(store, Duration::from_secs(10))?.with_prefix("page-lock")?;
    let (fresh, stale) = (Duration::from_secs(1), Duration::from_secs(60));
    let pages = Arc::new(Cached::new(&locks, fresh, stale)?.with_prefix("page")?);
    let (page, built) = (format!("home:{}", std::process::id()), Arc::new(AtomicU64::new(0)));

    for round in ["nothing is there", "it is fresh", "it is old"] {
        println!("{round}:");
        let readers = (1..=4).map(|reader| {
            let (pages, page, built) = (pages.clone(), page.clone(), built.clone());
            tokio::spawn(async move {
                let start = Instant::now();
                let text = pages.get(&page, async || build(&built).await).await?;
                println!("  reader {reader}: {text} after {} ms", start.elapsed().as_millis());
                Ok::<_, Failure>(())
            })
        });
        for reader in readers.collect::<Vec<_>>() {
            reader.await??;
        }
        if round == "it is fresh" {
            tokio::time::sleep(fresh).await;
        }
    }
    println!("built {} times", built.load(Ordering::Relaxed));
    Ok(())
}

async fn build(built: &AtomicU64) -> Result<String, std::convert::Infallible> {
    let version = built.fetch_add(1, Ordering::Relaxed) + 1;
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(format!("version {version}"))
}
