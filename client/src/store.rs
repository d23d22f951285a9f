//! The interface between machines, which decide, and stores, which keep state.

use std::sync::Arc;
use std::time::Duration;

pub use lockage_core::{
    AcquireAll, Clock, Command, ConfigError, OneOutcome, RecordError, Timestamp, latch, lock,
    rw_lock, semaphore,
};

pub use crate::error::Cause;
use crate::error::StoreError;
use crate::key::Key;
pub use crate::key::KeyError;
pub use crate::replicated::Replicated;
pub use crate::retry_store::{HasTimeout, NoAnswer};

/// A store of records: executes one command of one machine on one key, atomically, at the store's own time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    label = "this is not a `Store`",
    note = "stores are `MemoryStore` of `lockage-memory`, `RedisStore` of `lockage-redis-rs`, `FredStore` of `lockage-fred`, and a `RetryStore` around one of them"
)]
pub trait Store: Send + Sync {
    /// Executes `command` on `key`.
    ///
    /// A call runs at most once. A failure that leaves open whether it ran is reported as such, and not retried. A call
    /// dropped before its end may still run.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn execute<C>(
        &self,
        key: &Key,
        command: &C,
    ) -> impl Future<Output = Result<C::Outcome, StoreError>> + Send
    where
        C: Command<Outcome: Send> + Sync;

    /// Executes `command` for a caller that waits no longer than `patience`, and drops the call then. A store that
    /// queues calls then forgets this one. Other stores can ignore `patience`.
    ///
    /// # Errors
    /// As [`Store::execute`].
    fn execute_within<C>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> impl Future<Output = Result<C::Outcome, StoreError>> + Send
    where
        C: Command<Outcome: Send> + Sync,
    {
        let _ = patience;
        self.execute(key, command)
    }

    /// Returns whether [`Store::execute_batch`] puts several commands into one call.
    fn supports_batch(&self) -> bool {
        false
    }

    /// Returns the server's address for errors, if known, without a user or a password.
    fn server(&self) -> Option<String> {
        None
    }

    /// Executes each command on its key as if alone, and returns an outcome for each. Callers wait no longer than
    /// `patience`. One call carries them if the store supports that; otherwise they run one after the other.
    fn execute_batch<C>(
        &self,
        calls: &[(&Key, &C)],
        patience: Duration,
    ) -> impl Future<Output = Vec<Result<C::Outcome, StoreError>>> + Send
    where
        C: Command<Outcome: Send> + Sync,
    {
        async move {
            let mut outcomes = Vec::with_capacity(calls.len());
            for &(key, command) in calls {
                outcomes.push(self.execute_within(key, command, patience).await);
            }
            outcomes
        }
    }

    /// Returns the identity of this store and its clones. A store with [`Store::execute_all`] has one: only requests of one
    /// store are executed together.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Executes requests on several keys, one for each, in one step: all are charged, or nothing is changed. Its callers
    /// wait no longer than `patience`.
    ///
    /// # Errors
    /// See [`StoreError`]. It is `Misconfigured` if the store decides on one key at a time, or the keys are on several nodes
    /// of a cluster.
    fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> impl Future<Output = Result<Vec<OneOutcome>, StoreError>> + Send {
        let _ = (keys, command, patience);
        async { Err(StoreError::Misconfigured(ONE_KEY.into())) }
    }
}

pub(crate) const ONE_KEY: &str = "this store decides on one key at a time";

/// A number that a store and its clones have alone among all stores that are there, such as an address that they share, and
/// whether its keys are on several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    number: usize,
    is_cluster: bool,
}

impl Identity {
    /// Creates the identity of a store that executes requests on any keys together.
    pub const fn new(number: usize) -> Self {
        Identity { number, is_cluster: false }
    }

    /// Creates the identity of a cluster, which executes requests together if their keys have one
    /// [tag](Key::hash_tag).
    pub const fn of_cluster(number: usize) -> Self {
        Identity { number, is_cluster: true }
    }

    /// Returns whether requests on these keys are executed together.
    pub(crate) fn has_together(self, keys: &[Key]) -> bool {
        !self.is_cluster || keys.iter().all(|key| key.hash_tag() == keys[0].hash_tag())
    }
}

/// A store whose calls block the thread until they are answered.
pub trait BlockingStore: Send + Sync {
    /// Executes `command` on `key` as [`Store::execute`] does, and gives up after `patience` if the store can keep a
    /// caller waiting.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn execute<C: Command>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError>;

    /// Returns the identity as [`Store::identity`] does.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Executes requests on several keys as [`Store::execute_all`] does.
    ///
    /// # Errors
    /// As there.
    fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        let _ = (keys, command, patience);
        Err(StoreError::Misconfigured(ONE_KEY.into()))
    }
}

/// Implements a store for pointers to it.
macro_rules! store_behind {
    ($($pointer:ty),+) => {$(
        impl<S: Store> Store for $pointer {
            fn execute<C>(
                &self,
                key: &Key,
                command: &C,
            ) -> impl Future<Output = Result<C::Outcome, StoreError>> + Send
            where
                C: Command<Outcome: Send> + Sync,
            {
                (**self).execute(key, command)
            }

            fn execute_within<C>(
                &self,
                key: &Key,
                command: &C,
                patience: Duration,
            ) -> impl Future<Output = Result<C::Outcome, StoreError>> + Send
            where
                C: Command<Outcome: Send> + Sync,
            {
                (**self).execute_within(key, command, patience)
            }

            fn supports_batch(&self) -> bool {
                (**self).supports_batch()
            }

            fn server(&self) -> Option<String> {
                (**self).server()
            }

            fn execute_batch<C>(
                &self,
                calls: &[(&Key, &C)],
                patience: Duration,
            ) -> impl Future<Output = Vec<Result<C::Outcome, StoreError>>> + Send
            where
                C: Command<Outcome: Send> + Sync,
            {
                (**self).execute_batch(calls, patience)
            }

            fn identity(&self) -> Option<Identity> {
                (**self).identity()
            }

            fn execute_all(
                &self,
                keys: &[Key],
                command: &AcquireAll,
                patience: Duration,
            ) -> impl Future<Output = Result<Vec<OneOutcome>, StoreError>> + Send {
                (**self).execute_all(keys, command, patience)
            }
        }
    )+};
}

store_behind!(&S, Arc<S>);

impl<S: BlockingStore> BlockingStore for Arc<S> {
    fn execute<C: Command>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError> {
        (**self).execute(key, command, patience)
    }

    fn identity(&self) -> Option<Identity> {
        (**self).identity()
    }

    fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        (**self).execute_all(keys, command, patience)
    }
}
