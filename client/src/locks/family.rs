//! The methods of each kind: lock, semaphore and read-write lock.

use std::time::Duration;

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
    /// Returns the lock for this owner, which can acquire it again while it holds it. The lock is free when each of its
    /// holds is released. An owner is plain data that another task or process can use.
    pub fn as_owner(&self, owner: OwnerId) -> Self {
        self.owned_by(owner)
    }

    /// Returns the lock for callers that wait in line: first come, first served (L9).
    ///
    /// Each waiter has a place in line. While there are places, a free lock is granted only to the owner of the first
    /// one, even before callers that do not wait in line. A place lasts for two polls and a call's timeout after the
    /// latest attempt, and at most half as much again. However many waiters die, a free lock stays idle for at most
    /// that long. A waiter without an attempt for that long goes to the end of the line.
    pub fn fair(&self) -> Self {
        let mut handle = self.clone();
        handle.options.fair = true;
        handle
    }

    /// Returns the lock for holders that keep it for at least `shortest` from its grant on: for short jobs on machines
    /// whose clocks differ by less than that.
    ///
    /// However a holder ends, nobody else is granted the lock before (L14): an earlier [`release`](super::LockGuard::release)
    /// waits until then, even if the lock is lost, unless the store no longer has the grant; a dropped guard is released
    /// then in the background; and the lock of a crashed holder, or of [closed](super::Locks::close) locks, ends with its
    /// lease. A time within some milliseconds of the lease ends with it, and an end of a lease wakes nobody: waiters
    /// poll.
    #[doc = locks_example!(
        r#"let lock = locks.lock("report")?.hold_at_least(Duration::from_secs(20))?;"#
        r#"let ran = lock.try_run(async |_token| "sent").await?; // returns at once"#
        r#"assert!(matches!(ran, RunOutcome::Done("sent")));"#
        "assert!(matches!(lock.try_run(async |_token| ()).await?, RunOutcome::Elsewhere(_)));"
    )]
    /// # Errors
    /// [`ConfigError::TooLarge`] for a time above the lease, or the longest hold time: a crashed holder's lock ends
    /// then.
    pub fn hold_at_least(&self, shortest: Duration) -> Result<Self, ConfigError> {
        let (what, bound) = ("shortest hold", "the lease");
        let span = self.manager.span();
        if shortest > span {
            let max = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
            return Err(ConfigError::TooLarge { what, max, unit: "us", bound });
        }
        let mut handle = self.clone();
        handle.options.shortest = shortest;
        Ok(handle)
    }

    /// Returns the holder of the lock, if any, since when and under which label, and the number of waiters in line.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        Ok(self.manager.store().execute(&self.key, &self.kind.inspect()).await?)
    }

    /// Frees the lock by force if `token` is that of its present grant. Returns whether that grant was freed by force,
    /// now or, as far as remembered, before. The holder learns of it with its next renewal, and goes on until then.
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
    /// [`ConfigError`] for a count of zero, or above the semaphore's permits.
    pub fn permits(&self, count: u64) -> Result<Self, ConfigError> {
        Ok(Handle { kind: Permits::new(self.kind.semaphore, count)?, ..self.clone() })
    }

    /// Returns the permits that are in use now.
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
    /// Returns this side for this owner, which can acquire either side again while it holds one. A writer may also
    /// read, and keep that after it releases the write. A reader may write while it is the only one.
    pub fn as_owner(&self, owner: OwnerId) -> Self {
        self.owned_by(owner)
    }

    /// Returns the present holders of either side.
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
