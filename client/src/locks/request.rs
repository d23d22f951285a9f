//! One attempt to hold something: its commands, and the store's answers.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockage_core::lock::{self, HoldId, Holder, Label, OwnerId};
use lockage_core::rw_lock::{self, Mode};
use lockage_core::semaphore::{self, PermitId};
use lockage_core::{Command, Timestamp};

use super::kind::{Kind, Permits, Side};
use super::waiting::NextAttempt;
use crate::error::StoreError;
use crate::key::Key;
use crate::retry_store::RetryStore;
use crate::runtime::Runtime;
use crate::store::Store;

/// One attempt to hold something, under an id of its own. It also renews and releases its grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcquireRequest {
    pub(super) kind: Kind,
    pub(super) owner: OwnerId,
    /// The id of the hold or the permits.
    pub(super) id: u128,
    /// The owner waits in line.
    pub(super) fair: bool,
    pub(super) label: Option<Label>,
    /// When it was made: nothing was granted to it before.
    pub(super) made: Duration,
}

/// The answer to an acquire.
pub(super) struct Acquired {
    /// The store's time.
    pub(super) now: Timestamp,
    pub(super) result: Result<Grant, Refusal>,
    /// An earlier copy of the call was not answered, and may still be carried out.
    pub(super) has_stray: bool,
}

pub(super) struct Grant {
    pub(super) token: u64,
    pub(super) holds: u64,
    /// How long it lasts after the answer: less than its lease, if an earlier copy of the call got the grant.
    pub(super) left: Duration,
}

pub(super) struct Refusal {
    /// `None` if the store's answer came too late to count, or named no holder.
    pub(super) busy: Option<Busy>,
    /// When it is free, without earlier renewals, releases or owners.
    pub(super) free_in: Duration,
    /// The acquire came too late for the store, which accepts one with a later `not_after` than this.
    pub(super) later_than: Option<Timestamp>,
}

/// Why something is not available now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Busy {
    /// Another owner holds the lock.
    Held(Holder),
    /// The lock is free, and earlier owners wait in line.
    Queued {
        /// The number of owners in line before this one.
        ahead: u64,
    },
    /// Too few permits of the semaphore are left. Or others hold the read-write lock, or a writer waits for it, so that
    /// this side has to wait.
    InUse {
        /// When that ends, without earlier renewals, releases or owners.
        retry_after: Duration,
    },
    /// An owner that reads can write only as the only reader, and others read. Waiting for them is refused, because it
    /// would never end if one of them waited, too. Release the read first.
    Upgrade {
        /// When their leases end, without earlier renewals, releases or owners.
        retry_after: Duration,
    },
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Busy::Held(Holder { hold, .. }) => {
                write!(f, "another owner holds it, under the token {}", hold.token)
            }
            Busy::Queued { ahead } => {
                write!(f, "it is free, and {ahead} owners are in line before")
            }
            Busy::InUse { retry_after } => write!(f, "it is in use, for at most {retry_after:?}"),
            Busy::Upgrade { .. } => {
                f.write_str("others read, too: release the read before writing")
            }
        }
    }
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The lock is free.
    Free,
    /// The owner still holds it, this many times.
    Held(u64),
    /// It was no longer held: its lease had ended, or it was freed by force. If it is a lock, this is its present
    /// holder, if any.
    NotHeld(Option<Holder>),
}

impl AcquireRequest {
    /// Returns the owner as the store names it.
    pub(super) fn owner(&self) -> OwnerId {
        match self.kind {
            Kind::Lock(_) | Kind::Side(_) => self.owner,
            Kind::Permits(_) => OwnerId::from_u128(self.id),
        }
    }

    /// Makes an attempt for a caller that makes the `next` one if this is refused.
    pub(super) async fn acquire<S: Store, R: Runtime>(
        &self,
        store: &RetryStore<S, R>,
        key: &Key,
        not_after: Timestamp,
        next: NextAttempt,
    ) -> Result<Acquired, StoreError> {
        let acquire = match self.kind {
            Kind::Lock(lock) => {
                let acquire = lock.acquire(self.owner, self.hold(), not_after);
                let acquire = match self.fair {
                    true => acquire.queued(next.within),
                    false => acquire.waiting(next.notified_within()),
                };
                Operation::Lock(self.label.map_or(acquire, |label| acquire.labelled(label)))
            }
            Kind::Permits(Permits { semaphore, count }) => {
                let acquire = semaphore.acquire(self.permit(), count, not_after);
                // Invariant: see `Permits`.
                let acquire = acquire.expect("the count was checked");
                Operation::Semaphore(acquire.waiting(next.notified_within()))
            }
            Kind::Side(Side { lock, mode: Mode::Read }) => {
                let read = lock.read(self.owner, self.hold(), not_after);
                Operation::RwLock(read.waiting(next.notified_within()))
            }
            Kind::Side(Side { lock, mode: Mode::Write }) => {
                // It keeps new readers out, too.
                let write = lock.write(self.owner, self.hold(), not_after);
                Operation::RwLock(write.waiting(next.within))
            }
        };
        let store = Noting { store, has_stray: AtomicBool::new(false) };
        let Reply { now, answer } = acquire.execute(&store, key, Duration::MAX).await?;
        let result = match answer {
            Answer::Held(grant) => Ok(grant),
            Answer::Refused(refusal) => Err(refusal),
            Answer::Released { .. } => Err(Refusal::TOO_LATE),
        };
        Ok(Acquired { now, result, has_stray: store.has_stray.into_inner() })
    }

    /// Renews the grant of `token` within `patience`; a refusal names the holder, if known.
    pub(super) async fn renew(
        &self,
        store: &impl Store,
        key: &Key,
        token: u64,
        patience: Duration,
    ) -> Result<Result<(), Option<Holder>>, StoreError> {
        let renew = match self.kind {
            Kind::Lock(lock) => Operation::Lock(lock.renew(self.owner, Some(token))),
            Kind::Permits(Permits { semaphore, .. }) => {
                Operation::Semaphore(semaphore.renew(self.permit(), Some(token)))
            }
            Kind::Side(Side { lock, mode }) => {
                Operation::RwLock(lock.renew(self.owner, mode, Some(token)))
            }
        };
        Ok(match renew.execute(store, key, patience).await?.answer {
            Answer::Held(_) => Ok(()),
            answer => Err(answer.holder()),
        })
    }

    /// Releases the grant of `token`. Repeating it changes nothing more.
    pub(super) async fn release(
        &self,
        store: &impl Store,
        key: &Key,
        token: u64,
    ) -> Result<Released, StoreError> {
        let release = match self.kind {
            Kind::Lock(lock) => Operation::Lock(lock.release(self.owner, self.hold())),
            Kind::Permits(Permits { semaphore, .. }) => {
                Operation::Semaphore(semaphore.release(self.permit(), Some(token)))
            }
            Kind::Side(Side { lock, mode }) => {
                Operation::RwLock(lock.release(self.owner, mode, self.hold()))
            }
        };
        Ok(match release.execute(store, key, Duration::MAX).await?.answer {
            Answer::Released { holds: 0 } => Released::Free,
            Answer::Released { holds } => Released::Held(holds),
            answer => Released::NotHeld(answer.holder()),
        })
    }

    /// Gives up the owner's place in line, if it has one. Repeating it changes nothing more.
    pub(super) async fn withdraw(&self, store: &impl Store, key: &Key) -> Result<(), StoreError> {
        if let Kind::Lock(lock) = self.kind {
            store.execute(key, &lock.withdraw(self.owner)).await?;
        }
        Ok(())
    }

    fn hold(&self) -> HoldId {
        HoldId::from_u128(self.id)
    }

    fn permit(&self) -> PermitId {
        PermitId::from_u128(self.id)
    }
}

/// A store that notes whether an earlier copy of its call may still be carried out.
struct Noting<'a, S, R> {
    store: &'a RetryStore<S, R>,
    has_stray: AtomicBool,
}

impl<S: Store, R: Runtime> Store for Noting<'_, S, R> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let timeout = self.store.timeout();
        let (outcome, has_stray) = self.store.execute_noting(key, command, timeout).await?;
        self.has_stray.store(has_stray, Ordering::Relaxed);
        Ok(outcome)
    }
}

/// The command of one kind.
enum Operation {
    Lock(lock::Operation),
    Semaphore(semaphore::Operation),
    RwLock(rw_lock::Operation),
}

impl Operation {
    async fn execute(
        self,
        store: &impl Store,
        key: &Key,
        patience: Duration,
    ) -> Result<Reply, StoreError> {
        Ok(match self {
            Operation::Lock(command) => store.execute_within(key, &command, patience).await?.into(),
            Operation::Semaphore(command) => {
                store.execute_within(key, &command, patience).await?.into()
            }
            Operation::RwLock(command) => {
                store.execute_within(key, &command, patience).await?.into()
            }
        })
    }
}

/// The reply to an operation of any kind.
struct Reply {
    now: Timestamp,
    answer: Answer,
}

enum Answer {
    Held(Grant),
    Released { holds: u64 },
    Refused(Refusal),
}

impl Answer {
    fn holder(&self) -> Option<Holder> {
        match self {
            Answer::Refused(Refusal { busy: Some(Busy::Held(holder)), .. }) => Some(*holder),
            _ => None,
        }
    }
}

impl From<lock::Reply> for Reply {
    fn from(lock::Reply { now, answer }: lock::Reply) -> Self {
        let answer = match answer {
            lock::Answer::Held(hold) => {
                Answer::held(hold.token, hold.holds, hold.deadline.saturating_since(now))
            }
            lock::Answer::Released { holds, .. } => Answer::Released { holds },
            lock::Answer::Refused(Some(holder)) => {
                Answer::refused(holder.hold.deadline, now, |_| Busy::Held(holder))
            }
            lock::Answer::Queued { ahead, until } => {
                Answer::refused(until, now, |_| Busy::Queued { ahead })
            }
            lock::Answer::Refused(None) => Answer::Refused(Refusal::TOO_LATE),
            lock::Answer::TooLate { forgotten } => Answer::too_late(forgotten),
        };
        Reply { now, answer }
    }
}

impl From<semaphore::Reply> for Reply {
    fn from(semaphore::Reply { now, answer, .. }: semaphore::Reply) -> Self {
        use semaphore::Answer as Told;
        let answer = match answer {
            Told::Held(grant) => {
                Answer::held(grant.token, grant.count, grant.deadline.saturating_since(now))
            }
            Told::Released { .. } => Answer::Released { holds: 0 },
            Told::Full { fits_at } => Answer::in_use(fits_at, now),
            Told::TooLate { forgotten } => Answer::too_late(forgotten),
            // No request is for more permits than there are: see `Permits`.
            Told::Never | Told::NotHeld => Answer::Refused(Refusal::TOO_LATE),
        };
        Reply { now, answer }
    }
}

impl From<rw_lock::Reply> for Reply {
    fn from(rw_lock::Reply { now, answer, .. }: rw_lock::Reply) -> Self {
        use rw_lock::Answer as Told;
        let answer = match answer {
            Told::Held(hold) => {
                Answer::held(hold.token, hold.holds, hold.deadline.saturating_since(now))
            }
            Told::Released { holds, .. } => Answer::Released { holds },
            Told::Refused { retry_at } | Told::TooMany { retry_at } => {
                Answer::in_use(retry_at, now)
            }
            Told::UpgradeRefused { retry_at } => {
                Answer::refused(retry_at, now, |retry_after| Busy::Upgrade { retry_after })
            }
            Told::TooLate { forgotten } => Answer::too_late(forgotten),
            Told::NotHeld => Answer::Refused(Refusal::TOO_LATE),
        };
        Reply { now, answer }
    }
}

impl Answer {
    fn held(token: u64, holds: u64, left: Duration) -> Self {
        Answer::Held(Grant { token, holds, left })
    }

    fn in_use(until: Timestamp, now: Timestamp) -> Self {
        Answer::refused(until, now, |retry_after| Busy::InUse { retry_after })
    }

    fn refused(until: Timestamp, now: Timestamp, busy: impl FnOnce(Duration) -> Busy) -> Self {
        let free_in = until.saturating_since(now);
        Answer::Refused(Refusal { busy: Some(busy(free_in)), free_in, later_than: None })
    }

    fn too_late(later_than: Timestamp) -> Self {
        Answer::Refused(Refusal { later_than: Some(later_than), ..Refusal::TOO_LATE })
    }
}

impl Refusal {
    /// No other owner is in the way: the answer came too late.
    pub(super) const TOO_LATE: Refusal =
        Refusal { busy: None, free_in: Duration::ZERO, later_than: None };
}
