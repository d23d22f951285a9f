//! The store for callers that block.

use std::time::Duration;

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

    /// Returns the server's address for errors, as far as it is known: without a user or a password.
    fn server(&self) -> Option<String> {
        None
    }
}

impl Dial for Client {
    fn dial(&self, patience: Duration) -> RedisResult<Connection> {
        self.get_connection_with_timeout(patience)
    }

    fn server(&self) -> Option<String> {
        Some(self.get_connection_info().addr().to_string())
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
}

lockage_redis::delegate_store!(blocking BlockingRedisStore<D: Dial>);

/// A link whose futures block the thread and are then ready.
#[derive(Debug)]
pub struct BlockingLink<D> {
    dial: D,
    idle: IdlePool<Connection>,
}

impl<D: Dial> BlockingLink<D> {
    /// An idle connection or a new one, which waits for as long as the request's caller.
    fn connection(&self, request: &Request<'_>) -> RedisResult<Connection> {
        let left = || request.left().unwrap_or(LONGEST).min(LONGEST);
        let connection = self.idle.take().map_or_else(|| self.dial.dial(left()), Ok)?;
        connection.set_read_timeout(Some(left()))?;
        connection.set_write_timeout(Some(left()))?;
        Ok(connection)
    }
}

impl<D: Dial> Link for BlockingLink<D> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let mut connection = self.connection(request).map_err(LinkError::not_sent)?;
        let result = read(command(request).query(&mut connection));
        self.idle.give(connection, Health::of(&result));
        result
    }

    fn server(&self) -> Option<String> {
        self.dial.server()
    }
}
