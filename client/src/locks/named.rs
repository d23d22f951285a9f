//! A lock by its name: taking it, and asking about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::{Polling, own_deadline};
use lockage_core::lock::{Answer, Holder, OperationId, OwnerId, Reply};

use super::guard::LockGuard;
use super::hold::Loss;
use super::keeper::{Errand, Keeper, Return};
use super::{Waiting, random_bits};
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::runtime::{Spawn, within};
use crate::signals::Listener;
use crate::store::Store;

/// One lock.
pub struct NamedLock<S, R> {
    keeper: Arc<Keeper<S, R>>,
    key: Key,
    waiting: Waiting,
    owner: Option<OwnerId>,
}

/// What became of an attempt to take a lock.
pub enum TryLock<S, R> {
    /// It is held.
    Taken(LockGuard<S, R>),
    /// Somebody else holds it.
    Held(Holder),
}

/// What became of work for one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone<T> {
    /// It was done here.
    Done(T),
    /// It was begun here, and stopped when the lock was lost.
    Lost(Loss),
    /// It is somebody else's, who holds the lock.
    Elsewhere(Holder),
}

impl<S, R> TryLock<S, R> {
    /// The guard, where it was taken.
    pub fn taken(self) -> Option<LockGuard<S, R>> {
        match self {
            TryLock::Taken(guard) => Some(guard),
            TryLock::Held(_) => None,
        }
    }
}

impl<S, R> NamedLock<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    pub(super) fn new(keeper: Arc<Keeper<S, R>>, key: Key, waiting: Waiting) -> Self {
        NamedLock { keeper, key, waiting, owner: None }
    }

    /// The same lock for this owner, who can take it again while he holds it: it is then held once more, and
    /// free when each hold is released. An owner is plain data, and can be handed to another task or
    /// process.
    pub fn as_owner(&self, owner: OwnerId) -> Self {
        NamedLock { owner: Some(owner), ..self.clone() }
    }

    /// Takes the lock, if it is free now.
    ///
    /// # Errors
    /// [`Error`]; what may have been taken by a call without an answer is given back in the background.
    pub async fn try_acquire(&self) -> Result<TryLock<S, R>, Error> {
        match self.attempt(self.owner(), Duration::ZERO).await? {
            Ok(guard) => Ok(TryLock::Taken(guard)),
            Err(reply) => refused(reply),
        }
    }

    /// Takes the lock, and waits for that until it is free.
    ///
    /// It asks again and again, more often at first (see [`Polling`]), or when it is told that the lock is free
    /// (see [`Locks::with_wake_ups`](super::Locks::with_wake_ups)). Nobody is promised to be first.
    ///
    /// Dropped before its end, nothing is held: what the last call may have taken is given back in the
    /// background.
    ///
    /// # Errors
    /// [`Error`], of the first call that fails.
    pub async fn acquire(&self) -> Result<LockGuard<S, R>, Error> {
        match self.wait(None).await? {
            TryLock::Taken(guard) => Ok(guard),
            TryLock::Held(_) => unreachable!("who waits without an end is not turned away"),
        }
    }

    /// The same for at most `timeout`. The calls to the store have their own timeout, which the last one
    /// may take beyond this one.
    ///
    /// # Errors
    /// As [`NamedLock::acquire`].
    pub async fn acquire_within(&self, timeout: Duration) -> Result<TryLock<S, R>, Error> {
        self.wait(Some(self.keeper.runtime().now().saturating_add(timeout))).await
    }

    /// Does `work` if the lock is free, under it, and not at all where somebody else holds it: the job of
    /// one instance among many. `work` gets the fencing token.
    ///
    /// # Errors
    /// [`Error`]; to be elsewhere, or to be stopped, is none.
    pub async fn run_alone<T>(&self, work: impl AsyncFnOnce(u64) -> T) -> Result<Alone<T>, Error> {
        let guard = match self.try_acquire().await? {
            TryLock::Taken(guard) => guard,
            TryLock::Held(holder) => return Ok(Alone::Elsewhere(holder)),
        };
        let outcome = guard.run(work(guard.token())).await;
        // Where that fails it is done in the background.
        let _ = guard.release().await;
        Ok(match outcome {
            Ok(output) => Alone::Done(output),
            Err(loss) => Alone::Lost(loss),
        })
    }

    /// Who holds the lock now, if anyone.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<Option<Holder>, Error> {
        let inspect = self.keeper.shared.lock.inspect();
        Ok(self.keeper.shared.store.execute(&self.key, &inspect).await?.holder)
    }

    /// Frees the lock, whoever holds it, where `token` is that of its present grant; tells whether that
    /// was so. Its holder learns of it when his lease is renewed next, and goes on until then.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn force_release(&self, token: u64) -> Result<bool, Error> {
        let id = OperationId::from_u128(random_bits(self.keeper.runtime()));
        let command = self.keeper.shared.lock.force_release(token, id);
        let reply = self.keeper.shared.store.execute(&self.key, &command).await?;
        Ok(matches!(reply.answer, Answer::Done(_)))
    }

    async fn wait(&self, deadline: Option<Duration>) -> Result<TryLock<S, R>, Error> {
        let (runtime, owner) = (self.keeper.runtime(), self.owner());
        let Waiting { poll, listen } = &self.waiting;
        let mut polling = match listen {
            None => Polling::new(*poll, deadline),
            Some(_) => Polling::steady(*poll, deadline),
        };
        // Who is told says in the record that somebody is to be, until long after it is back.
        let waits = listen.as_ref().map_or(Duration::ZERO, |_| *poll * 2);
        let mut listener: Option<Listener> = None;
        loop {
            let reply = match self.attempt(owner, waits).await? {
                Ok(guard) => {
                    // Nothing is left for another to look for.
                    listener.into_iter().for_each(Listener::done);
                    return Ok(TryLock::Taken(guard));
                }
                Err(reply) => reply,
            };
            let free_in = match reply.answer {
                Answer::Refused(Some(Holder { hold, .. })) => {
                    hold.deadline.saturating_since(reply.now)
                }
                _ => Duration::ZERO,
            };
            let next = polling.after(free_in, runtime.now(), runtime.random());
            let Some(sleep) = next else { return refused(reply) };
            match (&mut listener, listen) {
                (Some(listener), _) => drop(within(runtime, sleep, listener.next()).await),
                (None, None) => runtime.sleep(sleep).await,
                (None, Some(listen)) => match listen(self.key.clone()).await {
                    // What became free before that is seen by asking at once.
                    Ok(new) => listener = Some(new),
                    Err(_) => runtime.sleep(sleep).await,
                },
            }
        }
    }

    fn owner(&self) -> OwnerId {
        let new = || OwnerId::from_u128(random_bits(self.keeper.runtime()));
        self.owner.unwrap_or_else(new)
    }

    /// Asks once: a guard, or the reply that gives none to a caller who waits for so long.
    async fn attempt(
        &self,
        owner: OwnerId,
        waits: Duration,
    ) -> Result<Result<LockGuard<S, R>, Reply>, Error> {
        self.keeper.ensure_running();
        let (runtime, shared) = (self.keeper.runtime(), &self.keeper.shared);
        let sent = runtime.now();
        let id = OperationId::from_u128(random_bits(runtime));
        let acquire = shared.lock.acquire(owner, id, self.keeper.not_after(sent)).waiting(waits);
        let mut unanswered = Unanswered { lock: self, owner, id, sent, settled: false };
        let result = shared.store.execute(&self.key, &acquire).await;
        // What was certainly not done leaves nothing behind.
        unanswered.settled = !matches!(result, Err(StoreError::Unknown(_)));
        let reply = result?;
        self.keeper.learn(sent, reply.now);
        let Answer::Done(grant) = reply.answer else { return Ok(Err(reply)) };
        let guard = LockGuard::new(Arc::clone(&self.keeper), self.key.clone(), owner, grant, sent);
        if runtime.now() >= own_deadline(sent, shared.lock.lease()) {
            // The answer took longer than the lease: the guard, dropped, gives it back.
            return Ok(Err(Reply { answer: Answer::Refused(None), ..reply }));
        }
        Ok(Ok(guard))
    }
}

/// What a caller is told who has no time left to ask again.
fn refused<S, R>(reply: Reply) -> Result<TryLock<S, R>, Error> {
    match reply.answer {
        Answer::Refused(Some(holder)) => Ok(TryLock::Held(holder)),
        // Nobody holds it.
        _ => Err(StoreError::NotDone(Box::new(TooSlow)).into()),
    }
}

/// An acquire that is under way. Where its answer is not seen, what it may have taken is given back.
struct Unanswered<'a, S, R> {
    lock: &'a NamedLock<S, R>,
    owner: OwnerId,
    id: OperationId,
    sent: Duration,
    settled: bool,
}

impl<S, R> Drop for Unanswered<'_, S, R> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let shared = &self.lock.keeper.shared;
        // Until it would have timed out it may still arrive; then its lease begins.
        let settled = self.sent.saturating_add(shared.store.timeout() * 2);
        let what = Return::Attempt { owner: self.owner, id: self.id, settled };
        let until = settled.saturating_add(shared.lock.lease());
        self.lock.keeper.give_back(Errand { key: self.lock.key.clone(), what, until });
    }
}

/// Each answer of the store took longer than the lease, or came from a call that was held up.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the store answers too slowly for this lease")]
struct TooSlow;

impl<S, R> Clone for NamedLock<S, R> {
    fn clone(&self) -> Self {
        let (keeper, key) = (Arc::clone(&self.keeper), self.key.clone());
        NamedLock { keeper, key, waiting: self.waiting.clone(), owner: self.owner }
    }
}

impl<S, R> fmt::Debug for TryLock<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryLock::Taken(guard) => f.debug_tuple("Taken").field(guard).finish(),
            TryLock::Held(holder) => f.debug_tuple("Held").field(holder).finish(),
        }
    }
}

impl<S, R> fmt::Debug for NamedLock<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedLock")
            .field("key", &self.key)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
