//! The store for callers that block.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lockage::store::{BlockingStore, Clock, Command};
use lockage::{Key, StoreError};
use lockage_redis::{Health, IdlePool, Link, LinkError, LuaStore, Reply, Request};
use redis::{Client, Connection, RedisResult};

use crate::{command, read};

/// The longest that the client is asked to wait: to it, no time limit is another thing than a long
/// one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Where blocking connections come from.
pub trait Dial: Send + Sync {
    /// Returns a new connection to the server that now takes writes.
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
pub struct BlockingRedisStore<D>(LuaStore<BlockingLink<D>>);

impl<D: Dial> BlockingRedisStore<D> {
    /// Returns a store on the server that a [`Client`] or, by the feature `sentinel`, a `SentinelClient` in a
    /// mutex leads to; it is connected to at the first call. The server's clock decides.
    pub fn new(dial: D) -> Self {
        BlockingRedisStore(LuaStore::new(BlockingLink { dial, idle: IdlePool::default() }))
    }

    /// Lets the caller's clock decide instead of the server's: see
    /// [`TimeSource::caller`](lockage_redis::TimeSource::caller).
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>, skew: Duration) -> Self {
        BlockingRedisStore(self.0.with_clock(clock, skew))
    }
}

impl<D: Dial> BlockingStore for BlockingRedisStore<D> {
    fn execute<C: Command>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError> {
        let deadline = Instant::now() + patience.min(LONGEST);
        let call = self.0.call(key, command, Some(deadline));
        // Invariant: a call pends nowhere but in its link, which blocks instead.
        call.now_or_never().expect("a link that blocks is always ready")
    }
}

/// A link whose futures block the thread and are then ready.
#[derive(Debug)]
pub struct BlockingLink<D> {
    dial: D,
    idle: IdlePool<Connection>,
}

impl<D: Dial> BlockingLink<D> {
    /// An idle connection or a new one, which waits until `deadline`.
    fn connection(&self, deadline: Instant) -> RedisResult<Connection> {
        // The client takes no timeout of zero.
        let left = || (deadline - Instant::now()).max(Duration::from_millis(1));
        let connection = self.idle.take().map_or_else(|| self.dial.dial(left()), Ok)?;
        connection.set_read_timeout(Some(left()))?;
        connection.set_write_timeout(Some(left()))?;
        Ok(connection)
    }
}

impl<D: Dial> Link for BlockingLink<D> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let deadline = request.deadline().unwrap_or_else(|| Instant::now() + LONGEST);
        let connection = self.connection(deadline).map_err(LinkError::not_sent);
        let mut connection = connection?;
        let result = read(command(request).query(&mut connection));
        self.idle.give(connection, Health::of(&result));
        result
    }
}
