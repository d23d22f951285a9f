//! Clients that the store makes itself.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, Server, ServerConfig,
    UnresponsiveConfig,
};
use fred::types::{ClusterHash, ConnectHandle, CustomCommand, RespVersion, Value};

const CONNECT: Duration = Duration::from_secs(1);
/// How long a reply may take.
pub(crate) const REPLY: Duration = Duration::from_millis(500);

/// How many messages can wait in a client: as many as usual, or where it is there for them.
const FEW: usize = 32;
const MANY: usize = 1024;

/// A client that ends with its last user, and its connections with it.
pub(crate) struct Own {
    pub(crate) client: Client,
    /// Runs for as long as the client does not give up for good.
    pub(crate) task: ConnectHandle,
}

impl Own {
    /// A client that connects again by itself.
    pub(crate) async fn connect(config: Config) -> Result<Arc<Self>, Error> {
        let connection = ConnectionConfig {
            connection_timeout: CONNECT,
            internal_command_timeout: CONNECT,
            max_redirections: 0,
            unresponsive: UnresponsiveConfig { max_timeout: Some(4 * REPLY), interval: REPLY },
            ..ConnectionConfig::default()
        };
        // From 1 ms to 500 ms, for ever. At first it is soon: until then, calls wait in a queue.
        let mut policy = ReconnectPolicy::new_exponential(0, 1, 500, 2);
        policy.set_jitter(10);
        Self::start(config, connection, Some(policy), FEW).await.map(Arc::new)
    }

    /// A client that listens to channels, until something of its connection is lost.
    pub(crate) async fn listen(config: Config) -> Result<Self, Error> {
        let connection = ConnectionConfig {
            connection_timeout: CONNECT,
            internal_command_timeout: CONNECT,
            ..ConnectionConfig::default()
        };
        // With RESP2 a connection that listens could not be asked anything else.
        let config = Config { version: RespVersion::RESP3, ..config };
        Self::start(config, connection, None, MANY).await
    }

    /// A client that does not connect again.
    pub(crate) async fn once(config: Config) -> Result<Arc<Self>, Error> {
        let connection = ConnectionConfig {
            connection_timeout: CONNECT,
            internal_command_timeout: CONNECT,
            max_redirections: 0,
            ..ConnectionConfig::default()
        };
        Self::start(config, connection, None, FEW).await.map(Arc::new)
    }

    /// Makes a node take the next call on its connection, which is nobody else's, although it does not have the slot
    /// yet.
    pub(crate) async fn ask(&self) -> Result<(), Error> {
        let asking = CustomCommand::new_static("ASKING", ClusterHash::Random, false);
        self.client.custom::<Value, Value>(asking, vec![]).await.map(drop)
    }

    /// A client of one node of the cluster that this one is for.
    pub(crate) async fn node(of: &Client, server: Server) -> Result<Self, Error> {
        let config = Config { server: ServerConfig::Centralized { server }, ..of.client_config() };
        Self::start(config, of.connection_config().clone(), None, FEW).await
    }

    async fn start(
        config: Config,
        connection: ConnectionConfig,
        policy: Option<ReconnectPolicy>,
        messages: usize,
    ) -> Result<Self, Error> {
        let config = Config { fail_fast: true, ..config };
        let performance = PerformanceConfig {
            default_command_timeout: REPLY,
            broadcast_channel_capacity: messages,
            ..PerformanceConfig::default()
        };
        let client = Client::new(config, Some(performance), Some(connection), policy);
        // A task of its own, so that a client that nobody waits for any more is ended too.
        let started = tokio::spawn(async move { Ok(Own { task: client.init().await?, client }) });
        started.await?
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Nothing else ends it where the server is silent.
        self.task.abort();
    }
}
