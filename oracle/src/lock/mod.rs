//! The lock's operations, its laws L1 to L5 and L8 to L10, an independent reference, and traces.

#[cfg(feature = "properties")]
pub mod equality;
#[cfg(feature = "properties")]
mod history;
pub mod laws;
mod line;
#[cfg(feature = "properties")]
mod reference;
#[cfg(feature = "properties")]
mod strategies;
#[cfg(feature = "properties")]
pub mod watch;

use std::time::Duration;

use lockage_core::Timestamp;
use lockage_core::lock::{
    Answer, Hold, HoldId, Holder, Inspect, Inspection, Label, Lock, Operation, OwnerId, Reply,
    Withdraw,
};

use crate::key::{Key, bound, time};

#[cfg(feature = "properties")]
pub use reference::Reference;
#[cfg(feature = "properties")]
pub use strategies::{Trace, trace};

/// One operation on one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The operation itself.
    pub action: Action,
    /// The requested lease, in microseconds.
    pub lease_us: u64,
    /// How long the operation is remembered, in microseconds.
    pub remember_us: u64,
}

impl Op {
    /// Returns the id of the hold that it names.
    pub fn hold(&self) -> Option<u128> {
        match self.action {
            Action::Acquire { hold, .. } | Action::Release { hold, .. } => Some(hold),
            _ => None,
        }
    }
}

/// An operation of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Acquires the lock, or holds it once more.
    Acquire {
        /// The caller.
        owner: u128,
        /// The id of the hold.
        hold: u128,
        /// When it becomes too late, in microseconds.
        not_after_us: u64,
        /// How long it waits if it is refused, in microseconds.
        waits_us: u64,
        /// Whether it waits in line.
        in_line: bool,
        /// The caller in words.
        label: Option<Label>,
    },
    /// Gives up a place in the queue.
    Withdraw {
        /// The waiter.
        owner: u128,
    },
    /// Extends the lease.
    Renew {
        /// The caller.
        owner: u128,
        /// The token of the only grant that it may extend.
        token: Option<u64>,
    },
    /// Releases one hold.
    Release {
        /// The caller.
        owner: u128,
        /// The id of the hold.
        hold: u128,
    },
    /// Frees the grant of this token by force.
    ForceRelease {
        /// The token.
        token: u64,
    },
    /// Inspects the holder.
    Inspect,
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acquired or renewed, now or before.
    Held(Grant),
    /// Released or freed by force, now or before.
    Released {
        /// The token of the grant.
        token: u64,
        /// The number of remaining holds.
        holds: u64,
    },
    /// Refused, with the live grant if there is one.
    Refused(Option<(u128, Grant)>),
    /// It came after its `not_after`, or its `not_after` is not after that of a forgotten hold.
    TooLate {
        /// The latest `not_after` of the forgotten holds, in microseconds.
        forgotten_us: u64,
    },
    /// Refused, although the lock is free.
    Queued {
        /// How many have a place before the caller's.
        ahead: u64,
        /// When the first place ends, in microseconds.
        until_us: u64,
    },
    /// The owner has no place any more.
    Withdrawn,
    /// The result of an inspection.
    Seen(Sight),
    /// The id belongs to a hold that has ended.
    Reused,
    /// Any other error.
    Failed(String),
}

/// The result of an inspection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// The live grant and its owner, if the lock is held.
    pub live: Option<(u128, Grant)>,
    /// When it was granted, in microseconds.
    pub since_us: Option<u64>,
    /// The holder in words.
    pub label: Option<Label>,
    /// The number of owners with a place in the queue.
    pub queued: u64,
}

/// A grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fencing token.
    pub token: u64,
    /// The number of its holds.
    pub holds: u64,
    /// The end of the lease in microseconds.
    pub deadline_us: u64,
}

/// One lock.
pub trait Subject {
    /// Runs one operation at the store's time, in microseconds.
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome;

    /// Drops the record, as a store does with an expired key.
    fn forget(&mut self);
}

/// A lock on one key of some store.
#[derive(Clone, Debug)]
pub struct OnKey<K>(pub K);

impl<K: Key> Subject for OnKey<K> {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        let now = time(now_us);
        let operation = match command(op) {
            Asked::Operation(operation) => operation,
            Asked::Withdraw(withdraw) => {
                return self.0.execute(&withdraw, now).map_or_else(failed, |at| {
                    assert_eq!(at, now, "a withdrawal says at which time it was made");
                    Outcome::Withdrawn
                });
            }
            Asked::Inspect(inspect) => {
                return self.0.execute(&inspect, now).map_or_else(failed, |seen| {
                    assert_eq!(seen.now, now, "an inspection says at which time it was made");
                    seen.into()
                });
            }
        };
        match self.0.execute(&operation, now) {
            Ok(Reply { now: at, answer }) => {
                assert_eq!(at, now, "a reply says at which time it was made");
                answer.into()
            }
            Err(error) => failed(error),
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

/// The command of an operation.
enum Asked {
    Operation(Operation),
    Withdraw(Withdraw),
    Inspect(Inspect),
}

fn command(op: &Op) -> Asked {
    let lock = lock(op);
    Asked::Operation(match op.action {
        Action::Acquire { owner, hold, not_after_us, waits_us, in_line, label } => {
            let (owner, hold) = (OwnerId::from_u128(owner), HoldId::from_u128(hold));
            let acquire = lock.acquire(owner, hold, time(not_after_us));
            let span = Duration::from_micros(waits_us);
            let acquire = if in_line { acquire.queued(span) } else { acquire.waiting(span) };
            label.map_or(acquire, |label| acquire.labelled(label))
        }
        Action::Renew { owner, token } => lock.renew(OwnerId::from_u128(owner), token),
        Action::Release { owner, hold } => {
            lock.release(OwnerId::from_u128(owner), HoldId::from_u128(hold))
        }
        Action::ForceRelease { token } => lock.force_release(token),
        Action::Withdraw { owner } => {
            return Asked::Withdraw(lock.withdraw(OwnerId::from_u128(owner)));
        }
        Action::Inspect => return Asked::Inspect(lock.inspect()),
    })
}

fn failed(error: String) -> Outcome {
    match error.contains("the id was used before") {
        true => Outcome::Reused,
        false => Outcome::Failed(error),
    }
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Held(hold) => Outcome::Held(hold.into()),
            Answer::Released { token, holds } => Outcome::Released { token, holds },
            Answer::Refused(held) => Outcome::Refused(held.map(holder)),
            Answer::TooLate { forgotten } => {
                Outcome::TooLate { forgotten_us: forgotten.as_micros() }
            }
            Answer::Queued { ahead, until } => {
                Outcome::Queued { ahead, until_us: until.as_micros() }
            }
        }
    }
}

impl From<Inspection> for Outcome {
    fn from(seen: Inspection) -> Self {
        Outcome::Seen(Sight {
            live: seen.holder.map(holder),
            since_us: seen.since.map(Timestamp::as_micros),
            label: seen.label,
            queued: seen.queued,
        })
    }
}

impl From<Hold> for Grant {
    fn from(hold: Hold) -> Self {
        Grant { token: hold.token, holds: hold.holds, deadline_us: hold.deadline.as_micros() }
    }
}

fn holder(holder: Holder) -> (u128, Grant) {
    (holder.owner.as_u128(), holder.hold.into())
}
