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
//! none is `Unknown`. Wrap the store in [`RetryStore`](lockage::RetryStore) for a timeout of your own, and
//! to try again what was not done.
//!
//! # Waiting for replicas
//!
//! A store after [`RedisStore::connect`], [`RedisStore::sentinel`] or [`RedisStore::cluster`] is
//! [`Replicated`](lockage::Replicated). For each such call that is under way it has a connection more, and keeps it
//! for the next. In a cluster, such a call takes no longer than the builder's `response_timeout` and
//! `overall_response_timeout` as well (500 ms, unless it says otherwise), and is `Unknown` then: leave more than
//! the patience. An ACL has to allow the commands `MULTI EXEC EVAL WAIT`.
//!
//! # Listening
//!
//! Whoever waits needs a connection that listens, which the store makes at the first wait, by RESP3:
//! by itself after [`RedisStore::connect`] and [`RedisStore::sentinel`], and otherwise with a client that it is given,
//! by [`RedisStore::listening`] or `RedisStore::listening_in_cluster`.
//! By [`Notifications`] it subscribes to the channels of the keys that are waited for, which have the keys' own
//! names: by `SSUBSCRIBE` from 7.0 on, in a cluster or not, and by `SUBSCRIBE` before. Channels know no
//! numbered databases: a key of the same name in another one wakes too, and no more comes of it.
//!
//! An ACL has to allow channels beside keys (`~login:*` and `&login:*`, say) and the commands `SSUBSCRIBE
//! SUNSUBSCRIBE SPUBLISH`, before 7.0 and in place of these `SUBSCRIBE UNSUBSCRIBE PUBLISH`, and `EVAL`.
//! Without them waiting goes on by looking from time to time: `listen` is `NotDone`, and scripts publish nothing.

mod acknowledged;
mod blocking;
mod link;
mod many;
mod notifications;
mod outcome;

use std::sync::Arc;
use std::time::Duration;

use lockage::adapter::Channels;
use lockage::{Clock, Command, Key, Listener, Notifications, Store, StoreError, Wake};
use lockage_lua::{Call, TimeSource};
use redis::{Client, Cmd};

pub use acknowledged::{Acknowledged, Reply};
pub use blocking::{BlockingRedisStore, Dial};
#[cfg(feature = "cluster")]
pub use link::Cluster;
pub use link::{Acknowledging, Link, LinkError, Reconnecting};

/// Records on a Redis or Valkey server, or on a cluster of them.
#[derive(Clone, Debug)]
pub struct RedisStore<L> {
    link: L,
    time: TimeSource,
    /// Where the store can make a connection of its own.
    channels: Option<Channels>,
}

impl RedisStore<Reconnecting> {
    /// A store on the server of this client, which is connected to at the first call, and again
    /// after the connection was lost.
    pub fn connect(client: Client) -> Self {
        let connects = Arc::new(client.clone());
        let link = Reconnecting::new(move || {
            let client = Arc::clone(&connects);
            async move { client.get_multiplexed_async_connection().await }
        });
        RedisStore::new(link).listening(client)
    }

    /// A store on the master that the sentinels name, also after they have named another one.
    /// The client must be one for masters.
    #[cfg(feature = "sentinel")]
    pub fn sentinel(client: redis::sentinel::SentinelClient) -> Self {
        let client = Arc::new(futures_util::lock::Mutex::new(client));
        let masters = Arc::clone(&client);
        let link = Reconnecting::new(move || {
            let client = Arc::clone(&client);
            async move { client.lock().await.get_async_connection().await }
        });
        let channels = notifications::of_client(move || {
            let client = Arc::clone(&masters);
            async move { client.lock().await.async_get_client().await }
        });
        RedisStore { channels: Some(channels), ..RedisStore::new(link) }
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
        RedisStore { link, time: TimeSource::SERVER, channels: None }
    }

    /// Lets those who wait listen on a connection of their own, which this client makes, to the same
    /// server. It uses RESP3 whatever the client says. Not needed after [`RedisStore::connect`] and
    /// [`RedisStore::sentinel`].
    pub fn listening(self, client: Client) -> Self {
        let channels = notifications::of_client(move || std::future::ready(Ok(client.clone())));
        RedisStore { channels: Some(channels), ..self }
    }

    /// The same for a cluster: with connections of their own, which a client of this builder makes to the
    /// same nodes. It uses RESP3 whatever the builder says.
    ///
    /// # Errors
    /// Those of the client, where the builder's addresses or options are not accepted.
    #[cfg(feature = "cluster")]
    pub fn listening_in_cluster(
        self,
        builder: redis::cluster::ClusterClientBuilder,
    ) -> redis::RedisResult<Self> {
        Ok(RedisStore { channels: Some(notifications::of_cluster(builder)?), ..self })
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

    fn supports_batch(&self) -> bool {
        self.link.takes_many_keys()
    }

    async fn execute_batch<M>(
        &self,
        calls: &[(&Key, &M)],
        _patience: Duration,
    ) -> Vec<Result<M::Outcome, StoreError>>
    where
        M: Command<Outcome: Send> + Sync,
    {
        self.call_many(calls).await
    }
}

impl<L: Link> Notifications for RedisStore<L> {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        let Some(channels) = &self.channels else {
            return Err(StoreError::NotDone(NO_CLIENT.into()));
        };
        channels.listen(key.as_str(), wake).await
    }
}

const NO_CLIENT: &str = "a store on a connection of your own needs a client to listen: see \
    RedisStore::listening and RedisStore::listening_in_cluster";

/// `EVALSHA digest 1 key argument...`, or the same with the script's text.
fn packed<M: Command>(call: &Call<'_, M>, key: &Key) -> Cmd {
    let mut packed = redis::cmd(call.name());
    packed.arg(call.script()).arg(1).arg(key.as_str());
    call.arguments().for_each(|argument| _ = packed.arg(argument));
    packed
}
