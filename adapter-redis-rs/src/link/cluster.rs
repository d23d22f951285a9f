//! A cluster.

use std::fmt;

use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{Cmd, Pipeline, RedisResult, Value};

use super::{Link, LinkError, plain};

/// A connection to a cluster that sends nothing a second time by itself. Clones share it.
#[derive(Clone)]
pub struct Cluster(ClusterConnection);

impl Cluster {
    /// Connects as this builder says, with the client's own retries turned off: they run scripts
    /// twice.
    ///
    /// # Errors
    /// Those of the client, where no node answers.
    pub async fn connect(builder: ClusterClientBuilder) -> RedisResult<Self> {
        let client = builder.retries(0).build()?;
        Ok(Cluster(client.get_async_connection().await?))
    }
}

impl Link for Cluster {
    async fn send(&self, call: &Cmd, asking: Option<&str>) -> Result<Value, LinkError> {
        match asking {
            None => plain::send(self.0.clone(), call).await,
            Some(node) => ask(self.0.clone(), call, node).await.map_err(LinkError::Failed),
        }
    }
}

/// `ASKING` holds for the next command on its connection, so both go in one piece.
async fn ask(mut connection: ClusterConnection, call: &Cmd, node: &str) -> RedisResult<Value> {
    let mut both = Pipeline::with_capacity(2);
    both.cmd("ASKING").add_command(call.clone());
    let (host, port) = node.rsplit_once(':').unwrap_or((node, ""));
    let (host, port) = (host.to_owned(), port.parse().unwrap_or(6379));
    let node = SingleNodeRoutingInfo::ByAddress { host, port };
    let replies = connection.route_pipeline(both, 0, 2, node).await?;
    replies.into_iter().next_back().unwrap_or(Value::Nil).extract_error()
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}
