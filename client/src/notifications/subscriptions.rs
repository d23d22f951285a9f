//! The channels of a store, and their listeners.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Waker;

use futures_util::future::BoxFuture;
use lockage_core::lock::OwnerId;

use super::Wake;
use super::channel::{Attempt, Channel};
use super::listener::Listener;
use crate::error::StoreError;
use crate::sync::{AtomicBool, Mutex, MutexGuard, lock};

/// How a store subscribes to channels.
pub trait Subscriber: Send + Sync + 'static {
    /// Subscribes to a channel, or confirms its subscription. The returned future does nothing before it is awaited.
    fn subscribe(&self, channel: &str) -> Subscribing;

    /// Ends a subscription, if there is one, without waiting: before any later call subscribes to the channel. It may
    /// be called anywhere, even without a runtime.
    fn unsubscribe(&self, channel: &str);

    /// Ends the connection, and makes no more: later attempts to subscribe fail.
    fn close(&self) {}
}

/// An attempt to subscribe.
pub type Subscribing = BoxFuture<'static, Result<(), SubscribeError>>;

/// Why there is no subscription.
pub type SubscribeError = Arc<dyn Error + Send + Sync>;

/// The channels of one store. Clones share them.
#[derive(Clone)]
pub struct Subscriptions(Arc<Inner>);

pub(super) struct Inner {
    pub(super) subscriber: Box<dyn Subscriber>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) channels: BTreeMap<Arc<str>, Channel>,
    /// Listeners are numbered in order.
    pub(super) entered: u64,
    /// The sink of the present connection.
    sink: Option<SubscriptionSink>,
}

impl Subscriptions {
    /// Creates subscriptions without channels, for a subscriber whose connections report to these sinks.
    pub fn new<S: Subscriber>(subscriber: impl FnOnce(SubscriptionSinks) -> S) -> Self {
        Subscriptions(Arc::new_cyclic(|inner| Inner {
            subscriber: Box::new(subscriber(SubscriptionSinks(Weak::clone(inner)))),
            state: Mutex::new(State::default()),
        }))
    }

    /// See [`Notifications::listen`](super::Notifications::listen).
    ///
    /// # Errors
    /// [`StoreError::NotDone`] with the subscriber's error.
    pub async fn listen(&self, channel: &str, wake: Wake) -> Result<Listener, StoreError> {
        let listener = Listener::enter(&self.0, channel, wake);
        while let Some(attempt) = listener.attempt() {
            let result = attempt.subscribing.clone().await;
            self.0.settle(&listener.channel, &attempt, result.is_ok());
            result.map_err(|error| StoreError::NotDone(Box::new(error)))?;
        }
        Ok(listener)
    }

    /// Ends the subscriber's connection for good. Listeners then have to poll.
    pub fn close(&self) {
        self.0.subscriber.close();
        let sink = self.0.state().sink.take();
        sink.iter().for_each(SubscriptionSink::end);
    }

    /// Delivers a message of this channel: to listeners by this name, or without one to any.
    pub fn message(&self, channel: &str, name: Option<u128>) {
        self.0.change(channel, |channel| channel.message(name));
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.state().channels.keys()).finish()
    }
}

/// The receiver of a subscriber's connections' events. It keeps nothing alive.
#[derive(Clone)]
pub struct SubscriptionSinks(Weak<Inner>);

impl SubscriptionSinks {
    /// Returns the sink of a connection that is about to be made, in place of the previous one, which has ended.
    pub fn open(&self) -> SubscriptionSink {
        let has_ended = Arc::new(AtomicBool::new(false));
        let inner = Weak::clone(&self.0);
        let sink = SubscriptionSink { inner, has_ended };
        let inner = self.0.upgrade();
        let before = inner.and_then(|inner| inner.state().sink.replace(sink.clone()));
        before.iter().for_each(SubscriptionSink::end);
        sink
    }
}

impl fmt::Debug for SubscriptionSinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionSinks").finish_non_exhaustive()
    }
}

/// The receiver of one connection's events. Clones are of the same connection.
#[derive(Clone)]
pub struct SubscriptionSink {
    inner: Weak<Inner>,
    has_ended: Arc<AtomicBool>,
}

impl SubscriptionSink {
    /// Reports a message to this channel: the name (32 hexadecimal digits) of its listener, or anything else for any
    /// listener.
    pub fn message(&self, channel: &str, message: &str) {
        let name = message.parse().ok().map(OwnerId::as_u128);
        self.change(channel, |channel| channel.message(name));
    }

    /// Reports that this channel is not subscribed to any more.
    pub fn lost(&self, channel: &str) {
        self.change(channel, Channel::lost);
    }

    /// Reports that the connection ended, or lost something, and with it all subscriptions. Repeated calls are
    /// harmless.
    pub fn end(&self) {
        if self.has_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(inner) = self.inner.upgrade() {
            let woken: Vec<Waker> =
                inner.state().channels.values_mut().flat_map(Channel::lost).collect();
            woken.into_iter().for_each(Waker::wake);
        }
    }

    /// Returns whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn change<W: IntoIterator<Item = Waker>>(
        &self,
        channel: &str,
        change: impl FnOnce(&mut Channel) -> W,
    ) {
        if let Some(inner) = self.inner.upgrade()
            && !self.has_ended()
        {
            inner.change(channel, change);
        }
    }
}

impl fmt::Debug for SubscriptionSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionSink")
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Changes a channel that has listeners, and wakes the affected ones.
    fn change<W: IntoIterator<Item = Waker>>(
        &self,
        channel: &str,
        change: impl FnOnce(&mut Channel) -> W,
    ) {
        let woken = self.state().channels.get_mut(channel).map(change);
        woken.into_iter().flatten().for_each(Waker::wake);
    }

    pub(super) fn settle(&self, channel: &str, attempt: &Attempt, stands: bool) {
        self.change(channel, |channel| channel.settle(attempt, stands));
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
