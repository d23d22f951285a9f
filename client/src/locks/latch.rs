//! A countdown latch by its name.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::latch::{Answer, Inspection, Latch, OperationId};

use super::keeper::Keeper;
use super::random_bits;
use super::waiting::Waiting;
use crate::error::Error;
use crate::key::Key;
use crate::notifications::Wake;
use crate::runtime::Spawn;
use crate::store::Store;

/// A latch that is closed while there is something left to count down, and then open. See
/// [`Locks::latch`](super::Locks::latch).
pub struct LatchHandle<S, R> {
    pub(super) keeper: Arc<Keeper<S, R>>,
    pub(super) key: Key,
    pub(super) waiting: Waiting,
    pub(super) latch: Latch,
}

impl<S, R> LatchHandle<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Closes it with `count` (1 to 2^53 - 1) to count down, where it is open; tells whether it was.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Config`] for a count out of range.
    pub async fn set(&self, count: u64) -> Result<bool, Error> {
        let set = self.latch.set(count, self.operation())?;
        let reply = self.keeper.shared.store.execute(&self.key, &set).await?;
        Ok(matches!(reply.answer, Answer::Done { .. }))
    }

    /// Counts down by `count` (1 to 2^53 - 1), or to zero where less is left, and tells what is left. Where it is
    /// open, nothing is.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Config`] for a count out of range.
    pub async fn count_down(&self, count: u64) -> Result<u64, Error> {
        let count_down = self.latch.count_down(count, self.operation())?;
        let reply = self.keeper.shared.store.execute(&self.key, &count_down).await?;
        Ok(match reply.answer {
            Answer::Done { left } | Answer::Closed { left, .. } => left,
            Answer::Open => 0,
        })
    }

    /// Waits until it is open.
    ///
    /// # Errors
    /// [`Error`], of the first call that fails.
    pub async fn wait(&self) -> Result<(), Error> {
        self.wait_until(None).await.map(|_| ())
    }

    /// The same for at most `timeout`; tells what is left, nothing where it is open.
    ///
    /// # Errors
    /// As [`LatchHandle::wait`].
    pub async fn wait_within(&self, timeout: Duration) -> Result<u64, Error> {
        self.wait_until(Some(self.keeper.runtime().now().saturating_add(timeout))).await
    }

    /// What is left.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        Ok(self.keeper.shared.store.execute(&self.key, &self.latch.inspect()).await?)
    }

    /// Forgets the latch: it is open then. Tells what was left, where there was one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn reset(&self) -> Result<Option<u64>, Error> {
        Ok(self.keeper.shared.store.execute(&self.key, &self.latch.reset()).await?)
    }

    async fn wait_until(&self, deadline: Option<Duration>) -> Result<u64, Error> {
        let runtime = self.keeper.runtime();
        let mut wait = self.waiting.begin(runtime, &self.key, Wake::All, deadline);
        loop {
            let seen = self.inspect().await?;
            let open_in = seen.open_at.saturating_since(seen.now);
            if seen.left == 0 || !wait.pause(open_in).await {
                return Ok(seen.left);
            }
        }
    }

    fn operation(&self) -> OperationId {
        OperationId::from_u128(random_bits(self.keeper.runtime()))
    }
}

impl<S, R> Clone for LatchHandle<S, R> {
    fn clone(&self) -> Self {
        let (keeper, key) = (Arc::clone(&self.keeper), self.key.clone());
        LatchHandle { keeper, key, waiting: self.waiting.clone(), latch: self.latch }
    }
}

impl<S, R> fmt::Debug for LatchHandle<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatchHandle")
            .field("key", &self.key)
            .field("latch", &self.latch)
            .finish_non_exhaustive()
    }
}
