//! A store whose type is chosen at run time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{AcquireAll, AnyCommand, AnyOutcome, Command, OneOutcome};

use crate::error::StoreError;
use crate::key::Key;
use crate::notifications::{Listener, Notifications, Wake};
use crate::replicated::Replicated;
use crate::store::{Identity, Store};

/// A store of any type, so that one type of limiter or lock serves any configured store. Clones share the store.
///
/// It supports everything that the store does. Only a store given to [`AnyStore::replicated`] can wait for replicas. A
/// call costs an allocation for its command, its future and its outcome each: 42 to 87 ns on a `MemoryStore`, by `cargo
/// run --release -p lockage-bench --features others -- in-process --stores`.
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
pub struct AnyStore {
    store: Arc<dyn DynStore>,
    replicas: Option<Arc<dyn DynReplicated>>,
}

impl AnyStore {
    /// Returns this store without its type. Calls that wait for replicas ([`Replicated`]) are `NotDone`.
    pub fn new(store: impl Notifications + 'static) -> Self {
        AnyStore { store: Arc::new(store), replicas: None }
    }

    /// Returns this store without its type, for calls that wait for its replicas too.
    pub fn replicated(store: impl Notifications + Replicated + 'static) -> Self {
        let store = Arc::new(store);
        AnyStore { store: Arc::clone(&store) as _, replicas: Some(store) }
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

    fn identity(&self) -> Option<Identity>;

    fn execute_all<'a>(
        &'a self,
        keys: &'a [Key],
        command: &'a AcquireAll,
        max_wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<OneOutcome>, StoreError>>;

    fn listen<'a>(
        &'a self,
        key: &'a Key,
        wake: Wake,
    ) -> BoxFuture<'a, Result<Listener, StoreError>>;
}

/// The form of a store with replicas.
trait DynReplicated: Send + Sync {
    fn execute_acknowledged<'a>(
        &'a self,
        key: &'a Key,
        command: AnyCommand,
        replicas: u32,
        max_wait: Duration,
    ) -> BoxFuture<'a, Result<(AnyOutcome, u32), StoreError>>;
}

impl<S: Replicated> DynReplicated for S {
    fn execute_acknowledged<'a>(
        &'a self,
        key: &'a Key,
        command: AnyCommand,
        replicas: u32,
        max_wait: Duration,
    ) -> BoxFuture<'a, Result<(AnyOutcome, u32), StoreError>> {
        Box::pin(async move {
            Replicated::execute_acknowledged(self, key, &command, replicas, max_wait).await
        })
    }
}

impl<S: Notifications> DynStore for S {
    fn listen<'a>(
        &'a self,
        key: &'a Key,
        wake: Wake,
    ) -> BoxFuture<'a, Result<Listener, StoreError>> {
        Box::pin(Notifications::listen(self, key, wake))
    }

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

    fn identity(&self) -> Option<Identity> {
        Store::identity(self)
    }

    fn execute_all<'a>(
        &'a self,
        keys: &'a [Key],
        command: &'a AcquireAll,
        max_wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<OneOutcome>, StoreError>> {
        Box::pin(Store::execute_all(self, keys, command, max_wait))
    }
}

impl Store for AnyStore {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.store.execute(key, AnyCommand::new(command.clone())).await.map(own::<C>)
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
        self.store
            .execute_within(key, AnyCommand::new(command.clone()), max_wait)
            .await
            .map(own::<C>)
    }

    fn supports_batch(&self) -> bool {
        self.store.supports_batch()
    }

    fn server(&self) -> Option<String> {
        self.store.server()
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
        let outcomes = self.store.execute_batch(calls, max_wait).await;
        outcomes.into_iter().map(|outcome| outcome.map(own::<C>)).collect()
    }

    fn identity(&self) -> Option<Identity> {
        self.store.identity()
    }

    async fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        max_wait: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        self.store.execute_all(keys, command, max_wait).await
    }
}

impl Notifications for AnyStore {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        self.store.listen(key, wake).await
    }
}

impl Replicated for AnyStore {
    async fn execute_acknowledged<C>(
        &self,
        key: &Key,
        command: &C,
        replicas: u32,
        max_wait: Duration,
    ) -> Result<(C::Outcome, u32), StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let Some(store) = &self.replicas else {
            let why = "this store has no replicas, or was not given to `AnyStore::replicated`";
            return Err(StoreError::NotDone(why.into()));
        };
        let command = AnyCommand::new(command.clone());
        let (outcome, acknowledged) =
            store.execute_acknowledged(key, command, replicas, max_wait).await?;
        Ok((own::<C>(outcome), acknowledged))
    }
}

/// Returns the outcome of this command.
fn own<C: Command>(outcome: AnyOutcome) -> C::Outcome {
    *outcome.downcast().expect("a store returns the outcome of the command that it was given")
}
