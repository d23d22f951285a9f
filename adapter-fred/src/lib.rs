//! The lockage store on Redis (6.2 and later) or Valkey, through the `fred` crate.
//!
//! ```no_run
//! # async fn first() -> Result<(), Box<dyn std::error::Error>> {
//! use fred::types::config::Config;
//! use lockage::Limiter;
//! use lockage_fred::FredStore;
//!
//! let store = FredStore::connect(Config::from_url("redis://127.0.0.1:6379")?);
//! let limiter = Limiter::new(store, "token-bucket 100/min burst 20".parse()?);
//! let decision = limiter.try_acquire("user:42", 1).await?;
//! # let _ = decision; Ok(()) }
//! ```
//!
//! | server | store |
//! |---|---|
//! | one | [`FredStore::connect`] with `redis://host`, or `redis+unix://` by the feature `unix-sockets` |
//! | a master with sentinels | the same with `redis-sentinel://host?sentinelServiceName=name` |
//! | a cluster | the same with `redis-cluster://host` |
//! | any, over clients of your own | [`FredStore::new`] with a `Client` or a `Pool` |
//!
//! # At most once
//!
//! Each command is executed at most once, whatever the client's `max_command_attempts`, by which
//! it would run scripts twice. It is sent again only after a reply that says that nothing was done
//! and where to go: the server does not know the script, or the slot is with another node.
//!
//! # Timeouts and recovery
//!
//! [`FredStore::connect`] waits 1 s to connect and 500 ms for a reply, and connects anew after a
//! connection was lost, was silent for several calls in a row, or led to a server that takes no
//! writes. Until then calls are `NotDone` at once. A call without a reply is `Unknown`. Wrap the
//! store in [`RetryStore`](lockage::RetryStore) for a timeout of your own, and to try again what was not done:
//! a call that was still in the client's queue by then is forgotten, not sent late.
//!
//! A client of your own has to be connected (`init`) and needs
//!
//! - a `ReconnectPolicy`: without one it never answers again once its connection was lost;
//! - in a cluster, `max_redirections: 0`: one that follows `ASK` by itself sends twice or stops for
//!   good, and is refused with an error that says so;
//! - a `default_command_timeout`, where calls go without [`RetryStore`](lockage::RetryStore);
//! - the crate's feature `custom-reconnect-errors` off: it gives one call's error to all.
//!
//! Its `UnresponsiveConfig` notices a silent server only where no calls are sent. Leave
//! `TcpConfig::nodelay` off: it writes out each call by itself. A limiter with
//! [`with_coalescing`](lockage::Limiter::with_coalescing) puts what is asked for at one time into few calls.
//!
//! # Waiting for replicas
//!
//! A store after [`FredStore::connect`] is [`Replicated`](lockage::store::Replicated). For each such call that is under
//! way it has a client more, of one connection, and keeps it for the next. An ACL has to allow the commands
//! `EVAL WAIT`.
//!
//! # Listening
//!
//! Whoever waits needs a client that listens, which the store makes at the first wait, by RESP3: by itself after
//! [`FredStore::connect`], and otherwise with a configuration that it is given, by [`FredStore::listening`].
//! By [`Notifications`](lockage::notifications::Notifications) it subscribes to the channels of the keys that are waited for, which have the keys' own
//! names: by `SSUBSCRIBE` from 7.0 on, in a cluster or not, and by `SUBSCRIBE` before. Channels know no
//! numbered databases: a key of the same name in another one wakes too, and no more comes of it.
//!
//! An ACL has to allow channels beside keys (`~login:*` and `&login:*`, say) and the commands `SSUBSCRIBE
//! SUNSUBSCRIBE SPUBLISH`, before 7.0 and in place of these `SUBSCRIBE UNSUBSCRIBE PUBLISH`, and `EVAL` (before 7.0 `PING` too).
//! Without them waiting goes on by looking from time to time: `listen` is `NotDone`, and scripts publish nothing.
//!
//! # Runtimes
//!
//! The client runs on tokio. Under async-std, turn on async-std's feature `tokio1`; under others,
//! wrap futures by the crate `async-compat`.

mod link;
mod own;
mod pubsub;

use fred::types::config::Config;
use lockage_redis::LuaStore;

pub use link::{Shared, read};
pub use own::Reconnecting;

/// Records on a Redis or Valkey server, or on a cluster of them.
#[derive(Clone, Debug)]
pub struct FredStore<L>(LuaStore<L>);

lockage_redis::delegate_store!(FredStore);

impl FredStore<Reconnecting> {
    /// Returns a store on the server, the master or the cluster of this configuration, which is connected to
    /// at the first call, and again after the connection was lost.
    pub fn connect(config: Config) -> Self {
        FredStore(LuaStore::new(Reconnecting::new(config.clone()))).listening(config)
    }
}

impl<C> FredStore<Shared<C>> {
    /// Returns a store through this `Client` or `Pool`. The server's clock decides.
    pub fn new(client: C) -> Self {
        FredStore(LuaStore::new(Shared(client)))
    }
}

impl<L> FredStore<L> {
    /// Lets waiters listen through a client of their own, with this configuration, of the same server, master
    /// or cluster. It uses RESP3 whatever the configuration says. Not needed after [`FredStore::connect`].
    #[must_use]
    pub fn listening(self, config: Config) -> Self {
        FredStore(self.0.listening(pubsub::of_config(config)))
    }
}
