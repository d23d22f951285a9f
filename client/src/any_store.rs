//! A store that is chosen when the program runs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{AnyCommand, AnyOutcome, Command};

use crate::error::StoreError;
use crate::key::Key;
use crate::store::Store;

/// A store of any type, so that one type of limiter or lock serves whichever store a program is configured with. Clones
/// share the store.
///
/// A call costs an allocation for its command, its future and its outcome each.
///
/// ```
/// use lockage::{AnyStore, Limiter};
/// use lockage_memory::MemoryStore;
///
/// # pollster::block_on(async {
/// let store = match std::env::var("STORE").as_deref() {
///     // Ok("redis") => AnyStore::new(lockage_redis_rs::RedisStore::open(url)?),
///     _ => AnyStore::new(MemoryStore::new()),
/// };
/// let limiter: Limiter<AnyStore> = Limiter::new(store, "fixed-window 1/min".parse()?);
/// let limiter = limiter.with_prefix("login")?;
/// assert!(limiter.try_acquire("user:42", 1).await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct AnyStore(Arc<dyn DynStore>);

impl AnyStore {
    /// Returns this store without its type.
    pub fn new(store: impl Store + 'static) -> Self {
        AnyStore(Arc::new(store))
    }
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyStore").finish_non_exhaustive()
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type AnyResult = Result<AnyOutcome, StoreError>;

/// The form of a store that can be a trait object.
trait DynStore: Send + Sync {
    fn execute<'a>(&'a self, key: &'a Key, command: AnyCommand) -> BoxFuture<'a, AnyResult>;

    fn execute_within<'a>(
        &'a self,
        key: &'a Key,
        command: AnyCommand,
        max_wait: Duration,
    ) -> BoxFuture<'a, AnyResult>;

    fn supports_batch(&self) -> bool;

    fn server(&self) -> Option<String>;

    fn execute_batch<'a>(
        &'a self,
        calls: Vec<(&'a Key, AnyCommand)>,
        max_wait: Duration,
    ) -> BoxFuture<'a, Vec<AnyResult>>;
}

impl<S: Store> DynStore for S {
    fn execute<'a>(&'a self, key: &'a Key, command: AnyCommand) -> BoxFuture<'a, AnyResult> {
        Box::pin(async move { Store::execute(self, key, &command).await })
    }

    fn execute_within<'a>(
        &'a self,
        key: &'a Key,
        command: AnyCommand,
        max_wait: Duration,
    ) -> BoxFuture<'a, AnyResult> {
        Box::pin(async move { Store::execute_within(self, key, &command, max_wait).await })
    }

    fn supports_batch(&self) -> bool {
        Store::supports_batch(self)
    }

    fn server(&self) -> Option<String> {
        Store::server(self)
    }

    fn execute_batch<'a>(
        &'a self,
        calls: Vec<(&'a Key, AnyCommand)>,
        max_wait: Duration,
    ) -> BoxFuture<'a, Vec<AnyResult>> {
        Box::pin(async move {
            let calls: Vec<_> = calls.iter().map(|(key, command)| (*key, command)).collect();
            Store::execute_batch(self, &calls, max_wait).await
        })
    }
}

impl Store for AnyStore {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, AnyCommand::new(command.clone())).await.map(own::<C>)
    }

    async fn execute_within<C>(
        &self,
        key: &Key,
        command: &C,
        max_wait: Duration,
    ) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute_within(key, AnyCommand::new(command.clone()), max_wait).await.map(own::<C>)
    }

    fn supports_batch(&self) -> bool {
        self.0.supports_batch()
    }

    fn server(&self) -> Option<String> {
        self.0.server()
    }

    async fn execute_batch<C>(
        &self,
        calls: &[(&Key, &C)],
        max_wait: Duration,
    ) -> Vec<Result<C::Outcome, StoreError>>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let calls = calls
            .iter()
            .map(|(key, command)| (*key, AnyCommand::new((*command).clone())))
            .collect();
        let outcomes = self.0.execute_batch(calls, max_wait).await;
        outcomes.into_iter().map(|outcome| outcome.map(own::<C>)).collect()
    }
}

/// The outcome of this command.
fn own<C: Command>(outcome: AnyOutcome) -> C::Outcome {
    *outcome.downcast().expect("a store returns the outcome of the command that it was given")
}
