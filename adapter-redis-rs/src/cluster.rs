//! A cluster.

use std::sync::Arc;

use lockage_redis::{Connections, LinkError, Reply, Request, host_and_port};
use redis::aio::ConnectionLike;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{RedisResult, Value};

use crate::{Connection, Reconnecting, connected, pipeline, query, read_all};

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

pub(crate) async fn send(
    on: &ClusterConnection,
    request: &Request<'_>,
) -> Result<Reply, LinkError> {
    if !request.is_asking() {
        return query(request, on.clone()).await;
    }
    // `ASKING` holds for the next command on its connection, so both go in one piece.
    let both = [Request::new("ASKING"), request.clone()];
    Ok(read_all(send_to(on, request, &both).await)?.pop().unwrap_or(Reply::Other))
}

pub(crate) async fn send_all(
    on: &ClusterConnection,
    requests: &[Request<'_>],
) -> Result<Vec<Reply>, LinkError> {
    let asking = requests.iter().find(|request| request.is_asking());
    read_all(match asking {
        Some(asking) => send_to(on, asking, requests).await,
        None => on.clone().req_packed_commands(&pipeline(requests), 0, requests.len()).await,
    })
}

async fn send_to(
    on: &ClusterConnection,
    to: &Request<'_>,
    requests: &[Request<'_>],
) -> RedisResult<Vec<Value>> {
    on.clone().route_pipeline(pipeline(requests), 0, requests.len(), node(to)).await
}

/// Returns the node that takes over the slot, where an `ASK` leads to.
pub(crate) fn node(request: &Request<'_>) -> SingleNodeRoutingInfo {
    let node = request.node().unwrap_or_default();
    let (host, port) = host_and_port(node).unwrap_or((node, 6379));
    SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port }
}
