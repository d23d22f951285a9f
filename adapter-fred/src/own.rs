//! Clients that the store makes by itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fred::clients::{Client, Pipeline};
use fred::error::Error;
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, Server, ServerConfig, TcpConfig,
    UnresponsiveConfig,
};
use fred::types::{ConnectHandle, RespVersion, Value};
use lockage_redis::{
    Acknowledged, Acknowledging, Health, Link, LinkError, NodePools, REPLY, ReplicaWait, Reply,
    Request, hint, in_tokio,
};
use socket2::TcpKeepalive;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use crate::{address, check_by, command, not_connected, once, owner, read, send_by, server};

const CONNECT: Duration = Duration::from_secs(1);

/// How many messages can wait in a client: in an ordinary one, and in one that listens.
const FEW: usize = 32;
const MANY: usize = 1024;

/// A client that is made at the first call, checked after an idle time, and remade by the next call after it has
/// stopped, failed its check, or led to a server that takes no writes. It reconnects lost connections by itself. No call
/// is sent again. Clones share the client.
#[derive(Clone, Debug)]
pub struct FredConnections {
    server: String,
    shared: lockage_redis::Reconnecting<Arc<Own>>,
    /// Clients for calls that wait for replicas, by the nodes of a cluster; otherwise the configuration alone
    /// identifies the server. They do not reconnect: a `WAIT` on another connection than its call's would return a
    /// meaningless number at once.
    exclusive: NodePools<Option<Server>, Arc<Own>>,
}

impl FredConnections {
    /// Creates a client that connects with this configuration.
    pub(crate) fn new(config: Config) -> Self {
        let (server, own) = (address(&config), config.clone());
        let connect = move || Own::connect(own.clone());
        let shared = match config.server.is_clustered() {
            true => lockage_redis::Reconnecting::of_cluster(connect),
            false => lockage_redis::Reconnecting::new(connect),
        };
        let exclusive = NodePools::new(move |node: &Option<Server>| {
            let mut config = config.clone();
            if let Some(server) = node.clone() {
                config.server = ServerConfig::Centralized { server };
            }
            Own::once(config)
        });
        FredConnections { server, shared, exclusive }
    }
}

impl Link for FredConnections {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        self.shared.send(request).await
    }

    fn is_cluster(&self) -> bool {
        self.shared.is_cluster()
    }

    fn checked_after(self, idle: Duration) -> Self {
        let shared = self.shared.checked_after(idle);
        FredConnections { shared, exclusive: self.exclusive.checked_after(idle), ..self }
    }

    fn server(&self) -> Option<String> {
        Some(self.server.clone())
    }

    async fn close(&self) {
        self.shared.end();
        self.exclusive.end();
    }
}

impl Acknowledging for FredConnections {
    async fn send_acknowledged(
        &self,
        call: &Request<'_>,
        wait: ReplicaWait,
    ) -> Result<Acknowledged, LinkError> {
        if !self.is_cluster() {
            return self.exclusive.of(None).send_acknowledged(call, wait).await;
        }
        // The client of all nodes knows which node has the slot, while its nodes answer: so it records this call too.
        let send = async |own: Arc<Own>| {
            let send = async {
                let owner = owner(&own.client, call)?;
                let node = call.node().map_or(Ok(owner.clone()), |node| server(node, &owner))?;
                self.exclusive.of(Some(node)).send_acknowledged(call, wait).await
            };
            let result = send.await;
            let health = Health::of(result.as_ref().map(|(reply, _)| reply));
            (result, health)
        };
        self.shared.with(call, send).await?
    }
}

/// A client that ends with its last user, and its connections with it.
pub(crate) struct Own {
    pub(crate) client: Client,
    /// Runs until the client gives up for good.
    pub(crate) task: ConnectHandle,
    /// Why its connections ended or were not made, and the hint of the latest one: the client goes on with a password
    /// that is no longer right, and its calls alone do not say so.
    losses: Mutex<(Losses, Option<&'static str>)>,
}

/// The errors of a client's connections, each with its server.
type Losses = Receiver<(Error, Option<Server>)>;

impl Link for Own {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let sent = send_by(&self.client, request).await;
        sent.map_err(|error| match error.was_sent() {
            true if self.was_queued(&error) => error.unsent(),
            true => error,
            false => error.misconfigured(self.latest_hint()),
        })
    }

    fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    async fn check(&self, ping: &Request<'_>) -> Result<Reply, LinkError> {
        check_by(&self.client, ping).await
    }
}

impl lockage_redis::Pipeline for Own {
    /// The client takes the first error in a transaction's reply for the whole transaction.
    const TRANSACTIONS: bool = false;

    async fn send_all(
        &self,
        requests: &[Request<'_>],
        wait: Duration,
    ) -> Result<Vec<Reply>, LinkError> {
        in_tokio()?;
        let pipeline = Pipeline::from(self.client.with_options(&once(Some(wait + REPLY))));
        for request in requests {
            let (command, arguments) = command(request);
            // It only goes into the pipeline.
            let queued = pipeline.custom::<Value, Value>(command, arguments).await;
            queued.map_err(LinkError::not_sent)?;
        }
        // Boxed: otherwise the futures around it would nest too deep for the compiler.
        Box::pin(pipeline.try_all()).await.into_iter().map(read).collect()
    }
}

impl Own {
    /// Returns whether a call without an answer has waited until its end for its connection to come back. All calls
    /// that were sent on a connection end with it, and the client makes another one only then. The clients of several
    /// nodes have other connections.
    fn was_queued(&self, error: &LinkError) -> bool {
        error.health() == Health::Doubtful
            && !self.client.is_clustered()
            && !self.client.is_connected()
    }

    fn latest_hint(&self) -> Option<&'static str> {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let (news, latest) = &mut *losses;
        loop {
            match news.try_recv() {
                Ok((error, _)) => *latest = hint(error.details()),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return *latest,
            }
        }
    }

    /// Returns a client that reconnects by itself.
    async fn connect(config: Config) -> Result<Arc<Self>, LinkError> {
        let own = connection_config();
        // From 1 ms to 100 ms, for ever. At first it is soon: until then, calls wait in a queue. And a check that waits
        // for it is over before the caller gives up.
        let mut policy = ReconnectPolicy::new_exponential(0, 1, 100, 2);
        policy.set_jitter(10);
        Self::start(config, own, Some(policy), FEW).await.map(Arc::new)
    }

    /// Returns a client that does not reconnect.
    async fn once(config: Config) -> Result<Arc<Self>, LinkError> {
        Self::start(config, connection(), None, FEW).await.map(Arc::new)
    }

    /// Returns a client that listens to channels, until something of its connection is lost.
    pub(crate) async fn listen(config: Config) -> Result<Self, LinkError> {
        // With RESP2 a listening connection could take no other request.
        let config = Config { version: RespVersion::RESP3, ..config };
        Self::start(config, connection(), None, MANY).await
    }

    /// Returns a client of one node of this client's cluster.
    pub(crate) async fn node(of: &Client, server: Server) -> Result<Self, LinkError> {
        let config = Config { server: ServerConfig::Centralized { server }, ..of.client_config() };
        Self::start(config, of.connection_config().clone(), None, FEW).await
    }

    async fn start(
        config: Config,
        connection: ConnectionConfig,
        policy: Option<ReconnectPolicy>,
        messages: usize,
    ) -> Result<Self, LinkError> {
        in_tokio()?;
        let config = Config { fail_fast: true, ..config };
        let performance = PerformanceConfig {
            default_command_timeout: REPLY,
            broadcast_channel_capacity: messages,
            ..PerformanceConfig::default()
        };
        let client = Client::new(config, Some(performance), Some(connection), policy);
        // A task of its own, so that a client is ended even if no caller waits for it any more.
        let start = async move {
            let losses = Mutex::new((client.error_rx(), None));
            match client.init().await {
                Ok(task) => Ok(Own { client, task, losses }),
                Err(error) => Err(refused_by(not_connected(error), &client.client_config()).await),
            }
        };
        let started = tokio::spawn(start);
        started.await.map_err(Error::from).map_err(not_connected).and_then(|own| own)
    }
}

/// Returns the error of a client that did not start, with the side that refuses if it is one of sentinels: the client
/// reports a sentinel's refusal as it does the master's, or as sentinels that are away.
async fn refused_by(error: LinkError, config: &Config) -> LinkError {
    let ServerConfig::Sentinel { hosts, username, password, .. } = &config.server else {
        return error;
    };
    for server in hosts {
        let server = ServerConfig::Centralized { server: server.clone() };
        let (username, password) = (username.clone(), password.clone());
        let database = None;
        let config = Config { server, username, password, database, ..config.clone() };
        let sentinel = Client::new(config, None, Some(connection()), None);
        let refused = sentinel.init().await.map_err(not_connected).err();
        _ = sentinel.quit().await;
        if let Some(refused) = refused.filter(|error| error.hint().is_some()) {
            return refused.of_sentinels();
        }
    }
    if error.hint().is_some() { error.of_master() } else { error }
}

/// Returns the settings of connections that stores make and keep, for a client of your own: 1 s to connect, no
/// redirections by itself, and an end for a connection that leaves a command without a reply for 2 s, if nothing else is
/// sent on it. TCP keepalive begins after 15 s, and on Linux a connection ends 30 s after the last sign of life.
pub fn connection_config() -> ConnectionConfig {
    let unresponsive = UnresponsiveConfig { max_timeout: Some(4 * REPLY), interval: REPLY };
    ConnectionConfig { unresponsive, ..connection() }
}

fn connection() -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: CONNECT,
        internal_command_timeout: CONNECT,
        max_redirections: 0,
        tcp: kept_alive(),
        ..ConnectionConfig::default()
    }
}

/// The settings of TCP connections that stores make: those of the adapter for the `redis` crate.
fn kept_alive() -> TcpConfig {
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15));
    #[cfg(any(target_vendor = "apple", target_os = "android", target_os = "freebsd"))]
    let keepalive = keepalive.with_interval(Duration::from_secs(5));
    #[cfg(any(target_os = "linux", target_os = "windows"))]
    let keepalive = keepalive.with_interval(Duration::from_secs(5));
    TcpConfig {
        keepalive: Some(keepalive),
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        user_timeout: Some(Duration::from_secs(30)),
        ..TcpConfig::default()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Nothing else ends it where the server is silent.
        self.task.abort();
    }
}
