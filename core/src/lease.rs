//! The shared parts of the machines of locks: grants under leases, and memories of ended ones.

use alloc::vec::Vec;

use crate::time::Timestamp;
use crate::wake::Wake;

/// How many of the latest releases a semaphore or a read-write lock remembers.
pub const REMEMBERED: usize = 16;

/// The reply to an operation, and whether it notified waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<A> {
    /// The store's time at which the operation ran.
    pub now: Timestamp,
    /// The outcome of the operation.
    pub answer: A,
    /// Whether waiters were notified: the operation made room, or opened a latch, now.
    pub woke: bool,
}

/// Something that is granted under a lease of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted<T> {
    pub(crate) what: T,
    pub(crate) token: u64,
    pub(crate) deadline: u64,
}

/// Something that was released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Released<T> {
    pub(crate) what: T,
    pub(crate) token: u64,
    /// Until this time it is remembered.
    pub(crate) until: u64,
}

/// Grants under leases of their own, and the latest releases, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leases<G, R> {
    /// The latest token that was given out.
    pub(crate) token: u64,
    /// Until when a caller waits.
    pub(crate) wake: Wake,
    pub(crate) grants: Vec<Granted<G>>,
    /// At most [`REMEMBERED`].
    pub(crate) released: Vec<Released<R>>,
}

impl<G, R> Leases<G, R> {
    pub(crate) fn new(token: u64, wake: u64) -> Self {
        Leases { token, wake: Wake(wake), grants: Vec::new(), released: Vec::new() }
    }

    /// Drops expired and forgotten entries, so that they count nowhere (D9).
    pub(crate) fn prune(&mut self, now: u64) {
        self.grants.retain(|grant| now < grant.deadline);
        self.released.retain(|released| now < released.until);
    }

    /// Returns a grant under the next token (L5), which is not among the others yet.
    pub(crate) fn grant(&mut self, what: G, lease_us: u64, now: u64) -> Granted<G> {
        self.token = now.max(self.token + 1);
        Granted { what, token: self.token, deadline: now + lease_us }
    }

    pub(crate) fn remember(&mut self, released: Released<R>) {
        remember(&mut self.released, released, REMEMBERED);
    }

    /// Returns when no lease, release, wait or token matters any more.
    pub(crate) fn forget_at(&self) -> u64 {
        let leases = self.grants.iter().map(|grant| grant.deadline);
        let memory = self.released.iter().map(|released| released.until);
        leases.chain(memory).fold(self.wake.0.max(self.token + 1), u64::max)
    }
}

impl<T> Granted<T> {
    /// Extends the lease to at least `deadline`, and returns whether that is longer (L4).
    pub(crate) fn extend(&mut self, deadline: u64) -> bool {
        let is_longer = self.deadline < deadline;
        self.deadline = self.deadline.max(deadline);
        is_longer
    }
}

/// Appends an entry to a memory of the latest `most`.
pub(crate) fn remember<T>(memory: &mut Vec<T>, entry: T, most: usize) {
    if memory.len() == most {
        memory.remove(0);
    }
    memory.push(entry);
}

/// Returns the time of a deadline, of the end of a wait, or from when on a record does not matter.
pub(crate) fn time(micros: u64) -> Timestamp {
    Timestamp::computed(micros)
        .expect("at most MAX_SPAN after an accepted time; records are checked")
}
