//! Work beside requests, in the runtime of a layer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockage::runtime::{Runtime, Spawn};

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs a future in the background.
pub(crate) type Spawner = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// Returns a spawner on this runtime.
pub(crate) fn spawner(runtime: impl Spawn) -> Spawner {
    Arc::new(move |task| {
        // A response may be dropped after its runtime has ended, or elsewhere.
        if runtime.executor().is_some() {
            runtime.spawn(task);
        }
    })
}

/// The timer, clock and randomness of the runtime of a layer, whatever its type.
#[derive(Clone)]
pub(crate) struct Timer(Arc<dyn AnyTimer>);

trait AnyTimer: Send + Sync {
    fn now(&self) -> Duration;
    fn sleep(&self, span: Duration) -> BoxFuture<'_, ()>;
    fn random(&self) -> u64;
}

impl<R: Runtime> AnyTimer for R {
    fn now(&self) -> Duration {
        Runtime::now(self)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'_, ()> {
        Box::pin(Runtime::sleep(self, span))
    }

    fn random(&self) -> u64 {
        Runtime::random(self)
    }
}

impl Timer {
    pub(crate) fn of(runtime: impl Runtime) -> Self {
        Timer(Arc::new(runtime))
    }
}

impl Runtime for Timer {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send {
        self.0.sleep(span)
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}
