//! The shared parts of the machines of locks: grants under leases, and memories of ended ones.

use alloc::vec::Vec;
use core::mem::take;

use crate::time::Timestamp;
use crate::wake::Wake;

/// The number of the latest releases that a semaphore or a read-write lock remembers.
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

/// A grant under a lease of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted<T> {
    pub(crate) what: T,
    pub(crate) token: u64,
    pub(crate) deadline: u64,
}

/// A release of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Released<T> {
    pub(crate) what: T,
    pub(crate) token: u64,
    /// Until this time it is remembered.
    pub(crate) until: u64,
    /// See [`bound`].
    pub(crate) bound: u64,
}

/// The content of a [`Granted`], with its acquires.
pub(crate) trait Acquired {
    /// Returns the latest [`bound`] of its acquires.
    fn bound(&self) -> u64;
}

/// Grants under leases of their own, and the latest releases, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leases<G, R> {
    /// The latest token that was given out.
    pub(crate) token: u64,
    /// Until when a caller waits.
    pub(crate) wake: Wake,
    /// The latest bound of the acquires that are no longer remembered, until it has passed: an acquire without a later
    /// bound may be a copy of one of those.
    pub(crate) forgotten: u64,
    pub(crate) grants: Vec<Granted<G>>,
    /// At most [`REMEMBERED`].
    pub(crate) released: Vec<Released<R>>,
}

impl<G: Acquired, R> Leases<G, R> {
    pub(crate) fn new(token: u64, wake: u64, forgotten: u64) -> Self {
        let (grants, released) = (Vec::new(), Vec::new());
        Leases { token, wake: Wake(wake), forgotten, grants, released }
    }

    /// Drops expired and forgotten entries, so that they count nowhere but in `forgotten` (D9).
    pub(crate) fn prune(&mut self, now: u64) {
        let ended = self.grants.extract_if(.., |grant| now >= grant.deadline);
        let latest = ended.map(|grant| grant.what.bound()).max();
        let old = self.released.extract_if(.., |released| now >= released.until);
        let bounds = latest.into_iter().chain(old.map(|released| released.bound));
        let latest = bounds.fold(take(&mut self.forgotten), u64::max);
        self.forget(latest, now);
    }

    /// Forgets an entry of this bound. Copies that arrive after it are too late by themselves.
    fn forget(&mut self, bound: u64, now: u64) {
        if now <= bound {
            self.forgotten = self.forgotten.max(bound);
        }
    }

    /// Returns a grant under the next token (L5), which is not among the others yet.
    pub(crate) fn grant(&mut self, what: G, lease_us: u64, now: u64) -> Granted<G> {
        self.token = now.max(self.token + 1);
        Granted { what, token: self.token, deadline: now + lease_us }
    }

    pub(crate) fn remember(&mut self, released: Released<R>, now: u64) {
        if let Some(oldest) = remember(&mut self.released, released, REMEMBERED) {
            self.forget(oldest.bound, now);
        }
    }

    /// Returns when no lease, release, wait or token matters any more, and no copy of an acquire can arrive in time.
    pub(crate) fn forget_at(&self) -> u64 {
        let leases = self.grants.iter().map(|grant| grant.deadline.max(grant.what.bound() + 1));
        let memory = self.released.iter().map(|released| released.until.max(released.bound + 1));
        let least = self.wake.0.max(self.token + 1).max(self.forgotten + 1);
        leases.chain(memory).fold(least, u64::max)
    }

    /// Returns whether all bounds are times at which commands run, and no token is later than the latest (L5).
    pub(crate) fn has_sound_entries(&self) -> bool {
        let grants = self.grants.iter().map(|grant| (grant.token, grant.what.bound()));
        let released = self.released.iter().map(|released| (released.token, released.bound));
        is_bound(self.forgotten)
            && grants.chain(released).all(|(token, bound)| token <= self.token && is_bound(bound))
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

/// Appends an entry to a memory of the latest `most`. Returns the one that is forgotten, if any.
pub(crate) fn remember<T>(memory: &mut Vec<T>, entry: T, most: usize) -> Option<T> {
    let oldest = (memory.len() == most).then(|| memory.remove(0));
    memory.push(entry);
    oldest
}

/// Returns the last microsecond at which a copy of an operation may arrive and be done; zero without a bound, which no
/// later one could exceed.
pub(crate) fn bound(not_after: Timestamp) -> u64 {
    if not_after < Timestamp::MAX { not_after.as_micros() } else { 0 }
}

/// Returns whether a record can hold such a bound.
pub(crate) fn is_bound(bound: u64) -> bool {
    bound < Timestamp::MAX.as_micros()
}

/// Extends a bound to that of one more copy, and returns whether that is later.
pub(crate) fn extend_bound(known: &mut u64, not_after: Timestamp) -> bool {
    let is_later = *known < bound(not_after);
    *known = bound(not_after).max(*known);
    is_later
}

/// Returns the time of a deadline, of the end of a wait, or from when on a record does not matter.
pub(crate) fn time(micros: u64) -> Timestamp {
    Timestamp::computed(micros)
        .expect("at most MAX_SPAN after an accepted time; records are checked")
}
