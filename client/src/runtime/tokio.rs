use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;

use super::Runtime;

/// Tokio, in whose runtime the caller must be. Its time can be paused, for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tokio;

impl Runtime for Tokio {
    fn now(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}
