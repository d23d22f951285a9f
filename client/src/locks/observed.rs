//! Tells an observer of the changes of leases.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::rw_lock::Mode;

use super::Locks;
use super::guard::LockGuard;
use super::handle::{Handle, TryLock};
use super::kind::{Kind, Permits, Side};
use crate::error::Error;
use crate::key::Key;
use crate::observer::{LeaseChange, LeaseEvent, LeaseKind, Observer, Subject, bind};
use crate::runtime::Spawn;
use crate::store::Store;

impl<S, R> Locks<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Tells `observer` of each acquire, renewal, loss and release by handles that are made from now on: of locks,
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
        let (family, observer) = (family.into(), bind(observer, Subject::Family(family)));
        let now = Box::new(move || runtime.now());
        self.options.observer = Some(Arc::new(LeaseObserver { family, observer, now }));
        self
    }
}

/// The observer, its family and its clock.
pub(super) struct LeaseObserver {
    family: Box<str>,
    observer: Arc<dyn Observer>,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl LeaseObserver {
    pub(super) fn now(&self) -> Duration {
        (self.now)()
    }

    pub(super) fn tell(&self, kind: Kind, key: &Key, change: LeaseChange<'_>) {
        let (kind, permits) = match kind {
            Kind::Lock(_) => (LeaseKind::Lock, 1),
            Kind::Permits(Permits { count, .. }) => (LeaseKind::Semaphore, count),
            Kind::Side(Side { mode: Mode::Read, .. }) => (LeaseKind::Read, 1),
            Kind::Side(Side { mode: Mode::Write, .. }) => (LeaseKind::Write, 1),
        };
        self.observer.lease(&LeaseEvent { family: &self.family, kind, key, permits, change });
    }
}

impl<S, R, K> Handle<S, R, K>
where
    S: Store + 'static,
    R: Spawn,
    K: Copy + Into<Kind>,
{
    /// Begins to watch an acquire, if there is an observer: returns the start time.
    pub(super) fn begin(&self) -> Option<Duration> {
        self.options.observer.as_ref().map(|observer| observer.now())
    }

    /// Tells the observer the outcome of an acquire that began at `begin`.
    pub(super) fn end(
        &self,
        begin: Option<Duration>,
        result: &Result<TryLock<LockGuard<S, R>>, Error>,
    ) {
        let (Some(observer), Some(begin)) = (&self.options.observer, begin) else { return };
        let waited = observer.now().saturating_sub(begin);
        let tell = |change| observer.tell(self.kind.into(), &self.key, change);
        match result {
            Ok(TryLock::Taken(guard)) => guard.announce(waited),
            Ok(TryLock::Busy(_)) => tell(LeaseChange::Busy { waited }),
            Err(error) => tell(LeaseChange::Failed { waited, error }),
        }
    }
}
