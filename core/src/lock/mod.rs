//! The reentrant lock: leases, hold counts, fencing tokens, and operations that are safe to repeat.
//!
//! What it promises, with the names that tests cite:
//!
//! - **L1** at most one live lease at any time of the store.
//! - **L2** an owner holds as often as it acquired less what it released; the lock is free exactly
//!   at zero, and after the lease or a forced release.
//! - **L3** a release or a renewal by anyone else, or after the lease, changes nothing and says so.
//! - **L4** re-entry and renewal never shorten a lease, and never bring an expired one back.
//! - **L5** the fencing token grows with each fresh grant and stays on re-entry. It is
//!   `max(last + 1, now in microseconds)`, so it also grows after the record was dropped, as long
//!   as the store's clock has not gone back past it.
//! - **L10** repeating an operation with its id changes nothing and gets the same answer, while
//!   it is one of the last [`REMEMBERED`] that changed the record, and the record is kept.
//!
//! What it does not promise: a failover that loses an acknowledged grant lets a second owner in.
//! Use the fencing token where that would do harm.
//!
//! ```
//! use core::time::Duration;
//! use lockage_core::lock::{Answer, Lock, OperationId, OwnerId};
//! use lockage_core::{Command, Timestamp};
//!
//! let lock = Lock::new(Duration::from_secs(30), Duration::from_secs(60))?;
//! let owner = OwnerId::from_u128(0xA11CE);
//! let now = Timestamp::from_micros(1_000_000)?;
//! let mut slot = None;
//!
//! let acquire = lock.acquire(owner, OperationId::from_u128(1), Timestamp::MAX);
//! let Answer::Done(hold) = acquire.apply(&mut slot, now)?.answer else { unreachable!() };
//! assert_eq!(hold.token, 1_000_000);
//!
//! let release = lock.release(owner, Some(hold.token), OperationId::from_u128(2));
//! assert!(matches!(release.apply(&mut slot, now)?.answer, Answer::Done(left) if left.holds == 0));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod machine;
mod record;
mod wire;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::error::ConfigError;
use crate::exact::{MAX_SPAN_US, half_span};
use crate::id::{read_id, write_id};
use crate::time::Timestamp;

pub use crate::id::IdError;
pub(crate) use record::LockRecord;
pub use record::REMEMBERED;

/// How a lock is used: how long a grant lasts, and how long operations are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    lease_us: u64,
    remember_us: u64,
}

impl Lock {
    /// A lock whose grants last for `lease` unless they are renewed, and whose record remembers
    /// operations for at least `remember` after the last of them, also once it is free. `remember`
    /// should be at least the longest time that a repeated operation can be under way: the call's
    /// timeout and the network's delay.
    ///
    /// Both are whole microseconds, each at most half of [`MAX_SPAN`](crate::MAX_SPAN): 35 years.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or values out of range.
    pub fn new(lease: Duration, remember: Duration) -> Result<Self, ConfigError> {
        // Each leaves room for the other: a record lives for the lease and then for the time to
        // remember, and each can be another user's of the same lock.
        let lease_us = half_span("lease", lease)?;
        let remember_us = half_span("time to remember operations", remember)?;
        Ok(Lock { lease_us, remember_us })
    }

    /// How long a grant or a renewal lasts.
    pub fn lease(&self) -> Duration {
        Duration::from_micros(self.lease_us)
    }

    /// How long operations are remembered at least.
    pub fn remember(&self) -> Duration {
        Duration::from_micros(self.remember_us)
    }

    /// Take the lock where it is free, or hold it once more where `owner` has it.
    ///
    /// A request that arrives after `not_after`, by the store's time, is refused, so that a
    /// delayed duplicate cannot take the lock for somebody who has given up.
    pub fn acquire(&self, owner: OwnerId, id: OperationId, not_after: Timestamp) -> Operation {
        self.operation(id, Action::Acquire { owner, not_after, waits_us: 0 })
    }

    /// Extend the lease to at least now + lease. With `token`, only that grant's.
    pub fn renew(&self, owner: OwnerId, token: Option<u64>, id: OperationId) -> Operation {
        self.operation(id, Action::Renew { owner, token })
    }

    /// Give one hold back; the last one frees the lock. With `token`, only that grant's.
    pub fn release(&self, owner: OwnerId, token: Option<u64>, id: OperationId) -> Operation {
        self.operation(id, Action::Release { owner, token })
    }

    /// Free the lock, whoever holds it, if `token` is that of its live grant; a late duplicate
    /// thus harms no successor.
    pub fn force_release(&self, token: u64, id: OperationId) -> Operation {
        self.operation(id, Action::ForceRelease { token })
    }

    /// Ask who holds the lock.
    pub fn inspect(&self) -> Inspect {
        Inspect
    }

    fn operation(&self, id: OperationId, action: Action) -> Operation {
        Operation { lock: *self, id, action }
    }
}

/// An operation that changes the lock or is refused, built by [`Lock`]'s methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    lock: Lock,
    id: OperationId,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Acquire { owner: OwnerId, not_after: Timestamp, waits_us: u64 },
    Renew { owner: OwnerId, token: Option<u64> },
    Release { owner: OwnerId, token: Option<u64> },
    ForceRelease { token: u64 },
}

impl Operation {
    /// The same acquire of a caller who waits and is back within `span` (at most half of
    /// [`MAX_SPAN`](crate::MAX_SPAN)): where it is refused, the record says so, and when the lock becomes
    /// free within that, those who listen are told. Others are as they were.
    ///
    /// It is written down no more often than once in half of that, however many wait.
    pub fn waiting(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let waits_us = micros.min(MAX_SPAN_US / 2);
        match self.action {
            Action::Acquire { owner, not_after, .. } => {
                Operation { action: Action::Acquire { owner, not_after, waits_us }, ..self }
            }
            _ => self,
        }
    }
}

/// Asks who holds the lock and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspect;

/// What an operation was told, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The store's time at which the operation ran.
    pub now: Timestamp,
    /// What became of it.
    pub answer: Answer,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done, now or when it was first sent.
    Done(Hold),
    /// It was refused and nothing changed: an acquire because somebody else holds the lock, the
    /// others because the owner, or the grant they name, does not. Who does, if anyone.
    Refused(Option<Holder>),
    /// An acquire arrived after its `not_after`; nothing changed.
    TooLate,
}

/// A grant as it stood right after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The fencing token of the grant.
    pub token: u64,
    /// How often the owner holds it; zero once it is free.
    pub holds: u64,
    /// The end of the lease by the store's clock; the epoch once it is free.
    pub deadline: Timestamp,
}

/// Who holds a lock, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The owner.
    pub owner: OwnerId,
    /// Its grant.
    pub hold: Hold,
}

/// What [`Inspect`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The store's time.
    pub now: Timestamp,
    /// Who holds the lock, if anyone.
    pub holder: Option<Holder>,
}

/// Who holds, or wants, a lock: an explicit value that can be stored, cloned, and handed to
/// another task or process; never a thread's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u128);

/// Names one operation, so that sending it again is the same operation. Make a new one for each
/// operation, from 128 random bits: two owners who used the same one would get the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u128);

impl OwnerId {
    /// An owner of these 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        OwnerId(bits)
    }

    /// The 128 bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl OperationId {
    /// An operation of these 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        OperationId(bits)
    }

    /// The 128 bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_id(self.0, f)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_id(self.0, f)
    }
}

impl FromStr for OwnerId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        read_id(text).map(OwnerId)
    }
}

impl FromStr for OperationId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        read_id(text).map(OperationId)
    }
}
