//! A lock that is held.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use lockage_core::lock::{Holder, OwnerId};

use super::claim::{Claim, Granted};
use super::hold::{Hold, Loss};
use super::keeper::{Errand, Keeper, Return};
use crate::error::Error;
use crate::key::Key;
use crate::runtime::{Runtime, within};
use crate::store::Store;

/// What is held, until it is released, dropped or lost: a lock, permits, or a side of a read-write lock.
///
/// Its lease is renewed in the background. Where that fails until the lease ends, it is lost; that is noticed
/// here, by this machine's clock, without asking the store.
///
/// Dropped, it is given back in the background: at once, and again until that is answered or the lease
/// has ended. To drop it never blocks.
#[must_use = "dropped, it gives the lock back"]
pub struct LockGuard<S, R> {
    keeper: Arc<Keeper<S, R>>,
    hold: Arc<Hold>,
    id: u64,
    holds: u64,
    is_released: bool,
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The lock is free.
    Free,
    /// The owner still holds it, so often.
    Held(u64),
    /// It was not held any more: its lease had ended, or it was freed by force. Who holds it now, if
    /// anyone, where it is a lock.
    NotHeld(Option<Holder>),
}

impl<S, R> LockGuard<S, R>
where
    S: Store + 'static,
    R: Runtime,
{
    /// Of what was granted by a call that was sent at `sent`.
    pub(super) fn new(
        keeper: Arc<Keeper<S, R>>,
        key: Key,
        claim: Claim,
        granted: Granted,
        sent: Duration,
    ) -> Self {
        let until =
            keeper.shared.longest.map_or(Duration::MAX, |longest| sent.saturating_add(longest));
        let hold = Arc::new(Hold::new(key, claim, granted.token, sent, until));
        let id = keeper.watch(&hold, sent);
        LockGuard { keeper, hold, id, holds: granted.holds, is_released: false }
    }

    /// Gives the lock back and tells what became of it.
    ///
    /// # Errors
    /// [`Error`]; it is then tried again in the background, as where this call is dropped before its end.
    pub async fn release(mut self) -> Result<Released, Error> {
        self.keeper.forget(self.id);
        let Hold { key, claim, token, .. } = &*self.hold;
        let released = claim.release(&self.keeper.shared.store, key, *token).await?;
        self.is_released = true;
        Ok(released)
    }

    /// Waits until the lock is lost, and tells why. It needs no network for that. A lock that is renewed for
    /// ever is never lost.
    pub async fn lost(&self) -> Loss {
        let runtime = self.keeper.runtime();
        loop {
            let changed = self.hold.changed();
            let now = runtime.now();
            match self.hold.status(now) {
                Err(loss) => return loss,
                Ok(deadline) => within(runtime, deadline - now, changed).await,
            };
        }
    }

    /// Runs `work` for as long as the lock is held: where it is lost first, `work` is dropped.
    ///
    /// That can only be where `work` waits for something. What it has sent before may still be done
    /// after; give it the [token](Self::token) where that would do harm.
    ///
    /// # Errors
    /// [`Loss`].
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Loss> {
        run_until(pin!(self.lost()), work).await
    }

    /// How long it is sure to be held from now on, if it is not renewed before; why not, where it is lost.
    ///
    /// # Errors
    /// [`Loss`].
    pub fn time_left(&self) -> Result<Duration, Loss> {
        let now = self.keeper.runtime().now();
        Ok(self.hold.status(now)? - now)
    }

    /// Until when it is sure to be held, if it is not renewed before, as [`Runtime::now`] tells the time:
    /// the lease from the instant before it was asked for, less what clocks can differ (L6, see
    /// [`own_deadline`](lockage_core::flow::own_deadline)).
    ///
    /// # Errors
    /// [`Loss`].
    pub fn deadline(&self) -> Result<Duration, Loss> {
        self.hold.status(self.keeper.runtime().now())
    }
}

/// Does `work` until `lost` is over. That is asked first, so that nothing is done by who has lost his lock.
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
    /// Whether others may hold something beside it.
    pub(super) fn leaves_room(&self) -> bool {
        self.hold.claim.leaves_room()
    }

    /// The fencing token: of each grant a larger one, the same where its owner holds it more than once.
    pub fn token(&self) -> u64 {
        self.hold.token
    }

    /// How often its owner held it when this was acquired, this one included; of a semaphore, how many permits
    /// these are.
    pub fn holds(&self) -> u64 {
        self.holds
    }

    /// Who holds it. Whoever asks [as this owner](super::LockHandle::as_owner) holds it once more. Of a
    /// semaphore, the bits of the id that its permits have there.
    pub fn owner(&self) -> OwnerId {
        self.hold.claim.owner()
    }
}

impl<S, R> Drop for LockGuard<S, R> {
    fn drop(&mut self) {
        self.keeper.forget(self.id);
        if !self.is_released {
            let Hold { key, claim, token, .. } = &*self.hold;
            let what = Return::Grant { token: *token };
            let (key, until) = (key.clone(), self.hold.lease_end());
            self.keeper.give_back(Errand { key, claim: *claim, what, until });
        }
    }
}

impl<S, R> fmt::Debug for LockGuard<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard").field("hold", &self.hold).field("holds", &self.holds).finish()
    }
}
