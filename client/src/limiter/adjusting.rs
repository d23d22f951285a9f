//! What can be done to an id besides admitting its requests.

use std::time::Duration;

use lockage_core::{Adjust, Adjusted};

use super::Limiter;
use crate::error::Error;
use crate::store::Store;

/// Each of these asks the store. Where that does not answer, the policy for its absence (see
/// [`Limiter::with_fallback`]) does not stand in for it, and the caller is told. With request ids (see
/// [`Limiter::with_idempotency`]) a call whose answer was lost is sent again and done once.
impl<S: Store> Limiter<S> {
    /// Takes as much as there is for `id`, up to `most` (at least 1), and tells how much that is.
    ///
    /// # Errors
    /// [`Error`]; to get nothing is none.
    pub async fn take_up_to(&self, id: &str, most: u64) -> Result<Adjusted, Error> {
        self.adjust(id, Adjust::take_up_to(self.limit, most)?).await
    }

    /// Gives back up to `cost` (at least 1) of what `id` has used, the latest first, and tells how much
    /// of it that was. What has come back by itself is not given back once more, so that no refund leaves
    /// more than the capacity. See [`Adjust::refund`].
    ///
    /// # Errors
    /// [`Error`].
    pub async fn refund(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        self.adjust(id, Adjust::refund(self.limit, cost)?).await
    }

    /// Charges `cost` (at least 1) whether it fits or not, up to one capacity more than there is, and
    /// tells how much was charged. See [`Adjust::penalty`].
    ///
    /// # Errors
    /// [`Error`].
    pub async fn penalty(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        self.adjust(id, Adjust::penalty(self.limit, cost)?).await
    }

    /// Admits nothing for `id` for `span` from now on (whole microseconds, at most 2^50 us). A block that
    /// lasts longer stays.
    ///
    /// # Errors
    /// [`Error`], also for a span out of range.
    pub async fn block(&self, id: &str, span: Duration) -> Result<Adjusted, Error> {
        let command = Adjust::block(self.limit, span)?;
        let key = self.key(id)?;
        let _dropping = self.drop_held(&key);
        self.adjust(id, command).await
    }

    /// Ends a block of `id`; tells, as the amount, whether there was one (1) or not (0).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn unblock(&self, id: &str) -> Result<Adjusted, Error> {
        self.adjust(id, Adjust::unblock(self.limit)).await
    }

    async fn adjust(&self, id: &str, command: Adjust) -> Result<Adjusted, Error> {
        let command = match &self.ids {
            Some(ids) => command.with_request(ids.next(), ids.remember)?,
            None => command,
        };
        let key = self.key(id)?;
        let _forgetting = self.forget_denial(&key);
        Ok(self.store.execute(&key, &command).await?)
    }
}
