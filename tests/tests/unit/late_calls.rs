//! Calls that arrive after their callers have given them up.

use std::iter::Cycle;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::vec::IntoIter;

use lockage::notifications::{Listener, Notifications, Wake};
use lockage::store::{Command, Replicated};
use lockage::{Key, Store, StoreError};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, TokioClock};
use tokio::time::sleep;

/// A list of cases for one call after the other, again and again.
#[derive(Clone, Debug)]
pub(crate) struct EachCall<T>(Arc<Mutex<Cycle<IntoIter<T>>>>);

impl<T: Clone> EachCall<T> {
    pub(crate) fn new(all: Vec<T>) -> Self {
        EachCall(Arc::new(Mutex::new(all.into_iter().cycle())))
    }

    pub(crate) fn next(&self) -> T {
        self.0.lock().expect("no panic while held").next().expect("it goes on for ever")
    }
}

/// A store to which each call takes these times, and arrives also where its caller has given it up.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) store: FailingStore<MemoryStore<TokioClock>>,
    delays: EachCall<Duration>,
    breaks: bool,
}

impl Late {
    /// Makes a store on which the first calls take these times, and later ones none.
    pub(crate) fn new(
        store: &FailingStore<MemoryStore<TokioClock>>,
        delays: impl IntoIterator<Item = Duration>,
    ) -> Self {
        let mut delays: Vec<_> = delays.into_iter().collect();
        delays.resize(1000, Duration::ZERO);
        Late { store: store.clone(), delays: EachCall::new(delays), breaks: false }
    }

    /// Breaks the connection of each call that takes time once it is sent.
    pub(crate) fn on_broken_connections(self) -> Self {
        Late { breaks: true, ..self }
    }
}

impl Store for Late {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let (store, delay) = (self.store.clone(), self.delays.next());
        let (key, command) = (key.clone(), command.clone());
        let arrives = tokio::spawn(async move {
            sleep(delay).await;
            store.execute(&key, &command).await
        });
        if self.breaks && !delay.is_zero() {
            return Err(StoreError::Unknown("the connection broke".into()));
        }
        arrives.await.expect("it does not panic")
    }
}

/// A store with replicas, of which so many acknowledge each command, after so long: it is half over when the command runs.
#[derive(Clone, Debug)]
pub(crate) struct Replicas {
    store: FailingStore<MemoryStore<TokioClock>>,
    acknowledge: u32,
    after: Duration,
}

impl Replicas {
    pub(crate) fn new(
        store: &FailingStore<MemoryStore<TokioClock>>,
        acknowledge: u32,
        after: Duration,
    ) -> Self {
        Replicas { store: store.clone(), acknowledge, after }
    }
}

impl Store for Replicas {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.store.execute(key, command).await
    }
}

impl Replicated for Replicas {
    async fn execute_acknowledged<C>(
        &self,
        key: &Key,
        command: &C,
        _: u32,
        _: Duration,
    ) -> Result<(C::Outcome, u32), StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        sleep(self.after / 2).await;
        let outcome = self.store.execute(key, command).await?;
        sleep(self.after / 2).await;
        Ok((outcome, self.acknowledge))
    }
}

impl Notifications for Replicas {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        self.store.listen(key, wake).await
    }
}
