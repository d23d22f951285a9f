//! Listening to channels, on a connection of its own.

use lockage::notifications::{SubscriptionSink, Subscriptions};
use lockage_redis::{Link, LinkError, PubSub, REPLY, Reply, Request, Unawaited, subscriptions};
use redis::aio::{ConnectionLike, MultiplexedConnection, SendError};
use redis::{
    AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, PushKind, RedisResult, Value,
};

use crate::{command, query};

/// Returns the subscriptions of the server that `client` leads to when it connects.
pub(crate) fn of_client<F>(client: impl Fn() -> F + Clone + Send + Sync + 'static) -> Subscriptions
where
    F: Future<Output = RedisResult<Client>> + Send + 'static,
{
    connected(move |ear: Ear| {
        let client = client.clone();
        async move {
            let info = client().await?.get_connection_info().clone();
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            let client = Client::open(info.set_redis_settings(settings))?;
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_push_sender(move |push| ear.hear(&push));
            let silent = client.get_multiplexed_async_connection_with_config(&config).await?;
            let mut patient: MultiplexedConnection = silent.clone();
            patient.set_response_timeout(REPLY);
            Ok((patient, silent))
        }
    })
}

/// Returns the subscriptions of a cluster.
#[cfg(feature = "cluster")]
pub(crate) fn of_cluster(
    builder: redis::cluster::ClusterClientBuilder,
) -> RedisResult<Subscriptions> {
    // Its nodes' connections have a timeout each, and need no timer where unsubscribing is asked for.
    // What the client tries again at a silent node, it keeps waiting for ever.
    let builder = builder.use_protocol(ProtocolVersion::RESP3).overall_response_timeout(None);
    let builder = builder.retries(0);
    let client = std::sync::Arc::new(builder.build()?);
    Ok(connected(move |ear: Ear| {
        let client = std::sync::Arc::clone(&client);
        async move {
            // A configuration has timeouts of its own, whatever the builder says.
            let config = redis::cluster::ClusterConfig::new()
                .set_response_timeout(REPLY)
                .set_push_sender(move |push| ear.hear(&push));
            let connection = client.get_async_connection_with_config(config).await?;
            Ok((connection.clone(), connection))
        }
    }))
}

/// Returns the subscriptions of the connections that `connect` makes, each as one with a reply timeout and as one
/// without
fn connected<C, F>(connect: impl Fn(Ear) -> F + Clone + Send + Sync + 'static) -> Subscriptions
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
    F: Future<Output = RedisResult<(C, C)>> + Send + 'static,
{
    subscriptions(move |sink| {
        let connect = connect.clone();
        async move {
            let ear = Ear { sink, leaving: Unawaited::default() };
            let (connection, untimed) = crate::connected(connect(ear.clone())).await?;
            Ok(Listening { connection, untimed, ear })
        }
    })
}

struct Listening<C> {
    connection: C,
    untimed: C,
    ear: Ear,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Link for Listening<C> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        query(request, self.connection.clone()).await
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> PubSub for Listening<C> {
    fn sink(&self) -> &SubscriptionSink {
        &self.ear.sink
    }

    fn unsubscribe(&self, channel: &str, is_sharded: bool) {
        let name = if is_sharded { "SUNSUBSCRIBE" } else { "UNSUBSCRIBE" };
        let call = command(&Request::new(name).with(channel));
        let mut connection = self.untimed.clone();
        let request = async move { _ = call.query_async::<Value>(&mut connection).await };
        self.ear.leaving.add(request);
    }
}

impl<C> Drop for Listening<C> {
    fn drop(&mut self) {
        // They hold the connection, and it holds them.
        self.ear.leaving.clear();
    }
}

/// The receiver of unsolicited messages on one connection.
#[derive(Clone)]
struct Ear {
    sink: SubscriptionSink,
    /// Requests to unsubscribe. The client drops a request that is forgotten before it is sent, and takes a limited
    /// number at a time.
    leaving: Unawaited,
}

impl Ear {
    fn hear(&self, push: &PushInfo) -> Result<(), SendError> {
        let text = |at: usize| match push.data.get(at) {
            Some(Value::BulkString(text)) => std::str::from_utf8(text).unwrap_or_default(),
            _ => "",
        };
        let channel = text(0);
        match push.kind {
            PushKind::Message | PushKind::SMessage => self.sink.message(channel, text(1)),
            PushKind::Unsubscribe | PushKind::SUnsubscribe => {
                // The slot has left the node; or nobody listened, and somebody does again.
                self.sink.lost(channel);
                // There is room for more of them.
                self.leaving.poll();
            }
            PushKind::Disconnection => self.sink.end(),
            _ => {}
        }
        Ok(())
    }
}
