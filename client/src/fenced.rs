//! Values that refuse a holder that has lost its lock without noticing.

use std::time::Duration;

use lockage_core::ConfigError;
pub use lockage_core::fenced::{Access, Kept};
use lockage_core::fenced::{FencedPeek, FencedRead, FencedWrite};

use crate::error::Error;
use crate::key::{Key, KeyError, check_prefix};
use crate::store::Store;

/// The default prefix of values.
const DEFAULT_PREFIX: &str = "fenced";

/// Values of bytes, by id, that are read and written with the fencing token of a lock. They accept no token older than
/// the newest that they have seen (L7). See [`lockage_core::fenced`].
///
/// ```
/// use std::time::Duration;
/// use lockage::fenced::{Access, Fenced};
/// # use lockage_memory::MemoryStore;
///
/// # pollster::block_on(async {
/// # let store = MemoryStore::new();
/// let reports = Fenced::new(store, Duration::from_secs(24 * 3600))?;
/// let (paused, next) = (33, 34); // of `LockGuard::token`
/// assert_eq!(reports.write("today", next, "finished").await?, Access::Accepted(()));
/// assert_eq!(reports.write("today", paused, "begun").await?, Access::Stale { newest: 34 });
/// assert_eq!(reports.peek("today").await?.expect("it is kept").text()?, "finished");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    store: S,
    prefix: Box<str>,
    keep: Duration,
}

impl<S: Store> Fenced<S> {
    /// Creates values with the prefix `fenced`, each kept for `keep` (whole microseconds, at most 2^50 us) after its
    /// last write, or its last read with a newer token. `keep` should be longer than any pause of a holder, since the
    /// newest token is forgotten with the value.
    ///
    /// # Errors
    /// [`ConfigError`] for a time out of range.
    pub fn new(store: S, keep: Duration) -> Result<Self, ConfigError> {
        FencedRead::new(0, keep)?;
        Ok(Fenced { store, prefix: DEFAULT_PREFIX.into(), keep })
    }

    /// Sets the prefix: keys are `prefix:{id}`.
    ///
    /// # Errors
    /// [`KeyError`] for an empty prefix, or one with a brace.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        check_prefix(prefix)?;
        Ok(Fenced { prefix: prefix.into(), ..self })
    }

    /// Writes the value of `id`: text or any other bytes, at most [`MAX_VALUE`](lockage_core::fenced::MAX_VALUE).
    ///
    /// # Errors
    /// [`Error`]. A refusal of an old token is not an error. A write without an answer
    /// ([`StoreError::Unknown`](crate::StoreError::Unknown)) is not repeated: a late duplicate could undo a later write
    /// of the same holder.
    pub async fn write(
        &self,
        id: &str,
        token: u64,
        value: impl AsRef<[u8]>,
    ) -> Result<Access<()>, Error> {
        let command = FencedWrite::new(token, value, self.keep)?;
        Ok(self.store.execute(&self.key(id)?, &command).await?)
    }

    /// Removes the value of `id`. From then on it refuses older tokens.
    ///
    /// # Errors
    /// As [`Fenced::write`].
    pub async fn remove(&self, id: &str, token: u64) -> Result<Access<()>, Error> {
        let command = FencedWrite::removal(token, self.keep)?;
        Ok(self.store.execute(&self.key(id)?, &command).await?)
    }

    /// Reads the value of `id`. From then on it refuses older tokens.
    ///
    /// # Errors
    /// [`Error`]. A refusal of an old token is not an error.
    pub async fn read(&self, id: &str, token: u64) -> Result<Access<Option<Kept>>, Error> {
        let command = FencedRead::new(token, self.keep)?;
        Ok(self.store.execute(&self.key(id)?, &command).await?)
    }

    /// Reads the value of `id` without a token.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn peek(&self, id: &str) -> Result<Option<Kept>, Error> {
        Ok(self.store.execute(&self.key(id)?, &FencedPeek).await?)
    }

    fn key(&self, id: &str) -> Result<Key, KeyError> {
        Key::new(&self.prefix, id)
    }
}
