//! Changes, by the commands of the machines.

use std::time::Duration;

use lockage::{Key, Limit, Store};
use lockage_core::lock::{HoldId, Label, Lock, OwnerId};
use lockage_core::rw_lock::{Mode, RwLock};
use lockage_core::semaphore::{PermitId, Semaphore};
use lockage_core::view::{LimiterView, View};
use lockage_core::{
    Adjust, Adjusted, Command, LimitCommand, Reset, SetLimit, StoredLimit, StoredLimitOutcome,
    Timestamp, WithStoredLimit, latch, lock, rw_lock, semaphore,
};

use super::{Admin, AdminError, Entry, Refusal, bounded};

/// How long a record remembers a release, so that its late copy gets the same answer.
const REMEMBER: Duration = Duration::from_secs(60);

/// A live hold of a lock, a semaphore or a read-write lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// How it is held, and by whom.
    pub role: Role,
    /// The holder's label.
    pub label: Option<Label>,
    /// The fencing token, which names the hold.
    pub token: u64,
    /// The number of holds of its owner; of a semaphore, its permits.
    pub count: u64,
    /// When it was granted. For a semaphore and a read-write lock it is the time of the token, which is later than the
    /// grant if that was not the first in its microsecond, or if the clock was set back.
    pub since: Timestamp,
    /// The end of the lease.
    pub until: Timestamp,
}

/// How something is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A lock.
    Lock(OwnerId),
    /// Permits of a semaphore.
    Permits(PermitId),
    /// A side of a read-write lock, by holds of these ids.
    Side(OwnerId, Mode, Vec<HoldId>),
}

/// Returns the live holds of a record.
pub fn holds(view: &View) -> Vec<Hold> {
    let time = |token: u64| Timestamp::from_micros(token).unwrap_or(Timestamp::MAX);
    match view {
        View::Lock(it) => {
            let hold = |holder: lock::Holder| Hold {
                role: Role::Lock(holder.owner),
                label: it.inspection.label,
                token: holder.hold.token,
                count: holder.hold.holds,
                since: it.inspection.since.unwrap_or(it.inspection.now),
                until: holder.hold.deadline,
            };
            it.inspection.holder.map(hold).into_iter().collect()
        }
        View::Semaphore(it) => {
            let hold = |(id, grant): &(PermitId, semaphore::Grant)| Hold {
                role: Role::Permits(*id),
                label: None,
                token: grant.token,
                count: grant.count,
                since: time(grant.token),
                until: grant.deadline,
            };
            it.grants.iter().map(hold).collect()
        }
        View::RwLock(it) => {
            let hold = |(holder, ids): &(rw_lock::Holder, Vec<HoldId>)| Hold {
                role: Role::Side(holder.owner, holder.hold.mode, ids.clone()),
                label: None,
                token: holder.hold.token,
                count: holder.hold.holds,
                since: time(holder.hold.token),
                until: holder.hold.deadline,
            };
            it.holders.iter().map(hold).collect()
        }
        _ => Vec::new(),
    }
}

impl Admin {
    /// Returns the live hold of a key with this token, or the only one.
    ///
    /// # Errors
    /// [`Refusal`] if there is none, or several without a token; otherwise as [`Admin::read`].
    pub async fn hold(&self, key: &Key, token: Option<u64>) -> Result<Hold, AdminError> {
        let entry = self.read(key).await?;
        let view = entry.view()?;
        if !matches!(view, View::Lock(_) | View::Semaphore(_) | View::RwLock(_)) {
            let wanted = "locks, semaphores and read-write locks";
            return Err(Refusal::OtherKind { found: view.kind(), wanted }.into());
        }
        let mut all = holds(view);
        if let Some(token) = token {
            all.retain(|hold| hold.token == token);
        }
        match (all.len(), token) {
            (0, Some(token)) => Err(Refusal::NoSuchToken(token).into()),
            (0, None) => Err(Refusal::NotHeld.into()),
            (1, _) => Ok(all.remove(0)),
            (count, _) => Err(Refusal::Several(count).into()),
        }
    }

    /// Breaks a hold, which its token names: a later one stays.
    ///
    /// # Errors
    /// [`Refusal::NoSuchToken`] if it has ended meanwhile; [`Refusal::HeldOnceMore`] if its owner has acquired a
    /// read-write lock once more meanwhile.
    pub async fn release(&self, key: &Key, hold: &Hold) -> Result<(), AdminError> {
        let gone = || Err(Refusal::NoSuchToken(hold.token).into());
        match &hold.role {
            Role::Lock(_) => {
                let release = Lock::new(REMEMBER, REMEMBER)?.force_release(hold.token);
                match self.store.execute(key, &release).await?.answer {
                    lock::Answer::Released { .. } => Ok(()),
                    _ => gone(),
                }
            }
            Role::Permits(id) => {
                let release = Semaphore::new(1, REMEMBER, REMEMBER)?.release(*id, Some(hold.token));
                match self.store.execute(key, &release).await?.answer {
                    semaphore::Answer::Released { .. } => Ok(()),
                    _ => gone(),
                }
            }
            Role::Side(owner, mode, ids) => {
                let (lock, mut left) = (RwLock::new(REMEMBER, REMEMBER)?, 0);
                for id in ids {
                    let release = lock.release(*owner, *mode, *id);
                    match self.store.execute(key, &release).await?.answer {
                        rw_lock::Answer::Released { holds, .. } => left = holds,
                        _ => return gone(),
                    }
                }
                if left > 0 {
                    return Err(Refusal::HeldOnceMore.into());
                }
                Ok(())
            }
        }
    }

    /// Blocks a key for `span` from now on; a longer block stays. `limit` is the limit of its callers, for a key
    /// without a record.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn block(
        &self,
        key: &Key,
        span: Duration,
        limit: Option<Limit>,
    ) -> Result<Adjusted, AdminError> {
        let entry = self.read(key).await?;
        let known = match limiter(&entry) {
            Err(Refusal::NoRecord) => None,
            view => Some(view?),
        };
        let same = |own: &Limit| limit.is_none_or(|it| StoredLimit::new(it).limit() == *own);
        let of_key = match (known, limit) {
            (Some(view), _) if same(&view.limit) => view.limit,
            (Some(view), _) => return Err(Refusal::OtherLimit(view.limit.to_string()).into()),
            (None, Some(limit)) => limit,
            (None, None) => return Err(Refusal::NoLimit.into()),
        };
        let block = Adjust::block(bounded(of_key, entry.now), span)?;
        self.under(key, known.is_some_and(|view| view.stored.is_some()), block).await
    }

    /// Ends a block.
    ///
    /// # Errors
    /// [`Refusal::NotBlocked`] if there is none.
    pub async fn unblock(&self, key: &Key) -> Result<Adjusted, AdminError> {
        let entry = self.read(key).await?;
        let view = limiter(&entry)?;
        let unblock = Adjust::unblock(bounded(view.limit, entry.now));
        let outcome = self.under(key, view.stored.is_some(), unblock).await?;
        match outcome.amount {
            0 => Err(Refusal::NotBlocked.into()),
            _ => Ok(outcome),
        }
    }

    /// Runs a command with the limit of a key, or under its stored limit.
    async fn under<C>(
        &self,
        key: &Key,
        is_stored: bool,
        command: C,
    ) -> Result<C::Outcome, AdminError>
    where
        C: LimitCommand + Command<Outcome: Send>,
    {
        if !is_stored {
            return Ok(self.store.execute(key, &command).await?);
        }
        match self.store.execute(key, &WithStoredLimit::new(command)).await? {
            StoredLimitOutcome::Done { outcome, .. } => Ok(outcome),
            StoredLimitOutcome::PerClient(_) => Err(Refusal::PerClient.into()),
            StoredLimitOutcome::NoLimit => Err(Refusal::NoRecord.into()),
            StoredLimitOutcome::ClockOff(_) => {
                Err(Refusal::Unreadable(lockage::store::RecordError::ClockOff).into())
            }
        }
    }

    /// Stores a limit for all callers of a key; its usage stays. With `convert`, also where callers bring a limit of
    /// their own, which are refused from then on. Returns whether the key had a record: without one, nothing shows
    /// which limit its callers have.
    ///
    /// # Errors
    /// [`Refusal::GivenLimit`] for such a key without `convert`, [`Refusal::SecondKey`] for one that stores no limit.
    pub async fn set_limit(
        &self,
        key: &Key,
        limit: StoredLimit,
        convert: bool,
    ) -> Result<bool, AdminError> {
        if !key.as_str().ends_with('}') {
            return Err(Refusal::SecondKey.into());
        }
        let entry = self.read(key).await?;
        let is_known = match limiter(&entry) {
            Ok(view) if view.stored.is_none() && !convert => return Err(Refusal::GivenLimit.into()),
            Ok(_) => true,
            Err(Refusal::NoRecord) => false,
            Err(refusal) => return Err(refusal.into()),
        };
        let now = entry.now;
        let limit = limit.with_calendar(|window| lockage::limiter::bounded_at(window, now));
        self.store.execute(key, &SetLimit::new(limit)).await?;
        Ok(is_known)
    }

    /// Forgets a limiter with all that is stored, or opens a latch.
    ///
    /// # Errors
    /// [`Refusal`] if there is nothing to forget, or a record of another kind.
    pub async fn reset(&self, key: &Key) -> Result<(), AdminError> {
        let entry = self.read(key).await?;
        let was_there = match entry.view()? {
            View::Limiter(_) => self.store.execute(key, &Reset).await?,
            View::Latch(_) => self.store.execute(key, &latch::Reset).await?.is_some(),
            other => {
                let wanted = "limiters and latches; `lockage release` is for locks";
                return Err(Refusal::OtherKind { found: other.kind(), wanted }.into());
            }
        };
        if was_there { Ok(()) } else { Err(Refusal::NoRecord.into()) }
    }
}

/// Returns the view of a limiter.
fn limiter(entry: &Entry) -> Result<&LimiterView, Refusal> {
    match entry.view()? {
        View::Limiter(view) => Ok(view),
        other => Err(Refusal::OtherKind { found: other.kind(), wanted: "limiters" }),
    }
}
