//! The store for callers that block.

use std::sync::Arc;
use std::time::Duration;

use lockage_redis::{Health, IdlePool, Link, LinkError, LuaStore, Reply, Request};
use redis::{Client, RedisResult};

use crate::open::Address;
use crate::{command, read};

/// The longest that the client is asked to wait: to it, no time limit is another thing than a long
/// one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Records on a Redis or Valkey server, or on a cluster of them, for callers that block: see
/// [`BlockingLimiter`](lockage::BlockingLimiter) and [`BlockingLocks`](lockage::BlockingLocks).
///
/// It opens as many connections as there are calls at one time, keeps them, and drops those that
/// failed or did not answer in time. Clones share them.
///
/// ```no_run
/// use std::time::Duration;
/// use lockage_redis_rs::{BlockingLimiter, BlockingRedisStore, limit};
///
/// let store = BlockingRedisStore::open("redis://127.0.0.1:6379")?;
/// let limit = limit!("token-bucket 100/min burst 20");
/// let limiter = BlockingLimiter::new(store, limit, Duration::from_millis(250)).with_prefix("login")?;
/// limiter.try_acquire("user:42", 1)?.ok()?; // `?` turns the caller away
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockingRedisStore(LuaStore<Arc<BlockingLink>>);

impl BlockingRedisStore {
    /// Returns a store on the server, the master or the cluster at this address, which is connected to at the first
    /// call. [The table](crate) has the forms of addresses. The server's clock decides.
    ///
    /// # Errors
    /// Those of the client, for an address that is none, or that needs a feature that is off. An address where nobody
    /// answers is none: each call says so.
    pub fn open(address: &str) -> RedisResult<Self> {
        match Address::read(address)? {
            Address::Server(client) => Ok(BlockingRedisStore::new(client)),
            #[cfg(feature = "sentinel")]
            Address::Master(client) => Ok(BlockingRedisStore::sentinel(client)),
            #[cfg(feature = "cluster")]
            Address::Cluster(nodes) => {
                BlockingRedisStore::cluster(redis::cluster::ClusterClientBuilder::new(nodes))
            }
        }
    }

    /// Returns a store on the server of this client, which is connected to at the first call.
    pub fn new(client: Client) -> Self {
        BlockingRedisStore::by(Dial::Server(client))
    }

    /// Returns a store on the master that the sentinels name at that time, also after they have named another one. They
    /// are asked by one caller at a time, and have the client's own time to answer. The client must be one for masters.
    #[cfg(feature = "sentinel")]
    pub fn sentinel(client: redis::sentinel::SentinelClient) -> Self {
        BlockingRedisStore::by(Dial::Master(client.into()))
    }

    /// Returns a store on a cluster, which is connected to at the first call. Whatever the builder says, the client
    /// sends nothing again by itself.
    ///
    /// # Errors
    /// Those of the client, where the builder's addresses or options are not accepted.
    #[cfg(feature = "cluster")]
    pub fn cluster(builder: redis::cluster::ClusterClientBuilder) -> RedisResult<Self> {
        Ok(BlockingRedisStore::by(Dial::Cluster(builder.retries(0).build()?)))
    }

    fn by(dial: Dial) -> Self {
        BlockingRedisStore(LuaStore::new(Arc::new(BlockingLink {
            dial,
            idle: IdlePool::default(),
        })))
    }
}

lockage_redis::delegate_store!(blocking BlockingRedisStore);

/// A link whose futures block the thread and are then ready.
#[derive(Debug)]
struct BlockingLink {
    dial: Dial,
    idle: IdlePool<Connection>,
}

/// Where connections come from.
enum Dial {
    Server(Client),
    #[cfg(feature = "sentinel")]
    Master(std::sync::Mutex<redis::sentinel::SentinelClient>),
    #[cfg(feature = "cluster")]
    Cluster(redis::cluster::ClusterClient),
}

/// A connection for one call at a time.
enum Connection {
    Server(redis::Connection),
    #[cfg(feature = "cluster")]
    Cluster(Box<redis::cluster::ClusterConnection>),
}

impl Link for BlockingLink {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        // It waits for as long as the request's caller.
        let left = || request.left().unwrap_or(LONGEST).min(LONGEST);
        let connection = self.idle.take().map_or_else(|| self.dial.connect(left()), Ok);
        let connection = connection.and_then(|on| on.set_timeouts(left()).map(|()| on));
        let mut connection = connection.map_err(LinkError::not_sent)?;
        let result = connection.send(request);
        let health = match &result {
            // The client learns who has the slot when it connects.
            Ok(Reply::Error(error)) if error.code() == "MOVED" => Health::Lost,
            result => Health::of(result),
        };
        self.idle.give(connection, health);
        result
    }

    fn is_cluster(&self) -> bool {
        self.dial.is_cluster()
    }

    fn server(&self) -> Option<String> {
        match &self.dial {
            Dial::Server(client) => Some(client.get_connection_info().addr().to_string()),
            #[cfg(any(feature = "sentinel", feature = "cluster"))]
            _ => None,
        }
    }
}

impl Dial {
    fn connect(&self, patience: Duration) -> RedisResult<Connection> {
        match self {
            Dial::Server(client) => {
                client.get_connection_with_timeout(patience).map(Connection::Server)
            }
            #[cfg(feature = "sentinel")]
            Dial::Master(sentinels) => {
                let mut sentinels =
                    sentinels.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let master = sentinels.get_client()?;
                drop(sentinels);
                master.get_connection_with_timeout(patience).map(Connection::Server)
            }
            #[cfg(feature = "cluster")]
            Dial::Cluster(client) => {
                client.get_connection().map(|on| Connection::Cluster(Box::new(on)))
            }
        }
    }

    fn is_cluster(&self) -> bool {
        #[cfg(feature = "cluster")]
        return matches!(self, Dial::Cluster(_));
        #[cfg(not(feature = "cluster"))]
        false
    }
}

impl Connection {
    fn set_timeouts(&self, left: Duration) -> RedisResult<()> {
        match self {
            Connection::Server(on) => {
                on.set_read_timeout(Some(left))?;
                on.set_write_timeout(Some(left))
            }
            #[cfg(feature = "cluster")]
            Connection::Cluster(on) => {
                on.set_read_timeout(Some(left))?;
                on.set_write_timeout(Some(left))
            }
        }
    }

    fn send(&mut self, request: &Request<'_>) -> Result<Reply, LinkError> {
        match self {
            Connection::Server(on) => read(command(request).query(on)),
            #[cfg(feature = "cluster")]
            Connection::Cluster(on) if request.is_asking() => {
                let to = || {
                    redis::cluster_routing::RoutingInfo::SingleNode(crate::cluster::node(request))
                };
                read(on.route_command(&redis::cmd("ASKING"), to()))?;
                read(on.route_command(&command(request), to()))
            }
            #[cfg(feature = "cluster")]
            Connection::Cluster(on) => read(command(request).query(&mut **on)),
        }
    }
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dial").field("is_cluster", &self.is_cluster()).finish_non_exhaustive()
    }
}
