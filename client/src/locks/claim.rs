//! What is wanted or held, and how the store is asked for it: a lock, permits, a side of a read-write lock.

use std::time::Duration;

use lockage_core::Timestamp;
use lockage_core::lock::{self, HoldId, Holder, Label, Lock, OwnerId};
use lockage_core::rw_lock::{self, Mode, RwLock};
use lockage_core::semaphore::{self, PermitId, Semaphore};

use super::guard::Released;
use super::waiting::Back;
use crate::error::StoreError;
use crate::key::Key;
use crate::store::Store;

/// One attempt to hold something, by ids of its own.
#[derive(Clone, Copy, Debug)]
pub enum Claim {
    Lock(LockClaim),
    Permits { semaphore: Semaphore, id: PermitId, count: u64 },
    Side { lock: RwLock, owner: OwnerId, mode: Mode, id: HoldId },
}

/// A lock, or a place in line for it.
#[derive(Clone, Copy, Debug)]
pub struct LockClaim {
    pub(super) lock: Lock,
    pub(super) owner: OwnerId,
    pub(super) id: HoldId,
    pub(super) in_line: bool,
    pub(super) label: Option<Label>,
}

/// What an acquire was told.
pub(super) struct Asked {
    /// The store's time.
    pub(super) now: Timestamp,
    pub(super) answer: Result<Granted, Refusal>,
}

pub(super) struct Granted {
    pub(super) token: u64,
    pub(super) holds: u64,
}

pub(super) struct Refusal {
    /// Nothing, where the store's answer came too late to count.
    pub(super) busy: Option<Busy>,
    /// When it is free, if nobody renews, gives back or comes before.
    pub(super) free_in: Duration,
}

/// Why something cannot be held now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Busy {
    /// Somebody else holds the lock.
    Held(Holder),
    /// Nobody holds the lock, and others came before, who wait in line: so many.
    Queued {
        /// How many of them.
        ahead: u64,
    },
    /// Of a semaphore, too few permits are left. Of a read-write lock, others hold it so that this side has
    /// to wait, or a writer waits already.
    InUse {
        /// When that ends, if nobody renews, gives back or comes before.
        retry_after: Duration,
    },
    /// An owner that reads can write only as the only reader, and others read as well. It is not waited for:
    /// if one of them did the same, that could last for ever. Give the read back first.
    Upgrade {
        /// When their leases end, if nobody renews, gives back or comes before.
        retry_after: Duration,
    },
}

impl Claim {
    pub(super) fn lease(&self) -> Duration {
        match self {
            Claim::Lock(LockClaim { lock, .. }) => lock.lease(),
            Claim::Permits { semaphore, .. } => semaphore.lease(),
            Claim::Side { lock, .. } => lock.lease(),
        }
    }

    /// Who the store says holds it.
    pub(super) fn owner(&self) -> OwnerId {
        match *self {
            Claim::Lock(LockClaim { owner, .. }) | Claim::Side { owner, .. } => owner,
            Claim::Permits { id, .. } => OwnerId::from_u128(id.as_u128()),
        }
    }

    /// Whether others may hold something beside this, and can be told so.
    pub(super) fn leaves_room(&self) -> bool {
        match self {
            Claim::Lock(_) | Claim::Side { mode: Mode::Write, .. } => false,
            Claim::Permits { .. } | Claim::Side { mode: Mode::Read, .. } => true,
        }
    }

    /// Asks for it, for a caller who asks again like this where it is refused.
    pub(super) async fn acquire(
        &self,
        store: &impl Store,
        key: &Key,
        not_after: Timestamp,
        back: Back,
    ) -> Result<Asked, StoreError> {
        match *self {
            Claim::Lock(LockClaim { lock, owner, id, in_line, label }) => {
                let acquire = lock.acquire(owner, id, not_after);
                let acquire = match in_line {
                    true => acquire.queued(back.within),
                    false => acquire.waiting(back.told_within()),
                };
                let acquire = label.map_or(acquire, |label| acquire.labelled(label));
                Ok(store.execute(key, &acquire).await?.into())
            }
            Claim::Permits { semaphore, id, count } => {
                let acquire = semaphore.acquire(id, count, not_after);
                // Invariant: see `Permits`.
                let acquire = acquire.expect("the count was checked").waiting(back.told_within());
                Ok(store.execute(key, &acquire).await?.into())
            }
            Claim::Side { lock, owner, mode, id } => {
                let acquire = match mode {
                    Mode::Read => lock.read(owner, id, not_after).waiting(back.told_within()),
                    // That keeps new readers out, too.
                    Mode::Write => lock.write(owner, id, not_after).waiting(back.within),
                };
                Ok(store.execute(key, &acquire).await?.into())
            }
        }
    }

    /// Gives up a place in line, if there is one. To do it again is to do the same.
    pub(super) async fn withdraw(&self, store: &impl Store, key: &Key) -> Result<(), StoreError> {
        if let Claim::Lock(LockClaim { lock, owner, .. }) = self {
            store.execute(key, &lock.withdraw(*owner)).await?;
        }
        Ok(())
    }

    /// Renews it within `patience`; refused, it names who holds it, where that is known.
    pub(super) async fn renew(
        &self,
        store: &impl Store,
        key: &Key,
        token: u64,
        patience: Duration,
    ) -> Result<Result<(), Option<Holder>>, StoreError> {
        let token = Some(token);
        Ok(match *self {
            Claim::Lock(LockClaim { lock, owner, .. }) => {
                let renew = lock.renew(owner, token);
                match store.execute_within(key, &renew, patience).await?.answer {
                    lock::Answer::Held(_) => Ok(()),
                    lock::Answer::Refused(holder) => Err(holder),
                    _ => Err(None),
                }
            }
            Claim::Permits { semaphore, id, .. } => {
                let renew = semaphore.renew(id, token);
                match store.execute_within(key, &renew, patience).await?.answer {
                    semaphore::Answer::Held(_) => Ok(()),
                    _ => Err(None),
                }
            }
            Claim::Side { lock, owner, mode, .. } => {
                let renew = lock.renew(owner, mode, token);
                match store.execute_within(key, &renew, patience).await?.answer {
                    rw_lock::Answer::Held(_) => Ok(()),
                    _ => Err(None),
                }
            }
        })
    }

    /// Gives it back. To do it again is to do the same.
    pub(super) async fn release(
        &self,
        store: &impl Store,
        key: &Key,
        token: u64,
    ) -> Result<Released, StoreError> {
        Ok(match *self {
            Claim::Lock(LockClaim { lock, owner, id, .. }) => {
                let release = lock.release(owner, id);
                match store.execute(key, &release).await?.answer {
                    lock::Answer::Released { holds, .. } if holds > 0 => Released::Held(holds),
                    lock::Answer::Released { .. } => Released::Free,
                    lock::Answer::Refused(holder) => Released::NotHeld(holder),
                    _ => Released::NotHeld(None),
                }
            }
            Claim::Permits { semaphore, id, .. } => {
                let release = semaphore.release(id, Some(token));
                match store.execute(key, &release).await?.answer {
                    semaphore::Answer::Released { .. } => Released::Free,
                    _ => Released::NotHeld(None),
                }
            }
            Claim::Side { lock, owner, mode, id } => {
                let release = lock.release(owner, mode, id);
                match store.execute(key, &release).await?.answer {
                    rw_lock::Answer::Released { holds, .. } if holds > 0 => Released::Held(holds),
                    rw_lock::Answer::Released { .. } => Released::Free,
                    _ => Released::NotHeld(None),
                }
            }
        })
    }
}

impl From<lock::Reply> for Asked {
    fn from(lock::Reply { now, answer }: lock::Reply) -> Self {
        let answer = match answer {
            lock::Answer::Held(hold) => Ok(Granted { token: hold.token, holds: hold.holds }),
            lock::Answer::Refused(Some(holder)) => {
                let free_in = holder.hold.deadline.saturating_since(now);
                Err(Refusal { busy: Some(Busy::Held(holder)), free_in })
            }
            lock::Answer::Queued { ahead, until } => {
                let free_in = until.saturating_since(now);
                Err(Refusal { busy: Some(Busy::Queued { ahead }), free_in })
            }
            lock::Answer::Refused(None) | lock::Answer::TooLate | lock::Answer::Released { .. } => {
                Err(Refusal::TOO_SLOW)
            }
        };
        Asked { now, answer }
    }
}

impl From<semaphore::Reply> for Asked {
    fn from(semaphore::Reply { now, answer, .. }: semaphore::Reply) -> Self {
        use semaphore::Answer;
        let answer = match answer {
            Answer::Held(grant) => Ok(Granted { token: grant.token, holds: grant.count }),
            Answer::Full { fits_at } => Err(Refusal::in_use(fits_at, now)),
            // It asks for no more permits than there are.
            Answer::TooLate | Answer::Never | Answer::NotHeld | Answer::Released { .. } => {
                Err(Refusal::TOO_SLOW)
            }
        };
        Asked { now, answer }
    }
}

impl From<rw_lock::Reply> for Asked {
    fn from(rw_lock::Reply { now, answer, .. }: rw_lock::Reply) -> Self {
        use rw_lock::Answer;
        let answer = match answer {
            Answer::Held(hold) => Ok(Granted { token: hold.token, holds: hold.holds }),
            Answer::Refused { retry_at } | Answer::TooMany { retry_at } => {
                Err(Refusal::in_use(retry_at, now))
            }
            Answer::UpgradeRefused { retry_at } => {
                let free_in = retry_at.saturating_since(now);
                Err(Refusal { busy: Some(Busy::Upgrade { retry_after: free_in }), free_in })
            }
            Answer::TooLate | Answer::NotHeld | Answer::Released { .. } => Err(Refusal::TOO_SLOW),
        };
        Asked { now, answer }
    }
}

impl Refusal {
    /// The answer came when it was of no more use.
    pub(super) const TOO_SLOW: Refusal = Refusal { busy: None, free_in: Duration::ZERO };

    fn in_use(until: Timestamp, now: Timestamp) -> Refusal {
        let free_in = until.saturating_since(now);
        Refusal { busy: Some(Busy::InUse { retry_after: free_in }), free_in }
    }
}
