//! A cluster.

use std::sync::Arc;

use lockage_redis::{Connections, Request, host_and_port};
use redis::RedisResult;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_routing::SingleNodeRoutingInfo;

use crate::{Connection, Reconnecting, connected};

/// Returns connections of this builder, which are made at the first request, without the client's own retries: they run
/// scripts twice.
///
/// The client follows the cluster if a node answers, or is gone. A silent node it asks for ever; after several calls
/// without an answer, the cluster is therefore asked again which node has which slots.
pub(crate) fn connections(builder: ClusterClientBuilder) -> RedisResult<Reconnecting> {
    let client = Arc::new(builder.retries(0).build()?);
    Ok(Connections::of_cluster(move || {
        let client = Arc::clone(&client);
        async move { connected(client.get_async_connection()).await.map(Connection::Cluster) }
    }))
}

/// Returns the node that takes over the slot, the target of an `ASK`.
pub(crate) fn node(request: &Request<'_>) -> SingleNodeRoutingInfo {
    let node = request.node().unwrap_or_default();
    let (host, port) = host_and_port(node).unwrap_or((node, 6379));
    SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port }
}
