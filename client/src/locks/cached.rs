//! Values that one process builds for all.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use lockage_core::ConfigError;
use lockage_core::fenced::{Access, Kept};

use super::{Busy, Encoding, Locks, TryLock, ValueError, WorkError};
use crate::error::Error;
use crate::fenced::Fenced;
use crate::key::KeyError;
use crate::retry_store::RetryStore;
use crate::runtime::Spawn;
use crate::store::Store;

/// Values that all processes share, and one of them builds at a time (single flight).
///
/// The first caller that finds a value stale rebuilds it; meanwhile the others get the old one. If there is no value,
/// they wait.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::runtime::Tokio;
/// use lockage::locks::Cached;
/// use lockage::{Locks, RetryStore};
/// # use lockage_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let store = MemoryStore::new();
/// let store = RetryStore::new(store, Tokio, Duration::from_secs(1));
/// let locks = Locks::new(store, Duration::from_secs(30))?.with_prefix("cache-locks")?;
/// let (fresh, stale) = (Duration::from_secs(60), Duration::from_secs(600));
/// let cached = Cached::new(&locks, fresh, stale)?;
/// let page = cached.get("home", async || Ok::<_, String>("<html>".into())).await?;
/// assert_eq!(page, "<html>");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
///
/// Values are text, or others [by their encoding](Self::with_encoding). A stored value that cannot be decoded, since
/// another version of the program wrote it, counts as absent: it is rebuilt and overwritten. Two versions that run at
/// once would rebuild it for ever: give each form of a value a [prefix](Self::with_prefix) of its own.
pub struct Cached<S, R, V = String> {
    locks: Locks<S, R>,
    values: Fenced<RetryStore<S, R>>,
    stale: Duration,
    encoding: PhantomData<fn() -> V>,
}

impl<S, R> Cached<S, R>
where
    S: Store + Clone + 'static,
    R: Spawn,
{
    /// Creates values of text under the prefix `cached`. They are fresh for `fresh`, and then served for `stale` while
    /// they are rebuilt (whole microseconds, together at most 2^50 us).
    ///
    /// # Errors
    /// [`ConfigError`] for times out of range.
    pub fn new(locks: &Locks<S, R>, fresh: Duration, stale: Duration) -> Result<Self, ConfigError> {
        let values = Fenced::new(locks.store().clone(), fresh.saturating_add(stale))?;
        let values = values.with_prefix("cached").expect("it is a prefix");
        Ok(Cached { locks: locks.clone(), values, stale, encoding: PhantomData })
    }
}

impl<S, R, V> Cached<S, R, V>
where
    S: Store + Clone + 'static,
    R: Spawn,
    V: Encoding,
{
    /// Sets the prefix of the values.
    ///
    /// # Errors
    /// [`KeyError`] for an empty prefix, or one with a brace.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        Ok(Cached { values: self.values.with_prefix(prefix)?, ..self })
    }

    /// Sets how values are stored, and so their type: `with_encoding::<Vec<u8>>()` for bytes, and with the feature
    /// `serde` `with_encoding::<Json<Page>>()` for a `Page` as JSON.
    pub fn with_encoding<W: Encoding>(self) -> Cached<S, R, W> {
        let Cached { locks, values, stale, .. } = self;
        Cached { locks, values, stale, encoding: PhantomData }
    }

    /// Returns the value of this id, at most [`MAX_VALUE`](lockage_core::fenced::MAX_VALUE) bytes: the stored one, or a
    /// new one from `build`. A fresh value costs one call to the store.
    ///
    /// # Errors
    /// [`WorkError`]. An error of `build` goes to its own caller, and the next caller builds.
    pub async fn get<E>(
        &self,
        id: &str,
        build: impl AsyncFnOnce() -> Result<V::Value, E>,
    ) -> Result<V::Value, WorkError<E>> {
        let lock = self.locks.lock(id).map_err(Error::from)?;
        let guard = match self.peek(id).await? {
            Some((value, left)) if left > self.stale => return Ok(value),
            Some((value, _)) => match lock.try_acquire().await? {
                TryLock::Taken(guard) => guard,
                TryLock::Busy(_) => return Ok(value),
            },
            None => lock.acquire().await?,
        };
        // Another caller may have built it meanwhile.
        if let Some((value, left)) = self.peek(id).await?
            && left > self.stale
        {
            // A release that fails is repeated in the background.
            let _ = guard.release().await;
            return Ok(value);
        }
        let value = guard.run(build()).await?.map_err(WorkError::Work)?;
        let bytes = ValueError::encoded::<V>(id, &value)?;
        // A value that took longer than its lock was held goes to its caller alone.
        let _: Access<()> = self.values.write(id, guard.token(), &bytes).await?;
        let _ = guard.release().await;
        Ok(value)
    }

    /// Removes the value of this id, so that the next [`get`](Self::get) rebuilds it.
    ///
    /// The value is gone at once. If a build is in progress, this waits in line until it ends; its result goes to its
    /// own caller. A build that calls this for its own id would wait for itself.
    ///
    /// **Guarantee.** After this has returned, no `get` that begins returns a value whose build had begun before this
    /// call: the store refuses that value, since it has seen a newer fencing token (L7).
    ///
    /// **Limitations.** The token is remembered for `fresh` and `stale` together. A builder that has lost its lock can
    /// put an older value back if it pauses for longer than that between its build and its call to the store. So can a
    /// builder whose lock was granted to another after a failover (L11). If this call fails, or is dropped while it
    /// waits, a running build can do so too if it ends later by more than that time.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn invalidate(&self, id: &str) -> Result<(), Error> {
        let lock = self.locks.lock(id)?;
        let guard = match lock.try_acquire().await? {
            TryLock::Taken(guard) => guard,
            TryLock::Busy(busy) => {
                if let Busy::Held(holder) = busy {
                    // No later grant has a smaller token (L5).
                    let _: Access<()> = self.values.remove(id, holder.hold.token + 1).await?;
                }
                // That token alone would be forgotten if the build lasts longer than values are kept.
                lock.fair().acquire().await?
            }
        };
        // A stale token means that the value was rebuilt under a newer lock.
        let _: Access<()> = self.values.remove(id, guard.token()).await?;
        let _ = guard.release().await;
        Ok(())
    }

    /// Returns the value of this id and how long it is kept, if there is one that can be decoded.
    async fn peek(&self, id: &str) -> Result<Option<(V::Value, Duration)>, Error> {
        let kept = self.values.peek(id).await?;
        Ok(kept.and_then(|Kept { value, left }| Some((V::decode(value).ok()?, left))))
    }
}

impl<S, R, V> Clone for Cached<S, R, V>
where
    Fenced<RetryStore<S, R>>: Clone,
{
    fn clone(&self) -> Self {
        let (locks, values) = (self.locks.clone(), self.values.clone());
        Cached { locks, values, stale: self.stale, encoding: PhantomData }
    }
}

impl<S, R, V> fmt::Debug for Cached<S, R, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached")
            .field("locks", &self.locks)
            .field("stale", &self.stale)
            .finish_non_exhaustive()
    }
}
