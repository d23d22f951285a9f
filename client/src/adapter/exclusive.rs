//! Connections of which each call has one to itself.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Idle, Renewed, Verdict};

/// The longest that a server is asked to wait for its replicas.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// As many connections as there are calls at one time. A call that holds up what comes after it on its
/// connection holds up no other one. Clones share the connections.
pub struct Exclusive<C, E> {
    another: Arc<dyn Fn() -> Renewed<C, E> + Send + Sync>,
    idle: Arc<Idle<Renewed<C, E>>>,
}

impl<C, E> Exclusive<C, E>
where
    C: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// None yet. Where all are in use, there is one more by `another`.
    pub fn new(another: impl Fn() -> Renewed<C, E> + Send + Sync + 'static) -> Self {
        Exclusive { another: Arc::new(another), idle: Arc::default() }
    }

    /// As [`Renewed::with`], of a connection that nobody else uses meanwhile.
    pub async fn with<T, F>(&self, call: impl FnOnce(Result<C, E>) -> F + Send) -> T
    where
        F: Future<Output = (T, Verdict)> + Send,
    {
        let connection = self.idle.take().unwrap_or_else(|| (self.another)());
        let taken = Taken { all: self, connection };
        taken.connection.with(call).await
    }
}

/// A connection that goes back, whatever becomes of the call: it may still be in the making, and it is
/// for itself to know whether it is lost.
struct Taken<'a, C, E> {
    all: &'a Exclusive<C, E>,
    connection: Renewed<C, E>,
}

impl<C, E> Drop for Taken<'_, C, E> {
    fn drop(&mut self) {
        self.all.idle.give(self.connection.clone(), Verdict::Good);
    }
}

impl<C, E> Clone for Exclusive<C, E> {
    fn clone(&self) -> Self {
        Exclusive { another: Arc::clone(&self.another), idle: Arc::clone(&self.idle) }
    }
}

impl<C, E> fmt::Debug for Exclusive<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").field("idle", &self.idle).finish_non_exhaustive()
    }
}

/// What a call waits for once its command is done: see [`Replicated`](crate::Replicated).
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgement {
    replicas: u32,
    deadline: Instant,
}

impl Acknowledgement {
    /// So many replicas, for so long from now on.
    pub fn new(replicas: u32, patience: Duration) -> Self {
        Acknowledgement { replicas, deadline: Instant::now() + patience.min(LONGEST) }
    }

    /// How many.
    pub fn replicas(self) -> u32 {
        self.replicas
    }

    /// How long is left, in whole milliseconds: at least one, as none at all is for ever to the server.
    pub fn left(self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now()).as_millis();
        // Invariant: it is no longer than a day.
        Duration::from_millis(u64::try_from(left).expect("no longer than a day").max(1))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Waker};

    use futures_util::FutureExt;

    use super::*;

    /// Numbers its connections.
    fn numbered() -> Exclusive<u32, ()> {
        let count = Arc::new(AtomicU32::new(0));
        Exclusive::new(move || {
            let count = Arc::clone(&count);
            Renewed::new(move || {
                let count = Arc::clone(&count);
                async move { Ok(count.fetch_add(1, Ordering::Relaxed) + 1) }
            })
        })
    }

    fn used(all: &Exclusive<u32, ()>, verdict: Verdict) -> u32 {
        pollster::block_on(all.with(async |made| (made.unwrap(), verdict)))
    }

    #[test]
    fn one_call_at_a_time_has_a_connection() {
        let all = numbered();
        let outer = pollster::block_on(all.with(async |made| {
            assert_eq!(used(&all, Verdict::Good), 2);
            assert_eq!(used(&all, Verdict::Good), 2, "it is kept");
            (made.unwrap(), Verdict::Good)
        }));
        assert_eq!(outer, 1);
        assert_eq!(used(&all, Verdict::Lost), 1);
        assert_eq!(used(&all, Verdict::Good), 3, "it is made anew in its place");
    }

    #[test]
    fn a_call_that_is_dropped_leaves_its_connection() {
        let all = numbered();
        let mut dropped = Box::pin(all.with(async |made| {
            assert_eq!(made, Ok(1));
            std::future::pending::<((), Verdict)>().await
        }));
        assert!(dropped.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(used(&all, Verdict::Good), 2);
        drop(dropped);
        assert_eq!(used(&all, Verdict::Good), 1);
    }

    #[test]
    fn a_server_is_never_asked_to_wait_for_ever() {
        for patience in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let left = Acknowledgement::new(1, patience).left();
            assert!((Duration::from_millis(1)..=LONGEST).contains(&left), "{left:?}");
        }
    }
}
