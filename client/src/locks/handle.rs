//! Named handles: acquiring something, and waiting for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::own_deadline;
use lockage_core::lock::OwnerId;
use lockage_core::{RecordError, Timestamp};

use super::guard::LockGuard;
use super::kind::Kind;
use super::lease::Lease;
use super::manager::{Attempt, LeaseManager, beyond};
use super::options::{Confirmation, LockOptions};
use super::request::{AcquireRequest, Busy, Refusal};
use super::state::{Pending, PendingRelease};
use super::waiting::NextAttempt;
use crate::error::{Error, Loss, StoreError};
use crate::key::Key;
use crate::notifications::Wake;
use crate::observer::LeaseChange;
use crate::runtime::Spawn;
use crate::store::Store;

/// After this many answers in a row that exceed a lease, the next one would too. A process that was suspended once has
/// one.
const LATE_ANSWERS: u32 = 3;

/// The most calls of one attempt, or of one change of a latch. The first answer has the store's time, if it was unknown
/// or was set. The second has the time from which on an acquire cannot be a late copy of a forgotten one, and that time
/// may grow meanwhile.
pub(super) const ASKS: u32 = 4;

/// A named thing that callers hold or wait for: a lock, permits of a semaphore, a side of a read-write lock, or a
/// latch.
pub struct Handle<S, R, K> {
    pub(super) manager: Arc<LeaseManager<S, R>>,
    pub(super) key: Key,
    pub(super) options: LockOptions,
    pub(super) kind: K,
}

/// The outcome of an attempt to acquire something.
#[derive(Debug)]
#[must_use = "it may be busy, and a guard that is dropped gives it back"]
pub enum TryLock<G> {
    /// It was acquired, and this guard holds it.
    Taken(G),
    /// It is not available now.
    Busy(Busy),
}

/// The outcome of work for one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the work may have been stopped, or not begun here"]
pub enum RunOutcome<T> {
    /// The work ran here.
    Done(T),
    /// The work began here, and was stopped when the lock was lost.
    Lost(Loss),
    /// The work did not run here: another owner holds the lock.
    Elsewhere(Busy),
}

impl<G> TryLock<G> {
    /// Returns the guard, if it was acquired.
    pub fn taken(self) -> Option<G> {
        match self {
            TryLock::Taken(guard) => Some(guard),
            TryLock::Busy(_) => None,
        }
    }

    /// Returns this outcome with its guard converted.
    #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
    pub(crate) fn map<T>(self, of: impl FnOnce(G) -> T) -> TryLock<T> {
        match self {
            TryLock::Taken(guard) => TryLock::Taken(of(guard)),
            TryLock::Busy(busy) => TryLock::Busy(busy),
        }
    }
}

impl<S, R, K> Handle<S, R, K>
where
    S: Store + 'static,
    R: Spawn,
    K: Copy + Into<Kind>,
{
    /// Acquires it if it is free now.
    #[doc = locks_example!(
        r#"let lock = locks.lock("invoices")?;"#
        r#"let guard = lock.try_acquire().await?.taken().expect("it is free");"#
        "assert!(matches!(lock.try_acquire().await?, TryLock::Busy(_)));"
        "guard.release().await?;"
    )]
    /// # Errors
    /// [`Error`]. If a call without an answer may have acquired it, or the grant came too late ([`Error::TooSlow`]), it
    /// is released in the background.
    pub async fn try_acquire(&self) -> Result<TryLock<LockGuard<S, R>>, Error> {
        let begin = self.begin();
        let result = self.try_once().await;
        self.end(begin, &result);
        result
    }

    /// Waits until it is free, and acquires it.
    ///
    /// A waiting call polls, more often at first (see [`Polling`](lockage_core::flow::Polling)), or when it is
    /// notified (see [`Locks::with_wake_ups`](super::Locks::with_wake_ups)). Waiting is not FIFO, except on
    /// [`fair`](super::LockHandle::fair) locks.
    ///
    /// If this call is dropped before its end, nothing is held: a grant of its last attempt is released in the
    /// background.
    #[doc = locks_example!(
        r#"let guard = locks.lock("invoices")?.acquire().await?;"#
        "assert!(!guard.is_lost());"
    )]
    /// # Errors
    /// The [`Error`] of the first attempt that fails; [`Error::Upgrade`] for an upgrade, which never waits;
    /// [`Error::TooSlow`] if several answers in a row take longer than a lease.
    pub async fn acquire(&self) -> Result<LockGuard<S, R>, Error> {
        match self.acquire_until(None).await? {
            TryLock::Taken(guard) => Ok(guard),
            TryLock::Busy(_) => Err(Error::Upgrade),
        }
    }

    /// Waits at most `timeout` until it is free, and acquires it. Calls to the store have a timeout of their own, by
    /// which the last one may exceed this one.
    #[doc = locks_example!(
        r#"let lock = locks.lock("invoices")?;"#
        "let guard = lock.acquire().await?;"
        "let waited = lock.acquire_within(Duration::from_millis(20)).await?;"
        "assert!(matches!(waited, TryLock::Busy(_)));"
    )]
    /// # Errors
    /// As [`Handle::try_acquire`]; [`Error::TooSlow`] as for [`Handle::acquire`], or for the last attempt.
    pub async fn acquire_within(
        &self,
        timeout: Duration,
    ) -> Result<TryLock<LockGuard<S, R>>, Error> {
        self.acquire_until(Some(self.manager.runtime().now().saturating_add(timeout))).await
    }

    /// Runs `work` under the lock if it is free now, and otherwise not at all: a job for one of many instances. `work`
    /// gets the fencing token.
    #[doc = locks_example!(
        r#"let ran = locks.lock("nightly")?.try_run(async |_token| "reports sent").await?;"#
        r#"assert!(matches!(ran, RunOutcome::Done("reports sent")));"#
    )]
    /// # Errors
    /// [`Error`]. Work that runs elsewhere, or was stopped, is not an error.
    pub async fn try_run<T>(
        &self,
        work: impl AsyncFnOnce(u64) -> T,
    ) -> Result<RunOutcome<T>, Error> {
        let guard = match self.try_acquire().await? {
            TryLock::Taken(guard) => guard,
            TryLock::Busy(busy) => return Ok(RunOutcome::Elsewhere(busy)),
        };
        let outcome = guard.run(work(guard.token())).await;
        guard.end().await;
        Ok(match outcome {
            Ok(output) => RunOutcome::Done(output),
            Err(loss) => RunOutcome::Lost(loss),
        })
    }

    pub(super) async fn acquire_until(
        &self,
        deadline: Option<Duration>,
    ) -> Result<TryLock<LockGuard<S, R>>, Error> {
        let begin = self.begin();
        let result = self.wait_until(deadline).await;
        self.end(begin, &result);
        result
    }

    async fn try_once(&self) -> Result<TryLock<LockGuard<S, R>>, Error> {
        match self.attempt(self.request(self.owner()), NextAttempt::NONE).await? {
            Ok(guard) => Ok(TryLock::Taken(guard)),
            Err(mut denied) => {
                denied.stray.take().into_iter().for_each(|stray| self.manager.release_later(stray));
                self.denied(&denied)
            }
        }
    }

    async fn wait_until(
        &self,
        deadline: Option<Duration>,
    ) -> Result<TryLock<LockGuard<S, R>>, Error> {
        let (runtime, owner) = (self.manager.runtime(), self.owner());
        let LockOptions { waiting, fair, .. } = &self.options;
        let next = waiting.next_attempt(self.manager.store().timeout());
        // Only a fair lock's messages have a name.
        let wake = Wake::Named(owner.as_u128());
        let mut wait = waiting.begin(runtime, &self.key, wake, deadline);
        let mut place = Cleanup { manager: &self.manager, pending: None };
        // One id for all attempts: a copy of an earlier one that arrives once a later one is granted takes nothing more.
        let mut request = self.request(owner);
        let mut stray = Cleanup { manager: &self.manager, pending: None };
        let mut late = 0;
        loop {
            if *fair {
                // It ends by itself within half as much again as a span after the last attempt.
                let until = runtime.now().saturating_add(next.within.saturating_mul(3));
                place.pending = Some(self.pending(request, Pending::Place, until));
            }
            let mut denied = match self.attempt(request, next).await? {
                Ok(guard) => {
                    (place.pending, stray.pending) = (None, None);
                    // Otherwise the next waiter is woken, since there may be room for it.
                    if !guard.leaves_room() {
                        wait.done();
                    }
                    return Ok(TryLock::Taken(guard));
                }
                Err(denied) => denied,
            };
            stray.pending = denied.stray.take().or(stray.pending.take());
            if denied.refusal.busy.is_none() {
                // A grant that came too late is released, and its id is spent.
                stray = Cleanup { manager: &self.manager, pending: None };
                request = self.request(owner);
            }
            late = if self.is_late(&denied) { late + 1 } else { 0 };
            if late == LATE_ANSWERS {
                return Err(self.too_slow(denied.took));
            }
            let is_waited_for = !matches!(denied.refusal.busy, Some(Busy::Upgrade { .. }));
            if !is_waited_for || !wait.pause(denied.refusal.free_in).await {
                return self.denied(&denied);
            }
        }
    }

    /// Begins to watch an acquire, if there is an observer: returns the start time.
    fn begin(&self) -> Option<Duration> {
        self.options.observer.as_ref().map(|observer| observer.now())
    }

    /// Reports the outcome of an acquire that began at `begin`.
    fn end(&self, begin: Option<Duration>, result: &Result<TryLock<LockGuard<S, R>>, Error>) {
        let (Some(observer), Some(begin)) = (&self.options.observer, begin) else { return };
        let waited = observer.now().saturating_sub(begin);
        let tell = |change| observer.tell(self.kind.into(), &self.key, change);
        match result {
            Ok(TryLock::Taken(guard)) => guard.announce(waited),
            Ok(TryLock::Busy(_)) => tell(LeaseChange::Busy { waited }),
            Err(error) => tell(LeaseChange::Failed { waited, error }),
        }
    }

    pub(super) fn owner(&self) -> OwnerId {
        self.options.owner.unwrap_or_else(|| OwnerId::from_u128(self.manager.random_bits()))
    }

    fn request(&self, owner: OwnerId) -> AcquireRequest {
        let LockOptions { fair, label, .. } = self.options;
        let (kind, id) = (self.kind.into(), self.manager.random_bits());
        let made = self.manager.runtime().now();
        AcquireRequest { kind, owner, id, fair, label, made }
    }

    fn pending(&self, request: AcquireRequest, what: Pending, until: Duration) -> PendingRelease {
        PendingRelease { key: self.key.clone(), request, what, due: Duration::ZERO, until }
    }

    /// Returns whether a grant in place of this denial would have ended before the answer.
    fn is_late(&self, Denied { refusal, took, .. }: &Denied) -> bool {
        refusal.busy.is_none() || *took >= own_deadline(Duration::ZERO, self.manager.span())
    }

    pub(super) fn too_slow(&self, took: Duration) -> Error {
        Error::TooSlow { took, lease: self.manager.span() }
    }

    /// Returns the answer for a caller that has no time left for another attempt.
    fn denied<G>(&self, Denied { refusal, took, .. }: &Denied) -> Result<TryLock<G>, Error> {
        refusal.busy.map(TryLock::Busy).ok_or_else(|| self.too_slow(*took))
    }

    /// Makes one attempt. Returns a guard, or why there is none. An acquire that came too late for the store has taken
    /// nothing, and no copy of it will: it asks again at once, with a later time limit.
    async fn attempt(
        &self,
        request: AcquireRequest,
        next: NextAttempt,
    ) -> Result<Result<LockGuard<S, R>, Denied>, Error> {
        let attempt = self.manager.begin_attempt().ok_or(Error::Closed)?;
        let mut later_than = Timestamp::EPOCH;
        for _ in 1..ASKS {
            match self.ask(&attempt, request, next, later_than).await? {
                Err(Denied { refusal: Refusal { later_than: Some(latest), .. }, took, .. }) => {
                    later_than = beyond(latest, took);
                }
                answer => return Ok(answer),
            }
        }
        self.ask(&attempt, request, next, later_than).await
    }

    /// Sends an acquire that may run until after `later_than` by the store's clock.
    async fn ask(
        &self,
        attempt: &Attempt<'_, S, R>,
        request: AcquireRequest,
        next: NextAttempt,
        later_than: Timestamp,
    ) -> Result<Result<LockGuard<S, R>, Denied>, Error> {
        let manager = &self.manager;
        let sent = manager.runtime().now();
        let (not_after, within) = manager.not_after(sent, later_than);
        // A call that has timed out may still arrive; its lease begins then. The store's clock may be behind by as long.
        let settled = sent.saturating_add(within * 2);
        let until = settled.saturating_add(request.kind.lease());
        let pending = self.pending(request, Pending::Attempt { settled }, until);
        let may_run = not_after > Timestamp::EPOCH;
        let mut unanswered = Cleanup { manager, pending: may_run.then_some(pending) };
        let result = request.acquire(manager.store(), &self.key, not_after, next).await;
        let mut stray = None;
        if !matches!(result, Err(StoreError::Unknown(_))) {
            stray = unanswered.pending.take();
        }
        let took = manager.runtime().now().saturating_sub(sent);
        let acquired = match result {
            // A copy of an earlier attempt was granted meanwhile, and its lease has ended: the id is spent.
            Err(StoreError::Record(RecordError::OperationReused)) => {
                return Ok(Err(Denied { refusal: Refusal::TOO_LATE, took, stray: None }));
            }
            result => result?,
        };
        manager.learn(sent, acquired.now);
        let grant = match acquired.result {
            Ok(grant) => grant,
            Err(refusal) => {
                // It was sent more than once, and only one copy was answered.
                let is_stray = acquired.has_stray && refusal.later_than.is_none();
                let stray = stray.filter(|_| is_stray);
                return Ok(Err(Denied { refusal, took, stray }));
            }
        };
        let observer = self.options.observer.clone();
        let mut lease = Lease::new(self.key.clone(), request, grant.token, attempt.home, observer);
        lease.kept_until = self.kept_until();
        // The grant of an earlier copy has lasted since that copy ran, which is not before the request was made.
        let since = sent.saturating_sub(request.kind.lease().saturating_sub(grant.left));
        let since = since.max(request.made);
        let mut guard = LockGuard::new(manager, lease, grant.holds, since);
        match guard.deadline() {
            Ok(_) => {}
            Err(Loss::Closed) => return Err(Error::Closed),
            // The answer took longer than the lease. The guard, dropped, releases it.
            Err(_) => return Ok(Err(Denied { refusal: Refusal::TOO_LATE, took, stray: None })),
        }
        if let Some(confirm) = &self.options.confirm {
            match confirm(self.key.clone(), request, guard.token()).await? {
                Confirmation::Enough => {}
                Confirmation::TooFew { acknowledged, wanted } => {
                    return Err(Error::NotReplicated { acknowledged, wanted });
                }
                // An earlier copy of the acquire got the grant, and little of its lease was left.
                Confirmation::Ended => {
                    return Ok(Err(Denied { refusal: Refusal::TOO_LATE, took, stray: None }));
                }
            }
        }
        guard.keep();
        Ok(Ok(guard))
    }

    /// Returns until when a grant whose answer has just come is kept, by the store's clock too.
    fn kept_until(&self) -> Duration {
        match self.options.shortest {
            Duration::ZERO => Duration::ZERO,
            // The most that the clocks' rates can differ, and their resolution.
            shortest => {
                let shortest = shortest.saturating_add(shortest / 1000 + Duration::from_millis(1));
                self.manager.runtime().now().saturating_add(shortest)
            }
        }
    }
}

/// Why an attempt holds nothing, and how long it took.
struct Denied {
    refusal: Refusal,
    took: Duration,
    /// The release of a copy of it that may still arrive, if there is one.
    stray: Option<PendingRelease>,
}

/// The task's release if this is dropped: of a place in line, or of an acquire without an answer.
struct Cleanup<'a, S, R> {
    manager: &'a LeaseManager<S, R>,
    pending: Option<PendingRelease>,
}

impl<S, R> Drop for Cleanup<'_, S, R> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.manager.release_later(pending);
        }
    }
}

impl<S, R, K: Clone> Clone for Handle<S, R, K> {
    fn clone(&self) -> Self {
        let (manager, key) = (Arc::clone(&self.manager), self.key.clone());
        Handle { manager, key, options: self.options.clone(), kind: self.kind.clone() }
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
