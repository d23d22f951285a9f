//! The operations of owners on the store, and the machine that runs them.

use std::fmt;
use std::time::Duration;

use lockage_core::lock::{Answer, HoldId, Lock, OwnerId};
use lockage_core::{Command, Record, RecordError, Timestamp};

/// An operation of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// Acquires the lock, or one more hold.
    Acquire {
        /// The last tick at which the store may do it.
        not_after: u64,
    },
    /// Acquires the lock, or a place in line for `span` ticks.
    LineUp {
        /// The last tick at which the store may do it.
        not_after: u64,
        /// For how many ticks the place lasts at least.
        span: u64,
    },
    /// Renews the lease of the grant with this token.
    Renew {
        /// The token of the grant.
        token: u64,
    },
    /// Releases a hold.
    Release {
        /// Which of the owner's operations has acquired it.
        hold: u8,
    },
    /// Frees the lock from the grant with this token, as any owner.
    ForceRelease {
        /// The token of the grant.
        token: u64,
    },
    /// Leaves the line.
    Withdraw,
}

/// One operation under way, or its repetition: both are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The client, from zero.
    pub owner: usize,
    /// The number of the owner's operation, from one.
    pub operation: u8,
    /// The tick at which it was first sent.
    pub sent: u64,
    /// The operation.
    pub ask: Ask,
}

/// An answer of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Told {
    /// The operation is done, now or before.
    Done {
        /// The grant's fencing token.
        token: u64,
        /// The number of holds after it.
        holds: u64,
    },
    /// Another owner holds the lock, or this owner does not hold it.
    Refused,
    /// It was an acquire of a hold that has ended.
    Ended,
    /// It came after its last tick, or may be of a hold that was forgotten.
    TooLate {
        /// The last tick of the holds that were forgotten.
        forgotten: u64,
    },
    /// The lock is free, and other waiters are ahead in line.
    Queued {
        /// How many waiters are ahead.
        ahead: u64,
    },
    /// The line was left.
    Left,
}

/// A lock's machine: the shipped one, or one with a bug in it.
pub trait Machine: Send + Sync {
    /// Runs a request on the stored record.
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told;
}

/// The shipped lock of `lockage-core`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shipped;

impl Machine for Shipped {
    fn run(&self, lock: &Lock, request: &Request, slot: &mut Option<Record>, now: u64) -> Told {
        let (owner, id) = (request.owner_id(), request.hold_id(request.operation));
        let operation = match request.ask {
            Ask::Acquire { not_after } => lock.acquire(owner, id, time(not_after)),
            Ask::LineUp { not_after, span } => {
                lock.acquire(owner, id, time(not_after)).queued(Duration::from_micros(span))
            }
            Ask::Renew { token } => lock.renew(owner, Some(token)),
            Ask::Release { hold } => lock.release(owner, request.hold_id(hold)),
            Ask::ForceRelease { token } => lock.force_release(token),
            Ask::Withdraw => {
                lock.withdraw(owner).apply(slot, time(now)).expect("the slot is this lock's");
                return Told::Left;
            }
        };
        let reply = match operation.apply(slot, time(now)) {
            Err(RecordError::OperationReused) => return Told::Ended,
            reply => reply.expect("the slot is this lock's"),
        };
        match reply.answer {
            Answer::Held(hold) => Told::Done { token: hold.token, holds: hold.holds },
            Answer::Released { token, holds } => Told::Done { token, holds },
            Answer::Refused(_) => Told::Refused,
            Answer::TooLate { forgotten } => Told::TooLate { forgotten: forgotten.as_micros() },
            Answer::Queued { ahead, .. } => Told::Queued { ahead },
        }
    }
}

impl Request {
    /// Returns the id under which the store knows the owner.
    pub fn owner_id(&self) -> OwnerId {
        owner_id(self.owner)
    }

    /// Returns the id under which the store keeps the hold of this operation.
    pub fn hold_id(&self, operation: u8) -> HoldId {
        hold_id(self.owner, operation)
    }
}

/// Returns the id of the hold that an operation of an owner acquires.
pub(super) fn hold_id(owner: usize, operation: u8) -> HoldId {
    HoldId::from_u128(owner as u128 * 256 + u128::from(operation))
}

/// Returns the id under which the store knows an owner.
pub(super) fn owner_id(owner: usize) -> OwnerId {
    OwnerId::from_u128(owner as u128 + 1)
}

/// Returns the store's time of a tick, which is a microsecond.
pub(super) fn time(tick: u64) -> Timestamp {
    Timestamp::from_micros(tick).expect("scopes have few ticks")
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Acquire { not_after: 0 } => write!(f, "whether it was granted"),
            Ask::Acquire { not_after } => write!(f, "acquire, not after {not_after}"),
            Ask::LineUp { not_after, span } => {
                write!(f, "acquire or a place for {span}, not after {not_after}")
            }
            Ask::Renew { token } => write!(f, "renew token {token}"),
            Ask::Release { hold } => write!(f, "release what #{hold} acquired"),
            Ask::ForceRelease { token } => write!(f, "force-release token {token}"),
            Ask::Withdraw => write!(f, "withdraw"),
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Done { token, holds } => write!(f, "done, token {token}, holds {holds}"),
            Told::Refused => write!(f, "refused"),
            Told::Ended => write!(f, "it has ended"),
            Told::TooLate { .. } => write!(f, "too late"),
            Told::Queued { ahead } => write!(f, "free, but {ahead} ahead"),
            Told::Left => write!(f, "left the line"),
        }
    }
}

/// Returns an owner's letter.
pub(super) fn letter(owner: usize) -> char {
    char::from(b'A' + owner as u8)
}
