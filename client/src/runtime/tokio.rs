use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{Runtime, Spawn};

const LONG_AGO: Duration = Duration::from_secs(3600);

/// Tokio. The caller must be in its runtime. Its time can be paused, for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tokio;

impl Runtime for Tokio {
    fn now(&self) -> Duration {
        // Long ago, so that it is before the time of each runtime, also of those that were paused.
        static START: LazyLock<Instant> = LazyLock::new(|| {
            let now = std::time::Instant::now();
            now.checked_sub(LONG_AGO).unwrap_or(now).into()
        });
        START.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

impl Spawn for Tokio {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    fn executor(&self) -> Option<u64> {
        let id = Handle::try_current().ok()?.id();
        // An id has no number but this one.
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Some(hasher.finish())
    }
}
