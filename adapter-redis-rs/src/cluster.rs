//! A cluster.

use std::sync::Arc;

use lockage_redis::{Connections, Request, host_and_port};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use redis::{ConnectionInfo, ProtocolVersion, RedisResult};

use crate::{Connection, RedisConnections, connected, tcp_settings};

/// Returns the builder of a client of these nodes.
pub(crate) fn builder(nodes: Vec<ConnectionInfo>) -> ClusterClientBuilder {
    ClusterClientBuilder::new(nodes).tcp_settings(tcp_settings())
}

/// Returns connections of this builder, which are made at the first request, without the client's own retries: they run
/// scripts twice. By RESP3 the client learns at once that a connection to a node has ended, and makes another one.
///
/// The client follows the cluster if a node answers, or is gone. A silent node it asks for ever; after several calls
/// without an answer, the cluster is therefore asked again which node has which slots.
pub(crate) fn connections(builder: ClusterClientBuilder) -> RedisResult<RedisConnections> {
    let client = Arc::new(builder.use_protocol(ProtocolVersion::RESP3).retries(0).build()?);
    Ok(Connections::of_cluster(move || {
        let client = Arc::clone(&client);
        async move { connected(client.get_async_connection()).await.map(Connection::of_cluster) }
    }))
}

/// Returns the node that takes over the slot, the target of an `ASK`.
pub(crate) fn node(request: &Request<'_>) -> SingleNodeRoutingInfo {
    let node = request.node().unwrap_or_default();
    let (host, port) = host_and_port(node).unwrap_or((node, 6379));
    SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port }
}

/// Returns the node that has the request's key.
pub(crate) fn node_of_key(request: &Request<'_>) -> SingleNodeRoutingInfo {
    let route = request.key().map(|key| Route::with_key(key, SlotAddr::Master));
    SingleNodeRoutingInfo::from(route)
}
