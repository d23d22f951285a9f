//! The store for callers that block.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockage::adapter::Idle;
use lockage::{BlockingStore, Clock, Command, Key, StoreError};
use lockage_lua::{Call, TimeSource};
use redis::{Client, Connection, RedisResult};

use crate::link::LinkError;
use crate::{outcome, packed};

/// The longest that the client is asked to wait: to it, no time limit is another thing than a long
/// one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Where blocking connections come from.
pub trait Dial: Send + Sync {
    /// A new connection to the server that now takes writes.
    ///
    /// # Errors
    /// Those of the client.
    fn dial(&self, patience: Duration) -> RedisResult<Connection>;
}

impl Dial for Client {
    fn dial(&self, patience: Duration) -> RedisResult<Connection> {
        self.get_connection_with_timeout(patience)
    }
}

/// The master that the sentinels name at that time. They are asked by one caller at a time, and have
/// the client's own time to answer.
#[cfg(feature = "sentinel")]
impl Dial for std::sync::Mutex<redis::sentinel::SentinelClient> {
    fn dial(&self, patience: Duration) -> RedisResult<Connection> {
        let master = self.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_client()?;
        master.get_connection_with_timeout(patience)
    }
}

/// Records on a Redis or Valkey server, for callers that block: see
/// [`BlockingLimiter`](lockage::BlockingLimiter).
///
/// It opens as many connections as there are calls at one time, keeps them, and drops those that
/// failed or did not answer in time. Share it by an `Arc`.
#[derive(Debug)]
pub struct BlockingRedisStore<D> {
    dial: D,
    idle: Idle<Connection>,
    time: TimeSource,
}

impl<D: Dial> BlockingRedisStore<D> {
    /// A store on the server that a [`Client`] or, by the feature `sentinel`, a `SentinelClient` in a
    /// mutex leads to; it is connected to at the first call. The server's clock decides.
    pub fn new(dial: D) -> Self {
        BlockingRedisStore { dial, idle: Idle::new(), time: TimeSource::SERVER }
    }

    /// Lets the caller's clock decide instead of the server's: see [`TimeSource::caller`].
    pub fn with_clock(self, clock: Arc<dyn Clock>, skew: Duration) -> Self {
        BlockingRedisStore { time: TimeSource::caller(clock, skew), ..self }
    }

    /// An idle connection or a new one, which waits for no longer than `patience`, from now on.
    fn connection(&self, patience: Duration) -> RedisResult<Connection> {
        let deadline = Instant::now() + patience.min(LONGEST);
        // The client takes no timeout of zero.
        let left = || (deadline - Instant::now()).max(Duration::from_millis(1));
        let connection = self.idle.take().map_or_else(|| self.dial.dial(left()), Ok)?;
        connection.set_read_timeout(Some(left()))?;
        connection.set_write_timeout(Some(left()))?;
        Ok(connection)
    }
}

impl<D: Dial> BlockingStore for BlockingRedisStore<D> {
    fn execute<M: Command>(
        &self,
        key: &Key,
        command: &M,
        patience: Duration,
    ) -> Result<M::Outcome, StoreError> {
        let connection = self.connection(patience);
        let mut connection =
            connection.map_err(|error| outcome::failure(LinkError::NotSent(error)))?;
        let mut call = Call::new(command, &self.time);
        loop {
            let result = packed(&call, key).query(&mut connection);
            // A slot that is elsewhere is for callers with a cluster's connection.
            let code = result.as_ref().err().and_then(redis::RedisError::code);
            if code.is_some_and(|code| !matches!(code, "MOVED" | "ASK") && call.again_after(code)) {
                continue;
            }
            let result = result.map_err(LinkError::Failed);
            self.idle.give(connection, outcome::verdict(&result));
            return outcome::read(&call, result.map_err(outcome::failure)?);
        }
    }
}
