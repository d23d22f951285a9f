//! What a semaphore and a read-write lock have in common.

use lockage_core::rw_lock::RwLock;
use lockage_core::semaphore::Semaphore;

use crate::simulation::message::WRITE;

/// How it is used.
#[derive(Clone, Copy, Debug)]
pub(in crate::simulation::check) struct Terms {
    pub(super) capacity: u64,
    pub(super) lease_us: u64,
    pub(super) remember_us: u64,
    pub(super) has_sides: bool,
}

impl From<Semaphore> for Terms {
    fn from(it: Semaphore) -> Self {
        Terms {
            capacity: it.permits(),
            lease_us: it.lease().as_micros() as u64, // both at most 2^50
            remember_us: it.remember().as_micros() as u64,
            has_sides: false,
        }
    }
}

impl From<RwLock> for Terms {
    fn from(it: RwLock) -> Self {
        Terms {
            capacity: WRITE,
            lease_us: it.lease().as_micros() as u64, // both at most 2^50
            remember_us: it.remember().as_micros() as u64,
            has_sides: true,
        }
    }
}
