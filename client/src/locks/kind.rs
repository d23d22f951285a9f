//! The kinds of things that are held: a lock, permits of a semaphore, a side of a read-write lock.

use lockage_core::ConfigError;
use lockage_core::lock::{HoldId, Label, Lock, OwnerId};
use lockage_core::rw_lock::{Mode, RwLock};
use lockage_core::semaphore::{PermitId, Semaphore};

use super::claim::{Claim, LockClaim};

/// A kind of thing that is held. There are no others.
pub trait Kind: Wanted {}

/// A lock: one owner at a time.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive {
    pub(super) lock: Lock,
    pub(super) owner: Option<OwnerId>,
    pub(super) in_line: bool,
    pub(super) label: Option<Label>,
}

/// So many permits of a semaphore at once.
#[derive(Clone, Copy, Debug)]
pub struct Permits {
    pub(super) semaphore: Semaphore,
    /// At least one, and no more than there are.
    count: u64,
}

/// One side of a read-write lock: to read beside others, or to write alone.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub(super) lock: RwLock,
    pub(super) mode: Mode,
    pub(super) owner: Option<OwnerId>,
}

impl<K: Wanted> Kind for K {}

/// What makes it one. Its name cannot be had outside.
pub trait Wanted: Clone + Send + Sync + 'static {
    /// By whom it is wanted, where that was said.
    fn owner(&self) -> Option<OwnerId>;

    /// Whether it is waited for in line.
    fn in_line(&self) -> bool {
        false
    }

    /// A new attempt for this owner.
    fn claim(&self, owner: OwnerId, random: impl FnMut() -> u128) -> Claim;
}

impl Wanted for Exclusive {
    fn owner(&self) -> Option<OwnerId> {
        self.owner
    }

    fn in_line(&self) -> bool {
        self.in_line
    }

    fn claim(&self, owner: OwnerId, mut random: impl FnMut() -> u128) -> Claim {
        let Exclusive { lock, in_line, label, .. } = *self;
        let id = HoldId::from_u128(random());
        Claim::Lock(LockClaim { lock, owner, id, in_line, label })
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

impl Wanted for Permits {
    fn owner(&self) -> Option<OwnerId> {
        None
    }

    fn claim(&self, _owner: OwnerId, mut random: impl FnMut() -> u128) -> Claim {
        let id = PermitId::from_u128(random());
        Claim::Permits { semaphore: self.semaphore, id, count: self.count }
    }
}

impl Wanted for Side {
    fn owner(&self) -> Option<OwnerId> {
        self.owner
    }

    fn claim(&self, owner: OwnerId, mut random: impl FnMut() -> u128) -> Claim {
        Claim::Side { lock: self.lock, owner, mode: self.mode, id: HoldId::from_u128(random()) }
    }
}
