//! Where the limit of a call comes from: the limiter, or the store.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{
    Command, FixedWindow, Limit, LimitCommand, Peek, RecordError, ReplyError, Scope, SetLimit,
    StoredLimit, StoredLimitOutcome, WithStoredLimit,
};

use super::shards::{Recent, Shards, recent};
use crate::error::{Error, StoreError};
use crate::key::{Key, KeyError, check_client};
use crate::store::Store;
use crate::sync::{Mutex, lock};

/// Limits that stand in the store, one for each id, which all clients follow.
///
/// A limiter of stored limits ([`Limiter::stored`](super::Limiter::stored)) decides under the limit that
/// is stored when a call arrives, in one round trip; in two if the limit is for each client
/// ([`StoredLimit::per_client`]). An id without a limit is under the default, which its first use
/// stores; without a default it is [`Error::NoLimit`].
///
/// A request that the limiter answers by itself (deny cache, prefetch) does not extend the time for which
/// a limit is kept.
#[derive(Clone, Debug, Default)]
pub struct StoredLimits {
    default: Option<StoredLimit>,
    client: Option<Box<str>>,
}

impl StoredLimits {
    /// Creates limits without a default, of no particular client.
    pub fn new() -> Self {
        StoredLimits::default()
    }

    /// Sets the limit of ids that have none.
    pub fn with_default(self, limit: impl Into<StoredLimit>) -> Self {
        StoredLimits { default: Some(limit.into()), ..self }
    }

    /// Names the client under which the use of limits per client counts: its keys are
    /// `prefix:{id}:client`. A process that keeps its name over a restart keeps what it has used.
    ///
    /// # Errors
    /// [`KeyError`] for an empty name, or one with a brace.
    pub fn as_client(self, client: &str) -> Result<Self, KeyError> {
        check_client(client)?;
        Ok(StoredLimits { client: Some(client.into()), ..self })
    }
}

/// Where the limit of a call comes from.
#[derive(Clone)]
pub(super) enum LimitSource {
    /// The limiter, or the call.
    Given(Limit),
    /// The store.
    Stored(Arc<Followed>),
}

/// Stored limits, and what was seen of them last.
pub(super) struct Followed {
    limits: StoredLimits,
    seen: Shards<Recent<StoredLimit>>,
    last: Mutex<Option<StoredLimit>>,
}

/// The ids whose limits are remembered: those that were used last.
const SEEN_IDS: usize = 10_000;

/// The limit of a key, as far as this process knows.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) limit: Limit,
    /// Where the use of this client counts, if it counts by itself.
    pub(super) own_key: Option<Key>,
}

impl LimitSource {
    pub(super) fn stored(limits: StoredLimits) -> Self {
        let seen = Shards::new(SEEN_IDS, "number of ids", recent).expect("it is above zero");
        LimitSource::Stored(Arc::new(Followed { limits, seen, last: Mutex::new(None) }))
    }

    /// Returns the limit that was given.
    pub(super) fn limit(&self) -> Option<Limit> {
        match self {
            LimitSource::Given(limit) => Some(*limit),
            LimitSource::Stored(_) => None,
        }
    }

    /// Returns the limit to build a command with. The stored one takes its place.
    pub(super) fn nominal(&self) -> Limit {
        self.limit().unwrap_or_else(|| {
            // Invariant: one in a second is accepted.
            FixedWindow::new(1, Duration::from_secs(1)).expect("one in a second").into()
        })
    }

    /// Whether an admitted request may have to wait for a turn.
    pub(super) fn may_have_turns(&self) -> bool {
        let is_queue = |limit| matches!(limit, Limit::LeakyBucket(_));
        self.limit().is_none_or(|limit| limit.parts().any(is_queue))
    }

    /// Returns the limit of `key`: of stored ones the last that was read, or the default.
    pub(super) fn known(&self, key: &Key) -> Option<Known> {
        self.read_before(key).or_else(|| match self {
            LimitSource::Given(_) => None,
            LimitSource::Stored(followed) => {
                followed.limits.default.map(|limit| self.known_as(key, limit))
            }
        })
    }

    /// Returns the limit of `key`: of stored ones only the last that was read.
    pub(super) fn read_before(&self, key: &Key) -> Option<Known> {
        match self {
            LimitSource::Given(limit) => Some(Known { limit: *limit, own_key: None }),
            LimitSource::Stored(followed) => {
                let seen = followed.seen.of(key).get(key).copied();
                seen.map(|limit| self.known_as(key, limit))
            }
        }
    }

    /// Returns the limit that was read last, whichever id it is for.
    pub(super) fn last_seen(&self, key: &Key) -> Option<Known> {
        let LimitSource::Stored(followed) = self else { return None };
        let last = *lock(&followed.last);
        last.map(|limit| self.known_as(key, limit))
    }

    /// Returns what `key` is under, if this is its stored limit.
    pub(super) fn known_as(&self, key: &Key, limit: StoredLimit) -> Known {
        let client = match self {
            LimitSource::Stored(followed) => followed.limits.client.as_deref(),
            LimitSource::Given(_) => None,
        };
        let client = client.filter(|_| limit.scope() == Scope::PerClient);
        Known { limit: limit.limit(), own_key: client.map(|client| key.of_client(client)) }
    }

    /// Remembers the stored limit of `key`.
    pub(super) fn note(&self, key: &Key, limit: StoredLimit) {
        let LimitSource::Stored(followed) = self else { return };
        *lock(&followed.last) = Some(limit);
        let mut seen = followed.seen.of(key);
        match seen.get_mut(key) {
            Some(known) => *known = limit,
            None => drop(seen.put(key.clone(), limit)),
        }
    }

    /// Forgets the stored limit of `key`.
    pub(super) fn forget(&self, key: &Key) {
        if let LimitSource::Stored(followed) = self {
            followed.seen.of(key).pop(key);
        }
    }

    /// Runs a command on `key` under its limit.
    pub(super) async fn execute<S: Store, C>(
        &self,
        store: &S,
        key: &Key,
        command: &C,
    ) -> Result<C::Outcome, Error>
    where
        C: LimitCommand<Outcome: Send> + Clone + Send + Sync,
    {
        let LimitSource::Stored(followed) = self else {
            return Ok(store.execute(key, command).await?);
        };
        let outcome = followed.execute(store, key, command).await?;
        match self.own_command(key, command, outcome)? {
            Step::Done(outcome) => Ok(outcome),
            Step::Own(own, command) => Ok(store.execute(&own, &command).await?),
        }
    }

    /// Runs commands on several keys in one call, or in two if their limits are for each client.
    pub(super) async fn execute_batch<S: Store, C>(
        &self,
        store: &S,
        calls: &[(&Key, C)],
    ) -> Vec<Result<C::Outcome, Error>>
    where
        C: LimitCommand<Outcome: Send> + Clone + Send + Sync,
    {
        let LimitSource::Stored(followed) = self else {
            return batch(store, calls.iter().map(|(key, command)| (*key, command))).await;
        };
        let follow: Vec<_> = calls.iter().map(|(_, command)| followed.following(command)).collect();
        let asked = calls.iter().map(|(key, _)| *key).zip(&follow);
        let mut outcomes = Vec::with_capacity(calls.len());
        let mut own = Vec::new();
        for ((key, command), outcome) in calls.iter().zip(batch(store, asked).await) {
            let outcome = match outcome {
                Ok(outcome) => followed.settled(store, key, command, outcome).await,
                Err(error) => Err(error),
            };
            let step = outcome.and_then(|outcome| self.own_command(key, command, outcome));
            outcomes.push(match step {
                Ok(Step::Done(outcome)) => Some(Ok(outcome)),
                Ok(Step::Own(key, command)) => {
                    own.push((key, command));
                    None
                }
                Err(error) => Some(Err(error)),
            });
        }
        let mut own =
            batch(store, own.iter().map(|(key, command)| (key, command))).await.into_iter();
        let mut next = || own.next().unwrap_or_else(|| Err(unexpected()));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(&mut next)).collect()
    }

    /// Reads the limit that is stored for `key`.
    pub(super) async fn read<S: Store>(
        &self,
        store: &S,
        key: &Key,
    ) -> Result<Option<StoredLimit>, StoreError> {
        let ask = WithStoredLimit::new(Peek::new(self.nominal(), 0));
        let (StoredLimitOutcome::PerClient(limit)
        | StoredLimitOutcome::ClockOff(limit)
        | StoredLimitOutcome::Done { limit, .. }) = store.execute(key, &ask).await?
        else {
            self.forget(key);
            return Ok(None);
        };
        self.note(key, limit);
        Ok(Some(limit))
    }

    /// Returns what a followed command came to, or the command for the client's own key.
    fn own_command<C: LimitCommand>(
        &self,
        key: &Key,
        command: &C,
        outcome: StoredLimitOutcome<C::Outcome>,
    ) -> Result<Step<C>, Error> {
        match outcome {
            StoredLimitOutcome::Done { outcome, limit } => {
                self.note(key, limit);
                Ok(Step::Done(outcome))
            }
            StoredLimitOutcome::PerClient(limit) => {
                self.note(key, limit);
                let own = self.known_as(key, limit).own_key.ok_or(Error::NoClient)?;
                Ok(Step::Own(own, command.under(limit.limit())))
            }
            StoredLimitOutcome::ClockOff(limit) => {
                self.note(key, limit);
                Err(StoreError::from(RecordError::ClockOff).into())
            }
            StoredLimitOutcome::NoLimit => {
                self.forget(key);
                Err(Error::NoLimit)
            }
        }
    }
}

/// What becomes of a command on a key with a stored limit.
enum Step<C: LimitCommand> {
    Done(C::Outcome),
    /// It is for this client's own key.
    Own(Key, C),
}

impl Followed {
    fn following<C: LimitCommand + Clone>(&self, command: &C) -> WithStoredLimit<C> {
        match self.limits.default {
            None => WithStoredLimit::new(command.clone()),
            Some(default) => WithStoredLimit::or_under(command, default),
        }
    }

    async fn execute<S: Store, C>(
        &self,
        store: &S,
        key: &Key,
        command: &C,
    ) -> Result<StoredLimitOutcome<C::Outcome>, Error>
    where
        C: LimitCommand<Outcome: Send> + Clone + Send + Sync,
    {
        let outcome = store.execute(key, &self.following(command)).await?;
        self.settled(store, key, command, outcome).await
    }

    /// Stores the default under a key that was used under a limit that is not stored, and asks again.
    async fn settled<S: Store, C>(
        &self,
        store: &S,
        key: &Key,
        command: &C,
        outcome: StoredLimitOutcome<C::Outcome>,
    ) -> Result<StoredLimitOutcome<C::Outcome>, Error>
    where
        C: LimitCommand<Outcome: Send> + Clone + Send + Sync,
    {
        match (outcome, self.limits.default) {
            (StoredLimitOutcome::NoLimit, Some(default)) => {
                store.execute(key, &SetLimit::if_absent(default)).await?;
                Ok(store.execute(key, &self.following(command)).await?)
            }
            (outcome, _) => Ok(outcome),
        }
    }
}

/// Executes commands in one call, or singly where there is one.
async fn batch<'a, S: Store, C>(
    store: &S,
    calls: impl Iterator<Item = (&'a Key, &'a C)>,
) -> Vec<Result<C::Outcome, Error>>
where
    C: Command<Outcome: Send> + Sync + 'a,
{
    let calls: Vec<_> = calls.collect();
    if calls.is_empty() {
        return Vec::new();
    }
    let outcomes = store.execute_batch(&calls, Duration::MAX).await;
    outcomes.into_iter().map(|outcome| outcome.map_err(Error::from)).collect()
}

fn unexpected() -> Error {
    StoreError::from(ReplyError::Unexpected).into()
}

/// Alike where calls under them can share one call.
impl PartialEq for LimitSource {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (LimitSource::Given(one), LimitSource::Given(other)) => one == other,
            (LimitSource::Stored(one), LimitSource::Stored(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for LimitSource {}

impl Hash for LimitSource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            LimitSource::Given(limit) => limit.hash(state),
            LimitSource::Stored(followed) => Arc::as_ptr(followed).hash(state),
        }
    }
}

impl fmt::Debug for LimitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitSource::Given(limit) => limit.fmt(f),
            LimitSource::Stored(followed) => followed.limits.fmt(f),
        }
    }
}
