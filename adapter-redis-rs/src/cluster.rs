//! A cluster.

use std::sync::Arc;

use lockage_redis::{Connections, Request, host_and_port};
use redis::RedisResult;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_routing::SingleNodeRoutingInfo;

use crate::{Connection, Reconnecting, connected};

/// Returns connections as this builder says, which are made once there is something to send, with the client's own
/// retries turned off: they run scripts twice.
///
/// The client follows the cluster where a node answers, or is gone. A node that is silent it asks
/// for ever; after several calls without an answer the cluster is therefore asked anew who has
/// which slots.
pub(crate) fn connections(builder: ClusterClientBuilder) -> RedisResult<Reconnecting> {
    let client = Arc::new(builder.retries(0).build()?);
    Ok(Connections::of_cluster(move || {
        let client = Arc::clone(&client);
        async move { connected(client.get_async_connection()).await.map(Connection::Cluster) }
    }))
}

/// Returns the node that takes over the slot, where an `ASK` leads to.
pub(crate) fn node(request: &Request<'_>) -> SingleNodeRoutingInfo {
    let node = request.node().unwrap_or_default();
    let (host, port) = host_and_port(node).unwrap_or((node, 6379));
    SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port }
}
