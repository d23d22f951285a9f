//! Work whose answer is taken in time, or undone.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// The way to the caller who waits for an answer.
pub(crate) struct Delivery<T>(oneshot::Sender<(T, oneshot::Sender<()>)>);

impl<T> Delivery<T> {
    /// Returns whether nobody waits for the answer any more.
    pub(crate) fn is_vain(&self) -> bool {
        self.0.is_closed()
    }

    /// Gives the answer to its caller, and returns whether the caller took it: neither was the deadline past, nor the
    /// caller gone.
    pub(crate) async fn deliver(self, answer: T) -> bool {
        let (taken, is_taken) = oneshot::channel();
        self.0.send((answer, taken)).is_ok() && is_taken.await.is_ok()
    }
}

/// Returns the answer of the work; `None` after the deadline. The work goes on to its end, whatever becomes of its caller.
pub(crate) async fn answered<T, F>(
    works: &TaskTracker,
    deadline: Option<Instant>,
    work: impl FnOnce(Delivery<T>) -> F,
) -> Option<T>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (deliver, mut delivered) = oneshot::channel();
    let mut work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(work(Delivery(deliver)));
    // Work that waits for nothing, as in memory, needs no task.
    let ended = poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready())).await;
    if let Ok((answer, taken)) = delivered.try_recv() {
        // The work is done but for this.
        let _ = taken.send(());
        return Some(answer);
    }
    if !ended {
        works.spawn(work);
    }
    let answer = match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), delivered).await.ok()?,
        None => delivered.await,
    };
    let (answer, taken) = answer.ok()?;
    taken.send(()).ok()?;
    Some(answer)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    /// Counts answers that were not taken.
    async fn work(delivery: Delivery<u32>, steps: u32, undone: Arc<AtomicU32>) {
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        if !delivery.deliver(7).await {
            undone.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn an_answer_is_taken_or_undone_at_whatever_step_its_caller_leaves() {
        for steps in 0..4 {
            for polls in 0..8 {
                let (works, undone) = (TaskTracker::new(), Arc::new(AtomicU32::new(0)));
                let counter = Arc::clone(&undone);
                let mut answer = Box::pin(answered(&works, None, |it| work(it, steps, counter)));
                let mut taken = None;
                for _ in 0..polls {
                    let polled =
                        poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
                    if let Poll::Ready(answer) = polled {
                        taken = answer;
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                drop(answer);
                works.close();
                works.wait().await;
                let was_undone = undone.load(Ordering::Relaxed) == 1;
                assert_eq!(
                    taken.is_none() && polls > 0,
                    was_undone,
                    "{steps} steps, {polls} polls"
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_after_the_deadline_is_undone() {
        let (works, undone) = (TaskTracker::new(), Arc::new(AtomicU32::new(0)));
        let counter = Arc::clone(&undone);
        let deadline = tokio::time::Instant::now() + Duration::from_millis(20);
        let slow = |delivery: Delivery<u32>| async move {
            tokio::time::sleep(Duration::from_millis(21)).await;
            work(delivery, 0, counter).await;
        };
        assert_eq!(answered(&works, Some(deadline.into()), slow).await, None);
        assert_eq!(tokio::time::Instant::now(), deadline);
        works.close();
        works.wait().await;
        assert_eq!(undone.load(Ordering::Relaxed), 1);
    }
}
