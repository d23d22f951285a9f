//! Turns in the queue of a leaky bucket.

use std::time::Duration;

use lockage_core::{CancelTurn, Cancellation, Decision, Limit, TakeTurn, Ticket, Turn};

use super::Limiter;
use crate::error::Error;
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
        let (key, command) = (self.key(id)?, TakeTurn::new(self.request(cost)?));
        let call = || self.store.execute(&key, &command);
        let Some(away) = &self.away else {
            return Ok(call().await?);
        };
        let instead = |standby: &super::away::Standby| {
            Ok(Turn { decision: standby.acquire_one(&key, cost)?, ticket: None })
        };
        Ok(away.or_else(call, instead).await?)
    }

    /// Gives a turn of `id` back, as if it had never been asked for, where that is exact: nobody was
    /// admitted since, and it has not come. Otherwise nothing changes, and those behind it do not move up.
    ///
    /// # Errors
    /// [`Error`]; after [`StoreError::Unknown`](crate::StoreError::Unknown) it may be given back or not.
    /// Nothing stands in for an absent store here.
    pub async fn cancel_turn(&self, id: &str, ticket: Ticket) -> Result<Cancellation, Error> {
        Ok(self.store.execute(&self.key(id)?, &CancelTurn::new(ticket)).await?)
    }

    /// One attempt of a caller who waits no longer than `patience` for its turn, if there are turns.
    pub(super) async fn acquire_within(
        &self,
        id: &str,
        cost: u64,
        patience: Duration,
    ) -> Result<Decision, Error> {
        let Limit::LeakyBucket(_) = self.limit else {
            return self.try_acquire(id, cost).await;
        };
        let (key, command) = (self.key(id)?, self.request(cost)?.within(patience));
        let call = || self.store.execute(&key, &command);
        match &self.away {
            None => Ok(call().await?),
            Some(away) => {
                let decision =
                    away.or_else(call, |standby| standby.acquire_within(&key, cost, patience));
                Ok(decision.await?)
            }
        }
    }
}
