//! The lockage store on Redis (6.2 and later) or Valkey, through the `fred` crate.
//!
//! ```no_run
//! use lockage_fred::{FredStore, Limiter, limit};
//!
//! # async fn first() -> Result<(), Box<dyn std::error::Error>> {
//! let store = FredStore::open("redis://127.0.0.1:6379")?;
//! let limiter = Limiter::new(store, limit!("token-bucket 100/min burst 20")).with_prefix("login")?;
//! limiter.try_acquire("user:42", 1).await?.ok()?; // `?` turns the caller away
//! # Ok(()) }
//! ```
//!
//! It re-exports all of [`lockage`], and the client as [`fred`], so that a program needs one dependency.
//!
//! | server | store | address |
//! |---|---|---|
//! | one | [`FredStore::open`], or [`FredStore::connect`] with a configuration | `redis://user:password@host:6379/0`; `redis+unix:///path` (feature `unix-sockets`) |
//! | one, by TLS (feature `rustls-ring`) | the same | `rediss://host:6379` |
//! | a master with sentinels | the same | `redis-sentinel://host:26379?sentinelServiceName=name&node=host2:26379` |
//! | a cluster | the same | `redis-cluster://host:6379?node=host2:6379` |
//! | any, over clients of your own | [`FredStore::new`] with a `Client` or a `Pool` | |
//!
//! Sentinels have credentials of their own, `sentinelUsername` and `sentinelPassword`; a socket takes `db`, `user` and
//! `pass`, and any address `protocol=resp3`. Other parameters are refused by name. Write `%40` for an `@` in a user, a
//! password or a parameter, and likewise `: / ? # & + %` and spaces. No error contains credentials.
//!
//! # At most once
//!
//! Each command runs at most once, whatever the client's `max_command_attempts`, which would run scripts twice. It is
//! sent again only after a reply that shows that nothing was done and where to go: the server does not know the script,
//! or the slot is with another node.
//!
//! # Timeouts and recovery
//!
//! [`FredStore::connect`] waits 1 s to connect and 500 ms for a reply. It reconnects after its connection was lost, left
//! a call and a `PING` after it without a reply, or led to a server that takes no writes, and after the runtime of its
//! client ended. Until then calls are `NotDone` at once. After 500 ms without a call a `PING` goes ahead of the next one:
//! see [`FredStore::with_idle_check`]. Its connections have TCP keepalive after 15 s and, on Linux, end 30 s after the
//! last sign of life. A call without a reply is `Unknown`. Wrap the store in [`RetryStore`] for a timeout of your own,
//! and for retries of calls that did not run: a call still in the client's queue by then is forgotten, not sent late.
//!
//! A client of your own has to be connected (`init`) and needs
//!
//! - a `ReconnectPolicy`: without one it never answers again once its connection was lost, and is refused with an error
//!   that says so;
//! - in a cluster, `max_redirections: 0`: one that follows `ASK` by itself sends twice or stops for good, and is
//!   refused with an error that says so;
//! - a `default_command_timeout`, if calls go without [`RetryStore`];
//! - the crate's feature `custom-reconnect-errors` off: it gives one call's error to all.
//!
//! It is checked by `PING` as the store's own one is, and ends with the runtime that it was started in. It alone replaces a
//! connection that fell silent; until then calls are `NotDone`. Its `UnresponsiveConfig` does so if no calls are sent
//! meanwhile, and TCP keepalive if nothing is acknowledged: [`connection_config`] sets both. Leave `TcpConfig::nodelay`
//! off: it writes each call separately. A limiter with
//! [`with_coalescing`](lockage::Limiter::with_coalescing) puts concurrent requests into few calls.
//!
//! # Waiting for replicas
//!
//! A store of [`FredStore::connect`] is [`Replicated`](lockage::store::Replicated). It has one more client, of one
//! connection, for each such concurrent call, and keeps it for the next. An ACL has to allow the commands `EVAL WAIT`.
//!
//! # Listening
//!
//! A waiter needs a listening client, which the store makes at the first wait, by RESP3: by itself after
//! [`FredStore::connect`], and otherwise with a configuration given to [`FredStore::listening`]. By
//! [`Notifications`](lockage::notifications::Notifications) it subscribes to the channels of awaited keys, which have
//! the keys' own names: by `SSUBSCRIBE` from 7.0 on, in a cluster or not, and by `SUBSCRIBE` before. Channels know no
//! numbered databases: a key of the same name in another database also wakes waiters, which is harmless.
//!
//! An ACL has to allow channels in addition to keys (`~login:*` and `&login:*`, say) and the commands `SSUBSCRIBE
//! SUNSUBSCRIBE SPUBLISH`, before 7.0 and in place of these `SUBSCRIBE UNSUBSCRIBE PUBLISH`, and `PING EVAL`. Without
//! them waiters poll: `listen` is `NotDone`, and scripts publish nothing.
//!
//! # Runtimes
//!
//! The client runs on tokio: a call outside of a tokio runtime is `NotDone`. Under async-std, turn on async-std's
//! feature `tokio1`; under others, wrap futures by the crate `async-compat`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod given;
mod open;
mod own;
mod pubsub;

use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as ClientError, ErrorKind};
use fred::interfaces::{ClientLike, ClusterInterface};
use fred::types::config::{Config, Options, Server};
use fred::types::{ClusterHash, CustomCommand, Value};
use fred::util::redis_keyslot;
use lockage_redis::{
    Health, Link, LinkError, LuaStore, NO_REDIS, Reply, Request, before_sending, hint,
    host_and_port,
};
use own::Own;

pub use fred;
pub use given::{Given, Shared};
pub use lockage::*;
pub use own::{FredConnections, connection_config};

/// Records on a Redis or Valkey server or cluster.
///
/// It makes its own clients by default; otherwise `L` leads to the server.
#[derive(Clone, Debug)]
pub struct FredStore<L = FredConnections>(LuaStore<L>);

lockage_redis::delegate_store!(FredStore);

impl FredStore {
    /// Creates a store on the server, the master or the cluster at this address. It connects at the first call, and
    /// again after a loss. [The table](crate) has the forms of addresses.
    ///
    /// # Errors
    /// Those of the client, for an invalid address, or one that needs a disabled feature. An unreachable address is not
    /// an error here: each call reports it.
    pub fn open(address: &str) -> Result<Self, ClientError> {
        open::config(address).map(FredStore::connect)
    }

    /// Creates a store on the server, the master or the cluster of this configuration. It connects at the first call,
    /// and again after a loss.
    pub fn connect(config: Config) -> Self {
        FredStore(LuaStore::new(FredConnections::new(config.clone()))).listening(config)
    }
}

impl<C> FredStore<Shared<C>>
where
    Given<C>: Link + Clone + 'static,
{
    /// Creates a store on this `Client` or `Pool`. The server's clock decides.
    ///
    /// A client without a `ReconnectPolicy` never answers again once its connection is lost, and is refused: each call
    /// is `Misconfigured`.
    pub fn new(client: C) -> Self {
        FredStore(LuaStore::new(Shared::new(client)))
    }
}

impl<L> FredStore<L> {
    /// Makes waiters listen through a client of their own, with this configuration, to the same server, master or
    /// cluster. It uses RESP3 whatever the configuration sets. Not needed after [`FredStore::connect`].
    #[must_use]
    pub fn listening(self, config: Config) -> Self {
        FredStore(self.0.listening(pubsub::of_config(config)))
    }
}

/// The client's messages for a call that it has not sent. The first two come from the code that would write calls, the
/// others from the code that takes them in.
const NOT_SENT: [&str; 6] = [
    "Failed to route command.",
    "Canceled.",
    "Connection closed unexpectedly.",
    "Failed to send command to router.",
    "Max in-flight commands reached.",
    "Error sending command while connection is blocked.",
];

/// Its message in place of a `MOVED` or an `ASK`, when it has learnt which node has the slot.
const REDIRECTED: &str = "Too many redirections.";

/// Returns the server's address, or those of the nodes or sentinels that lead to it.
pub(crate) fn address(config: &Config) -> String {
    let hosts = config.server.hosts();
    // A socket's path has port 0.
    let name = |host: &Server| host.to_string().trim_end_matches(":0").to_owned();
    hosts.iter().map(name).collect::<Vec<_>>().join(",")
}

/// Checks that the client recovers by itself, and leaves redirections to the store.
pub(crate) fn usable(client: &Client) -> Result<(), LinkError> {
    lockage_redis::in_tokio()?;
    if client.client_reconnect_policy().is_none() {
        return Err(refused("a client of your own needs a ReconnectPolicy to recover"));
    }
    if client.is_clustered() && client.connection_config().max_redirections != 0 {
        return Err(refused("a client of a cluster needs max_redirections: 0"));
    }
    Ok(())
}

pub(crate) async fn send_by(client: &Client, request: &Request<'_>) -> Result<Reply, LinkError> {
    usable(client)?;
    if !client.is_clustered() {
        return read(send_once(client, request).await);
    }
    // After one redirection the client has asked which node has the slot; after two, the slot is moving.
    match request.redirections() % 3 {
        2 => Box::pin(follow(client, request)).await,
        _ => read(send_once(client, request).await),
    }
}

/// A setup of the client by which no call can succeed.
fn refused(why: &'static str) -> LinkError {
    LinkError::refused("no call is sent").misconfigured(Some(why))
}

/// Sends the request at most once, whatever the client's configuration.
async fn send_once(client: &Client, request: &Request<'_>) -> Result<Value, ClientError> {
    let (command, arguments) = command(request);
    // The client forgets an unsent call at its own timeout, but not when the call is dropped. Boxed: otherwise the
    // futures around it would nest too deep for the compiler.
    Box::pin(client.with_options(&once(request.left())).custom(command, arguments)).await
}

/// Sends a `PING`, and also waits until the client has reconnected: it may be sent twice.
pub(crate) async fn check_by(client: &Client, ping: &Request<'_>) -> Result<Reply, LinkError> {
    lockage_redis::in_tokio()?;
    let options = Options { fail_fast: false, max_attempts: Some(3), ..once(ping.left()) };
    let (command, arguments) = command(ping);
    read(Box::pin(client.with_options(&options).custom(command, arguments)).await)
}

pub(crate) fn once(timeout: Option<Duration>) -> Options {
    let (max_attempts, max_redirections) = (Some(1), Some(0));
    Options { max_attempts, max_redirections, timeout, fail_fast: true, ..Options::default() }
}

pub(crate) fn command(request: &Request<'_>) -> (CustomCommand, Vec<Value>) {
    let slot = request.key().map(|key| redis_keyslot(key.as_bytes()));
    let hash = slot.map_or(ClusterHash::Random, ClusterHash::Custom);
    let command = CustomCommand::new_static(request.name(), hash, false);
    (command, request.arguments().map(Value::from).collect())
}

/// Sends to the node that takes over the slot. The cluster's client does not report which one it is, but clients of
/// single nodes do.
async fn follow(client: &Client, request: &Request<'_>) -> Result<Reply, LinkError> {
    let owner = owner(client, request)?;
    let node = before_sending(request, Own::node(client, owner.clone())).await?;
    let error = match send_once(&node.client, request).await {
        Err(error) if error.is_ask() => error,
        result => return read(result),
    };
    let address = error.details().rsplit(' ').next().unwrap_or_default();
    let target = server(address, &owner)?;
    let asked = async {
        let node = Own::node(client, target).await?;
        read(send_once(&node.client, &Request::new("ASKING")).await)
            .map_err(|error| LinkError::not_sent(error).on(Health::Good))?;
        Ok(node)
    };
    let node = before_sending(request, asked).await?;
    read(send_once(&node.client, request).await)
}

/// Returns the node that has the request's slot, as far as the client knows.
pub(crate) fn owner(client: &Client, request: &Request<'_>) -> Result<Server, LinkError> {
    let slot = redis_keyslot(request.key().unwrap_or_default().as_bytes());
    let slots = client.cached_cluster_state();
    let owner = slots.as_ref().and_then(|slots| slots.get_server(slot)).cloned();
    owner.ok_or_else(|| LinkError::refused("the client does not know who has the slot"))
}

/// Returns the node at the address that another node's `MOVED` or `ASK` names.
pub(crate) fn server(address: &str, of: &Server) -> Result<Server, LinkError> {
    let node = host_and_port(address);
    let (host, port) = node.ok_or_else(|| LinkError::refused("no address after MOVED or ASK"))?;
    Ok(Server::new(if host.is_empty() { &of.host } else { host }, port))
}

/// Reads a result of the client.
///
/// # Errors
/// [`LinkError`] if it is not a reply of the server.
pub fn read(result: Result<Value, ClientError>) -> Result<Reply, LinkError> {
    match result {
        Ok(value) => Ok(reply(value)),
        Err(error) if error.details() == REDIRECTED => Ok(Reply::error("MOVED")),
        Err(error) if is_reply(error.details()) => Ok(Reply::error(error.details())),
        Err(error) => Err(failure(error)),
    }
}

/// Returns the link error of a failed call. The client itself replaces a connection that is lost.
fn failure(error: ClientError) -> LinkError {
    let is_timeout = *error.kind() == ErrorKind::Timeout;
    let health = if is_timeout { Health::Doubtful } else { Health::Good };
    // A connection that has not logged in runs nothing.
    let was_sent = *error.kind() != ErrorKind::Auth && !NOT_SENT.contains(&error.details());
    let hint = hint(error.details());
    LinkError::of(error, was_sent, health).misconfigured(hint)
}

/// Returns the link error of a client that could not connect.
pub(crate) fn not_connected(error: ClientError) -> LinkError {
    // The second stands in the words of an error of the system: a peer without TLS, or with another certificate.
    let is_no_redis =
        *error.kind() == ErrorKind::Protocol || error.details().contains("InvalidData");
    failure(error).misconfigured(is_no_redis.then_some(NO_REDIS)).before_sending()
}

/// The client does not distinguish the server's errors from its own, but its own are sentences.
fn is_reply(details: &str) -> bool {
    let code = details.split(' ').next().unwrap_or_default();
    // After these the client closes the connection, and returns them to all calls that waited there.
    !matches!(code, "CLUSTERDOWN" | "NOAUTH" | "WRONGPASS")
        && code.len() > 1
        && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Integer(number) => Reply::Integer(number),
        // The client returns a string as text if it is UTF-8.
        Value::String(text) => Reply::Bytes(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => Reply::Bytes(bytes.to_vec()),
        Value::Array(values) => Reply::List(values.into_iter().map(reply).collect()),
        _ => Reply::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client's error messages, with the state that they imply.
    #[test]
    fn unsent_calls_are_not_done_and_interrupted_calls_are_unknown() {
        use ErrorKind::{Auth, Backpressure, Canceled, Cluster, Config, IO, InvalidArgument};
        use ErrorKind::{InvalidCommand, Protocol, Routing, Timeout, Unknown};
        let table = [
            // Replies of the server.
            (Unknown, "ERR Error running script", true),
            (Config, "ERR This instance has cluster support disabled", true),
            (InvalidArgument, "WRONGTYPE Operation against a key holding the wrong kind", true),
            (Unknown, "NOSCRIPT No matching script.", true),
            (Unknown, "READONLY You can't write against a read only replica.", true),
            (Unknown, "OOM command not allowed when used memory > 'maxmemory'.", true),
            (Unknown, "BUSY Redis is busy running a script.", true),
            (Unknown, "LOADING Redis is loading the dataset in memory", true),
            (Unknown, "MASTERDOWN Link with MASTER is down", true),
            (Unknown, "NOPERM this user has no permissions to run the 'evalsha' command", true),
            (Unknown, "NOREPLICAS Not enough good replicas to write.", true),
            (Cluster, "MOVED 3999 127.0.0.1:6381", true),
            (Cluster, "ASK 3999 127.0.0.1:6381", true),
            // Replies that the client gives to calls that got another one, or none.
            (Cluster, "CLUSTERDOWN The cluster is down", false),
            // A connection that has not logged in runs nothing.
            (Auth, "NOAUTH Authentication required.", true),
            (Auth, "WRONGPASS invalid username-password pair", true),
            // Raised before anything was sent, or when a node said where to go.
            (Canceled, "Connection closed unexpectedly.", true),
            (Unknown, "Failed to route command.", true),
            (Unknown, "Failed to send command to router.", true),
            (Canceled, "Canceled.", true),
            (Backpressure, "Max in-flight commands reached.", true),
            (InvalidCommand, "Error sending command while connection is blocked.", true),
            (Routing, "Too many redirections.", true),
            // Raised after it may have been.
            (Timeout, "Request timed out.", false),
            (IO, "Connection closed.", false),
            (IO, "Unresponsive connection.", false),
            (IO, "Kind(ConnectionReset)", false),
            (IO, "Os { code: 104, kind: ConnectionReset, message: \"reset\" }", false),
            (Unknown, "Too many failed write attempts.", false),
            (Unknown, "channel closed", false),
            (Protocol, "Invalid frame.", false),
            (Unknown, "", false),
            (Unknown, "A reply", false),
        ];
        for (kind, details, is_not_done) in table {
            match read(Err(ClientError::new(kind, details))) {
                Ok(Reply::Error(error)) => {
                    assert!(is_not_done, "{details}");
                    assert!(error.to_string() == details || error.code() == "MOVED", "{error}");
                }
                Ok(other) => panic!("{details}: {other:?}"),
                Err(error) => {
                    assert_eq!(!error.was_sent(), is_not_done, "{details}");
                    let is_timeout = *kind_of(&error) == ErrorKind::Timeout;
                    let health = if is_timeout { Health::Doubtful } else { Health::Good };
                    assert_eq!(error.health(), health, "{details}");
                }
            }
        }
    }

    fn kind_of(error: &LinkError) -> &ErrorKind {
        error.cause().downcast_ref::<ClientError>().expect("the client's error").kind()
    }

    #[test]
    fn only_replies_of_the_server_have_codes() {
        let coded = |details| match read(Err(ClientError::new(ErrorKind::Unknown, details))) {
            Ok(Reply::Error(error)) => Some(error.code().to_owned()),
            _ => None,
        };
        assert_eq!(coded("NOSCRIPT No matching script.").as_deref(), Some("NOSCRIPT"));
        assert_eq!(coded("BUSY").as_deref(), Some("BUSY"));
        assert_eq!(coded("LOCKAGE_NEEDS_SLOW_PATH x").as_deref(), Some("LOCKAGE_NEEDS_SLOW_PATH"));
        assert_eq!(coded("Too many redirections.").as_deref(), Some("MOVED"));
        for details in ["Too many failed write attempts.", "channel closed", "", "A reply", "Os {"]
        {
            assert_eq!(coded(details), None);
        }
    }

    #[test]
    fn values_are_replies() {
        let bytes = Value::Bytes(vec![0xFF, 1].into());
        let value = Value::Array(vec![Value::Integer(7), "ab".into(), bytes, Value::Null]);
        let read = read(Ok(value)).unwrap();
        let strings = [&b"ab"[..], &[0xFF, 1]].map(|bytes| Reply::Bytes(bytes.to_vec()));
        let all = [&[Reply::Integer(7)][..], &strings, &[Reply::Other]].concat();
        assert_eq!(read, Reply::List(all));
    }

    #[test]
    fn a_redirection_without_a_host_is_to_the_same_host() {
        let of = Server::new("there", 1);
        assert_eq!(server("a:2", &of).unwrap(), Server::new("a", 2));
        assert_eq!(server(":2", &of).unwrap(), Server::new("there", 2));
        for wrong in ["", "a", "a:b"] {
            assert!(!server(wrong, &of).unwrap_err().was_sent(), "{wrong}");
        }
    }
}
