//! How callers wait: they poll, and a notification wakes them earlier.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lockage_core::flow::Polling;

use crate::error::StoreError;
use crate::key::Key;
use crate::notifications::{Listener, Wake};
use crate::runtime::{Runtime, within};

/// How callers wait.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) poll: Duration,
    /// Subscribes to notifications, if there are any.
    pub(super) listen: Option<Arc<Listen>>,
}

pub(super) type Listen = dyn Fn(Key, Wake) -> Listening + Send + Sync;

pub(super) type Listening = BoxFuture<'static, Result<Listener, StoreError>>;

/// When a refused caller asks again.
#[derive(Clone, Copy)]
pub(super) struct NextAttempt {
    /// Surely within this time, and usually long before.
    pub(super) within: Duration,
    /// Whether the caller listens for a notification.
    is_notified: bool,
}

/// One caller's wait.
pub(super) struct Wait<'a, R> {
    runtime: &'a R,
    key: &'a Key,
    wake: Wake,
    listen: Option<&'a Listen>,
    polling: Polling,
    listener: Option<Listener>,
}

impl Waiting {
    /// Begins to wait, until `deadline` if there is one.
    pub(super) fn begin<'a, R: Runtime>(
        &'a self,
        runtime: &'a R,
        key: &'a Key,
        wake: Wake,
        deadline: Option<Duration>,
    ) -> Wait<'a, R> {
        let polling = match self.listen {
            None => Polling::new(self.poll, deadline),
            Some(_) => Polling::steady(self.poll, deadline),
        };
        Wait { runtime, key, wake, listen: self.listen.as_deref(), polling, listener: None }
    }

    /// Returns the next attempt of a waiter whose calls take `timeout` at most, as sent to the store.
    pub(super) fn next_attempt(&self, timeout: Duration) -> NextAttempt {
        // A caller that sleeps for a poll and then makes a call is back before that.
        let within = self.poll.saturating_mul(2).saturating_add(timeout);
        NextAttempt { within, is_notified: self.listen.is_some() }
    }
}

impl NextAttempt {
    /// The caller gives up.
    pub(super) const NONE: NextAttempt = NextAttempt { within: Duration::ZERO, is_notified: false };

    /// Returns for how long the caller expects notifications.
    pub(super) fn notified_within(self) -> Duration {
        if self.is_notified { self.within } else { Duration::ZERO }
    }
}

impl<R: Runtime> Wait<'_, R> {
    /// Sleeps after a refusal until it is time to ask again, and returns whether there is time for that. The refused
    /// thing is free in `free_in` at the latest.
    pub(super) async fn pause(&mut self, free_in: Duration) -> bool {
        let (runtime, random) = (self.runtime, self.runtime.random());
        let Some(sleep) = self.polling.after(free_in, runtime.now(), random) else { return false };
        match (&mut self.listener, self.listen) {
            (Some(listener), _) => drop(within(runtime, sleep, listener.next()).await),
            (None, None) => runtime.sleep(sleep).await,
            (None, Some(listen)) => match listen(self.key.clone(), self.wake).await {
                // An immediate attempt sees everything that happened before it listened.
                Ok(new) => self.listener = Some(new),
                Err(_) => runtime.sleep(sleep).await,
            },
        }
        true
    }

    /// Ends the wait of a caller that leaves nothing to another. Dropping it without this wakes the next waiter.
    pub(super) fn done(self) {
        self.listener.into_iter().for_each(Listener::done);
    }
}
