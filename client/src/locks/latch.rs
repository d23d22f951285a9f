//! A countdown latch, by its name.

use std::time::Duration;

use lockage_core::latch::{Answer, Inspection, Latch, OperationId};

use super::handle::Handle;
use crate::error::Error;
use crate::notifications::Wake;
use crate::runtime::Spawn;
use crate::store::Store;

/// A latch: closed while there is something left to count down, and then open. See
/// [`Locks::latch`](super::Locks::latch).
pub type LatchHandle<S, R> = Handle<S, R, Latch>;

impl<S, R> LatchHandle<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Closes an open latch with `count` (1 to 2^53 - 1) to count down, and returns whether it was open.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Config`] for a count out of range.
    pub async fn set(&self, count: u64) -> Result<bool, Error> {
        let set = self.kind.set(count, self.operation())?;
        let reply = self.manager.store().execute(&self.key, &set).await?;
        Ok(matches!(reply.answer, Answer::Done { .. }))
    }

    /// Counts down by `count` (1 to 2^53 - 1), at most to zero, and returns what is left, which is zero for an open
    /// latch.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Config`] for a count out of range.
    pub async fn count_down(&self, count: u64) -> Result<u64, Error> {
        let count_down = self.kind.count_down(count, self.operation())?;
        let reply = self.manager.store().execute(&self.key, &count_down).await?;
        Ok(match reply.answer {
            Answer::Done { left } | Answer::Closed { left, .. } => left,
            Answer::Open => 0,
        })
    }

    /// Waits until it is open.
    ///
    /// # Errors
    /// The [`Error`] of the first call that fails.
    pub async fn wait(&self) -> Result<(), Error> {
        self.wait_until(None).await.map(|_| ())
    }

    /// Waits at most `timeout` until it is open, and returns what is left, which is zero when it is open.
    ///
    /// # Errors
    /// As [`LatchHandle::wait`].
    pub async fn wait_within(&self, timeout: Duration) -> Result<u64, Error> {
        self.wait_until(Some(self.manager.runtime().now().saturating_add(timeout))).await
    }

    /// Returns what is left.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        Ok(self.manager.store().execute(&self.key, &self.kind.inspect()).await?)
    }

    /// Forgets the latch, which opens it. Returns what was left, if it existed.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn reset(&self) -> Result<Option<u64>, Error> {
        Ok(self.manager.store().execute(&self.key, &self.kind.reset()).await?)
    }

    async fn wait_until(&self, deadline: Option<Duration>) -> Result<u64, Error> {
        let runtime = self.manager.runtime();
        let mut wait = self.options.waiting.begin(runtime, &self.key, Wake::All, deadline);
        loop {
            let seen = self.inspect().await?;
            let open_in = seen.open_at.saturating_since(seen.now);
            if seen.left == 0 || !wait.pause(open_in).await {
                return Ok(seen.left);
            }
        }
    }

    fn operation(&self) -> OperationId {
        OperationId::from_u128(self.manager.random_bits())
    }
}
