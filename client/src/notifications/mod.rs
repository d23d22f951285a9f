//! Wake-ups: a waiter for a key sleeps until something is published for it.
//!
//! A script that makes room for others (a release, say) publishes to its key's channel, which has the key's own name
//! and so is on the key's node in a cluster. It uses `SPUBLISH` if the server has it (from 7.0 on, in a cluster or
//! not), and `PUBLISH` before. Listeners find out which by the same lines of Lua (`publish.lua`). In memory, the
//! store's own commands return which listeners to notify ([`Command::publishes`](lockage_core::Command::publishes)).
//!
//! A message is empty, or names its listener ([`Wake::Named`]).
//!
//! A store subscribes to a channel once, on one connection for all channels, however many listeners it has
//! ([`Subscriptions`]). A listener has one flag for messages, not a queue.
//!
//! Nothing is spawned here: all waiters drive the subscription, and one attempt serves all. A lost connection loses all
//! subscriptions. Waiters restore them, and then get [`Notification::Lost`], since they may have missed something. The
//! next wait repeats a failed attempt, not at once, so that an absent server is not flooded.
//!
//! A server that is cut off, or that no longer has the key's slot, may stay silent. After several waits in a row
//! without a signal, waiters therefore restore the subscription as well.
//!
//! So a message can be lost, and none is promised: callers bound their wait, and then look for themselves.

mod channel;
mod listener;
#[cfg(all(test, loom))]
mod loom_tests;
mod subscriptions;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use crate::error::StoreError;
use crate::key::Key;
use crate::retry_store::RetryStore;
use crate::runtime::{Runtime, within};
use crate::store::Store;

pub use listener::Listener;
pub use subscriptions::{
    SubscribeError, Subscriber, Subscribing, SubscriptionSink, SubscriptionSinks, Subscriptions,
};

/// A store that notifies when something was published for a key.
pub trait Notifications: Store {
    /// Listens for the key. Messages published after this has returned arrive, unless the subscription is lost
    /// meanwhile; then [`Notification::Lost`] arrives once there is a new one.
    ///
    /// # Errors
    /// [`StoreError::NotDone`] if no subscription is available. A waiter can still poll.
    fn listen(
        &self,
        key: &Key,
        wake: Wake,
    ) -> impl Future<Output = Result<Listener, StoreError>> + Send;
}

/// Why a listener wakes. In each case it has to look for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Something was published, once or more often.
    Message,
    /// The subscription was lost and restored: something may have been missed.
    Lost,
}

/// Which messages wake a listener. [`Notification::Lost`] wakes all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Messages without a name, if this listener has listened the longest of those in this process with `One` or
    /// `Named`. For listeners that all want one thing. See [`Listener::done`].
    One,
    /// As [`Wake::One`], and messages for this name, such as an owner that waits in line for a lock
    /// ([`OwnerId::as_u128`](lockage_core::lock::OwnerId::as_u128)).
    Named(u128),
    /// All messages.
    All,
}

impl Wake {
    /// Returns whether a message without a name may be for this listener.
    fn is_one(self) -> bool {
        self != Wake::All
    }
}

impl<S: Notifications> Notifications for &S {
    fn listen(
        &self,
        key: &Key,
        wake: Wake,
    ) -> impl Future<Output = Result<Listener, StoreError>> + Send {
        (**self).listen(key, wake)
    }
}

impl<S: Notifications> Notifications for Arc<S> {
    fn listen(
        &self,
        key: &Key,
        wake: Wake,
    ) -> impl Future<Output = Result<Listener, StoreError>> + Send {
        (**self).listen(key, wake)
    }
}

/// Within the timeout of a call.
impl<S: Notifications, R: Runtime> Notifications for RetryStore<S, R> {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        let timeout = self.timeout();
        let listener = within(self.runtime(), timeout, self.store().listen(key, wake)).await;
        listener.unwrap_or_else(|| Err(StoreError::NotDone(self.no_answer(timeout, 1, None))))
    }
}
