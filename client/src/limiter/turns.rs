//! Turns in the queue of a leaky bucket.

use std::time::Duration;

use lockage_core::{Acquire, CancelTurn, Cancellation, Decision, Limit, TakeTurn, Ticket, Turn};

use super::Limiter;
use super::fallback::Standby;
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::store::Store;

impl<S: Store> Limiter<S> {
    /// As [`Limiter::try_acquire`], for callers who may give their turn in the queue of a
    /// [`LeakyBucket`](crate::LeakyBucket) back: where it is admitted there is a ticket for that.
    ///
    /// ```
    /// use lockage::{Cancellation, Limiter};
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// let limiter = Limiter::new(MemoryStore::new(), "leaky-bucket 1/min queue 10".parse()?);
    /// let first = limiter.take_turn("mails", 1).await?;
    /// assert!(first.decision.turn_after.is_zero()); // now
    /// let second = limiter.take_turn("mails", 1).await?;
    /// println!("the next one in {:?}", second.decision.turn_after); // in a minute
    /// if let Some(ticket) = second.ticket {
    ///     // Or rather not.
    ///     assert_eq!(limiter.cancel_turn("mails", ticket).await?, Cancellation::GivenBack);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error`]; a denied request is none.
    pub async fn take_turn(&self, id: &str, cost: u64) -> Result<Turn, Error> {
        let acquire = Acquire::new(self.limit, cost)?;
        let key = self.key(id)?;
        if let Some(denied) = self.known_denial(&key, cost, Duration::ZERO) {
            return Ok(Turn { decision: self.tell(id, cost, Ok(denied))?, ticket: None });
        }
        let command = TakeTurn::new(self.with_own_id(acquire)?);
        let asking = self.asking(&key);
        let call = || self.store.execute(&key, &command);
        let instead = |standby: &Standby| {
            Ok(Turn { decision: standby.acquire_one(&key, cost)?, ticket: None })
        };
        let taken = match &self.away {
            None => call().await,
            Some(away) => away.or_else(call, instead).await,
        };
        let (decided, ticket) = match taken {
            Ok(Turn { decision, ticket }) => {
                asking.learn(cost, &decision);
                (Ok(decision), ticket)
            }
            Err(error) => (Err(error), None),
        };
        Ok(Turn { decision: self.tell(id, cost, decided)?, ticket })
    }

    /// Gives a turn of `id` back, as if it had never been asked for, where that is exact: nobody was
    /// admitted since, and it has not come. Otherwise nothing changes, and those behind it do not move up.
    /// See [`CancelTurn`].
    ///
    /// # Errors
    /// [`Error`]; after [`StoreError::Unknown`](crate::StoreError::Unknown) it may be given back or not.
    /// Nothing stands in for an absent store here.
    pub async fn cancel_turn(&self, id: &str, ticket: Ticket) -> Result<Cancellation, Error> {
        let key = self.key(id)?;
        let _forgetting = self.forget_denial(&key);
        Ok(self.store.execute(&key, &CancelTurn::new(ticket)).await?)
    }

    /// Decides a request of a caller who waits no longer than `patience` for its turn. It goes by itself,
    /// as those that share a call would have one patience.
    pub(super) async fn decide_within(
        &self,
        key: &Key,
        command: Acquire,
        cost: u64,
        patience: Duration,
    ) -> Result<Decision, StoreError> {
        let asking = self.asking(key);
        let call = || self.store.execute(key, &command);
        let instead = |standby: &Standby| standby.acquire_within(key, cost, patience);
        let decision = match &self.away {
            None => call().await?,
            Some(away) => away.or_else(call, instead).await?,
        };
        // A denial may be for want of patience, and does not hold for those who have more.
        if decision.is_allowed() {
            asking.learn(cost, &decision);
        }
        Ok(decision)
    }

    /// Whether what the limit admits waits for its turn.
    pub(super) fn has_turns(&self) -> bool {
        self.limit.parts().any(|limit| matches!(limit, Limit::LeakyBucket(_)))
    }
}
