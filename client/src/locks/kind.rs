//! The kinds of things that can be held: a lock, permits of a semaphore, or a side of a read-write lock.

use std::time::Duration;

use lockage_core::ConfigError;
use lockage_core::lock::Lock;
use lockage_core::rw_lock::{Mode, RwLock};
use lockage_core::semaphore::Semaphore;

/// A thing that can be held under a lease. The set is closed: a [`Handle`](super::Handle) is of one of these.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A lock: one owner at a time.
    Lock(Lock),
    /// Permits of a semaphore, all or none.
    Permits(Permits),
    /// One side of a read-write lock.
    Side(Side),
}

/// A number of permits of a semaphore.
#[derive(Clone, Copy, Debug)]
pub struct Permits {
    pub(super) semaphore: Semaphore,
    /// From one to all permits of the semaphore.
    pub(super) count: u64,
}

/// One side of a read-write lock: shared among readers, or exclusive to a writer.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub(super) lock: RwLock,
    pub(super) mode: Mode,
}

impl Kind {
    pub(super) fn lease(&self) -> Duration {
        match self {
            Kind::Lock(lock) => lock.lease(),
            Kind::Permits(Permits { semaphore, .. }) => semaphore.lease(),
            Kind::Side(Side { lock, .. }) => lock.lease(),
        }
    }

    /// Returns whether others can hold something at the same time, and wait to be notified.
    pub(super) fn leaves_room(&self) -> bool {
        match self {
            Kind::Lock(_) | Kind::Side(Side { mode: Mode::Write, .. }) => false,
            Kind::Permits(_) | Kind::Side(Side { mode: Mode::Read, .. }) => true,
        }
    }
}

impl Permits {
    pub(super) fn new(semaphore: Semaphore, count: u64) -> Result<Self, ConfigError> {
        let (what, unit, bound) = ("count of permits", "", "all that there are");
        if count == 0 {
            return Err(ConfigError::Zero { what });
        }
        if count > semaphore.permits() {
            return Err(ConfigError::TooLarge { what, max: semaphore.permits(), unit, bound });
        }
        Ok(Permits { semaphore, count })
    }
}

impl From<Lock> for Kind {
    fn from(lock: Lock) -> Self {
        Kind::Lock(lock)
    }
}

impl From<Permits> for Kind {
    fn from(permits: Permits) -> Self {
        Kind::Permits(permits)
    }
}

impl From<Side> for Kind {
    fn from(side: Side) -> Self {
        Kind::Side(side)
    }
}
