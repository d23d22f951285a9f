//! Rows of PostgreSQL that a lock protects: the update checks the fencing token, so a holder that was paused for longer
//! than its lease is refused. `DATABASE_URL=postgres://user@host/database cargo run --example protected_rows -p
//! lockage-redis-rs`, with the lock in this process or, with `REDIS_URL` naming a server, there.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{AnyStore, LockGuard, Locks, RedisStore, RetryStore};
use tokio_postgres::{Client, Config, NoTls};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LEASE: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    let Ok(database) = std::env::var("DATABASE_URL") else {
        return Err("set DATABASE_URL, for example to postgres://postgres@localhost/test".into());
    };
    let Story { first, second, balance } = run(store, &database.parse()?).await?;
    println!("first: {first:?}, second: {second:?}, the balance is {balance}");
    Ok(())
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    Done,
    /// A later holder of the lock has changed the row, or this row does not exist.
    Refused,
}

/// The updates of the paused holder and of the next one, and the balance in the end.
pub(crate) struct Story {
    pub(crate) first: Update,
    pub(crate) second: Update,
    pub(crate) balance: i64,
}

pub(crate) async fn run(store: AnyStore, database: &Config) -> Result<Story, Failure> {
    let client = connect(database).await?;
    client
        .batch_execute(
            "DROP TABLE IF EXISTS lockage_accounts;
             CREATE TABLE lockage_accounts (
                 id bigint PRIMARY KEY,
                 balance bigint NOT NULL,
                 token bigint NOT NULL DEFAULT 0 -- of the lock under which it was changed last
             );
             INSERT INTO lockage_accounts (id, balance) VALUES (7, 100)",
        )
        .await?;

    // Each process has locks of its own.
    let guard = locks(&store)?.lock("account:7")?.acquire().await?;
    let balance = balance(&client).await?;
    println!("first: has the lock, token {}, and reads {balance}", guard.token());
    // The whole process stands still, and with it the task that renews the lease.
    std::thread::sleep(LEASE * 2);
    let second = next_holder(&store, database).await?;
    // The first one goes on, and does not check its guard.
    let first = set_balance(&client, &guard, balance + 10).await?;
    println!("first: {first:?}; its guard knows: {:?}", guard.time_left());
    Ok(Story { first, second, balance: self::balance(&client).await? })
}

async fn next_holder(store: &AnyStore, database: &Config) -> Result<Update, Failure> {
    let client = connect(database).await?;
    let guard = locks(store)?.lock("account:7")?.acquire().await?;
    let balance = balance(&client).await?;
    println!("second: has the lock, token {}, and reads {balance}", guard.token());
    let update = set_balance(&client, &guard, balance - 30).await?;
    println!("second: {update:?}");
    guard.release().await?;
    Ok(update)
}

async fn balance(client: &Client) -> Result<i64, Failure> {
    let query = "SELECT balance FROM lockage_accounts WHERE id = 7";
    Ok(client.query_one(query, &[]).await?.get(0))
}

/// Changes the row, unless a later holder has changed it. The statement compares and writes at once.
async fn set_balance<S, R>(
    client: &Client,
    guard: &LockGuard<S, R>,
    balance: i64,
) -> Result<Update, Failure> {
    let update =
        "UPDATE lockage_accounts SET balance = $1, token = $2 WHERE id = 7 AND token <= $2";
    // Tokens are below 2^53.
    let token = i64::try_from(guard.token())?;
    let rows = client.execute(update, &[&balance, &token]).await?;
    Ok(if rows == 1 { Update::Done } else { Update::Refused })
}

async fn connect(database: &Config) -> Result<Client, Failure> {
    let (client, connection) = database.connect(NoTls).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            println!("the database: {error}");
        }
    });
    Ok(client)
}

fn locks(store: &AnyStore) -> Result<Locks<AnyStore, Tokio>, Failure> {
    let store = RetryStore::new(store.clone(), Tokio, LEASE / 4);
    Ok(Locks::new(store, LEASE)?)
}
