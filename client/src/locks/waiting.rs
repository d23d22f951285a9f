//! How callers wait: they ask from time to time, or when they are told.

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
    /// Where they are told when there is something to ask for.
    pub(super) listen: Option<Arc<Listen>>,
}

pub(super) type Listen = dyn Fn(Key, Wake) -> Listening + Send + Sync;

pub(super) type Listening = BoxFuture<'static, Result<Listener, StoreError>>;

/// When a caller who is refused asks again; by default never.
#[derive(Clone, Copy, Default)]
pub(super) struct Back {
    /// He is surely back within this time, and long before.
    pub(super) within: Duration,
    /// Whether he is to be told when it is free.
    pub(super) is_told: bool,
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

    /// What the store is told of one who waits, and whose calls take so long at most.
    pub(super) fn back(&self, timeout: Duration) -> Back {
        // Who sleeps for a poll and then makes a call is back before that.
        let within = self.poll.saturating_mul(2).saturating_add(timeout);
        Back { within, is_told: self.listen.is_some() }
    }
}

impl Back {
    /// For how long somebody is to be told.
    pub(super) fn told_within(self) -> Duration {
        if self.is_told { self.within } else { Duration::ZERO }
    }
}

impl<R: Runtime> Wait<'_, R> {
    /// Sleeps after a refusal, of what is free in `free_in` at the latest, until it is time to ask again; tells
    /// whether there is time for that.
    pub(super) async fn pause(&mut self, free_in: Duration) -> bool {
        let (runtime, random) = (self.runtime, self.runtime.random());
        let Some(sleep) = self.polling.after(free_in, runtime.now(), random) else { return false };
        match (&mut self.listener, self.listen) {
            (Some(listener), _) => drop(within(runtime, sleep, listener.next()).await),
            (None, None) => runtime.sleep(sleep).await,
            (None, Some(listen)) => match listen(self.key.clone(), self.wake).await {
                // What happened before that is seen by asking at once.
                Ok(new) => self.listener = Some(new),
                Err(_) => runtime.sleep(sleep).await,
            },
        }
        true
    }

    /// Ends it for one who has left nothing to another; dropped otherwise, it wakes the next one.
    pub(super) fn done(self) {
        self.listener.into_iter().for_each(Listener::done);
    }
}
