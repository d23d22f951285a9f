//! A key of redis_rate or redis-cell, whose use is charged once to a limiter of lockage, at the first call for its id:
//! `cargo run --example take_over -p lockage-redis-rs`, with `REDIS_URL` naming the server (redis://127.0.0.1:6379 where it
//! is not set).

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use lockage_redis_rs::{Limiter, RedisStore, Store, limit};
use redis::aio::MultiplexedConnection;

/// A limiter by GCRA. Each of its keys has one number: when all that was used of it has come back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Older {
    /// In seconds since 2017, with a fraction.
    RedisRate,
    /// In nanoseconds since 1970.
    RedisCell,
}

impl Older {
    pub(crate) fn key(self, id: &str) -> String {
        match self {
            Older::RedisRate => format!("rate:{id}"),
            Older::RedisCell => id.to_owned(),
        }
    }

    /// Returns the time in seconds since 1970.
    fn full_at(self, number: f64) -> f64 {
        match self {
            Older::RedisRate => number + 1_483_228_800.0,
            Older::RedisCell => number / 1e9,
        }
    }
}

/// Charges the use of the older limiter's key, rounded up, to the limiter, and returns it. Of all calls that find the key,
/// the one that removes it charges. If its process ends in between, the id begins fresh.
///
/// The older limiter allowed `burst` at once, and brings back one unit each `interval`. A key of the past is full again; it
/// ends by itself.
///
/// # Errors
/// The key is not a number, or one that the older limiter does not write. It stays as it is.
pub(crate) async fn take_over<S: Store>(
    connection: &mut MultiplexedConnection,
    limiter: &Limiter<S>,
    older: Older,
    id: &str,
    (burst, interval): (u64, Duration),
) -> Result<u64, Box<dyn Error>> {
    let key = older.key(id);
    let mut both = redis::pipe();
    both.cmd("GET").arg(&key).cmd("TIME");
    let (number, (seconds, micros)): (Option<f64>, (f64, f64)) =
        both.query_async(connection).await?;
    let Some(number) = number else { return Ok(0) };
    let left = older.full_at(number) - (seconds + micros / 1e6);
    let used = (left / interval.as_secs_f64()).ceil();
    if used.is_nan() || used > burst as f64 {
        return Err(format!("`{key}` is no key of {older:?}: {number} is out of range").into());
    }
    if used <= 0.0 {
        return Ok(0);
    }
    let removed: u64 = redis::cmd("DEL").arg(&key).query_async(connection).await?;
    if removed == 0 {
        return Ok(0);
    }
    let charged = limiter.penalty(id, used as u64).await?;
    println!("{id}: {used} used, {} left", charged.after.remaining);
    Ok(used as u64)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let mut connection = redis::Client::open(&*url)?.get_multiplexed_async_connection().await?;
    let limiter = Limiter::new(RedisStore::open(&url)?, limit!("gcra 1/min burst 20"))
        .with_prefix("taken-over")?;
    let older_limit = (20, Duration::from_secs(60));
    for (older, id) in [(Older::RedisRate, "project:123"), (Older::RedisCell, "user123")] {
        // As long as the older limiter's keys last: here 20 minutes after the last call to it.
        take_over(&mut connection, &limiter, older, id, older_limit).await?;
        let decision = limiter.try_acquire(id, 1).await?;
        println!("{id}: {:?}, {} left", decision.verdict, decision.remaining);
    }
    Ok(())
}
