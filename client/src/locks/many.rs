//! Several locks at once: all or none.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use lockage_core::lock::OwnerId;

use super::family::LockHandle;
use super::guard::{LockGuard, run_until};
use super::handle::TryLock;
use super::request::Released;
use crate::error::Error;
use crate::error::Loss;
use crate::runtime::{Runtime, Spawn};
use crate::store::Store;

/// Several locks that are acquired together. See [`Locks::many`](super::Locks::many).
pub struct ManyLocks<S, R> {
    /// By name, so that all callers acquire them in one order and never deadlock.
    pub(super) locks: BTreeMap<Box<str>, LockHandle<S, R>>,
}

/// Several locks that are held together. Dropping it releases all, as each guard does.
#[must_use = "dropped, it gives the locks back"]
pub struct ManyGuard<S, R> {
    guards: BTreeMap<Box<str>, LockGuard<S, R>>,
}

/// How long each is waited for. A closure here would make a future that cannot be sent to another thread.
#[derive(Clone, Copy)]
enum Wait {
    Not,
    /// Until then by the runtime's clock, or for ever.
    Until(Option<Duration>),
}

impl<S, R> ManyLocks<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Returns these locks for this owner: see [`LockHandle::as_owner`].
    pub fn as_owner(&self, owner: OwnerId) -> Self {
        let locks = self.locks.iter();
        ManyLocks {
            locks: locks.map(|(name, lock)| (name.clone(), lock.as_owner(owner))).collect(),
        }
    }

    /// Acquires all of them if each is free now, and otherwise none.
    ///
    /// # Errors
    /// As [`LockHandle::try_acquire`]. Locks acquired before are released.
    pub async fn try_acquire(&self) -> Result<TryLock<ManyGuard<S, R>>, Error> {
        self.take(Wait::Not).await
    }

    /// Acquires all of them, in the order of their names, and waits for each until it is free. It holds acquired locks
    /// meanwhile.
    ///
    /// If this call is dropped before its end, nothing is held.
    ///
    /// # Errors
    /// As [`LockHandle::acquire`]. Locks acquired before are released.
    pub async fn acquire(&self) -> Result<ManyGuard<S, R>, Error> {
        loop {
            if let TryLock::Taken(guard) = self.wait(None).await? {
                return Ok(guard);
            }
        }
    }

    /// Acquires all of them as [`acquire`](Self::acquire) does, and waits at most `timeout` for all together.
    ///
    /// # Errors
    /// As [`LockHandle::acquire_within`]. Locks acquired before are released.
    pub async fn acquire_within(
        &self,
        timeout: Duration,
    ) -> Result<TryLock<ManyGuard<S, R>>, Error> {
        let Some(first) = self.locks.values().next() else { return self.try_acquire().await };
        self.wait(Some(first.manager.runtime().now().saturating_add(timeout))).await
    }

    async fn wait(&self, deadline: Option<Duration>) -> Result<TryLock<ManyGuard<S, R>>, Error> {
        loop {
            match self.take(Wait::Until(deadline)).await? {
                // One was lost while the others were waited for: it begins anew.
                TryLock::Taken(guard) if guard.is_lost() => {}
                outcome => return Ok(outcome),
            }
        }
    }

    async fn take(&self, wait: Wait) -> Result<TryLock<ManyGuard<S, R>>, Error> {
        let mut guards = BTreeMap::new();
        for (name, lock) in &self.locks {
            let outcome = match wait {
                Wait::Not => lock.try_acquire().await?,
                Wait::Until(deadline) => lock.acquire_until(deadline).await?,
            };
            match outcome {
                TryLock::Taken(guard) => guards.insert(name.clone(), guard),
                TryLock::Busy(busy) => return Ok(TryLock::Busy(busy)),
            };
        }
        Ok(TryLock::Taken(ManyGuard { guards }))
    }
}

impl<S, R> ManyGuard<S, R>
where
    S: Store + 'static,
    R: Runtime,
{
    /// Releases all, and returns the outcome of each by its name.
    ///
    /// # Errors
    /// The first [`Error`]. That release is then repeated in the background.
    pub async fn release(self) -> Result<BTreeMap<Box<str>, Released>, Error> {
        let release = |(name, guard): (Box<str>, LockGuard<S, R>)| async move {
            Ok((name, guard.release().await?))
        };
        join_all(self.guards.into_iter().map(release)).await.into_iter().collect()
    }

    /// Releases all, and leaves failed releases to the background.
    #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
    pub(crate) async fn end(self) {
        let _ = self.release().await;
    }

    /// Waits until one of them is lost, and returns why. See [`LockGuard::lost`].
    pub async fn lost(&self) -> Loss {
        if self.guards.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.guards.values().map(|guard| Box::pin(guard.lost()))).await.0
    }

    /// Runs `work` for as long as all are held. See [`LockGuard::run`].
    ///
    /// # Errors
    /// [`Loss`], of the first that is lost.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Loss> {
        run_until(pin!(self.lost()), work).await
    }

    /// Returns how long all are certainly held from now on. See [`LockGuard::time_left`].
    ///
    /// # Errors
    /// [`Loss`].
    pub fn time_left(&self) -> Result<Duration, Loss> {
        let mut left = Duration::MAX;
        for guard in self.guards.values() {
            left = left.min(guard.time_left()?);
        }
        Ok(left)
    }
}

impl<S, R: Runtime> ManyGuard<S, R>
where
    S: Store + 'static,
{
    /// Returns whether one of them is lost: see [`ManyGuard::time_left`] for why.
    pub fn is_lost(&self) -> bool {
        self.time_left().is_err()
    }
}

impl<S, R> ManyGuard<S, R> {
    /// Returns the guard of the lock of this name, for its token.
    pub fn of(&self, name: &str) -> Option<&LockGuard<S, R>> {
        self.guards.get(name)
    }
}

impl<S, R> Clone for ManyLocks<S, R> {
    fn clone(&self) -> Self {
        ManyLocks { locks: self.locks.clone() }
    }
}

impl<S, R> fmt::Debug for ManyLocks<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManyLocks").field(&self.locks).finish()
    }
}

impl<S, R> fmt::Debug for ManyGuard<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManyGuard").field(&self.guards).finish()
    }
}
