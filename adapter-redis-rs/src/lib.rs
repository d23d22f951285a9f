//! The lockage store on Redis (6.2 and later) or Valkey, through the `redis` crate.
//!
//! ```no_run
//! # async fn first(client: redis::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use lockage::Limiter;
//! use lockage_redis_rs::RedisStore;
//!
//! let connection = client.get_multiplexed_async_connection().await?;
//! let limiter = Limiter::new(RedisStore::new(connection), "token-bucket 100/min burst 20".parse()?);
//! let decision = limiter.try_acquire("user:42", 1).await?;
//! # let _ = decision; Ok(()) }
//! ```
//!
//! Any asynchronous connection serves: `MultiplexedConnection`, `ConnectionManager` (which
//! reconnects) and `ClusterConnection`.
//!
//! This adapter sends each command once, and once more with the script's text where the server
//! did not know it and has run nothing. Connections have retries of their own, which can run a
//! script twice: build a cluster client with `.retries(0)` where each call must count at most once.

mod outcome;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage::{Clock, Command, Key, Store, StoreError};
use lockage_core::Arguments;
use lockage_lua::{Attempt, script};
use redis::aio::ConnectionLike;

/// Records on a Redis or Valkey server, or on a cluster of them.
#[derive(Clone)]
pub struct RedisStore<C> {
    connection: C,
    injected: Option<Injected>,
}

/// A clock that decides instead of the server's.
#[derive(Clone)]
struct Injected {
    clock: Arc<dyn Clock>,
    skew_ms: u64,
}

impl<C> RedisStore<C> {
    /// A store on this connection. The server's clock decides.
    pub fn new(connection: C) -> Self {
        RedisStore { connection, injected: None }
    }

    /// Lets the caller's clock decide instead of the server's, for servers that refuse `TIME` in
    /// scripts, and for tests.
    ///
    /// `skew` bounds how far this clock may be off the server's and other callers'; it is added to
    /// every expiry, rounded up to milliseconds, and counts as a year where it is more. Beyond it,
    /// keys can expire while they still matter. Do not use an injected clock for locks outside of tests: their leases rest on one
    /// clock for all.
    pub fn with_clock(self, clock: Arc<dyn Clock>, skew: Duration) -> Self {
        let skew_ms = u64::try_from(skew.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        // More is no bound, and the server could not add it to its time.
        let skew_ms = skew_ms.min(366 * 24 * 3600 * 1000);
        RedisStore { injected: Some(Injected { clock, skew_ms }), ..self }
    }

    fn arguments<M: Command>(&self, command: &M) -> Arguments {
        let mut arguments = match &self.injected {
            Some(injected) => Arguments::new(Some(injected.clock.now()), injected.skew_ms),
            None => Arguments::new(None, 0),
        };
        command.arguments(&mut arguments);
        arguments
    }
}

impl<C> Store for RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync,
{
    async fn execute<M>(&self, key: &Key, command: &M) -> Result<M::Outcome, StoreError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        let arguments = self.arguments(command);
        let mut connection = self.connection.clone();
        let mut attempt = Attempt::Digest;
        loop {
            let call = call(attempt, command, key, &arguments);
            let error = match call.query_async::<redis::Value>(&mut connection).await {
                Ok(reply) => return outcome::read(command, reply),
                Err(error) => error,
            };
            match attempt.after_no_script() {
                Some(next) if outcome::is_no_script(&error) => attempt = next,
                _ => return Err(outcome::failure(error)),
            }
        }
    }
}

impl<C> fmt::Debug for RedisStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let injected = self.injected.is_some();
        f.debug_struct("RedisStore").field("injected_clock", &injected).finish_non_exhaustive()
    }
}

/// `EVALSHA digest 1 key argument...`, or the same with the script's text.
fn call<M: Command>(attempt: Attempt, command: &M, key: &Key, arguments: &Arguments) -> redis::Cmd {
    let mut call = redis::cmd(attempt.command());
    call.arg(attempt.argument(script(command.script()))).arg(1).arg(key.as_str());
    for argument in arguments.iter() {
        call.arg(argument);
    }
    call
}
