//! The job of each minute, done by one instance of many: `cargo run --example cron_job -p lockage-redis-rs`,
//! with three instances in this process or, with `REDIS_URL` naming a server, there and in as many
//! processes as you start. Here a minute takes a second.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::locks::RunOnce;
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
    let instances = (1..=3).map(|instance| tokio::spawn(instance_of(instance, store.clone())));
    for instance in instances.collect::<Vec<_>>() {
        instance.await??;
    }
    Ok(())
}

async fn instance_of(instance: u32, store: AnyStore) -> Result<(), Failure> {
    let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    let locks = Locks::new(store, Duration::from_secs(10))?.with_prefix("job")?;
    // A late instance finds it done, for a day.
    let once = RunOnce::new(&locks, Duration::from_secs(24 * 3600))?.with_prefix("job-done")?;
    for _ in 0..3 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let minute = since.as_secs() + 1;
        tokio::time::sleep(Duration::from_secs(minute) - since).await;
        // It is done once for each minute, also where instances wake at different times.
        let ran = once
            .run(&format!("report:{minute}"), async |_token| {
                println!("{instance}: begins the report of {minute}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok::<_, Failure>(format!("by instance {instance}"))
            })
            .await?;
        if !ran.is_new {
            println!("{instance}: the report of {minute} is done, {}", ran.result);
        }
    }
    Ok(())
}
