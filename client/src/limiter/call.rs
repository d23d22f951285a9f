//! The calls that a limiter's verbs make, as its stages see them.

use std::slice::{from_mut, from_ref};
use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, Adjusted, CancelTurn, Cancellation, CostError, Decision, LimitCommand,
    RequestId, Reserved, Reset, SetLimit, Settlement, StoredLimit, TakeTurn, Turn,
};

use super::limit_source::LimitSource;
use super::pipeline::Target;
use crate::error::Error;
use crate::store::Store;

/// One call, which each stage may answer, alter or hand on. By default, a call decides nothing and waits for nothing.
pub(super) trait Call: Send + Sync {
    /// What it comes to.
    type Outcome: Outcome;

    /// Returns what stages may do with it.
    fn rules(&self) -> Rules;

    /// Sends it to the store.
    fn send<S: Store>(
        &self,
        store: &S,
        target: &Target<'_>,
    ) -> impl Future<Output = Result<Self::Outcome, Error>> + Send;

    /// Returns the costs that it decides, in order.
    fn costs(&self) -> &[u64] {
        &[]
    }

    /// Returns the call if it is an acquire of one cost that no caller's id names.
    fn as_acquire(&self) -> Option<&AcquireOne> {
        None
    }

    /// Returns how long the caller waits to be admitted, beyond which a denial is final.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the latest turn that the call takes, if its turn is bounded.
    fn latest_turn(&self) -> Option<Duration> {
        None
    }

    /// Returns the same call under an id for retries, if it can have one and has none.
    fn with_id(&self, _id: impl FnOnce() -> (RequestId, Duration)) -> Option<Result<Self, Error>>
    where
        Self: Sized,
    {
        None
    }
}

/// The outcome of a call, as decisions.
pub(super) trait Outcome: Send + Sized {
    /// Returns its decisions, one for each cost.
    fn decisions(&mut self) -> &mut [Decision] {
        &mut []
    }

    /// Makes one of decisions that did not come from the store, one for each cost.
    fn of(_decisions: impl Iterator<Item = Decision>) -> Option<Self> {
        None
    }
}

impl Outcome for Decision {
    fn decisions(&mut self) -> &mut [Decision] {
        from_mut(self)
    }

    fn of(mut decisions: impl Iterator<Item = Decision>) -> Option<Self> {
        decisions.next()
    }
}

impl Outcome for Vec<Decision> {
    fn decisions(&mut self) -> &mut [Decision] {
        self
    }

    fn of(decisions: impl Iterator<Item = Decision>) -> Option<Self> {
        Some(decisions.collect())
    }
}

impl Outcome for Turn {
    fn decisions(&mut self) -> &mut [Decision] {
        from_mut(&mut self.decision)
    }

    fn of(mut decisions: impl Iterator<Item = Decision>) -> Option<Self> {
        decisions.next().map(Turn::from)
    }
}

impl Outcome for Reserved {
    fn decisions(&mut self) -> &mut [Decision] {
        from_mut(&mut self.decision)
    }

    fn of(mut decisions: impl Iterator<Item = Decision>) -> Option<Self> {
        decisions.next().map(Reserved::from)
    }
}

impl Outcome for Settlement {}
impl Outcome for Adjusted {}
impl Outcome for Cancellation {}
impl Outcome for bool {}
impl Outcome for Option<StoredLimit> {}

/// What stages may do with a call.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// What it admits is charged.
    pub(super) charges: bool,
    /// Only the store can answer it.
    pub(super) needs_store: bool,
    /// A denial that still holds answers it. A repetition of an earlier call must reach the store.
    pub(super) takes_known_denial: bool,
    pub(super) change: Option<Change>,
}

impl Rules {
    /// Admits requests that were not made before.
    pub(super) const ADMIT: Rules =
        Rules { charges: true, needs_store: false, takes_known_denial: true, change: None };
    /// Admits a request that may have been made before.
    pub(super) const REPEAT: Rules = Rules { takes_known_denial: false, ..Rules::ADMIT };
    /// Decides, and changes nothing.
    pub(super) const PEEK: Rules = Rules { charges: false, ..Rules::REPEAT };
    /// Admits a request that only the store can keep.
    pub(super) const RESERVE: Rules = Rules { needs_store: true, ..Rules::REPEAT };
    /// Reads, and decides nothing.
    pub(super) const READ: Rules = Rules { charges: false, ..Rules::RESERVE };

    /// Changes what a key holds.
    pub(super) const fn change(change: Change) -> Rules {
        Rules { change: Some(change), ..Rules::READ }
    }
}

/// What a call changes of a key, besides what it admits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// What is charged: less of it may be denied afterwards.
    Use,
    /// All of it: what was granted before does not hold any more.
    Key,
}

/// Admits one request. The limit stands beside it until it is sent: each copy of one takes time.
#[derive(Clone, Copy)]
pub(super) struct AcquireOne {
    pub(super) cost: u64,
    patience: Duration,
    latest_turn: Option<Duration>,
    id: Option<(RequestId, Duration)>,
    /// Whether it must not wait for other calls.
    pub(super) goes_alone: bool,
}

impl AcquireOne {
    pub(super) fn new(cost: u64) -> Result<Self, CostError> {
        if cost == 0 {
            return Err(CostError::Zero);
        }
        let (patience, latest_turn, id) = (Duration::ZERO, None, None);
        Ok(AcquireOne { cost, patience, latest_turn, id, goes_alone: false })
    }

    /// Makes it the call of a caller that waits for `patience`: it takes no turn after that, so it goes
    /// alone where there may be turns, because those that share a call have one patience.
    pub(super) fn within(self, source: &LimitSource, patience: Duration) -> Self {
        if !source.may_have_turns() {
            return AcquireOne { patience, ..self };
        }
        AcquireOne { patience, latest_turn: Some(patience), goes_alone: true, ..self }
    }

    /// Makes it the same caller's call for another cost, which is another request, and does not wait for others.
    pub(super) fn of_cost(&self, cost: u64) -> Self {
        AcquireOne { cost, id: None, goes_alone: true, ..*self }
    }

    /// Names the request: all calls under this id are one to the store, which remembers it for as long.
    pub(super) fn named(self, id: (RequestId, Duration)) -> Self {
        AcquireOne { id: Some(id), ..self }
    }

    fn command(&self, source: &LimitSource) -> Result<Acquire, Error> {
        let mut command = Acquire::new(source.nominal(), self.cost)?;
        if let Some(latest) = self.latest_turn {
            command = command.within(latest);
        }
        if let Some((id, remember)) = self.id {
            command = command.with_request(id, remember)?;
        }
        Ok(command)
    }
}

impl Call for AcquireOne {
    type Outcome = Decision;

    fn rules(&self) -> Rules {
        Rules::ADMIT
    }

    async fn send<S: Store>(&self, store: &S, target: &Target<'_>) -> Result<Decision, Error> {
        target.source.execute(store, target.key, &self.command(target.source)?).await
    }

    fn costs(&self) -> &[u64] {
        from_ref(&self.cost)
    }

    fn as_acquire(&self) -> Option<&AcquireOne> {
        Some(self)
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn latest_turn(&self) -> Option<Duration> {
        self.latest_turn
    }

    fn with_id(&self, id: impl FnOnce() -> (RequestId, Duration)) -> Option<Result<Self, Error>> {
        self.id.is_none().then(|| Ok(self.named(id())))
    }
}

/// Runs a command under the limit of the key. No stage alters it.
pub(super) struct Fixed<'a, C> {
    pub(super) command: C,
    pub(super) costs: &'a [u64],
    pub(super) rules: Rules,
}

impl<C> Call for Fixed<'_, C>
where
    C: LimitCommand<Outcome: Outcome> + Clone + Send + Sync,
{
    type Outcome = C::Outcome;

    fn rules(&self) -> Rules {
        self.rules
    }

    async fn send<S: Store>(&self, store: &S, target: &Target<'_>) -> Result<C::Outcome, Error> {
        target.source.execute(store, target.key, &self.command).await
    }

    fn costs(&self) -> &[u64] {
        self.costs
    }
}

/// Admits one request to a turn that can be given back.
pub(super) struct AcquireTurn {
    pub(super) command: Acquire,
    pub(super) cost: u64,
}

impl Call for AcquireTurn {
    type Outcome = Turn;

    fn rules(&self) -> Rules {
        Rules::ADMIT
    }

    async fn send<S: Store>(&self, store: &S, target: &Target<'_>) -> Result<Turn, Error> {
        if let Some(limit) = target.source.limit() {
            let command = self.command.under(target.source.bounded(limit)?);
            return Ok(store.execute(target.key, &TakeTurn::new(command)).await?);
        }
        // No command gives a turn under a stored limit back.
        let decision = target.source.execute(store, target.key, &self.command).await?;
        Ok(decision.into())
    }

    fn costs(&self) -> &[u64] {
        from_ref(&self.cost)
    }

    fn with_id(&self, id: impl FnOnce() -> (RequestId, Duration)) -> Option<Result<Self, Error>> {
        let (id, remember) = id();
        let command = self.command.with_request(id, remember);
        let named = |command| AcquireTurn { command, cost: self.cost };
        Some(command.map(named).map_err(Error::from))
    }
}

/// Adjusts what is charged.
pub(super) struct Adjustment {
    pub(super) command: Adjust,
    pub(super) change: Change,
}

impl Call for Adjustment {
    type Outcome = Adjusted;

    fn rules(&self) -> Rules {
        Rules::change(self.change)
    }

    async fn send<S: Store>(&self, store: &S, target: &Target<'_>) -> Result<Adjusted, Error> {
        target.source.execute(store, target.key, &self.command).await
    }

    fn with_id(&self, id: impl FnOnce() -> (RequestId, Duration)) -> Option<Result<Self, Error>> {
        let (id, remember) = id();
        let command = self.command.with_request(id, remember);
        let named = |command| Adjustment { command, change: self.change };
        Some(command.map(named).map_err(Error::from))
    }
}

/// Gives a turn back.
pub(super) struct GiveTurnBack(pub(super) CancelTurn);

impl Call for GiveTurnBack {
    type Outcome = Cancellation;

    fn rules(&self) -> Rules {
        Rules::change(Change::Use)
    }

    async fn send<S: Store>(&self, store: &S, target: &Target<'_>) -> Result<Cancellation, Error> {
        Ok(store.execute(target.key, &self.0).await?)
    }
}

/// Forgets the key.
pub(super) struct Forget;

impl Call for Forget {
    type Outcome = bool;

    fn rules(&self) -> Rules {
        Rules::change(Change::Key)
    }

    async fn send<S: Store>(&self, store: &S, target: &Target<'_>) -> Result<bool, Error> {
        let was_known = store.execute(target.key, &Reset).await?;
        target.source.forget(target.key);
        Ok(was_known)
    }
}

/// Stores the limit of the key.
pub(super) struct StoreLimit {
    pub(super) command: SetLimit,
    pub(super) limit: StoredLimit,
}

impl Call for StoreLimit {
    type Outcome = bool;

    fn rules(&self) -> Rules {
        Rules::change(Change::Key)
    }

    async fn send<S: Store>(&self, store: &S, target: &Target<'_>) -> Result<bool, Error> {
        let is_stored = store.execute(target.key, &self.command).await?;
        if is_stored {
            target.source.note(target.key, self.limit);
        }
        Ok(is_stored)
    }
}

/// Reads the limit of the key.
pub(super) struct ReadLimit;

impl Call for ReadLimit {
    type Outcome = Option<StoredLimit>;

    fn rules(&self) -> Rules {
        Rules::READ
    }

    async fn send<S: Store>(
        &self,
        store: &S,
        target: &Target<'_>,
    ) -> Result<Option<StoredLimit>, Error> {
        Ok(target.source.read(store, target.key).await?)
    }
}
