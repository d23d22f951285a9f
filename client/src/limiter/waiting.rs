//! What a limiter can do where it can tell the time.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::{Step, Wait};
use lockage_core::{Acquire, ConfigError, Decision};

use super::coalesce::{COALESCING, REQUEST_IDS};
use super::fallback::{Degraded, Fallback};
use super::{Ids, Limiter};
use crate::error::Error;
use crate::retry_store::RetryStore;
use crate::runtime::Runtime;
use crate::store::Store;

impl<S: Store, R: Runtime> Limiter<RetryStore<S, R>> {
    /// Waits until a request of `cost` (at least 1) for `id` is admitted, and charges it. In the queue of a
    /// [`LeakyBucket`](crate::LeakyBucket) it waits until its turn, too.
    ///
    /// The decision is a denial where it was not admitted: the wait would have been longer than
    /// `timeout`, which is told at once and not at its end, or others were faster until then. The
    /// calls to the store have their own timeout, which the last one may take beyond this one.
    ///
    /// It sleeps for as long as the store says plus some chance, so that of many who wait not all
    /// come back at once; nobody is promised to be first. See [`Wait`].
    ///
    /// The queue of a leaky bucket is in order: who has been admitted to it sleeps once, until its turn, and
    /// [`Decision::turn_after`] is then zero. The store does not admit it to a turn after `timeout`, so none
    /// is taken in vain. Who finds no room in the queue comes back as above.
    ///
    /// Dropped while it sleeps, nothing has been charged, but for a turn in a queue, which stays taken: see
    /// [`Limiter::take_turn`]. Dropped while it waits for the store's answer, that one call may be charged,
    /// as every call that gets no answer.
    ///
    /// # Errors
    /// [`Error`], of the first call that fails.
    pub async fn acquire_within(
        &self,
        id: &str,
        cost: u64,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        let ask = |patience| self.try_acquire_within(id, cost, Some(patience));
        wait(self.store.runtime(), timeout, ask).await
    }

    /// Gives each acquire of a single cost an id that the store remembers for `remember` (1 us to
    /// 2^50 us), so that a call whose answer was lost is sent again and charged once.
    ///
    /// Choose a multiple of the store's timeout. Each remembered request takes about 100 bytes of
    /// its key, and there are at most
    /// [`REMEMBERED_REQUESTS`](lockage_core::REMEMBERED_REQUESTS): where more are admitted
    /// for one id between a call and its repetition, the repetition is charged again.
    ///
    /// # Errors
    /// [`ConfigError`] for a `remember` out of range, and for a limiter that coalesces.
    pub fn with_idempotency(self, remember: Duration) -> Result<Self, ConfigError> {
        if self.coalescer.is_some() {
            return Err(ConfigError::Conflict { what: REQUEST_IDS, with: COALESCING });
        }
        let runtime = self.store.runtime().clone();
        let ids = Ids { remember, random: Arc::new(move || runtime.random()) };
        // Checked here, so that no call need fail.
        let any = Acquire::new(self.limit, 1).expect("a cost of one is accepted");
        any.with_request(ids.next(), remember)?;
        Ok(Limiter { ids: Some(ids), ..self })
    }

    /// Says what is decided where the store does not answer. Without it, callers get the error.
    ///
    /// # Errors
    /// [`ConfigError`] where the limit leaves no share for each process.
    pub fn with_fallback(self, policy: Fallback) -> Result<Self, ConfigError> {
        let runtime = self.store.runtime().clone();
        let away = Degraded::new(policy, self.limit, move || runtime.now())?;
        Ok(Limiter { away: Some(Arc::new(away)), ..self })
    }

    /// Whether decisions are being made without the store, by the policy for its absence.
    pub fn is_away(&self) -> bool {
        self.away.as_ref().is_some_and(|away| away.is_away())
    }
}

/// Asks, with what is left of the patience, until it is admitted or that is no use.
pub(super) async fn wait<F>(
    runtime: &impl Runtime,
    timeout: Duration,
    ask: impl Fn(Duration) -> F,
) -> Result<Decision, Error>
where
    F: Future<Output = Result<Decision, Error>>,
{
    let mut wait = Wait::new(runtime.now(), timeout);
    loop {
        let decision = ask(wait.patience(runtime.now())).await?;
        match wait.after(&decision, runtime.now(), runtime.random()) {
            Step::Done => return Ok(decision),
            Step::Sleep(duration) => runtime.sleep(duration).await,
            Step::Turn(duration) => {
                runtime.sleep(duration).await;
                return Ok(Decision { turn_after: Duration::ZERO, ..decision });
            }
        }
    }
}
