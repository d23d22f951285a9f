//! Requests of a connection of HTTP/2, handled by the task of the connection: their answers leave in one write.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream};
use hyper::rt::Executor;

type Request = BoxFuture<'static, ()>;

/// Takes the requests that a connection begins. Clones are of the same connection.
#[derive(Clone, Default)]
pub(crate) struct Begun(Arc<Mutex<Vec<Request>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, request: F) {
        // The others go on after a panic of one.
        let request = AssertUnwindSafe(request).catch_unwind().map(drop).boxed();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
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
    use std::future::{pending, poll_fn};
    use std::pin::pin;

    use super::*;

    /// Counts the requests that were answered whenever the connection is polled, which begins some at first.
    async fn answered(begin: impl Fn(&Begun, &Arc<Mutex<u32>>)) -> Vec<u32> {
        let (begun, done) = (Begun::default(), Arc::new(Mutex::new(0)));
        let (mut streams, mut answers) = (Streams::new(begun.clone()), Vec::new());
        let mut connection = pin!(poll_fn(|_| {
            answers.push(*done.lock().unwrap());
            if answers.len() == 1 {
                begin(&begun, &done);
            }
            Poll::<()>::Pending
        }));
        let polled = poll_fn(|context| Poll::Ready(streams.poll(connection.as_mut(), context)));
        assert!(polled.await.is_pending());
        answers
    }

    fn answer(begun: &Begun, done: &Arc<Mutex<u32>>) {
        let done = Arc::clone(done);
        begun.execute(async move { *done.lock().unwrap() += 1 });
    }

    #[tokio::test]
    async fn all_that_can_be_answered_is_before_the_connection_writes() {
        let three = answered(|begun, done| {
            begun.execute(pending());
            (0..3).for_each(|_| answer(begun, done));
        });
        assert_eq!(three.await, [0, 3]);
        // Without an answer there is nothing to write.
        assert_eq!(answered(|begun, _| begun.execute(pending())).await, [0]);
    }

    #[tokio::test]
    async fn a_request_that_panics_ends_no_other() {
        let one = answered(|begun, done| {
            begun.execute(async { panic!("a fault of one request") });
            answer(begun, done);
        });
        assert_eq!(one.await, [0, 1]);
    }
}
