//! A store whose calls have a timeout, and are retried if that is safe.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockage_core::flow::{Failure, Retry};
use lockage_core::{AcquireAll, Command, OneOutcome};

use crate::error::{Cause, StoreError};
use crate::key::Key;
use crate::runtime::{Runtime, within};
use crate::store::{Identity, Store};

/// A store with a timeout for each call.
///
/// Within that time it retries calls that did not run, with growing pauses, so that a short restart or failover goes
/// unnoticed. It retries an ambiguous call only if the store can recognise it: reads, the operations of locks, and
/// acquires with a request id (see [`Limiter::with_idempotency`](crate::Limiter::with_idempotency)). Every other call
/// is sent at most once, and reported as [`StoreError::Unknown`].
///
/// # How the timeout is divided
///
/// - An attempt of a repeatable call takes at most a quarter of the timeout, so that another one fits after a lost
///   answer. So the timeout should be at least four times as long as a slow answer.
/// - An attempt of any other call takes all the time that is left.
/// - Pauses between attempts grow to 200 ms ([`Retry`]). A failure is final if no time is left after the pause; that of a
///   call that did not run, if less than a quarter of the timeout is: cut off, it would be [`StoreError::Unknown`].
/// - A caller with less time than the timeout, such as one that waits for a permit, divides that.
///
/// The cause of a [`StoreError::Unknown`] is a [`NoAnswer`](crate::store::NoAnswer), with the timeout, the number of
/// attempts and the server's address.
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
    /// Creates a store whose calls take at most `timeout`, measured by `runtime`.
    ///
    /// If the client below has a timeout too, the shorter one counts for each attempt.
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

/// A store whose calls have a timeout: a [`RetryStore`].
///
/// Waiting and fallbacks need one.
#[diagnostic::on_unimplemented(
    message = "the calls of `{Self}` have no timeout",
    label = "this needs a store with a timeout",
    note = "wrap the store in `RetryStore`: `RetryStore::new(store, Tokio, Duration::from_millis(250))`"
)]
pub trait HasTimeout: Store + sealed::Sealed {
    /// The runtime whose clock measures the timeout.
    type Runtime: Runtime;

    #[doc(hidden)]
    fn runtime(&self) -> &Self::Runtime;

    #[doc(hidden)]
    fn timeout(&self) -> Duration;
}

mod sealed {
    pub trait Sealed {}
    impl<S, R> Sealed for super::RetryStore<S, R> {}
}

impl<S: Store, R: Runtime> HasTimeout for RetryStore<S, R> {
    type Runtime = R;

    fn runtime(&self) -> &R {
        &self.runtime
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl<S: Store, R: Runtime> RetryStore<S, R> {
    /// Makes attempts until one is answered, or another would be too late or unsafe. Each gets the time that it may
    /// take. Returns with the answer whether an earlier attempt may still be carried out.
    pub(crate) async fn attempts<T, F>(
        &self,
        waited: Duration,
        is_repeatable: bool,
        attempt: impl Fn(Duration) -> F,
    ) -> Result<(T, bool), StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut retry = Retry::new(self.runtime.now(), waited, is_repeatable);
        let (mut attempts, mut last) = (0, None);
        loop {
            let patience = retry.patience(self.runtime.now());
            if patience.is_zero() {
                // A call that is sent now would end without an answer.
                return Err(self.error_after(
                    last.unwrap_or((Failure::NotDone, None)),
                    waited,
                    attempts,
                ));
            }
            attempts += 1;
            let failed = match within(&self.runtime, patience, attempt(patience)).await {
                None => (Failure::Unknown, None),
                Some(Err(StoreError::NotDone(cause))) => (Failure::NotDone, Some(cause)),
                Some(Err(StoreError::Unknown(cause))) => (Failure::Unknown, Some(cause)),
                Some(answered) => {
                    let is_other_open = matches!(last, Some((Failure::Unknown, _)));
                    return match answered {
                        // It is final, and does not show whether an earlier attempt ran.
                        Err(StoreError::Misconfigured(cause)) if is_other_open => {
                            Err(self.error_after((Failure::Unknown, Some(cause)), waited, attempts))
                        }
                        answered => answered.map(|answer| (answer, is_other_open)),
                    };
                }
            };
            let next = retry.after(failed.0, self.runtime.now(), self.runtime.random());
            // After an ambiguous failure the call stays ambiguous, whatever comes after.
            let kept = match last.take() {
                Some(unknown @ (Failure::Unknown, _)) => unknown,
                _ => failed,
            };
            let Some(pause) = next else { return Err(self.error_after(kept, waited, attempts)) };
            last = Some(kept);
            self.runtime.sleep(pause).await;
        }
    }

    /// Returns the error of a call whose attempts have failed.
    fn error_after(&self, (failure, cause): Failed, waited: Duration, attempts: u32) -> StoreError {
        match (failure, cause) {
            (Failure::NotDone, Some(cause)) => StoreError::NotDone(cause),
            (Failure::NotDone, None) => StoreError::NotDone(self.no_answer(waited, attempts, None)),
            (Failure::Unknown, cause) => {
                StoreError::Unknown(self.no_answer(waited, attempts, cause))
            }
        }
    }

    /// Returns the error of an unanswered call; without a cause if the store was silent.
    pub(crate) fn no_answer(
        &self,
        waited: Duration,
        attempts: u32,
        cause: Option<Cause>,
    ) -> Box<NoAnswer> {
        let (timeout, server) = (self.timeout, self.server());
        Box::new(NoAnswer { timeout, waited, attempts, server, cause })
    }
}

impl<S: Store, R: Runtime> RetryStore<S, R> {
    /// Executes a command as [`Store::execute_within`] does. Returns with its outcome whether an earlier attempt, which
    /// was not answered, may still be carried out.
    pub(crate) async fn execute_noting<C>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<(C::Outcome, bool), StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let attempt = |patience| self.store.execute_within(key, command, patience);
        self.attempts(patience.min(self.timeout), command.is_repeatable(), attempt).await
    }
}

/// The kind of a failed attempt, and its cause, if the store gave one in time.
type Failed = (Failure, Option<Cause>);

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
        self.execute_noting(key, command, patience).await.map(|(outcome, _)| outcome)
    }

    fn supports_batch(&self) -> bool {
        self.store.supports_batch()
    }

    fn server(&self) -> Option<String> {
        self.store.server()
    }

    /// Retries the calls that did not run, together; the others have their outcomes.
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
        // Ambiguous calls of a batch are not retried.
        let result = self.attempts(patience.min(self.timeout), false, attempt).await;
        each.outcomes(result.err())
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
        let attempt = |patience| self.store.execute_all(keys, command, patience);
        let (waited, is_repeatable) = (patience.min(self.timeout), command.is_repeatable());
        self.attempts(waited, is_repeatable, attempt).await.map(|(decisions, _)| decisions)
    }
}

/// Several calls, whose retries send only those that did not run.
struct Each<'a, S, C: Command> {
    store: &'a S,
    calls: &'a [(&'a Key, &'a C)],
    outcomes: Mutex<Known<C::Outcome>>,
}

/// The outcome of each call, or `None` if it did not run so far.
type Known<T> = Vec<Option<Result<T, StoreError>>>;

impl<'a, S: Store, C: Command<Outcome: Send> + Sync> Each<'a, S, C> {
    fn new(store: &'a S, calls: &'a [(&'a Key, &'a C)]) -> Self {
        let outcomes = Mutex::new(calls.iter().map(|_| None).collect());
        Each { store, calls, outcomes }
    }

    /// Attempts all calls that did not run yet. Fails with the error of the last one that did not run again.
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

    /// Returns the outcome of each call; of those left, this error.
    fn outcomes(self, left: Option<StoreError>) -> Vec<Result<C::Outcome, StoreError>> {
        let outcomes = self.outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let left = left.unwrap_or_else(|| StoreError::NotDone("it was not sent".into())).shared();
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(left()))).collect()
    }
}

/// A call of a [`RetryStore`] got no answer, in time or because its connection was lost.
#[derive(Debug)]
pub struct NoAnswer {
    /// The timeout of the [`RetryStore`].
    pub timeout: Duration,
    /// How long the call could take: the timeout, or less if its caller had less time.
    pub waited: Duration,
    /// How often it was sent; zero if there was no time for it.
    pub attempts: u32,
    /// The server's address: see [`Store::server`].
    pub server: Option<String>,
    /// The error of the store below; `None` if it was silent.
    pub cause: Option<Cause>,
}

impl std::error::Error for NoAnswer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref()?.source()
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoAnswer { timeout, waited, attempts, server, cause } = self;
        f.write_str("no answer")?;
        // The cause has the address already, if it is known.
        if let (Some(server), None) = (server, cause) {
            write!(f, " from {server}")?;
        }
        write!(f, " (attempts: {attempts}, ")?;
        if waited < timeout {
            write!(f, "time: {waited:?}, ")?;
        }
        write!(f, "timeout: {timeout:?})")?;
        cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}
