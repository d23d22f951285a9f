//! The store for blocking callers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lockage_redis::{BlockingConnection, BlockingConnections, LinkError, LuaStore, Reply, Request};
use redis::cluster::{ClusterClientBuilder, ClusterConnection};
use redis::cluster_routing::RoutingInfo;
use redis::sentinel::SentinelClient;
use redis::{Client, RedisResult};

use crate::open::{Opened, open};
use crate::own::kept_alive;
use crate::{cluster, command, no_master, not_connected, read};

/// Records on a Redis or Valkey server or cluster, for blocking callers: see
/// [`BlockingLimiter`](lockage::BlockingLimiter) and [`BlockingLocks`](lockage::BlockingLocks).
///
/// It opens as many connections as concurrent calls, keeps them, and drops those that failed or did not answer in time.
/// Clones share them. Nothing notifies it when one of them ends: it checks one by `PING` before a call if it was idle for
/// 500 ms, and a call on one that ended within that time is `Unknown`. A shorter
/// [`with_idle_check`](BlockingRedisStore::with_idle_check) costs round trips.
///
/// The client waits for a reply with a timeout, and on Linux a signal ends such a wait, as may a process that another
/// thread starts: the call is `Unknown` then.
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
pub struct BlockingRedisStore(LuaStore<BlockingConnections>);

impl BlockingRedisStore {
    /// Creates a store on the server, the master or the cluster at this address, and connects at the first call. [The
    /// table](crate) has the forms of addresses. The server's clock decides.
    ///
    /// # Errors
    /// Those of the client, for an invalid address, or one that needs a disabled feature. An unreachable address is not
    /// an error here: each call reports it.
    pub fn open(address: &str) -> RedisResult<Self> {
        match open(address)? {
            Opened::Server(client) => Ok(BlockingRedisStore::new(client)),
            Opened::Master(client) => Ok(BlockingRedisStore::sentinel(client)),
            Opened::Cluster(nodes) => BlockingRedisStore::cluster(cluster::builder(nodes)),
        }
    }

    /// Creates a store on the server of this client, and connects at the first call.
    pub fn new(client: Client) -> Self {
        let server = client.get_connection_info().addr().to_string();
        let connect = move |patience| connect(client.clone(), patience);
        BlockingRedisStore(LuaStore::new(BlockingConnections::new(connect, Some(server), false)))
    }

    /// Creates a store on the master that the sentinels name at that time, also after a failover. The client must be one
    /// for masters.
    ///
    /// One caller at a time asks them, each on a thread of its own, since the client also asks the master, without a
    /// timeout. While a master is silent to that question, calls that need a new connection are `NotDone`.
    pub fn sentinel(client: SentinelClient) -> Self {
        let sentinels =
            Arc::new(Sentinels { client: Some(client).into(), is_back: Condvar::new() });
        let connect = move |patience| {
            let began = Instant::now();
            let master = sentinels.master(patience)?;
            connect(master, left(patience, began)).map_err(LinkError::of_master)
        };
        BlockingRedisStore(LuaStore::new(BlockingConnections::new(connect, None, false)))
    }

    /// Creates a store on a cluster, and connects at the first call. Whatever the builder sets, the client retries
    /// nothing by itself.
    ///
    /// # Errors
    /// Those of the client, if it rejects the builder's addresses or options.
    pub fn cluster(builder: ClusterClientBuilder) -> RedisResult<Self> {
        let client = builder.retries(0).build()?;
        let connect = move |_| client.get_connection().map(Connection).map_err(not_connected);
        Ok(BlockingRedisStore(LuaStore::new(BlockingConnections::new(connect, None, true))))
    }
}

lockage_redis::delegate_store!(blocking BlockingRedisStore);

/// The client of sentinels, while it asks nothing.
struct Sentinels {
    client: Mutex<Option<SentinelClient>>,
    is_back: Condvar,
}

impl Sentinels {
    fn client(&self) -> MutexGuard<'_, Option<SentinelClient>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a client of the master, if it is known within this time.
    fn master(self: &Arc<Self>, patience: Duration) -> Result<Client, LinkError> {
        let (began, late) = (Instant::now(), || LinkError::not_sent(NO_MASTER));
        let waits = self.is_back.wait_timeout_while(self.client(), patience, |it| it.is_none());
        let taken = waits.unwrap_or_else(PoisonError::into_inner).0.take();
        let mut client = taken.ok_or_else(late)?;
        let (told, answer) = mpsc::channel();
        let sentinels = Arc::clone(self);
        thread::spawn(move || {
            let master = client.get_client().map_err(not_connected);
            let master = master.map_err(|error| match error.hint() {
                None => error,
                Some(_) => no_master(error, client.get_sentinel_client()),
            });
            *sentinels.client() = Some(client);
            sentinels.is_back.notify_one();
            // Its caller may have given up.
            _ = told.send(master);
        });
        answer.recv_timeout(left(patience, began)).map_err(|_| late())?
    }
}

const NO_MASTER: &str = "the sentinels and the master have not answered in time";

/// Returns the rest of this time, at least a little, since the client treats a time of zero as an error.
fn left(patience: Duration, began: Instant) -> Duration {
    patience.saturating_sub(began.elapsed()).max(Duration::from_millis(1))
}

fn connect(client: Client, patience: Duration) -> Result<Connection<redis::Connection>, LinkError> {
    let client = kept_alive(client);
    let connection = client.and_then(|client| client.get_connection_with_timeout(patience));
    connection.map(Connection).map_err(not_connected)
}

/// A connection of the client.
struct Connection<C>(C);

impl BlockingConnection for Connection<redis::Connection> {
    fn send(&mut self, request: &Request<'_>, patience: Duration) -> Result<Reply, LinkError> {
        let set = self.0.set_read_timeout(Some(patience));
        set.and_then(|()| self.0.set_write_timeout(Some(patience))).map_err(LinkError::not_sent)?;
        read(command(request).query(&mut self.0))
    }
}

impl BlockingConnection for Connection<ClusterConnection> {
    fn send(&mut self, request: &Request<'_>, patience: Duration) -> Result<Reply, LinkError> {
        self.wait_at_most(patience)?;
        let Connection(on) = self;
        if !request.is_asking() {
            return read(command(request).query(on));
        }
        let node = cluster::node(request);
        let to = || RoutingInfo::SingleNode(node.clone());
        read(on.route_command(&redis::cmd("ASKING"), to()))?;
        read(on.route_command(&command(request), to()))
    }

    fn check(&mut self, ping: &Request<'_>, patience: Duration) -> Result<Reply, LinkError> {
        self.wait_at_most(patience)?;
        let node = RoutingInfo::SingleNode(cluster::node_of_key(ping));
        read(self.0.route_command(&command(ping), node))
    }
}

impl Connection<ClusterConnection> {
    fn wait_at_most(&self, patience: Duration) -> Result<(), LinkError> {
        let set = self.0.set_read_timeout(Some(patience));
        set.and_then(|()| self.0.set_write_timeout(Some(patience))).map_err(LinkError::not_sent)
    }
}
