//! The lockage store on Redis (6.2 and later) or Valkey, through the `redis` crate.
//!
//! ```no_run
//! use lockage_redis_rs::{Limiter, RedisStore, limit};
//!
//! # async fn first() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::open("redis://127.0.0.1:6379")?;
//! let limiter = Limiter::new(store, limit!("token-bucket 100/min burst 20")).with_prefix("login")?;
//! limiter.try_acquire("user:42", 1).await?.ok()?; // `?` turns the caller away
//! # Ok(()) }
//! ```
//!
//! It re-exports all of [`lockage`], and the client as [`redis`], so that a program needs one dependency.
//!
//! | server | store | address |
//! |---|---|---|
//! | one | [`RedisStore::open`], or [`RedisStore::connect`] with a client | `redis://user:password@host:6379/0`, `redis+unix:///path` |
//! | one, by TLS (feature `tokio-rustls-comp` or `smol-rustls-comp`) | the same | `rediss://host:6379` |
//! | a master with sentinels | `open`, or [`RedisStore::sentinel`]; both follow a failover | `redis-sentinel://host:26379?sentinelServiceName=name&node=host2:26379` |
//! | a cluster | `open`, or [`RedisStore::cluster`] | `redis-cluster://host:6379?node=host2:6379` |
//! | any, over connections of your own | [`RedisStore::new`] with a `MultiplexedConnection` or, each by a feature, a `ConnectionManager` (`connection-manager`), a pool of deadpool-redis (`deadpool`) or of bb8 (`bb8`) | |
//! | the same, for blocking callers | [`BlockingRedisStore::open`] | the same |
//!
//! Sentinels have credentials of their own, `sentinelUsername` and `sentinelPassword`; a socket takes `db`, `user` and
//! `pass`, and any address `protocol=resp3`. Other parameters are refused by name. Write `%40` for an `@` in a user, a
//! password or a parameter, and likewise `: / ? # & + %` and spaces. No error contains credentials.
//!
//! # At most once
//!
//! Each command runs at most once. It is sent again only after a reply that shows that nothing was done and where to
//! go: the server does not know the script, or the slot is with another node. The cluster client's own retries would
//! run scripts twice and are turned off.
//!
//! # Connections
//!
//! A store makes its connections by RESP3, unless the server refuses it, and is notified when they end. It checks one
//! by `PING` before a call after 500 ms without a call ([`with_idle_check`] sets that time), or after a call without an
//! answer, and makes another one if there is no reply in 250 ms. So each call goes out on a live connection, in
//! whatever runtime: only one that ends within a round trip before it makes it `Unknown`. Connections have TCP
//! keepalive: see [`tcp_settings`].
//!
//! [`with_idle_check`]: RedisStore::with_idle_check
//!
//! # Timeouts
//!
//! The client's defaults apply, unless configured: 1 s to connect, 500 ms for a reply ([`RedisStore::open_within`] sets
//! another time). A call without a reply is `Unknown`. Wrap the store in [`RetryStore`] for a timeout of your own, and for
//! retries of calls that did not run.
//!
//! With the feature `tokio-comp` alone (the default), the client runs on tokio: a call outside of a tokio runtime is
//! `NotDone`. The feature `smol-comp` is for all other executors.
//!
//! Errors name the server's address if the client provides it: not for a cluster, for connections of your own, or for
//! blocking callers with sentinels.
//!
//! # Waiting for replicas
//!
//! A store of [`RedisStore::connect`], [`RedisStore::sentinel`] or [`RedisStore::cluster`] is
//! [`Replicated`](lockage::store::Replicated). It has one more connection for each such concurrent call, and keeps it
//! for the next. In a cluster, such a call also ends at the builder's `response_timeout` and `overall_response_timeout`
//! (500 ms by default), and is `Unknown` then: set them above the patience. An ACL has to allow the commands `MULTI
//! EXEC EVAL WAIT`.
//!
//! # Listening
//!
//! A waiter needs a listening connection, which the store makes at the first wait, by RESP3. A store on a connection of
//! your own makes it with a client given to [`RedisStore::listening`]. By
//! [`Notifications`](lockage::notifications::Notifications) it subscribes to the channels of awaited keys, which have
//! the keys' own names: by `SSUBSCRIBE` from 7.0 on, in a cluster or not, and by `SUBSCRIBE` before. Channels know no
//! numbered databases: a key of the same name in another database also wakes waiters, which is harmless.
//!
//! An ACL has to allow channels in addition to keys (`~login:*` and `&login:*`, say) and the commands `SSUBSCRIBE
//! SUNSUBSCRIBE SPUBLISH`, before 7.0 and in place of these `SUBSCRIBE UNSUBSCRIBE PUBLISH`, and `EVAL`. Without them
//! waiters poll: `listen` is `NotDone`, and scripts publish nothing.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod blocking;
mod cluster;
mod given;
mod masters;
mod open;
mod own;
mod pubsub;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::lock::Mutex;
use lockage_redis::{
    Connections, Health, Link, LinkError, LuaStore, NO_REDIS, REPLY, Reply, Request, ServerAddress,
    hint,
};
use redis::aio::ConnectionLike;
use redis::cluster::ClusterClientBuilder;
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, Value};

pub use blocking::BlockingRedisStore;
pub use given::{Given, Shared};
pub use lockage::*;
pub use masters::Master;
pub use own::{Connection, tcp_settings};
pub use redis;

use open::{Opened, open};

/// Records on a Redis or Valkey server or cluster.
///
/// It makes its own connections by default; otherwise `L` leads to the server.
#[derive(Clone, Debug)]
pub struct RedisStore<L = RedisConnections>(LuaStore<L>);

lockage_redis::delegate_store!(RedisStore);

impl<C> RedisStore<Shared<C>>
where
    Given<C>: Link + Clone + 'static,
{
    /// Creates a store on this connection. The server's clock decides.
    ///
    /// A lost `MultiplexedConnection` stays lost: each later call is `NotDone`. A `ConnectionManager` (feature
    /// `connection-manager`), a pool (feature `deadpool` or `bb8`) and [`RedisStore::connect`] reconnect. Errors of a
    /// store on a connection of your own have no address, since the client does not provide it.
    ///
    /// A `ClusterConnection` is not accepted: its client runs scripts twice unless it was built with `retries(0)`,
    /// which it does not expose. [`RedisStore::open`] and [`RedisStore::cluster`] set that.
    pub fn new(connection: C) -> Self {
        RedisStore(LuaStore::new(given::shared(connection)))
    }
}

impl RedisStore {
    /// Creates a store on the server, the master or the cluster at this address. It connects at the first call, and
    /// again after a loss. [The table](crate) has the forms of addresses.
    ///
    /// # Errors
    /// Those of the client, for an invalid address, or one that needs a disabled feature. An unreachable address is not
    /// an error here: each call reports it.
    pub fn open(address: &str) -> RedisResult<Self> {
        RedisStore::open_within(address, REPLY)
    }

    /// Creates a store as [`RedisStore::open`] does, which waits for a reply for this long at most, not 500 ms.
    ///
    /// # Errors
    /// As of [`RedisStore::open`].
    pub fn open_within(address: &str, patience: Duration) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(patience));
        match open(address)? {
            Opened::Server(client) => Ok(RedisStore::connect_with_config(client, config)),
            Opened::Master(client) => Ok(RedisStore::of_master(client, config)),
            Opened::Cluster(nodes) => RedisStore::cluster(|| {
                let builder = cluster::builder(nodes.clone()).response_timeout(patience);
                builder.overall_response_timeout(Some(patience))
            }),
        }
    }

    /// Creates a store on the server of this client, which connects at the first call, and again after a loss.
    pub fn connect(client: Client) -> Self {
        RedisStore::connect_with_config(client, AsyncConnectionConfig::new())
    }

    /// Creates a store as [`RedisStore::connect`] does, with this configuration of connections. A push sender in it is
    /// replaced: by its own one the store is notified when a connection ends.
    pub fn connect_with_config(client: Client, config: AsyncConnectionConfig) -> Self {
        RedisStore::to(move || std::future::ready(Ok(client.clone())), config)
    }

    /// Creates a store on the master that the sentinels name, also after a failover. The client must be one for
    /// masters. One caller at a time asks them: while its runtime is blocked, calls that need a new connection are
    /// `NotDone`.
    pub fn sentinel(client: SentinelClient) -> Self {
        RedisStore::of_master(client, AsyncConnectionConfig::new())
    }

    fn of_master(client: SentinelClient, config: AsyncConnectionConfig) -> Self {
        let client = Arc::new(Mutex::new(client));
        let master = move || {
            let client = Arc::clone(&client);
            async move { master_of(&mut *client.lock().await).await }
        };
        RedisStore::to(master, config)
    }

    /// Creates a store on the server that this client leads to when it connects.
    fn to<F>(
        client: impl Fn() -> F + Clone + Send + Sync + 'static,
        config: AsyncConnectionConfig,
    ) -> Self
    where
        F: Future<Output = Result<Client, LinkError>> + Send + 'static,
    {
        let server = ServerAddress::default();
        let known = server.clone();
        let address = |client: &Client| client.get_connection_info().addr().to_string();
        let client = move || known.clone().learn(client(), address);
        let clients = client.clone();
        let link = Connections::new(move || {
            let (client, config) = (client(), config.clone());
            async move {
                in_runtime()?;
                own::connect(client.await?, &config).await.map_err(not_connected)
            }
        });
        RedisStore(LuaStore::new(link.at(server)).listening(pubsub::of_client(clients)))
    }

    /// Creates a store on a cluster, and connects at the first call. `builder` is called twice: for calls, and for
    /// listening. Both use RESP3, and retry nothing by themselves, whatever it sets. Give it [`tcp_settings`] for TCP
    /// keepalive, as `open` does.
    ///
    /// # Errors
    /// Those of the client, if it rejects the builder's addresses or options.
    pub fn cluster(builder: impl Fn() -> ClusterClientBuilder) -> RedisResult<Self> {
        let store = LuaStore::new(cluster::connections(builder())?);
        Ok(RedisStore(store.listening(pubsub::of_cluster(builder())?)))
    }
}

impl<L> RedisStore<L> {
    /// Makes waiters listen on a connection of their own, which this client makes, to the same server. It uses RESP3
    /// whatever the client sets. Only a store on a connection of your own needs it.
    #[must_use]
    pub fn listening(self, client: Client) -> Self {
        let subscriptions = pubsub::of_client(move || std::future::ready(Ok(client.clone())));
        RedisStore(self.0.listening(subscriptions))
    }
}

/// Checks for a runtime that the client was built for; without one it would panic.
fn in_runtime() -> Result<(), LinkError> {
    #[cfg(all(feature = "tokio-comp", not(feature = "smol-comp")))]
    lockage_redis::in_tokio()?;
    Ok(())
}

/// Waits until the client has connected.
async fn connected<T, F: Future<Output = RedisResult<T>>>(made: F) -> Result<T, LinkError> {
    in_runtime()?;
    made.await.map_err(not_connected)
}

/// Connections that are checked and remade: see [`Connections`].
pub type RedisConnections = Connections<Connection>;

/// Sends the request, and reads the reply.
async fn query<C: ConnectionLike>(request: &Request<'_>, mut on: C) -> Result<Reply, LinkError> {
    in_runtime()?;
    read(command(request).query_async(&mut on).await)
}

/// Returns the request as a command of the client.
pub fn command(request: &Request<'_>) -> Cmd {
    let mut command = redis::cmd(request.name());
    request.arguments().for_each(|argument| _ = command.arg(argument));
    command
}

/// Reads a result of the client.
///
/// # Errors
/// [`LinkError`] if it is not a reply of the server.
pub fn read(result: RedisResult<Value>) -> Result<Reply, LinkError> {
    match result {
        Ok(value) => Ok(reply(value)),
        // The server's errors have codes, and the client's own have none.
        Err(error) if error.code().is_some() => Ok(error_reply(&error)),
        Err(error) => Err(failure(error)),
    }
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Int(number) => Reply::Integer(number),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::Array(values) => Reply::List(values.into_iter().map(reply).collect()),
        Value::ServerError(error) => error_reply(&error.into()),
        _ => Reply::Other,
    }
}

fn error_reply(error: &RedisError) -> Reply {
    Reply::error(server_words(error))
}

/// Returns the server's own words.
fn server_words(error: &RedisError) -> String {
    let words = [error.code(), error.detail()];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns the link error of a failed attempt to connect.
pub(crate) fn not_connected(error: RedisError) -> LinkError {
    type Cause = Arc<dyn std::error::Error + Send + Sync>;
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<Cause>());
    let io = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    // Replies that are none, or a peer that speaks no TLS or has another certificate.
    let is_no_redis = error.kind() == ErrorKind::Parse
        || io.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData);
    failure(error).misconfigured(is_no_redis.then_some(NO_REDIS))
}

/// Returns a client of the master that the sentinels name.
async fn master_of(sentinels: &mut SentinelClient) -> Result<Client, LinkError> {
    let error = match sentinels.async_get_client().await.map_err(not_connected) {
        Err(error) if error.hint().is_some() => error,
        master => return master,
    };
    Err(no_master(error, sentinels.async_get_sentinel_client().await))
}

/// Returns the link error of sentinels without a master for this reason. The master refuses, unless a sentinel does so
/// too.
pub(crate) fn no_master(error: LinkError, sentinel: RedisResult<Client>) -> LinkError {
    match sentinel.map_err(not_connected) {
        Err(refused) if refused.hint().is_some() => refused.of_sentinels(),
        _ => error.of_master(),
    }
}

/// Returns the link error of a failed call, raised before anything was sent, or later.
pub(crate) fn failure(error: RedisError) -> LinkError {
    let was_not_sent = match error.kind() {
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::Client => true,
        // No server listens there. Any other failure of the connection may have come after sending.
        _ => error.is_connection_refusal(),
    };
    let health = if error.is_timeout() { Health::Doubtful } else { Health::Lost };
    let hint = match error.kind() {
        // The client does not return the server's words.
        ErrorKind::AuthenticationFailed => hint("WRONGPASS"),
        ErrorKind::RESP3NotSupported => hint("NOPROTO"),
        _ if error.code().is_some() => hint(&server_words(&error)),
        _ => hint(&error.to_string()),
    };
    LinkError::of(error, !was_not_sent, health).misconfigured(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client panics there.
    #[cfg(not(feature = "smol-comp"))]
    #[test]
    fn a_call_outside_of_tokio_is_not_done() {
        use futures_util::FutureExt;
        use lockage::notifications::{Notifications, Wake};
        use lockage::{Error, Key, Limiter, StoreError};

        let store = RedisStore::connect(Client::open("redis://127.0.0.1:1").unwrap());
        let limiter = Limiter::new(store.clone(), "fixed-window 1/s".parse().unwrap());
        let call = limiter.try_acquire("id", 1).now_or_never().unwrap().unwrap_err();
        assert!(matches!(call, Error::Store(StoreError::NotDone(_))), "{call:?}");
        assert!(call.to_string().contains("outside of a tokio runtime"), "{call}");
        let key = Key::new("lock", "id").unwrap();
        let listening = store.listen(&key, Wake::One).now_or_never().unwrap().unwrap_err();
        assert!(listening.to_string().contains("outside of a tokio runtime"), "{listening}");
    }

    #[cfg(not(any(feature = "tokio-rustls-comp", feature = "smol-rustls-comp")))]
    #[test]
    fn an_address_by_tls_names_the_missing_feature() {
        for address in ["rediss://host", "rediss-cluster://host"] {
            let error = RedisStore::open(address).unwrap_err().to_string();
            assert!(error.contains("the feature `tokio-rustls-comp` or"), "{error}");
        }
    }

    #[test]
    fn unsent_calls_are_not_done_and_interrupted_calls_are_unknown() {
        let failure = |kind| read(Err(io::Error::from(kind).into())).unwrap_err();
        assert!(!failure(io::ErrorKind::ConnectionRefused).was_sent());
        for (kind, health) in [
            (io::ErrorKind::TimedOut, Health::Doubtful),
            (io::ErrorKind::BrokenPipe, Health::Lost),
            (io::ErrorKind::ConnectionReset, Health::Lost),
            (io::ErrorKind::UnexpectedEof, Health::Lost),
        ] {
            let error = failure(kind);
            assert!(error.was_sent(), "{error:?}");
            assert_eq!(error.health(), health, "{error:?}");
        }
    }

    fn parsed(wire: &str) -> RedisResult<Value> {
        redis::parse_redis_value(wire.as_bytes())
    }

    /// Errors as they stand in a pipeline, and as the client returns them by itself.
    #[test]
    fn errors_of_the_server_are_replies_in_its_own_words() {
        for text in [
            "ERR Error running script: @user_script: 9: -READONLY You can't write",
            "READONLY You can't write against a read only replica.",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "NOSCRIPT No matching script.",
            "NOREPLICAS Not enough good replicas to write.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "LOCKAGE_NEEDS_SLOW_PATH",
        ] {
            let value = parsed(&format!("-{text}\r\n")).unwrap();
            assert_eq!(read(Ok(value.clone())).unwrap(), Reply::error(text));
            assert_eq!(read(value.extract_error()).unwrap(), Reply::error(text));
        }
    }

    #[test]
    fn values_are_replies() {
        let value = parsed("*4\r\n:7\r\n$2\r\nab\r\n-OOM no\r\n$-1\r\n");
        let bytes = Reply::Bytes(b"ab".to_vec());
        let all = vec![Reply::Integer(7), bytes, Reply::error("OOM no"), Reply::Other];
        assert_eq!(read(value).unwrap(), Reply::List(all));
    }
}
