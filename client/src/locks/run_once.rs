//! Work that is done once, and whose result is remembered.

use std::fmt;
use std::time::Duration;

use lockage_core::ConfigError;
use lockage_core::fenced::{Access, Kept};

use super::{Locks, Loss, WorkError};
use crate::fenced::Fenced;
use crate::key::KeyError;
use crate::retry_store::RetryStore;
use crate::runtime::Spawn;
use crate::store::Store;

/// Runs work once for each id, whichever process is asked, and remembers its result: the callback of a payment, an
/// order, the job of this hour.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::runtime::Tokio;
/// use lockage::locks::RunOnce;
/// use lockage::{Locks, RetryStore};
/// # use lockage_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let store = MemoryStore::new();
/// let store = RetryStore::new(store, Tokio, Duration::from_secs(1));
/// let locks = Locks::new(store, Duration::from_secs(30))?.with_prefix("payments")?;
/// let once = RunOnce::new(&locks, Duration::from_secs(7 * 24 * 3600))?.with_prefix("payments-done")?;
///
/// for delivery in 1..=2 {
///     let ran = once.run("charge:8241", async |_token| Ok::<_, String>("receipt 77".into())).await?;
///     assert_eq!((ran.result.as_str(), ran.is_new), ("receipt 77", delivery == 1));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
///
/// Concurrent callers wait for the work, and get its result. Work that fails, is dropped, or loses its lock is not
/// remembered, and the next caller runs it again: each of its parts must bear being repeated after a crash half way.
/// Only a result of the newest attempt is remembered.
pub struct RunOnce<S, R> {
    locks: Locks<S, R>,
    results: Fenced<RetryStore<S, R>>,
}

/// The result of work that is run once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceResult {
    /// What the work returned.
    pub result: String,
    /// Whether this call ran the work. Otherwise the result is remembered from an earlier one.
    pub is_new: bool,
}

impl<S, R> RunOnce<S, R>
where
    S: Store + Clone + 'static,
    R: Spawn,
{
    /// Returns one that runs work under these locks, and remembers each result for `remember` (whole microseconds, at
    /// most 2^50 us) under the prefix `once`.
    ///
    /// # Errors
    /// [`ConfigError`] for a time out of range.
    pub fn new(locks: &Locks<S, R>, remember: Duration) -> Result<Self, ConfigError> {
        let results = Fenced::new(locks.store().clone(), remember)?;
        let results = results.with_prefix("once").expect("it is a prefix");
        Ok(RunOnce { locks: locks.clone(), results })
    }

    /// Sets the prefix under which results are remembered.
    ///
    /// # Errors
    /// [`KeyError`] for an empty prefix, or one with a brace.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        Ok(RunOnce { results: self.results.with_prefix(prefix)?, ..self })
    }

    /// Returns the result of the work of this id: remembered, or of running it now. `work` gets the fencing token that
    /// it runs under; its result has at most [`MAX_VALUE`](lockage_core::fenced::MAX_VALUE) bytes.
    ///
    /// A remembered result costs one call to the store, another one five.
    ///
    /// # Errors
    /// [`WorkError`]; the work's own is not remembered.
    pub async fn run<E>(
        &self,
        id: &str,
        work: impl AsyncFnOnce(u64) -> Result<String, E>,
    ) -> Result<OnceResult, WorkError<E>> {
        if let Some(known) = self.results.peek(id).await? {
            return Ok(known.into());
        }
        let guard = self.locks.lock(id).map_err(crate::Error::from)?.acquire().await?;
        // From here on no result of an earlier attempt is accepted.
        match self.results.read(id, guard.token()).await? {
            Access::Accepted(Some(known)) => {
                guard.release().await?;
                return Ok(known.into());
            }
            Access::Accepted(None) => {}
            Access::Stale { .. } => return Err(WorkError::Lost(Loss::Refused(None))),
        }
        let result = guard.run(work(guard.token())).await?.map_err(WorkError::Work)?;
        match self.results.write(id, guard.token(), &result).await? {
            Access::Accepted(()) => {}
            Access::Stale { .. } => return Err(WorkError::Lost(Loss::Refused(None))),
        }
        // The result is stored: what becomes of the lock changes nothing.
        drop(guard);
        Ok(OnceResult { result, is_new: true })
    }
}

impl From<Kept> for OnceResult {
    fn from(known: Kept) -> Self {
        OnceResult { result: known.value, is_new: false }
    }
}

impl<S, R> Clone for RunOnce<S, R>
where
    Fenced<RetryStore<S, R>>: Clone,
{
    fn clone(&self) -> Self {
        RunOnce { locks: self.locks.clone(), results: self.results.clone() }
    }
}

impl<S, R> fmt::Debug for RunOnce<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOnce").field("locks", &self.locks).finish_non_exhaustive()
    }
}
