//! A lock that is held.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use lockage_core::lock::OwnerId;

use super::lease::Lease;
use super::manager::LeaseManager;
use super::request::Released;
use super::state::{Pending, PendingRelease};
use crate::error::{Error, Loss};
use crate::runtime::{Runtime, within};
use crate::store::Store;

/// A held lock, permits, or side of a read-write lock, until it is released, dropped or lost.
///
/// Its lease is renewed in the background. If renewals fail until the lease ends, the lock is lost. The guard notices
/// that by this machine's clock, without asking the store.
///
/// A dropped guard is released in the background: at once, and again until the store answers or the lease has ended.
/// The drop never blocks. If no task runs, the next call of its [`Locks`](super::Locks) releases it.
#[must_use = "dropped, it gives the lock back"]
pub struct LockGuard<S, R> {
    manager: Arc<LeaseManager<S, R>>,
    lease: Arc<Lease>,
    id: u64,
    holds: u64,
    /// Whether it is held for as long as its lease says.
    is_kept: bool,
    is_released: bool,
}

impl<S, R> LockGuard<S, R>
where
    S: Store + 'static,
    R: Runtime,
{
    /// Returns the guard of this lease, which was granted by a call that was sent at `sent`.
    pub(super) fn new(
        manager: &Arc<LeaseManager<S, R>>,
        lease: Lease,
        holds: u64,
        sent: Duration,
    ) -> Self {
        let (manager, lease) = (Arc::clone(manager), Arc::new(lease));
        let id = manager.watch(&lease, sent);
        LockGuard { manager, lease, id, holds, is_kept: false, is_released: false }
    }

    /// Releases the lock and returns the outcome. A lock that is to be held for
    /// [longer](super::LockHandle::hold_at_least) is held until then.
    #[doc = locks_example!(
        r#"let guard = locks.lock("invoices")?.acquire().await?;"#
        "assert!(matches!(guard.release().await?, Released::Free));"
    )]
    /// # Errors
    /// [`Error`]. The release is then repeated in the background, also if this call is dropped before its end.
    pub async fn release(mut self) -> Result<Released, Error> {
        let early = self.due().saturating_sub(self.manager.runtime().now());
        if !early.is_zero() {
            _ = within(self.manager.runtime(), early, self.refused()).await;
        }
        self.manager.stop(self.id);
        let Lease { key, request, token, .. } = &*self.lease;
        let released = request.release(self.manager.store(), key, *token).await?;
        if let Released::NotHeld(holder) = released {
            self.manager.lose(self.id, Loss::Refused(holder));
        }
        self.is_released = true;
        Ok(released)
    }

    /// Releases the lock, or leaves that to the background: a release that fails, or is not due yet.
    pub(crate) async fn end(self) {
        if self.due() <= self.manager.runtime().now() {
            let _ = self.release().await;
        }
    }

    /// Waits until the lock is lost, and returns why. While its renewals succeed, a lock is lost only at its longest
    /// hold time, or when its locks are closed.
    ///
    /// Meanwhile it makes renewals that are late because their task is blocked.
    pub async fn lost(&self) -> Loss {
        let runtime = self.manager.runtime();
        loop {
            let lost = self.lease.lost.listen();
            let now = runtime.now();
            match self.manager.take_over(self.id, now) {
                Err(loss) => return loss,
                Ok(Some(until)) => _ = within(runtime, until - now, lost).await,
                Ok(None) => _ = select(self.manager.renew(self.id, &self.lease), lost).await,
            }
        }
    }

    /// Waits until the store no longer knows the grant. A lock that is lost otherwise may last there for a while.
    async fn refused(&self) {
        if !matches!(self.lost().await, Loss::Refused(_)) {
            std::future::pending::<()>().await;
        }
    }

    /// Runs `work` for as long as the lock is held, and drops it if the lock is lost first.
    ///
    /// `work` can be stopped only where it awaits something. Requests that it has sent may still take effect; pass the
    /// [token](Self::token) along if that would do harm.
    #[doc = locks_example!(
        r#"let guard = locks.lock("invoices")?.acquire().await?;"#
        "assert_eq!(guard.run(async { 40 + 2 }).await?, 42);"
    )]
    /// # Errors
    /// [`Loss`].
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Loss> {
        run_until(pin!(self.lost()), work).await
    }

    /// Returns whether the lock is lost: see [`LockGuard::time_left`] for why, and [`LockGuard::lost`] to wait for it.
    pub fn is_lost(&self) -> bool {
        self.time_left().is_err()
    }

    /// Returns how long the lock is certainly held from now on without a renewal.
    #[doc = locks_example!(
        r#"let guard = locks.lock("invoices")?.acquire().await?;"#
        "assert!(guard.time_left()? <= Duration::from_secs(30));"
    )]
    /// # Errors
    /// [`Loss`], if it is lost.
    pub fn time_left(&self) -> Result<Duration, Loss> {
        let now = self.manager.runtime().now();
        Ok(self.manager.status(self.id, now)? - now)
    }

    /// Returns until when the lock is certainly held without a renewal, by the clock of [`Runtime::now`]. That is the
    /// lease from the instant before it was asked for, less the most that clocks differ (L6, see
    /// [`own_deadline`](lockage_core::flow::own_deadline)).
    ///
    /// # Errors
    /// [`Loss`], if it is lost.
    pub fn deadline(&self) -> Result<Duration, Loss> {
        self.manager.status(self.id, self.manager.runtime().now())
    }
}

/// Runs `work` until `lost` is ready, which is polled first, so that `work` stops once the lock is lost.
pub(super) async fn run_until<T>(
    lost: impl Future<Output = Loss> + Unpin,
    work: impl Future<Output = T>,
) -> Result<T, Loss> {
    match select(lost, pin!(work)).await {
        Either::Left((loss, _)) => Err(loss),
        Either::Right((output, _)) => Ok(output),
    }
}

impl<S, R> LockGuard<S, R> {
    /// Holds it from now on for as long as its lease says, however it ends.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Returns when its release is due.
    fn due(&self) -> Duration {
        if self.is_kept { self.lease.kept_until } else { Duration::ZERO }
    }

    /// Reports this acquire, after this wait, to the observer, and from now on the lease's changes.
    pub(super) fn announce(&self, waited: Duration) {
        self.manager.announce(self.id, waited);
    }

    /// Returns whether others may hold something at the same time.
    pub(super) fn leaves_room(&self) -> bool {
        self.lease.request.kind.leaves_room()
    }

    /// Returns the fencing token. It is larger for each grant, and equal for repeated holds of one owner.
    pub fn token(&self) -> u64 {
        self.lease.token
    }

    /// Returns the owner's holds when this was acquired, including this one; for a semaphore, the number of permits.
    pub fn holds(&self) -> u64 {
        self.holds
    }

    /// Returns the owner. A caller that acquires [as this owner](super::LockHandle::as_owner) holds the lock once more.
    /// For a semaphore, these are the bits of its permits' id.
    pub fn owner(&self) -> OwnerId {
        self.lease.request.owner()
    }
}

impl<S, R> Drop for LockGuard<S, R> {
    fn drop(&mut self) {
        let (due, until) = (self.due(), self.manager.forget(self.id));
        if !self.is_released {
            let Lease { key, request, token, .. } = &*self.lease;
            let (key, what) = (key.clone(), Pending::Grant { token: *token });
            self.manager.release_later(PendingRelease { key, request: *request, what, due, until });
        }
    }
}

impl<S, R> fmt::Debug for LockGuard<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard").field("lease", &self.lease).field("holds", &self.holds).finish()
    }
}
