//! What a lock, a semaphore and a read-write lock have each for themselves.

use lockage_core::lock::{Answer, Inspection, OwnerId};
use lockage_core::{ConfigError, rw_lock, semaphore};

use super::handle::{Handle, LockHandle};
use super::kind::{Permits, Side};
use crate::error::Error;
use crate::runtime::Spawn;
use crate::store::Store;

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
    /// The same lock for this owner, who can take it again while he holds it: it is then held once more, and
    /// free when each hold is released. An owner is plain data, and can be handed to another task or
    /// process.
    pub fn as_owner(&self, owner: OwnerId) -> Self {
        let mut named = self.clone();
        named.kind.owner = Some(owner);
        named
    }

    /// The same lock for callers who wait in line: the first to come is the first to have it (L9).
    ///
    /// Whoever waits has a place, and while there are places a free lock is granted to the owner of the first one
    /// alone, also before those who do not wait in line. A place lasts for two polls and a call's timeout from the
    /// latest question on, and half as much again at most; so much a lock that is free stays idle at most because of
    /// those who died while they waited, however many. Who does not ask for that long comes last again.
    pub fn fair(&self) -> Self {
        let mut named = self.clone();
        named.kind.in_line = true;
        named
    }

    /// Who holds the lock now, if anyone, since when, under which label, and how many wait in line.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        let inspect = self.kind.lock.inspect();
        Ok(self.keeper.shared.store.execute(&self.key, &inspect).await?)
    }

    /// Frees the lock, whoever holds it, where `token` is that of its present grant; tells whether that grant was
    /// freed by force, now or, as far as that is remembered, before. Its holder learns of it when his lease is
    /// renewed next, and goes on until then.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn force_release(&self, token: u64) -> Result<bool, Error> {
        let command = self.kind.lock.force_release(token);
        let reply = self.keeper.shared.store.execute(&self.key, &command).await?;
        Ok(matches!(reply.answer, Answer::Released { .. }))
    }
}

impl<S, R> SemaphoreHandle<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// So many permits at once, all or none, instead of one.
    ///
    /// # Errors
    /// [`ConfigError`] for none, or for more than there are.
    pub fn permits(&self, count: u64) -> Result<Self, ConfigError> {
        Ok(Handle { kind: Permits::new(self.kind.semaphore, count)?, ..self.clone() })
    }

    /// What is in use now.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<semaphore::Inspection, Error> {
        let inspect = self.kind.semaphore.inspect();
        Ok(self.keeper.shared.store.execute(&self.key, &inspect).await?)
    }
}

impl<S, R> RwLockHandle<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// The same for this owner, who can take either side again while he holds it: a writer may read as well, and
    /// keep that when he gives the write back; a reader may write while he is the only one.
    pub fn as_owner(&self, owner: OwnerId) -> Self {
        let mut named = self.clone();
        named.kind.owner = Some(owner);
        named
    }

    /// Who holds either side now.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<rw_lock::Inspection, Error> {
        let inspect = self.kind.lock.inspect();
        Ok(self.keeper.shared.store.execute(&self.key, &inspect).await?)
    }
}
