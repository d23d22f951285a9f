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
//! A store after [`FredStore::connect`] is [`Replicated`](lockage::Replicated). For each such call that is under
//! way it has a client more, of one connection, and keeps it for the next. An ACL has to allow the commands
//! `EVAL WAIT`.
//!
//! # Listening
//!
//! Whoever waits needs a client that listens, which the store makes at the first wait, by RESP3: by itself after
//! [`FredStore::connect`], and otherwise with a configuration that it is given, by [`FredStore::listening`].
//! By [`Notifications`] it subscribes to the channels of the keys that are waited for, which have the keys' own
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

mod acknowledged;
mod link;
mod many;
mod notifications;
mod outcome;
mod own;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::types::config::Config;
use lockage::adapter::Channels;
use lockage::{Clock, Command, Key, Listener, Notifications, Store, StoreError, Wake};
use lockage_lua::{Call, TimeSource};

pub use link::{Link, LinkError, Reconnecting, Request};

/// Records on a Redis or Valkey server, or on a cluster of them.
#[derive(Clone, Debug)]
pub struct FredStore<L> {
    link: L,
    time: TimeSource,
    /// Where the store can make a client of its own.
    channels: Option<Channels>,
}

impl FredStore<Reconnecting> {
    /// A store on the server, the master or the cluster of this configuration, which is connected to
    /// at the first call, and again after the connection was lost.
    pub fn connect(config: Config) -> Self {
        FredStore::new(Reconnecting::new(config.clone())).listening(config)
    }
}

impl<L> FredStore<L> {
    /// A store through this client. The server's clock decides.
    pub fn new(link: L) -> Self {
        FredStore { link, time: TimeSource::SERVER, channels: None }
    }

    /// Lets those who wait listen through a client of their own, with this configuration, of the same
    /// server, master or cluster. It uses RESP3 whatever the configuration says. Not needed after
    /// [`FredStore::connect`].
    pub fn listening(self, config: Config) -> Self {
        FredStore { channels: Some(notifications::of_config(config)), ..self }
    }

    /// Lets the caller's clock decide instead of the server's: see [`TimeSource::caller`].
    pub fn with_clock(self, clock: Arc<dyn Clock>, skew: Duration) -> Self {
        FredStore { time: TimeSource::caller(clock, skew), ..self }
    }
}

impl<L: Link> FredStore<L> {
    async fn call<M>(
        &self,
        key: &Key,
        command: &M,
        deadline: Option<Instant>,
    ) -> Result<M::Outcome, StoreError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        let mut call = Call::new(command, &self.time);
        let mut redirections = 0;
        loop {
            // After one, the client has asked who has the slot; after two, the slot is on its way.
            let follows = redirections % 3 == 2;
            let error = match self.link.send(Request::new(&call, key, deadline, follows)).await {
                Ok(reply) => return outcome::read(&call, reply),
                Err(error) => error,
            };
            match outcome::code(&error) {
                Some(code) if call.again_after(code) => redirections += i32::from(code == "MOVED"),
                _ => return Err(outcome::failure(error)),
            }
        }
    }
}

impl<L: Link> Store for FredStore<L> {
    async fn execute<M>(&self, key: &Key, command: &M) -> Result<M::Outcome, StoreError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        self.call(key, command, None).await
    }

    async fn execute_within<M>(
        &self,
        key: &Key,
        command: &M,
        patience: Duration,
    ) -> Result<M::Outcome, StoreError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        self.call(key, command, deadline(patience)).await
    }

    fn supports_batch(&self) -> bool {
        self.link.takes_many_keys()
    }

    async fn execute_batch<M>(
        &self,
        calls: &[(&Key, &M)],
        patience: Duration,
    ) -> Vec<Result<M::Outcome, StoreError>>
    where
        M: Command<Outcome: Send> + Sync,
    {
        self.call_many(calls, deadline(patience)).await
    }
}

/// The client forgets what it has not sent at its own timeout, but not when it is dropped.
fn deadline(patience: Duration) -> Option<Instant> {
    let earlier = (patience / 4).min(Duration::from_millis(2));
    Instant::now().checked_add(patience - earlier)
}

impl<L: Link> Notifications for FredStore<L> {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        let Some(channels) = &self.channels else {
            return Err(StoreError::NotDone(NO_CONFIG.into()));
        };
        channels.listen(key.as_str(), wake).await
    }
}

const NO_CONFIG: &str = "a store through a client of your own needs a configuration to listen: see FredStore::listening";
