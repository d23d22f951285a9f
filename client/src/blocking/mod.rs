//! The same API for callers that block: each verb runs the asynchronous one on the calling thread.
//!
//! A blocking store's futures are ready when they are asked, and a thread that waits is parked: for a time, or until
//! another thread wakes it. So blocking and asynchronous callers share one logic.

mod limiter;
mod locks;
mod once;

use std::time::Duration;

use futures_timer::Delay;
use lockage_core::Command;

pub use limiter::BlockingLimiter;
pub use locks::{
    BlockingGuard, BlockingHandle, BlockingLatch, BlockingLock, BlockingLocks, BlockingMany,
    BlockingManyGuard, BlockingRwLock, BlockingSemaphore, BlockingStripedLocks,
};
pub use once::{BlockingCached, BlockingRunOnce};

use crate::error::StoreError;
use crate::key::Key;
use crate::runtime::{Runtime, Spawn};
use crate::store::{BlockingStore, Store};

pub(crate) use pollster::block_on;

/// A blocking store as one whose futures are ready when asked.
#[derive(Clone, Debug)]
struct Blocking<S>(S);

impl<S: BlockingStore> Store for Blocking<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command, Duration::MAX)
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
        self.0.execute(key, command, patience)
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
