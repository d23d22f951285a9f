//! Work that runs once, with a remembered result.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use lockage_core::ConfigError;
use lockage_core::fenced::{Access, Kept};

use super::{Encoding, Locks, Loss, ValueError, WorkError};
use crate::fenced::Fenced;
use crate::key::KeyError;
use crate::retry_store::RetryStore;
use crate::runtime::Spawn;
use crate::store::Store;

/// Runs work once for each id, over all processes, and remembers its result: a payment callback, an order, an hourly
/// job.
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
/// remembered, and the next caller runs it again: each of its steps must be safe to repeat after a crash half way. Only
/// a result of the newest attempt is remembered.
///
/// Results are text, or others [by their encoding](Self::with_encoding). A remembered result that cannot be decoded,
/// since another version of the program wrote it, is [`WorkError::Value`]: its work is done, and does not run again.
pub struct RunOnce<S, R, V = String> {
    locks: Locks<S, R>,
    results: Fenced<RetryStore<S, R>>,
    encoding: PhantomData<fn() -> V>,
}

/// The result of work that runs once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceResult<T = String> {
    /// The return value of the work.
    pub result: T,
    /// Whether this call ran the work. Otherwise the result is remembered from an earlier one.
    pub is_new: bool,
}

impl<S, R> RunOnce<S, R>
where
    S: Store + Clone + 'static,
    R: Spawn,
{
    /// Creates a runner of work under these locks. It remembers each result, a text, for `remember` (whole
    /// microseconds, at most 2^50 us) under the prefix `once`.
    ///
    /// # Errors
    /// [`ConfigError`] for a time out of range.
    pub fn new(locks: &Locks<S, R>, remember: Duration) -> Result<Self, ConfigError> {
        let results = Fenced::new(locks.store().clone(), remember)?;
        let results = results.with_prefix("once").expect("it is a prefix");
        Ok(RunOnce { locks: locks.clone(), results, encoding: PhantomData })
    }
}

impl<S, R, V> RunOnce<S, R, V>
where
    S: Store + Clone + 'static,
    R: Spawn,
    V: Encoding,
{
    /// Sets the prefix under which results are remembered.
    ///
    /// # Errors
    /// [`KeyError`] for an empty prefix, or one with a brace.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        Ok(RunOnce { results: self.results.with_prefix(prefix)?, ..self })
    }

    /// Sets how results are stored, and so their type: `with_encoding::<Vec<u8>>()` for bytes, and with the feature
    /// `serde` `with_encoding::<Json<Receipt>>()` for a `Receipt` as JSON.
    pub fn with_encoding<W: Encoding>(self) -> RunOnce<S, R, W> {
        RunOnce { locks: self.locks, results: self.results, encoding: PhantomData }
    }

    /// Returns the result of this id's work, remembered or from a run now. `work` gets its fencing token; its result
    /// has at most [`MAX_VALUE`](lockage_core::fenced::MAX_VALUE) bytes.
    ///
    /// A remembered result costs one call to the store, a new one five.
    ///
    /// # Errors
    /// [`WorkError`]; an error of the work is not remembered.
    pub async fn run<E>(
        &self,
        id: &str,
        work: impl AsyncFnOnce(u64) -> Result<V::Value, E>,
    ) -> Result<OnceResult<V::Value>, WorkError<E>> {
        let remembered = |known: Kept| {
            let result = ValueError::decoded::<V>(id, known.value)?;
            Ok(OnceResult { result, is_new: false })
        };
        if let Some(known) = self.results.peek(id).await? {
            return remembered(known);
        }
        let guard = self.locks.lock(id).map_err(crate::Error::from)?.acquire().await?;
        // From now on the store accepts no result of an earlier attempt.
        match self.results.read(id, guard.token()).await? {
            Access::Accepted(Some(known)) => {
                // A release that fails is repeated in the background.
                let _ = guard.release().await;
                return remembered(known);
            }
            Access::Accepted(None) => {}
            Access::Stale { .. } => return Err(WorkError::Lost(Loss::Refused(None))),
        }
        let result = guard.run(work(guard.token())).await?.map_err(WorkError::Work)?;
        let bytes = ValueError::encoded::<V>(id, &result)?;
        match self.results.write(id, guard.token(), bytes).await? {
            Access::Accepted(()) => {}
            Access::Stale { .. } => return Err(WorkError::Lost(Loss::Refused(None))),
        }
        Ok(OnceResult { result, is_new: true })
    }
}

impl<S, R, V> Clone for RunOnce<S, R, V>
where
    Fenced<RetryStore<S, R>>: Clone,
{
    fn clone(&self) -> Self {
        let (locks, results) = (self.locks.clone(), self.results.clone());
        RunOnce { locks, results, encoding: PhantomData }
    }
}

impl<S, R, V> fmt::Debug for RunOnce<S, R, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOnce").field("locks", &self.locks).finish_non_exhaustive()
    }
}
