//! A lock on several independent servers, held while a majority of them has granted it.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use lockage_core::ConfigError;
use lockage_core::flow::Polling;
use lockage_core::lock::OwnerId;

use super::Locks;
use super::family::LockHandle;
use super::guard::{LockGuard, run_until};
use super::handle::TryLock;
use crate::error::Error;
use crate::error::Loss;
use crate::key::KeyError;
use crate::runtime::{Runtime, Spawn, within};
use crate::store::Store;

/// The least time to wait for the other servers after a majority has granted the lock. If the majority took longer,
/// they get that long.
const GRACE: Duration = Duration::from_millis(10);

/// Locks on several independent servers (Redlock,
/// <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>): a lock is held while more than half of them
/// have granted it.
///
/// It survives the loss of fewer than half of the servers, without any replication between them.
///
/// **Guarantees.** For [`QuorumGuard::time_left`], more than half of the servers have a live lease of this owner by
/// their own clocks, each counted from before it was asked for (L6). No other owner can have a majority.
///
/// **Limitations.** A server that forgets its grants, by a restart without its data or a clock that jumps ahead, can
/// give a second majority: keep a crashed server away until a lease has passed. There is no fencing token, since tokens
/// of different servers do not compare. If a late writer would do harm, use a lock of one store and
/// [`Fenced`](crate::fenced::Fenced), or the like.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::runtime::Tokio;
/// use lockage::locks::Quorum;
/// use lockage::{Locks, RetryStore};
/// # use lockage_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let stores = [(); 3].map(|()| MemoryStore::new());
/// let lease = Duration::from_secs(30);
/// let locks = stores.map(|store| Locks::new(RetryStore::new(store, Tokio, Duration::from_millis(200)), lease));
/// let quorum = Quorum::new(locks.into_iter().collect::<Result<_, _>>()?)?;
///
/// let guard = quorum.lock("invoices")?.acquire().await?;
/// assert_eq!(guard.run(async { 40 + 2 }).await?, 42); // stopped where the majority is lost
/// guard.release().await;
/// assert!(quorum.lock("invoices")?.try_acquire().await?.taken().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
pub struct Quorum<S, R> {
    servers: Vec<Locks<S, R>>,
}

/// One lock on several servers.
pub struct QuorumLock<S, R> {
    /// At least three.
    locks: Vec<LockHandle<S, R>>,
}

/// A lock that a majority of several servers has granted. Dropping it releases it on each in the background.
#[must_use = "dropped, it gives the lock back"]
pub struct QuorumGuard<S, R> {
    guards: Vec<LockGuard<S, R>>,
    /// How many servers are a majority.
    quorum: usize,
}

impl<S, R> Quorum<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Creates locks on these servers, one [`Locks`] each: at least three, best an odd number. Their timeouts should be
    /// a small part of their leases, so that an unreachable server costs little.
    ///
    /// # Errors
    /// [`ConfigError::TooFewServers`].
    pub fn new(servers: Vec<Locks<S, R>>) -> Result<Self, ConfigError> {
        if servers.len() < 3 {
            return Err(ConfigError::TooFewServers { count: servers.len() });
        }
        Ok(Quorum { servers })
    }

    /// Returns the lock of this name on all servers.
    ///
    /// # Errors
    /// As [`Locks::lock`].
    pub fn lock(&self, name: &str) -> Result<QuorumLock<S, R>, KeyError> {
        let locks = self.servers.iter().map(|locks| locks.lock(name));
        Ok(QuorumLock { locks: locks.collect::<Result<_, _>>()? })
    }
}

impl<S, R> QuorumLock<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Returns the lock for this owner: see [`LockHandle::as_owner`].
    pub fn as_owner(&self, owner: OwnerId) -> Self {
        QuorumLock { locks: self.locks.iter().map(|lock| lock.as_owner(owner)).collect() }
    }

    /// Acquires the lock if a majority grants it now.
    ///
    /// # Errors
    /// The [`Error`] of the last server that failed, if too few servers answered, and none of them named another
    /// holder. Its grants are released, also if the lock is busy.
    pub async fn try_acquire(&self) -> Result<TryLock<QuorumGuard<S, R>>, Error> {
        self.attempt(self.new_owner()).await
    }

    /// Waits until a majority grants the lock, and acquires it. Pauses between attempts are random, so that one of
    /// several callers that each hold a minority gets a majority.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`], of the first attempt that fails.
    pub async fn acquire(&self) -> Result<QuorumGuard<S, R>, Error> {
        loop {
            if let TryLock::Taken(guard) = self.wait(None).await? {
                return Ok(guard);
            }
        }
    }

    /// Waits at most `timeout` until a majority grants the lock, and acquires it. Calls to the servers have timeouts of
    /// their own, by which the last ones may exceed this one.
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`].
    pub async fn acquire_within(
        &self,
        timeout: Duration,
    ) -> Result<TryLock<QuorumGuard<S, R>>, Error> {
        self.wait(Some(self.runtime().now().saturating_add(timeout))).await
    }

    async fn wait(&self, deadline: Option<Duration>) -> Result<TryLock<QuorumGuard<S, R>>, Error> {
        let (runtime, owner) = (self.runtime(), self.new_owner());
        let mut polling = Polling::new(self.locks[0].options.waiting.poll, deadline);
        loop {
            let busy = match self.attempt(owner).await? {
                TryLock::Busy(busy) => busy,
                taken => return Ok(taken),
            };
            let next = polling.after(Duration::MAX, runtime.now(), runtime.random());
            let Some(sleep) = next else { return Ok(TryLock::Busy(busy)) };
            runtime.sleep(sleep).await;
        }
    }

    /// Asks all servers at once, as this owner.
    async fn attempt(&self, owner: OwnerId) -> Result<TryLock<QuorumGuard<S, R>>, Error> {
        let (runtime, quorum) = (self.runtime(), self.locks.len() / 2 + 1);
        let begin = runtime.now();
        let locks: Vec<_> = self.locks.iter().map(|lock| lock.as_owner(owner)).collect();
        let mut answers: FuturesUnordered<_> = locks.iter().map(LockHandle::try_acquire).collect();
        let (mut guards, mut busy, mut failed) = (Vec::new(), None, None);
        let (mut refusals, mut over) = (0, None::<Duration>);
        // Calls that are not waited for to the end are dropped, and their grants are released.
        while self.locks.len() - refusals >= quorum {
            let answer = match over {
                None => answers.next().await,
                Some(over) => {
                    let left = over.saturating_sub(runtime.now());
                    within(runtime, left, answers.next()).await.flatten()
                }
            };
            match answer {
                Some(Ok(TryLock::Taken(guard))) => guards.push(guard),
                Some(Ok(TryLock::Busy(other))) => (refusals, busy) = (refusals + 1, Some(other)),
                Some(Err(error)) => (refusals, failed) = (refusals + 1, Some(error)),
                None => break,
            }
            if guards.len() == quorum && over.is_none() {
                let now = runtime.now();
                over = Some(now + (now - begin).max(GRACE));
            }
        }
        let guard = QuorumGuard { guards, quorum };
        match (guard.time_left(), busy, failed) {
            (Ok(_), ..) => Ok(TryLock::Taken(guard)),
            (Err(_), Some(busy), _) => Ok(TryLock::Busy(busy)),
            (Err(_), None, Some(error)) => Err(error),
            // All grants had ended before the last server answered.
            (Err(_), None, None) => Err(self.locks[0].too_slow(runtime.now() - begin)),
        }
    }

    fn runtime(&self) -> &R {
        self.locks[0].manager.runtime()
    }

    fn new_owner(&self) -> OwnerId {
        self.locks[0].owner()
    }
}

impl<S, R> QuorumGuard<S, R>
where
    S: Store + 'static,
    R: Runtime,
{
    /// Releases the lock on all servers at once, and returns how many have answered. On the others the release is
    /// repeated in the background.
    pub async fn release(self) -> usize {
        let answers = join_all(self.guards.into_iter().map(LockGuard::release)).await;
        answers.into_iter().flatten().count()
    }

    /// Waits until the majority is lost, and returns why the last lease was lost. See [`LockGuard::lost`].
    pub async fn lost(&self) -> Loss {
        let mut losses: FuturesUnordered<_> = self.guards.iter().map(LockGuard::lost).collect();
        while let Some(loss) = losses.next().await {
            if losses.len() < self.quorum {
                return loss;
            }
        }
        unreachable!("it has the guards of a majority")
    }

    /// Runs `work` for as long as the lock is held. See [`LockGuard::run`].
    ///
    /// # Errors
    /// [`Loss`].
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Loss> {
        run_until(pin!(self.lost()), work).await
    }

    /// Returns how long the lock is certainly held from now on without a renewal.
    ///
    /// # Errors
    /// The [`Loss`] of one server, if no majority is left.
    pub fn time_left(&self) -> Result<Duration, Loss> {
        let (mut left, mut loss) = (Vec::new(), Loss::Expired);
        for guard in &self.guards {
            match guard.time_left() {
                Ok(time) => left.push(time),
                Err(other) => loss = other,
            }
        }
        left.sort_unstable();
        // The last moment at which a majority is left.
        let at = left.len().checked_sub(self.quorum).ok_or(loss)?;
        Ok(left[at])
    }
}

impl<S, R> QuorumGuard<S, R> {
    /// Returns how many servers have granted it.
    pub fn granted(&self) -> usize {
        self.guards.len()
    }
}

impl<S, R> Clone for Quorum<S, R> {
    fn clone(&self) -> Self {
        Quorum { servers: self.servers.clone() }
    }
}

impl<S, R> Clone for QuorumLock<S, R> {
    fn clone(&self) -> Self {
        QuorumLock { locks: self.locks.clone() }
    }
}

impl<S, R> fmt::Debug for Quorum<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quorum").field(&self.servers).finish()
    }
}

impl<S, R> fmt::Debug for QuorumLock<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QuorumLock").field(&self.locks).finish()
    }
}

impl<S, R> fmt::Debug for QuorumGuard<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumGuard")
            .field("guards", &self.guards)
            .field("quorum", &self.quorum)
            .finish()
    }
}
