//! The read-write lock: many readers or one writer, each on a lease of its own.
//!
//! Guarantees, with the names that tests cite:
//!
//! - **L1** while a writer's lease is live, no other owner's is.
//! - **L2** an owner's hold count, for reading and for writing each, is its acquires less its releases. A hold that
//!   could be granted is never refused, and a refusal says when its obstacle ends at the latest.
//! - **L3** a release or a renewal without a hold changes nothing and says so.
//! - **L4** re-entry and renewal never shorten a lease, and never bring an expired one back.
//! - **L5** the fencing token grows with each fresh grant, of either kind, and stays on re-entry. It is
//!   `max(last + 1, now in microseconds)`.
//! - **L10** the id of a hold names it: acquiring it again while it is live changes nothing and returns the present
//!   hold, and a release gets the same answer again while it is remembered. A late copy of an acquire takes nothing
//!   once its hold has ended: each acquire whose `not_after` is not later than that of an ended hold that is not
//!   remembered is refused ([`Answer::TooLate`]). One without a bound (`Timestamp::MAX`) is then a new acquire.
//! - **L12** a refused caller that announces a wait, and listens, is notified of each released grant for at least half
//!   of that time; a release without waiters notifies no caller.
//!
//! An owner that is the only reader may also write; any other reader is refused at once, since two that waited for each
//! other would wait forever. An owner that writes may also read, and keep that when it releases the write: other
//! readers are let in only then.
//!
//! Readers do not starve writers: a refused writer that says that it will be back keeps new readers out until then, or
//! until another writer is granted.
//!
//! **Limitations.** Writers have no order, and a failover that loses an acknowledged grant ends exclusion.
//!
//! Each call reads the whole record, and one that changes something writes it: 58 bytes for each owner that holds it,
//! and 16 for each further hold. Hence the bounds [`MAX_READERS`] and [`MAX_HOLDS`].
//!
//! ```
//! use core::time::Duration;
//! use lockage_core::rw_lock::{Answer, HoldId, Mode, OwnerId, RwLock};
//! use lockage_core::{Command, Timestamp};
//!
//! let lock = RwLock::new(Duration::from_secs(30), Duration::from_secs(60))?;
//! let now = Timestamp::from_micros(1_000_000)?;
//! let (alice, bob) = (OwnerId::from_u128(0xA11CE), OwnerId::from_u128(0xB0B));
//! let (one, other) = (HoldId::from_u128(1), HoldId::from_u128(2));
//! let mut slot = None;
//!
//! let read = lock.read(alice, one, Timestamp::MAX);
//! assert!(matches!(read.apply(&mut slot, now)?.answer, Answer::Held(_)));
//! let write = lock.write(bob, other, Timestamp::MAX).waiting(Duration::from_secs(5));
//! assert!(matches!(write.apply(&mut slot, now)?.answer, Answer::Refused { .. }));
//!
//! assert!(lock.release(alice, Mode::Read, one).apply(&mut slot, now)?.woke);
//! let Answer::Held(hold) = write.apply(&mut slot, now)?.answer else { unreachable!() };
//! assert_eq!((hold.mode, hold.holds), (Mode::Write, 1));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod machine;
mod record;
mod wire;

use alloc::vec::Vec;
use core::time::Duration;

use crate::error::ConfigError;
use crate::exact::half_span;
use crate::time::Timestamp;
use crate::wake::waiting_us;

pub use crate::lease::REMEMBERED;
pub use crate::lock::{HoldId, OwnerId};
pub(crate) use record::{Grant as GrantRecord, RwLockRecord};

/// The most owners that read at once.
pub const MAX_READERS: usize = 64;

/// The most holds of one owner in one mode.
pub const MAX_HOLDS: usize = 8;

/// The options of a read-write lock: how long a grant lasts, and how long a release is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwLock {
    lease_us: u64,
    remember_us: u64,
}

impl RwLock {
    /// Creates a lock whose grants last for `lease` unless they are renewed, and which remembers a release for
    /// `remember`, if it is one of the last [`REMEMBERED`]. `remember` should be at least the longest time that a
    /// repeated call can be in flight: its timeout and the network's delay.
    ///
    /// Both are whole microseconds, each at most half of [`MAX_SPAN`](crate::MAX_SPAN): 35 years.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or values out of range.
    pub fn new(lease: Duration, remember: Duration) -> Result<Self, ConfigError> {
        let lease_us = half_span("lease", lease)?;
        let remember_us = half_span("time to remember releases", remember)?;
        Ok(RwLock { lease_us, remember_us })
    }

    /// Returns how long a grant or a renewal lasts.
    pub fn lease(&self) -> Duration {
        Duration::from_micros(self.lease_us)
    }

    /// Returns how long a release is remembered.
    pub fn remember(&self) -> Duration {
        Duration::from_micros(self.remember_us)
    }

    /// Acquires the lock to read, shared with other readers, or holds it once more if `owner` reads already.
    ///
    /// A request that arrives after `not_after`, by the store's time, is refused, so that a delayed duplicate cannot
    /// take the lock for a caller that has given up.
    pub fn read(&self, owner: OwnerId, hold: HoldId, not_after: Timestamp) -> Operation {
        self.operation(owner, Mode::Read, Action::Acquire { hold, not_after, waits_us: 0 })
    }

    /// Acquires the lock to write if no other owner holds it, or holds it once more if `owner` writes already. See
    /// [`RwLock::read`] for `not_after`, and [`Operation::waiting`] for the way to keep new readers out.
    pub fn write(&self, owner: OwnerId, hold: HoldId, not_after: Timestamp) -> Operation {
        self.operation(owner, Mode::Write, Action::Acquire { hold, not_after, waits_us: 0 })
    }

    /// Extends the lease in this mode to at least now + lease. With `token`, only that grant's.
    pub fn renew(&self, owner: OwnerId, mode: Mode, token: Option<u64>) -> Operation {
        self.operation(owner, mode, Action::Renew { token })
    }

    /// Releases one hold, by the id that it was acquired under; the last one ends the grant.
    pub fn release(&self, owner: OwnerId, mode: Mode, hold: HoldId) -> Operation {
        self.operation(owner, mode, Action::Release { hold })
    }

    /// Returns a query of the holders of the lock.
    pub fn inspect(&self) -> Inspect {
        Inspect
    }

    fn operation(&self, owner: OwnerId, mode: Mode, action: Action) -> Operation {
        Operation { lock: *self, owner, mode, action }
    }
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Shared with other readers.
    Read,
    /// Alone.
    Write,
}

/// An operation that changes the lock or is refused, built by [`RwLock`]'s methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    lock: RwLock,
    owner: OwnerId,
    mode: Mode,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Acquire { hold: HoldId, not_after: Timestamp, waits_us: u64 },
    Renew { token: Option<u64> },
    Release { hold: HoldId },
}

impl Operation {
    /// Makes it an acquire of a caller that waits and returns within `span`. If others are in its way, the record notes
    /// the wait, and listeners are notified if a grant is released within `span`. A [refused](Answer::Refused) write
    /// also keeps new readers out for `span` from then. Other operations are unchanged.
    ///
    /// A wait is recorded at most once in half of `span`, however many callers wait; the time until which readers are
    /// kept out, with each refused write. A fraction of a microsecond is rounded up, and more than half of
    /// [`MAX_SPAN`](crate::MAX_SPAN) counts as half.
    pub fn waiting(self, span: Duration) -> Self {
        match self.action {
            Action::Acquire { hold, not_after, .. } => {
                let waits_us = waiting_us(span);
                Operation { action: Action::Acquire { hold, not_after, waits_us }, ..self }
            }
            _ => self,
        }
    }
}

/// Queries the holders of the lock, and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspect;

/// The reply to an operation: whether it released a grant, now, and notified waiters.
pub type Reply = crate::lease::Reply<Answer>;

/// The outcome of an operation. All but [`Answer::Held`] and [`Answer::Released`] changed nothing, except that a wait
/// is remembered, and a writer's keeps new readers out.
///
/// An acquire under the id of a live hold of another owner or mode, or of a remembered release, is an error:
/// [`RecordError::OperationReused`](crate::RecordError::OperationReused).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An acquire or a renewal succeeded: the present grant.
    Held(Hold),
    /// A release ran, now or when it was first sent.
    Released {
        /// The fencing token of the grant.
        token: u64,
        /// How many holds its owner had left; zero if the grant ended.
        holds: u64,
    },
    /// An acquire was refused: others hold the lock, or a writer waits for it.
    Refused {
        /// When that ends, without earlier renewals, releases or owners.
        retry_at: Timestamp,
    },
    /// A write by an owner that reads was refused, because others read as well. Waiting could last forever, if one of
    /// them did the same: release the read first.
    UpgradeRefused {
        /// When their leases end, without earlier renewals, releases or owners.
        retry_at: Timestamp,
    },
    /// There are [`MAX_READERS`] already, or [`MAX_HOLDS`] holds of this owner.
    TooMany {
        /// When the first of those leases ends, without earlier renewals or releases.
        retry_at: Timestamp,
    },
    /// An acquire arrived after its `not_after`, or may be a copy of one whose grant has ended and is forgotten.
    TooLate {
        /// The latest `not_after` of those: an acquire with a later one cannot be a copy of one of them.
        forgotten: Timestamp,
    },
    /// The owner has no live grant of this mode, or not this hold, or the token names another grant.
    NotHeld,
}

/// The state of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// For reading or for writing.
    pub mode: Mode,
    /// The fencing token of the grant.
    pub token: u64,
    /// The owner's number of holds.
    pub holds: u64,
    /// The end of the lease by the store's clock: from then on it is not held.
    pub deadline: Timestamp,
}

/// A holder of a lock, and its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The owner.
    pub owner: OwnerId,
    /// Its grant.
    pub hold: Hold,
}

/// The outcome of [`Inspect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The store's time.
    pub now: Timestamp,
    /// The time until which a waiting writer keeps new readers out, if there is one.
    pub kept_until: Option<Timestamp>,
    /// The holders, the oldest grant first: a writer, that writer as a reader, or readers.
    pub holders: Vec<Holder>,
}
