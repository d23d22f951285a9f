use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockage_core::{AcquireAll, Command, OneOutcome};

use crate::error::StoreError;
use crate::key::Key;
use crate::notifications::{Listener, Notifications, Wake};
use crate::store::{BlockingStore, Identity, Store};

/// More calls than any test makes.
const MAX_CALLS: u64 = 1_000_000;

/// The fate of one call of a [`FailingStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It runs and is answered.
    Answered,
    /// It does not run, and the caller learns that: [`StoreError::NotDone`].
    NotDone,
    /// It does not run, and the caller learns that it never will: [`StoreError::Misconfigured`].
    Misconfigured,
    /// Its request is lost. It does not run, and the caller cannot know: [`StoreError::Unknown`].
    RequestLost,
    /// Its answer is lost. It runs, and the caller cannot know: [`StoreError::Unknown`].
    AnswerLost,
    /// It does not run, and no answer ever comes.
    Silence,
    /// It runs, and no answer ever comes.
    DoneInSilence,
}

/// A store around another one, which fails on demand. Clones share their orders and counts, so a test keeps one and
/// gives one away.
///
/// Every call is answered unless the test sets another fate. Notifications are never lost. Calls of a batch are made
/// one by one, each with a fate of its own.
///
/// A call yields before it reaches the store and before its answer comes back, so that its caller can be dropped at
/// both points. The millionth call panics: a caller that repeats calls without end keeps paused time from moving, so
/// no timeout would end the test.
///
/// ```
/// use lockage::testing::{FailingStore, Fate};
/// use lockage::{Error, Limiter, StoreError};
/// # use lockage_memory::MemoryStore;
///
/// # pollster::block_on(async {
/// let store = FailingStore::new(MemoryStore::new());
/// let limiter = Limiter::new(store.clone(), "fixed-window 10/min".parse()?).with_prefix("login")?;
/// store.next([Fate::AnswerLost]);
/// let lost = limiter.try_acquire("user:42", 1).await;
/// assert!(matches!(lost, Err(Error::Store(StoreError::Unknown(_)))));
/// assert_eq!(limiter.try_acquire("user:42", 1).await?.remaining, 8, "both were charged");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct FailingStore<S> {
    store: S,
    prefix: Arc<str>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    orders: Mutex<Orders>,
    calls: AtomicU64,
    executions: AtomicU64,
}

#[derive(Debug)]
struct Orders {
    next: VecDeque<Fate>,
    always: Fate,
}

impl<S> FailingStore<S> {
    /// Creates a store that answers every call until a test sets other fates.
    pub fn new(store: S) -> Self {
        let orders = Mutex::new(Orders { next: VecDeque::new(), always: Fate::Answered });
        let shared = Shared { orders, calls: 0.into(), executions: 0.into() };
        FailingStore { store, prefix: "".into(), shared: Arc::new(shared) }
    }

    /// Limits it to keys that begin with `prefix`, such as `lock:`. Calls on other keys are answered, and not
    /// counted. A call on several keys counts for its first one.
    #[must_use]
    pub fn only(self, prefix: &str) -> Self {
        FailingStore { prefix: prefix.into(), ..self }
    }

    /// Sets the fates of the next calls, after those that are already set.
    pub fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.orders(|orders| orders.next.extend(fates));
    }

    /// Sets the fate of all calls after those of [`next`](FailingStore::next), until it is set again.
    pub fn always(&self, fate: Fate) {
        self.orders(|orders| orders.always = fate);
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that ran.
    pub fn executions(&self) -> u64 {
        self.shared.executions.load(Ordering::Relaxed)
    }

    fn orders<T>(&self, give: impl FnOnce(&mut Orders) -> T) -> T {
        give(&mut self.shared.orders.lock().expect("no panic while held"))
    }

    /// Counts a call on this key, and returns its fate; `None` for an excluded key.
    fn fate(&self, key: &Key) -> Option<Fate> {
        if !key.as_str().starts_with(&*self.prefix) {
            return None;
        }
        let calls = self.shared.calls.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(calls < MAX_CALLS, "a caller repeats calls without end");
        Some(self.orders(|orders| orders.next.pop_front().unwrap_or(orders.always)))
    }

    /// Returns whether a call of this fate runs, and counts it if so.
    fn is_done(&self, fate: Fate) -> bool {
        let is_done = matches!(fate, Fate::Answered | Fate::AnswerLost | Fate::DoneInSilence);
        self.shared.executions.fetch_add(u64::from(is_done), Ordering::Relaxed);
        is_done
    }

    /// Makes this call or not, by its fate.
    async fn meet<T>(
        &self,
        key: &Key,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let Some(fate) = self.fate(key) else { return call.await };
        yield_now().await;
        let answer = if self.is_done(fate) { Some(call.await) } else { None };
        yield_now().await;
        match fate {
            Fate::Silence | Fate::DoneInSilence => std::future::pending().await,
            _ => fate.answer(answer),
        }
    }
}

impl Fate {
    /// Returns the caller's result, for a call with this answer if it ran.
    fn answer<T>(self, answer: Option<Result<T, StoreError>>) -> Result<T, StoreError> {
        match (self, answer) {
            (Fate::Answered, Some(answer)) => answer,
            (Fate::Misconfigured, _) => Err(StoreError::Misconfigured("asked to fail".into())),
            (Fate::NotDone, _) => Err(StoreError::NotDone("asked to fail".into())),
            _ => Err(StoreError::Unknown("asked to fail".into())),
        }
    }
}

impl<S: Store> Store for FailingStore<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.meet(key, self.store.execute(key, command)).await
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
        self.meet(key, self.store.execute_within(key, command, patience)).await
    }

    fn server(&self) -> Option<String> {
        self.store.server()
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
        self.meet(&keys[0], self.store.execute_all(keys, command, patience)).await
    }
}

impl<S: Notifications> Notifications for FailingStore<S> {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        self.store.listen(key, wake).await
    }
}

/// A call without an answer ends at once, with its caller's result at the end of its patience.
impl<S: BlockingStore> BlockingStore for FailingStore<S> {
    fn execute<C: Command>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError> {
        let call = || self.store.execute(key, command, patience);
        match self.fate(key) {
            Some(fate) => fate.answer(self.is_done(fate).then(call)),
            None => call(),
        }
    }

    fn identity(&self) -> Option<Identity> {
        self.store.identity()
    }

    fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        let call = || self.store.execute_all(keys, command, patience);
        match self.fate(&keys[0]) {
            Some(fate) => fate.answer(self.is_done(fate).then(call)),
            None => call(),
        }
    }
}

/// Is pending once, and wakes its task at once.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
