//! Listening by one connection after the other.

use std::error::Error;
use std::sync::Arc;

use futures_util::FutureExt;

use super::{Renewed, Verdict};
use crate::notifications::{Channels, Feed, Feeds, SubscribeError, Subscriber, Subscribing};

/// A connection that listens, and tells by its [`Feed`] what it hears and when it is over.
pub trait Line: Send + Sync + 'static {
    /// The client's error.
    type Error: Error + Clone + Send + Sync + 'static;

    /// What it was given when it was made.
    fn feed(&self) -> &Feed;

    /// Subscribes to a channel, and says what that told of the connection.
    fn subscribe(
        &self,
        channel: &str,
    ) -> impl Future<Output = (Result<(), Self::Error>, Verdict)> + Send;

    /// See [`Subscriber::unsubscribe`].
    fn unsubscribe(&self, channel: &str);
}

impl Channels {
    /// Channels that one connection listens to, which `connect` makes, and makes anew once it has lost
    /// something.
    pub fn by<L, F>(connect: impl Fn(Feed) -> F + Send + Sync + 'static) -> Self
    where
        L: Line,
        F: Future<Output = Result<L, L::Error>> + Send + 'static,
    {
        let connect = Arc::new(connect);
        Channels::new(|feeds: Feeds| {
            Lines(Renewed::new(move || {
                let (connect, feeds) = (Arc::clone(&connect), feeds.clone());
                async move { connect(feeds.open()).await.map(Arc::new) }
            }))
        })
    }
}

struct Lines<L: Line>(Renewed<Arc<L>, L::Error>);

impl<L: Line> Subscriber for Lines<L> {
    fn subscribe(&self, channel: &str) -> Subscribing {
        let (lines, channel) = (self.0.clone(), channel.to_owned());
        async move {
            loop {
                let subscribe = async |line: Result<Arc<L>, L::Error>| match line {
                    Ok(line) if line.feed().has_ended() => (None, Verdict::Lost),
                    Ok(line) => {
                        let (result, verdict) = line.subscribe(&channel).await;
                        (Some(result), verdict)
                    }
                    Err(error) => (Some(Err(error)), Verdict::Lost),
                };
                if let Some(result) = lines.with(subscribe).await {
                    return result.map_err(|error| Arc::new(error) as SubscribeError);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Mutex, MutexGuard};

    use super::*;
    use crate::notifications::{Notification, Wake};

    /// What its connections were asked, with their numbers, and the feed of each.
    #[derive(Clone, Default)]
    struct Server(Arc<Mutex<Seen>>);

    #[derive(Default)]
    struct Seen {
        asked: Vec<String>,
        feeds: Vec<Feed>,
        refuses: Option<Verdict>,
    }

    struct Connection {
        server: Server,
        feed: Feed,
        number: usize,
    }

    impl Server {
        fn seen(&self) -> MutexGuard<'_, Seen> {
            self.0.lock().unwrap()
        }

        fn channels(&self) -> Channels {
            let server = self.clone();
            Channels::by(move |feed| {
                let server = server.clone();
                async move {
                    server.seen().feeds.push(feed.clone());
                    let number = server.seen().feeds.len();
                    Ok(Connection { server, feed, number })
                }
            })
        }

        fn asked(&self) -> Vec<String> {
            std::mem::take(&mut self.seen().asked)
        }
    }

    impl Line for Connection {
        type Error = std::fmt::Error;

        fn feed(&self) -> &Feed {
            &self.feed
        }

        async fn subscribe(&self, channel: &str) -> (Result<(), std::fmt::Error>, Verdict) {
            let mut seen = self.server.seen();
            seen.asked.push(format!("{} +{channel}", self.number));
            match seen.refuses.take() {
                Some(verdict) => (Err(std::fmt::Error), verdict),
                None => (Ok(()), Verdict::Good),
            }
        }

        fn unsubscribe(&self, channel: &str) {
            self.server.seen().asked.push(format!("{} -{channel}", self.number));
        }
    }

    #[test]
    fn one_connection_serves_all_channels_until_it_is_over() {
        let server = Server::default();
        let channels = server.channels();
        assert!(server.seen().feeds.is_empty(), "nobody listens");
        let mut first = pollster::block_on(channels.listen("a", Wake::All)).unwrap();
        let second = pollster::block_on(channels.listen("b", Wake::All)).unwrap();
        drop(second);
        assert_eq!(server.asked(), ["1 +a", "1 +b", "1 -b"]);

        let feed = server.seen().feeds[0].clone();
        feed.end();
        assert_eq!(first.next().now_or_never(), Some(Notification::Lost));
        assert_eq!(server.asked(), ["2 +a"], "the one that is over is asked nothing");
        let feed = server.seen().feeds[1].clone();
        feed.message("a", "");
        assert_eq!(first.next().now_or_never(), Some(Notification::Message));
        drop(first);
        assert_eq!(server.asked(), ["2 -a"]);
    }

    #[test]
    fn a_connection_is_made_anew_when_a_subscription_finds_it_lost() {
        let server = Server::default();
        let channels = server.channels();
        for (verdict, next) in [(Verdict::Good, "1 +a"), (Verdict::Lost, "2 +a")] {
            server.seen().refuses = Some(verdict);
            assert!(pollster::block_on(channels.listen("a", Wake::All)).is_err());
            server.asked();
            drop(pollster::block_on(channels.listen("a", Wake::All)).unwrap());
            assert_eq!(server.asked()[0], next);
        }
    }
}
