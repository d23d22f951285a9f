//! A cluster.

use std::sync::Arc;

use lockage::adapter::Renewed;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};

use super::{Link, LinkError, plain};
use crate::outcome;

/// A connection to a cluster that sends nothing a second time by itself. Clones share it.
///
/// The client follows the cluster where a node answers, or is gone. A node that is silent it asks
/// for ever; after several calls without an answer the cluster is therefore asked anew who has
/// which slots.
#[derive(Clone, Debug)]
pub struct Cluster(Renewed<ClusterConnection, RedisError>);

impl Cluster {
    /// Connects as this builder says, once there is something to send, with the client's own retries
    /// turned off: they run scripts twice.
    ///
    /// # Errors
    /// Those of the client, where the builder's addresses or options are not accepted.
    pub fn new(builder: ClusterClientBuilder) -> RedisResult<Self> {
        let client = Arc::new(builder.retries(0).build()?);
        let connect = move || {
            let client = Arc::clone(&client);
            async move { client.get_async_connection().await }
        };
        Ok(Cluster(Renewed::new(connect).behind()))
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
            let verdict = outcome::verdict(&result);
            (result, verdict)
        };
        self.0.with(send).await
    }
}

/// `ASKING` holds for the next command on its connection, so both go in one piece.
async fn ask(mut connection: ClusterConnection, call: &Cmd, node: &str) -> RedisResult<Value> {
    let mut both = Pipeline::with_capacity(2);
    both.cmd("ASKING").add_command(call.clone());
    let (host, port) = node.rsplit_once(':').unwrap_or((node, ""));
    let port = port.parse().unwrap_or(6379);
    let node = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
    let replies = connection.route_pipeline(both, 0, 2, node).await?;
    replies.into_iter().next_back().unwrap_or(Value::Nil).extract_error()
}
