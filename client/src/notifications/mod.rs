//! Wake-ups: a waiter for a key sleeps until something is published for it.
//!
//! A script that makes room for others (a release, say) publishes to its key's channel, which has the
//! key's own name and so lies with the key in a cluster. How it publishes it decides by itself, and
//! listeners find out by the same lines of Lua (`publish.lua`): by `SPUBLISH` where the server has
//! it, from 7.0 on, in a cluster or not, and by `PUBLISH` before. In memory, the store's own commands say
//! whom to tell ([`Command::publishes`](lockage_core::Command::publishes)).
//!
//! A message is empty, or the name of the one whom it is for ([`Wake::Named`]).
//!
//! A store subscribes to a channel once, on one connection for all channels, however many listen
//! ([`Subscriptions`]). Of what was published for a listener there is one flag, not a queue.
//!
//! Nothing is spawned here: all waiters drive what has to be done to subscribe, and one attempt serves
//! all. A lost connection loses all subscriptions; a waiter makes them anew, and once they stand,
//! all are told that something may have been missed. An attempt that fails is made again by the next
//! wait, not at once, so that a server that is away is not beset.
//!
//! A server that is cut off, or that no longer has the key's slot, may say nothing. Several waits in a row
//! without a signal therefore make the subscription anew as well.
//!
//! So a message can be lost, and none is a promise: callers wait for no longer than a bound, and look
//! for themselves then.

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

/// A store that tells when something was published for a key.
pub trait Notifications: Store {
    /// Listens for the key. What is published after this has returned arrives, unless the subscription
    /// is lost meanwhile; then [`Notification::Lost`] arrives once there is a new one.
    ///
    /// # Errors
    /// [`StoreError::NotDone`] where there is no subscription to be had. A waiter can still look
    /// from time to time.
    fn listen(
        &self,
        key: &Key,
        wake: Wake,
    ) -> impl Future<Output = Result<Listener, StoreError>> + Send;
}

/// Why a listener wakes. Either way it has to look for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Something was published, once or more often.
    Message,
    /// The subscription was lost, and stands again: something may have been missed.
    Lost,
}

/// Which messages wake a listener. [`Notification::Lost`] wakes all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Those that are for nobody by name, where of those in the process who listen so, or by a name, this is the
    /// one that has listened longest; for those who all want the same, of which there is one. See
    /// [`Listener::done`].
    One,
    /// As [`Wake::One`], and those that are for this name: that of an owner that waits for a lock in line, say
    /// ([`OwnerId::as_u128`](lockage_core::lock::OwnerId::as_u128)).
    Named(u128),
    /// Each.
    All,
}

impl Wake {
    /// Whether a message for nobody by name is for one of those who listen so.
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
