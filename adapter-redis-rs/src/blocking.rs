//! The store for callers that block.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockage::adapter::Verdict;
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
impl Dial for Mutex<redis::sentinel::SentinelClient> {
    fn dial(&self, patience: Duration) -> RedisResult<Connection> {
        let master = lock(self).get_client()?;
        master.get_connection_with_timeout(patience)
    }
}

/// Records on a Redis or Valkey server, for callers that block: see
/// [`BlockingLimiter`](lockage::BlockingLimiter).
///
/// It opens as many connections as there are calls at one time, keeps them, and drops those that
/// failed or did not answer in time. Share it by an `Arc`.
pub struct BlockingRedisStore<D> {
    dial: D,
    idle: Mutex<Vec<Connection>>,
    time: TimeSource,
}

impl<D: Dial> BlockingRedisStore<D> {
    /// A store on the server that a [`Client`] or, by the feature `sentinel`, a `SentinelClient` in a
    /// mutex leads to; it is connected to at the first call. The server's clock decides.
    pub fn new(dial: D) -> Self {
        let idle = Mutex::default();
        BlockingRedisStore { dial, idle, time: TimeSource::SERVER }
    }

    /// Lets the caller's clock decide instead of the server's: see [`TimeSource::caller`].
    pub fn with_clock(self, clock: Arc<dyn Clock>, skew: Duration) -> Self {
        BlockingRedisStore { time: TimeSource::caller(clock, skew), ..self }
    }

    /// An idle connection or a new one, which waits for no longer than until `deadline`.
    fn connection(&self, deadline: Instant) -> RedisResult<Connection> {
        // The client takes no timeout of zero.
        let left = || (deadline - Instant::now()).max(Duration::from_millis(1));
        let idle = lock(&self.idle).pop();
        let connection = idle.map_or_else(|| self.dial.dial(left()), Ok)?;
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
        let connection = self.connection(Instant::now() + patience.min(LONGEST));
        let mut connection =
            connection.map_err(|error| outcome::failure(LinkError::NotSent(error)))?;
        let mut call = Call::new(command, &self.time);
        loop {
            let error = match packed(&call, key).query(&mut connection) {
                Ok(reply) => {
                    lock(&self.idle).push(connection);
                    return outcome::read(&call, reply);
                }
                Err(error) => error,
            };
            // A slot that is elsewhere is for callers with a cluster's connection.
            if error.code() == Some("NOSCRIPT") && call.again_after("NOSCRIPT") {
                continue;
            }
            let result = Err(LinkError::Failed(error));
            let mut idle = lock(&self.idle);
            match outcome::verdict(&result) {
                Verdict::Good => idle.push(connection),
                Verdict::Doubtful => {}
                // The others are likely to lead nowhere as well.
                Verdict::Lost => idle.clear(),
            }
            return result.map_err(outcome::failure).and_then(|reply| outcome::read(&call, reply));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D> fmt::Debug for BlockingRedisStore<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingRedisStore").field("time", &self.time).finish_non_exhaustive()
    }
}
