//! Commands under the limit that is stored with their key.

use lockage_core::{
    Acquire, Decision, LimitCommand, OneOfAll, OneOutcome, RecordError, StoredLimitOutcome,
    WithStoredLimit,
};

use super::{Error, Followed, Key, LimitSource, Store, StoreError};

/// The next step of a command on a key with a stored limit.
pub(super) enum Step<C: LimitCommand> {
    Done(C::Outcome),
    /// It is for this client's own key.
    Own(Key, C),
}

impl LimitSource {
    /// Returns the outcome of a followed command, or the command for the client's own key.
    pub(super) fn own_command<C: LimitCommand>(
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
                Ok(Step::Own(own, command.under(self.bounded(limit.limit())?)))
            }
            StoredLimitOutcome::ClockOff(_) => Err(StoreError::from(RecordError::ClockOff).into()),
            StoredLimitOutcome::NoLimit => {
                self.forget(key);
                Err(Error::NoLimit)
            }
        }
    }

    pub(super) fn following<C: LimitCommand + Clone>(
        &self,
        followed: &Followed,
        key: &Key,
        command: &C,
    ) -> Result<WithStoredLimit<C>, Error> {
        let seen = followed.seen(key);
        let follow = match (followed.limits.default, seen) {
            (Some(default), _) => WithStoredLimit::or_under(command, self.bounded_stored(default)?),
            // A window that has ended needs its boundaries.
            (None, Some(seen)) if seen.limit().has_calendar() && self.clock.is_some() => {
                WithStoredLimit::new(command.under(self.bounded(seen.limit())?))
            }
            _ => WithStoredLimit::new(command.clone()),
        };
        Ok(match seen {
            Some(limit) if !limit.has_fast_path() => follow.on_slow_path(),
            _ => follow,
        })
    }

    pub(super) async fn follow<S: Store, C>(
        &self,
        followed: &Followed,
        store: &S,
        key: &Key,
        command: &C,
    ) -> Result<StoredLimitOutcome<C::Outcome>, Error>
    where
        C: LimitCommand<Outcome: Send> + Clone + Send + Sync,
    {
        let outcome = store.execute(key, &self.following(followed, key, command)?).await?;
        self.settled(followed, store, key, command, outcome).await
    }

    /// Asks again if the call lacked the boundaries of a new calendar window, and once more if another limit or the
    /// default took the limit's place meanwhile.
    pub(super) async fn settled<S: Store, C>(
        &self,
        followed: &Followed,
        store: &S,
        key: &Key,
        command: &C,
        mut outcome: StoredLimitOutcome<C::Outcome>,
    ) -> Result<StoredLimitOutcome<C::Outcome>, Error>
    where
        C: LimitCommand<Outcome: Send> + Clone + Send + Sync,
    {
        for _ in 0..MOST_REPETITIONS {
            let Some(follow) = self.repetition(followed, key, command, &outcome)? else { break };
            outcome = store.execute(key, &follow).await?;
        }
        Ok(outcome)
    }

    /// Returns the command to send after this outcome, if it could not decide.
    fn repetition<C: LimitCommand + Clone>(
        &self,
        followed: &Followed,
        key: &Key,
        command: &C,
        outcome: &StoredLimitOutcome<C::Outcome>,
    ) -> Result<Option<WithStoredLimit<C>>, Error> {
        Ok(match (outcome, followed.limits.default) {
            (StoredLimitOutcome::ClockOff(limit), _) => {
                let bounded = command.under(self.bounded(limit.limit())?);
                Some(WithStoredLimit::new(bounded).on_slow_path())
            }
            (StoredLimitOutcome::NoLimit, Some(_)) => Some(self.following(followed, key, command)?),
            _ => None,
        })
    }
}

/// How often a command is sent again because its limit was not known.
const MOST_REPETITIONS: usize = 2;

/// The next step of a request of a decision on several keys.
pub(crate) enum Next {
    Decided(Decision),
    /// It is sent again, or for this client's own key.
    Asks(Option<Key>, Box<OneOfAll>),
}

impl LimitSource {
    /// Returns the request of a decision on several keys that is sent first.
    pub(crate) fn first(&self, key: &Key, acquire: &Acquire) -> Result<OneOfAll, Error> {
        match self.followed() {
            None => Ok(self.under_given(acquire)?.into_owned().into()),
            Some(followed) => Ok(self.following(followed, key, acquire)?.into()),
        }
    }

    /// Returns the step after this outcome of a call that follows so many repetitions.
    pub(crate) fn next(
        &self,
        key: &Key,
        acquire: &Acquire,
        outcome: OneOutcome,
        repetitions: usize,
    ) -> Result<Next, Error> {
        if let Some(followed) = self.followed()
            && repetitions < MOST_REPETITIONS
            && let Some(again) = self.repetition(followed, key, acquire, &outcome)?
        {
            return Ok(Next::Asks(None, Box::new(again.into())));
        }
        Ok(match self.own_command(key, acquire, outcome)? {
            Step::Done(decision) => Next::Decided(decision),
            Step::Own(own, acquire) => Next::Asks(Some(own), Box::new(acquire.into())),
        })
    }
}
