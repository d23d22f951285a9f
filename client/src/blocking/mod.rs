//! The same API for blocking callers: each verb runs the asynchronous one on the calling thread.
//!
//! A blocking store's futures are ready when they are polled. A thread that waits is parked for a time, or until
//! another thread wakes it. So blocking and asynchronous callers share one logic.

mod limiter;
mod locks;
mod once;

use std::time::Duration;

use futures_timer::Delay;
use lockage_core::{AcquireAll, Command, OneOutcome};

pub use limiter::BlockingLimiter;
pub use locks::{
    BlockingGuard, BlockingHandle, BlockingLatch, BlockingLock, BlockingLocks, BlockingMany,
    BlockingManyGuard, BlockingRwLock, BlockingSemaphore, BlockingStripedLocks,
};
pub use once::{BlockingCached, BlockingRunOnce};

use crate::error::StoreError;
use crate::key::Key;
#[cfg(feature = "test-util")]
use crate::notifications::{Listener, Notifications, Wake};
use crate::runtime::{Runtime, Spawn};
use crate::store::{BlockingStore, Identity, Store};

pub(crate) use pollster::block_on;

/// An adapter that makes a blocking store's futures ready when polled: they block the caller.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "test-util"), expect(unreachable_pub))]
pub struct Blocking<S> {
    store: S,
    patience: Duration,
}

impl<S> Blocking<S> {
    /// Wraps a store. Calls without a time of their own wait for `patience`.
    #[cfg_attr(not(feature = "test-util"), expect(unreachable_pub))]
    pub fn new(store: S, patience: Duration) -> Self {
        Blocking { store, patience }
    }
}

impl<S: BlockingStore> Store for Blocking<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.store.execute(key, command, self.patience)
    }

    async fn execute_within<C>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.store.execute(key, command, patience)
    }

    fn identity(&self) -> Option<Identity> {
        self.store.identity()
    }

    async fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        self.store.execute_all(keys, command, patience)
    }
}

/// Blocking callers have no notifications.
#[cfg(feature = "test-util")]
impl<S: BlockingStore> Notifications for Blocking<S> {
    async fn listen(&self, _key: &Key, _wake: Wake) -> Result<Listener, StoreError> {
        Err(StoreError::NotDone("a blocking store does not listen".into()))
    }
}

/// The calling thread, and one more for each task.
#[derive(Clone, Copy, Debug)]
struct Thread;

impl Runtime for Thread {
    fn now(&self) -> Duration {
        crate::runtime::since_start()
    }

    async fn sleep(&self, duration: Duration) {
        Delay::new(duration).await;
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

impl Spawn for Thread {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        std::thread::spawn(move || block_on(task));
    }
}
