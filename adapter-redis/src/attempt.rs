//! One attempt to connect, for all callers that wait for it, in whatever runtime.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::future::BoxFuture;
#[cfg(feature = "tokio")]
use tokio::{runtime::Handle, task::JoinHandle};

use crate::clock::now;
use crate::link::{Link, LinkError};

/// Makes the futures by which a client connects.
pub(crate) type Make<C> = dyn Fn() -> Making<C> + Send + Sync;
pub(crate) type Making<C> = BoxFuture<'static, Result<C, LinkError>>;

/// A connection, and the runtime that it was made in.
///
/// A client's tasks end with that runtime, and its users in other runtimes are not notified.
#[derive(Clone)]
pub(crate) struct Made<C> {
    pub(crate) connection: C,
    /// When making it began. Its age is unknown outside of tokio, where no task may have polled it.
    pub(crate) begun: Instant,
    /// A task that ends with the runtime.
    #[cfg(feature = "tokio")]
    lodger: Option<Arc<Task<()>>>,
}

impl<C: Link + Clone> Made<C> {
    /// Returns the connection that was made.
    pub(crate) fn of(made: &Result<Self, LinkError>) -> Result<C, LinkError> {
        made.as_ref().map(|made| made.connection.clone()).map_err(LinkError::clone)
    }
}

impl<C: Link> Made<C> {
    /// Returns whether the connection or its runtime is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        #[cfg(feature = "tokio")]
        if self.lodger.as_ref().is_some_and(|task| task.0.is_finished()) {
            return true;
        }
        self.connection.has_ended()
    }
}

/// A task that is aborted when this is dropped.
#[cfg(feature = "tokio")]
struct Task<T>(JoinHandle<T>);

#[cfg(feature = "tokio")]
impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An attempt to connect, which begins when it is polled.
///
/// Each tokio runtime whose callers wait connects by a task of its own, and the first connection is taken. A runtime
/// may end or rest before it has connected, and polling its timers from another one would panic then. Outside of tokio,
/// callers poll the client's future.
pub(crate) struct Attempt<C> {
    make: Arc<Make<C>>,
    places: Vec<(Place, Making<Made<C>>)>,
}

/// A runtime, or `None` outside of tokio: other executors serve a whole process.
#[cfg(feature = "tokio")]
type Place = Option<tokio::runtime::Id>;
#[cfg(not(feature = "tokio"))]
type Place = Option<std::convert::Infallible>;

impl<C: Link + 'static> Attempt<C> {
    pub(crate) fn new(make: Arc<Make<C>>) -> Self {
        Attempt { make, places: Vec::new() }
    }

    fn connect_here(&mut self) {
        #[cfg(feature = "tokio")]
        let runtime = Handle::try_current().ok();
        #[cfg(feature = "tokio")]
        let place = runtime.as_ref().map(Handle::id);
        #[cfg(not(feature = "tokio"))]
        let place = None;
        if self.places.iter().any(|(other, _)| *other == place) {
            return;
        }
        let making = (self.make)();
        let begun = now();
        #[cfg(feature = "tokio")]
        let made = move |connection, lodger| Made { connection, begun, lodger };
        #[cfg(feature = "tokio")]
        let connecting: Making<Made<C>> = match runtime {
            None => Box::pin(async move { making.await.map(|connection| made(connection, None)) }),
            Some(runtime) => {
                let mut task = Task(runtime.spawn(async move {
                    let lodger = Some(Arc::new(Task(tokio::spawn(std::future::pending()))));
                    making.await.map(|connection| made(connection, lodger))
                }));
                Box::pin(async move { (&mut task.0).await.map_err(LinkError::not_sent)? })
            }
        };
        #[cfg(not(feature = "tokio"))]
        let connecting: Making<Made<C>> =
            Box::pin(async move { making.await.map(|connection| Made { connection, begun }) });
        self.places.push((place, connecting));
    }
}

const ENDED: &str = "the connection ended as soon as it was made";

impl<C: Link + 'static> Future for Attempt<C> {
    type Output = Result<Made<C>, LinkError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.connect_here();
        let mut failed = None;
        let mut index = 0;
        while let Some((_, connecting)) = self.places.get_mut(index) {
            match connecting.as_mut().poll(context) {
                Poll::Pending => index += 1,
                Poll::Ready(Ok(made)) if !made.has_ended() => return Poll::Ready(Ok(made)),
                Poll::Ready(over) => {
                    drop(self.places.swap_remove(index));
                    failed = Some(over.err().unwrap_or_else(|| LinkError::not_sent(ENDED)));
                }
            }
        }
        match failed {
            Some(error) if self.places.is_empty() => Poll::Ready(Err(error)),
            _ => Poll::Pending,
        }
    }
}

#[cfg(all(test, feature = "tokio", not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt;
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    /// Connects at once but for the first time, which takes for ever.
    fn first_one_hangs() -> Attempt<u32> {
        let count = AtomicU32::new(0);
        Attempt::new(Arc::new(move || match count.fetch_add(1, Ordering::Relaxed) {
            0 => std::future::pending().boxed(),
            number => std::future::ready(Ok(number)).boxed(),
        }))
    }

    #[test]
    fn an_attempt_goes_on_in_another_runtime_when_its_own_one_ends_or_rests() {
        for ends in [true, false] {
            let (first, second, attempt) = (runtime(), runtime(), first_one_hangs().shared());
            let begun = attempt.clone();
            assert!(first.block_on(async { begun.now_or_never() }).is_none());
            let rests = (!ends).then_some(first);
            let made = second.block_on(attempt).unwrap();
            assert_eq!(made.connection, 1, "ends: {ends}");
            assert!(!made.has_ended());
            drop((rests, second));
            assert!(made.has_ended(), "with the runtime that made it");
        }
    }

    #[test]
    fn a_failure_in_one_runtime_leaves_the_attempt_to_the_other() {
        let (first, second) = (runtime(), runtime());
        let (count, gate) = (AtomicU32::new(0), Arc::new(AtomicU32::new(0)));
        let opened = Arc::clone(&gate);
        let attempt = Attempt::<u32>::new(Arc::new(move || {
            let (number, gate) = (count.fetch_add(1, Ordering::Relaxed), Arc::clone(&opened));
            std::future::poll_fn(move |context| {
                context.waker().wake_by_ref();
                match (number, gate.load(Ordering::Relaxed)) {
                    (0, 1..) => Poll::Ready(Err(LinkError::not_sent("refused"))),
                    (1, 2..) => Poll::Ready(Ok(number)),
                    _ => Poll::Pending,
                }
            })
            .boxed()
        }));
        let attempt = attempt.shared();
        let look = |runtime: &Runtime| {
            runtime.block_on(async {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                attempt.clone().now_or_never()
            })
        };
        assert!(look(&first).is_none() && look(&second).is_none());
        gate.store(1, Ordering::Relaxed);
        first.block_on(tokio::task::yield_now());
        assert!(look(&second).is_none());
        gate.store(2, Ordering::Relaxed);
        assert_eq!(second.block_on(attempt.clone()).unwrap().connection, 1);
    }

    /// A connection that is not made in time, and one that is dropped, leave no task.
    #[test]
    fn tasks_end_with_the_attempt_and_with_the_connection() {
        let runtime = runtime();
        let tasks = || {
            runtime.block_on(tokio::task::yield_now());
            runtime.metrics().num_alive_tasks()
        };
        let mut begun = first_one_hangs().boxed();
        assert!(runtime.block_on(async { (&mut begun).now_or_never() }).is_none());
        assert_eq!(tasks(), 2, "one connects, and one ends with its runtime");
        drop(begun);
        assert_eq!(tasks(), 0);
        let connects = || std::future::ready(Ok(1)).boxed();
        let made = runtime.block_on(Attempt::<u32>::new(Arc::new(connects)));
        assert_eq!(tasks(), 1);
        drop(made);
        assert_eq!(tasks(), 0);
    }

    #[test]
    fn results_from_an_ended_runtime_are_discarded() {
        let (first, second) = (runtime(), runtime());
        let count = AtomicU32::new(0);
        let make = move || std::future::ready(Ok(count.fetch_add(1, Ordering::Relaxed))).boxed();
        let attempt = Attempt::<u32>::new(Arc::new(make)).shared();
        let begun = attempt.clone();
        // The task is over before anything looks for its result.
        first.block_on(async {
            assert!(begun.now_or_never().is_none());
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        });
        drop(first);
        assert_eq!(second.block_on(attempt).unwrap().connection, 1);
    }

    #[test]
    fn an_attempt_fails_with_the_last_place_that_fails() {
        let refused = || std::future::ready(Err(LinkError::not_sent("refused"))).boxed();
        let attempt = Attempt::<u32>::new(Arc::new(refused)).shared();
        let error = runtime().block_on(attempt).err().unwrap();
        assert_eq!(error.to_string(), "refused");
        let attempt = Attempt::<u32>::new(Arc::new(refused));
        assert!(pollster::block_on(attempt).is_err(), "outside of tokio");
    }
}
