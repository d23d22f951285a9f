//! Locks that are taken, kept and given back: handles, guards, and the one task that renews leases.

mod acknowledged;
mod cached;
mod claim;
mod family;
mod guard;
mod handle;
mod hold;
mod keeper;
mod kind;
mod latch;
#[cfg(all(test, loom))]
mod loom_tests;
mod many;
mod once;
mod quorum;
mod task;
mod waiting;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::latch::Latch;
use lockage_core::lock::{Label, Lock, OwnerId};
use lockage_core::rw_lock::{Mode, RwLock};
use lockage_core::semaphore::Semaphore;
use lockage_core::{ConfigError, MAX_SPAN};

pub use cached::Cached;
pub use claim::Busy;
pub use family::{RwLockHandle, SemaphoreHandle};
pub use guard::{LockGuard, Released};
pub use handle::{Alone, Handle, LockHandle, TryLock};
pub use hold::Loss;
pub use kind::{Exclusive, Kind, Permits, Side};
pub use latch::LatchHandle;
pub use many::{ManyGuard, ManyLocks};
pub use once::{Once, Ran};
pub use quorum::{Quorum, QuorumGuard, QuorumLock};

use crate::error::Error;
use crate::key::{Key, KeyError, check_prefix};
use crate::notifications::{Notifications, Wake};
use crate::replicated::Replicated;
use crate::retry_store::RetryStore;
use crate::runtime::{self, Runtime, Spawn};
use crate::store::Store;
use acknowledged::{Acknowledged, Confirming, Manner};
use claim::Claim;
use keeper::Keeper;
use waiting::{Listening, Waiting};

/// The prefix of locks that were given none.
const DEFAULT_PREFIX: &str = "lock";

/// How often a waiting caller asks at least, where nothing else is said.
const DEFAULT_POLL: Duration = Duration::from_millis(100);

/// The same where it is told when the lock is free.
const POLL_BEHIND_WAKE_UPS: Duration = Duration::from_secs(1);

/// The locks of one store.
///
/// A lock is held under a lease that one task in the background renews, for all locks of these and their
/// clones. A holder that crashes, or is cut off, loses its locks when their leases end, and knows that by its
/// own clock: see [`LockGuard::lost`].
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::runtime::Tokio;
/// use lockage::{Locks, RetryStore};
/// # use lockage_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let store = MemoryStore::new();
/// let store = RetryStore::new(store, Tokio, Duration::from_secs(1));
/// let locks = Locks::new(store, Duration::from_secs(30))?;
/// let lock = locks.lock("invoices")?;
///
/// let guard = lock.acquire().await?;
/// let sum = guard.run(async { 40 + 2 }).await?; // stopped where the lock is lost
/// println!("write {sum} with the fencing token {}", guard.token());
/// guard.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
///
/// **What it promises.** At most one owner has a live lease by the store's clock (L1), and until the
/// guard's deadline, by the holder's own clock, that is the guard's owner (L6). It does not promise that
/// nobody else acts before a holder notices that its time is over: for that, give the fencing token
/// ([`LockGuard::token`]) to what is protected. Nor does a lock outlast a failover that loses its grant.
pub struct Locks<S, R> {
    keeper: Arc<Keeper<S, R>>,
    prefix: Box<str>,
    manner: Manner,
}

impl<S, R> Locks<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Locks with the prefix `lock`, whose grants last for `lease` (whole microseconds, at most 2^50 us)
    /// unless they are renewed. Each is renewed after a third of it.
    ///
    /// The lease is how long a lock stays taken whose holder has crashed. It should be several times the
    /// store's timeout: between two renewals there must be time for a few calls.
    ///
    /// # Errors
    /// [`ConfigError`] for a lease of zero, with a fraction of a microsecond, or out of range.
    pub fn new(store: RetryStore<S, R>, lease: Duration) -> Result<Self, ConfigError> {
        // A call is repeated within its timeout, and what a lost one has taken is looked for as long as it
        // could be held.
        let remember = store.timeout().saturating_mul(4).max(Duration::from_secs(1));
        let micros = u64::try_from(remember.as_micros()).unwrap_or(u64::MAX);
        let longest = MAX_SPAN / 2;
        let lock = Lock::new(lease, Duration::from_micros(micros).min(longest))?;
        let keeper = Keeper::new(store, lock, None);
        let waiting = Waiting { poll: DEFAULT_POLL, listen: None };
        let manner = Manner { waiting, confirm: None, label: None };
        Ok(Locks { keeper, prefix: DEFAULT_PREFIX.into(), manner })
    }

    /// The same with another prefix: its keys are `prefix:{name}`.
    ///
    /// # Errors
    /// [`KeyError`] for an empty prefix, or one with a brace.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        check_prefix(prefix)?;
        Ok(Locks { prefix: prefix.into(), ..self })
    }

    /// The same, whose waiting callers ask at least once in each `poll`, and without
    /// [wake-ups](Self::with_wake_ups) more often at first.
    pub fn with_poll(self, poll: Duration) -> Self {
        let waiting = Waiting { poll, ..self.manner.waiting };
        Locks { manner: Manner { waiting, ..self.manner }, ..self }
    }

    /// The same, whose waiting callers are told when a lock is free: by pub/sub on one more connection of the
    /// store, which is made when somebody first waits. Of those in one process one is woken, who wakes the
    /// next where it gives up. They ask once in each second, too ([`with_poll`](Self::with_poll), after
    /// this, sets another time), so that a message that is lost costs no more than that.
    pub fn with_wake_ups(self) -> Self
    where
        S: Notifications + Clone,
    {
        let store = self.keeper.shared.store.clone();
        let listen = Arc::new(move |key: Key, wake: Wake| -> Listening {
            let store = store.clone();
            Box::pin(async move { store.listen(&key, wake).await })
        });
        let waiting = Waiting { poll: POLL_BEHIND_WAKE_UPS, listen: Some(listen) };
        Locks { manner: Manner { waiting, ..self.manner }, ..self }
    }

    /// The same, whose holders say in words who they are, such as the name of a machine and the number of a process:
    /// [`LockHandle::inspect`] tells it.
    pub fn with_label(self, label: Label) -> Self {
        Locks { manner: Manner { label: Some(label), ..self.manner }, ..self }
    }

    /// The same, of which nobody holds one that fewer than `replicas` replicas have acknowledged: such a grant is
    /// given back, and [`Error::NotReplicated`] says so. What was granted is renewed once for that, on a
    /// connection of its own, which takes as long as they do, at most three quarters of a call's timeout.
    ///
    /// That makes it less likely that a failover loses a lock, and no more than that: see [`Replicated`].
    pub fn with_replicas(self, replicas: u32) -> Self
    where
        S: Replicated + Clone,
    {
        let store = self.keeper.shared.store.clone();
        let confirm = move |key: Key, claim: Claim, token| -> Confirming {
            let store = Acknowledged::new(store.clone(), replicas);
            Box::pin(async move {
                let renew = claim.renew(&store, &key, token, Duration::MAX);
                // Refused, there is no grant any more for anybody to have.
                Ok(store.shortfall(renew.await?.is_ok()))
            })
        };
        Locks { manner: Manner { confirm: Some(Arc::new(confirm)), ..self.manner }, ..self }
    }

    /// The same, of which nobody holds one for longer than `longest` after he acquired it: it is not renewed
    /// beyond that, and lost when it is over. They have a task of their own.
    pub fn with_longest_hold(self, longest: Duration) -> Self
    where
        S: Clone,
    {
        let shared = &self.keeper.shared;
        let keeper = Keeper::new(shared.store.clone(), shared.lock, Some(longest));
        Locks { keeper, ..self }
    }

    /// The lock of this name. Each acquire of it is by an owner of its own: who has it and asks again waits
    /// for itself, unless it asks [as the same owner](LockHandle::as_owner).
    ///
    /// # Errors
    /// [`KeyError`] for an empty name, or one that begins with a closing brace.
    pub fn lock(&self, name: &str) -> Result<LockHandle<S, R>, KeyError> {
        let (lock, label) = (self.keeper.shared.lock, self.manner.label);
        self.named(name, Exclusive { lock, owner: None, in_line: false, label })
    }

    /// The semaphore of this name, with so many permits, each under a lease of its own: a bound on how much is
    /// done at once, by all processes together. It is taken one permit at a time, or
    /// [several](SemaphoreHandle::permits).
    ///
    /// Names are shared with locks: one name is one thing.
    ///
    /// # Errors
    /// [`Error::Key`] as for [`Locks::lock`], and [`Error::Config`] for no permits or more than
    /// [`MAX_PERMITS`](lockage_core::semaphore::MAX_PERMITS).
    pub fn semaphore(&self, name: &str, permits: u64) -> Result<SemaphoreHandle<S, R>, Error> {
        let lock = &self.keeper.shared.lock;
        let semaphore = Semaphore::new(permits, lock.lease(), lock.remember())?;
        Ok(self.named(name, Permits::new(semaphore, 1)?)?)
    }

    /// The read-write lock of this name, to read beside other readers.
    ///
    /// # Errors
    /// As [`Locks::lock`].
    pub fn read_lock(&self, name: &str) -> Result<RwLockHandle<S, R>, KeyError> {
        self.side(name, Mode::Read)
    }

    /// The read-write lock of this name, to write alone. A writer who waits keeps new readers out.
    ///
    /// # Errors
    /// As [`Locks::lock`].
    pub fn write_lock(&self, name: &str) -> Result<RwLockHandle<S, R>, KeyError> {
        self.side(name, Mode::Write)
    }

    /// The countdown latch of this name, which is kept for `keep` after each change (whole microseconds, at most
    /// 2^50 us): then it is open, so that nobody waits for ever for those who were to count it down.
    ///
    /// # Errors
    /// [`Error::Key`] as for [`Locks::lock`], and [`Error::Config`] for a time out of range.
    pub fn latch(&self, name: &str, keep: Duration) -> Result<LatchHandle<S, R>, Error> {
        let (keeper, key) = (Arc::clone(&self.keeper), Key::new(&self.prefix, name)?);
        Ok(LatchHandle {
            keeper,
            key,
            waiting: self.manner.waiting.clone(),
            latch: Latch::new(keep)?,
        })
    }

    /// The locks of these names, to be taken together. A name that is there twice counts once.
    ///
    /// # Errors
    /// As [`Locks::lock`].
    pub fn many<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<ManyLocks<S, R>, KeyError> {
        let named = |name: &'n str| Ok((name.into(), self.lock(name)?));
        Ok(ManyLocks { locks: names.into_iter().map(named).collect::<Result<_, _>>()? })
    }

    fn side(&self, name: &str, mode: Mode) -> Result<RwLockHandle<S, R>, KeyError> {
        let lock = &self.keeper.shared.lock;
        let lock = RwLock::new(lock.lease(), lock.remember());
        // Invariant: both check the same.
        let lock = lock.expect("what is right for a lock is for this one");
        self.named(name, Side { lock, mode, owner: None })
    }

    fn named<K>(&self, name: &str, kind: K) -> Result<Handle<S, R, K>, KeyError> {
        let (keeper, key) = (Arc::clone(&self.keeper), Key::new(&self.prefix, name)?);
        Ok(Handle { keeper, key, manner: self.manner.clone(), kind })
    }

    pub(super) fn store(&self) -> &RetryStore<S, R> {
        &self.keeper.shared.store
    }

    /// An owner that nobody else is.
    pub fn new_owner(&self) -> OwnerId {
        OwnerId::from_u128(random_bits(self.keeper.runtime()))
    }
}

/// Why there is no result of work that is done under a lock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError<E> {
    /// The work has failed.
    #[error("the work has failed: {0}")]
    Work(E),
    /// The lock was lost, and the work was stopped, or its result refused.
    #[error(transparent)]
    Lost(#[from] Loss),
    /// The store has not answered as it should.
    #[error(transparent)]
    Store(#[from] Error),
}

/// What owners and operations are named by.
fn random_bits(runtime: &impl Runtime) -> u128 {
    runtime::random_bits(|| runtime.random())
}

impl<S, R> Clone for Locks<S, R> {
    fn clone(&self) -> Self {
        let (keeper, prefix) = (Arc::clone(&self.keeper), self.prefix.clone());
        Locks { keeper, prefix, manner: self.manner.clone() }
    }
}

impl<S, R> fmt::Debug for Locks<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("prefix", &self.prefix)
            .field("poll", &self.manner.waiting.poll)
            .field("wake_ups", &self.manner.waiting.listen.is_some())
            .field("replicas", &self.manner.confirm.is_some())
            .finish_non_exhaustive()
    }
}
