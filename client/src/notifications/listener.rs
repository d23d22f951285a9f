//! Listeners to a channel, and their waits.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;

use super::channel::{Attempt, Channel, Waiter};
use super::subscriptions::{Inner, State};
use super::{Notification, Wake};

/// Listens to one channel, until it is dropped.
pub struct Listener {
    channels: Arc<Inner>,
    pub(super) channel: Arc<str>,
    id: u64,
    wake: Wake,
    /// Whether a message woke it alone, and it has not gone on waiting since.
    woken: bool,
}

impl Listener {
    /// Waits for a signal; one since the last wait returns at once. Dropped before its end, it has taken none.
    ///
    /// Callers bound it, then look for themselves, and wait again. An absent store is asked for a subscription once in
    /// each wait.
    pub async fn next(&mut self) -> Notification {
        // A waiter that waits again has looked, and left nothing for another.
        self.woken = false;
        let mut wait = Wait { listener: self, attempt: None, has_failed: false, is_over: false };
        let signal = std::future::poll_fn(|context| wait.poll(context)).await;
        drop(wait);
        self.woken = signal == Notification::Message && self.wake.is_one();
        signal
    }

    /// Ends the listening of a waiter that left nothing for another.
    ///
    /// Without this, dropping a listener that a message woke alone wakes the next one: it may not have looked, or may
    /// have left something.
    pub fn done(mut self) {
        self.woken = false;
    }

    pub(super) fn enter(channels: &Arc<Inner>, channel: &str, wake: Wake) -> Self {
        let channel = Arc::from(channel);
        let mut state = channels.state();
        state.entered += 1;
        let id = state.entered;
        let waiter = Waiter { wake, signal: None, waker: None };
        state.channels.entry(Arc::clone(&channel)).or_default().listeners.insert(id, waiter);
        drop(state);
        Listener { channels: Arc::clone(channels), channel, id, wake, woken: false }
    }

    /// Returns the current or due attempt to subscribe, while there is no subscription.
    pub(super) fn attempt(&self) -> Option<Attempt> {
        let mut state = self.channels.state();
        self.of(&mut state).attempt(|| self.channels.subscriber.subscribe(&self.channel))
    }

    fn of<'s>(&self, state: &'s mut State) -> &'s mut Channel {
        // Invariant: a channel is there for as long as it has a listener.
        state.channels.get_mut(&self.channel).expect("a listener has its channel")
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.channels.state();
        let channel = self.of(&mut state);
        let waiter = channel.listeners.remove(&self.id);
        let unseen = waiter.is_some_and(|waiter| waiter.signal == Some(Notification::Message));
        let next = (self.wake.is_one() && (unseen || self.woken)).then(|| channel.wake_one());
        let is_last = channel.listeners.is_empty();
        let last = is_last.then(|| state.channels.remove(&self.channel));
        if is_last {
            // Under the lock, so that it comes before the next listener's subscription.
            self.channels.subscriber.unsubscribe(&self.channel);
        }
        drop(state);
        // Not under the lock: the drop of an attempt in progress may report back.
        drop(last);
        next.flatten().into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.channel).finish()
    }
}

/// One wait of a listener.
struct Wait<'l> {
    listener: &'l Listener,
    attempt: Option<Attempt>,
    has_failed: bool,
    is_over: bool,
}

impl Wait<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Notification> {
        let listener = self.listener;
        loop {
            // Any waiter has to go on making the subscription.
            if let Some(attempt) = &mut self.attempt
                && let Poll::Ready(result) = attempt.subscribing.poll_unpin(context)
            {
                listener.channels.settle(&listener.channel, attempt, result.is_ok());
                self.has_failed = result.is_err();
                self.attempt = None;
            }
            let mut state = listener.channels.state();
            let waiter = listener.of(&mut state).listeners.get_mut(&listener.id);
            // Invariant: a listener is in its channel until it is dropped.
            let waiter = waiter.expect("a listener is in its channel");
            if let Some(signal) = waiter.signal.take() {
                self.is_over = true;
                return Poll::Ready(signal);
            }
            waiter.waker = Some(context.waker().clone());
            drop(state);
            if self.attempt.is_none() && !self.has_failed {
                self.attempt = listener.attempt();
                if self.attempt.is_some() {
                    continue;
                }
            }
            return Poll::Pending;
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.listener.of(&mut self.listener.channels.state()).silence();
        }
    }
}
