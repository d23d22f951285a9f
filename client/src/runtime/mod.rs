//! The parts of an executor that waiting and timeouts need: sleep, time, randomness, and for locks, tasks.
//!
//! | feature | type | its timers and tasks run |
//! |---|---|---|
//! | `tokio` | `Tokio` | within a tokio runtime |
//! | `async-std` | `AsyncStd` | anywhere: it starts its own threads |
//! | `smol` | `Smol` | anywhere: it starts its own threads |
//!
//! The features add up: all can be on at once, and each [`RetryStore`](crate::RetryStore) names the one that it uses.
//! Other executors implement [`Runtime`].

#[cfg(feature = "async-std")]
mod async_std;
#[cfg(feature = "smol")]
mod smol;
#[cfg(feature = "tokio")]
mod tokio;

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

#[cfg(feature = "async-std")]
pub use self::async_std::AsyncStd;
#[cfg(feature = "smol")]
pub use self::smol::Smol;
#[cfg(feature = "tokio")]
pub use self::tokio::Tokio;

/// An executor's timer, clock and randomness.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// Returns the time since some fixed moment, by a clock that never runs back.
    fn now(&self) -> Duration;

    /// Sleeps for at least `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;

    /// Returns 64 unpredictable bits, which spread callers over time and make ids.
    fn random(&self) -> u64;
}

/// The number of an executor: see [`Spawn::executor`].
pub(crate) type Executor = Option<u64>;

/// An executor that can spawn tasks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no executor that runs tasks",
    note = "pass `lockage::runtime::Tokio`, `AsyncStd` or `Smol`, each of a feature of its name, or an executor of your own"
)]
pub trait Spawn: Runtime {
    /// Runs `task`. It may be dropped with the executor, before its end.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Returns a number of the executor on which [`spawn`](Self::spawn) would run a task that this thread spawned now;
    /// `None` if there is none. By default, it is the only one.
    ///
    /// Executors that end, or have threads of their own, need different numbers: background work of one is then not
    /// left to another.
    fn executor(&self) -> Option<u64> {
        Some(0)
    }
}

/// Returns the output of `future`, or `None` after `patience`. The future is polled once before the timer, and once
/// more when time is up: a call that was not sent returns that then.
pub(crate) async fn within<R: Runtime, F: Future>(
    runtime: &R,
    patience: Duration,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut sleep = pin!(runtime.sleep(patience));
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        std::task::ready!(sleep.as_mut().poll(context));
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Returns two draws, the bits of an id.
pub(crate) fn random_bits(random: impl Fn() -> u64) -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}

/// Returns the time since this process first asked, for runtimes without a clock of their own.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub(crate) fn since_start() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// A runtime whose time does not pass.
#[cfg(test)]
#[derive(Clone)]
pub(crate) struct Still;

#[cfg(test)]
impl Runtime for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }

    fn random(&self) -> u64 {
        0
    }
}
