//! A holder that is paused for longer than its lease, and is refused when it goes on: `cargo run
//! --example paused_holder -p lockage-redis-rs`, in this process or, with `REDIS_URL` naming a server, there.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::fenced::{Access, Fenced};
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{Locks, RedisStore, RetryStore, Store};

const LEASE: Duration = Duration::from_secs(1);

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    match std::env::var("REDIS_URL") {
        Ok(url) => {
            let client = redis::Client::open(url.as_str())?;
            // Each process, here each thread, has a connection of its own.
            run(move || RedisStore::connect(client.clone()))
        }
        Err(_) => {
            let store = std::sync::Arc::new(MemoryStore::new());
            run(move || store.clone())
        }
    }
}

fn run<S: Store + Clone + 'static>(store: impl Fn() -> S + Sync) -> Result<(), Failure> {
    std::thread::scope(|threads| {
        let first = threads.spawn(|| in_a_process(paused(store())));
        // The first one has the lock by then.
        std::thread::sleep(LEASE / 2);
        let second = threads.spawn(|| in_a_process(next(store())));
        first.join().expect("it does not panic")?;
        second.join().expect("it does not panic")
    })
}

fn in_a_process(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

async fn paused<S: Store + Clone + 'static>(store: S) -> Result<(), Failure> {
    let (locks, report) = both(store)?;
    let guard = locks.lock("report")?.acquire().await?;
    println!("first: has the lock, token {}", guard.token());
    let Access::Accepted(_) = report.read("today", guard.token()).await? else {
        return Err("the first token is the newest".into());
    };
    // The whole process stands still, and with it the task that renews the lease.
    std::thread::sleep(LEASE * 3);
    println!("first: goes on; it knows by its own clock: {:?}", guard.deadline());
    // A holder that does not check its guard is stopped here.
    match report.write("today", guard.token(), "by the first").await? {
        Access::Accepted(()) => println!("first: has written"),
        Access::Stale { newest } => println!("first: is refused, {newest} is newer"),
    }
    println!("first: {:?}", guard.release().await?);
    Ok(())
}

async fn next<S: Store + Clone + 'static>(store: S) -> Result<(), Failure> {
    let (locks, report) = both(store)?;
    let guard = locks.lock("report")?.acquire().await?;
    println!("second: has the lock, token {}", guard.token());
    println!("second: writes, {:?}", report.write("today", guard.token(), "by the second").await?);
    tokio::time::sleep(LEASE * 3).await;
    println!("second: {:?}", report.peek("today").await?);
    println!("second: {:?}", guard.release().await?);
    Ok(())
}

fn both<S: Store + Clone + 'static>(store: S) -> Result<(Locks<S, Tokio>, Fenced<S>), Failure> {
    let report = Fenced::new(store.clone(), Duration::from_secs(3600))?;
    let locks = Locks::new(RetryStore::new(store, Tokio, Duration::from_millis(250)), LEASE)?;
    Ok((locks, report))
}
