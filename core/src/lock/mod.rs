//! The reentrant lock: leases, hold counts, fencing tokens, and operations that are safe to repeat.
//!
//! Guarantees, with the names that tests cite:
//!
//! - **L1** at most one live lease at any time of the store.
//! - **L2** an owner's hold count is its acquires less its releases; the lock is free exactly at zero, and after the
//!   lease or a forced release.
//! - **L3** a release or a renewal by another owner, of a hold that has ended, or after the lease, changes nothing and
//!   says so.
//! - **L4** re-entry and renewal never shorten a lease, and never bring an expired one back.
//! - **L5** the fencing token grows with each fresh grant and stays on re-entry. It is
//!   `max(last + 1, now in microseconds)`, so it also grows after the record was dropped, as long
//!   as the store's clock has not gone back past it.
//! - **L9** waiters in line ([`Operation::queued`]) get the lock in the order in which they came: one that polls within
//!   its span is never passed over, whatever other callers do (k = 0). The place of a dead one ends by itself, between
//!   one and one and a half of its span after its last poll; so dead waiters, however many, leave a free lock idle for
//!   no longer than that.
//! - **L10** the id of a hold names it. Acquiring it again while it is live changes nothing and returns the present
//!   grant; once it has ended it is not taken again. Releasing it again never ends another hold, however late that is,
//!   and gets the same answer. An ended hold is known while it is one of the last [`REMEMBERED`] and the record is
//!   kept; a fresh grant forgets the oldest of those. Beyond that a release is refused, and so is each acquire whose
//!   `not_after` is not later than that of a forgotten hold: it may be a late copy. A new one is granted with a later
//!   `not_after` ([`Answer::TooLate`]). A repeated renewal counts as a later one.
//!
//! **Limitations.** A failover that loses an acknowledged grant lets a second owner in. Use the fencing token where
//! that would do harm.
//!
//! ```
//! use core::time::Duration;
//! use lockage_core::lock::{Answer, HoldId, Lock, OwnerId};
//! use lockage_core::{Command, Timestamp};
//!
//! let lock = Lock::new(Duration::from_secs(30), Duration::from_secs(60))?;
//! let (owner, id) = (OwnerId::from_u128(0xA11CE), HoldId::from_u128(1));
//! let now = Timestamp::from_micros(1_000_000)?;
//! let mut slot = None;
//!
//! let acquire = lock.acquire(owner, id, Timestamp::MAX);
//! let Answer::Held(hold) = acquire.apply(&mut slot, now)?.answer else { unreachable!() };
//! assert_eq!(hold.token, 1_000_000);
//!
//! let released = Answer::Released { token: hold.token, holds: 0 };
//! assert_eq!(lock.release(owner, id).apply(&mut slot, now)?.answer, released);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod ids;
mod label;
mod machine;
mod packed;
mod queue;
mod record;
mod stripes;
mod wire;

use core::time::Duration;

use crate::error::ConfigError;
use crate::exact::{MAX_SPAN_US, half_span};
use crate::time::Timestamp;

pub use crate::id::IdError;
pub use ids::{HoldId, OwnerId};
pub use label::{Label, LabelError};
pub use queue::MAX_QUEUED;
pub(crate) use record::LockRecord;
pub use record::REMEMBERED;
pub use stripes::{MAX_STRIPES, Stripes};

/// The most holds of one owner on a lock. One more acquire is refused, and names that owner as the holder.
pub const MAX_HOLDS: usize = 64;

/// The options of a lock: how long a grant lasts, and how long operations are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    lease_us: u64,
    remember_us: u64,
}

impl Lock {
    /// Creates a lock whose grants last for `lease` unless they are renewed. Its record is kept for at least `remember`
    /// after the lease, or after the latest operation, even once it is free, and for at most half as long again.
    /// `remember` should be at least the longest time that a repeated operation can be in flight: the call's timeout
    /// and the network's delay.
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

    /// Returns how long a grant or a renewal lasts.
    pub fn lease(&self) -> Duration {
        Duration::from_micros(self.lease_us)
    }

    /// Returns the least time for which the record is kept after the lease, or after the latest operation.
    pub fn remember(&self) -> Duration {
        Duration::from_micros(self.remember_us)
    }

    /// Acquires the lock if it is free and no other owner is next (see [`Operation::queued`]). If `owner` has it, holds
    /// it once more, at most [`MAX_HOLDS`] times.
    ///
    /// A request that arrives after `not_after`, by the store's time, is refused, so that a delayed duplicate cannot
    /// take the lock for a caller that has given up. With [`Timestamp::MAX`] there is no such bound, and a duplicate that
    /// arrives once its hold has ended and is forgotten takes the lock.
    pub fn acquire(&self, owner: OwnerId, id: HoldId, not_after: Timestamp) -> Operation {
        let (waits_us, in_line, label) = (0, false, None);
        self.operation(Action::Acquire { owner, id, not_after, waits_us, in_line, label })
    }

    /// Extends the lease to at least now + lease. With `token`, only that grant's.
    pub fn renew(&self, owner: OwnerId, token: Option<u64>) -> Operation {
        self.operation(Action::Renew { owner, token })
    }

    /// Releases this hold; the last one frees the lock.
    pub fn release(&self, owner: OwnerId, id: HoldId) -> Operation {
        self.operation(Action::Release { owner, id })
    }

    /// Frees the lock, regardless of its owner, if `token` is that of its live grant; a late duplicate thus harms no
    /// successor.
    pub fn force_release(&self, token: u64) -> Operation {
        self.operation(Action::ForceRelease { token })
    }

    /// Gives up a place in the queue, if `owner` has one. If the lock is free, the next owner is notified.
    pub fn withdraw(&self, owner: OwnerId) -> Withdraw {
        Withdraw { owner }
    }

    /// Returns a query of the holder of the lock, and of the number of waiters in line.
    pub fn inspect(&self) -> Inspect {
        Inspect
    }

    fn operation(&self, action: Action) -> Operation {
        Operation { lock: *self, action }
    }
}

/// An operation that changes the lock or is refused, built by [`Lock`]'s methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    lock: Lock,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Acquire {
        owner: OwnerId,
        id: HoldId,
        not_after: Timestamp,
        waits_us: u64,
        in_line: bool,
        label: Option<Label>,
    },
    Renew {
        owner: OwnerId,
        token: Option<u64>,
    },
    Release {
        owner: OwnerId,
        id: HoldId,
    },
    ForceRelease {
        token: u64,
    },
}

impl Operation {
    /// Makes it an acquire of a caller that waits and returns within `span` (at most half of
    /// [`MAX_SPAN`](crate::MAX_SPAN)). If it is refused, the record notes the wait, and listeners are notified if the
    /// lock becomes free within `span`. Other operations are unchanged.
    ///
    /// A wait is recorded at most once in half of `span`, however many callers wait.
    pub fn waiting(mut self, span: Duration) -> Self {
        if let Action::Acquire { waits_us, .. } = &mut self.action {
            let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
            *waits_us = micros.min(MAX_SPAN_US / 2);
        }
        self
    }

    /// Makes it an acquire of a caller that [waits](Operation::waiting) in line and returns within `span` (at most half
    /// of [`MAX_SPAN`](crate::MAX_SPAN); zero means no wait). Other operations are unchanged.
    ///
    /// If it is refused, its owner gets a place at the end of the queue, or keeps its place. A place lasts for at least
    /// `span` after each poll of its owner, and at most half as much again: it is recorded at most once in half of
    /// `span`. While there are places, a free lock is granted only to the owner of the first one, which is notified by
    /// name when the lock is released. Any other caller gets [`Answer::Queued`], waiting in line or not. A grant ends a
    /// place, and so does [`Lock::withdraw`].
    ///
    /// There are at most [`MAX_QUEUED`] places. A later waiter is refused, and has none until it polls again.
    pub fn queued(self, span: Duration) -> Self {
        let mut queued = self.waiting(span);
        if let Action::Acquire { in_line, .. } = &mut queued.action {
            *in_line = true;
        }
        queued
    }

    /// Labels the caller of an acquire. [`Lock::inspect`] returns the label while the grant lasts; re-entry leaves it
    /// unchanged. Other operations are unchanged.
    pub fn labelled(mut self, words: Label) -> Self {
        if let Action::Acquire { label, .. } = &mut self.action {
            *label = Some(words);
        }
        self
    }
}

/// Gives up an owner's place in the queue, built by [`Lock::withdraw`]. Repeating it changes nothing. Its outcome is
/// the store's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdraw {
    owner: OwnerId,
}

/// Queries the holder of the lock and the number of waiters in line, and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspect;

/// The answer to an operation, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The store's time at which the operation ran.
    pub now: Timestamp,
    /// The outcome.
    pub answer: Answer,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was acquired or renewed, now or before: the present grant.
    Held(Hold),
    /// It was released, or freed by force, now or before.
    Released {
        /// The fencing token of the grant.
        token: u64,
        /// The number of holds that its owner had left; zero if that freed it.
        holds: u64,
    },
    /// It was refused, and nothing changed except the caller's wait. An acquire is refused if another owner holds the
    /// lock, or the owner holds it [too often](MAX_HOLDS). Other operations are refused if the owner, hold or grant
    /// that they name does not hold it. This is the holder, if any.
    Refused(Option<Holder>),
    /// An acquire arrived after its `not_after`; or its `not_after` is not later than `forgotten`, so that it may be a
    /// late copy of one whose hold has ended and is forgotten. Nothing changed. One with a later `not_after` is in time.
    TooLate {
        /// The latest `not_after` of the holds that were forgotten.
        forgotten: Timestamp,
    },
    /// An acquire was refused although the lock is free: other owners are next. Nothing changed except the caller's own
    /// place.
    Queued {
        /// The number of places before the caller's; all of them if it has none.
        ahead: u64,
        /// When the first place ends, unless its owner polls again.
        until: Timestamp,
    },
}

/// The state of a grant right after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The fencing token of the grant.
    pub token: u64,
    /// The owner's number of holds.
    pub holds: u64,
    /// The end of the lease by the store's clock.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The store's time.
    pub now: Timestamp,
    /// The holder, if there is one.
    pub holder: Option<Holder>,
    /// The time since which the lock is held, if it is.
    pub since: Option<Timestamp>,
    /// The holder's label, if it [has one](Operation::labelled).
    pub label: Option<Label>,
    /// The number of owners with a place in the queue.
    pub queued: u64,
}
