use std::time::Duration;

use super::{Runtime, Spawn, since_start};

/// async-std.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncStd;

impl Runtime for AsyncStd {
    fn now(&self) -> Duration {
        since_start()
    }

    async fn sleep(&self, duration: Duration) {
        async_std::task::sleep(duration).await;
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

impl Spawn for AsyncStd {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        async_std::task::spawn(task);
    }
}
