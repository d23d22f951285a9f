//! A countdown latch, by its name.

use std::time::Duration;

use lockage_core::latch::{Answer, Inspection, Latch, Operation, OperationId, Reply};
use lockage_core::{ConfigError, Timestamp};

use super::handle::{ASKS, Handle};
use super::manager::beyond;
use crate::error::{Error, StoreError};
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
    /// [`Error`]; [`Error::Config`] for a count out of range. [`StoreError::Unknown`] also if an answer was lost, and
    /// too many changes since have made the latch forget this one.
    pub async fn set(&self, count: u64) -> Result<bool, Error> {
        let id = self.operation();
        let answer = self.change(|not_after| self.kind.set(count, id, not_after)).await?;
        Ok(matches!(answer, Answer::Done { .. }))
    }

    /// Counts down by `count` (1 to 2^53 - 1), at most to zero, and returns the remaining count, which is zero for an
    /// open latch.
    ///
    /// # Errors
    /// As [`LatchHandle::set`]. No count-down counts twice.
    pub async fn count_down(&self, count: u64) -> Result<u64, Error> {
        let id = self.operation();
        let answer = self.change(|not_after| self.kind.count_down(count, id, not_after)).await?;
        Ok(match answer {
            Answer::Done { left } | Answer::Closed { left, .. } => left,
            Answer::Open | Answer::TooLate { .. } => 0,
        })
    }

    /// Waits until it is open.
    ///
    /// # Errors
    /// The [`Error`] of the first call that fails.
    pub async fn wait(&self) -> Result<(), Error> {
        self.wait_until(None).await.map(|_| ())
    }

    /// Waits at most `timeout` until it is open, and returns the remaining count, which is zero when it is open.
    ///
    /// # Errors
    /// As [`LatchHandle::wait`].
    pub async fn wait_within(&self, timeout: Duration) -> Result<u64, Error> {
        self.wait_until(Some(self.manager.runtime().now().saturating_add(timeout))).await
    }

    /// Returns the remaining count, and when the latch opens at the latest.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        Ok(self.manager.store().execute(&self.key, &self.kind.inspect()).await?)
    }

    /// Forgets the latch, which opens it. Returns the count that remained, if the latch existed.
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

    /// Changes the latch, or returns why not. A change that came too late for the store has changed nothing, and no
    /// copy of it will: it is sent again at once, with a later time limit, unless an earlier copy may have run and is
    /// forgotten.
    async fn change(
        &self,
        operation: impl Fn(Timestamp) -> Result<Operation, ConfigError>,
    ) -> Result<Answer, Error> {
        let (store, now) = (self.manager.store(), || self.manager.runtime().now());
        let mut later_than = Timestamp::EPOCH;
        for _ in 0..ASKS {
            let sent = now();
            let (not_after, _) = self.manager.not_after(sent, later_than);
            let command = operation(not_after)?;
            let asked = store.execute_noting(&self.key, &command, Duration::MAX).await?;
            let (Reply { now: time, answer, .. }, has_stray) = asked;
            self.manager.learn(sent, time);
            let Answer::TooLate { forgotten } = answer else { return Ok(answer) };
            if has_stray && not_after > Timestamp::EPOCH {
                let cause =
                    "it was sent before, and the latch no longer knows whether that was done";
                return Err(StoreError::Unknown(cause.into()).into());
            }
            later_than = beyond(forgotten, now().saturating_sub(sent));
        }
        let cause = "each time it was asked, it could have been a late copy of another change";
        Err(StoreError::NotDone(cause.into()).into())
    }

    fn operation(&self) -> OperationId {
        OperationId::from_u128(self.manager.random_bits())
    }
}
