//! Limits that stand in the store, for all clients to follow.

use std::fmt;
use std::time::Duration;

use lockage_core::{
    Acquire, AcquireEach, Adjust, Adjusted, Decision, FixedWindow, Limit, LimitCommand, Peek,
    RequestId, Reservation, Reserved, Reset, SetLimit, Settle, Settlement, StoredLimit,
    StoredLimitOutcome, WithStoredLimit,
};

use super::waiting::wait;
use super::{DEFAULT_PREFIX, random_id};
use crate::error::Error;
use crate::key::{Key, KeyError, check_client, check_prefix};
use crate::retry_store::RetryStore;
use crate::runtime::Runtime;
use crate::store::Store;

/// A limiter whose limits stand in the store, one for each id, so that all clients follow the same one,
/// also once it changes.
///
/// A call decides under the limit that is stored by then, in one round trip; of a limit per client
/// ([`StoredLimit::per_client`]) in two. What was used of a limit stays used when it is changed.
///
/// ```
/// use lockage::{StoredLimit, StoredLimiter, Limit};
/// # use lockage_memory::MemoryStore;
///
/// # pollster::block_on(async {
/// # let store = MemoryStore::new();
/// let standard: Limit = "token-bucket 100/s burst 20".parse()?;
/// let limiter = StoredLimiter::new(store).with_prefix("api")?.with_default(standard);
/// assert_eq!(limiter.try_acquire("user:42", 1).await?.limit, 20);
///
/// // From any process:
/// let gold: Limit = "token-bucket 1000/s burst 200".parse()?;
/// limiter.set("user:42", gold).await?;
/// assert_eq!(limiter.try_acquire("user:42", 1).await?.remaining, 198);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// An id without a limit is under the default, if this limiter has one, which is stored with what is
/// used; else it is [`Error::NoLimit`].
///
/// It shares no ids with a [`Limiter`](crate::Limiter) of the same prefix: that is refused
/// ([`RecordError::LimitIsStored`](crate::RecordError::LimitIsStored)) where a limit is stored.
#[derive(Clone)]
pub struct StoredLimiter<S> {
    store: S,
    prefix: Box<str>,
    client: Option<Box<str>>,
    default: Option<StoredLimit>,
}

impl<S: Store> StoredLimiter<S> {
    /// A limiter with the prefix `lockage` and no default.
    pub fn new(store: S) -> Self {
        StoredLimiter { store, prefix: DEFAULT_PREFIX.into(), client: None, default: None }
    }

    /// The same with another prefix: its keys are `prefix:{id}`, and of each client `prefix:{id}:client`.
    ///
    /// # Errors
    /// [`KeyError`] for an empty prefix, or one with a brace.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        check_prefix(prefix)?;
        Ok(StoredLimiter { prefix: prefix.into(), ..self })
    }

    /// The same as this client: what it uses of a limit per client counts under this name. One that is
    /// kept when a process is started anew goes on with what it has used.
    ///
    /// # Errors
    /// [`KeyError`] for an empty name, or one with a brace.
    pub fn as_client(self, client: &str) -> Result<Self, KeyError> {
        check_client(client)?;
        Ok(StoredLimiter { client: Some(client.into()), ..self })
    }

    /// The same with a limit for ids that have none.
    pub fn with_default(self, limit: impl Into<StoredLimit>) -> Self {
        StoredLimiter { default: Some(limit.into()), ..self }
    }

    /// Stores the limit of `id`, in the place of any other. What was used stays used: right after it, at
    /// most the new capacity less that remains. A block stays, too; requests and reservations are forgotten
    /// where the limit is another one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn set(&self, id: &str, limit: impl Into<StoredLimit>) -> Result<(), Error> {
        self.store.execute(&self.key(id)?, &SetLimit::new(limit.into())).await?;
        Ok(())
    }

    /// The same where `id` has none; tells whether it was stored.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn try_set(&self, id: &str, limit: impl Into<StoredLimit>) -> Result<bool, Error> {
        Ok(self.store.execute(&self.key(id)?, &SetLimit::if_absent(limit.into())).await?)
    }

    /// Stores the limit of `id` and forgets what was used, also a block.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn set_afresh(&self, id: &str, limit: impl Into<StoredLimit>) -> Result<(), Error> {
        self.store.execute(&self.key(id)?, &SetLimit::afresh(limit.into())).await?;
        Ok(())
    }

    /// The limit of `id`; nothing where none is stored.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn limit(&self, id: &str) -> Result<Option<StoredLimit>, Error> {
        let ask = WithStoredLimit::new(Peek::new(stored_one(), 0));
        Ok(match self.store.execute(&self.key(id)?, &ask).await? {
            StoredLimitOutcome::NoLimit => None,
            StoredLimitOutcome::PerClient(limit) | StoredLimitOutcome::Done { limit, .. } => {
                Some(limit)
            }
        })
    }

    /// Forgets the limit of `id` and what was used of it; tells whether there was any. What clients used
    /// of a limit per client is forgotten as soon as it no longer counts.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn remove(&self, id: &str) -> Result<bool, Error> {
        Ok(self.store.execute(&self.key(id)?, &Reset).await?)
    }

    /// As [`Limiter::try_acquire`](crate::Limiter::try_acquire).
    ///
    /// # Errors
    /// [`Error`]; a denied request is none.
    pub async fn try_acquire(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        self.run(id, &Acquire::new(stored_one(), cost)?).await
    }

    /// As [`Limiter::try_acquire_once`](crate::Limiter::try_acquire_once).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn try_acquire_once(
        &self,
        id: &str,
        cost: u64,
        request: RequestId,
        remember: Duration,
    ) -> Result<Decision, Error> {
        let command = Acquire::new(stored_one(), cost)?.with_request(request, remember)?;
        self.run(id, &command).await
    }

    /// As [`Limiter::try_acquire_each`](crate::Limiter::try_acquire_each).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn try_acquire_each(&self, id: &str, costs: &[u64]) -> Result<Vec<Decision>, Error> {
        self.run(id, &AcquireEach::new(stored_one(), costs.to_vec())?).await
    }

    /// As [`Limiter::peek`](crate::Limiter::peek).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn peek(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        self.run(id, &Peek::new(stored_one(), cost)).await
    }

    /// As [`Limiter::take_up_to`](crate::Limiter::take_up_to).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn take_up_to(&self, id: &str, most: u64) -> Result<Adjusted, Error> {
        self.run(id, &Adjust::take_up_to(stored_one(), most)?).await
    }

    /// As [`Limiter::refund`](crate::Limiter::refund).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn refund(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        self.run(id, &Adjust::refund(stored_one(), cost)?).await
    }

    /// As [`Limiter::penalty`](crate::Limiter::penalty).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn penalty(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        self.run(id, &Adjust::penalty(stored_one(), cost)?).await
    }

    /// As [`Limiter::block`](crate::Limiter::block); of a limit per client this one alone.
    ///
    /// # Errors
    /// [`Error`], also for a span out of range.
    pub async fn block(&self, id: &str, span: Duration) -> Result<Adjusted, Error> {
        self.run(id, &Adjust::block(stored_one(), span)?).await
    }

    /// As [`Limiter::unblock`](crate::Limiter::unblock).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn unblock(&self, id: &str) -> Result<Adjusted, Error> {
        self.run(id, &Adjust::unblock(stored_one())).await
    }

    /// As [`Limiter::reserve_as`](crate::Limiter::reserve_as).
    ///
    /// # Errors
    /// [`Error`]; a denied request is none.
    pub async fn reserve_as(
        &self,
        id: &str,
        cost: u64,
        request: RequestId,
        hold: Duration,
    ) -> Result<Reserved, Error> {
        self.run(id, &Acquire::new(stored_one(), cost)?.reserve(request, hold)?).await
    }

    /// As [`Limiter::commit`](crate::Limiter::commit). A change of the limit has forgotten the
    /// reservation.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn commit(
        &self,
        id: &str,
        reservation: &Reservation,
        actual: u64,
    ) -> Result<Settlement, Error> {
        self.run(id, &Settle::new(stored_one(), reservation, actual)).await
    }

    /// As [`Limiter::cancel`](crate::Limiter::cancel).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn cancel(&self, id: &str, reservation: &Reservation) -> Result<Settlement, Error> {
        self.commit(id, reservation, 0).await
    }

    /// Runs a command under the limit of `id`.
    async fn run<C>(&self, id: &str, command: &C) -> Result<C::Outcome, Error>
    where
        C: LimitCommand<Outcome: Send> + Clone + Sync,
    {
        let key = self.key(id)?;
        match self.follow(&key, command).await? {
            StoredLimitOutcome::Done { outcome, .. } => Ok(outcome),
            StoredLimitOutcome::PerClient(limit) => {
                let client = self.client.as_ref().ok_or(Error::NoClient)?;
                let own = key.of_client(client);
                Ok(self.store.execute(&own, &command.under(limit.limit())).await?)
            }
            StoredLimitOutcome::NoLimit => Err(Error::NoLimit),
        }
    }

    async fn follow<C>(
        &self,
        key: &Key,
        command: &C,
    ) -> Result<StoredLimitOutcome<C::Outcome>, Error>
    where
        C: LimitCommand<Outcome: Send> + Clone + Sync,
    {
        let Some(default) = self.default else {
            return Ok(self.store.execute(key, &WithStoredLimit::new(command.clone())).await?);
        };
        let follow = WithStoredLimit::or_under(command, default);
        match self.store.execute(key, &follow).await? {
            // The key was used under a limit that was not stored.
            StoredLimitOutcome::NoLimit => {
                self.store.execute(key, &SetLimit::if_absent(default)).await?;
                Ok(self.store.execute(key, &follow).await?)
            }
            followed => Ok(followed),
        }
    }

    fn key(&self, id: &str) -> Result<Key, KeyError> {
        Key::new(&self.prefix, id)
    }
}

impl<S: Store, R: Runtime> StoredLimiter<RetryStore<S, R>> {
    /// Waits until a request of `cost` (at least 1) for `id` is admitted, and charges it; as
    /// [`Limiter::acquire_within`](crate::Limiter::acquire_within). Each time it comes back it is under the limit that is
    /// stored by then.
    ///
    /// # Errors
    /// [`Error`], of the first call that fails.
    pub async fn acquire_within(
        &self,
        id: &str,
        cost: u64,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        let command = Acquire::new(stored_one(), cost)?;
        let ask = async |patience| self.run(id, &command.within(patience)).await;
        wait(self.store.runtime(), timeout, ask).await
    }

    /// As [`Limiter::reserve`](crate::Limiter::reserve).
    ///
    /// # Errors
    /// [`Error`]; a denied request is none.
    pub async fn reserve(&self, id: &str, cost: u64, hold: Duration) -> Result<Reserved, Error> {
        self.reserve_as(id, cost, random_id(|| self.store.runtime().random()), hold).await
    }
}

/// Stands in a command for the limit that is stored.
fn stored_one() -> Limit {
    // Invariant: one in a second is accepted.
    FixedWindow::new(1, Duration::from_secs(1)).expect("one in a second").into()
}

impl<S: fmt::Debug> fmt::Debug for StoredLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredLimiter")
            .field("store", &self.store)
            .field("prefix", &self.prefix)
            .field("client", &self.client)
            .field("default", &self.default)
            .finish()
    }
}
