//! A store whose calls are observed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{AcquireAll, Command, OneOutcome};

use super::{CallResult, Observer, StoreCallEvent, Subject, bind, elapsed};
use crate::error::StoreError;
use crate::key::Key;
use crate::notifications::{Listener, Notifications, Wake};
use crate::replicated::Replicated;
use crate::store::{BlockingStore, Identity, Store};

/// A store that reports each call to an [`Observer`]. Clones share it.
///
/// It belongs inside a [`RetryStore`](crate::RetryStore), so that each attempt is a call, and a timeout is an event
/// ([`CallResult::TimedOut`]).
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::observer::{ObservedStore, Observer, StoreCallEvent};
/// use lockage::runtime::Tokio;
/// use lockage::{Limiter, RetryStore};
/// # use lockage_memory::MemoryStore;
///
/// struct Print;
///
/// impl Observer for Print {
///     fn store_call(&self, event: &StoreCallEvent<'_>) {
///         println!("{} {}: {:?}", event.store, event.command, event.result);
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let store = ObservedStore::new(MemoryStore::new(), "sessions", Print);
/// let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
/// let limiter = Limiter::new(store, "fixed-window 1/min".parse()?).with_prefix("login")?;
/// assert!(limiter.try_acquire("user:42", 1).await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
#[derive(Clone)]
pub struct ObservedStore<S> {
    store: S,
    name: Arc<str>,
    observer: Arc<dyn Observer>,
}

impl<S> ObservedStore<S> {
    /// Observes the calls of `store`, which has this name in the program's configuration.
    pub fn new(store: S, name: &str, observer: impl Observer) -> Self {
        ObservedStore { store, name: name.into(), observer: bind(observer, Subject::Store(name)) }
    }

    /// Begins a call of commands like this one.
    fn call(&self, command: &impl Command, commands: usize, max_wait: Duration) -> Call<'_> {
        self.named(command.encode_text().script().name(), commands, max_wait)
    }

    fn named(&self, command: &'static str, commands: usize, max_wait: Duration) -> Call<'_> {
        let ObservedStore { name, observer, .. } = self;
        let begin = observer.now();
        Call {
            store: name,
            observer: &**observer,
            command,
            commands,
            max_wait,
            begin,
            is_over: false,
        }
    }
}

/// A call under way. Dropped before its end, it got no answer.
struct Call<'a> {
    store: &'a str,
    observer: &'a dyn Observer,
    command: &'static str,
    commands: usize,
    max_wait: Duration,
    begin: Option<Duration>,
    is_over: bool,
}

impl Call<'_> {
    fn end<T>(mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        self.ended(result.as_ref().err());
        result
    }

    fn ended(&mut self, error: Option<&StoreError>) {
        self.is_over = true;
        let elapsed = elapsed(self.observer, self.begin);
        self.tell(error.map_or(CallResult::Done, CallResult::Failed), elapsed);
    }

    fn tell(&self, result: CallResult<'_>, elapsed: Option<Duration>) {
        let &Call { store, command, commands, .. } = self;
        self.observer.store_call(&StoreCallEvent { store, command, commands, result, elapsed });
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let elapsed = elapsed(self.observer, self.begin);
        // The caller measures by a clock of its own, and began a little before.
        let almost = self.max_wait - self.max_wait / 8;
        let is_late = elapsed.is_some_and(|elapsed| elapsed >= almost);
        self.tell(if is_late { CallResult::TimedOut } else { CallResult::Dropped }, elapsed);
    }
}

impl<S: Store> Store for ObservedStore<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let call = self.call(command, 1, Duration::MAX);
        call.end(self.store.execute(key, command).await)
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
        let call = self.call(command, 1, max_wait);
        call.end(self.store.execute_within(key, command, max_wait).await)
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
        let Some((_, command)) = calls.first() else { return Vec::new() };
        let mut call = self.call(*command, calls.len(), max_wait);
        let results = self.store.execute_batch(calls, max_wait).await;
        call.ended(results.iter().find_map(|result| result.as_ref().err()));
        results
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
        let call = self.named(ACQUIRE_ALL, keys.len(), max_wait);
        call.end(self.store.execute_all(keys, command, max_wait).await)
    }
}

/// The name of a call for several keys, whose script is made of others.
const ACQUIRE_ALL: &str = "limiter_acquire_all";

impl<S: BlockingStore> BlockingStore for ObservedStore<S> {
    fn execute<C: Command>(
        &self,
        key: &Key,
        command: &C,
        max_wait: Duration,
    ) -> Result<C::Outcome, StoreError> {
        let call = self.call(command, 1, max_wait);
        call.end(self.store.execute(key, command, max_wait))
    }

    fn identity(&self) -> Option<Identity> {
        self.store.identity()
    }

    fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        max_wait: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        let call = self.named(ACQUIRE_ALL, keys.len(), max_wait);
        call.end(self.store.execute_all(keys, command, max_wait))
    }
}

impl<S: Notifications> Notifications for ObservedStore<S> {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        let call = self.named("listen", 1, Duration::MAX);
        call.end(self.store.listen(key, wake).await)
    }
}

impl<S: Replicated> Replicated for ObservedStore<S> {
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
        let call = self.call(command, 1, max_wait);
        call.end(self.store.execute_acknowledged(key, command, replicas, max_wait).await)
    }
}

impl<S: fmt::Debug> fmt::Debug for ObservedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedStore")
            .field("store", &self.store)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
