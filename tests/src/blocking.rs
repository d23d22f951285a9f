//! A blocking store behind the seam that asynchronous stores stand behind, for tests alone: it
//! blocks the caller.

use std::sync::Arc;
use std::time::Duration;

use lockage::notifications::{Listener, Notifications, Wake};
use lockage::store::{BlockingStore, Command};
use lockage::{Key, Store, StoreError};

/// A blocking store. Clones share it.
#[derive(Debug)]
pub struct Blocking<S>(Arc<S>);

impl<S> Blocking<S> {
    /// This store.
    pub fn new(store: S) -> Self {
        Blocking(Arc::new(store))
    }

    /// The store itself.
    pub fn store(&self) -> &S {
        &self.0
    }
}

impl<S: BlockingStore> Store for Blocking<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command, Duration::from_secs(5))
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

/// There is nothing that blocks until it is told.
impl<S: BlockingStore> Notifications for Blocking<S> {
    async fn listen(&self, _key: &Key, _wake: Wake) -> Result<Listener, StoreError> {
        Err(StoreError::NotDone("a blocking store does not listen".into()))
    }
}

impl<S> Clone for Blocking<S> {
    fn clone(&self) -> Self {
        Blocking(Arc::clone(&self.0))
    }
}
