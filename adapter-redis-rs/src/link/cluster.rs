//! A cluster.

use std::sync::Arc;

use lockage::adapter::{Exclusive, Renewed};
use redis::aio::ConnectionLike;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};

use super::{Acknowledging, Link, LinkError, plain};
use crate::acknowledged::{self, Acknowledged, Reply};
use crate::outcome;

/// A connection to a cluster that sends nothing a second time by itself. Clones share it.
///
/// The client follows the cluster where a node answers, or is gone. A node that is silent it asks
/// for ever; after several calls without an answer the cluster is therefore asked anew who has
/// which slots.
#[derive(Clone, Debug)]
pub struct Cluster {
    shared: Renewed<ClusterConnection, RedisError>,
    exclusive: Exclusive<ClusterConnection, RedisError>,
}

impl Cluster {
    /// Connects as this builder says, once there is something to send, with the client's own retries
    /// turned off: they run scripts twice.
    ///
    /// # Errors
    /// Those of the client, where the builder's addresses or options are not accepted.
    pub fn new(builder: ClusterClientBuilder) -> RedisResult<Self> {
        let client = Arc::new(builder.retries(0).build()?);
        let another = move || {
            let client = Arc::clone(&client);
            let connect = move || {
                let client = Arc::clone(&client);
                async move { client.get_async_connection().await }
            };
            Renewed::new(connect).behind()
        };
        Ok(Cluster { shared: another(), exclusive: Exclusive::new(another) })
    }
}

impl Link for Cluster {
    async fn send(&self, call: &Cmd, asking: Option<&str>) -> Result<Value, LinkError> {
        let send = async |connection| {
            let result = match (connection, asking) {
                (Ok(connection), None) => plain::send(connection, call).await,
                (Ok(connection), Some(node)) => {
                    ask(connection, call, node).await.map_err(LinkError::Failed)
                }
                (Err(error), _) => Err(LinkError::NotSent(error)),
            };
            let verdict = outcome::verdict_of_reply(&result);
            (result, verdict)
        };
        self.shared.with(send).await
    }

    fn takes_many_keys(&self) -> bool {
        false
    }
}

impl Acknowledging for Cluster {
    async fn send_acknowledged(
        &self,
        call: Acknowledged<'_>,
        asking: Option<&str>,
    ) -> Result<Reply, LinkError> {
        let send = async |connection: RedisResult<ClusterConnection>| {
            let result = match connection {
                Ok(mut connection) => {
                    let all = call.packed(asking.is_some());
                    let count = all.len();
                    let replies = match asking {
                        None => connection.req_packed_commands(&all, 0, count).await,
                        Some(node) => connection.route_pipeline(all, 0, count, at(node)).await,
                    };
                    replies.and_then(acknowledged::read).map_err(LinkError::Failed)
                }
                Err(error) => Err(LinkError::NotSent(error)),
            };
            let verdict = outcome::verdict(&result);
            (result, verdict)
        };
        self.exclusive.with(send).await
    }
}

/// `ASKING` holds for the next command on its connection, so both go in one piece.
async fn ask(mut connection: ClusterConnection, call: &Cmd, node: &str) -> RedisResult<Value> {
    let mut both = Pipeline::with_capacity(2);
    both.cmd("ASKING").add_command(call.clone());
    let replies = connection.route_pipeline(both, 0, 2, at(node)).await?;
    replies.into_iter().next_back().unwrap_or(Value::Nil).extract_error()
}

fn at(node: &str) -> SingleNodeRoutingInfo {
    let (host, port) = node.rsplit_once(':').unwrap_or((node, ""));
    let port = port.parse().unwrap_or(6379);
    SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port }
}
