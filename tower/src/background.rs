//! Work beside requests, in the runtime of a layer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockage::runtime::Spawn;

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

/// Sleeps in the runtime of the layer.
pub(crate) type Sleep = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// Returns the sleep of this runtime.
pub(crate) fn sleep(runtime: impl Spawn) -> Sleep {
    Arc::new(move |span| {
        let runtime = runtime.clone();
        Box::pin(async move { runtime.sleep(span).await })
    })
}
