//! The lock's part of the suite: its operations, an independent reference, traces, and the
//! properties L1 to L5 and L10.

pub mod equality;
pub mod laws;
mod reference;
mod strategies;
pub mod transcript;

use std::time::Duration;

use lockage_core::lock::{Answer, Hold, Holder, Lock, Operation, OperationId, OwnerId, Reply};

use crate::key::{Key, time};

pub use reference::Reference;
pub use strategies::{Trace, trace};

/// One operation on one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// What is asked.
    pub action: Action,
    /// Its id.
    pub id: u128,
    /// The lease that it asks for, in microseconds.
    pub lease_us: u64,
    /// How long it is to be remembered, in microseconds.
    pub remember_us: u64,
}

/// What is asked of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take it, or hold it once more.
    Acquire {
        /// Who asks.
        owner: u128,
        /// Too late after this time, in microseconds.
        not_after_us: u64,
        /// For how long it waits where it is refused, in microseconds.
        waits_us: u64,
    },
    /// Extend the lease.
    Renew {
        /// Who asks.
        owner: u128,
        /// Only the grant of this token.
        token: Option<u64>,
    },
    /// Give one hold back.
    Release {
        /// Who asks.
        owner: u128,
        /// Only the grant of this token.
        token: Option<u64>,
    },
    /// Break the grant of this token.
    ForceRelease {
        /// The token.
        token: u64,
    },
    /// Ask who holds it.
    Inspect,
}

/// What an operation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, now or when it was first sent.
    Done(Grant),
    /// Refused, with the live grant if there is one.
    Refused(Option<(u128, Grant)>),
    /// It came after its `not_after`.
    TooLate,
    /// What an inspection saw.
    Seen(Option<(u128, Grant)>),
    /// The id was used before, for another operation.
    Reused,
    /// Any other error.
    Failed(String),
}

/// A grant right after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fencing token.
    pub token: u64,
    /// How often it is held.
    pub holds: u64,
    /// The end of the lease in microseconds; 0 once it is free.
    pub deadline_us: u64,
}

/// One lock.
pub trait Subject {
    /// Runs one operation at the store's time, in microseconds.
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome;

    /// Drops what is stored, as a store does with an expired key.
    fn forget(&mut self);
}

/// A lock on one key of some store.
#[derive(Clone, Debug)]
pub struct OnKey<K>(pub K);

impl<K: Key> Subject for OnKey<K> {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        let now = time(now_us);
        let Some(operation) = operation(op) else {
            let inspection = self.0.execute(&lock(op).inspect(), now);
            return inspection.map_or_else(Outcome::Failed, |seen| {
                assert_eq!(seen.now, now, "an inspection says at which time it was made");
                Outcome::Seen(seen.holder.map(holder))
            });
        };
        match self.0.execute(&operation, now) {
            Ok(Reply { now: at, answer }) => {
                assert_eq!(at, now, "a reply says at which time it was made");
                match answer {
                    Answer::Done(hold) => Outcome::Done(grant(hold)),
                    Answer::Refused(held) => Outcome::Refused(held.map(holder)),
                    Answer::TooLate => Outcome::TooLate,
                }
            }
            Err(error) if error.contains("the id was used before") => Outcome::Reused,
            Err(error) => Outcome::Failed(error),
        }
    }

    fn forget(&mut self) {
        self.0.forget();
    }
}

fn lock(op: &Op) -> Lock {
    let (lease, remember) =
        (Duration::from_micros(op.lease_us), Duration::from_micros(op.remember_us));
    Lock::new(lease, remember).expect("leases within the bounds")
}

fn operation(op: &Op) -> Option<Operation> {
    let (lock, id) = (lock(op), OperationId::from_u128(op.id));
    Some(match op.action {
        Action::Acquire { owner, not_after_us, waits_us } => {
            let acquire = lock.acquire(OwnerId::from_u128(owner), id, time(not_after_us));
            acquire.waiting(Duration::from_micros(waits_us))
        }
        Action::Renew { owner, token } => lock.renew(OwnerId::from_u128(owner), token, id),
        Action::Release { owner, token } => lock.release(OwnerId::from_u128(owner), token, id),
        Action::ForceRelease { token } => lock.force_release(token, id),
        Action::Inspect => return None,
    })
}

fn holder(holder: Holder) -> (u128, Grant) {
    (holder.owner.as_u128(), grant(holder.hold))
}

fn grant(hold: Hold) -> Grant {
    Grant { token: hold.token, holds: hold.holds, deadline_us: hold.deadline.as_micros() }
}
