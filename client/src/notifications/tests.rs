//! Waits, polled by hand.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;

use super::channel::SILENCES;
use super::subscriptions::{
    SubscribeError, Subscriber, Subscribing, SubscriptionSink, SubscriptionSinks, Subscriptions,
};
use super::{Listener, Notification, Wake};
use crate::error::StoreError;

const CHANNEL: &str = "lock:{a}";

/// A server whose answers the test sets, with the requests that it got.
#[derive(Clone, Default)]
struct Server(Arc<Seen>);

#[derive(Default)]
struct Seen {
    is_away: AtomicBool,
    is_slow: AtomicBool,
    subscribed: AtomicU32,
    unsubscribed: AtomicU32,
    sink: Mutex<Option<SubscriptionSink>>,
}

struct Connection {
    server: Server,
    sinks: SubscriptionSinks,
}

impl Subscriber for Connection {
    fn subscribe(&self, _channel: &str) -> Subscribing {
        let (server, sinks) = (self.server.clone(), self.sinks.clone());
        async move {
            let seen = &server.0;
            if seen.sink.lock().unwrap().as_ref().is_none_or(SubscriptionSink::has_ended) {
                let sink = sinks.open();
                *seen.sink.lock().unwrap() = Some(sink);
            }
            seen.subscribed.fetch_add(1, Ordering::Relaxed);
            if seen.is_slow.swap(false, Ordering::Relaxed) {
                let mut is_ready = false;
                let pending = |_: &mut Context<'_>| match std::mem::replace(&mut is_ready, true) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                };
                std::future::poll_fn(pending).await;
            }
            match seen.is_away.load(Ordering::Relaxed) {
                true => Err(Arc::new(std::io::Error::other("away")) as SubscribeError),
                false => Ok(()),
            }
        }
        .boxed()
    }

    fn unsubscribe(&self, _channel: &str) {
        self.server.0.unsubscribed.fetch_add(1, Ordering::Relaxed);
    }

    fn close(&self) {
        self.server.0.is_away.store(true, Ordering::Relaxed);
    }
}

impl Server {
    fn subscriptions(&self) -> Subscriptions {
        Subscriptions::new(|sinks| Connection { server: self.clone(), sinks })
    }

    fn sink(&self) -> SubscriptionSink {
        self.0.sink.lock().unwrap().clone().unwrap()
    }

    fn counts(&self) -> (u32, u32) {
        let seen = &self.0;
        (seen.subscribed.load(Ordering::Relaxed), seen.unsubscribed.load(Ordering::Relaxed))
    }
}

fn listen(channels: &Subscriptions, wake: Wake) -> Listener {
    pollster::block_on(channels.listen(CHANNEL, wake)).unwrap()
}

/// Waits, and gives up at once if there is no signal.
fn look(listener: &mut Listener) -> Option<Notification> {
    listener.next().now_or_never()
}

#[test]
fn all_listeners_of_a_channel_share_a_subscription() {
    let server = Server::default();
    let channels = server.subscriptions();
    let mut both = [listen(&channels, Wake::All), listen(&channels, Wake::All)];
    assert_eq!(both.each_mut().map(look), [None, None]);
    channels.message("lock:{b}", None);
    assert_eq!(both.each_mut().map(look), [None, None]);
    channels.message(CHANNEL, None);
    channels.message(CHANNEL, None);
    assert_eq!(
        both.each_mut().map(look),
        [Some(Notification::Message); 2],
        "one flag, not a queue"
    );
    assert_eq!(both.each_mut().map(look), [None, None]);
    let [first, second] = both;
    drop(first);
    assert_eq!(server.counts(), (1, 0));
    drop(second);
    assert_eq!(server.counts(), (1, 1));
}

#[test]
fn a_message_wakes_the_one_that_has_listened_longest() {
    let channels = Server::default().subscriptions();
    let mut first = listen(&channels, Wake::One);
    let mut second = listen(&channels, Wake::One);
    let mut all = listen(&channels, Wake::All);
    channels.message(CHANNEL, None);
    channels.message(CHANNEL, None);
    assert_eq!(look(&mut second), None);
    assert_eq!(look(&mut all), Some(Notification::Message));
    assert_eq!(look(&mut first), Some(Notification::Message));
    // It has looked in vain, waits again, and leaves nothing behind.
    assert_eq!([&mut first, &mut second].map(look), [None, None]);
    drop(first);
    assert_eq!(look(&mut second), None);
}

#[test]
fn a_waiter_that_gives_up_wakes_the_next() {
    let channels = Server::default().subscriptions();
    let [first, mut second, mut third, mut fourth] = [(); 4].map(|()| listen(&channels, Wake::One));
    channels.message(CHANNEL, None);
    // Before it has seen the message.
    drop(first);
    assert_eq!(look(&mut second), Some(Notification::Message));
    assert_eq!(look(&mut third), None);
    // After it has, and perhaps before it has looked.
    drop(second);
    assert_eq!(look(&mut third), Some(Notification::Message));
    // A listener that has taken everything.
    third.done();
    assert_eq!(look(&mut fourth), None);
    // One that was never woken.
    let fifth = listen(&channels, Wake::One);
    drop(fifth);
    assert_eq!(look(&mut fourth), None);
}

/// A message for bob wakes bob and the listeners to all messages; one for an absent listener wakes only the latter.
#[test]
fn named_messages_wake_only_the_named_listener() {
    let server = Server::default();
    let channels = server.subscriptions();
    let [alice, bob] = [0xa11ce, 0xb0b_u128];
    let kinds = [Wake::One, Wake::Named(alice), Wake::Named(bob), Wake::All];
    let mut all = kinds.map(|wake| listen(&channels, wake));
    let heard = Some(Notification::Message);
    channels.message(CHANNEL, Some(bob));
    assert_eq!(all.each_mut().map(look), [None, None, heard, heard]);
    channels.message(CHANNEL, Some(7));
    assert_eq!(all.each_mut().map(look), [None, None, None, heard]);
    // As a server sends it.
    server.sink().message(CHANNEL, "000000000000000000000000000a11ce");
    assert_eq!(all.each_mut().map(look), [None, heard, None, heard]);
    for nobody in ["", "a11ce", "hello"] {
        server.sink().message(CHANNEL, nobody);
        assert_eq!(all.each_mut().map(look), [heard, None, None, heard], "{nobody:?}");
    }
}

/// A listener with a name may have no place in line: a message without a name is for one of all.
#[test]
fn a_message_without_a_name_wakes_one_with_or_without_a_name() {
    let channels = Server::default().subscriptions();
    let mut first = listen(&channels, Wake::Named(1));
    let mut second = listen(&channels, Wake::One);
    channels.message(CHANNEL, None);
    assert_eq!([&mut first, &mut second].map(look), [Some(Notification::Message), None]);
    drop(first);
    assert_eq!(look(&mut second), Some(Notification::Message), "it may have left something");
    // One by a name is woken by it also while another is on its way to look.
    let mut third = listen(&channels, Wake::Named(3));
    channels.message(CHANNEL, None);
    channels.message(CHANNEL, Some(3));
    assert_eq!([&mut second, &mut third].map(look), [Some(Notification::Message); 2]);
}

#[test]
fn a_wait_that_is_dropped_takes_no_signal() {
    let channels = Server::default().subscriptions();
    let mut listener = listen(&channels, Wake::One);
    {
        let mut wait = Box::pin(listener.next());
        assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        channels.message(CHANNEL, None);
    }
    assert_eq!(look(&mut listener), Some(Notification::Message));
}

#[test]
fn a_waiter_is_woken() {
    let channels = Server::default().subscriptions();
    let mut listener = listen(&channels, Wake::One);
    let sender = channels.clone();
    let thread = std::thread::spawn(move || pollster::block_on(listener.next()));
    // Before it waits or while it does.
    sender.message(CHANNEL, None);
    assert_eq!(thread.join().unwrap(), Notification::Message);
}

#[test]
fn each_listener_gets_one_loss_after_the_resubscription() {
    let server = Server::default();
    let channels = server.subscriptions();
    let mut both = [listen(&channels, Wake::One), listen(&channels, Wake::All)];
    server.0.is_away.store(true, Ordering::Relaxed);
    server.sink().end();
    assert_eq!(both.each_mut().map(look), [None, None]);
    server.0.is_away.store(false, Ordering::Relaxed);
    assert_eq!(both.each_mut().map(look), [Some(Notification::Lost); 2]);
    assert_eq!(both.each_mut().map(look), [None, None]);
    assert_eq!(server.counts(), (1 + 2 + 1, 0));
    server.sink().lost(CHANNEL);
    assert_eq!(both.each_mut().map(look), [Some(Notification::Lost); 2]);
}

#[test]
fn a_connection_that_is_over_says_nothing_more() {
    let server = Server::default();
    let channels = server.subscriptions();
    let mut listener = listen(&channels, Wake::One);
    let old = server.sink();
    old.end();
    assert_eq!(look(&mut listener), Some(Notification::Lost));
    old.end();
    old.lost(CHANNEL);
    assert_eq!(look(&mut listener), None);
    assert_eq!(server.counts(), (2, 0));
}

#[test]
fn another_connection_is_the_end_of_the_one_before() {
    let server = Server::default();
    let channels = server.subscriptions();
    let mut listener = listen(&channels, Wake::One);
    // It was silent and is replaced, which no message reports.
    let old = server.0.sink.lock().unwrap().take().unwrap();
    let other = pollster::block_on(channels.listen("lock:{b}", Wake::One)).unwrap();
    assert!(old.has_ended());
    assert_eq!(look(&mut listener), Some(Notification::Lost));
    drop(other);
}

#[test]
fn a_server_that_is_away_is_asked_once_in_a_wait() {
    let server = Server::default();
    let channels = server.subscriptions();
    let mut listener = listen(&channels, Wake::One);
    server.0.is_away.store(true, Ordering::Relaxed);
    server.sink().end();
    let mut wait = Box::pin(listener.next());
    for _ in 0..3 {
        assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(server.counts(), (2, 0));
    drop(wait);
    assert_eq!(look(&mut listener), None);
    assert_eq!(server.counts(), (3, 0));
    let error = pollster::block_on(channels.listen("lock:{b}", Wake::One)).unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
}

#[test]
fn a_loss_overtakes_an_attempt() {
    let server = Server::default();
    let channels = server.subscriptions();
    let mut listener = listen(&channels, Wake::One);
    server.sink().end();
    server.0.is_slow.store(true, Ordering::Relaxed);
    let mut wait = Box::pin(listener.next());
    let mut context = Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(&mut context).is_pending());
    server.sink().end();
    assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(Notification::Lost));
    assert_eq!(server.counts(), (3, 0), "the second attempt was worth nothing");
}

/// The end of an attempt that was lost meanwhile says nothing of the next one.
#[test]
fn an_attempt_settles_itself_alone() {
    let server = Server::default();
    let channels = server.subscriptions();
    let [mut first, mut second] = [listen(&channels, Wake::One), listen(&channels, Wake::One)];
    let mut context = Context::from_waker(Waker::noop());
    let [mut one, mut other] = [&mut first, &mut second].map(|it| Box::pin(it.next()));
    server.sink().end();
    server.0.is_slow.store(true, Ordering::Relaxed);
    assert!(one.as_mut().poll(&mut context).is_pending());
    server.sink().end();
    // It sees the end of the first attempt, and begins another one.
    server.0.is_slow.store(true, Ordering::Relaxed);
    assert!(other.as_mut().poll(&mut context).is_pending());
    assert_eq!(server.counts(), (3, 0));
    server.0.is_away.store(true, Ordering::Relaxed);
    assert!(one.as_mut().poll(&mut context).is_pending(), "there is no subscription");
}

#[test]
fn a_subscription_attempt_outlives_its_first_waiter() {
    let server = Server::default();
    let channels = server.subscriptions();
    let mut both = [listen(&channels, Wake::One), listen(&channels, Wake::One)];
    server.sink().end();
    server.0.is_slow.store(true, Ordering::Relaxed);
    // The first begins, and gives up.
    let [first, second] = &mut both;
    assert_eq!(look(first), None);
    assert_eq!(look(second), Some(Notification::Lost));
    assert_eq!(server.counts(), (2, 0));
}

#[test]
fn long_silences_renew_the_subscription_without_a_loss() {
    let server = Server::default();
    let channels = server.subscriptions();
    let mut listener = listen(&channels, Wake::One);
    // Earlier losses are not reported again.
    server.sink().end();
    assert_eq!(look(&mut listener), Some(Notification::Lost));
    for _ in 0..SILENCES - 1 {
        assert_eq!(look(&mut listener), None);
    }
    channels.message(CHANNEL, None);
    assert_eq!(look(&mut listener), Some(Notification::Message));
    for _ in 0..SILENCES {
        assert_eq!(look(&mut listener), None);
    }
    assert_eq!(server.counts(), (2, 0));
    assert_eq!(look(&mut listener), None);
    assert_eq!(server.counts(), (3, 0));
    // While there was none, something may have been missed.
    for _ in 0..SILENCES - 1 {
        assert_eq!(look(&mut listener), None);
    }
    server.0.is_away.store(true, Ordering::Relaxed);
    assert_eq!(look(&mut listener), None);
    server.0.is_away.store(false, Ordering::Relaxed);
    assert_eq!(look(&mut listener), Some(Notification::Lost));
}

#[test]
fn listeners_of_closed_subscriptions_have_to_poll() {
    let server = Server::default();
    let channels = server.subscriptions();
    let mut listener = listen(&channels, Wake::One);
    channels.close();
    assert!(server.sink().has_ended());
    assert!(format!("{:?}", server.sink()).contains("true"));
    assert_eq!(look(&mut listener), None);
    let error = pollster::block_on(channels.listen("lock:{b}", Wake::One)).unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
}
