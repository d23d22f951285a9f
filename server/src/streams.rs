//! Requests of a connection of HTTP/2, handled by the task of the connection: their answers leave in one write.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;

type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes the requests that a connection begins. Clones are of the same connection.
#[derive(Clone, Default)]
pub(crate) struct Begun(Arc<Mutex<Vec<Request>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, request: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(request));
    }
}

/// The requests of one connection.
pub(crate) struct Streams {
    begun: Begun,
    running: FuturesUnordered<Request>,
}

impl Streams {
    pub(crate) fn new(begun: Begun) -> Self {
        Streams { begun, running: FuturesUnordered::new() }
    }

    /// Polls the connection and its requests until none of them can go on.
    pub(crate) fn poll<C: Future>(
        &mut self,
        mut connection: Pin<&mut C>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        loop {
            if let ended @ Poll::Ready(_) = connection.as_mut().poll(context) {
                return ended;
            }
            self.running.extend(std::mem::take(
                &mut *self.begun.0.lock().unwrap_or_else(PoisonError::into_inner),
            ));
            let mut has_answers = false;
            while let Poll::Ready(Some(())) = Pin::new(&mut self.running).poll_next(context) {
                has_answers = true;
            }
            if !has_answers {
                return Poll::Pending;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn all_that_can_be_answered_is_before_the_connection_writes() {
        let begun = Begun::default();
        let (mut streams, mut answers) = (Streams::new(begun.clone()), Vec::new());
        let done = Arc::new(Mutex::new(0));
        let connection = poll_fn(|_| {
            answers.push(*done.lock().unwrap());
            if answers.len() == 1 {
                begun.execute(pending());
                for _ in 0..3 {
                    let done = Arc::clone(&done);
                    begun.execute(async move { *done.lock().unwrap() += 1 });
                }
            }
            if answers.len() == 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut connection = pin!(connection);
        poll_fn(|context| streams.poll(connection.as_mut(), context)).await;
        assert_eq!(answers, [0, 3]);
        // Without an answer the connection is not polled again.
        begun.execute(ready(()));
        let idle = poll_fn(|context| Poll::Ready(streams.poll(pin!(pending::<()>()), context)));
        assert!(idle.await.is_pending());
    }
}
