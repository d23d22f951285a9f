//! A store that fails as it is told, and counts what reaches the store behind it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockage::notifications::{Listener, Notifications, Wake};
use lockage::store::{BlockingStore, Command};
use lockage::{Key, Store, StoreError};

/// More calls than any test makes.
const SPIN: u64 = 100_000;

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done and answered.
    Answered,
    /// It is not done, and that is said.
    NotDone,
    /// It is lost on the way; nobody can say.
    Lost,
    /// It is done, and its answer is lost.
    AnswerLost,
    /// It is done, and no answer ever comes.
    DoneInSilence,
    /// It is not done, and no answer ever comes.
    Silence,
}

/// A store in front of another one. Clones share their orders and counts.
#[derive(Clone, Debug)]
pub struct Flaky<S> {
    store: S,
    server: Option<&'static str>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    next: Mutex<VecDeque<Fate>>,
    usual: Mutex<Option<Fate>>,
    calls: AtomicU64,
    executions: AtomicU64,
    at_once: AtomicU64,
    most_at_once: AtomicU64,
}

/// A call that is under way.
struct UnderWay<'a>(&'a Shared);

impl Shared {
    fn under_way(&self) -> UnderWay<'_> {
        let now = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_once.fetch_max(now, Ordering::Relaxed);
        UnderWay(self)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.at_once.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S> Flaky<S> {
    /// A store that answers, until told otherwise.
    pub fn new(store: S) -> Self {
        Flaky { store, server: None, shared: Arc::default() }
    }

    /// Gives it an address.
    #[must_use]
    pub fn at(self, server: &'static str) -> Self {
        Flaky { server: Some(server), ..self }
    }

    /// Decides the fates of the next calls.
    pub fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.shared.next.lock().expect("no panic while held").extend(fates);
    }

    /// Decides the fate of all calls after those.
    pub fn always(&self, fate: Fate) {
        *self.shared.usual.lock().expect("no panic while held") = Some(fate);
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// How many were under way at once at most, of those that could be.
    pub fn most_at_once(&self) -> u64 {
        self.shared.most_at_once.load(Ordering::Relaxed)
    }

    /// How many of them were done.
    pub fn executions(&self) -> u64 {
        self.shared.executions.load(Ordering::Relaxed)
    }

    fn fate(&self) -> Fate {
        // Virtual time stands still while somebody spins, so that no deadline would end it.
        let calls = self.shared.calls.fetch_add(1, Ordering::Relaxed);
        assert!(calls < SPIN, "somebody asks without end");
        let next = self.shared.next.lock().expect("no panic while held").pop_front();
        let usual = *self.shared.usual.lock().expect("no panic while held");
        next.or(usual).unwrap_or(Fate::Answered)
    }

    fn done(&self, fate: Fate) -> bool {
        let done = matches!(fate, Fate::Answered | Fate::AnswerLost | Fate::DoneInSilence);
        self.shared.executions.fetch_add(u64::from(done), Ordering::Relaxed);
        done
    }
}

/// Yields before the store is reached and before its answer comes back, so that a caller can be
/// dropped at both.
impl<S: Store> Store for Flaky<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let fate = self.fate();
        let _under_way = self.shared.under_way();
        yield_now().await;
        let answer = match self.done(fate) {
            true => Some(self.store.execute(key, command).await),
            false => None,
        };
        yield_now().await;
        match (fate, answer) {
            (Fate::Answered, Some(answer)) => answer,
            (Fate::NotDone, _) => Err(StoreError::NotDone("told to".into())),
            (Fate::DoneInSilence | Fate::Silence, _) => std::future::pending().await,
            _ => Err(StoreError::Unknown("told to".into())),
        }
    }

    fn server(&self) -> Option<String> {
        self.server.map(str::to_owned)
    }
}

/// What is told of keys is never lost.
impl<S: Notifications> Notifications for Flaky<S> {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        self.store.listen(key, wake).await
    }
}

/// Where nobody answers, the caller gets what it is told at the end of its patience, at once.
impl<S: BlockingStore> BlockingStore for Flaky<S> {
    fn execute<C: Command>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError> {
        let fate = self.fate();
        let answer = self.done(fate).then(|| self.store.execute(key, command, patience));
        match (fate, answer) {
            (Fate::Answered, Some(answer)) => answer,
            (Fate::NotDone, _) => Err(StoreError::NotDone("told to".into())),
            _ => Err(StoreError::Unknown("told to".into())),
        }
    }
}

/// Pending once, and woken at once.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
