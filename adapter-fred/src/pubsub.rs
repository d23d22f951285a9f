//! Listening to channels, through a client of its own.

use std::pin::pin;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::config::Config;
use fred::types::{ClusterHash, CustomCommand, Message, Value};
use fred::util::redis_keyslot;
use futures_util::future::select;
use lockage::notifications::Subscriptions;
use lockage_redis::{Link, LinkError, PubSub, PubSubSink, Reply, Request, in_tokio, subscriptions};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

use crate::own::Own;
use crate::{command, once, read};

/// Returns the subscriptions of the server, the master or the cluster of this configuration.
pub(crate) fn of_config(config: Config) -> Subscriptions {
    subscriptions(move |sink| {
        let config = config.clone();
        async move {
            let own = Own::listen(config).await?;
            let client = own.client.clone();
            let pump = tokio::spawn(pump(own, client.message_rx(), sink));
            Ok(Listening { client, pump })
        }
    })
}

struct Listening {
    client: Client,
    /// It has the client's connections.
    pump: JoinHandle<()>,
}

impl Link for Listening {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let (command, arguments) = command(request);
        read(self.client.custom(command, arguments).await)
    }
}

impl PubSub for Listening {
    async fn subscribe(&self, channel: &str, is_sharded: bool) -> Result<Reply, LinkError> {
        in_tokio()?;
        let subscribed = async {
            if is_sharded {
                return self.client.ssubscribe(channel).await;
            }
            // The client waits for no answer here. The next one on this connection comes after it.
            self.client.subscribe(channel).await?;
            let slot = redis_keyslot(self.client.id().as_bytes());
            let ping = CustomCommand::new_static("PING", ClusterHash::Custom(slot), false);
            self.client.custom::<Value, Value>(ping, vec![]).await.map(drop)
        };
        read(subscribed.await.map(|()| Value::Null))
    }

    async fn unsubscribe(&self, channel: &str, is_sharded: bool) {
        // Without a timeout no timer is needed.
        let client = self.client.with_options(&once(Some(Duration::ZERO)));
        _ = match is_sharded {
            true => client.sunsubscribe(channel).await,
            false => client.unsubscribe(channel).await,
        };
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// Forwards the server's messages, for as long as the client has all its connections.
async fn pump(mut own: Own, mut messages: Receiver<Message>, sink: PubSubSink) {
    // Reports the end even if the runtime ends, and this task with it.
    let sink = EndingSink(sink);
    let received = async {
        loop {
            match messages.recv().await {
                Ok(Message { channel, value, .. }) => {
                    sink.0.message(&channel, &value.as_str().unwrap_or_default());
                }
                // Some messages are missing, and their channels are unknown.
                Err(RecvError::Lagged(_)) | Err(RecvError::Closed) => return,
            }
        }
    };
    select(pin!(received), &mut own.task).await;
}

/// Reports the end of the connection when it is dropped.
struct EndingSink(PubSubSink);

impl Drop for EndingSink {
    fn drop(&mut self) {
        self.0.end();
    }
}
