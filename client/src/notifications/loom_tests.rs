//! Every interleaving of listeners with messages and losses. Run with `RUSTFLAGS="--cfg loom" cargo test --release -p
//! lockage --lib --target-dir target/loom`. A listener that misses a signal waits for ever, which loom calls a
//! deadlock.

use futures_util::FutureExt;
use loom::future::block_on;
use loom::thread;

use super::subscriptions::{
    Subscriber, Subscribing, SubscriptionSink, SubscriptionSinks, Subscriptions,
};
use super::{Listener, Notification, Wake};

const CHANNEL: &str = "lock:{a}";

/// A server that always answers.
struct AlwaysThere;

impl Subscriber for AlwaysThere {
    fn subscribe(&self, _channel: &str) -> Subscribing {
        async { Ok(()) }.boxed()
    }

    fn unsubscribe(&self, _channel: &str) {}
}

/// Subscriptions with a connection.
fn subscriptions() -> (Subscriptions, SubscriptionSink) {
    let mut sinks: Option<SubscriptionSinks> = None;
    let channels = Subscriptions::new(|of_these| {
        sinks = Some(of_these);
        AlwaysThere
    });
    let sink = sinks.expect("they were given").open();
    (channels, sink)
}

fn listen(channels: &Subscriptions, wake: Wake) -> Listener {
    block_on(channels.listen(CHANNEL, wake)).unwrap()
}

/// L12: a message that is published after a waiter listens wakes it, whether or not it waits already.
#[test]
fn l12_a_message_is_not_missed() {
    loom::model(|| {
        let (channels, sink) = subscriptions();
        let mut listener = listen(&channels, Wake::All);
        let publisher = thread::spawn(move || sink.message(CHANNEL, ""));
        assert_eq!(block_on(listener.next()), Notification::Message);
        publisher.join().unwrap();
    });
}

/// L12: a message for one of several listeners is not lost with a listener that leaves at that time.
#[test]
fn l12_a_dropped_listener_passes_its_message_on() {
    loom::model(|| {
        let (channels, sink) = subscriptions();
        let (first, mut second) = (listen(&channels, Wake::One), listen(&channels, Wake::One));
        let publisher = thread::spawn(move || sink.message(CHANNEL, ""));
        drop(first);
        assert_eq!(block_on(second.next()), Notification::Message);
        publisher.join().unwrap();
    });
}

/// A loss is reported once the subscription is restored, whatever is published meanwhile.
#[test]
fn a_lost_subscription_is_reported() {
    loom::model(|| {
        let (channels, sink) = subscriptions();
        let mut listener = listen(&channels, Wake::All);
        let connection = thread::spawn(move || sink.end());
        assert_eq!(block_on(listener.next()), Notification::Lost);
        connection.join().unwrap();
    });
}

/// Two listeners that come at the same time share one channel, and the last to leave ends it.
#[test]
fn concurrent_listeners_leave_no_subscription() {
    loom::model(|| {
        let (channels, _feed) = subscriptions();
        let others = channels.clone();
        let other = thread::spawn(move || drop(listen(&others, Wake::One)));
        drop(listen(&channels, Wake::One));
        other.join().unwrap();
        assert_eq!(format!("{channels:?}"), "{}");
    });
}
