//! The source of a call's limit: the limiter, or the store.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{
    CalendarWindow, Clock, Command, ConfigError, Cost, CostError, FixedWindow, Limit, LimitCommand,
    NameError, Peek, ReplyError, StoredLimit, StoredLimitOutcome, Timestamp, WithStoredLimit,
};

use super::calendar::bounded_at;
use super::part_costs::PartCosts;
use super::stored_limits::{Followed, Known, StoredLimits};
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::store::Store;

mod follow;

pub(super) use follow::Next;
use follow::Step;

/// The source of a call's limit.
#[derive(Clone)]
pub(super) struct LimitSource {
    origin: Origin,
    /// The clock of calendar windows; `None` only if the system has none and none was given.
    clock: Option<Arc<dyn Clock>>,
}

#[derive(Clone)]
enum Origin {
    /// The limiter, or the call. Requests that coalesce keep a reference each.
    Given(Arc<Limit>),
    /// The store.
    Stored(Arc<Followed>),
}

impl Origin {
    fn stored(limits: StoredLimits) -> Self {
        Origin::Stored(Arc::new(Followed::new(limits)))
    }
}

impl LimitSource {
    pub(super) fn given(limit: Limit) -> Self {
        LimitSource { origin: Origin::Given(Arc::new(limit)), clock: system_clock() }
    }

    pub(super) fn stored(limits: StoredLimits) -> Self {
        LimitSource { origin: Origin::stored(limits), clock: system_clock() }
    }

    /// Returns the same source with a clock.
    pub(super) fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        LimitSource { clock: Some(clock), ..self }
    }

    /// Returns the same clock with this limit.
    pub(super) fn under(&self, limit: Limit) -> Self {
        LimitSource { origin: Origin::Given(Arc::new(limit)), clock: self.clock.clone() }
    }

    /// Returns the same clock with these stored limits.
    pub(super) fn under_stored(&self, limits: StoredLimits) -> Self {
        LimitSource { origin: Origin::stored(limits), clock: self.clock.clone() }
    }

    /// Returns the time by the limiter's clock; the epoch if it has none.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.as_ref().map_or(Timestamp::EPOCH, Clock::now)
    }

    /// Returns the limit with the boundaries of its calendar windows around now.
    ///
    /// # Errors
    /// [`Error::NoClock`].
    pub(super) fn bounded(&self, limit: Limit) -> Result<Limit, Error> {
        self.bound(limit.has_calendar()).map(|bound| limit.with_calendar(bound))
    }

    /// Returns the stored limit with the boundaries of its calendar windows around now.
    ///
    /// # Errors
    /// [`Error::NoClock`].
    pub(super) fn bounded_stored(&self, limit: StoredLimit) -> Result<StoredLimit, Error> {
        self.bound(limit.limit().has_calendar()).map(|bound| limit.with_calendar(bound))
    }

    fn bound(
        &self,
        is_needed: bool,
    ) -> Result<impl Fn(CalendarWindow) -> CalendarWindow + use<>, Error> {
        if is_needed && self.clock.is_none() {
            return Err(Error::NoClock);
        }
        let now = self.now();
        Ok(move |window| bounded_at(window, now))
    }

    /// Returns the limit that was given.
    pub(super) fn limit(&self) -> Option<Limit> {
        match &self.origin {
            Origin::Given(limit) => Some(**limit),
            Origin::Stored(_) => None,
        }
    }

    /// Returns the limit to build a command with. The stored one takes its place.
    pub(super) fn nominal(&self) -> Limit {
        match &self.origin {
            Origin::Given(limit) => **limit,
            // Invariant: one in a second is accepted.
            Origin::Stored(_) => {
                FixedWindow::new(1, Duration::from_secs(1)).expect("one in a second").into()
            }
        }
    }

    /// Returns the cost of a request, checked under a given limit. Under a stored one, names are those of the default,
    /// and the store checks that the limit has as many parts.
    pub(super) fn cost(&self, costs: PartCosts<'_>) -> Result<Cost, CostError> {
        let given = self.limit();
        let named = given.or_else(|| Some(self.followed()?.limits.default?.limit()));
        let cost = match costs {
            PartCosts::ByPlace(costs) => Cost::by_part(costs)?,
            PartCosts::ByName(costs) => Cost::named(&named.unwrap_or(self.nominal()), costs)?,
        };
        given.map_or(Ok(()), |limit| cost.check(&limit))?;
        Ok(cost)
    }

    /// Refuses names in a limit to store that are not those of the default, in its order.
    pub(super) fn check_names(&self, limit: &Limit) -> Result<(), ConfigError> {
        let default = self.followed().and_then(|followed| followed.limits.default);
        let default = default.map(|default| default.limit());
        let names: Vec<&str> = default.iter().flat_map(Limit::part_names).collect();
        let differs = |(at, name): (usize, &str)| names.get(at) != Some(&name);
        match limit.part_names().enumerate().position(differs) {
            Some(at) => Err(ConfigError::Name { part: at + 1, error: NameError::NotDefault }),
            None => Ok(()),
        }
    }

    /// Returns whether an admitted request may have to wait for a turn.
    pub(super) fn may_have_turns(&self) -> bool {
        let is_queue = |limit| matches!(limit, Limit::LeakyBucket(_));
        self.limit().is_none_or(|limit| limit.parts().any(is_queue))
    }

    /// Returns the limit of `key`: of stored ones the last that was read, or the default.
    pub(super) fn known(&self, key: &Key) -> Option<Known> {
        self.read_before(key).or_else(|| {
            let followed = self.followed()?;
            Some(followed.known_as(key, followed.limits.default?))
        })
    }

    /// Passes the known limit of `key` to a closure, without copying a given one.
    pub(super) fn with_known<T>(&self, key: &Key, tell: impl FnOnce(&Limit) -> T) -> Option<T> {
        match &self.origin {
            Origin::Given(limit) => Some(tell(limit)),
            Origin::Stored(_) => self.known(key).map(|known| tell(&known.limit)),
        }
    }

    /// Returns the limit of `key`: of stored ones only the last that was read.
    pub(super) fn read_before(&self, key: &Key) -> Option<Known> {
        match &self.origin {
            Origin::Given(limit) => Some(Known { limit: **limit, own_key: None }),
            Origin::Stored(followed) => Some(followed.known_as(key, followed.seen(key)?)),
        }
    }

    /// Returns the limit that was read last, whichever id it is for.
    pub(super) fn last_seen(&self, key: &Key) -> Option<Known> {
        let followed = self.followed()?;
        Some(followed.known_as(key, followed.last_seen()?))
    }

    /// Returns the limit and the own key of `key`, if this is its stored limit.
    pub(super) fn known_as(&self, key: &Key, limit: StoredLimit) -> Known {
        match &self.origin {
            Origin::Given(_) => Known { limit: limit.limit(), own_key: None },
            Origin::Stored(followed) => followed.known_as(key, limit),
        }
    }

    /// Remembers the stored limit of `key`.
    pub(super) fn note(&self, key: &Key, limit: StoredLimit) {
        self.followed().into_iter().for_each(|followed| followed.note(key, limit));
    }

    /// Forgets the stored limit of `key`.
    pub(super) fn forget(&self, key: &Key) {
        self.followed().into_iter().for_each(|followed| followed.forget(key));
    }

    fn followed(&self) -> Option<&Followed> {
        match &self.origin {
            Origin::Given(_) => None,
            Origin::Stored(followed) => Some(followed),
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
        match &self.origin {
            Origin::Given(limit) if !limit.has_calendar() => {
                Ok(store.execute(key, command).await?)
            }
            // Boxed: otherwise the future of every call would contain it, and few need it.
            _ => Box::pin(self.execute_bound(store, key, command)).await,
        }
    }

    /// Runs a command under a limit that is stored, or has calendar windows.
    async fn execute_bound<S: Store, C>(
        &self,
        store: &S,
        key: &Key,
        command: &C,
    ) -> Result<C::Outcome, Error>
    where
        C: LimitCommand<Outcome: Send> + Clone + Send + Sync,
    {
        let Origin::Stored(followed) = &self.origin else {
            return Ok(store.execute(key, &*self.under_given(command)?).await?);
        };
        let outcome = self.follow(followed, store, key, command).await?;
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
        let Origin::Stored(followed) = &self.origin else {
            let bound = calls.iter().map(|(_, command)| self.under_given(command));
            let Ok(bound) = bound.collect::<Result<Vec<_>, _>>() else { return no_clock(calls) };
            let keys = calls.iter().map(|(key, _)| *key);
            return batch(store, keys.zip(bound.iter().map(|command| &**command))).await;
        };
        let follow = calls.iter().map(|(key, command)| self.following(followed, key, command));
        let Ok(follow) = follow.collect::<Result<Vec<_>, _>>() else { return no_clock(calls) };
        let asked = calls.iter().map(|(key, _)| *key).zip(&follow);
        let mut outcomes = Vec::with_capacity(calls.len());
        let mut own = Vec::new();
        for ((key, command), outcome) in calls.iter().zip(batch(store, asked).await) {
            let outcome = match outcome {
                Ok(outcome) => self.settled(followed, store, key, command, outcome).await,
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

    /// Returns the command, or under calendar windows the same with their boundaries around now.
    fn under_given<'c, C: LimitCommand + Clone>(
        &self,
        command: &'c C,
    ) -> Result<Cow<'c, C>, Error> {
        let limit = self.nominal();
        Ok(match limit.has_calendar() {
            false => Cow::Borrowed(command),
            true => Cow::Owned(command.under(self.bounded(limit)?)),
        })
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

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
fn system_clock() -> Option<Arc<dyn Clock>> {
    Some(Arc::new(lockage_core::SystemClock))
}

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
fn system_clock() -> Option<Arc<dyn Clock>> {
    None
}

/// Nothing is sent without the time.
fn no_clock<T, R>(calls: &[T]) -> Vec<Result<R, Error>> {
    calls.iter().map(|_| Err(Error::NoClock)).collect()
}

fn unexpected() -> Error {
    StoreError::from(ReplyError::Unexpected).into()
}

/// Equal if their requests can share one call.
impl PartialEq for LimitSource {
    fn eq(&self, other: &Self) -> bool {
        match (&self.origin, &other.origin) {
            (Origin::Given(one), Origin::Given(other)) => one == other,
            (Origin::Stored(one), Origin::Stored(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for LimitSource {}

impl fmt::Debug for LimitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Given(limit) => limit.fmt(f),
            Origin::Stored(followed) => followed.limits.fmt(f),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
