//! What a lock, a semaphore and a read-write lock each have of their own.

use lockage_core::lock::{Answer, Inspection, Lock, OwnerId};
use lockage_core::{ConfigError, rw_lock, semaphore};

use super::handle::Handle;
use super::kind::{Permits, Side};
use crate::error::Error;
use crate::runtime::Spawn;
use crate::store::Store;

/// One lock. See [`Locks::lock`](super::Locks::lock).
pub type LockHandle<S, R> = Handle<S, R, Lock>;

/// Permits of a semaphore. See [`Locks::semaphore`](super::Locks::semaphore).
pub type SemaphoreHandle<S, R> = Handle<S, R, Permits>;

/// One side of a read-write lock. See [`Locks::read_lock`](super::Locks::read_lock) and
/// [`Locks::write_lock`](super::Locks::write_lock).
pub type RwLockHandle<S, R> = Handle<S, R, Side>;

impl<S, R> LockHandle<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Returns the lock for this owner, which can acquire it again while it holds it: it is then held once more,
    /// and free when each hold is released. An owner is plain data, and can be handed to another task or process.
    pub fn as_owner(&self, owner: OwnerId) -> Self {
        self.owned_by(owner)
    }

    /// Returns the lock for callers that wait in line: first come, first served (L9).
    ///
    /// Each waiter has a place. While there are places, a free lock is granted only to the owner of the first one,
    /// also before callers that do not wait in line. A place lasts for two polls and a call's timeout from the latest
    /// attempt on, and half as much again at most. A lock that is free stays idle for at most that long because of
    /// waiters that died, however many. A waiter that makes no attempt for that long comes last again.
    pub fn fair(&self) -> Self {
        let mut handle = self.clone();
        handle.options.fair = true;
        handle
    }

    /// Returns who holds the lock now, if anyone, since when, under which label, and how many wait in line.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        Ok(self.manager.store().execute(&self.key, &self.kind.inspect()).await?)
    }

    /// Frees the lock, whoever holds it, where `token` is that of its present grant. Returns whether that grant was
    /// freed by force, now or, as far as that is remembered, before. The holder learns of it with the next
    /// renewal, and goes on until then.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn force_release(&self, token: u64) -> Result<bool, Error> {
        let command = self.kind.force_release(token);
        let reply = self.manager.store().execute(&self.key, &command).await?;
        Ok(matches!(reply.answer, Answer::Released { .. }))
    }
}

impl<S, R> SemaphoreHandle<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Returns the semaphore for `count` permits at once, all or none, instead of one.
    ///
    /// # Errors
    /// [`ConfigError`] for none, or for more than there are.
    pub fn permits(&self, count: u64) -> Result<Self, ConfigError> {
        Ok(Handle { kind: Permits::new(self.kind.semaphore, count)?, ..self.clone() })
    }

    /// Returns what is in use now.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<semaphore::Inspection, Error> {
        Ok(self.manager.store().execute(&self.key, &self.kind.semaphore.inspect()).await?)
    }
}

impl<S, R> RwLockHandle<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Returns this side for this owner, which can acquire either side again while it holds it: a writer may read as
    /// well, and keep that when it releases the write; a reader may write while it is the only one.
    pub fn as_owner(&self, owner: OwnerId) -> Self {
        self.owned_by(owner)
    }

    /// Returns who holds either side now.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<rw_lock::Inspection, Error> {
        Ok(self.manager.store().execute(&self.key, &self.kind.lock.inspect()).await?)
    }
}

impl<S, R, K: Clone> Handle<S, R, K> {
    fn owned_by(&self, owner: OwnerId) -> Self {
        let mut handle = self.clone();
        handle.options.owner = Some(owner);
        handle
    }
}
