use std::time::Duration;

use super::{Runtime, since_start};

/// Smol's timers. They need no executor of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smol;

impl Runtime for Smol {
    fn now(&self) -> Duration {
        since_start()
    }

    async fn sleep(&self, duration: Duration) {
        async_io::Timer::after(duration).await;
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}
