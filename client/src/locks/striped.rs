//! Locks of ids, on a fixed number of stripes.

use std::fmt;

use lockage_core::lock::Stripes;

use super::Locks;
use super::family::LockHandle;
use super::many::ManyLocks;
use crate::key::KeyError;
use crate::runtime::Spawn;
use crate::store::Store;

/// Locks of any number of ids, on a fixed number of stripes (lock striping). The lock of an id is that of its stripe.
/// See [`Locks::striped`].
///
/// The store keeps one lock for each stripe in use, however many ids there are, and few calls lock several ids. In
/// return, ids of one stripe exclude each other, too. The stripe of an id follows from a hash that is identical
/// everywhere: see [`Stripes`].
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::runtime::Tokio;
/// use lockage::locks::TryLock;
/// use lockage::{Locks, RetryStore};
/// # use lockage_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let store = MemoryStore::new();
/// let store = RetryStore::new(store, Tokio, Duration::from_secs(1));
/// let locks = Locks::new(store, Duration::from_secs(30))?;
/// let accounts = locks.striped("accounts", 64)?; // keys: lock:{accounts#0/64} to lock:{accounts#63/64}
///
/// let transfer = accounts.many(["user:42", "user:7"])?.acquire().await?;
/// let token = transfer.of(&accounts.lock_name("user:42")).expect("it is held").token();
/// println!("write the balance of user:42 with the fencing token {token}");
/// let other = accounts.lock("user:42")?.try_acquire().await?;
/// assert!(matches!(other, TryLock::Busy(_)));
/// transfer.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
///
/// **Guarantees.** At most one owner has a live lease of a stripe, and so of any of its ids (L1, L13). Callers that
/// take their stripes by [`many`](Self::many) alone never deadlock.
///
/// **Limitations.** All processes must use the same number of stripes. It is part of the keys, so stripes of different
/// numbers do not exclude each other: one id can then be locked twice. To change the number, let all processes first
/// lock both the old and the new stripes, the old ones first, and then drop the old ones. A caller that holds one id
/// and acquires another may wait for its own stripe, or in a ring with others: take all ids by `many`. A fencing token
/// is that of the stripe, and does not compare with those of others.
pub struct StripedLocks<S, R> {
    pub(super) locks: Locks<S, R>,
    pub(super) name: Box<str>,
    pub(super) stripes: Stripes,
}

impl<S, R> StripedLocks<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Returns the lock of this id's stripe.
    ///
    /// # Errors
    /// [`KeyError`] for an empty id.
    pub fn lock(&self, id: &str) -> Result<LockHandle<S, R>, KeyError> {
        self.locks.lock(&self.checked_name(id)?)
    }

    /// Returns the locks of the stripes of these ids, to be acquired together, each once and in one order for all
    /// callers.
    ///
    /// # Errors
    /// [`KeyError`] for an empty id.
    pub fn many<'n>(
        &self,
        ids: impl IntoIterator<Item = &'n str>,
    ) -> Result<ManyLocks<S, R>, KeyError> {
        let names = ids.into_iter().map(|id| self.checked_name(id));
        let names = names.collect::<Result<Vec<String>, _>>()?;
        self.locks.many(names.iter().map(String::as_str))
    }

    fn checked_name(&self, id: &str) -> Result<String, KeyError> {
        if id.is_empty() { Err(KeyError::EmptyId) } else { Ok(self.lock_name(id)) }
    }
}

impl<S, R> StripedLocks<S, R> {
    /// Returns the stripe of this id, from 0 on.
    pub fn stripe_of(&self, id: &str) -> u32 {
        self.stripes.of(id)
    }

    /// Returns the name of the lock of this id's stripe, such as `accounts#38/64`, which
    /// [`ManyGuard::of`](super::ManyGuard::of) takes.
    pub fn lock_name(&self, id: &str) -> String {
        self.stripes.name(&self.name, self.stripe_of(id))
    }
}

impl<S, R> Clone for StripedLocks<S, R> {
    fn clone(&self) -> Self {
        let (locks, name) = (self.locks.clone(), self.name.clone());
        StripedLocks { locks, name, stripes: self.stripes }
    }
}

impl<S, R> fmt::Debug for StripedLocks<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StripedLocks")
            .field("locks", &self.locks)
            .field("name", &self.name)
            .field("stripes", &self.stripes.count())
            .finish()
    }
}
