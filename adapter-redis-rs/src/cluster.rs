//! A cluster.

use std::sync::Arc;
use std::time::Duration;

use lockage_redis::{Connections, Link, LinkError, Pipeline, Reply, Request, host_and_port};
use redis::aio::ConnectionLike;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{RedisResult, Value};

use crate::{connected, pipeline, query, read_all};

/// Connections to a cluster that send nothing a second time by themselves.
///
/// The client follows the cluster where a node answers, or is gone. A node that is silent it asks
/// for ever; after several calls without an answer the cluster is therefore asked anew who has
/// which slots.
pub type Cluster = Connections<ClusterLink>;

/// A connection to all nodes of a cluster.
#[derive(Clone)]
pub struct ClusterLink(ClusterConnection);

/// Connects as this builder says, once there is something to send, with the client's own retries turned
/// off: they run scripts twice.
pub(crate) fn connections(builder: ClusterClientBuilder) -> RedisResult<Cluster> {
    let client = Arc::new(builder.retries(0).build()?);
    Ok(Connections::of_cluster(move || {
        let client = Arc::clone(&client);
        async move { connected(client.get_async_connection()).await.map(ClusterLink) }
    }))
}

impl Link for ClusterLink {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        if !request.is_asking() {
            return query(request, self.0.clone()).await;
        }
        // `ASKING` holds for the next command on its connection, so both go in one piece.
        let both = [Request::new("ASKING"), request.clone()];
        Ok(read_all(self.send_to(request.node(), &both).await)?.pop().unwrap_or(Reply::Other))
    }
}

impl Pipeline for ClusterLink {
    async fn send_all(
        &self,
        requests: &[Request<'_>],
        _wait: Duration,
    ) -> Result<Vec<Reply>, LinkError> {
        let asking = requests.iter().find(|request| request.is_asking());
        read_all(match asking {
            Some(asking) => self.send_to(asking.node(), requests).await,
            None => {
                let mut connection = self.0.clone();
                connection.req_packed_commands(&pipeline(requests), 0, requests.len()).await
            }
        })
    }
}

impl ClusterLink {
    async fn send_to(
        &self,
        node: Option<&str>,
        requests: &[Request<'_>],
    ) -> RedisResult<Vec<Value>> {
        let node = node.unwrap_or_default();
        let (host, port) = host_and_port(node).unwrap_or((node, 6379));
        let to = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
        self.0.clone().route_pipeline(pipeline(requests), 0, requests.len(), to).await
    }
}
