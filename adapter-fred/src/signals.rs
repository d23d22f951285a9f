//! Listening to channels, through a client of its own.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::config::{Config, Options};
use fred::types::{ClusterHash, CustomCommand, Message, Value};
use fred::util::redis_keyslot;
use futures_util::FutureExt;
use futures_util::future::select;
use lockage::adapter::{
    Channels, Feed, Feeds, Renewed, SubscribeError, Subscriber, Subscribing, Verdict,
};
use lockage_lua::SHARDED_CHANNELS;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

use crate::link::LinkError;
use crate::outcome;
use crate::own::Own;

/// The channels of the server, the master or the cluster of this configuration.
pub(crate) fn of_config(config: Config) -> Channels {
    Channels::new(|feeds: Feeds| {
        Subscriptions(Renewed::new(move || Line::connect(config.clone(), feeds.clone())))
    })
}

/// A client that is made anew once it has lost something.
struct Subscriptions(Renewed<Arc<Line>, Error>);

struct Line {
    client: Client,
    is_sharded: bool,
    feed: Feed,
    /// It has the client's connections.
    pump: JoinHandle<()>,
}

impl Subscriber for Subscriptions {
    fn subscribe(&self, channel: &str) -> Subscribing {
        let (lines, channel) = (self.0.clone(), channel.to_owned());
        async move {
            loop {
                let subscribed = lines
                    .with(|line| async {
                        match line {
                            Ok(line) if line.feed.has_ended() => (None, Verdict::Lost),
                            Ok(line) => {
                                let result = line.subscribe(&channel).await;
                                let verdict = outcome::verdict(&result);
                                (Some(result), verdict)
                            }
                            Err(error) => (Some(Err(LinkError::NotSent(error))), Verdict::Lost),
                        }
                    })
                    .await;
                if let Some(result) = subscribed {
                    let failed = |error: LinkError| Arc::new(error.cause().clone());
                    return result.map(drop).map_err(|error| failed(error) as SubscribeError);
                }
            }
        }
        .boxed()
    }

    fn unsubscribe(&self, channel: &str) {
        if let Some(line) = self.0.made() {
            line.unsubscribe(channel);
        }
    }
}

impl Line {
    async fn connect(config: Config, feeds: Feeds) -> Result<Arc<Self>, Error> {
        let feed = feeds.open();
        let own = Own::listen(config).await?;
        let probe = CustomCommand::new_static("EVAL", ClusterHash::Random, false);
        let sharded: i64 = own.client.custom(probe, vec![SHARDED_CHANNELS, "0"]).await?;
        let client = own.client.clone();
        let pump = tokio::spawn(pump(own, client.message_rx(), feed.clone()));
        Ok(Arc::new(Line { client, is_sharded: sharded == 1, feed, pump }))
    }

    async fn subscribe(&self, channel: &str) -> Result<Value, LinkError> {
        let subscribed = async {
            if self.is_sharded {
                return self.client.ssubscribe(channel).await.map(|()| Value::Null);
            }
            // The client waits for no answer here. The next one on this connection comes after it.
            self.client.subscribe(channel).await?;
            let slot = redis_keyslot(self.client.id().as_bytes());
            let ping = CustomCommand::new_static("PING", ClusterHash::Custom(slot), false);
            self.client.custom::<Value, Value>(ping, vec![]).await
        };
        subscribed.await.map_err(LinkError::Failed)
    }

    fn unsubscribe(&self, channel: &str) {
        // Without a timeout no timer is needed, and to be asked once is to be on the way.
        let options = Options { timeout: Some(Duration::ZERO), ..Options::default() };
        let client = self.client.with_options(&options);
        _ = match self.is_sharded {
            true => client.sunsubscribe(channel).now_or_never(),
            false => client.unsubscribe(channel).now_or_never(),
        };
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// Hands on what the server says, for as long as the client has all its connections.
async fn pump(mut own: Own, mut messages: Receiver<Message>, feed: Feed) {
    let received = async {
        loop {
            match messages.recv().await {
                Ok(Message { channel, value, .. }) => {
                    feed.message(&channel, &value.as_str().unwrap_or_default());
                }
                // Some are missing, and it cannot be said whose.
                Err(RecvError::Lagged(_)) | Err(RecvError::Closed) => return,
            }
        }
    };
    select(pin!(received), &mut own.task).await;
    feed.end();
}
