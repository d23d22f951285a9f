//! Listening to channels, on a connection of its own.

use std::sync::Arc;

use lockage::notifications::Subscriptions;
use lockage_redis::{Link, LinkError, PubSub, PubSubSink, REPLY, Reply, Request, subscriptions};
use redis::aio::{ConnectionLike, SendError};
use redis::cluster::{ClusterClientBuilder, ClusterConfig};
use redis::{
    AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, PushKind, RedisResult, Value,
};

use crate::own::{kept_alive, with_resp3};
use crate::{command, connected, in_runtime, query};

/// Returns the subscriptions of the server that `client` leads to when it connects.
pub(crate) fn of_client<F>(client: impl Fn() -> F + Clone + Send + Sync + 'static) -> Subscriptions
where
    F: Future<Output = Result<Client, LinkError>> + Send + 'static,
{
    subscriptions(move |sink| {
        let client = client.clone();
        async move {
            in_runtime()?;
            let client = client().await?;
            connected(async move {
                let client = with_resp3(&kept_alive(client)?)?;
                let sink = EndingSink(sink);
                let config = AsyncConnectionConfig::new()
                    .set_response_timeout(None)
                    .set_push_sender(move |push| report(&sink.0, &push));
                let untimed = client.get_multiplexed_async_connection_with_config(&config).await?;
                let mut timed = untimed.clone();
                timed.set_response_timeout(REPLY);
                Ok(Listening { timed, untimed })
            })
            .await
        }
    })
}

/// Returns the subscriptions of a cluster.
pub(crate) fn of_cluster(builder: ClusterClientBuilder) -> RedisResult<Subscriptions> {
    // Its nodes' connections have a timeout each, and need no timer where a subscription is ended. A request that the
    // client retries at a silent node waits for ever.
    let builder = builder.use_protocol(ProtocolVersion::RESP3).overall_response_timeout(None);
    let client = Arc::new(builder.retries(0).build()?);
    Ok(subscriptions(move |sink| {
        let client = Arc::clone(&client);
        connected(async move {
            // A configuration has timeouts of its own, whatever the builder sets.
            let sink = EndingSink(sink);
            let config = ClusterConfig::new()
                .set_response_timeout(REPLY)
                .set_push_sender(move |push| report(&sink.0, &push));
            let timed = client.get_async_connection_with_config(config).await?;
            Ok(Listening { untimed: timed.clone(), timed })
        })
    }))
}

/// One connection. `untimed` has no timeout for replies, and so needs no timer: a subscription may end outside of a
/// runtime.
struct Listening<C> {
    timed: C,
    untimed: C,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Link for Listening<C> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        query(request, self.timed.clone()).await
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> PubSub for Listening<C> {
    async fn unsubscribe(&self, channel: &str, is_sharded: bool) {
        let name = if is_sharded { "SUNSUBSCRIBE" } else { "UNSUBSCRIBE" };
        let call = command(&Request::new(name).with(channel));
        _ = call.query_async::<Value>(&mut self.untimed.clone()).await;
    }
}

/// Reports the connection's end when it is dropped: the client drops it with the connection's task, also at the end of
/// that task's runtime.
struct EndingSink(PubSubSink);

impl Drop for EndingSink {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Reports an unsolicited message.
fn report(to: &PubSubSink, push: &PushInfo) -> Result<(), SendError> {
    let text = |at: usize| match push.data.get(at) {
        Some(Value::BulkString(text)) => std::str::from_utf8(text).unwrap_or_default(),
        _ => "",
    };
    match push.kind {
        PushKind::Message | PushKind::SMessage => to.message(text(0), text(1)),
        // The slot has left the node; or the channel had no listener, and has one again.
        PushKind::Unsubscribe | PushKind::SUnsubscribe => to.lost(text(0)),
        PushKind::Disconnection => to.end(),
        _ => {}
    }
    Ok(())
}
