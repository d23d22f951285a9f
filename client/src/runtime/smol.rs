use std::time::Duration;

use super::{Runtime, Spawn, since_start};

/// Smol's timers, and its global executor for tasks. Callers need not run in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smol;

impl Runtime for Smol {
    fn now(&self) -> Duration {
        since_start()
    }

    async fn sleep(&self, duration: Duration) {
        smol::Timer::after(duration).await;
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

impl Spawn for Smol {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        smol::spawn(task).detach();
    }
}
