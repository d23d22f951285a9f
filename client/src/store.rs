//! The seam between what is decided and where the state lives.

use std::sync::Arc;

use lockage_core::Command;

use crate::error::StoreError;
use crate::key::Key;

/// Where records live: executes one command of one machine on one key, atomically, at the store's
/// own time.
pub trait Store: Send + Sync {
    /// Executes `command` on `key`.
    ///
    /// A call is sent at most once: a failure that leaves open whether it was carried out is
    /// reported as such and not tried again.
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
}

impl<S: Store> Store for &S {
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
}

impl<S: Store> Store for Arc<S> {
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
}
