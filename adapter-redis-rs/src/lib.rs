//! The lockage store on Redis (6.2 and later) or Valkey, through the `redis` crate.
//!
//! ```no_run
//! # async fn first(client: redis::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use lockage::Limiter;
//! use lockage_redis_rs::RedisStore;
//!
//! let store = RedisStore::connect(client);
//! let limiter = Limiter::new(store, "token-bucket 100/min burst 20".parse()?);
//! let decision = limiter.try_acquire("user:42", 1).await?;
//! # let _ = decision; Ok(()) }
//! ```
//!
//! | server | store |
//! |---|---|
//! | one | [`RedisStore::connect`], which connects again by itself |
//! | a master with sentinels | [`RedisStore::sentinel`], which also follows a failover (feature `sentinel`) |
//! | a cluster | [`RedisStore::cluster`] (feature `cluster`) |
//! | any, over a connection of your own | [`RedisStore::new`] with a `MultiplexedConnection` or, by the feature `connection-manager`, a `ConnectionManager` |
//! | one, or sentinels, for callers that block | [`BlockingRedisStore`] |
//!
//! # At most once
//!
//! Each command is executed at most once. It is sent again only after a reply that says that
//! nothing was done and where to go: the server does not know the script, or the slot is with
//! another node. The cluster client's own retries would run scripts twice and are turned off.
//!
//! # Timeouts
//!
//! The client's own apply, unless configured: 1 s to connect, 500 ms for a reply. A call that gets
//! none is `Unknown`. Wrap the store in [`Timed`](lockage::Timed) for a timeout of your own, and
//! to try again what was not done.

mod blocking;
mod link;
mod outcome;

use std::sync::Arc;
use std::time::Duration;

use lockage::{Clock, Command, Key, Store, StoreError};
use lockage_lua::{Call, TimeSource};
use redis::{Client, Cmd};

pub use blocking::{BlockingRedisStore, Dial};
#[cfg(feature = "cluster")]
pub use link::Cluster;
pub use link::{Link, LinkError, Reconnecting};

/// Records on a Redis or Valkey server, or on a cluster of them.
#[derive(Clone, Debug)]
pub struct RedisStore<L> {
    link: L,
    time: TimeSource,
}

impl RedisStore<Reconnecting> {
    /// A store on the server of this client, which is connected to at the first call, and again
    /// after the connection was lost.
    pub fn connect(client: Client) -> Self {
        let client = Arc::new(client);
        RedisStore::new(Reconnecting::new(move || {
            let client = Arc::clone(&client);
            async move { client.get_multiplexed_async_connection().await }
        }))
    }

    /// A store on the master that the sentinels name, also after they have named another one.
    /// The client must be one for masters.
    #[cfg(feature = "sentinel")]
    pub fn sentinel(client: redis::sentinel::SentinelClient) -> Self {
        let client = Arc::new(futures_util::lock::Mutex::new(client));
        RedisStore::new(Reconnecting::new(move || {
            let client = Arc::clone(&client);
            async move { client.lock().await.get_async_connection().await }
        }))
    }
}

#[cfg(feature = "cluster")]
impl RedisStore<Cluster> {
    /// A store on a cluster, which is connected to at the first call. Whatever the builder says, the
    /// client sends nothing again by itself.
    ///
    /// # Errors
    /// Those of the client, where the builder's addresses or options are not accepted.
    pub fn cluster(builder: redis::cluster::ClusterClientBuilder) -> redis::RedisResult<Self> {
        Ok(RedisStore::new(Cluster::new(builder)?))
    }
}

impl<L> RedisStore<L> {
    /// A store on this connection. The server's clock decides.
    pub fn new(link: L) -> Self {
        RedisStore { link, time: TimeSource::SERVER }
    }

    /// Lets the caller's clock decide instead of the server's: see [`TimeSource::caller`].
    pub fn with_clock(self, clock: Arc<dyn Clock>, skew: Duration) -> Self {
        RedisStore { time: TimeSource::caller(clock, skew), ..self }
    }
}

impl<L: Link> Store for RedisStore<L> {
    async fn execute<M>(&self, key: &Key, command: &M) -> Result<M::Outcome, StoreError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        let mut call = Call::new(command, &self.time);
        let mut asking = None;
        loop {
            let error = match self.link.send(&packed(&call, key), asking.as_deref()).await {
                Ok(reply) => return outcome::read(&call, reply),
                Err(error) => error,
            };
            match error.cause().code() {
                Some(code) if call.again_after(code) => asking = outcome::next_node(&error, asking),
                _ => return Err(outcome::failure(error)),
            }
        }
    }
}

/// `EVALSHA digest 1 key argument...`, or the same with the script's text.
fn packed<M: Command>(call: &Call<'_, M>, key: &Key) -> Cmd {
    let mut packed = redis::cmd(call.name());
    packed.arg(call.script()).arg(1).arg(key.as_str());
    call.arguments().for_each(|argument| _ = packed.arg(argument));
    packed
}
