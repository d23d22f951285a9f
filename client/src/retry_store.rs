//! A store whose calls have a timeout, and are tried again where that is safe.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockage_core::Command;
use lockage_core::flow::{Failure, Retry};

use crate::error::StoreError;
use crate::key::Key;
use crate::runtime::{Runtime, within};
use crate::store::Store;

/// A store with a timeout for each call.
///
/// Within that time a call that was certainly not done is tried again, with growing pauses: a
/// server that restarts or a failover goes unnoticed where it is over in time. A call that may have
/// been done is tried again only where the store can tell that it is the same one: reading calls,
/// the operations of locks, and acquires with a request id (see
/// [`Limiter::with_idempotency`](crate::Limiter::with_idempotency)). Everything else is sent at
/// most once, and reported as [`StoreError::Unknown`].
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::runtime::Tokio;
/// use lockage::{Limiter, RetryStore};
/// # use lockage_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let store = MemoryStore::new();
/// let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
/// let limiter = Limiter::new(store, "token-bucket 100/s burst 1".parse()?).with_prefix("mails")?;
/// for _ in 0..3 {
///     // Waits for its permit, here for 10 ms, but no longer than 2 s.
///     assert!(limiter.acquire_within("user:42", 1, Duration::from_secs(2)).await?.is_allowed());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
#[derive(Clone, Debug)]
pub struct RetryStore<S, R> {
    store: S,
    runtime: R,
    timeout: Duration,
}

impl<S, R> RetryStore<S, R> {
    /// Calls of `store` take at most `timeout`, as this runtime measures it.
    ///
    /// Where the client below has a timeout of its own, the shorter one counts for each attempt.
    pub fn new(store: S, runtime: R, timeout: Duration) -> Self {
        RetryStore { store, runtime, timeout }
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    pub(crate) fn runtime(&self) -> &R {
        &self.runtime
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl<S, R: Runtime> RetryStore<S, R> {
    /// Makes attempts until one is answered, or until it is too late or not safe to make another one. Each is
    /// told how long it may take.
    pub(crate) async fn attempts<T, F>(
        &self,
        timeout: Duration,
        is_repeatable: bool,
        attempt: impl Fn(Duration) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut retry = Retry::new(self.runtime.now(), timeout, is_repeatable);
        let mut last = None;
        loop {
            let patience = retry.patience(self.runtime.now());
            let no_answer = NoAnswer { after: patience };
            if patience.is_zero() {
                // To send it now would be to know nothing of it.
                return Err(last.unwrap_or_else(|| StoreError::NotDone(Box::new(no_answer))));
            }
            let result = within(&self.runtime, patience, attempt(patience)).await;
            let result = result.unwrap_or_else(|| Err(StoreError::Unknown(Box::new(no_answer))));
            let (failure, error) = match result {
                Err(error @ StoreError::NotDone(_)) => (Failure::NotDone, error),
                Err(error @ StoreError::Unknown(_)) => (Failure::Unknown, error),
                answered => return answered,
            };
            // A failure that leaves it open whether the call was done stays so, whatever comes after.
            let error = match last.take() {
                Some(unknown @ StoreError::Unknown(_)) => unknown,
                _ => error,
            };
            let next = retry.after(failure, self.runtime.now(), self.runtime.random());
            let Some(pause) = next else { return Err(error) };
            last = Some(error);
            self.runtime.sleep(pause).await;
        }
    }
}

impl<S: Store, R: Runtime> Store for RetryStore<S, R> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.execute_within(key, command, self.timeout).await
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
        let attempt = |patience| self.store.execute_within(key, command, patience);
        self.attempts(patience.min(self.timeout), command.is_repeatable(), attempt).await
    }

    fn supports_batch(&self) -> bool {
        self.store.supports_batch()
    }

    /// What is not done of them is tried again, together; the others have their outcomes.
    async fn execute_batch<C>(
        &self,
        calls: &[(&Key, &C)],
        patience: Duration,
    ) -> Vec<Result<C::Outcome, StoreError>>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let each = Each::new(&self.store, calls);
        let attempt = |patience| each.attempt(patience);
        // A call that may have been done is tried again by none but itself.
        let result = self.attempts(patience.min(self.timeout), false, attempt).await;
        each.outcomes(result.err())
    }
}

/// Several calls, of which those are sent again that were not done.
struct Each<'a, S, C: Command> {
    store: &'a S,
    calls: &'a [(&'a Key, &'a C)],
    outcomes: Mutex<Known<C::Outcome>>,
}

/// Of each call, unless it was not done so far.
type Known<T> = Vec<Option<Result<T, StoreError>>>;

impl<'a, S: Store, C: Command<Outcome: Send> + Sync> Each<'a, S, C> {
    fn new(store: &'a S, calls: &'a [(&'a Key, &'a C)]) -> Self {
        let outcomes = Mutex::new(calls.iter().map(|_| None).collect());
        Each { store, calls, outcomes }
    }

    /// All of them, or those that were not done; whether any is left.
    async fn attempt(&self, patience: Duration) -> Result<(), StoreError> {
        let left: Vec<usize> = {
            let outcomes = self.known();
            (0..self.calls.len()).filter(|&index| outcomes[index].is_none()).collect()
        };
        let calls: Vec<_> = left.iter().map(|&index| self.calls[index]).collect();
        let sent = self.store.execute_batch(&calls, patience).await;
        let mut left_over = Ok(());
        let mut outcomes = self.known();
        for (index, outcome) in left.into_iter().zip(sent) {
            match outcome {
                Err(error @ StoreError::NotDone(_)) => left_over = Err(error),
                outcome => outcomes[index] = Some(outcome),
            }
        }
        left_over
    }

    fn known(&self) -> MutexGuard<'_, Known<C::Outcome>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome of each: of what is left, this error.
    fn outcomes(self, left: Option<StoreError>) -> Vec<Result<C::Outcome, StoreError>> {
        let outcomes = self.outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let left = left.unwrap_or_else(|| StoreError::NotDone("it was not sent".into())).shared();
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(left()))).collect()
    }
}

/// The store has not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {after:?}")]
pub struct NoAnswer {
    /// For how long the attempt was waited for.
    pub after: Duration,
}
