//! Locks: handles, guards, and the tasks that renew leases.

mod cached;
mod election;
mod encoding;
mod family;
mod guard;
mod handle;
mod kind;
mod latch;
mod lease;
#[cfg(all(test, loom))]
mod loom_tests;
mod manager;
mod many;
mod observed;
mod options;
mod quorum;
mod request;
mod run_once;
mod state;
mod striped;
mod task;
mod waiting;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::shortest_lease;
use lockage_core::latch::Latch;
use lockage_core::lock::{Lock, Stripes};
use lockage_core::rw_lock::{Mode, RwLock};
use lockage_core::semaphore::Semaphore;
use lockage_core::{ConfigError, MAX_SPAN};

pub use crate::error::Loss;
pub use cached::Cached;
pub use election::{Sighting, Watch};
#[cfg(feature = "serde")]
pub use encoding::Json;
pub use encoding::{Encoding, ValueError};
pub use family::{LockHandle, RwLockHandle, SemaphoreHandle};
pub use guard::LockGuard;
pub use handle::{Handle, RunOutcome, TryLock};
pub use kind::{Kind, Permits, Side};
pub use latch::LatchHandle;
pub use lockage_core::lock::{Holder, Label, OwnerId};
pub use many::{ManyGuard, ManyLocks};
pub use quorum::{Quorum, QuorumGuard, QuorumLock};
pub use request::{Busy, Released};
pub use run_once::{OnceResult, RunOnce};
pub use striped::StripedLocks;

use crate::error::Error;
use crate::key::{Key, KeyError, check_prefix};
use crate::notifications::{Notifications, Wake};
use crate::observer::Observer;
use crate::replicated::Replicated;
use crate::retry_store::RetryStore;
use crate::runtime::Spawn;
use crate::store::Store;
use manager::LeaseManager;
use observed::LeaseObserver;
use options::{Acknowledged, Confirmation, Confirming, LockOptions};
use request::AcquireRequest;
use waiting::{Listening, Waiting};

/// The default prefix of locks.
const DEFAULT_PREFIX: &str = "lock";

/// The default poll of waiting callers.
const DEFAULT_POLL: Duration = Duration::from_millis(100);

/// The poll of waiting callers that are notified.
const POLL_WITH_WAKE_UPS: Duration = Duration::from_secs(1);

/// The locks of one store.
///
/// A background task renews the leases of all locks of this value and its clones that were acquired on its runtime. If
/// it ends with that runtime, the next call of a guard or handle starts another one, and other tasks take over. A holder
/// that crashes, or is cut off, loses its locks when their leases end, and knows that by its own clock: see
/// [`LockGuard::lost`].
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
/// assert_eq!(guard.run(async { 40 + 2 }).await?, 42); // stopped where the lock is lost
/// let token = guard.token(); // to write with
/// guard.release().await?;
/// assert!(lock.acquire().await?.token() > token);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
///
/// **Guarantees.** At most one owner has a live lease by the store's clock (L1). Until the guard's deadline, by the
/// holder's own clock, that is the guard's owner (L6).
///
/// **Limitations.** Others may act before a holder notices that its lease has ended: pass the fencing token
/// ([`LockGuard::token`]) to the protected resource. A lock does not survive a failover that loses its grant.
pub struct Locks<S, R> {
    manager: Arc<LeaseManager<S, R>>,
    prefix: Box<str>,
    options: LockOptions,
}

impl<S, R> Locks<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Creates locks with the prefix `lock`, whose grants last for `lease` (whole microseconds, at most 2^50 us) unless
    /// they are renewed. Each is renewed after a third of its lease.
    ///
    /// A lock stays taken for the lease after its holder has crashed. The lease must outlast the store's timeout
    /// ([`shortest_lease`]), so that no grant ends before it is answered. It should be several times as long, which
    /// leaves time for a few calls between two renewals.
    ///
    /// # Errors
    /// [`ConfigError`] for a lease of zero, with a fraction of a microsecond, or out of range;
    /// [`ConfigError::LeaseTooShort`] for one that does not outlast the timeout.
    pub fn new(store: RetryStore<S, R>, lease: Duration) -> Result<Self, ConfigError> {
        // A call is repeated within its timeout, and the grant of a lost one is looked for while it could be held.
        let remember = store.timeout().saturating_mul(4).max(Duration::from_secs(1));
        let micros = u64::try_from(remember.as_micros()).unwrap_or(u64::MAX);
        let longest = MAX_SPAN / 2;
        let lock = Lock::new(lease, Duration::from_micros(micros).min(longest))?;
        check_outlasts(store.timeout(), "lease", lease)?;
        let manager = LeaseManager::new(store, lock, None, task::start_here);
        let waiting = Waiting { poll: DEFAULT_POLL, listen: None };
        let options = LockOptions {
            waiting,
            confirm: None,
            label: None,
            owner: None,
            fair: false,
            shortest: Duration::ZERO,
            observer: None,
        };
        Ok(Locks { manager, prefix: DEFAULT_PREFIX.into(), options })
    }

    /// Sets the prefix: keys are `prefix:{name}`.
    #[doc = locks_example!(
        r#"let locks = locks.with_prefix("billing")?; // keys are `billing:{name}`"#
        r#"assert!(locks.with_prefix("{").is_err());"#
    )]
    /// # Errors
    /// [`KeyError`] for an empty prefix, or one with a brace.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        check_prefix(prefix)?;
        Ok(Locks { prefix: prefix.into(), ..self })
    }

    /// Makes waiters poll at least once in each `poll`, and without [wake-ups](Self::with_wake_ups) more often at
    /// first.
    pub fn with_poll(mut self, poll: Duration) -> Self {
        self.options.waiting.poll = poll;
        self
    }

    /// Wakes waiters when a lock is free, by pub/sub on one more connection of the store, made for the first wait. One
    /// waiter of each process is woken; if it gives up, it wakes the next. Waiters also poll once in each second, which
    /// bounds the cost of a lost message; a later [`with_poll`](Self::with_poll) sets another time.
    pub fn with_wake_ups(mut self) -> Self
    where
        S: Notifications + Clone,
    {
        let store = self.manager.store().clone();
        let listen = Arc::new(move |key: Key, wake: Wake| -> Listening {
            let store = store.clone();
            Box::pin(async move { store.listen(&key, wake).await })
        });
        self.options.waiting = Waiting { poll: POLL_WITH_WAKE_UPS, listen: Some(listen) };
        self
    }

    /// Labels the holders of locks, for example with a machine's name and a process number, which
    /// [`LockHandle::inspect`] shows.
    pub fn with_label(mut self, label: Label) -> Self {
        self.options.label = Some(label);
        self
    }

    /// Holds only grants that at least `replicas` replicas have acknowledged. Any other grant is released, and the
    /// error is [`Error::NotReplicated`]. Each grant is renewed once for that, on a connection of its own, which takes
    /// as long as the replicas do, at most three quarters of a call's timeout.
    ///
    /// A failover then loses a lock less often, but still can: see [`Replicated`].
    pub fn with_replicas(mut self, replicas: u32) -> Self
    where
        S: Replicated + Clone,
    {
        let store = self.manager.store().clone();
        let confirm = move |key: Key, request: AcquireRequest, token| -> Confirming {
            let store = Acknowledged::new(store.clone(), replicas);
            Box::pin(async move {
                let renew = request.renew(&store, &key, token, Duration::MAX);
                Ok(match renew.await? {
                    Ok(()) => store.confirmation(),
                    Err(_) => Confirmation::Ended,
                })
            })
        };
        self.options.confirm = Some(Arc::new(confirm));
        self
    }

    /// Caps the total hold time: a lock is not renewed beyond `longest` after it was asked for, and lost then. These
    /// locks have a task of their own.
    ///
    /// # Errors
    /// [`ConfigError::LeaseTooShort`], as for a lease.
    pub fn with_longest_hold(self, longest: Duration) -> Result<Self, ConfigError>
    where
        S: Clone,
    {
        let (store, lock) = (self.manager.store().clone(), self.manager.lock());
        check_outlasts(store.timeout(), "longest hold", longest)?;
        let manager = LeaseManager::new(store, lock, Some(longest), task::start_here);
        Ok(Locks { manager, ..self })
    }

    /// Returns the lock of this name. Each acquire has an owner of its own, so a holder that acquires it again waits
    /// for itself, unless it does so [as the same owner](LockHandle::as_owner).
    ///
    /// # Errors
    /// [`KeyError`] for an empty name, or one that begins with a closing brace.
    pub fn lock(&self, name: &str) -> Result<LockHandle<S, R>, KeyError> {
        self.handle(name, self.manager.lock())
    }

    /// Returns the semaphore of this name, with `permits` permits, each under a lease of its own. It bounds the
    /// concurrency of all processes together. It is acquired one permit at a time, or
    /// [several](SemaphoreHandle::permits).
    ///
    /// Names are shared with locks: a name is of one kind.
    #[doc = locks_example!(
        r#"let downloads = locks.semaphore("downloads", 2)?;"#
        "let (one, other) = (downloads.acquire().await?, downloads.acquire().await?);"
        "assert!(downloads.try_acquire().await?.taken().is_none());"
    )]
    /// # Errors
    /// [`Error::Key`] as for [`Locks::lock`], and [`Error::Config`] for no permits or more than
    /// [`MAX_PERMITS`](lockage_core::semaphore::MAX_PERMITS).
    pub fn semaphore(&self, name: &str, permits: u64) -> Result<SemaphoreHandle<S, R>, Error> {
        let lock = self.manager.lock();
        let semaphore = Semaphore::new(permits, lock.lease(), lock.remember())?;
        Ok(self.handle(name, Permits::new(semaphore, 1)?)?)
    }

    /// Returns the read-write lock of this name, to read along with other readers.
    #[doc = locks_example!(
        r#"let (one, other) = (locks.read_lock("page")?.acquire().await?, locks.read_lock("page")?.acquire().await?);"#
        r#"assert!(locks.write_lock("page")?.try_acquire().await?.taken().is_none());"#
    )]
    /// # Errors
    /// As [`Locks::lock`].
    pub fn read_lock(&self, name: &str) -> Result<RwLockHandle<S, R>, KeyError> {
        self.side(name, Mode::Read)
    }

    /// Returns the read-write lock of this name, to write alone. A writer that waits keeps new readers out.
    ///
    /// # Errors
    /// As [`Locks::lock`].
    pub fn write_lock(&self, name: &str) -> Result<RwLockHandle<S, R>, KeyError> {
        self.side(name, Mode::Write)
    }

    /// Returns the countdown latch of this name. It is kept for `keep` after each change (whole microseconds, at most
    /// 2^50 us), and open after that, so every wait ends.
    #[doc = locks_example!(
        r#"let parts = locks.latch("import:7", Duration::from_secs(3600))?;"#
        "assert!(parts.set(2).await?);"
        "assert_eq!([parts.count_down(1).await?, parts.count_down(1).await?], [1, 0]);"
        "parts.wait().await?;"
    )]
    /// # Errors
    /// [`Error::Key`] as for [`Locks::lock`], and [`Error::Config`] for a time out of range.
    pub fn latch(&self, name: &str, keep: Duration) -> Result<LatchHandle<S, R>, Error> {
        let latch = self.handle(name, Latch::new(keep)?)?;
        Ok(latch)
    }

    /// Returns the locks of these names, to be acquired together. A name that occurs twice counts once.
    #[doc = locks_example!(
        r#"let both = locks.many(["account:1", "account:2"])?.acquire().await?;"#
        r#"assert!(locks.lock("account:2")?.try_acquire().await?.taken().is_none());"#
        "both.release().await?;"
    )]
    /// # Errors
    /// As [`Locks::lock`].
    pub fn many<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<ManyLocks<S, R>, KeyError> {
        let named = |name: &'n str| Ok((name.into(), self.lock(name)?));
        Ok(ManyLocks { locks: names.into_iter().map(named).collect::<Result<_, _>>()? })
    }

    /// Returns the locks of ids under this name, on `stripes` stripes (1 to
    /// [`MAX_STRIPES`](lockage_core::lock::MAX_STRIPES)): stripe 17 of 64 of `accounts` has the key
    /// `prefix:{accounts#17/64}`. All processes must use the same number.
    ///
    /// # Errors
    /// [`Error::Key`] as for [`Locks::lock`], and [`Error::Config`] for a number of stripes out of range.
    pub fn striped(&self, name: &str, stripes: u32) -> Result<StripedLocks<S, R>, Error> {
        let stripes = Stripes::new(stripes)?;
        Key::new(&self.prefix, name)?;
        Ok(StripedLocks { locks: self.clone(), name: name.into(), stripes })
    }

    /// Releases everything held by this value and its clones, and ends the tasks that renew it. The possible grant of a
    /// call without an answer is released too. It waits for the store's answers, or until the leases have ended.
    ///
    /// Guards see it as a loss ([`Loss::Closed`]). Nothing more is acquired: [`Error::Closed`].
    pub async fn close(self) {
        self.manager.close().await;
    }

    fn side(&self, name: &str, mode: Mode) -> Result<RwLockHandle<S, R>, KeyError> {
        let lock = self.manager.lock();
        let lock = RwLock::new(lock.lease(), lock.remember());
        // Invariant: both check the same.
        let lock = lock.expect("what is right for a lock is for this one");
        self.handle(name, Side { lock, mode })
    }

    fn handle<K>(&self, name: &str, kind: K) -> Result<Handle<S, R, K>, KeyError> {
        let (manager, key) = (Arc::clone(&self.manager), Key::new(&self.prefix, name)?);
        Ok(Handle { manager, key, options: self.options.clone(), kind })
    }

    pub(super) fn store(&self) -> &RetryStore<S, R> {
        self.manager.store()
    }

    /// Reports to `observer` each acquire, renewal, loss and release by handles that are made from now on: of locks,
    /// semaphores and read-write locks. `family` names these locks in the program's configuration. Several locks and
    /// stripes count as locks; a quorum has one lock on each server.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// use std::time::Duration;
    /// use lockage::observer::{LeaseChange, LeaseEvent, Observer};
    /// use lockage::runtime::Tokio;
    /// use lockage::{Locks, RetryStore};
    /// # use lockage_memory::MemoryStore;
    ///
    /// struct Alarm;
    ///
    /// impl Observer for Alarm {
    ///     fn lease(&self, event: &LeaseEvent<'_>) {
    ///         if let LeaseChange::Lost { held, loss } = event.change {
    ///             eprintln!("{} was lost after {held:?}: {loss}", event.key);
    ///         }
    ///     }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// # let store = MemoryStore::new();
    /// let store = RetryStore::new(store, Tokio, Duration::from_secs(1));
    /// let locks = Locks::new(store, Duration::from_secs(30))?.with_observer("invoices", Alarm);
    /// locks.lock("2024")?.acquire().await?.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
    /// ```
    pub fn with_observer(mut self, family: &str, observer: impl Observer) -> Self {
        let runtime = self.manager.runtime().clone();
        self.options.observer = Some(LeaseObserver::new(family, observer, runtime).into());
        self
    }

    /// Returns a new owner, different from all others.
    pub fn new_owner(&self) -> OwnerId {
        OwnerId::from_u128(self.manager.random_bits())
    }
}

/// Checks that a grant for this span outlasts a call with this timeout.
fn check_outlasts(
    timeout: Duration,
    what: &'static str,
    span: Duration,
) -> Result<(), ConfigError> {
    match shortest_lease(timeout) {
        min if span < min => Err(ConfigError::LeaseTooShort { what, span, timeout, min }),
        _ => Ok(()),
    }
}

/// Why work under a lock has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError<E> {
    /// The work has failed.
    #[error("the work has failed: {0}")]
    Work(E),
    /// The lock was lost, and the work was stopped, or its result refused.
    #[error(transparent)]
    Lost(#[from] Loss),
    /// The result cannot be stored, or the stored one cannot be read. Nothing was stored.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl<S, R> Clone for Locks<S, R> {
    fn clone(&self) -> Self {
        let (manager, prefix) = (Arc::clone(&self.manager), self.prefix.clone());
        Locks { manager, prefix, options: self.options.clone() }
    }
}

impl<S, R> fmt::Debug for Locks<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("prefix", &self.prefix)
            .field("poll", &self.options.waiting.poll)
            .field("wake_ups", &self.options.waiting.listen.is_some())
            .field("replicas", &self.options.confirm.is_some())
            .field("observer", &self.options.observer.is_some())
            .finish_non_exhaustive()
    }
}
