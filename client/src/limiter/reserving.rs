//! Reserve, then commit or cancel.

use std::time::Duration;

use lockage_core::{Acquire, RequestId, Reservation, Reserved, Settle, Settlement};

use super::{Limiter, random_id};
use crate::error::Error;
use crate::retry_store::RetryStore;
use crate::runtime::Runtime;
use crate::store::Store;

/// For requests whose cost is known only afterwards, such as the tokens of a language model's answer.
///
/// Each of these asks the store. Where that does not answer, the policy for its absence (see
/// [`Limiter::with_fallback`]) does not stand in for it, and the caller is told. A call whose answer was lost
/// is sent again, and done once.
impl<S: Store> Limiter<S> {
    /// Admits a request for `id` and charges it `cost` (at least 1) as an estimate, or changes nothing.
    /// What is reserved is to be settled within `hold` (1 us to 2^50 us) by [`Limiter::commit`] or
    /// [`Limiter::cancel`], wherever that is: a [`Reservation`] is plain data. Else it stays charged as
    /// estimated. `request` names it; make it from 128 random bits.
    ///
    /// In shadow mode (see [`Limiter::in_shadow`]) what would be denied is let through, with nothing to
    /// settle. Of each key up to [`MAX_RESERVATIONS`](lockage_core::MAX_RESERVATIONS) can be open.
    ///
    /// # Errors
    /// [`Error`]: also for a `hold` out of range, an id that was used before, or too many open ones; a
    /// denied request is none.
    pub async fn reserve_as(
        &self,
        id: &str,
        cost: u64,
        request: RequestId,
        hold: Duration,
    ) -> Result<Reserved, Error> {
        let command = Acquire::new(self.limit, cost)?.reserve(request, hold)?;
        let key = self.key(id)?;
        let (decided, reservation) = match self.store.execute(&key, &command).await {
            Ok(Reserved { decision, reservation }) => (Ok(decision), reservation),
            Err(error) => (Err(error), None),
        };
        Ok(Reserved { decision: self.tell(id, cost, decided)?, reservation })
    }

    /// Charges `id` the cost that a request really had instead of what was reserved for it. Later
    /// decisions are as if that had been charged from the beginning; what is above the estimate is
    /// charged now, whether it fits or not, up to one capacity more than there is. See [`Settle`].
    ///
    /// # Errors
    /// [`Error`]; a reservation that is settled already, or expired, is none.
    pub async fn commit(
        &self,
        id: &str,
        reservation: &Reservation,
        actual: u64,
    ) -> Result<Settlement, Error> {
        let key = self.key(id)?;
        let _forgetting = self.forget_denial(&key);
        let command = Settle::new(self.limit, reservation, actual);
        Ok(self.store.execute(&key, &command).await?)
    }

    /// Gives back what was reserved for `id`: it was not used at all.
    ///
    /// # Errors
    /// As [`Limiter::commit`].
    pub async fn cancel(&self, id: &str, reservation: &Reservation) -> Result<Settlement, Error> {
        self.commit(id, reservation, 0).await
    }
}

impl<S: Store, R: Runtime> Limiter<RetryStore<S, R>> {
    /// As [`Limiter::reserve_as`], under a new random id.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn reserve(&self, id: &str, cost: u64, hold: Duration) -> Result<Reserved, Error> {
        let request = random_id(|| self.store.runtime().random());
        self.reserve_as(id, cost, request, hold).await
    }
}
