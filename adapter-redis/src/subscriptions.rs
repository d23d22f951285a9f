//! Listening on one connection after the other.

use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lockage::notifications::{
    SubscribeError, Subscriber, Subscribing, SubscriptionSink, SubscriptionSinks, Subscriptions,
};
use lockage_lua::SHARDED_CHANNELS;

use crate::call::Reply;
use crate::check::until;
use crate::link::{Health, Link, LinkError, REPLY, Request};
use crate::reconnecting::Reconnecting;
use crate::sync::{Mutex, lock};

/// How often a subscription follows a slot to another node, or is requested again.
const REPETITIONS: u32 = 3;

/// A connection that listens, and reports its messages and its end to its [`PubSubSink`].
pub trait PubSub: Link + 'static {
    /// Subscribes to a channel and waits for the confirmation: by `SSUBSCRIBE` if channels are sharded.
    ///
    /// # Errors
    /// As [`Link::send`].
    fn subscribe(
        &self,
        channel: &str,
        is_sharded: bool,
    ) -> impl Future<Output = Result<Reply, LinkError>> + Send {
        async move {
            let name = if is_sharded { "SSUBSCRIBE" } else { "SUBSCRIBE" };
            self.send(&Request::new(name).with(channel)).await
        }
    }

    /// Requests the end of a subscription. The future is polled at once, and again when the connection reports a lost
    /// channel or another subscription ends: maybe outside of a runtime, and not necessarily to its end.
    fn unsubscribe(&self, channel: &str, is_sharded: bool) -> impl Future<Output = ()> + Send;
}

/// The receiver of one listening connection's events. Clones are of the same connection.
#[derive(Clone)]
pub struct PubSubSink {
    sink: SubscriptionSink,
    /// Requests to unsubscribe, which nothing waits for. A client may drop a request whose future is dropped before it
    /// is sent, and takes a limited number at a time.
    leaving: Arc<Mutex<Vec<BoxFuture<'static, ()>>>>,
}

impl PubSubSink {
    /// Reports a message to this channel: see [`SubscriptionSink::message`].
    pub fn message(&self, channel: &str, message: &str) {
        self.sink.message(channel, message);
    }

    /// Reports that this channel is not subscribed to any more.
    pub fn lost(&self, channel: &str) {
        self.sink.lost(channel);
        // If it was unsubscribed from, the client has room for another request.
        self.poll_leaving();
    }

    /// Reports that the connection ended, or lost something, and with it all subscriptions. Repeated calls are
    /// harmless.
    pub fn end(&self) {
        self.sink.end();
    }

    fn leave(&self, unsubscribe: impl Future<Output = ()> + Send + 'static) {
        lock(&self.leaving).push(unsubscribe.boxed());
        self.poll_leaving();
    }

    fn poll_leaving(&self) {
        let mut context = Context::from_waker(Waker::noop());
        lock(&self.leaving).retain_mut(|future| future.poll_unpin(&mut context).is_pending());
    }
}

/// Creates the subscriptions of one connection for all channels, which `connect` makes at the first use, and remakes
/// once it has lost something.
pub fn subscriptions<P: PubSub, F>(
    connect: impl Fn(PubSubSink) -> F + Send + Sync + 'static,
) -> Subscriptions
where
    F: Future<Output = Result<P, LinkError>> + Send + 'static,
{
    let connect = Arc::new(connect);
    Subscriptions::new(|sinks: SubscriptionSinks| {
        Listening(Reconnecting::new(move || {
            let (connect, sinks) = (Arc::clone(&connect), sinks.clone());
            async move {
                let sink = PubSubSink { sink: sinks.open(), leaving: Arc::default() };
                let connection = connect(sink.clone()).await?;
                let probe = Request::new("EVAL").with(SHARDED_CHANNELS).with("0");
                match connection.send(&probe).await? {
                    Reply::Error(error) => Err(LinkError::not_sent(error)),
                    reply => Ok(Arc::new(Connected {
                        connection: Arc::new(connection),
                        sink,
                        is_sharded: reply == Reply::Integer(1),
                        subscribed: Mutex::default(),
                    })),
                }
            }
        }))
    })
}

struct Connected<P> {
    connection: Arc<P>,
    sink: PubSubSink,
    is_sharded: bool,
    /// Channels that the server may have, as far as known here. Valkey answers the end of a subscription without any by
    /// an error, which fred takes for the answer to the next request.
    subscribed: Mutex<HashSet<String>>,
}

struct Listening<P>(Reconnecting<Arc<Connected<P>>>);

impl<P: PubSub> Connected<P> {
    async fn subscribe(&self, channel: &str) -> Result<Reply, LinkError> {
        let mut repetitions = 0;
        lock(&self.subscribed).insert(channel.to_owned());
        loop {
            let result = self.connection.subscribe(channel, self.is_sharded).await;
            let Ok(Reply::Error(error)) = &result else { return result };
            // After `MOVED` the client knows the node. `NOSUB` was the answer to an earlier unsubscription.
            if !matches!(error.code(), "MOVED" | "NOSUB") || repetitions == REPETITIONS {
                lock(&self.subscribed).remove(channel);
                return result;
            }
            repetitions += 1;
        }
    }

    fn unsubscribe(&self, channel: &str) {
        if lock(&self.subscribed).remove(channel) {
            let (connection, channel) = (Arc::clone(&self.connection), channel.to_owned());
            let is_sharded = self.is_sharded;
            self.sink.leave(async move { connection.unsubscribe(&channel, is_sharded).await });
        }
    }
}

impl<P> Drop for Connected<P> {
    fn drop(&mut self) {
        // These requests hold the connection, and it may hold them in its sink.
        let _leaving = std::mem::take(&mut *lock(&self.sink.leaving));
    }
}

impl<P: PubSub> Link for Connected<P> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        self.connection.send(request).await
    }

    fn has_ended(&self) -> bool {
        self.sink.sink.has_ended()
    }
}

impl<P: PubSub> Subscriber for Listening<P> {
    fn subscribe(&self, channel: &str) -> Subscribing {
        let (connections, channel) = (self.0.clone(), channel.to_owned());
        async move {
            let subscribe = async |connected: Arc<Connected<P>>| {
                let result = connected.subscribe(&channel).await;
                let health = Health::of(result.as_ref());
                (result, health)
            };
            let request = Request::new("SUBSCRIBE");
            let subscribing = connections.with(&request, subscribe);
            // A client's timer may be one of a runtime that is blocked, as is the connection then: the next attempt
            // checks that, and makes another one in the runtime of its caller.
            let late = |polled| match polled {
                Poll::Ready(result) => result,
                Poll::Pending => Err(LinkError::not_sent("no reply to a subscription")),
            };
            match until(|| Some(REPLY), subscribing, late).await {
                Ok(Ok(Reply::Error(error))) => Err(Arc::new(error) as SubscribeError),
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) | Err(error) => Err(Arc::new(error) as SubscribeError),
            }
        }
        .boxed()
    }

    fn unsubscribe(&self, channel: &str) {
        if let Some(connected) = self.0.made() {
            connected.unsubscribe(channel);
        }
    }

    fn close(&self) {
        self.0.end();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::MutexGuard;
    use std::time::Instant;

    use lockage::StoreError;
    use lockage::notifications::{Notification, Wake};

    use super::*;
    use crate::clock::simulate_time;

    /// The requests to its connections, with their numbers, and the sink of each.
    #[derive(Clone, Default)]
    struct Server(Arc<Mutex<Seen>>);

    #[derive(Default)]
    struct Seen {
        asked: Vec<String>,
        sinks: Vec<PubSubSink>,
        /// The replies to the next subscriptions, the last one first.
        refuses: Vec<Reply>,
        /// The server has no sharded channels.
        is_old: bool,
        /// The ends of subscriptions are not confirmed.
        hangs: bool,
        dropped: usize,
        /// The connections up to this number answer nothing.
        silent: usize,
    }

    struct Connection {
        server: Server,
        number: usize,
    }

    impl Server {
        fn seen(&self) -> MutexGuard<'_, Seen> {
            self.0.lock().unwrap()
        }

        fn subscriptions(&self) -> Subscriptions {
            let server = self.clone();
            super::subscriptions(move |sink| {
                let server = server.clone();
                async move {
                    server.seen().sinks.push(sink);
                    let number = server.seen().sinks.len();
                    Ok(Connection { server, number })
                }
            })
        }

        fn asked(&self) -> Vec<String> {
            std::mem::take(&mut self.seen().asked)
        }
    }

    impl Link for Connection {
        async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
            if self.number <= self.server.seen().silent {
                return match request.name() {
                    "PING" => Err(LinkError::unanswered("no reply")),
                    _ => std::future::pending().await,
                };
            }
            let channel = request.arguments().next().unwrap_or_default();
            let refused = match request.name() {
                "EVAL" => return Ok(Reply::Integer(i64::from(!self.server.seen().is_old))),
                "SSUBSCRIBE" | "SUBSCRIBE" => {
                    let mut seen = self.server.seen();
                    assert_eq!(seen.is_old, request.name() == "SUBSCRIBE");
                    seen.refuses.pop()
                }
                other => panic!("{other}"),
            };
            let channel = String::from_utf8_lossy(channel);
            self.server.seen().asked.push(format!("{} +{channel}", self.number));
            Ok(refused.unwrap_or(Reply::Other))
        }
    }

    impl PubSub for Connection {
        async fn unsubscribe(&self, channel: &str, is_sharded: bool) {
            assert_eq!(is_sharded, !self.server.seen().is_old);
            self.server.seen().asked.push(format!("{} -{channel}", self.number));
            if self.server.seen().hangs {
                std::future::pending::<()>().await;
            }
        }
    }

    impl Drop for Connection {
        fn drop(&mut self) {
            self.server.seen().dropped += 1;
        }
    }

    #[test]
    fn one_connection_serves_all_channels_until_it_is_over() {
        let server = Server::default();
        let channels = server.subscriptions();
        assert!(server.seen().sinks.is_empty(), "nobody listens");
        let mut first = pollster::block_on(channels.listen("a", Wake::All)).unwrap();
        let second = pollster::block_on(channels.listen("b", Wake::All)).unwrap();
        drop(second);
        assert_eq!(server.asked(), ["1 +a", "1 +b", "1 -b"]);

        let sink = server.seen().sinks[0].clone();
        sink.end();
        assert_eq!(first.next().now_or_never(), Some(Notification::Lost));
        assert_eq!(server.asked(), ["2 +a"], "the one that is over is asked nothing");
        let sink = server.seen().sinks[1].clone();
        sink.message("a", "");
        assert_eq!(first.next().now_or_never(), Some(Notification::Message));
        drop(first);
        assert_eq!(server.asked(), ["2 -a"]);
    }

    #[test]
    fn a_connection_is_made_anew_when_a_subscription_finds_it_lost() {
        let server = Server::default();
        let channels = server.subscriptions();
        for (refusal, next) in [("NOPERM no", "1 +a"), ("MASTERDOWN no", "2 +a")] {
            server.seen().refuses = vec![Reply::error(refusal)];
            assert!(pollster::block_on(channels.listen("a", Wake::All)).is_err());
            server.asked();
            drop(pollster::block_on(channels.listen("a", Wake::All)).unwrap());
            assert_eq!(server.asked()[0], next);
        }
    }

    /// The runtime of the connection may be blocked, and with it the timer of its client.
    #[test]
    fn a_subscription_without_an_answer_ends_and_the_next_one_moves() {
        let begun = Instant::now();
        simulate_time(Some(begun));
        let server = Server::default();
        let channels = server.subscriptions();
        let kept = pollster::block_on(channels.listen("a", Wake::All)).unwrap();
        server.seen().silent = 1;
        let mut context = Context::from_waker(Waker::noop());
        let mut first = Box::pin(channels.listen("b", Wake::All));
        assert!(first.poll_unpin(&mut context).is_pending());
        simulate_time(Some(begun + 2 * REPLY));
        let Poll::Ready(Err(error)) = first.poll_unpin(&mut context) else { panic!("it waits") };
        assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");

        // Its check has no answer either, by the runtime of its caller.
        let next = pollster::block_on(channels.listen("c", Wake::All)).unwrap();
        assert!(server.asked().contains(&"2 +c".to_owned()));
        simulate_time(None);
        drop((kept, next));
    }

    #[test]
    fn a_slot_that_has_moved_is_followed_and_an_answer_to_another_request_is_none() {
        for refusal in
            ["MOVED 1 a:1", "NOSUB 'SUNSUBSCRIBE' command executed not in subscribed mode"]
        {
            let server = Server::default();
            let channels = server.subscriptions();
            server.seen().refuses = vec![Reply::error(refusal)];
            drop(pollster::block_on(channels.listen("a", Wake::All)).unwrap());
            assert_eq!(server.asked(), ["1 +a", "1 +a", "1 -a"]);
            // A slot that is nowhere is not followed for ever.
            server.seen().refuses = vec![Reply::error(refusal); 9];
            assert!(pollster::block_on(channels.listen("a", Wake::All)).is_err());
            assert_eq!(server.asked(), ["1 +a"; REPETITIONS as usize + 1]);
        }
    }

    #[test]
    fn a_connection_ends_although_a_subscription_has_not() {
        let server = Server::default();
        server.seen().hangs = true;
        let channels = server.subscriptions();
        drop(pollster::block_on(channels.listen("a", Wake::All)).unwrap());
        assert_eq!((server.asked().len(), server.seen().dropped), (2, 0));
        channels.close();
        assert_eq!(server.seen().dropped, 1);
    }

    #[test]
    fn channels_of_an_old_server_are_not_sharded() {
        let server = Server::default();
        server.seen().is_old = true;
        let channels = server.subscriptions();
        drop(pollster::block_on(channels.listen("a", Wake::All)).unwrap());
        assert_eq!(server.asked(), ["1 +a", "1 -a"]);
    }

    #[test]
    fn refused_subscriptions_are_not_unsubscribed() {
        let server = Server::default();
        let channels = server.subscriptions();
        server.seen().refuses = vec![Reply::error("NOPERM no")];
        assert!(pollster::block_on(channels.listen("a", Wake::All)).is_err());
        assert_eq!(server.asked(), ["1 +a"]);
        drop(pollster::block_on(channels.listen("a", Wake::All)).unwrap());
        assert_eq!(server.asked(), ["1 +a", "1 -a"]);
    }
}
