//! Listening to channels, through a client of its own.

use std::pin::pin;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::config::{Config, Options};
use fred::types::{ClusterHash, CustomCommand, Message, Value};
use fred::util::redis_keyslot;
use futures_util::FutureExt;
use futures_util::future::select;
use lockage::adapter::{Channels, Feed, Line, Verdict};
use lockage_lua::SHARDED_CHANNELS;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

use crate::link::LinkError;
use crate::outcome;
use crate::own::Own;

/// The channels of the server, the master or the cluster of this configuration.
pub(crate) fn of_config(config: Config) -> Channels {
    Channels::by(move |feed| Listening::connect(config.clone(), feed))
}

struct Listening {
    client: Client,
    is_sharded: bool,
    feed: Feed,
    /// It has the client's connections.
    pump: JoinHandle<()>,
}

impl Listening {
    async fn connect(config: Config, feed: Feed) -> Result<Self, Error> {
        let own = Own::listen(config).await?;
        let probe = CustomCommand::new_static("EVAL", ClusterHash::Random, false);
        let sharded: i64 = own.client.custom(probe, vec![SHARDED_CHANNELS, "0"]).await?;
        let client = own.client.clone();
        let pump = tokio::spawn(pump(own, client.message_rx(), feed.clone()));
        Ok(Listening { client, is_sharded: sharded == 1, feed, pump })
    }
}

impl Line for Listening {
    type Error = Error;

    fn feed(&self) -> &Feed {
        &self.feed
    }

    async fn subscribe(&self, channel: &str) -> (Result<(), Error>, Verdict) {
        let subscribed = async {
            if self.is_sharded {
                return self.client.ssubscribe(channel).await;
            }
            // The client waits for no answer here. The next one on this connection comes after it.
            self.client.subscribe(channel).await?;
            let slot = redis_keyslot(self.client.id().as_bytes());
            let ping = CustomCommand::new_static("PING", ClusterHash::Custom(slot), false);
            self.client.custom::<Value, Value>(ping, vec![]).await.map(drop)
        };
        let result = subscribed.await.map_err(LinkError::Failed);
        let verdict = outcome::verdict(&result);
        (result.map_err(|error| error.cause().clone()), verdict)
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

impl Drop for Listening {
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
