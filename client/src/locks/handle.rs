//! Something by its name that can be held: taking it, and waiting for that.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::own_deadline;
use lockage_core::lock::OwnerId;

use super::acknowledged::{Manner, Shortfall};
use super::claim::{Busy, Claim, Refusal};
use super::guard::LockGuard;
use super::hold::Loss;
use super::keeper::{Errand, Keeper, Return};
use super::kind::{Exclusive, Kind};
use super::random_bits;
use super::waiting::Back;
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::notifications::Wake;
use crate::runtime::{Runtime, Spawn};
use crate::store::Store;

/// One thing that can be held: a lock, permits of a semaphore, or a side of a read-write lock.
pub struct Handle<S, R, K> {
    pub(super) keeper: Arc<Keeper<S, R>>,
    pub(super) key: Key,
    pub(super) manner: Manner,
    pub(super) kind: K,
}

/// One lock. See [`Locks::lock`](super::Locks::lock).
pub type LockHandle<S, R> = Handle<S, R, Exclusive>;

/// What became of an attempt to take something.
#[derive(Debug)]
pub enum TryLock<G> {
    /// It is held, by this guard.
    Taken(G),
    /// It cannot be held now.
    Busy(Busy),
}

/// What became of work for one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone<T> {
    /// It was done here.
    Done(T),
    /// It was begun here, and stopped when the lock was lost.
    Lost(Loss),
    /// It is somebody else's, who holds the lock.
    Elsewhere(Busy),
}

impl<G> TryLock<G> {
    /// The guard, where it was taken.
    pub fn taken(self) -> Option<G> {
        match self {
            TryLock::Taken(guard) => Some(guard),
            TryLock::Busy(_) => None,
        }
    }
}

impl<S, R, K> Handle<S, R, K>
where
    S: Store + 'static,
    R: Spawn,
    K: Kind,
{
    /// Takes it, if that can be now.
    ///
    /// # Errors
    /// [`Error`]; what may have been taken by a call without an answer is given back in the background.
    pub async fn try_acquire(&self) -> Result<TryLock<LockGuard<S, R>>, Error> {
        match self.attempt(self.owner(), Back::default()).await? {
            Ok(guard) => Ok(TryLock::Taken(guard)),
            Err(refusal) => refused(&refusal),
        }
    }

    /// Takes it, and waits for that until it is free.
    ///
    /// It asks again and again, more often at first (see
    /// [`Polling`](lockage_core::flow::Polling)), or when it is told that it is free
    /// (see [`Locks::with_wake_ups`](super::Locks::with_wake_ups)). Nobody is promised to be first.
    ///
    /// Dropped before its end, nothing is held: what the last call may have taken is given back in the
    /// background.
    ///
    /// # Errors
    /// [`Error`], of the first call that fails; [`Error::Upgrade`] for what is not waited for.
    pub async fn acquire(&self) -> Result<LockGuard<S, R>, Error> {
        match self.wait(None).await? {
            TryLock::Taken(guard) => Ok(guard),
            TryLock::Busy(_) => Err(Error::Upgrade),
        }
    }

    /// The same for at most `timeout`. The calls to the store have their own timeout, which the last one
    /// may take beyond this one.
    ///
    /// # Errors
    /// As [`Handle::try_acquire`].
    pub async fn acquire_within(
        &self,
        timeout: Duration,
    ) -> Result<TryLock<LockGuard<S, R>>, Error> {
        self.wait(Some(self.keeper.runtime().now().saturating_add(timeout))).await
    }

    /// Does `work` if it can be taken now, under it, and not at all where it cannot: the job of one instance
    /// among many. `work` gets the fencing token.
    ///
    /// # Errors
    /// [`Error`]; to be elsewhere, or to be stopped, is none.
    pub async fn run_alone<T>(&self, work: impl AsyncFnOnce(u64) -> T) -> Result<Alone<T>, Error> {
        let guard = match self.try_acquire().await? {
            TryLock::Taken(guard) => guard,
            TryLock::Busy(busy) => return Ok(Alone::Elsewhere(busy)),
        };
        let outcome = guard.run(work(guard.token())).await;
        // Where that fails it is done in the background.
        let _ = guard.release().await;
        Ok(match outcome {
            Ok(output) => Alone::Done(output),
            Err(loss) => Alone::Lost(loss),
        })
    }

    async fn wait(&self, deadline: Option<Duration>) -> Result<TryLock<LockGuard<S, R>>, Error> {
        let (runtime, owner) = (self.keeper.runtime(), self.owner());
        let back = self.manner.waiting.back(self.keeper.shared.store.timeout());
        let wake = if self.kind.in_line() { Wake::Named(owner.as_u128()) } else { Wake::One };
        let mut wait = self.manner.waiting.begin(runtime, &self.key, wake, deadline);
        let mut place = InLine { named: self, owner, span: back.within, is_over: true };
        loop {
            // Also where the answer is not seen.
            place.is_over = !self.kind.in_line();
            let refusal = match self.attempt(owner, back).await? {
                Ok(guard) => {
                    place.is_over = true;
                    // Else it wakes the next one, for whom something may be left.
                    if !guard.leaves_room() {
                        wait.done();
                    }
                    return Ok(TryLock::Taken(guard));
                }
                Err(refusal) => refusal,
            };
            let is_waited_for = !matches!(refusal.busy, Some(Busy::Upgrade { .. }));
            if !is_waited_for || !wait.pause(refusal.free_in).await {
                return refused(&refusal);
            }
        }
    }

    pub(super) fn owner(&self) -> OwnerId {
        let new = || OwnerId::from_u128(random_bits(self.keeper.runtime()));
        self.kind.owner().unwrap_or_else(new)
    }

    /// Asks once: a guard, or why there is none for a caller who asks again like this.
    async fn attempt(
        &self,
        owner: OwnerId,
        back: Back,
    ) -> Result<Result<LockGuard<S, R>, Refusal>, Error> {
        self.keeper.ensure_running();
        let (runtime, store) = (self.keeper.runtime(), &self.keeper.shared.store);
        let claim = self.kind.claim(owner, || random_bits(runtime));
        let sent = runtime.now();
        let mut unanswered = Unanswered { named: self, claim, sent, settled: false };
        let not_after = self.keeper.not_after(sent);
        let result = claim.acquire(store, &self.key, not_after, back).await;
        // What was certainly not done leaves nothing behind.
        unanswered.settled = !matches!(result, Err(StoreError::Unknown(_)));
        let asked = result?;
        self.keeper.learn(sent, asked.now);
        let granted = match asked.answer {
            Ok(granted) => granted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let keeper = Arc::clone(&self.keeper);
        let guard = LockGuard::new(keeper, self.key.clone(), claim, granted, sent);
        if runtime.now() >= own_deadline(sent, claim.lease()) {
            // The answer took longer than the lease: the guard, dropped, gives it back.
            return Ok(Err(Refusal::TOO_SLOW));
        }
        if let Some(confirm) = &self.manner.confirm {
            let shortfall = confirm(self.key.clone(), claim, guard.token()).await?;
            if let Some(Shortfall { acknowledged, wanted }) = shortfall {
                return Err(Error::NotReplicated { acknowledged, wanted });
            }
        }
        Ok(Ok(guard))
    }
}

/// What a caller is told who has no time left to ask again.
fn refused<S, R>(refusal: &Refusal) -> Result<TryLock<LockGuard<S, R>>, Error> {
    match refusal.busy {
        Some(busy) => Ok(TryLock::Busy(busy)),
        // Nobody holds it.
        None => Err(StoreError::NotDone(Box::new(TooSlow)).into()),
    }
}

/// An acquire that is under way. Where its answer is not seen, what it may have taken is given back.
struct Unanswered<'a, S, R, K> {
    named: &'a Handle<S, R, K>,
    claim: Claim,
    sent: Duration,
    settled: bool,
}

impl<S, R, K> Drop for Unanswered<'_, S, R, K> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let keeper = &self.named.keeper;
        // Until it would have timed out it may still arrive; then its lease begins.
        let settled = self.sent.saturating_add(keeper.shared.store.timeout() * 2);
        let until = settled.saturating_add(self.claim.lease());
        let (key, what) = (self.named.key.clone(), Return::Attempt { settled });
        keeper.give_back(Errand { key, claim: self.claim, what, until });
    }
}

/// A place in line. Where its owner gives up it is given back, so that nobody waits for him.
struct InLine<'a, S, R: Runtime, K: Kind> {
    named: &'a Handle<S, R, K>,
    owner: OwnerId,
    span: Duration,
    is_over: bool,
}

impl<S, R: Runtime, K: Kind> Drop for InLine<'_, S, R, K> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let Handle { keeper, key, kind, .. } = self.named;
        let claim = kind.claim(self.owner, || random_bits(keeper.runtime()));
        // It ends by itself then.
        let until = keeper.runtime().now().saturating_add(self.span * 2);
        keeper.give_back(Errand { key: key.clone(), claim, what: Return::Place, until });
    }
}

/// Each answer of the store took longer than the lease, or came from a call that was held up.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the store answers too slowly for this lease")]
pub(super) struct TooSlow;

impl<S, R, K: Clone> Clone for Handle<S, R, K> {
    fn clone(&self) -> Self {
        let (keeper, key) = (Arc::clone(&self.keeper), self.key.clone());
        Handle { keeper, key, manner: self.manner.clone(), kind: self.kind.clone() }
    }
}

impl<S, R, K: fmt::Debug> fmt::Debug for Handle<S, R, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("key", &self.key)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
