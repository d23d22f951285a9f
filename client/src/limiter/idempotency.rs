//! Ids that make retries harmless.

use std::fmt;
use std::time::Duration;

use lockage_core::{Acquire, ConfigError, Limit, RequestId};

use crate::runtime::random_bits;

/// Names calls, each by an id of its own.
pub(super) struct Idempotency {
    window: Duration,
    random: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Idempotency {
    /// Names calls for a `window`, which is checked here so that no call fails for it.
    pub(super) fn new(
        limit: Limit,
        window: Duration,
        random: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self, ConfigError> {
        let any = Acquire::new(limit, 1).expect("a cost of one is accepted");
        any.with_request(random_id(&random), window)?;
        Ok(Idempotency { window, random: Box::new(random) })
    }

    /// Returns an id for a request, and how long the store remembers it.
    pub(super) fn name(&self) -> (RequestId, Duration) {
        (random_id(&self.random), self.window)
    }
}

/// Returns 128 random bits as an id.
pub(super) fn random_id(random: impl Fn() -> u64) -> RequestId {
    RequestId::from_u128(random_bits(random))
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency").field("window", &self.window).finish_non_exhaustive()
    }
}
