//! Ids that make retries harmless.

use std::fmt;
use std::time::Duration;

use lockage_core::{Acquire, ConfigError, RequestId};

use super::call::Call;
use super::pipeline::{Next, Stage, Target};
use super::{Limiter, REQUEST_IDS};
use crate::error::Error;
use crate::retry_store::HasTimeout;
use crate::runtime::{Runtime, random_bits};
use crate::store::Store;

/// Gives each call an id of its own, if it can have one.
pub(super) struct Idempotency {
    window: Duration,
    random: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Stage for Idempotency {
    async fn run<C: Call, N: Next>(
        &self,
        target: &Target<'_>,
        call: &C,
        next: &N,
    ) -> Result<C::Outcome, Error> {
        match call.with_id(|| self.new_id()) {
            Some(named) => next.run(target, &named?).await,
            None => next.run(target, call).await,
        }
    }
}

impl Idempotency {
    /// Returns an id for a request, and how long the store remembers it.
    pub(super) fn new_id(&self) -> (RequestId, Duration) {
        (random_id(&self.random), self.window)
    }
}

/// Returns 128 random bits as an id.
pub(super) fn random_id(random: impl Fn() -> u64) -> RequestId {
    RequestId::from_u128(random_bits(random))
}

impl<S: Store> Limiter<S> {
    /// Gives each acquire of a single cost, and each adjustment, an id that the store remembers for `window` (1 us to
    /// 2^50 us). A call whose answer was lost is then retried and charged once. All attempts of one
    /// [`Limiter::acquire_within`] have one id.
    ///
    /// Choose a multiple of the store's timeout. Each remembered request takes about 100 bytes of its key, and a key
    /// remembers at most [`REMEMBERED_REQUESTS`](lockage_core::REMEMBERED_REQUESTS): if more are admitted for one id
    /// between a call and its retry, the retry is charged again.
    #[doc = limiter_example!(
        r#"let limiter = limiter.with_idempotency(Duration::from_secs(8))?;"#
        r#"assert!(limiter.try_acquire("user:42", 1).await?.is_allowed());"#
    )]
    /// # Errors
    /// [`ConfigError`] for a `window` out of range, and for a limiter that coalesces.
    pub fn with_idempotency(mut self, window: Duration) -> Result<Self, ConfigError>
    where
        S: HasTimeout,
    {
        let runtime = self.store.runtime().clone();
        let random = Box::new(move || runtime.random());
        // Checked here, so that no call need fail.
        let any = Acquire::new(self.source.nominal(), 1).expect("a cost of one is accepted");
        any.with_request(random_id(&random), window)?;
        self.stages.idempotency = Some(Idempotency { window, random }.into());
        self.checked(REQUEST_IDS)
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency").field("window", &self.window).finish_non_exhaustive()
    }
}
