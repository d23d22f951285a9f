//! A lock that one process hands over to its successor, as in a rolling deployment: `cargo run --example hand_over -p
//! lockage-redis-rs`, in this process or, with `REDIS_URL` naming a server, there.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::locks::TryLock;
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{AnyStore, Locks, RedisStore, RetryStore};
use tokio::sync::oneshot;

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
    // Between processes these are two messages, by a pipe or by HTTP: an owner is 32 hexadecimal digits.
    let (to_new, owner) = oneshot::channel::<String>();
    let (to_old, taken) = oneshot::channel::<u64>();
    let new = tokio::spawn(new_process(locks(&store)?, owner, to_old));

    let guard = locks(&store)?.lock("import")?.acquire().await?;
    println!("old: holds the lock, token {}", guard.token());
    to_new.send(guard.owner().to_string()).map_err(|_| "the new process is gone")?;
    let token = taken.await?;
    // It stops before its successor begins to work, since both have one token: no fence tells them apart.
    println!("old: the new process holds it too, token {token}");
    println!("old: releases its hold, {:?}", guard.release().await?);
    new.await?
}

async fn new_process(
    locks: Locks<AnyStore, Tokio>,
    owner: oneshot::Receiver<String>,
    to_old: oneshot::Sender<u64>,
) -> Result<(), Failure> {
    let owner = owner.await?.parse()?;
    // If the old process has lost the lock meanwhile, this is a new grant with a larger token, or none.
    let TryLock::Taken(guard) = locks.lock("import")?.as_owner(owner).try_acquire().await? else {
        return Err("the lock was lost before it was handed over".into());
    };
    println!("new: holds it as the same owner, token {}, {} holds", guard.token(), guard.holds());
    to_old.send(guard.token()).map_err(|_| "the old process is gone")?;
    let work = tokio::time::sleep(Duration::from_millis(200));
    guard.run(work).await?;
    println!("new: releases the lock, {:?}", guard.release().await?);
    locks.close().await;
    Ok(())
}

fn locks(store: &AnyStore) -> Result<Locks<AnyStore, Tokio>, Failure> {
    let store = RetryStore::new(store.clone(), Tokio, Duration::from_millis(250));
    Ok(Locks::new(store, Duration::from_secs(2))?)
}
