//! Connections that the store makes by itself.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use lockage::runtime::Runtime;
#[cfg(feature = "smol-comp")]
use lockage::runtime::Smol;
#[cfg(feature = "tokio-comp")]
use lockage::runtime::Tokio;
use lockage_redis::{Link, LinkError, Pipeline, REPLY, Reply, Request};
use redis::aio::{ConnectionLike, MultiplexedConnection, SendError};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::RoutingInfo;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, ProtocolVersion, PushInfo, PushKind, RedisResult,
    Value,
};

use crate::{cluster, command, in_runtime, query, read};

/// Returns the settings of TCP connections that stores make: the system probes an idle connection after 15 s and then
/// each 5 s, and on Linux it ends one whose peer has acknowledged nothing for 30 s.
///
/// So routers do not forget idle connections, and lost peers are noticed. Clients with a keepalive of their own keep
/// their settings. Pass these to a `ConnectionInfo` of your own, or to a `ClusterClientBuilder`.
pub fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15));
    #[cfg(any(target_vendor = "apple", target_os = "android", target_os = "freebsd"))]
    let keepalive = keepalive.with_interval(Duration::from_secs(5));
    #[cfg(any(target_os = "linux", target_os = "windows"))]
    let keepalive = keepalive.with_interval(Duration::from_secs(5));
    let settings = TcpSettings::default().set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(Duration::from_secs(30));
    settings
}

/// Returns the client with [`tcp_settings`], unless it has a keepalive of its own.
pub(crate) fn kept_alive(client: Client) -> RedisResult<Client> {
    let info = client.get_connection_info();
    if info.tcp_settings().keepalive().is_some() {
        return Ok(client);
    }
    let settings = tcp_settings().set_nodelay(info.tcp_settings().nodelay());
    Client::open(info.clone().set_tcp_settings(settings))
}

/// Returns the client with RESP3, by which a connection reports its end.
pub(crate) fn with_resp3(client: &Client) -> RedisResult<Client> {
    let info = client.get_connection_info().clone();
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    Client::open(info.set_redis_settings(settings))
}

/// Connects to the server of this client, by RESP3 unless the server refuses that.
pub(crate) async fn connect(
    client: Client,
    config: &AsyncConnectionConfig,
) -> RedisResult<Connection> {
    let client = kept_alive(client)?;
    let ended = Ended::default();
    // The client drops the sender with the task of its connection, also at the end of that task's runtime.
    let end = End(ended.clone());
    let reports = config.clone().set_push_sender(move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            end.0.set();
        }
        Ok::<(), SendError>(())
    });
    let made = with_resp3(&client)?.get_multiplexed_async_connection_with_config(&reports).await;
    let (connection, ended) = match made {
        // The server has refused, maybe only RESP3: by RESP2 it has its usual errors, and no reports of its end.
        Err(error) if error.code().is_some() || error.kind() == ErrorKind::RESP3NotSupported => {
            let made = client.get_multiplexed_async_connection_with_config(config).await?;
            (made, Ended::default())
        }
        made => (made?, ended),
    };
    Ok(Connection { to: To::Server(connection), ended })
}

/// Whether a connection has ended.
#[derive(Clone, Default)]
struct Ended(Arc<AtomicBool>);

impl Ended {
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Ends a connection when it is dropped.
struct End(Ended);

impl Drop for End {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// A connection that the store makes by itself: to one server, or to all nodes of a cluster.
#[derive(Clone)]
pub struct Connection {
    to: To,
    ended: Ended,
}

#[derive(Clone)]
enum To {
    Server(MultiplexedConnection),
    /// Its client reconnects to nodes by itself.
    Cluster(ClusterConnection),
}

impl Connection {
    pub(crate) fn of_cluster(connection: ClusterConnection) -> Self {
        Connection { to: To::Cluster(connection), ended: Ended::default() }
    }
}

impl Link for Connection {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        match &self.to {
            To::Server(connection) => query(request, connection.clone()).await,
            To::Cluster(_) if request.is_asking() => {
                // `ASKING` holds for the next command on its connection, so both go in one piece.
                let both = [Request::new("ASKING"), request.clone()];
                Ok(self.send_all(&both, Duration::ZERO).await?.pop().unwrap_or(Reply::Other))
            }
            To::Cluster(connection) => query(request, connection.clone()).await,
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.0.load(Ordering::Acquire)
    }

    async fn check(&self, ping: &Request<'_>) -> Result<Reply, LinkError> {
        in_runtime()?;
        match &self.to {
            To::Server(connection) => check(ping, connection).await,
            To::Cluster(connection) => {
                let (node, mut connection) = (cluster::node_of_key(ping), connection.clone());
                let reply = connection.route_command(command(ping), RoutingInfo::SingleNode(node));
                // The client has no timeout for a single request.
                let late = pin!(sleep(ping.left().unwrap_or(REPLY)));
                match select(pin!(reply), late).await {
                    Either::Left((reply, _)) => read(reply),
                    Either::Right(_) => read(Err(io::Error::from(io::ErrorKind::TimedOut).into())),
                }
            }
        }
    }
}

/// Sleeps in the runtime that the client would choose.
async fn sleep(time: Duration) {
    #[cfg(feature = "tokio-comp")]
    if cfg!(not(feature = "smol-comp")) || lockage_redis::in_tokio().is_ok() {
        return Tokio.sleep(time).await;
    }
    #[cfg(feature = "smol-comp")]
    Smol.sleep(time).await;
}

/// Sends a `PING`, and waits until its deadline.
pub(crate) async fn check(
    ping: &Request<'_>,
    connection: &MultiplexedConnection,
) -> Result<Reply, LinkError> {
    let mut connection = connection.clone();
    connection.set_response_timeout(ping.left().unwrap_or(REPLY));
    query(ping, connection).await
}

impl Pipeline for Connection {
    async fn send_all(
        &self,
        requests: &[Request<'_>],
        wait: Duration,
    ) -> Result<Vec<Reply>, LinkError> {
        in_runtime()?;
        let mut all = redis::Pipeline::with_capacity(requests.len());
        requests.iter().for_each(|request| _ = all.add_command(command(request)));
        let values = match &self.to {
            To::Server(connection) => {
                let mut connection = connection.clone();
                if !wait.is_zero() {
                    connection.set_response_timeout(wait + REPLY);
                }
                connection.req_packed_commands(&all, 0, requests.len()).await
            }
            To::Cluster(connection) => {
                let mut connection = connection.clone();
                match requests.iter().find(|request| request.is_asking()) {
                    Some(asking) => {
                        let node = cluster::node(asking);
                        connection.route_pipeline(all, 0, requests.len(), node).await
                    }
                    None => connection.req_packed_commands(&all, 0, requests.len()).await,
                }
            }
        };
        Ok(read(values.map(Value::Array))?.into_list())
    }
}
